//! The plan: what is decided before layouts, because layouts depend on it.

mod admit;
mod buffers;
mod explicit;
mod lanes;
mod loads;
mod locals;
mod overlap;
mod registers;
mod ring_layouts;
mod slots;
mod specialise;
mod swizzled_tile;
mod turns;

pub use admit::admit;
pub use buffers::{BufferLayout, Handle, Part, allocation, handle};
pub use explicit::{Explicit, TaskRole, needs_units, tasks};
pub use lanes::Fetches;
pub use loads::{keeps_extents, ring_loads, staged_loads};
pub use locals::Locals;
pub use overlap::{Overlap, is_zero};
pub use registers::IdleWarps;
pub use ring_layouts::{EpilogueStore, RingLayouts, is_panels, is_view, value_at};
pub use slots::{FetchedRing, slots};
pub use specialise::Specialised;
pub use specialise::{MAX_DEPTH, behind_reshapes, budget, trace};
pub use swizzled_tile::{ALIGN, SwizzledTile};
pub(crate) use turns::{alike, slice, slice_by};

use crate::error::{LowerError, Unmet};
use crate::reason::{NotSpecialised, Remedy, Resource, Unsupported};
use std::fmt;
use std::rc::Rc;
use tilelift_ir::{Inst, Kernel, Op, Scalar, Type};
use tilelift_lane::Target;

/// What the caller pins; the kernel's own hints come next, then the defaults here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct LowerOptions {
    /// Warps per program instance.
    pub warps: Option<u32>,
    /// Stages of pipelined loops, slots of a specialised one's ring; 1 turns pipelining off.
    pub stages: Option<u32>,
    /// How main loops run.
    pub schedule: Option<ScheduleKind>,
    /// Warpgroups that compute, of a specialised kernel.
    pub consumers: Option<u32>,
    /// Consumer sets of a specialised kernel that take grid positions in ping-pong, each with consumers of its own.
    pub consumer_sets: Option<u32>,
    /// Whether an instance of a specialised kernel runs several grid positions.
    pub persistent: Option<bool>,
    /// Whether products of a specialised loop run while lanes compute between them.
    pub overlap: Option<bool>,
    /// Whether a launch may begin while the one in front of it ends, where the target has that. Numbers do not depend on it.
    pub early_launch: Option<bool>,
    /// Bytes of the rows of panels in which operands of a specialised loop wait.
    pub swizzle: Option<u32>,
    /// Whether operands A of a specialised loop's dots go from the ring through registers.
    pub a_from_registers: Option<bool>,
    /// Whether results of a specialised loop leave by bulk copies, where those take them.
    pub bulk_stores: Option<bool>,
    /// How layouts are chosen.
    pub layouts: LayoutChoice,
    /// Tasks whose work together is not proved are lowered none the less.
    pub unproven: bool,
}

/// How the layouts of tiles are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum LayoutChoice {
    /// Dots and accesses propose, the first proposal spreads.
    #[default]
    Spread,
    /// Equality saturation over layouts, conversions and their places, by machine cost.
    Searched,
    /// As searched, with random prices from a seed: any layouts that are equal, for tests.
    Random(u64),
}

/// How the main loop of a kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ScheduleKind {
    /// All warps copy and compute; copies run some iterations ahead.
    Pipelined,
    /// One warp copies, the others compute.
    Specialised,
}

/// How the main loop runs, decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// See [`ScheduleKind::Pipelined`].
    Pipelined {
        /// Why it is not specialised.
        why: Box<NotSpecialised>,
    },
    /// See [`ScheduleKind::Specialised`].
    Specialised(Rc<Specialised>),
    /// As the author says.
    Explicit(Rc<Explicit>),
}

/// Decisions for a kernel on a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Warps that compute per program instance, a power of two; of a specialised kernel those of the consumers.
    pub warps: u32,
    /// Stages of pipelined loops, at least 1.
    pub stages: u32,
    /// How the main loop runs.
    pub schedule: Schedule,
}

impl Plan {
    /// The specialised schedule, if it is that.
    pub fn specialised(&self) -> Option<&Rc<Specialised>> {
        match &self.schedule {
            Schedule::Specialised(s) => Some(s),
            Schedule::Pipelined { .. } | Schedule::Explicit(_) => None,
        }
    }

