//! Compilation: a pure function from a kernel to an artifact.
//!
//! ```text
//! Kernel ── verify ─► Verified ── optimise ─► Verified ── lower ─► lane::Program ── lane::verify ─► emit ─► Artifact
//!           Verify              Optimise               Lower                      Lower          Emit     the stage that an error names
//! ```
//!
//! No device, no clock in the result, no global state: the same kernel, target and options give the same bytes.

use crate::artifact::{Argument, Artifact, Param};
use crate::backend::{Backend, BackendRefusal};
use crate::targets;
use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, Instant};
use tilelift_amdgcn::EmitError as AmdEmitError;
use tilelift_amdgcn::alloc::AllocError;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{GridFacts, Kernel, Loc, Type, Verified, VerifiedKernel, VerifyErrors};
use tilelift_isel::{LayoutChoice, LowerError, LowerOptions, Lowered, Target, WiderForm, lane};
use tilelift_nvptx::{EmitError, EmitOptions, Invalid};

/// How much a kernel is improved before it is lowered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, PartialOrd, Ord)]
pub enum OptLevel {
    /// Not at all.
    None,
    /// Equality saturation over the tile program.
    #[default]
    Logical,
    /// That, and layouts chosen by equality saturation over the program in registers.
    Physical,
}

impl OptLevel {
    /// Every level, in order: a level's number is its position.
    pub const ALL: &'static [OptLevel] = &[OptLevel::None, OptLevel::Logical, OptLevel::Physical];

    /// The level at which a kernel is compiled best: layouts are searched, which takes no longer, unless it has products, whose loops have schedules
    /// with layouts of their own.
    pub fn suited(kernel: &Kernel) -> OptLevel {
        let mut products = false;
        kernel.walk(kernel.body, &mut |i| products |= matches!(kernel.insts[i].op, tilelift_ir::Op::Dot | tilelift_ir::Op::DotScaled));
        let level = if products { OptLevel::Logical } else { OptLevel::Physical };
        taken(Decision::Level, || Told::of(if products { "logical: it has products" } else { "physical: it has none" }));
        level
    }

    /// The level of a number.
    pub fn from_number(n: usize) -> Option<OptLevel> {
        OptLevel::ALL.get(n).copied()
    }
}

/// The kernel at a level; borrowed where nothing is to be done.
///
/// # Errors
/// The kernel breaks rules of the IR.
pub fn optimise(kernel: &Kernel, level: OptLevel) -> Result<Cow<'_, Kernel>, CompileError> {
    let better = improved(&tilelift_ir::verify(kernel)?, level);
    Ok(better.map_or(Cow::Borrowed(kernel), |made| Cow::Owned(made.into_kernel())))
}

/// The kernel at a level; `None` where nothing is to be done.
fn improved(kernel: &Verified<'_>, level: OptLevel) -> Option<VerifiedKernel> {
    match level {
        OptLevel::None => None,
        OptLevel::Logical | OptLevel::Physical => Some(tilelift_egraph::optimise(kernel, &tilelift_egraph::Options::default()).0),
    }
}

/// What a compile may be told. The default improves the tile program, and lets the kernel's hints and the planner decide.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How much the kernel is improved first.
    pub opt: OptLevel,
    /// Options of the lowering: warps, stages.
    pub lower: LowerOptions,
    /// Options of the text.
    pub emit: EmitOptions,
    /// What the grids of all launches are like, if that is known: instances may stand for several positions then, and loops of few programs load more
    /// steps ahead.
    pub grid: Option<GridFacts>,
}

impl Options {
    /// The options of the lowering at this level: from the physical one on, layouts are searched.
    pub fn lowering(&self) -> LowerOptions {
        let layouts = if self.opt >= OptLevel::Physical { LayoutChoice::Searched } else { self.lower.layouts };
        let programs = self.lower.programs.or(self.grid.map(|g| g.positions));
        LowerOptions { layouts, programs, ..self.lower }
    }
}

/// A stage of a compile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// The rules of the IR.
    Verify,
    /// Improving the tile program.
    Optimise,
    /// Tile to lane lowering.
    Lower,
    /// Checking the lane program, and printing the target's text.
    Emit,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: &'static [Stage] = &[Stage::Verify, Stage::Optimise, Stage::Lower, Stage::Emit];
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Verify => "verify",
            Stage::Optimise => "optimise",
            Stage::Lower => "lower",
            Stage::Emit => "emit",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Wall time per stage of one compile; a report beside the artifact, never part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StageTimes {
    times: [Duration; Stage::ALL.len()],
}

impl StageTimes {
    /// Time spent in a stage.
    pub fn of(&self, stage: Stage) -> Duration {
        self.times[stage as usize]
    }
    /// The sum over the stages.
    pub fn total(&self) -> Duration {
        self.times.iter().sum()
    }
    fn measure<T>(&mut self, stage: Stage, f: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let value = f();
        self.times[stage as usize] += start.elapsed();
        value
    }
}

impl fmt::Display for StageTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &stage in Stage::ALL {
            writeln!(f, "{:<8} {:>9.3} ms", stage.name(), self.of(stage).as_secs_f64() * 1e3)?;
        }
        write!(f, "{:<8} {:>9.3} ms", "total", self.total().as_secs_f64() * 1e3)
    }
}

