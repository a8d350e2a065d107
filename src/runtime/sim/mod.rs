//! The simulators as a device: they run an artifact's text, or its code object, anywhere.
//!
//! Buffers of host memory become buffers of the simulated device; a buffer that counts as uninitialised is poison there too. What
//! the kernel must not do on any hardware (races, reads of poison, accesses outside a buffer, divergent barriers, deadlocks) ends
//! the launch with an error that names the instruction.

mod amdgcn;
mod amdgcn_record;
mod failure;
mod memory;

use crate::artifact::Artifact;
use crate::launch::{GridRule, check, marshal};
use memory::{Contents, copied_in, written_back};
use tilelift_amdgcn_sim as amd;
use tilelift_interp::{Arg, Memory};
use tilelift_isel::abi::ParamValue;
use tilelift_nvptx_sim as ptx;

pub use failure::SimFailure;
pub use tilelift_nvptx_sim::{Landing, Policy, Recording, Report, SimConfig, SiteReport};

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
        self.run(kernel, grid, (args, memory), None)
    }

    /// As [`SimDevice::execute`], and takes down what warps waited for and what was in flight, up to a fault if there is one. Waves of code objects take
    /// turns then, an instruction each, if the policy is [`Policy::Lockstep`].
    ///
    /// # Errors
    /// As [`SimDevice::execute`].
    pub fn execute_recorded(
        &self,
        kernel: &SimKernel,
        grid: [u32; 3],
        args: &[Arg],
        memory: &mut Memory,
        recording: &mut Recording,
    ) -> Result<Report, SimFailure> {
        self.run(kernel, grid, (args, memory), Some(recording))
    }

    fn run(
        &self,
        kernel: &SimKernel,
        grid: [u32; 3],
        (args, memory): (&[Arg], &mut Memory),
        record: Option<&mut Recording>,
    ) -> Result<Report, SimFailure> {
        let artifact = &kernel.artifact;
        check(artifact, args, &memory.buffers.iter().map(|b| b.len() as u64).collect::<Vec<_>>()).map_err(SimFailure::Args)?;
        // No positions: nothing to do, and nothing is wrong.
        if !GridRule::has_work(grid) {
            return Ok(Report::default());
        }
        let Some(instances) = artifact.grid_rule().instances(grid) else {
            return Err(SimFailure::Positions { grid, positions: artifact.positions });
        };
        if !instances[0].is_multiple_of(artifact.cluster.max(1)) {
            return Err(SimFailure::Cluster { grid, cluster: artifact.cluster });
        }
        let launched = launched(artifact, instances, self.config.ctas.is_some());
        let module = match &kernel.module {
            Module::Ptx(module) => module,
            Module::Amdgcn(module) => {
                return amdgcn::execute(module, artifact, (grid, launched), (args, memory), (&self.config, record));
            }
        };
        let mut device = ptx::Memory::new();
        let bases = copied_in(args, memory, &mut |name, contents| match contents {
            Contents::Bytes(bytes) => device.alloc(name, ptx::Init::Bytes(bytes.to_vec())),
            Contents::Undefined(len) => device.alloc(name, ptx::Init::Uninit(len)),
        });
        let values = marshal(artifact, grid, args, |buffer, offset| bases[buffer] + offset).map_err(|e| SimFailure::Abi(e.into()))?;
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
        let done = match record {
            Some(recording) => module.launch_recorded(&launch, &mut device, recording),
            None => module.launch(&launch, &mut device),
        };
        let report = done.map_err(|e| SimFailure::Run(Box::new(e)))?;
        let is_written = |base, len| device.is_written(base, len);
        written_back(memory, &bases, is_written, |base, into| device.copy_written(base, into)).map_err(SimFailure::Memory)?;
        Ok(report)
    }
}

/// Multiprocessors of the simulated device: few, so that instances run several grid positions in small tests, too.
const MULTIPROCESSORS: u32 = 3;

/// The grid that is launched, of instances: where they run several positions of the asked one, a row of them. Chosen positions get an instance each.
fn launched(artifact: &Artifact, grid: [u32; 3], chosen: bool) -> [u32; 3] {
    let all = grid.iter().copied().fold(1, u32::saturating_mul);
    match (artifact.grid_rule().persistent, chosen) {
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