    /// The explicit schedule, if it is that.
    pub fn explicit(&self) -> Option<&Rc<Explicit>> {
        match &self.schedule {
            Schedule::Explicit(e) => Some(e),
            Schedule::Pipelined { .. } | Schedule::Specialised(_) => None,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schedule {
            Schedule::Pipelined { why } => write!(f, "pipelined: {} warps, {} stages (not specialised: {why})", self.warps, self.stages),
            Schedule::Specialised(s) => s.fmt(f),
            Schedule::Explicit(e) => e.fmt(f),
        }
    }
}

/// Stages when nobody asks: enough to cover global latency at the usual tile sizes.
const DEFAULT_STAGES: u32 = 3;

/// Bytes of its largest tile that a lane should hold at most, when the number of warps is free.
const TILE_BYTES_PER_LANE: u64 = 64;

/// Decides the number of warps and stages.
///
/// # Errors
/// What the target lacks for explicit control, more warps than the target runs, or a number that is no power of two.
pub fn plan(kernel: &Kernel, target: &Target, options: &LowerOptions) -> Result<Plan, LowerError> {
    plan_with(kernel, target, options, &RingLayouts::default())
}

/// The same with forms of a specialised loop, where the kernel's author leaves them open.
///
/// # Errors
/// As [`plan`].
pub fn plan_with(kernel: &Kernel, target: &Target, options: &LowerOptions, forms: &RingLayouts) -> Result<Plan, LowerError> {
    let specialise = || {
        let forms = RingLayouts::required(kernel)?.or(&RingLayouts::asked(kernel, options)).or(forms);
        let found = specialise::specialise(kernel, target, options, &forms)?;
        admit(target, &found)?;
        Ok(found)
    };
    let explicit = kernel.is_explicit();
    let why = match (options.schedule, options.warps) {
        _ if explicit => None,
        (Some(ScheduleKind::Pipelined), _) => Some(NotSpecialised::Asked),
        (None, Some(warps)) => Some(NotSpecialised::Warps { warps }),
        (Some(ScheduleKind::Specialised), _) | (None, None) => match specialise() {
            Ok(s) => {
                let warps = s.consumers * target.units.as_ref().map_or(1, |u| u.group_warps);
                return Ok(Plan { warps, stages: s.depth, schedule: Schedule::Specialised(Rc::new(s)) });
            }
            Err(why) if options.schedule.is_some() => {
                let refused = panels_refused(kernel, Some(&why));
                return Err(refused.unwrap_or_else(|| LowerError::NotSpecialised { why: Box::new(why), loc: Default::default() }));
            }
            Err(why) => Some(why),
        },
    };
    if let Some(e) = panels_refused(kernel, why.as_ref()) {
        return Err(e);
    }
    let warps = match options.warps.or(kernel.hints.warps) {
        Some(w) => w,
        None => default_warps(kernel, target),
    };
    if !warps.is_power_of_two() {
        return Err(Unsupported::Warps(warps).into());
    }
    if warps > target.max_warps {
        return Err(LowerError::ResourceExceeded {
            resource: Resource::Warps,
            need: u64::from(warps),
            have: u64::from(target.max_warps),
            remedy: Box::new(Remedy::Warps),
            loc: Default::default(),
        });
    }
    let stages = options.stages.or(kernel.hints.stages).unwrap_or(DEFAULT_STAGES).max(1);
    let Some(why) = why else {
        let e = explicit::explicit(kernel, target, options, warps)?;
        return Ok(Plan { warps: e.warps, stages: 1, schedule: Schedule::Explicit(Rc::new(e)) });
    };
    Ok(Plan { warps, stages, schedule: Schedule::Pipelined { why: Box::new(why) } })
}

/// Panels are those of bulk copies in a specialised loop: an error if there are some and no such loop, and why; no reason stands for a kernel
/// with tasks.
fn panels_refused(kernel: &Kernel, why: Option<&NotSpecialised>) -> Option<LowerError> {
    let sites = ring_layouts::panel_sites(kernel);
    // The one that is named, if one is.
    let values = why.map(NotSpecialised::values).unwrap_or_default();
    let named = |i: &&Inst| kernel.insts[**i].args.iter().chain(&kernel.insts[**i].results).any(|v| values.contains(v));
    let &site = sites.iter().find(named).or(sites.first())?;
    let what = tilelift_ir::require::spec(kernel, site).map(ToString::to_string).unwrap_or_default();
    let why = Box::new(why.map_or(Unmet::Tasks, |why| Unmet::NotSpecialised(Box::new(why.clone()))));
    let other = "the schedule, which is not specialised; require another swizzle width, or none".to_owned();
    Some(LowerError::Requirement { what, why, other, loc: kernel.locs[site] })
}

fn default_warps(kernel: &Kernel, target: &Target) -> u32 {
    let mut bytes = 0;
    let mut dot = false;
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        dot |= d.op == Op::Dot;
        for &r in &d.results {
            if let Type::Tile(t) = kernel.ty(r)
                && t.elem != Scalar::I1
            {
                bytes = bytes.max(t.elements() * u64::from(t.elem.bytes()));
            }
        }
    });
    // Accumulators live in registers all along: a dot may hold four times as much per lane.
    let per_warp = TILE_BYTES_PER_LANE * u64::from(target.lanes) * if dot { 8 } else { 1 };
    let want = (bytes / per_warp).max(1).next_power_of_two() as u32;
    want.clamp(if dot { 4 } else { 1 }, target.max_warps.min(if dot { 8 } else { 16 }))
}
