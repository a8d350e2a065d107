//! Why a lane program has no machine program.

use crate::chip::Chip;
use std::fmt;
use tilelift_lane::{BinOp, LTy, LaneVerifyError, Opcode as LaneOpcode, UnOp};

/// Why selection refuses a program.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum SelectError {
    /// The program breaks a rule of the lane IR.
    Invalid(Box<LaneVerifyError>),
    /// A computation.
    Computation(Computation, LTy, Reason),
    /// Another instruction.
    Instruction(LaneOpcode, Reason),
}

/// A computation of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Computation {
    /// Of one operand.
    Un(UnOp),
    /// Of two operands.
    Bin(BinOp),
    /// Any other.
    Other(LaneOpcode),
}

/// Why there are no instructions for something, and what to do instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The target's table does not offer it.
    NotOffered,
    /// It is for machinery that these chips lack: asynchronous copies, matrix loads, units, roles, clusters.
    NoMachinery,
    /// The operation does not take the type.
    Type,
    /// The chip lacks the instruction.
    Chip(Chip),
    /// A value is used that nothing made.
    Undefined,
    /// A matrix instruction that has no row here.
    Matrix,
    /// A kernel argument that is no number.
    Argument,
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SelectError::Invalid(why) => write!(f, "not a lane program: {why}"),
            SelectError::Computation(what, ty, why) => write!(f, "no instructions for {what} of {ty}: {why}"),
            SelectError::Instruction(what, why) => write!(f, "no instructions for {}: {why}", what.name()),
        }
    }
}

impl std::error::Error for SelectError {}

impl fmt::Display for Computation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Computation::Un(op) => write!(f, "{op:?}"),
            Computation::Bin(op) => write!(f, "{op:?}"),
            Computation::Other(code) => f.write_str(code.name()),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotOffered => f.write_str("the target's table does not offer it; lower the kernel for this target"),
            Reason::NoMachinery => f.write_str("the chip has no such machinery; lower the kernel for this target"),
            Reason::Type => f.write_str("it does not take that type; cast the operands"),
            Reason::Chip(chip) => write!(f, "{chip} lacks the instruction; use elements of 32 bits"),
            Reason::Undefined => f.write_str("a value is used that nothing made"),
            Reason::Matrix => f.write_str("no machine instruction is filed for that matrix instruction"),
            Reason::Argument => f.write_str("a kernel argument that is no number; lower the kernel for this target"),
        }
    }
}
