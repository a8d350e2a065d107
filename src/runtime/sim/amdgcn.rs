//! Code objects on the simulator of AMD's chips, with the surface of the device.

use super::amdgcn_record::{lines, told};
use super::failure::SimFailure;
use super::memory::{Contents, copied_in, written_back};
use crate::artifact::Artifact;
use crate::launch::{kernel_arguments, marshal};
use tilelift_amdgcn_sim as amd;
use tilelift_interp::{Arg, Memory};
use tilelift_nvptx_sim::{Policy, Recording, Report, SimConfig};

/// Runs a code object over host memory.
pub(super) fn execute(
    module: &amd::Module,
    artifact: &Artifact,
    (grid, launched): ([u32; 3], [u32; 3]),
    (args, memory): (&[Arg], &mut Memory),
    (config, record): (&SimConfig, Option<&mut Recording>),
) -> Result<Report, SimFailure> {
    let mut device = amd::Memory::new();
    let bases = copied_in(args, memory, &mut |name, contents| match contents {
        Contents::Bytes(bytes) => device.alloc(name, amd::Init::Bytes(bytes.to_vec())),
        Contents::Undefined(len) => device.alloc(name, amd::Init::Uninit(len)),
    });
    let values = marshal(artifact, grid, args, |buffer, offset| bases[buffer] + offset).map_err(|e| SimFailure::Abi(e.into()))?;
    let segment = kernel_arguments(&values).map_err(SimFailure::Argument)?;
    let launch = amd::Launch {
        kernel: &artifact.entry,
        grid: launched,
        block: [artifact.threads, 1, 1],
        // The descriptor asks for all of it.
        dynamic_lds: 0,
        args: &segment,
        config: amd::SimConfig {
            seed: config.seed,
            max_steps: config.max_instructions,
            workgroups: config.ctas.as_ref().map(|list| list.iter().map(|&n| u64::from(n)).collect()),
            order: if config.policy == Policy::Lockstep { amd::Order::Turns } else { amd::Order::Random },
            ..amd::SimConfig::default()
        },
    };
    let done = match record {
        Some(recording) => {
            let mut taken = amd::Recording::new();
            let done = module.launch_recorded(&launch, &mut device, &mut taken);
            *recording = told(&taken, &lines(module, artifact));
            done
        }
        None => module.launch(&launch, &mut device),
    };
    let report = done.map_err(SimFailure::Fault)?;
    let is_written = |base, len| device.is_written(base, len);
    written_back(memory, &bases, is_written, |base, into| device.copy_written(base, into)).map_err(SimFailure::DeviceMemory)?;
    Ok(counted(&report, u64::from(artifact.shared_bytes)))
}

/// Bytes of the pieces in which the simulator counts accesses of global memory, and of those in which a report does.
const PIECES: [u64; 2] = [64, 32];

/// What the simulator counts, as a device reports it: instructions by class, cycles of local data share as wavefronts.
fn counted(r: &amd::Report, shared_bytes: u64) -> Report {
    Report {
        instructions: r.instructions,
        by_opcode: r.classes().into_iter().filter(|c| c.1 > 0).map(|(name, n)| (name.to_owned(), n)).collect(),
        wavefronts: r.lds_cycles,
        ideal_wavefronts: r.lds_cycles - r.lds_conflict_cycles,
        sectors: r.global_transactions * PIECES[0] / PIECES[1],
        transactions: r.global_transactions,
        requested_bytes: r.global_bytes,
        shared_bytes,
        ..Report::default()
    }
}
