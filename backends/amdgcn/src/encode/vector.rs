//! Vector formats: the shortest that holds the operands and modifiers.

use super::error::{Misfit, Modifier, Reason};
use super::mods::{none_left, require};
use super::operand::{Coded, VCC_MASK};
use super::{Encoded, Parts, parts};
use crate::isa::{Access, Format, Kind, Slot, Value, Variant};
use crate::mir::{Fixed, Mods};
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
    pub(super) fn of(p: &'a Parts) -> Result<Roles<'a>, Reason> {
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
    fn scalar_reads(&self, p: &Parts) -> Result<(), Reason> {
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
            _ if literals > 1 => Err(Reason::TwoLiterals),
            _ => Err(Reason::ScalarReads),
        }
    }

    fn result_bits(&self) -> u32 {
        self.result.map_or(0, |(_, coded)| coded.register())
    }

    fn source(&self, n: usize) -> u32 {
        self.sources.get(n).map_or(0, |s| s.2.source().into())
    }

    /// The literal, if there is one.
    fn any_literal(&self) -> Option<u32> {
        self.literal.or_else(|| self.sources.iter().find_map(|s| if let Coded::Literal(bits) = s.2 { Some(bits) } else { None }))
    }

    /// Signs can be changed of registers that hold floats.
    fn signs(&self, bits: u8, modifier: Modifier) -> Result<(), Reason> {
        let allowed = self.sources.iter().enumerate().fold(0, |allowed, (n, (_, slot, coded))| {
            let float = matches!(slot.value, Value::F16 | Value::F32 | Value::F64 | Value::Mix);
            let register = matches!(coded, Coded::Vector(_) | Coded::Scalar(..));
            allowed | u8::from(float && register) << n
        });
        require(bits & !allowed == 0, modifier)
    }

    fn no_literal(&self) -> Result<(), Reason> {
        match self.sources.iter().find(|s| matches!(s.2, Coded::Literal(_))) {
            Some(&(at, ..)) => Err(Reason::Operand(at, Misfit::Literal)),
            None => Ok(()),
        }
    }
}

/// Instructions of one and two sources, comparisons, and all of [`Format::Vop3a`] and [`Format::Vop3b`].
pub(super) fn alu(p: &Parts) -> Result<Encoded, Reason> {
    let roles = Roles::of(p)?;
    let mods = &p.inst.mods;
    let format = p.desc.form.format;
    let is_short = matches!(format, Format::Vop1 | Format::Vop2 | Format::Vopc);
    if mods.dpp.is_some() || mods.sdwa.is_some() {
        return parts::encode(p, &roles);
    }
    if is_short && *mods == Mods::default() && fits_short(&roles, format) {
        return Ok(Encoded::new([short(p, &roles, roles.source(0))]).behind(roles.any_literal()));
    }
    match p.desc.form.long {
        Some((format, by)) => long(p, &roles, format, u32::from(p.number + by)),
        None if is_short => {
            none_left(mods)?;
            Err(unfit(&roles))
        }
        None => long(p, &roles, format, p.number.into()),
    }
}

/// Whether masks are `vcc`, and the second source is a vector register.
pub(super) fn fits_short(roles: &Roles, format: Format) -> bool {
    let vcc = |mask: Option<Coded>| mask.is_none_or(|m| m == VCC_MASK);
    let result = format != Format::Vopc || vcc(roles.result.map(|r| r.1));
    result && vcc(roles.mask_in) && vcc(roles.mask_out) && roles.sources.iter().skip(1).all(|s| s.2.is_vector())
}

