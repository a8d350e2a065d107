//! The physical stage of the optimizer, on this side: prices for the search over layouts, and its outcome as an assignment.
//!
//! ```text
//! Assignment (plain) ─► Problem ── tilelift_egraph::physical::solve ─► Solution ─► Assignment with runs and variants
//!                         prices: prices.rs, memory.rs, folds.rs
//! ```
//!
//! Of a kernel whose lanes copy ahead it is the program that is searched, as the compiler or its author wrote it: in which map the slots of a ring
//! lie is a layout of what is loaded from it, and goes back to the plan.
//!
//! The lowering makes each run of an instruction, operands and results in its layouts, and makes the conversions of a value where the
//! value is made. Whatever the search leaves open is done as the plain assignment says, and a value that is wanted in another layout
//! than it is there in is converted on demand: a choice can be slow, never wrong.

mod chains;
mod estimate;
mod folds;
mod held;
mod memory;
mod prices;
mod solve;
pub(crate) mod staging;

pub use estimate::seconds;
pub(crate) use estimate::{specialised, work};
pub(crate) use solve::{Search, is_searched, with_slots};
