//! One way to run a kernel on any device: what the tool, the file tests and the acceptance cases share.
//!
//! ```text
//!           ┌─ interp     the definition
//!           ├─ schedule   the program that it is scheduled as for a target, by the definition
//! Kernel ───┼─ lane       the lane program of a target, in the lane interpreter
//!           ├─ sim        the target's text, in the simulator
//!           ├─ cuda       the target's text, on hardware
//!           └─ hip        the target's code object, on hardware
//! ```

use std::fmt;
use std::rc::Rc;
use tilelift::runtime::sim::{Report, SimConfig, SimDevice, SimFailure};
use tilelift::{CompileError, Options, compile, lower};
use tilelift_interp::{self as interp, Arg, InterpError, Memory};
use tilelift_ir::{Kernel, Verified};
use tilelift_isel::{Target, lane};

/// Where a kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum DeviceKind {
    /// The reference interpreter.
    Interp,
    /// The reference interpreter, on what kernels are scheduled as.
    Schedule,
    /// The lane interpreter.
    Lane,
    /// The simulator of the text.
    Sim,
    /// CUDA hardware.
    Cuda,
    /// AMD hardware, through HIP.
    Hip,
}

impl DeviceKind {
    /// Every kind.
    pub const ALL: &'static [DeviceKind] =
        &[DeviceKind::Interp, DeviceKind::Schedule, DeviceKind::Lane, DeviceKind::Sim, DeviceKind::Cuda, DeviceKind::Hip];
    /// The word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            DeviceKind::Interp => "interp",
            DeviceKind::Schedule => "schedule",
            DeviceKind::Lane => "lane",
            DeviceKind::Sim => "sim",
            DeviceKind::Cuda => "cuda",
            DeviceKind::Hip => "hip",
        }
    }
    /// The kind of that word.
    pub fn from_word(word: &str) -> Option<DeviceKind> {
        DeviceKind::ALL.iter().copied().find(|k| k.word() == word)
    }
    /// True for the devices that run a subset of the grid when asked to; hardware runs it all.
    pub const fn samples(self) -> bool {
        !self.is_hardware()
    }
    /// True for hardware.
    pub const fn is_hardware(self) -> bool {
        matches!(self, DeviceKind::Cuda | DeviceKind::Hip)
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Why a kernel did not run to its end.
#[derive(Clone, PartialEq, Debug)]
pub enum ExecError {
    /// It did not compile.
    Compile(CompileError),
    /// The interpreter stopped.
    Interp(InterpError),
    /// The lane interpreter stopped.
    Lane(String),
    /// The simulator stopped.
    Sim(SimFailure),
    /// The CUDA device stopped, or there is none.
    #[cfg(feature = "cuda")]
    Cuda(tilelift::runtime::cuda::CudaError),
    /// The HIP device stopped, or there is none.
    #[cfg(feature = "hip")]
    Hip(tilelift::runtime::hip::HipError),
    /// The device runs no code for that target.
    Target {
        /// The device.
        kind: DeviceKind,
        /// The target.
        target: &'static str,
    },
    /// The device was not built in.
    NotBuilt(DeviceKind),
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExecError::Compile(e) => e.fmt(f),
            ExecError::Interp(e) => e.fmt(f),
            ExecError::Lane(e) => f.write_str(e),
            ExecError::Sim(e) => e.fmt(f),
            #[cfg(feature = "cuda")]
            ExecError::Cuda(e) => e.fmt(f),
            #[cfg(feature = "hip")]
            ExecError::Hip(e) => e.fmt(f),
            ExecError::Target { kind, target } => {
                let other = if *kind == DeviceKind::Cuda { DeviceKind::Hip } else { DeviceKind::Cuda };
                write!(f, "device `{kind}` runs no code for {target}; choose `--device {other}` or `--device sim`")
            }
            ExecError::NotBuilt(kind) => write!(f, "device `{kind}` is not built in; build with the feature of that name"),
        }
    }
}

impl std::error::Error for ExecError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ExecError::Compile(e) => Some(e),
            ExecError::Interp(e) => Some(e),
            ExecError::Sim(e) => Some(e),
            #[cfg(feature = "cuda")]
            ExecError::Cuda(e) => Some(e),
            #[cfg(feature = "hip")]
            ExecError::Hip(e) => Some(e),
            ExecError::Lane(_) | ExecError::Target { .. } | ExecError::NotBuilt(_) => None,
        }
    }
}

