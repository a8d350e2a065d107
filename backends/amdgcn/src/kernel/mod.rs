//! What a kernel's descriptor and metadata say: computed once from the program, written as directives by the printer and as bytes by the
//! object writer.

mod metadata;
mod resources;

pub use metadata::{Node, metadata, target};
pub use resources::Resources;

use crate::mir::Program;

/// Threads of a workgroup.
pub fn threads(program: &Program) -> u32 {
    64 * program.waves
}

/// Bytes of the argument segment.
pub fn argument_bytes(program: &Program) -> u32 {
    program.args.iter().map(|a| a.offset + a.size).max().unwrap_or(0)
}
