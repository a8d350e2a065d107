//! Scheduling as a pass: tile IR in, tile IR out. What the compiler decides about a loop is written down as an author would write it.
//!
//! ```text
//! kernel, plan ─► tasks  producer    waits for an empty slot, expects its bytes, begins copies into it
//!                        consumers   wait for a full slot, multiply, give the slot of the step before back; epilogue; bulk stores
//!                            two tasks of them take positions in turns, or one all
//!                 epilogue  what stands behind the loop, in the consumers; bulk stores through buffers, in choices and in parts, too
//!                                    of mixed loops all that a step computes, its products waited for where they stand, or beside the lanes
//!                 rings  local_alloc and barriers full and empty, a slot per step, steps counted by the loops
//!                 persistence  worker_id, num_workers, grid positions in their order
//! ```
//!
//! Of pipelined loops the lanes copy into rings, some iterations ahead.
//!
//! The result prints, parses, is interpreted, proved and lowered as any other kernel with explicit control. What can't be written so yet
//! is a [`Refusal`]; such loops are lowered by the plan alone.

mod bounds;
mod consume;
mod epilogue;
mod gemm;
mod mixed;
mod overlap;
mod ping_pong;
mod pipelined;
mod write;

use crate::plan::{Plan, Specialised};
use std::fmt;
use tilelift_ir::{Inst, Kernel, Op, Value};
use tilelift_lane::Target;

/// Why a plan is not written as a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Warps of a task are a power of two.
    Consumers {
        /// Warpgroups that multiply.
        groups: u32,
    },
    /// A view of an operand that no view of a buffer stands for.
    View {
        /// The reshape.
        reshape: Inst,
    },
    /// The author requires layouts in registers, and what leaves by a bulk copy is no matrix.
    Layouts {
        /// The requirement.
        require: Inst,
    },
    /// Tasks that take grid positions in ping-pong pass over one another's steps, whose number differs from position to position, or may be no
    /// `i32`.
    Bounds {
        /// The loop.
        main: Inst,
    },
    /// A pipelined loop stands inside of what is written as a whole.
    Nested {
        /// What it stands in.
        inst: Inst,
    },
    /// The rings of all loops do not fit shared memory side by side.
    Memory {
        /// Bytes that they take.
        need: u64,
        /// Bytes that there are.
        have: u64,
    },
    /// Registers would be shared out anew where the plan leaves them.
    Registers,
    /// A value is made by what is not written.
    Written {
        /// The value.
        value: Value,
    },
    /// Operands of a new instruction have other types than it takes.
    Typed {
        /// Its op.
        op: Op,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Consumers { groups } => write!(f, "{groups} consumer warpgroups are no power of two"),
            Refusal::View { .. } => f.write_str("no view of a buffer stands for a reshape of an operand"),
            Refusal::Layouts { .. } => f.write_str("layouts are required, and what leaves by a bulk copy is no matrix"),
            Refusal::Bounds { .. } => {
                f.write_str("consumers take grid positions in ping-pong, and the number of steps is not the same at each")
            }
            Refusal::Nested { .. } => f.write_str("a pipelined loop stands inside of an instruction that is written as a whole"),
            Refusal::Memory { need, have } => write!(f, "its rings take {need} bytes of shared memory side by side, which has {have}"),
            Refusal::Registers => f.write_str("tasks would share registers out anew"),
            Refusal::Written { .. } => f.write_str("a value is made by what is not written"),
            Refusal::Typed { op } => write!(f, "`{op}` does not take its operands"),
        }
    }
}

/// Writes a plan of a specialised loop as a kernel with tasks.
///
/// # Errors
/// What can't be written so yet.
pub fn written(kernel: &Kernel, target: &Target, plan: &Specialised) -> Result<Kernel, Refusal> {
    gemm::admit(target, plan)?;
    gemm::write(kernel, target, plan)
}

/// Writes a plan of pipelined loops as a kernel whose lanes copy ahead; `None` if it pipelines none.
pub fn pipelined(kernel: &Kernel, target: &Target, plan: &Plan) -> Option<Result<Kernel, Refusal>> {
    pipelined::write(kernel, target, plan)
}