impl From<CompileError> for ExecError {
    fn from(e: CompileError) -> ExecError {
        ExecError::Compile(e)
    }
}
impl From<SimFailure> for ExecError {
    fn from(e: SimFailure) -> ExecError {
        ExecError::Sim(e)
    }
}
#[cfg(feature = "cuda")]
impl From<tilelift::runtime::cuda::CudaError> for ExecError {
    fn from(e: tilelift::runtime::cuda::CudaError) -> ExecError {
        ExecError::Cuda(e)
    }
}

#[cfg(feature = "hip")]
impl From<tilelift::runtime::hip::HipError> for ExecError {
    fn from(e: tilelift::runtime::hip::HipError) -> ExecError {
        ExecError::Hip(e)
    }
}

/// A launch over host memory.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The grid.
    pub grid: [u32; 3],
    /// The arguments.
    pub args: &'a [Arg],
    /// Run these programs only, on devices that can ([`DeviceKind::samples`]).
    pub programs: Option<&'a [[u32; 3]]>,
    /// Seed of schedules, for the simulator.
    pub seed: u64,
    /// Rounds of one `while` that the interpreters allow; besides, the reference interpreter allows [`OPERATIONS`] element operations and
    /// [`INSTRUCTIONS`] instructions per round, the lane interpreter as many thread instructions, the simulator [`SIM_INSTRUCTIONS`] warp instructions. Their defaults if
    /// absent; hardware has no limit.
    pub steps: Option<u64>,
    /// Options of the compile.
    pub options: &'a Options,
}

/// Operations that the interpreters allow for each round of [`Launch::steps`]: an op of the kernel takes one for each of its elements, a
/// product one for each multiply-add; an instruction of a lane program one for each thread.
pub const OPERATIONS: u64 = 4096;
/// Instructions that the reference interpreter allows for each round of [`Launch::steps`].
pub const INSTRUCTIONS: u64 = 16;
/// Warp instructions that the simulator allows for each round of [`Launch::steps`].
pub const SIM_INSTRUCTIONS: u64 = 100;

/// A device that is ready to run kernels.
pub enum Executor {
    /// The reference interpreter.
    Interp,
    /// The same, on what kernels are scheduled as for a target.
    Schedule(Target),
    /// The lane interpreter for a target.
    Lane(Target),
    /// The simulator for a target.
    Sim(Target),
    /// Hardware.
    #[cfg(feature = "cuda")]
    Cuda {
        /// The device.
        device: tilelift::runtime::cuda::CudaDevice,
        /// The target that suits it, or the one asked for.
        target: Target,
    },
    /// AMD hardware.
    #[cfg(feature = "hip")]
    Hip {
        /// The device.
        device: tilelift::runtime::hip::HipDevice,
        /// The target that suits it, or the one asked for.
        target: Target,
    },
}

impl Executor {
    /// Opens a device. `target` chooses what to compile for; without it, hardware chooses its best target, other devices `sm_80`.
    ///
    /// # Errors
    /// No such device, or one that runs no code for the target.
    pub fn open(kind: DeviceKind, target: Option<&Target>) -> Result<Executor, ExecError> {
        let usual = || tilelift::targets::usual();
        let wanted = || target.cloned().unwrap_or_else(usual);
        // What the driver has to say of itself would lead astray.
        if let Some(t) = target.filter(|t| kind.is_hardware() && (kind == DeviceKind::Hip) != tilelift::targets::has_objects(t)) {
            return Err(ExecError::Target { kind, target: t.name });
        }
        Ok(match kind {
            DeviceKind::Interp => Executor::Interp,
            DeviceKind::Schedule => Executor::Schedule(wanted()),
            DeviceKind::Lane => Executor::Lane(wanted()),
            DeviceKind::Sim => Executor::Sim(wanted()),
            #[cfg(feature = "cuda")]
            DeviceKind::Cuda => {
                let device = tilelift::runtime::cuda::CudaDevice::new(0)?;
                let best = device.target_name().and_then(tilelift::targets::by_name).unwrap_or_else(usual);
                // Products are shared out by what the device has.
                let target = target.cloned().unwrap_or(best).with_multiprocessors(device.facts()?.multiprocessors);
                Executor::Cuda { device, target }
            }
            #[cfg(feature = "hip")]
            DeviceKind::Hip => {
                let device = tilelift::runtime::hip::HipDevice::new(0)?;
                let best = || device.target_name().and_then(tilelift::targets::by_name);
                let Some(target) = target.cloned().or_else(best) else {
                    use tilelift::runtime::hip::HipError;
                    let wanted = tilelift::targets::NAMES.iter().filter_map(|n| tilelift::targets::by_name(n));
                    let artifact = wanted.into_iter().find(tilelift::targets::has_objects).map_or_else(String::new, |t| t.name.to_owned());
                    return Err(HipError::Target { artifact, arch: device.arch().to_owned() }.into());
                };
                let target = target.with_multiprocessors(device.facts()?.compute_units);
                Executor::Hip { device, target }
            }
            #[cfg(not(feature = "hip"))]
            DeviceKind::Hip => return Err(ExecError::NotBuilt(kind)),
            #[cfg(not(feature = "cuda"))]
            DeviceKind::Cuda => return Err(ExecError::NotBuilt(kind)),
        })
    }

