//! A recording of a code object's launch as that of a text's: waves are warps, instructions have the lines of the assembly.

use crate::artifact::Artifact;
use std::collections::BTreeMap;
use tilelift_amdgcn_sim::record::{Moves, What as Amd};
use tilelift_amdgcn_sim::{Module, Recording as AmdRecording};
use tilelift_nvptx_sim::{Event, Recording, Transfer, WaitFor, What};

/// The line of the assembly, from 1, of each address of the code: the text has the instructions in their order. None where it has not as many.
pub(super) fn lines(module: &Module, artifact: &Artifact) -> BTreeMap<u64, u32> {
    let begins = format!("{}:", artifact.entry);
    let body = artifact.text.lines().zip(1u32..).skip_while(|l| l.0 != begins).skip(1);
    // Labels stand at the margin, directives begin with a dot; the code ends where another section begins.
    let body = body.take_while(|l| !l.0.trim_start().starts_with(".section"));
    let code = |l: &(&str, u32)| l.0.starts_with(char::is_whitespace) && l.0.trim_start().starts_with(|c: char| c.is_ascii_lowercase());
    let lines: Vec<u32> = body.filter(code).map(|l| l.1).collect();
    let addresses = module.addresses(&artifact.entry);
    // What is behind the last instruction is padding.
    if addresses.len() < lines.len() { BTreeMap::new() } else { addresses.into_iter().zip(lines).collect() }
}

/// The same events, told as those of a text.
pub(super) fn told(taken: &AmdRecording, lines: &BTreeMap<u64, u32>) -> Recording {
    let mut made = Recording::new();
    (made.dropped, made.instructions) = (taken.dropped, taken.instructions);
    let mut waves: BTreeMap<u64, u32> = BTreeMap::new();
    for e in &taken.events {
        let block = e.group as u32;
        let mut push = |what| made.events.push(Event { at: e.at, block, line: lines.get(&e.pc).copied().unwrap_or(0), what });
        match e.what {
            Amd::Begin { waves: n } => {
                waves.insert(e.group, n);
                push(What::Begin { warps: n });
            }
            Amd::Waits { wave } => push(What::Blocked { warp: wave, on: WaitFor::Barrier(0) }),
            Amd::Passed => (0..waves.get(&e.group).copied().unwrap_or(0)).for_each(|warp| push(What::Resumed { warp })),
            Amd::Ended { wave } => push(What::Exited { warp: wave }),
            Amd::Issued { id, wave, moves, bytes } => {
                let transfer = match moves {
                    Moves::Load => Transfer::Load,
                    Moves::Store => Transfer::Store,
                    Moves::ToLds => Transfer::In,
                    Moves::Lds => Transfer::Shared,
                    Moves::Scalar => Transfer::Scalar,
                };
                push(What::TookOff { id, warp: wave, transfer, bytes });
            }
            Amd::Landed { id } => push(What::Landed { id }),
        }
    }
    made
}