/// Which operand keeps an instruction without a long format out of the short one.
fn unfit(roles: &Roles) -> Reason {
    let at = roles.sources.iter().skip(1).find(|s| !s.2.is_vector()).map_or(0, |s| s.0);
    Reason::Operand(at, Misfit::Kind)
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

fn long(p: &Parts, roles: &Roles, format: Format, op: u32) -> Result<Encoded, Reason> {
    roles.no_literal()?;
    let mods = &p.inst.mods;
    none_left(&Mods { neg: 0, abs: 0, clamp: false, op_sel: 0, ..*mods })?;
    roles.signs(mods.neg, Modifier::Neg)?;
    roles.signs(mods.abs, Modifier::Abs)?;
    require(!mods.clamp || clamps(p, roles), Modifier::Clamp)?;
    require(mods.op_sel & !halves(p, roles) == 0, Modifier::OpSel)?;
    let sources = roles.source(0) | roles.source(1) << 9 | third(roles) << 18;
    let mut low = 0b110100 << 26 | op << 16 | u32::from(mods.clamp) << 15 | roles.result_bits();
    if format == Format::Vop3b {
        require(mods.abs == 0, Modifier::Abs)?;
        low |= roles.mask_out.map_or(0, Coded::register) << 8;
    } else {
        low |= u32::from(mods.op_sel & 15) << 11 | u32::from(mods.abs & 7) << 8;
    }
    Ok(Encoded::new([low, sources | u32::from(mods.neg & 7) << 29]))
}

/// The third source: a mask stands there, too.
fn third(roles: &Roles) -> u32 {
    roles.mask_in.map_or(roles.source(2), |mask| mask.source().into())
}

fn clamps(p: &Parts, roles: &Roles) -> bool {
    let float = |s: &(usize, &Slot, Coded)| matches!(s.1.value, Value::F16 | Value::F32 | Value::F64);
    match p.desc.form.variant {
        Variant::Saturates => true,
        Variant::Halves | Variant::Bytes => false,
        _ => p.desc.form.format != Format::Vopc && roles.mask_in.is_none() && roles.sources.first().is_some_and(float),
    }
}

/// The bits of `op_sel` that an instruction has.
fn halves(p: &Parts, roles: &Roles) -> u8 {
    let of_halves = roles.sources.iter().any(|s| matches!(s.1.value, Value::F16 | Value::I16));
    if p.desc.form.variant == Variant::Bytes {
        15
    } else if p.desc.form.format == Format::Vop3a && (of_halves || p.desc.form.variant == Variant::Halves) {
        8 | ((1 << roles.sources.len()) - 1)
    } else {
        0
    }
}

/// Packed and mixed instructions.
pub(super) fn packed(p: &Parts) -> Result<Encoded, Reason> {
    let roles = Roles::of(p)?;
    roles.no_literal()?;
    let mods = &p.inst.mods;
    let mix = p.desc.form.variant == Variant::Mix;
    let all = (1u8 << roles.sources.len()) - 1;
    none_left(&Mods { neg: 0, neg_hi: 0, abs: 0, clamp: false, op_sel: 0, op_sel_hi: 0, op_sel_hi_off: 0, ..*mods })?;
    // Dot products have sources of another kind, too, and no choice of halves.
    let packed =
        roles.sources.iter().all(|s| matches!(s.1.value, Value::PackedF16 | Value::PackedF32 | Value::PackedI16 | Value::PackedBits));
    let selectable = if mix || packed { all } else { 0 };
    require(mods.op_sel & !selectable == 0, Modifier::OpSel)?;
    let (upper, high) = if mix {
        require(mods.neg_hi == 0, Modifier::NegHi)?;
        require(mods.op_sel_hi_off == 0 && mods.op_sel_hi & !all == 0, Modifier::OpSelHi)?;
        roles.signs(mods.neg, Modifier::Neg)?;
        roles.signs(mods.abs, Modifier::Abs)?;
        (mods.op_sel_hi, mods.abs)
    } else {
        let signed = roles
            .sources
            .iter()
            .enumerate()
            .fold(0, |signed, (n, s)| signed | u8::from(matches!(s.1.value, Value::PackedF16 | Value::PackedF32)) << n);
        require(mods.abs == 0, Modifier::Abs)?;
        require(mods.neg & !signed == 0, Modifier::Neg)?;
        require(mods.neg_hi & !signed == 0, Modifier::NegHi)?;
        require(mods.op_sel_hi == 0 && mods.op_sel_hi_off & !selectable == 0, Modifier::OpSelHi)?;
        // Of two sources, the third one's bit is set, too.
        (7 & !mods.op_sel_hi_off, mods.neg_hi)
    };
    let upper = u32::from(upper);
    let low = 0b1_1010_0111 << 23
        | u32::from(p.number) << 16
        | u32::from(mods.clamp) << 15
        | (upper >> 2 & 1) << 14
        | u32::from(mods.op_sel) << 11
        | u32::from(high) << 8
        | roles.result_bits();
    let sources = roles.source(0) | roles.source(1) << 9 | roles.source(2) << 18;
    Ok(Encoded::new([low, sources | (upper & 3) << 27 | u32::from(mods.neg) << 29]))
}
