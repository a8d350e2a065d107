//! Vector formats: the shortest that holds the operands and modifiers.

use super::encoded::{Encoded, Parts};
use super::error::{EncodeReason, Misfit, Modifier};
use super::mods::{none_left, require};
use super::operand::Coded;
use super::parts;
use super::roles::{Roles, fits_short, short};
use crate::isa::{Format, Slot, Value, Variant};
use crate::mir::Mods;

/// Instructions of one and two sources, comparisons, and all of [`Format::Vop3a`] and [`Format::Vop3b`].
pub(super) fn alu(p: &Parts) -> Result<Encoded, EncodeReason> {
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

/// Which operand keeps an instruction without a long format out of the short one.
fn unfit(roles: &Roles) -> EncodeReason {
    let at = roles.sources.iter().skip(1).find(|s| !s.2.is_vector()).map_or(0, |s| s.0);
    EncodeReason::Operand(at, Misfit::Kind)
}

fn long(p: &Parts, roles: &Roles, format: Format, op: u32) -> Result<Encoded, EncodeReason> {
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
pub(super) fn packed(p: &Parts) -> Result<Encoded, EncodeReason> {
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
