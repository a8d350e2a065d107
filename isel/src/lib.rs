//! Lowering: from a verified tile kernel to a lane program.
//!
//! ```text
//! Verified ── plan ─► warps, stages ── assign ─► a layout per tile value ── lower ─► lane::Program ── a backend ─► text
//! ```
//!
//! The target is data ([`Target`]); no line here asks which vendor it is.

#![deny(missing_docs)]

pub mod abi;
mod access;
mod assign;
mod channel;
mod dots;
mod error;
mod facts;
mod hash;
pub mod lane;
mod lower;
mod number;
mod packed;
mod physical;
mod plan;
pub mod products;
mod protocol;
mod require;
mod schedule;
mod target;

pub use error::LowerError;
pub use lower::{Lowered, lower};
pub use physical::{Chosen, choose, foresee, seconds};
pub use plan::{LayoutChoice, LowerOptions, Plan, Schedule, ScheduleKind, Specialised, plan};
pub use protocol::{Proof, ProtocolError, prove, prove_by_all_states};
pub use schedule::Refusal;
pub use target::{BulkTensor, Costs, GroupMatrix, GroupMatrixId, Machine, MatrixId, MatrixInstr, RegisterPool, Target, Units};