    /// The kind.
    pub fn kind(&self) -> DeviceKind {
        match self {
            Executor::Interp => DeviceKind::Interp,
            Executor::Schedule(_) => DeviceKind::Schedule,
            Executor::Lane(_) => DeviceKind::Lane,
            Executor::Sim(_) => DeviceKind::Sim,
            #[cfg(feature = "cuda")]
            Executor::Cuda { .. } => DeviceKind::Cuda,
            #[cfg(feature = "hip")]
            Executor::Hip { .. } => DeviceKind::Hip,
        }
    }

    /// What it is, for people.
    pub fn describe(&self) -> String {
        match self {
            Executor::Interp => "the reference interpreter".into(),
            Executor::Schedule(t) => format!("the reference interpreter, on schedules for {}", t.name),
            Executor::Lane(t) => format!("the lane interpreter ({})", t.name),
            Executor::Sim(t) => format!("the simulator ({})", t.name),
            #[cfg(feature = "cuda")]
            Executor::Cuda { device, target } => format!("{} ({})", device.name(), target.name),
            #[cfg(feature = "hip")]
            Executor::Hip { device, target } => format!("{} ({})", device.name(), target.name),
        }
    }

    /// The target that kernels are compiled for; the interpreter has none.
    pub fn target(&self) -> Option<&Target> {
        match self {
            Executor::Interp => None,
            Executor::Schedule(t) | Executor::Lane(t) | Executor::Sim(t) => Some(t),
            #[cfg(feature = "cuda")]
            Executor::Cuda { target, .. } => Some(target),
            #[cfg(feature = "hip")]
            Executor::Hip { target, .. } => Some(target),
        }
    }

    /// Compiles a kernel for the device and runs it over host memory; the simulator returns what it counted.
    ///
    /// # Errors
    /// Whatever keeps the kernel from running to its end.
    pub fn run(&self, kernel: &Kernel, launch: &Launch<'_>, memory: &mut Memory) -> Result<Option<Report>, ExecError> {
        self.prepare_for(kernel, launch.options, launch.programs.is_some())?.run(launch, memory)
    }

    /// Compiles and loads a kernel, to run it as often as one likes.
    ///
    /// # Errors
    /// A kernel that is wrong, does not compile or does not load.
    pub fn prepare<'a>(&'a self, kernel: &'a Kernel, options: &Options) -> Result<Prepared<'a>, ExecError> {
        self.prepare_for(kernel, options, false)
    }

    /// The same, to run all programs, or samples of them: then each works at the position at which it is launched, and not at another one for the sake of
    /// caches.
    ///
    /// # Errors
    /// A kernel that is wrong, does not compile or does not load.
    pub fn prepare_for<'a>(&'a self, kernel: &'a Kernel, options: &Options, sampled: bool) -> Result<Prepared<'a>, ExecError> {
        let dealt = |target: &Target| Target {
            dies: target.dies.filter(|_| !sampled),
            begins_in_order: target.begins_in_order && !sampled,
            ..target.clone()
        };
        Ok(match self {
            Executor::Interp => Prepared::Interp(tilelift_ir::verify(kernel).map_err(CompileError::Verify)?),
            Executor::Schedule(target) => {
                let scheduled = match lower(kernel, &dealt(target), options)?.written {
                    Some(Ok(made)) => made,
                    // It is as it was written, or its schedule is no program.
                    Some(Err(_)) | None => Rc::new(kernel.clone()),
                };
                Prepared::Schedule(scheduled)
            }
            Executor::Lane(target) => Prepared::Lane { kernel, target, program: Rc::new(lower(kernel, &dealt(target), options)?.program) },
            Executor::Sim(target) => Prepared::Sim(Rc::new(compile(kernel, &dealt(target), options)?)),
            #[cfg(feature = "cuda")]
            Executor::Cuda { device, target } => {
                let mut options = options.clone();
                options.emit.max_version.get_or_insert(device.facts()?.ptx_version());
                Prepared::Cuda { device, kernel: Box::new(device.load(&compile(kernel, target, &options)?)?) }
            }
            #[cfg(feature = "hip")]
            Executor::Hip { device, target } => {
                Prepared::Hip { device, kernel: Box::new(device.load(&compile(kernel, target, options)?)?) }
            }
        })
    }
}

