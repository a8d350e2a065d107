//! The simulators as a device: they run an artifact's text, or its code object, anywhere.
//!
//! Buffers of host memory become buffers of the simulated device; a buffer that counts as uninitialised is poison there too. What
//! the kernel must not do on any hardware (races, reads of poison, accesses outside a buffer, divergent barriers, deadlocks) ends
//! the launch with an error that names the instruction.

mod amdgcn;
mod memory;

use crate::artifact::Artifact;
use memory::{Contents, copied_in, written_back};
use std::fmt;
use tilelift_amdgcn_sim as amd;
use tilelift_interp::{Arg, ArgError, Memory, check_args};
use tilelift_isel::abi::{AbiError, ParamValue, marshal};
use tilelift_isel::lane::{Param, persistent};
use tilelift_nvptx_sim as ptx;

pub use tilelift_nvptx_sim::{Landing, Policy, Report, SimConfig, SiteReport};

/// The simulator device.
#[derive(Clone, Debug, Default)]
pub struct SimDevice {
    /// Order of warps, landing of asynchronous copies, seed, budget, subset of the grid.
    pub config: SimConfig,
}

/// An artifact's text or code object, parsed and ready to launch.
pub struct SimKernel {
    module: Module,
    artifact: Artifact,
}

/// What a simulator runs.
enum Module {
    Ptx(ptx::Module),
    Amdgcn(amd::Module),
}

/// Why a launch on the simulator failed.
#[derive(Clone, PartialEq, Debug)]
pub enum SimFailure {
    /// The text does not parse, or uses an instruction that is not modelled.
    Parse(ptx::ParseError),
    /// The arguments break what the kernel's parameters promise.
    Args(ArgError),
    /// The arguments do not fill the launch parameters.
    Abi(AbiError),
    /// The text does something that no hardware defines.
    Run(Box<ptx::SimError>),
    /// A launch parameter that the simulator has no form of.
    Tensor(ptx::TensorMapError),
    /// The grid is no multiple of the kernel's clusters along x.
    Cluster {
        /// The grid.
        grid: [u32; 3],
        /// Program instances of a cluster.
        cluster: u32,
    },
    /// Simulated memory could not be read back.
    Memory(ptx::MemoryError),
    /// The code object is none, or not one that the simulator knows.
    Load(amd::LoadError),
    /// The code does something that no hardware defines.
    Fault(Box<amd::Fault>),
    /// Memory of the simulated AMD device could not be read back.
    DeviceMemory(amd::MemoryError),
}

impl fmt::Display for SimFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimFailure::Parse(e) => write!(f, "the simulator does not understand the text: {e}"),
            SimFailure::Args(e) => e.fmt(f),
            SimFailure::Abi(e) => e.fmt(f),
            SimFailure::Run(e) => e.fmt(f),
            SimFailure::Tensor(e) => write!(f, "the simulator does not take a launch parameter: {e}; run on hardware, or pipelined"),
            SimFailure::Cluster { grid, cluster } => {
                write!(f, "the grid {grid:?} is no multiple of clusters of {cluster} along x; pad it")
            }
            SimFailure::Memory(e) => e.fmt(f),
            SimFailure::Load(e) => write!(f, "the simulator does not take the code object: {e}"),
            SimFailure::Fault(e) => e.fmt(f),
            SimFailure::DeviceMemory(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for SimFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SimFailure::Parse(e) => Some(e),
            SimFailure::Args(e) => Some(e),
            SimFailure::Abi(e) => Some(e),
            SimFailure::Run(e) => Some(e),
            SimFailure::Tensor(e) => Some(e),
            SimFailure::Cluster { .. } => None,
            SimFailure::Memory(e) => Some(e),
            SimFailure::Load(e) => Some(e),
            SimFailure::Fault(e) => Some(e),
            SimFailure::DeviceMemory(e) => Some(e),
        }
    }
}

impl SimDevice {
    /// A device that schedules warps and lands copies as the configuration says.
    pub fn new(config: SimConfig) -> SimDevice {
        SimDevice { config }
    }

    /// A configuration per seed: order of warps and landing of copies vary with it, and three neighbouring seeds see all kinds.
    pub fn schedule(seed: u64) -> SimConfig {
        let (policy, landing) = match seed % 3 {
            0 => (Policy::Random, Landing::Lazy),
            1 => (Policy::Reverse, Landing::Random),
            _ => (Policy::Lockstep, Landing::Eager),
        };
        SimConfig { seed, policy, landing, ..SimConfig::default() }
    }

