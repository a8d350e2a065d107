//! The order of instructions, and what has to stand between them: waits for memory, and wait states.
//!
//! ```text
//! Program ─ schedule ─► (allocation) ─► Allocated ─ scratch ─ out of line ─ branches ─► priorities ─► waits ─► hazards ─► bridges ─► Program
//! ```
//!
//! Waits come first, since each is a wait state, too; how far branches go is known when all else is there.

mod branches;
mod bridges;
mod class;
mod flow;
mod graph;
mod hazards;
mod latency;
mod orders;
mod out_of_line;
mod ping_pong;
mod priority;
mod replay;
mod schedule;
mod scratch;
#[cfg(test)]
mod tests;
mod waits;
mod words;

pub use orders::schedule_and_allocate;
pub(crate) use orders::{Made, Order, Orders};
pub use schedule::schedule;

use crate::alloc::Allocated;
use crate::mir::Program;

/// Makes an allocated program ready to be printed or encoded: with scratch memory set up, with priorities, waits and wait states, without
/// branches to the next instruction, and with bridges for those that go far.
pub fn finish(allocated: Allocated) -> Program {
    let mut program = allocated.program;
    scratch::insert(&mut program);
    out_of_line::move_away(&mut program);
    branches::remove(&mut program);
    priority::insert(&mut program, allocated.facts);
    waits::insert(&mut program);
    hazards::insert(&mut program);
    bridges::insert(&mut program);
    program
}
