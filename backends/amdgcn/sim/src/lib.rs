//! A simulator of AMD CDNA code objects.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod check;
mod chip;
mod decode;
mod exec;
mod fault;
mod isa;
mod num;
mod object;
mod report;
mod run;
mod state;

pub use chip::Chip;
pub use fault::{Counter, Fault, FaultKind, LaunchError, Rule, Shared, Site, Use};
pub use object::{Argument, ArgumentKind, Descriptor, Kernel, LoadError, Module};
pub use report::{Costs, Report};
pub use run::{Launch, SimConfig};
pub use state::memory::{Init, Memory, MemoryError};

/// The text and the dwords of the first instruction of some machine code; `None` if it is none that is known.
pub fn disassemble(chip: Chip, words: &[u32]) -> Option<(String, usize)> {
    let fetch = |a: u64| usize::try_from(a / 4).ok().and_then(|i| words.get(i).copied());
    let inst = decode::decode(chip, 0, &fetch).ok()?;
    Some((inst.to_string(), inst.words.len()))
}
