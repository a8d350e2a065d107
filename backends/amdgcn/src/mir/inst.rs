//! Instructions and blocks.

use super::reg::Span;
use crate::isa::{Access, Kind, Opcode, Slot, Variant};
use cranelift_entity::entity_impl;
use smallvec::SmallVec;

/// A block. Prints as `bb3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block(u32);
entity_impl!(Block, "bb");

/// The instructions of a block, and what the passes must know of control flow that branches do not say.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BlockData {
    /// Instructions in order.
    pub insts: Vec<Inst>,
    /// Blocks that may come next, the one behind it included where it falls through.
    pub next: SmallVec<[Block; 2]>,
    /// Loops around it.
    pub depth: u32,
}

/// An instruction: operands stand in the assembler's order, results first where it has them first.
#[derive(Clone, PartialEq, Debug)]
pub struct Inst {
    /// Which one: a row of the instruction table.
    pub op: Opcode,
    /// Operands in the assembler's order.
    pub operands: SmallVec<[Operand; 5]>,
    /// What else it says.
    pub mods: Mods,
}

/// An operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// Registers.
    Reg(Span),
    /// A constant: the bits of the operand, sign-extended where the operand has 64. Whether it stands in the operand's field or behind the
    /// instruction, the encoder finds out; where neither can be, the program is refused.
    Imm(i64),
    /// Where a branch goes.
    Block(Block),
    /// No register stands here: `off`. A buffer instruction whose vector address is a register has it as an offset in bytes (`offen`).
    Off,
}

/// Modifiers. What an instruction's format has no field for must be as [`Mods::default`] has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Mods {
    /// Bytes added to the address, of memory instructions; for `ds_read2` and the like the first of two offsets in elements.
    pub offset: i32,
    /// The second of two offsets in elements.
    pub offset1: u8,
    /// Memory: `sc0` (on gfx90a `glc`). Atomics that return what was there are rows of their own, and have it set anyhow.
    pub sc0: bool,
    /// Memory: `sc1` (on gfx90a `scc`).
    pub sc1: bool,
    /// Memory: `nt` (on gfx90a `slc`).
    pub nt: bool,
    /// Sources that are negated, a bit each. In packed instructions: of the lower half.
    pub neg: u8,
    /// Packed instructions: sources whose upper half is negated.
    pub neg_hi: u8,
    /// Sources of which the absolute value counts, a bit each.
    pub abs: u8,
    /// The result is clamped.
    pub clamp: bool,
    /// Sources of which the upper half is taken for the lower result, a bit each; bit 3 is the result.
    pub op_sel: u8,
    /// Packed instructions: sources of which the *lower* half is taken for the upper result, a bit each: zero is what the assembler has by default.
    pub op_sel_hi_off: u8,
    /// `op_sel_hi` where the assembler has zeros by default. Mixed instructions: sources that are halves, a bit each, and `op_sel` says which
    /// half. Scaled matrix instructions: the upper bit of each scale's byte, whose lower bit is in `op_sel`.
    pub op_sel_hi: u8,
    /// Which lane's value the first source is.
    pub dpp: Option<Dpp>,
    /// Which parts of registers the sources and the result are.
    pub sdwa: Option<Sdwa>,
    /// Matrix instructions: format of A, or broadcast.
    pub cbsz: u8,
    /// Matrix instructions: which block is broadcast.
    pub abid: u8,
    /// Matrix instructions: format of B, permutation of B, or signs.
    pub blgp: u8,
}

/// Which lane's value a source is: data-parallel primitives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dpp {
    /// The control field, 9 bits: `quad_perm` is 0 to 255, `row_shl:n` 0x100 + n, `row_shr:n` 0x110 + n, `row_ror:n` 0x120 + n, `row_mirror`
    /// 0x140, `row_half_mirror` 0x141, `row_newbcast:n` 0x150 + n.
    pub ctrl: u16,
    /// Rows of 16 lanes that write.
    pub row_mask: u8,
    /// Banks of 4 lanes that write.
    pub bank_mask: u8,
    /// Lanes without a source get zero instead of keeping what they had.
    pub bound_ctrl: bool,
}

/// Which part of a register is meant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Part {
    /// Bits 0 to 7.
    Byte0,
    /// Bits 8 to 15.
    Byte1,
    /// Bits 16 to 23.
    Byte2,
    /// Bits 24 to 31.
    Byte3,
    /// Bits 0 to 15.
    Word0,
    /// Bits 16 to 31.
    Word1,
    /// All of it.
    #[default]
    Dword,
}

/// What becomes of the other bits of the result's register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Rest {
    /// They are zero.
    #[default]
    Zero,
    /// They are copies of the sign.
    Sign,
    /// They stay: the result's register is read, too.
    Keep,
}

/// Parts of registers: sub-dword addressing. Constants cannot be sources.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sdwa {
    /// Which part is written. Comparisons have none.
    pub dst: Part,
    /// What becomes of the rest of it.
    pub rest: Rest,
    /// Parts of the sources; of an instruction with one source the first.
    pub src: [Part; 2],
    /// Sources that are extended with their sign, a bit each.
    pub signed: u8,
}

impl Inst {
    /// An instruction without modifiers.
    pub fn new(op: Opcode, operands: impl IntoIterator<Item = Operand>) -> Inst {
        Inst { op, operands: operands.into_iter().collect(), mods: Mods::default() }
    }

    /// What is read of an operand: where both numbers of a packed instruction are one word of a pair, that word.
    pub(crate) fn selected(&self, at: usize, span: Span) -> Span {
        let packed = matches!(self.op, Opcode::VPkFmaF32 | Opcode::VPkMulF32 | Opcode::VPkAddF32);
        let Some(source) = at.checked_sub(1).filter(|_| packed && span.words == 2) else { return span };
        let (low, high) = (self.mods.op_sel >> source & 1, !self.mods.op_sel_hi_off >> source & 1);
        if low == high { span.part(low, 1) } else { span }
    }

    /// Words of the operand in a slot: modifiers say how many a factor of a narrow format has, and whether addresses have a base.
    pub(crate) fn words_of(&self, at: usize, slot: &Slot) -> u8 {
        if slot.kind == Kind::Address {
            // The base stands last.
            return if self.operands.last() == Some(&Operand::Off) { 2 } else { 1 };
        }
        let factor = slot.kind == Kind::VectorOrAcc && slot.access == Access::Use;
        if factor && self.op.desc().form.variant == Variant::Narrow {
            return match if at == 1 { self.mods.cbsz } else { self.mods.blgp } {
                0 | 1 => 8,
                2 | 3 => 6,
                _ => 4,
            };
        }
        slot.words
    }

    /// The same with modifiers.
    pub fn with(mut self, mods: Mods) -> Inst {
        self.mods = mods;
        self
    }
}

impl From<Span> for Operand {
    fn from(s: Span) -> Operand {
        Operand::Reg(s)
    }
}

impl From<i64> for Operand {
    fn from(bits: i64) -> Operand {
        Operand::Imm(bits)
    }
}
