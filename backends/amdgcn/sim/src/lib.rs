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
