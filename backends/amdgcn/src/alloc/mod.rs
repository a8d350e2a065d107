//! Register allocation: virtual registers become physical ones.
//!
//! ```text
//! Program ─ remove what is unread ─► levels of exec ─► live rows per word ─► files ─┬──► bundles ─► places ─► rewrite
//!                                        ▲                                          ▼                 │
//!                                        └───────────────── spill ◄── more in use than there is       │
//!                                                             ▲                                       │
//!                                                             └──────────────── what has no place ◄───┘
//! ```
//!
//! Registers are not in SSA form: they may be written many times, by words, and under `exec` in some lanes only. Liveness is per 32-bit word
//! and knows which lanes a write reaches (`exec`). Copies vanish where source and result can be the same register (`bundle`). What finds
//! no place is spilled: scalars to lanes of a vector register, vector registers to the other file, then to scratch memory (`spill`).
//! What cannot find a place, since more is in use at a time than there are registers, is spilled before places are sought (`relieve`).
//!
//! All work is counted in steps (`fuel`): a program that takes too many is refused, on every machine the same.
//!
//! What a kernel finds in registers when it begins are physical registers that the program names ([`crate::mir::Entry`]); they keep their
//! places as long as they are read. `vcc`, `exec`, `m0` and `scc` are not given out.

mod assign;
mod between;
mod budget;
mod bundle;
mod clean;
mod deeds;
mod draft;
mod effects;
mod exec;
mod fuel;
mod live;
mod matrix;
mod needs;
mod owners;
mod plan;
mod pressure;
mod relieve;
mod result;
mod rewrite;
mod spill;
#[cfg(test)]
mod tests;
mod words;
mod work;

pub use draft::Draft;
pub use result::{AllocError, Allocated, Facts, Origin, Spills};

use crate::mir::Program;
use budget::Budget;
use fuel::Fuel;

/// Registers of both vector files that a lane of a workgroup of so many wavefronts may use.
pub(crate) fn registers(waves: u32) -> u32 {
    plan::pool(waves) as u32
}

/// Gives every virtual register a physical one.
///
/// # Errors
/// If the program is malformed, if even spilling finds no place, or if the work becomes too much.
pub fn allocate(program: Program) -> Result<Allocated, AllocError> {
    let budget = Budget::of(program.waves);
    allocate_within(program, budget, &Fuel::new(fuel::STEPS))
}

fn allocate_within(program: Program, budget: Budget, fuel: &Fuel) -> Result<Allocated, AllocError> {
    let draft = Draft::within(program, budget, fuel.clone())?;
    // Without a bound, there is always an answer.
    draft.finish(None)?.ok_or(AllocError::Spilling)
}
