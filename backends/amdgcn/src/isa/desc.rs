//! What a row of the instruction table says.

use crate::chip::Chip;
use crate::mir::Fixed;

/// How an instruction uses an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// It is written, and what was there is lost, in the lanes that take part.
    Def,
    /// It is read.
    Use,
    /// It is read and written.
    Update,
}

/// What may stand in an operand's place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A vector register.
    Vector,
    /// A vector register of either file.
    VectorOrAcc,
    /// A vector register, a scalar register or a constant.
    Source,
    /// The same of either vector file: what matrix instructions take as C.
    AccSource,
    /// A scalar register.
    Scalar,
    /// A scalar register or a constant.
    ScalarSource,
    /// A constant in a field of its own.
    Field,
    /// A block.
    Target,
}

/// An operand's place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot {
    /// How it is used.
    pub access: Access,
    /// What may stand there.
    pub kind: Kind,
    /// 32-bit words.
    pub words: u8,
}

/// How an instruction is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // the manuals' names
pub enum Format {
    Sop1,
    Sop2,
    Sopc,
    Sopk,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3a,
    Vop3b,
    Vop3p,
    Mai,
    Vop3px2,
    Ds,
    Flat,
    Global,
    Scratch,
    Mubuf,
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
    /// Its name in the assembler, per chip where names differ.
    pub mnemonic: fn(Chip) -> &'static str,
    /// Encodings, the shortest first, with the operation's number on a chip; `None` where the chip lacks it.
    pub encodings: &'static [(Format, fn(Chip) -> Option<u16>)],
    /// Operands in the assembler's order.
    pub slots: &'static [Slot],
    /// Registers that are no operands.
    pub implicit: &'static [Implicit],
    /// Who tells that it is done, if it is done later.
    pub counter: Option<Counter>,
}
