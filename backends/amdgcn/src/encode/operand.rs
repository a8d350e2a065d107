//! Operands as fields hold them.

use super::error::{EncodeReason, Misfit};
use crate::chip::Chip;
use crate::isa::{Access, Constant, Desc, Format, Kind, Slot};
use crate::mir::{Block, File, Fixed, Inst, Operand, Reg, Span};
use smallvec::SmallVec;

/// The code of the literal behind the instruction.
pub(super) const LITERAL: u16 = 255;
/// Scalar registers that a program may name.
const SCALARS: u16 = 102;
const VECTORS: u16 = 256;

/// An operand as its field holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Coded {
    /// A scalar register or one with a name, by its code, and its words.
    Scalar(u8, u8),
    /// A vector register.
    Vector(u8),
    /// An accumulation register.
    Acc(u8),
    /// A constant that is part of the instruction, by its code.
    Inline(u8),
    /// A constant behind the instruction.
    Literal(u32),
    /// A constant in a field of its own.
    Field(i64),
    /// A block.
    Target(Block),
    /// Nothing.
    Off,
}

impl Coded {
    /// The nine bits of a source.
    pub(super) fn source(self) -> u16 {
        match self {
            Coded::Scalar(code, _) | Coded::Inline(code) => code.into(),
            Coded::Vector(n) | Coded::Acc(n) => 256 + u16::from(n),
            Coded::Literal(_) => LITERAL,
            Coded::Field(_) | Coded::Target(_) | Coded::Off => 0,
        }
    }

    /// The eight bits of a vector register or a scalar source.
    pub(super) fn register(self) -> u32 {
        u32::from(self.source() & 255)
    }

    pub(super) fn is_acc(self) -> bool {
        matches!(self, Coded::Acc(_))
    }

    pub(super) fn is_vector(self) -> bool {
        matches!(self, Coded::Vector(_))
    }
}

/// All operands of an instruction, each checked against its row alone.
pub(super) fn operands(inst: &Inst, desc: &Desc, chip: Chip) -> Result<SmallVec<[Coded; 6]>, EncodeReason> {
    if inst.operands.len() != desc.slots.len() {
        return Err(EncodeReason::Operands(inst.operands.len()));
    }
    let mut coded = SmallVec::new();
    for (at, (slot, operand)) in desc.slots.iter().zip(&inst.operands).enumerate() {
        let words = inst.words_of(at, slot);
        coded.push(operand_of(slot, words, operand, (desc, chip)).map_err(|misfit| EncodeReason::Operand(at, misfit))?);
    }
    Ok(coded)
}

fn operand_of(slot: &Slot, words: u8, operand: &Operand, (desc, chip): (&Desc, Chip)) -> Result<Coded, Misfit> {
    let constant = |bits: i64| match Constant::of(bits, slot.value, slot.words) {
        Ok(Constant::Integer(code) | Constant::Float(code)) => Ok(Coded::Inline(code)),
        Ok(Constant::Literal(bits)) => Ok(Coded::Literal(bits)),
        Err(why) => Err(Misfit::Constant(why)),
    };
    let coded = match *operand {
        Operand::Reg(span) => register(span, words, chip)?,
        Operand::Block(block) => Coded::Target(block),
        Operand::Off => Coded::Off,
        Operand::Imm(bits) => match slot.kind {
            Kind::AccSource => match slot.value {
                // C of f64 is many words, its elements two each.
                crate::isa::Value::F64 => inline(Constant::of(bits, slot.value, 2))?,
                value => inline(Constant::of(bits, value, 1))?,
            },
            Kind::Source | Kind::ScalarSource => constant(bits)?,
            Kind::Literal if i32::try_from(bits).is_ok() || u32::try_from(bits).is_ok() => Coded::Literal(bits as u32),
            Kind::Field if (-0x8000..=0xffff).contains(&bits) => Coded::Field(bits),
            Kind::ScalarOffset if (-(1 << 20)..1 << 20).contains(&bits) => Coded::Field(bits),
            Kind::Literal | Kind::Field | Kind::ScalarOffset => return Err(Misfit::Field),
            _ => return Err(Misfit::Kind),
        },
    };
    let fits = match (slot.kind, coded) {
        (_, Coded::Literal(_)) => true,
        (Kind::Scalar, Coded::Scalar(code, _)) if slot.access != Access::Use => may_write(desc, code),
        (Kind::Scalar, Coded::Scalar(..)) => true,
        (Kind::Vector | Kind::VectorOrAcc | Kind::Source | Kind::AccSource | Kind::VectorOrOff | Kind::Address, Coded::Vector(_)) => true,
        (Kind::VectorOrAcc | Kind::Acc | Kind::AccSource, Coded::Acc(_)) => true,
        (Kind::ScalarOrOff, Coded::Scalar(code, _)) => code < EXEC,
        (Kind::Source | Kind::ScalarSource | Kind::ScalarOffset, Coded::Scalar(..)) => true,
        (Kind::Source | Kind::ScalarSource | Kind::AccSource, Coded::Inline(_)) => true,
        (Kind::VectorOrOff | Kind::ScalarOrOff, Coded::Off) => true,
        (Kind::Field | Kind::ScalarOffset, Coded::Field(_)) => true,
        (Kind::Target, Coded::Target(_)) => true,
        _ => false,
    };
    if fits { Ok(coded) } else { Err(Misfit::Kind) }
}

