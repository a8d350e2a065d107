//! What an embedded compiler may be told.

use crate::compile::{OptLevel, Options};
use std::fmt::Write;
use tilelift_ir::GridFacts;
use tilelift_isel::{ProofScope, ScheduleKind};

/// How main loops run, where the planner is not to choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Schedule {
    /// All warps copy and compute; copies run some iterations ahead.
    Pipelined,
    /// One warp copies, others multiply.
    Specialised,
}

/// What a compile is told, all of it part of the [key](crate::Key). The default lets the kernel's hints and the planner decide.
///
/// ```
/// use tilelift::{OptLevel, Settings};
/// let settings = Settings::new().opt_level(OptLevel::Physical).warps(8).max_ptx_version(8, 4);
/// # let _ = settings;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Settings {
    options: Options,
    together: Vec<Vec<(u32, u32)>>,
    in_place: Vec<(u32, u32)>,
}

impl Settings {
    /// The default.
    pub fn new() -> Settings {
        Settings::default()
    }
    /// How much the kernel is improved first.
    pub fn opt_level(mut self, level: OptLevel) -> Settings {
        self.options.opt = level;
        self
    }
    /// Warps per program instance.
    pub fn warps(mut self, warps: u32) -> Settings {
        self.options.lower.warps = Some(warps);
        self
    }
    /// Stages of pipelined loops, slots of a specialised one's ring; 1 turns pipelining off.
    pub fn stages(mut self, stages: u32) -> Settings {
        self.options.lower.stages = Some(stages);
        self
    }
    /// How main loops run.
    pub fn schedule(mut self, schedule: Schedule) -> Settings {
        self.options.lower.schedule = Some(match schedule {
            Schedule::Pipelined => ScheduleKind::Pipelined,
            Schedule::Specialised => ScheduleKind::Specialised,
        });
        self
    }
    /// Warpgroups that compute, of a specialised kernel; the planner's number with none. A plan of `tilelift_kernels` says it of a launch.
    pub fn consumers(mut self, consumers: impl Into<Option<u32>>) -> Settings {
        self.options.lower.consumers = consumers.into();
        self
    }
    /// Sets of so many consumers that take grid positions in ping-pong; the planner's number with none. A plan says it, too.
    pub fn consumer_sets(mut self, sets: impl Into<Option<u32>>) -> Settings {
        self.options.lower.consumer_sets = sets.into();
        self
    }
    /// Whether an instance of a specialised kernel runs several grid positions.
    pub fn persistent(mut self, persistent: bool) -> Settings {
        self.options.lower.persistent = Some(persistent);
        self
    }
    /// Whether a launch may begin while the one in front of it ends, where the target has that.
    pub fn early_launch(mut self, early: bool) -> Settings {
        self.options.lower.early_launch = Some(early);
        self
    }
    /// Whether schedules that the compiler writes are proved, as an author's tasks always are: for any number of iterations nobody waits for ever, nothing is
    /// read before it is there, or written while others still read it. A compile takes about twice as long. A loop whose schedule is not proved goes another way; a
    /// kernel that is not proved then, is refused.
    pub fn prove_schedules(mut self, prove: bool) -> Settings {
        self.options.lower.proof = if prove { ProofScope::All } else { ProofScope::Authors };
        self
    }
    /// What the grids of all launches are like, if that is known: an instance may stand for several neighbouring positions then, and loops of few
    /// programs load more steps ahead.
    pub fn grid(mut self, grid: impl Into<Option<GridFacts>>) -> Settings {
        self.options.grid = grid.into();
        self
    }
    /// Newest PTX version that the driver takes, such as 8, 4.
    pub fn max_ptx_version(mut self, major: u8, minor: u8) -> Settings {
        self.options.emit.max_version = Some((major, minor));
        self
    }
    /// Least program instances per multiprocessor to compile for.
    pub fn min_blocks(mut self, blocks: u32) -> Settings {
        self.options.emit.min_blocks = Some(blocks);
        self
    }
    /// Most registers per lane.
    pub fn max_registers(mut self, registers: u32) -> Settings {
        self.options.emit.max_registers = Some(registers);
        self
    }
    /// Extents that belong together, each a view argument and a dimension of it: the depth of both factors of a product. Launches check that they are
    /// equal, and changing one changes all.
    pub fn same_extent(mut self, extents: &[(u32, u32)]) -> Settings {
        self.together.push(extents.to_vec());
        self
    }
    /// An output is written in the place of an input: two view arguments of one type, for which launches have to pass the same view. The kernel is compiled
    /// so that both are one: what it writes is what it reads from then on, in the order of its instructions. Whether its programs disturb one another is its
    /// author's affair, as it is of every kernel that reads what it writes.
    pub fn in_place(mut self, output: u32, input: u32) -> Settings {
        self.in_place.push((output, input));
        self
    }

    pub(super) fn places(&self) -> &[(u32, u32)] {
        &self.in_place
    }
    pub(super) fn options(&self) -> &Options {
        &self.options
    }
    pub(super) fn together(&self) -> &[Vec<(u32, u32)>] {
        &self.together
    }
    /// All of it as text, for the key: what is told differently reads differently.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let _ = write!(text, "{:?} {:?} {:?}", self.options, self.together, self.in_place);
        text
    }
}
