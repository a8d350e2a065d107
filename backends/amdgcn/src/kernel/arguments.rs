//! Sizes of a launch.

use crate::mir::Program;

/// Threads of a workgroup.
pub fn threads(program: &Program) -> u32 {
    64 * program.waves
}

/// Bytes of the argument segment.
pub fn argument_bytes(program: &Program) -> u32 {
    program.args.iter().map(|a| a.offset + a.size).max().unwrap_or(0)
}
