//! The AMD backend: target tables, and lane programs to AMDGCN assembly and code objects.
//!
//! ```text
//! lane::Program ── select ─► mir::Program ── allocate ─► waits, hazards ─► text
//!                                                                        └► encode ─► object
//! ```
//!
//! A warp is a wavefront of 64 lanes here. The lane interpreter executes lane programs for these targets on any machine.

#![deny(missing_docs)]

pub mod alloc;
pub mod check;
pub mod chip;
mod emit;
pub mod encode;
pub mod isa;
pub mod kernel;
pub mod machine;
pub mod mir;
pub mod object;
pub mod order;
pub mod select;
#[cfg(test)]
mod testing;
pub mod text;

pub use chip::Chip;
pub use emit::{AmdKernel, EmitError, Spill, emit, spill};
pub use machine::{by_name, gfx90a, gfx942, gfx950};
