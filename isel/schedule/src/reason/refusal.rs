//! Why a schedule is not written as a program.

use super::remedy::Taker;
use super::resource::Resource;
use std::fmt;
use tilelift_ir::{Inst, Op, Value};

/// Why a plan is not written as a program.
#[derive(Clone, PartialEq, Eq, Debug)]
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
        /// Who takes it, if it is shared memory.
        takers: Vec<Taker>,
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
            Refusal::Exceeds { resource, need, have, takers } => {
                write!(f, "not enough {resource}: it would need {need}, the target has {have}")?;
                takers.iter().enumerate().try_for_each(|(n, t)| write!(f, "{}{t}", if n == 0 { "; it goes to: " } else { ", " }))
            }
            Refusal::Registers => f.write_str("tasks would share registers out anew"),
            Refusal::Written { .. } => f.write_str("a value is made by what is not written"),
            Refusal::Typed { op } => write!(f, "`{op}` does not take its operands"),
        }
    }
}
