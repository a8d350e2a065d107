//! What allocation answers with.

use crate::mir::{File, Program, VReg};
use std::fmt;

/// A program with physical registers.
#[derive(Clone, PartialEq, Debug)]
pub struct Allocated {
    /// The program.
    pub program: Program,
    /// What it uses.
    pub facts: Facts,
    /// Per block and instruction the number that the instruction had in its block before allocation; nothing for those that spilling added.
    pub origin: Vec<Origin>,
}

/// Per instruction of a block its number before allocation.
pub type Origin = Vec<Option<u32>>;

/// Registers in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Vector registers: one more than the highest number.
    pub vgprs: u32,
    /// Accumulation registers.
    pub agprs: u32,
    /// Scalar registers, those with names not counted.
    pub sgprs: u32,
    /// What was spilled.
    pub spills: Spills,
}

impl Facts {
    /// The number of the first accumulation register among all vector registers: a multiple of 4, at least 4.
    pub fn accum_offset(&self) -> u32 {
        self.vgprs.max(1).next_multiple_of(4)
    }

    /// Registers of both vector files that a wavefront takes from the pool: what occupancy follows from.
    pub fn pool(&self) -> u32 {
        let all = if self.agprs == 0 { self.vgprs.max(1) } else { self.accum_offset() + self.agprs };
        all.next_multiple_of(8)
    }
}

/// Words that were spilled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spills {
    /// Scalars in lanes of vector registers.
    pub to_lanes: u32,
    /// Vector registers in accumulation registers.
    pub to_acc: u32,
    /// Vector registers in scratch memory.
    pub to_scratch: u32,
}

impl Spills {
    /// What is dearer comes first: of two programs, the lesser spills less.
    pub(crate) fn order(&self) -> (u32, u32, u32) {
        (self.to_scratch, self.to_acc, self.to_lanes)
    }
}

/// Why a program has no allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocError {
    /// An instruction needs more registers at a time than there are.
    OutOfRegisters {
        /// The file.
        file: File,
        /// Registers in a row that found no place.
        words: u8,
    },
    /// Spilling did not come to an end.
    Spilling,
    /// Allocation takes more steps than it may.
    TooMuchWork,
    /// More scratch memory than instructions can name.
    ScratchFull,
    /// An operand names words that its register lacks.
    Words(VReg),
}

impl AllocError {
    /// True if the program is well-formed, but asks for more than there is.
    pub fn is_resource(&self) -> bool {
        !matches!(self, AllocError::Words(_))
    }
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::OutOfRegisters { file, words } => write!(f, "no place for {words} registers in a row ({file:?})"),
            AllocError::Spilling => f.write_str("spilling does not come to an end"),
            AllocError::TooMuchWork => f.write_str("allocation takes more steps than it may"),
            AllocError::ScratchFull => f.write_str("more than 4096 bytes of scratch memory"),
            AllocError::Words(reg) => write!(f, "{reg} does not have the words that an operand names"),
        }
    }
}

impl std::error::Error for AllocError {}
