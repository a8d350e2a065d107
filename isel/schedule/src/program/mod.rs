//! Scheduling as a pass: tile IR in, tile IR out. What the compiler decides about a loop is written down as an author would write it.
//!
//! ```text
//! kernel, plan ─► tasks  producer    waits for an empty slot, expects its bytes, begins copies into it
//!                        consumers   wait for a full slot, multiply, give the slot of the step before back; epilogue; bulk stores
//!                                    of mixed loops all that a step computes, its products waited for where they stand, or beside the lanes
//!                 rings  local_alloc and barriers full and empty, a slot per step, steps counted by the loops
//!                 persistence  worker_id, num_workers, grid positions in their order
//! ```
//!
//! The result prints, parses, is interpreted, proved and lowered as any other kernel with explicit control. What can't be written so yet
//! is a [`Refusal`]; such loops are lowered by the plan alone.

mod gemm;
mod mixed;
mod overlap;
mod write;

use crate::plan::Specialised;
use std::fmt;
use tilelift_ir::{Inst, Kernel, Op, Value};
use tilelift_lane::Target;

/// Why a plan is not written as a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Consumer warpgroups take tiles in turns.
    PingPong,
    /// The lanes add up the sums of parts of the depth.
    Promoted {
        /// The product.
        dot: Inst,
    },
    /// An operand A goes through registers.
    OperandA {
        /// The product.
        dot: Inst,
    },
    /// The loop has several products.
    Products {
        /// The second one.
        dot: Inst,
    },
    /// Warps of a task are a power of two.
    Consumers {
        /// Warpgroups that multiply.
        groups: u32,
    },
    /// A buffer has its widest swizzle; this one is narrower.
    Swizzle {
        /// The load or store.
        access: Inst,
    },
    /// A slot is no multiple of the swizzle's alignment.
    Slot {
        /// The load.
        load: Inst,
    },
    /// A view of an operand that no view of a buffer stands for.
    View {
        /// The reshape.
        reshape: Inst,
    },
    /// The author requires layouts.
    Layouts {
        /// The requirement.
        require: Inst,
    },
    /// A tile is loaded behind the loop: where it does not fit beside the sums it is to come piece by piece.
    Loads {
        /// The load.
        load: Inst,
    },
    /// A bulk store stands in a choice, or its tile leaves in parts.
    Store {
        /// The store.
        store: Inst,
    },
    /// The loop does not go from zero to an extent of a view by a literal.
    Bounds {
        /// The loop.
        main: Inst,
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
            Refusal::PingPong => f.write_str("consumer warpgroups take tiles in turns"),
            Refusal::Promoted { .. } => f.write_str("lanes add up the sums of parts of the depth"),
            Refusal::OperandA { .. } => f.write_str("operand A goes through registers"),
            Refusal::Products { .. } => f.write_str("the loop has several products"),
            Refusal::Consumers { groups } => write!(f, "{groups} consumer warpgroups are no power of two"),
            Refusal::Swizzle { .. } => f.write_str("a tile waits or leaves in rows narrower than they could be"),
            Refusal::Slot { .. } => f.write_str("a slot is no multiple of the swizzle's alignment"),
            Refusal::View { .. } => f.write_str("no view of a buffer stands for a reshape of an operand"),
            Refusal::Layouts { .. } => f.write_str("the author requires layouts"),
            Refusal::Loads { .. } => f.write_str("a tile is loaded behind the loop"),
            Refusal::Store { .. } => f.write_str("a bulk store stands in a choice, or leaves in parts"),
            Refusal::Bounds { .. } => f.write_str("the loop does not go from 0 to an extent of a view by a literal"),
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
    gemm::admit(kernel, target, plan)?;
    match plan.mixed {
        true => mixed::write(kernel, target, plan),
        false => gemm::write(kernel, target, plan),
    }
}
