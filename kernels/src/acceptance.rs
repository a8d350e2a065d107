//! Acceptance cases: one list that the interpreter, the simulators and the hardware all run.
//!
//! ```text
//!   case.make_tensors() ─► case.memory() ─► case.launches() in order ─► case.judge(tensors, memory, programs that ran)
//! ```
//! Inputs and tolerances are functions of the case alone, so two devices are judged by the same numbers. A slow device runs
//! [`Case::sample`] of a large case; the check then looks at the elements of these programs, and that the others kept their poison.

mod case;
mod list;
mod verdict;

pub use case::{Case, CaseLaunch, Size};
pub use list::cases;
pub use verdict::{CheckError, Verdict, Worst};

#[cfg(test)]
mod tests;
