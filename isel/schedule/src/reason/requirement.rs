//! Why a layout that the kernel requires can't be had, and what it is at odds with.

use super::not_specialised::NotSpecialised;
use super::outline::Outline;
use std::fmt;
use tilelift_ir::{Inst, Loc, Op};

/// Why a required layout can't be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unmet {
    /// Two layouts are required of one value.
    Two,
    /// It is spread over other lanes and warps than the program has.
    Spread {
        /// Lanes and warps of the layout.
        want: [u64; 2],
        /// Lanes and warps of the program.
        have: [u64; 2],
        /// The target.
        target: &'static str,
    },
    /// No dot has a tile of this shape in that place.
    NoDot {
        /// The shape.
        shape: Vec<u32>,
    },
    /// Operands of the dot's instruction lie in shared memory.
    OperandInMemory,
    /// The dot runs on no matrix instruction.
    ByLanes,
    /// It is one of a specialised loop, and the loop is not specialised.
    NotSpecialised(Box<NotSpecialised>),
    /// It is one of a specialised loop, and the kernel's author writes tasks.
    Tasks,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unmet::Two => f.write_str("two layouts are required of one value"),
            Unmet::Spread { want, have, target } => write!(
                f,
                "it is spread over {} lanes and {} warps, but {target} runs {} lanes a warp and the program has {} warps",
                want[0], want[1], have[0], have[1]
            ),
            Unmet::NoDot { shape } => write!(f, "no dot has a tile of the shape {shape:?} in that place"),
            Unmet::OperandInMemory => f.write_str("operands of its matrix instruction lie in shared memory"),
            Unmet::ByLanes => f.write_str("the dot runs by multiply-adds of lanes, not on a matrix instruction"),
            Unmet::NotSpecialised(why) => why.fmt(f),
            Unmet::Tasks => f.write_str("tasks say themselves how their memory lies"),
        }
    }
}

/// What a required layout is at odds with, and where that stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AtOdds {
    /// An instruction.
    Inst {
        /// Its op.
        op: Op,
        /// The instruction.
        inst: Inst,
        /// Its place in the text, if it has one.
        loc: Loc,
    },
    /// The number of warps that the kernel's head asks for.
    Warps {
        /// The number.
        warps: u32,
        /// The hint's place in the text, if it has one.
        loc: Loc,
    },
    /// The plan.
    Plan(Outline),
    /// The kernel, which has no dot.
    NoDots,
    /// The schedule, which is not specialised.
    Schedule,
}

impl fmt::Display for AtOdds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AtOdds::Inst { op, loc, .. } if loc.is_known() => write!(f, "`{op}` at {loc}"),
            AtOdds::Inst { op, inst, .. } => write!(f, "`{op}` at {inst}"),
            AtOdds::Warps { warps, loc } if loc.is_known() => write!(f, "`warps={warps}` at {loc}"),
            AtOdds::Warps { warps, .. } => write!(f, "`warps={warps}` at the kernel's head"),
            AtOdds::Plan(plan) => write!(f, "the plan: {plan}"),
            AtOdds::NoDots => f.write_str("a kernel without dots"),
            AtOdds::Schedule => f.write_str("the schedule, which is not specialised; require another swizzle width, or none"),
        }
    }
}
