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

pub(crate) use bounds::takes_turns;
pub use pipelined::Pipelines;

use crate::error::Resource;
use crate::plan::{Plan, Specialised};
use std::fmt;
use tilelift_ir::{Inst, Kernel, Op, Value};
use tilelift_lane::{Registers, Target};

/// Why a plan is not written as a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Warps of a task are a power of two.
    Consumers {
        /// Warpgroups that multiply.
        groups: u32,
    },
    /// Tasks that take grid positions in ping-pong pass over one another's steps, whose number differs from position to position, or may be no
    /// `i32`.
    Bounds {
        /// The loop.
        main: Inst,
    },
    /// The target has less of something than the program takes, with as few slots as may be.
    Exceeds {
        /// What there is too little of.
        resource: Resource,
        /// How much the program takes.
        need: u64,
        /// How much there is.
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
            Refusal::Bounds { .. } => {
                f.write_str("consumers take grid positions in ping-pong, and the number of steps is not the same at each")
            }
            Refusal::Exceeds { resource, need, have } => write!(f, "not enough {resource}: it would need {need}, the target has {have}"),
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
    admit(target, plan)?;
    gemm::write(kernel, target, plan)
}

/// Writes a plan of pipelined loops as a kernel whose lanes copy ahead; `None` if it pipelines none.
pub fn pipelined(kernel: &Kernel, target: &Target, plan: &Plan) -> Option<Result<Kernel, Refusal>> {
    Pipelines::of(kernel, target, plan).map(|p| p.written(plan.stages))
}

/// Refuses a plan that tasks do not stand for.
///
/// # Errors
/// Why not.
pub fn admit(target: &Target, plan: &Specialised) -> Result<(), Refusal> {
    if !plan.consumers.is_power_of_two() {
        return Err(Refusal::Consumers { groups: plan.consumers });
    }
    // Tasks without registers of their own are given some where a lane has few at entry.
    let units = target.units.as_ref();
    let few = units.is_none_or(|u| Registers::of(target, u, (plan.consumers + 1) * u.group_warps).entry < u.registers.most);
    if plan.registers.is_none() && few {
        return Err(Refusal::Registers);
    }
    Ok(())
}
