//! The order of instructions, and what has to stand between them: waits for memory, and wait states.
//!
//! ```text
//! Program ─ schedule ─► (allocation) ─► Allocated ─ branches ─► priorities ─► waits ─► hazards ─► Program
//! ```
//!
//! Waits come first, since each is a wait state, too.

mod branches;
mod class;
mod flow;
mod hazards;
mod orders;
mod priority;
mod schedule;
#[cfg(test)]
mod tests;
mod waits;
mod words;

pub(crate) use orders::Orders;
pub use orders::schedule_and_allocate;
pub use schedule::schedule;

use crate::alloc::Allocated;
use crate::mir::Program;

/// Makes an allocated program ready to be printed or encoded: with priorities, waits and wait states, and without
/// branches to the next instruction.
pub fn finish(allocated: Allocated) -> Program {
    let mut program = allocated.program;
    branches::remove(&mut program);
    priority::insert(&mut program, allocated.facts);
    waits::insert(&mut program);
    hazards::insert(&mut program);
    program
}