fn inline(constant: Result<Constant, crate::isa::NoConstant>) -> Result<Coded, Misfit> {
    match constant {
        Ok(Constant::Integer(code) | Constant::Float(code)) => Ok(Coded::Inline(code)),
        Ok(Constant::Literal(_)) => Err(Misfit::Literal),
        Err(why) => Err(Misfit::Constant(why)),
    }
}

const FLAT_SCRATCH: u8 = 102;
const VCC: u8 = 106;
const M0: u8 = 124;
const EXEC: u8 = 126;

/// `vcc` as an operand of lanes.
pub(super) const VCC_MASK: Coded = Coded::Scalar(VCC, 2);

/// Vector instructions do not write `m0`, scalar memory instructions neither `m0` nor `exec`.
fn may_write(desc: &Desc, code: u8) -> bool {
    match desc.form.format {
        Format::Vop1 | Format::Vop3a => code != M0,
        Format::Smem => code < M0,
        _ => true,
    }
}

fn register(span: Span, words: u8, chip: Chip) -> Result<Coded, Misfit> {
    if span.words != words {
        return Err(Misfit::Words);
    }
    match span.reg {
        Reg::Virtual(_) => Err(Misfit::Virtual),
        Reg::Fixed(fixed) => {
            let (first, has) = match fixed {
                Fixed::Vcc => (VCC, 2),
                Fixed::Exec => (EXEC, 2),
                Fixed::M0 => (M0, 1),
                Fixed::FlatScratch if chip == Chip::Gfx90a => (FLAT_SCRATCH, 2),
                Fixed::FlatScratch => return Err(Misfit::Kind),
                Fixed::Scc => return Err(Misfit::Kind),
            };
            if u16::from(span.first) + u16::from(words) > has {
                return Err(Misfit::Range);
            }
            Ok(Coded::Scalar(first + span.first, words))
        }
        Reg::Physical(file, first) => {
            let first = first.checked_add(span.first.into()).ok_or(Misfit::Range)?;
            let end = first.checked_add(words.into()).ok_or(Misfit::Range)?;
            let (limit, align) = match file {
                File::Scalar => (SCALARS, if words >= 4 { 4 } else { words.max(1).into() }),
                File::Vector | File::Acc => (VECTORS, if words > 1 { 2 } else { 1 }),
            };
            if end > limit {
                return Err(Misfit::Range);
            }
            if first % align != 0 {
                return Err(Misfit::Alignment);
            }
            // All limits are at most 256.
            let number = first as u8;
            Ok(match file {
                File::Scalar => Coded::Scalar(number, words),
                File::Vector => Coded::Vector(number),
                File::Acc => Coded::Acc(number),
            })
        }
    }
}