/// Why there is no artifact.
#[derive(Clone, PartialEq, Debug)]
pub enum CompileError {
    /// The kernel breaks rules of the IR.
    Verify(VerifyErrors),
    /// The lowering refuses the kernel for this target: something is not supported, or a resource does not suffice.
    Lower(LowerError),
    /// The lowering made a malformed lane program: a bug of the compiler, reported instead of bad code.
    Lane(String),
    /// The text can't be printed for this target.
    Emit(EmitError),
    /// No code can be made for this AMD chip.
    Code(AmdEmitError),
    /// The kernel's values do not fit the registers of this AMD chip.
    Registers {
        /// Name of the kernel.
        kernel: String,
        /// Why.
        why: AllocError,
        /// Where the largest tile is made.
        loc: Loc,
    },
    /// No backend prints text for the target.
    NoBackend {
        /// The target.
        target: String,
    },
}

impl CompileError {
    /// The stage that failed.
    pub fn stage(&self) -> Stage {
        match self {
            CompileError::Verify(_) => Stage::Verify,
            CompileError::Lower(_) | CompileError::Lane(_) => Stage::Lower,
            CompileError::Emit(_) | CompileError::Code(_) | CompileError::Registers { .. } | CompileError::NoBackend { .. } => Stage::Emit,
        }
    }

    /// Where in the text, or in the program that built the kernel, the reason stands; line 0 if the error belongs to no line.
    pub fn loc(&self) -> Loc {
        match self {
            CompileError::Verify(e) => e.errors.first().map_or(Loc::default(), |e| e.loc),
            CompileError::Lower(e) => e.loc(),
            CompileError::Registers { loc, .. } => *loc,
            CompileError::Lane(_) | CompileError::Emit(_) | CompileError::Code(_) | CompileError::NoBackend { .. } => Loc::default(),
        }
    }

    /// A stable word for the kind of error, as file tests name it: `verify`, `unsupported`, `protocol`, `resource`, `internal`, `emit`, `target`.
    pub fn code(&self) -> &'static str {
        match self {
            CompileError::Verify(_) => "verify",
            CompileError::Lower(e) if e.is_protocol() => "protocol",
            CompileError::Lower(
                LowerError::Unsupported { .. }
                | LowerError::NotSpecialised { .. }
                | LowerError::NoBulkCopy { .. }
                | LowerError::NoProduct { .. },
            ) => "unsupported",
            CompileError::Lower(LowerError::Requirement { .. }) => "layout",
            CompileError::Lower(LowerError::ResourceExceeded { .. }) | CompileError::Registers { .. } => "resource",
            CompileError::Code(e) if e.is_resource() => "resource",
            CompileError::Lane(_) => "internal",
            CompileError::Emit(_) | CompileError::Code(_) => "emit",
            CompileError::NoBackend { .. } => "target",
        }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::Verify(e) => e.fmt(f),
            CompileError::Lower(e) => e.fmt(f),
            CompileError::Lane(e) => {
                write!(f, "the lowering made a malformed lane program ({e}); this is a bug of tilelift, please report the kernel")
            }
            CompileError::Emit(e) => e.fmt(f),
            CompileError::Code(e) => e.fmt(f),
            CompileError::Registers { kernel, why, .. } => {
                write!(f, "@{kernel} does not fit the registers: {why}; use more warps, smaller tiles, or an even extent")
            }
            CompileError::NoBackend { target } => {
                write!(f, "no backend prints text for {target}; targets with text are {}", targets::with_text().join(", "))
            }
        }
    }
}

impl std::error::Error for CompileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CompileError::Verify(e) => Some(e),
            CompileError::Lower(e) => Some(e),
            CompileError::Emit(e) => Some(e),
            CompileError::Code(e) => Some(e),
            CompileError::Registers { why, .. } => Some(why),
            CompileError::Lane(_) | CompileError::NoBackend { .. } => None,
        }
    }
}

impl From<VerifyErrors> for CompileError {
    fn from(e: VerifyErrors) -> CompileError {
        CompileError::Verify(e)
    }
}
impl From<LowerError> for CompileError {
    fn from(e: LowerError) -> CompileError {
        CompileError::Lower(e)
    }
}
impl CompileError {
    /// What a backend refuses of a kernel.
    fn refused(e: BackendRefusal, kernel: &Kernel) -> CompileError {
        match e {
            // The emission checks the program that it is given, and that was made here.
            BackendRefusal::Nvptx(EmitError::Invalid(Invalid::Program(e))) => CompileError::Lane(e.to_string()),
            BackendRefusal::Nvptx(e) => CompileError::Emit(e),
            BackendRefusal::Amdgcn(AmdEmitError::Allocate(why)) if why.is_resource() => {
                CompileError::Registers { kernel: kernel.name.clone(), why, loc: largest_tile(kernel) }
            }
            BackendRefusal::Amdgcn(e) => CompileError::Code(e),
        }
    }
}

