//! What a row of the instruction table says.

use super::form::{Form, Format};
use crate::chip::Chip;
use crate::isa::fixed::Fixed;

/// How an instruction uses an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// It is written, and what was there is lost, in the lanes that take part.
    Def,
    /// It is read.
    Use,
    /// It is read and written, or written in part.
    Update,
}

/// What may stand in an operand's place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A vector register.
    Vector,
    /// A vector register of either file. Data of one memory instruction, and C and D of a matrix instruction, are of the same file.
    VectorOrAcc,
    /// An accumulation register.
    Acc,
    /// A vector register, a scalar register or a constant. A vector instruction reads one scalar register or literal at most.
    Source,
    /// A vector register of either file, or a constant without a literal: what matrix instructions take as C.
    AccSource,
    /// A vector register, or nothing ([`crate::mir::Operand::Off`]).
    VectorOrOff,
    /// A global address: 64 bits in vector registers, or, if there is a base behind it, 32 bits without sign that are added to it.
    Address,
    /// A scalar register.
    Scalar,
    /// A scalar register, or nothing ([`crate::mir::Operand::Off`]).
    ScalarOrOff,
    /// A scalar register or a constant.
    ScalarSource,
    /// A scalar register or a constant of 21 bits with sign: bytes.
    ScalarOffset,
    /// A constant in a field of its own: 16 bits.
    Field,
    /// A constant of 32 bits behind the instruction.
    Literal,
    /// A block.
    Target,
}

/// What the bits of an operand mean: which constants are free, and whether signs can be changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // scalar types
pub enum Value {
    Bits,
    I16,
    F16,
    F32,
    F64,
    /// Two halves.
    PackedI16,
    /// Two halves.
    PackedF16,
    /// Two words.
    PackedF32,
    /// Two words.
    PackedBits,
    /// `f32`, or a half of a register if [`crate::mir::Mods::op_sel_hi`] says so.
    Mix,
}

/// An operand's place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot {
    /// How it is used.
    pub access: Access,
    /// What may stand there.
    pub kind: Kind,
    /// 32-bit words; of [`Kind::Address`] and of operands in narrow formats the most.
    pub words: u8,
    /// What they mean.
    pub value: Value,
}

/// Registers that are read or written without being operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Implicit {
    /// How.
    pub access: Access,
    /// Which one.
    pub reg: Fixed,
}

/// The counter that `s_waitcnt` waits for until an instruction's results are there, or its sources may change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Counter {
    /// `vmcnt`: loads of vector memory, and stores, in order.
    Vector,
    /// `lgkmcnt` of local data share: in order among themselves.
    Lds,
    /// `lgkmcnt` of scalar memory: in any order.
    ScalarMemory,
}

/// A row of the instruction table.
#[derive(Clone, Copy, Debug)]
pub struct Desc {
    /// Its name in the assembler, without what tells encodings apart.
    pub(super) name: &'static str,
    /// Its name on gfx90a where that is another.
    pub(super) old_name: Option<&'static str>,
    /// How it is encoded.
    pub form: Form,
    /// The operation's number in [`Form::format`] by chip.
    pub(super) numbers: [Option<u16>; Chip::ALL.len()],
    /// Operands in the assembler's order.
    pub slots: &'static [Slot],
    /// Registers that are no operands.
    pub implicit: &'static [Implicit],
}

impl Desc {
    /// Its name in the chip's assembler.
    pub fn mnemonic(&self, chip: Chip) -> &'static str {
        match (chip, self.old_name) {
            (Chip::Gfx90a, Some(name)) => name,
            _ => self.name,
        }
    }

    /// The operation's number in the format of its row, if the chip has it.
    pub fn number(&self, chip: Chip) -> Option<u16> {
        self.numbers[chip as usize]
    }

    /// True for an instruction on memory that reads data, not addresses alone: it stores, or updates. Data of global memory are in vector registers of either file, or,
    /// of updates that bring back what was there, of the one; addresses there are of kinds of their own.
    pub fn reads_data(&self) -> bool {
        let global = matches!(self.form.format, Format::Global | Format::Scratch | Format::Mubuf);
        let data = |kind: Kind| kind == Kind::VectorOrAcc || global && kind == Kind::Vector;
        self.slots.iter().any(|s| data(s.kind) && s.access != Access::Def)
    }

    /// Who tells that it is done, if it is done later.
    pub fn counter(&self) -> Option<Counter> {
        match self.form.format {
            Format::Smem => Some(Counter::ScalarMemory),
            Format::Ds => Some(Counter::Lds),
            Format::Global | Format::Scratch | Format::Mubuf => Some(Counter::Vector),
            _ => None,
        }
    }
}
