//! Lowering: from a verified tile kernel to a lane program.
//!
//! ```text
//! Verified ── plan ─► warps, stages ── fit ─► loops written as programs, a layout per tile value ── lower ─► lane::Program ── a backend ─► text
//! ```
//!
//! The target is data ([`Target`]); no line here asks which vendor it is.

#![deny(missing_docs)]

mod chosen;
mod exposure;
mod fit;
mod layout;
mod lower;
mod pipeline;
mod placement;
mod wider;

pub use chosen::{Chosen, Declined, choose, estimate};
pub use exposure::{ESTIMATE, Exposure, LoopEstimate, LoopExposure, exposure};
pub use layout::kept::Layouts;
pub use layout::search::seconds;
pub use lower::Lowered;
pub use pipeline::{lower, lowered_programs, planned};
pub use placement::{MemoryPlace, Placement, TilePlace, placement};
pub use tilelift_lane as lane;
pub use tilelift_lane::{
    BulkTensor, Costs, Dies, GroupMatrix, GroupMatrixId, MatrixId, MatrixInstr, Rates, RegisterPool, Target, Units, abi,
};
pub use tilelift_protocol::{MOST_STEPS, Proof, ProtocolError, Spot, prove, prove_by_all_states};
pub use tilelift_schedule::plan::{IdleWarps, LayoutChoice, LowerOptions, Plan, ProofScope, Schedule, ScheduleKind, Specialised, plan};
pub use tilelift_schedule::program::Refusal;
pub use tilelift_schedule::wider::wider;
pub use tilelift_schedule::{LowerError, Resource, candidates, gemm, reason};
pub use wider::{WiderForm, wider_forms};