    /// Parses an artifact's code object, if it has one, else its text.
    ///
    /// # Errors
    /// [`SimFailure::Parse`], [`SimFailure::Load`].
    pub fn load(&self, artifact: &Artifact) -> Result<SimKernel, SimFailure> {
        let module = if artifact.object.is_empty() {
            Module::Ptx(ptx::Module::parse(&artifact.text).map_err(SimFailure::Parse)?)
        } else {
            Module::Amdgcn(amd::Module::load(&artifact.object).map_err(SimFailure::Load)?)
        };
        Ok(SimKernel { module, artifact: artifact.clone() })
    }

    /// Launches a kernel over host memory: copies the buffers in, runs the grid, and copies what was written back.
    ///
    /// # Errors
    /// Arguments that break promises, or the first thing the text does that no hardware defines; memory is untouched then.
    pub fn execute(&self, kernel: &SimKernel, grid: [u32; 3], args: &[Arg], memory: &mut Memory) -> Result<Report, SimFailure> {
        let artifact = &kernel.artifact;
        check_args(&artifact.kernel, args, memory).map_err(SimFailure::Args)?;
        if !grid[0].is_multiple_of(artifact.cluster.max(1)) {
            return Err(SimFailure::Cluster { grid, cluster: artifact.cluster });
        }
        let launched = launched(&artifact.params, grid, self.config.ctas.is_some());
        let module = match &kernel.module {
            Module::Ptx(module) => module,
            Module::Amdgcn(module) => return amdgcn::execute(module, artifact, (grid, launched), (args, memory), &self.config),
        };
        let mut device = ptx::Memory::new();
        let bases = copied_in(args, memory, &mut |name, contents| match contents {
            Contents::Bytes(bytes) => device.alloc(name, ptx::Init::Bytes(bytes.to_vec())),
            Contents::Undefined(len) => device.alloc(name, ptx::Init::Uninit(len)),
        });
        let values = marshal(&artifact.params, grid, args, |buffer, offset| bases[buffer] + offset).map_err(SimFailure::Abi)?;
        let params: Vec<ptx::Arg> = values.iter().map(param).collect::<Result<_, _>>()?;
        let launch = ptx::Launch {
            entry: &artifact.entry,
            grid: launched,
            block: [artifact.threads, 1, 1],
            shared_bytes: artifact.shared_bytes,
            args: &params,
            // As the driver launches it.
            config: SimConfig { early_launch: artifact.early_launch, ..self.config.clone() },
        };
        let report = module.launch(&launch, &mut device).map_err(|e| SimFailure::Run(Box::new(e)))?;
        let is_written = |base, len| device.is_written(base, len);
        written_back(memory, &bases, &is_written, &|base, len| device.read_unchecked(base, len)).map_err(SimFailure::Memory)?;
        Ok(report)
    }
}

/// Multiprocessors of the simulated device: few, so that instances run several grid positions in small tests, too.
const MULTIPROCESSORS: u32 = 3;

/// The grid that is launched: where instances run several positions of the asked one, a row of them. Chosen positions get an instance each.
fn launched(params: &[Param], grid: [u32; 3], chosen: bool) -> [u32; 3] {
    let all: u32 = grid.iter().product();
    match (persistent(params), chosen) {
        (false, _) => grid,
        (true, true) => [all, 1, 1],
        (true, false) => [all.min(MULTIPROCESSORS), 1, 1],
    }
}

/// A launch parameter as the simulator takes it.
fn param(v: &ParamValue) -> Result<ptx::Arg, SimFailure> {
    match v {
        ParamValue::Number { bits, size: 1 } => Ok(ptx::Arg::U8(*bits as u8)),
        ParamValue::Number { bits, size: 2 } => Ok(ptx::Arg::U16(*bits as u16)),
        ParamValue::Number { bits, size: 4 } => Ok(ptx::Arg::U32(*bits as u32)),
        ParamValue::Number { bits, .. } => Ok(ptx::Arg::U64(*bits)),
        ParamValue::Tensor(t) => {
            let element = ptx::MapElement::of(t.elem.name(), t.elem.bytes(), t.tf32);
            ptx::TensorMap::swizzled_box(t.base, element, &t.extents, &t.strides, &t.box_extents, t.swizzle)
                .map(|t| ptx::Arg::TensorMap(Box::new(t)))
                .map_err(SimFailure::Tensor)
        }
    }
}
