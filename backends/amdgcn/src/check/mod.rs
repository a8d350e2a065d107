//! Checkers of what the passes made. They share no code with the passes: what they know of instructions, they ask of the instruction table,
//! and what they know of the chips, they say themselves.
//!
//! * [`allocation()`]: every register that an instruction reads holds what the program before allocation read there.
//! * [`waits()`]: nothing is read or overwritten that a memory instruction still writes or reads.
//! * [`hazards()`]: as many wait states as the chip demands lie between instructions that it does not keep apart itself.
//! * [`barriers()`]: wavefronts that go ways of their own by their number meet as many barriers, far enough from one another.
//! * [`priorities()`]: what others wait for is done at the priority that kernels begin with.
//! * [`scratch()`]: scratch memory has its address before it is accessed.

mod allocation;
mod barriers;
mod effects;
mod hazards;
mod priority;
mod scratch;
mod waits;
mod walk;

pub use allocation::{AllocationFault, Misplaced, allocation};
pub use barriers::{BarrierFault, Drift, barriers};
pub use hazards::{HazardFault, hazards};
pub use priority::{PriorityFault, priorities};
pub use scratch::{ScratchFault, Unready, scratch};
pub use waits::{Early, WaitFault, waits};
