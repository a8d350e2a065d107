//! Scheduling as a pass: tile IR in, tile IR out. What the compiler decides about a loop is written down as an author would write it.
//!
//! ```text
//! kernel, plan ─► tasks  producer    waits for an empty slot, expects its bytes, begins copies into it
//!                        consumers   wait for a full slot, multiply, give the slot of the step before back; epilogue; bulk stores
//!                            two tasks of them take positions in ping-pong, or one all
//!                 epilogue  what stands behind the loop, in the consumers; bulk stores through buffers, in choices and in parts, too
//!                                    of mixed loops all that a step computes, its products waited for where they stand, or beside the lanes
//!                 rings  local_alloc and barriers full and empty, a slot per step, steps counted by the loops
//!                 persistence  worker_id, num_workers, grid positions in their order
//! ```
//!
//! Of pipelined loops the lanes copy into rings, some iterations ahead.
//!
//! The result prints, parses, is interpreted, proved and lowered as any other kernel with explicit control. What can't be written
//! is a [`Refusal`].

mod ahead;
mod batches;
mod bounds;
mod brought;
mod columns;
mod consume;
mod converted;
mod epilogue;
mod epilogue_operands;
mod gemm;
mod holds;
mod lane_tiles;
mod late;
mod masked;
mod mixed;
mod not_ahead;
mod overlap;
mod ping_pong;
mod pipelined;
mod produce;
mod schedule;
mod sliced;
mod slots;
mod staged;
mod step_state;
mod transposed;
mod updates;
mod vectors;
mod write;

pub use crate::reason::Refusal;
pub use batches::batches_apart;
pub use not_ahead::{awaited_by, held_ahead, not_ahead, without_places};
pub use pipelined::Pipelines;
pub use pipelined::carried::loads_ahead;

use crate::plan::{Plan, Specialised, admit};
use tilelift_ir::Kernel;
use tilelift_lane::Target;

/// Writes a plan of a specialised loop as a kernel with tasks.
///
/// # Errors
/// What can't be written so.
pub fn written(kernel: &Kernel, target: &Target, plan: &Specialised) -> Result<Kernel, Refusal> {
    admit(target, plan)?;
    gemm::write(kernel, target, plan)
}

/// Writes a plan of pipelined loops as a kernel whose lanes copy ahead; `None` if it pipelines none.
pub fn pipelined(kernel: &Kernel, target: &Target, plan: &Plan) -> Option<Result<Kernel, Refusal>> {
    Pipelines::of(kernel, target, plan).map(|p| p.written(plan.stages))
}
