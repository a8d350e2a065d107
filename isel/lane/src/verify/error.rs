//! What a lane program gets wrong.

use crate::frame::AllocId;
use crate::machine::MatrixId;
use crate::op::{BinOp, UnOp};
use crate::registers::RegisterError;
use crate::value::{LTy, LVal};
use std::fmt;

/// A broken invariant of a lane program, with the instruction that breaks it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneVerifyError {
    /// The instruction as printed; `None` if the program's frame (warps, parameters, allocations) is at fault.
    pub inst: Option<String>,
    /// What is wrong.
    pub problem: LaneProblem,
}

/// What is wrong with a lane program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LaneProblem {
    /// The program is for warps of another width.
    Lanes {
        /// Lanes per warp of the program.
        got: u32,
        /// Lanes per warp of the target.
        want: u32,
    },
    /// No warps, or more than the target runs.
    Warps {
        /// Warps of the program.
        got: u32,
        /// Most warps of the target.
        most: u32,
    },
    /// A cluster that is no power of two, or larger than the target's.
    Cluster {
        /// Program instances of a cluster.
        got: u32,
        /// The most.
        most: u32,
    },
    /// More shared memory than the target has.
    SharedSize {
        /// Bytes of the program.
        got: u32,
        /// Bytes of the target.
        most: u32,
    },
    /// An allocation that reaches beyond the program's shared memory.
    AllocOutside(AllocId),
    /// An allocation whose alignment is no power of two, or whose offset is not aligned.
    AllocAlign(AllocId),
    /// A launch parameter whose type doesn't fit what it carries.
    ParamType {
        /// The parameter, from 0.
        index: usize,
        /// Its type.
        got: LTy,
    },
    /// A value that the program's table of types lacks.
    UnknownValue(LVal),
    /// A value that is defined twice.
    Redefined(LVal),
    /// A value that is used before its definition, or outside the block that defines it.
    NotInScope(LVal),
    /// A value of the wrong type.
    Type {
        /// The value.
        value: LVal,
        /// Its type.
        got: LTy,
        /// What belongs there.
        want: String,
    },
    /// A wrong number of values.
    Count {
        /// Of what.
        what: &'static str,
        /// The number given.
        got: usize,
        /// The numbers that are allowed.
        want: String,
    },
    /// A vector access wider than the target's.
    TooWide {
        /// Its bytes.
        got: u32,
        /// The most bytes.
        most: u32,
    },
    /// A launch parameter or allocation that the program lacks.
    NoSuch {
        /// Parameter or allocation.
        what: &'static str,
        /// Its number.
        index: u32,
    },
    /// A matrix instruction that the target's table lacks.
    NoMatrix(MatrixId),
    /// An asynchronous copy of a size that the target doesn't offer.
    CopySize {
        /// The size in bytes.
        got: u32,
        /// The sizes offered.
        offered: &'static [u32],
    },
    /// A unit that the target lacks.
    NoUnit(&'static str),
    /// Roles that are not the program's last instruction.
    RolesInside,
    /// A role whose warps are none, overlap others', or lie outside the program.
    RoleWarps(String),
    /// Registers that warpgroups can't have, or not all together.
    Registers(RegisterError),
    /// An instruction of several lanes in a role that one lane runs.
    SingleLane,
    /// A launch parameter that describes a tensor, read as a value.
    TensorAsValue {
        /// The parameter.
        index: u32,
    },
    /// A bulk copy whose launch parameter describes no tensor, or one of another rank.
    NotATensor {
        /// The parameter.
        index: u32,
    },
    /// A multiplication or bulk copy with a shape that the target lacks.
    UnitShape(&'static str),
    /// A matrix load for a target without one.
    NoLoadMatrix,
    /// Quotients of a type that the target lacks.
    NoQuotient(LTy),
    /// An optional operation that the target lacks for the type.
    NoFunction {
        /// The operation.
        op: UnOp,
        /// The type.
        ty: LTy,
    },
    /// A redux for a target without one.
    NoRedux,
    /// An operation that no redux has.
    ReduxOp(BinOp),
    /// An exchange with a lane that the warp lacks.
    ShuffleMask {
        /// The mask.
        mask: u32,
        /// Lanes per warp.
        lanes: u32,
    },
}

impl fmt::Display for LaneProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaneProblem::Lanes { got, want } => {
                write!(f, "warps have {got} lanes, the target's have {want}; lower the kernel for this target")
            }
            LaneProblem::Warps { got, most } => write!(f, "{got} warps per program instance; the target runs 1 to {most}"),
            LaneProblem::Cluster { got, most } => {
                write!(f, "a cluster of {got}; clusters are powers of two up to the target's {most}")
            }
            LaneProblem::SharedSize { got, most } => {
                write!(f, "{got} bytes of shared memory, the target has {most}; use smaller tiles or fewer stages")
            }
            LaneProblem::AllocOutside(a) => write!(f, "{a} reaches beyond the shared memory; place it, and count it in `shared_bytes`"),
            LaneProblem::AllocAlign(a) => write!(f, "{a} is not placed at a multiple of its alignment, or that is no power of two"),
            LaneProblem::ParamType { index, got } => {
                write!(f, "launch parameter {index} is {got}; pointers and strides are i64, extents i32, scalars numbers")
            }
            LaneProblem::UnknownValue(v) => write!(f, "{v} has no type; make values with the builder"),
            LaneProblem::Redefined(v) => write!(f, "{v} is defined a second time; every value has one definition"),
            LaneProblem::NotInScope(v) => {
                write!(f, "{v} is used outside the scope of its definition; define it earlier or return it from its block")
            }
            LaneProblem::Type { value, got, want } => write!(f, "{value} is {got}, but {want} belongs there"),
            LaneProblem::Count { what, got, want } => write!(f, "{got} {what}; there must be {want}"),
            LaneProblem::TooWide { got, most } => write!(f, "{got} bytes in one access, but the most is {most}; split it"),
            LaneProblem::NoSuch { what, index } => write!(f, "the program has no {what} {index}"),
            LaneProblem::NoMatrix(id) => write!(f, "the target's table has no {id}"),
            LaneProblem::CopySize { got, offered } => write!(f, "an asynchronous copy of {got} bytes; the target offers {offered:?}"),
            LaneProblem::NoUnit(what) => write!(f, "the target has no {what}; lower the kernel for this target"),
            LaneProblem::RolesInside => f.write_str("roles end a program; put nothing behind them and no block around them"),
            LaneProblem::RoleWarps(name) => write!(f, "the warps of role {name} are none, shared, or outside the program"),
            LaneProblem::Registers(e) => e.fmt(f),
            LaneProblem::SingleLane => f.write_str("an instruction of several lanes in a role that one lane runs"),
            LaneProblem::TensorAsValue { index } => write!(f, "launch parameter {index} describes a tensor and has no value"),
            LaneProblem::NotATensor { index } => write!(f, "launch parameter {index} describes no tensor of that many dimensions"),
            LaneProblem::UnitShape(what) => write!(f, "{what} is not what the target's units take"),
            LaneProblem::NoQuotient(ty) => write!(f, "the target has no quotient of {ty}; write it as operations that it has"),
            LaneProblem::NoFunction { op, ty } => {
                write!(f, "the target has no `{op:?}` of {ty}; write it as operations that it has")
            }
            LaneProblem::NoLoadMatrix => f.write_str("the target has no matrix load; use plain shared loads"),
            LaneProblem::NoRedux => f.write_str("the target finds no least word of a warp; use shuffles"),
            LaneProblem::ReduxOp(op) => write!(f, "no redux has the operation {op:?}"),
            LaneProblem::ShuffleMask { mask, lanes } => write!(f, "the mask {mask} leaves a warp of {lanes} lanes"),
        }
    }
}

impl fmt::Display for LaneVerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inst {
            Some(inst) => write!(f, "`{inst}`: {}", self.problem),
            None => self.problem.fmt(f),
        }
    }
}

impl std::error::Error for LaneProblem {}
impl std::error::Error for LaneVerifyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.problem)
    }
}
