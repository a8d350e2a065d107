//! What the operands of a vector instruction are for, and its short format.

use super::encoded::Parts;
use super::error::{EncodeReason, Misfit, Modifier};
use super::mods::require;
use super::operand::{Coded, VCC_MASK};
use crate::isa::{Access, Format, Kind, Slot, Value};
use crate::mir::Fixed;
use smallvec::SmallVec;

/// The operands of a vector instruction by role.
pub(super) struct Roles<'a> {
    /// The result: a vector register, or a scalar one.
    pub result: Option<(&'a Slot, Coded)>,
    /// A mask that is written beside the result.
    pub mask_out: Option<Coded>,
    /// A mask that is read.
    pub mask_in: Option<Coded>,
    /// Sources, with their places.
    pub sources: SmallVec<[(usize, &'a Slot, Coded); 3]>,
    /// A constant that stands behind the instruction, always.
    pub literal: Option<u32>,
}

impl<'a> Roles<'a> {
    pub(super) fn of(p: &'a Parts) -> Result<Roles<'a>, EncodeReason> {
        let mut roles = Roles { result: None, mask_out: None, mask_in: None, sources: SmallVec::new(), literal: None };
        for (at, (slot, &coded)) in p.desc.slots.iter().zip(&p.operands).enumerate() {
            match (slot.access, slot.kind) {
                (Access::Def | Access::Update, _) if at == 0 => roles.result = Some((slot, coded)),
                (Access::Def, Kind::Scalar) => roles.mask_out = Some(coded),
                (Access::Use, Kind::Scalar) => roles.mask_in = Some(coded),
                (_, Kind::Literal) => {
                    if let Coded::Literal(bits) = coded {
                        roles.literal = Some(bits);
                    }
                }
                _ => roles.sources.push((at, slot, coded)),
            }
        }
        roles.scalar_reads(p)?;
        Ok(roles)
    }

    /// A vector instruction reads one scalar register or literal: the same one counts once.
    fn scalar_reads(&self, p: &Parts) -> Result<(), EncodeReason> {
        let mut read: SmallVec<[Coded; 4]> = SmallVec::new();
        let literal = self.literal.map(Coded::Literal);
        let implicit = p.desc.implicit.iter().any(|i| i.reg == Fixed::Vcc && i.access != Access::Def).then_some(VCC_MASK);
        for coded in self.sources.iter().map(|s| s.2).chain(self.mask_in).chain(literal).chain(implicit) {
            if matches!(coded, Coded::Scalar(..) | Coded::Literal(_)) && !read.contains(&coded) {
                read.push(coded);
            }
        }
        let literals = read.iter().filter(|c| matches!(c, Coded::Literal(_))).count();
        match read.len() {
            0 | 1 => Ok(()),
            _ if literals > 1 => Err(EncodeReason::TwoLiterals),
            _ => Err(EncodeReason::ScalarReads),
        }
    }

    pub(super) fn result_bits(&self) -> u32 {
        self.result.map_or(0, |(_, coded)| coded.register())
    }

    pub(super) fn source(&self, n: usize) -> u32 {
        self.sources.get(n).map_or(0, |s| s.2.source().into())
    }

    /// The literal, if there is one.
    pub(super) fn any_literal(&self) -> Option<u32> {
        self.literal.or_else(|| self.sources.iter().find_map(|s| if let Coded::Literal(bits) = s.2 { Some(bits) } else { None }))
    }

    /// Signs can be changed of registers that hold floats.
    pub(super) fn signs(&self, bits: u8, modifier: Modifier) -> Result<(), EncodeReason> {
        let allowed = self.sources.iter().enumerate().fold(0, |allowed, (n, (_, slot, coded))| {
            let float = matches!(slot.value, Value::F16 | Value::F32 | Value::F64 | Value::Mix);
            let register = matches!(coded, Coded::Vector(_) | Coded::Scalar(..));
            allowed | u8::from(float && register) << n
        });
        require(bits & !allowed == 0, modifier)
    }

    pub(super) fn no_literal(&self) -> Result<(), EncodeReason> {
        match self.sources.iter().find(|s| matches!(s.2, Coded::Literal(_))) {
            Some(&(at, ..)) => Err(EncodeReason::Operand(at, Misfit::Literal)),
            None => Ok(()),
        }
    }
}

/// Whether masks are `vcc`, and the second source is a vector register.
pub(super) fn fits_short(roles: &Roles, format: Format) -> bool {
    let vcc = |mask: Option<Coded>| mask.is_none_or(|m| m == VCC_MASK);
    let result = format != Format::Vopc || vcc(roles.result.map(|r| r.1));
    result && vcc(roles.mask_in) && vcc(roles.mask_out) && roles.sources.iter().skip(1).all(|s| s.2.is_vector())
}

/// The word of a short format, with another first source where parts or lanes are named.
pub(super) fn short(p: &Parts, roles: &Roles, source: u32) -> u32 {
    let op = u32::from(p.number);
    let second = roles.source(1) & 255;
    match p.desc.form.format {
        Format::Vop1 => 0b011_1111 << 25 | roles.result_bits() << 17 | op << 9 | source,
        Format::Vopc => 0b011_1110 << 25 | op << 17 | second << 9 | source,
        _ => op << 25 | roles.result_bits() << 17 | second << 9 | source,
    }
}
