//! The NVIDIA backend: target tables, and lane programs to PTX text.
//!
//! ```text
//! lane::Program ── analysis: uses, addresses ─► intervals ─► webs (values that share a register)
//!                                                              │
//!                        rules: (op, type) ─► PTX lines ───────┴─► emit ─► PtxKernel { text, launch facts }
//! ```
//!
//! The text is deterministic, has one entry per module, uses 32-bit shared addresses and asks for the lowest PTX version that
//! its instructions need. Every float instruction says how it rounds, so the assembler may not contract.
//! Section names in comments are those of NVIDIA's "Parallel Thread Execution ISA".

#![deny(missing_docs)]

mod analysis;
mod class;
mod emit;
mod error;
mod rules;
mod spills;
mod target;

pub use emit::{EmitOptions, PtxKernel, emit};
pub use error::{Computation, EmitError, Invalid, Limit, NoText};
pub use rules::NoRule;
pub use spills::{Spill, spills};
pub use target::{by_name, sm_80, sm_89, sm_90a};