/// A kernel that is ready to run on a device.
pub enum Prepared<'a> {
    /// For the reference interpreter.
    Interp(Verified<'a>),
    /// For the same: the program that a kernel is scheduled as.
    Schedule(Rc<Kernel>),
    /// For the lane interpreter.
    Lane {
        /// What was compiled.
        kernel: &'a Kernel,
        /// What for.
        target: &'a Target,
        /// What came out.
        program: Rc<lane::Program>,
    },
    /// For the simulator, which reads the text at each launch.
    Sim(Rc<tilelift::Artifact>),
    /// For hardware.
    #[cfg(feature = "cuda")]
    Cuda {
        /// Where it is loaded.
        device: &'a tilelift::runtime::cuda::CudaDevice,
        /// The loaded kernel.
        kernel: Box<tilelift::runtime::cuda::CudaKernel>,
    },
    /// For AMD hardware.
    #[cfg(feature = "hip")]
    Hip {
        /// Where it is loaded.
        device: &'a tilelift::runtime::hip::HipDevice,
        /// The loaded kernel.
        kernel: Box<tilelift::runtime::hip::HipKernel>,
    },
}

impl Prepared<'_> {
    /// Runs over host memory; the simulator returns what it counted. The launch's options play no part.
    ///
    /// # Errors
    /// Whatever keeps the kernel from running to its end.
    pub fn run(&self, launch: &Launch<'_>, memory: &mut Memory) -> Result<Option<Report>, ExecError> {
        let Launch { grid, args, programs, seed, steps, options: _ } = *launch;
        match self {
            Prepared::Interp(verified) => interpret(verified, launch, memory)?,
            Prepared::Schedule(kernel) => interpret(&tilelift_ir::verify(kernel).map_err(CompileError::Verify)?, launch, memory)?,
            Prepared::Lane { kernel, target, program } => {
                interp::check_args(kernel, args, memory).map_err(|e| ExecError::Interp(e.into()))?;
                let usual = lane::LaneOptions::default();
                let fuel = steps.map_or(usual.fuel, |n| n.saturating_mul(OPERATIONS));
                let programs = programs.map(<[_]>::to_vec);
                let options = lane::LaneOptions { programs, steps: steps.unwrap_or(usual.steps), fuel, ..usual };
                lane::interpret(program, target, grid, args, memory, &options).map_err(|e| ExecError::Lane(e.to_string()))?;
            }
            Prepared::Sim(artifact) => {
                let linear = |p: &[u32; 3]| p[0] + grid[0] * (p[1] + grid[1] * p[2]);
                let base = SimDevice::schedule(seed);
                let ctas = programs.map(|list| list.iter().map(linear).collect());
                let max_instructions = steps.map_or(base.max_instructions, |n| n.saturating_mul(SIM_INSTRUCTIONS));
                let device = SimDevice::new(SimConfig { ctas, max_instructions, ..base });
                let loaded = device.load(artifact)?;
                return Ok(Some(device.execute(&loaded, grid, args, memory)?));
            }
            #[cfg(feature = "cuda")]
            Prepared::Cuda { device, kernel } => device.execute(kernel, grid, args, memory)?,
            #[cfg(feature = "hip")]
            Prepared::Hip { device, kernel } => device.execute(kernel, grid, args, memory)?,
        }
        Ok(None)
    }
}

/// A launch on the reference interpreter.
fn interpret(verified: &Verified<'_>, launch: &Launch<'_>, memory: &mut Memory) -> Result<(), ExecError> {
    let Launch { grid, args, programs, steps, .. } = *launch;
    let usual = interp::Options::default();
    let fuel = steps.map_or(usual.fuel, |n| n.saturating_mul(OPERATIONS));
    let programs = programs.map(<[_]>::to_vec);
    let instructions = steps.map_or(usual.instructions, |n| n.saturating_mul(INSTRUCTIONS));
    let options = interp::Options { programs, steps: steps.unwrap_or(usual.steps), fuel, instructions, ..usual };
    interp::interpret(verified, grid, args, memory, &options).map(|_| ()).map_err(ExecError::Interp)
}
