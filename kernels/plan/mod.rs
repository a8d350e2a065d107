//! Which kernels a product runs with on a device, as launches that are ready: an engine that has no command line asks here.
//!
//! ```text
//! Problem + DeviceFacts ── ranked(…) ─► candidates, best first ── Plan::of(…) ─► launches, workspaces
//!                       └─ plan(…) ─► the first one's
//!                       └─ Rows::plan(…) ─► few kernels for a range of M, and which one for each M
//! ```
//!
//! A candidate is a tile, how the work is shared out (whole tiles, parts of the depth, steps dealt out, clusters), and what the compiler is told. Where a
//! target has bulk copies and matrix instructions of warpgroups, candidates are those of the model of [`tilelift_schedule::gemm`]; those of other targets
//! (and of rows that nothing copies) are pipelined, by a plainer model of [`pipelined`](self) loops from the target's table of costs.
//!
//! A product without rows, columns or batch is no work, and its plan has no launch; one without depth writes what the epilogue makes of zeros.

mod candidate;
mod device;
mod error;
mod pipelined;
mod problem;
mod ranked;
mod ready;
mod rows;
mod sharing;

pub use candidate::Candidate;
pub use device::DeviceFacts;
pub use error::PlanError;
pub use problem::Problem;
pub use ranked::ranked;
pub use ready::{Buffer, Plan, Ready, plan};
pub use rows::{RowKernel, Rows};
pub use sharing::Sharing;