/// Where a kernel makes the first of its largest tiles.
fn largest_tile(kernel: &Kernel) -> Loc {
    let mut largest = (0, Loc::default());
    kernel.walk(kernel.body, &mut |inst| {
        for &value in &kernel.insts[inst].results {
            if let Type::Tile(tile) = &kernel.values[value].ty
                && tile.elements() > largest.0
            {
                largest = (tile.elements(), kernel.locs[inst]);
            }
        }
    });
    largest.1
}

/// Compiles a kernel for a target. Pure: needs no device and touches no global state.
///
/// # Errors
/// The first stage that refuses the kernel, with its reasons.
pub fn compile(kernel: &Kernel, target: &Target, options: &Options) -> Result<Artifact, CompileError> {
    compile_timed(kernel, target, options).map(|(artifact, _)| artifact)
}

/// As [`compile`], and says how long each stage took.
///
/// # Errors
/// As [`compile`].
pub fn compile_timed(kernel: &Kernel, target: &Target, options: &Options) -> Result<(Artifact, StageTimes), CompileError> {
    let mut times = StageTimes::default();
    let verified = times.measure(Stage::Verify, || tilelift_ir::verify(kernel))?;
    let better = times.measure(Stage::Optimise, || improved(&verified, options.opt));
    let verified = better.as_ref().map_or(verified, VerifiedKernel::as_verified);
    let lowered = times.measure(Stage::Lower, || lowered_for_grid(&verified, target, options))?;
    let backend = Backend::of(target).ok_or_else(|| CompileError::NoBackend { target: target.name.to_owned() })?;
    let made = times.measure(Stage::Emit, || backend.emit(&lowered.program, target, &options.emit));
    let made = made.map_err(|e| CompileError::refused(e, kernel))?;
    let artifact = Artifact {
        key: None,
        name: kernel.name.clone(),
        target: target.name.to_owned(),
        text: made.text,
        object: made.object,
        entry: made.entry,
        threads: made.threads,
        shared_bytes: made.shared_bytes,
        early_launch: lowered.program.early_launch(),
        cluster: made.cluster.max(1),
        positions: lowered.program.positions,
        params: made.params.iter().map(Param::of_lane).collect(),
        arguments: Argument::of(kernel),
        together: Vec::new(),
        in_place: Vec::new(),
        schedule: schedule(&lowered, &verified),
    };
    Ok((artifact, times))
}

/// The kernel that runs, as a text; empty where that is the one that was given.
fn schedule(lowered: &Lowered, kernel: &Kernel) -> String {
    match &lowered.written {
        Some(Ok(written)) => tilelift_ir::text::print(written),
        None if kernel.is_explicit() => tilelift_ir::text::print(kernel),
        Some(Err(_)) | None => String::new(),
    }
}

/// Verifies and lowers a kernel to the checked lane program, the last stage that knows no vendor.
///
/// # Errors
/// As [`compile`], but never of the emission.
pub fn lower(kernel: &Kernel, target: &Target, options: &Options) -> Result<Lowered, CompileError> {
    let verified = tilelift_ir::verify(kernel)?;
    let better = improved(&verified, options.opt);
    let verified = better.as_ref().map_or(verified, VerifiedKernel::as_verified);
    let lowered = lowered_for_grid(&verified, target, options)?;
    lane::verify(&lowered.program, target).map_err(|e| CompileError::Lane(e.to_string()))?;
    Ok(lowered)
}

/// Forms of a kernel that are lowered at most, to find one that does not spill.
const FORMS: usize = 3;

/// Lowers a kernel as it is best for the grids of its launches, if they are known.
fn lowered_for_grid(kernel: &Verified<'_>, target: &Target, options: &Options) -> Result<Lowered, LowerError> {
    let form = form_for_grid(kernel, target, options);
    form.map_or_else(|| tilelift_isel::lower(kernel, target, &options.lowering()), |(_, lowered)| Ok(lowered))
}

/// The best form of a kernel for the grids of its launches, lowered, if they are known and it is another one: one whose lanes would spill is none.
fn form_for_grid(kernel: &Kernel, target: &Target, options: &Options) -> Option<(Kernel, Lowered)> {
    let lowering = options.lowering();
    let forms = tilelift_isel::wider_forms(kernel, target, &lowering, options.grid.as_ref()?);
    let lowered = |form: WiderForm| {
        let done = tilelift_isel::lower(&tilelift_ir::verify(form.kernel()).ok()?, target, &lowering).ok()?;
        let good = done.plan.specialised().is_some() && tilelift_nvptx::spills(&done.program, target).is_empty();
        good.then(|| (form.take(), done))
    };
    forms.into_iter().take(FORMS).find_map(lowered)
}

/// The kernel of which [`compile`] makes a schedule: improved, and for the grids of its launches, if they are known.
///
/// # Errors
/// The kernel breaks rules of the IR.
pub fn for_grid<'k>(kernel: &'k Kernel, target: &Target, options: &Options) -> Result<Cow<'k, Kernel>, CompileError> {
    let better = optimise(kernel, options.opt)?;
    Ok(form_for_grid(&better, target, options).map_or(better, |(form, _)| Cow::Owned(form)))
}
