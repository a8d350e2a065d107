//! Why a program has no encoding.

use crate::isa::{NoConstant, Opcode};
use crate::mir::Block;
use std::fmt;

/// What is wrong with an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Misfit {
    /// It is a virtual register.
    Virtual,
    /// It is a register of a file, or something else, that cannot stand there.
    Kind,
    /// It has another number of words.
    Words,
    /// It reaches behind the file's last register.
    Range,
    /// The first register's number is not a multiple of what the tuple needs.
    Alignment,
    /// The constant has no encoding there.
    Constant(NoConstant),
    /// The instruction has no room for a literal.
    Literal,
    /// The constant does not fit its field.
    Field,
}

/// Modifiers that an instruction has no field for, or not for this value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // as in `Mods`
pub enum Modifier {
    Offset,
    Offset1,
    Sc0,
    Sc1,
    Nt,
    Neg,
    NegHi,
    Abs,
    Clamp,
    OpSel,
    OpSelHi,
    Dpp,
    Sdwa,
    Cbsz,
    Abid,
    Blgp,
}

/// Why an instruction has no encoding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EncodeReason {
    /// The chip lacks it.
    Missing,
    /// It has so many operands instead of as many as its row says.
    Operands(usize),
    /// An operand, by its place, cannot stand there.
    Operand(usize, Misfit),
    /// A modifier.
    Modifier(Modifier),
    /// Two different literals.
    TwoLiterals,
    /// A vector instruction reads more than one scalar register or literal.
    ScalarReads,
    /// Data, or C and D, in both vector files.
    TwoFiles,
    /// The result of a matrix instruction overlaps what it is added to, but is not the same.
    Overlap,
    /// So many words away is too far for a branch.
    Branch(i64),
    /// A branch to a block that the program lacks.
    NoBlock(Block),
}

/// An instruction that has no encoding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EncodeError {
    /// The block.
    pub block: Block,
    /// The instruction's place in the block.
    pub inst: usize,
    /// Which one it is.
    pub op: Opcode,
    /// Why.
    pub reason: EncodeReason,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Misfit::Virtual => "is a virtual register",
            Misfit::Kind => "cannot stand there",
            Misfit::Words => "has another number of registers than the instruction needs",
            Misfit::Range => "reaches behind the last register",
            Misfit::Alignment => "begins at a register that the tuple must not begin at",
            Misfit::Constant(NoConstant::TooWide) => "is wider than the operand",
            Misfit::Constant(NoConstant::NoLiteral) => "is a constant of 64 bits that 32 do not say",
            Misfit::Literal => "is a literal, which this instruction has no room for",
            Misfit::Field => "does not fit its field",
        })
    }
}

impl fmt::Display for EncodeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeReason::Missing => f.write_str("the chip lacks it"),
            EncodeReason::Operands(n) => write!(f, "it has {n} operands"),
            EncodeReason::Operand(n, misfit) => write!(f, "operand {n} {misfit}"),
            EncodeReason::Modifier(m) => write!(f, "there is no place for the modifier {m:?}"),
            EncodeReason::TwoLiterals => f.write_str("it has two literals"),
            EncodeReason::ScalarReads => f.write_str("it reads more than one scalar register or literal"),
            EncodeReason::TwoFiles => f.write_str("its data are in both vector files"),
            EncodeReason::Overlap => f.write_str("its result overlaps what it is added to"),
            EncodeReason::Branch(words) => write!(f, "the block is {words} words away"),
            EncodeReason::NoBlock(b) => write!(f, "there is no {b}"),
        }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, instruction {}, {:?}: {}", self.block, self.inst, self.op, self.reason)
    }
}

impl std::error::Error for EncodeError {}
