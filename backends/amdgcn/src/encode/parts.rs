//! Lanes and parts of registers: the first source stands in a word behind the instruction.

use super::encoded::{Encoded, Parts};
use super::error::{EncodeReason, Misfit, Modifier};
use super::mods::{none_left, require};
use super::operand::Coded;
use super::roles::{Roles, fits_short, short};
use crate::isa::{Access, Format, Value, Variant};
use crate::mir::{Dpp, Mods, Part, Sdwa};

const DPP: u32 = 250;
const SDWA: u32 = 249;

/// An instruction with [`Mods::dpp`] or [`Mods::sdwa`].
pub(super) fn encode(p: &Parts, roles: &Roles) -> Result<Encoded, EncodeReason> {
    let mods = &p.inst.mods;
    none_left(&Mods { dpp: None, sdwa: None, neg: 0, abs: 0, ..*mods })?;
    let wide = p.desc.slots.iter().any(|s| s.words > 1 && s.value != Value::Bits) || roles.sources.iter().any(|s| s.1.words > 1);
    let wide = wide || roles.result.is_some_and(|(slot, coded)| slot.words > 1 && !matches!(coded, Coded::Scalar(..)));
    let has = p.desc.form.long.is_some();
    let floats = roles
        .sources
        .iter()
        .enumerate()
        .fold(0, |set, (n, s)| set | u8::from(matches!(s.1.value, Value::F16 | Value::F32 | Value::F64)) << n);
    require(mods.neg & !floats == 0, Modifier::Neg)?;
    require(mods.abs & !floats == 0, Modifier::Abs)?;
    match (mods.dpp, mods.sdwa) {
        // Of 64 bits, a lane of each row can be broadcast to the row, and nothing else.
        (Some(dpp), None) => lanes(p, roles, dpp, has && (!wide || matches!(dpp.ctrl, 0x150..=0x15f))),
        (None, Some(sdwa)) => selected(p, roles, sdwa, has && !wide),
        _ => Err(EncodeReason::Modifier(Modifier::Sdwa)),
    }
}

fn lanes(p: &Parts, roles: &Roles, dpp: Dpp, has: bool) -> Result<Encoded, EncodeReason> {
    let format = p.desc.form.format;
    let swap = format == Format::Vop1 && roles.result.is_some_and(|(slot, _)| slot.access == Access::Update);
    let known = matches!(dpp.ctrl, 0..=0xff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f | 0x140..=0x143 | 0x150..=0x15f);
    let valid = has && !swap && known && dpp.row_mask <= 15 && dpp.bank_mask <= 15 && matches!(format, Format::Vop1 | Format::Vop2);
    require(valid && !roles.sources.is_empty(), Modifier::Dpp)?;
    for &(at, _, coded) in &roles.sources {
        if !coded.is_vector() {
            return Err(EncodeReason::Operand(at, Misfit::Kind));
        }
    }
    if !fits_short(roles, format) {
        return Err(EncodeReason::Modifier(Modifier::Dpp));
    }
    let (neg, abs) = (u32::from(p.inst.mods.neg), u32::from(p.inst.mods.abs));
    let word = roles.sources[0].2.register()
        | u32::from(dpp.ctrl) << 8
        | u32::from(dpp.bound_ctrl) << 19
        | (neg & 1) << 20
        | (abs & 1) << 21
        | (neg >> 1 & 1) << 22
        | (abs >> 1 & 1) << 23
        | u32::from(dpp.bank_mask) << 24
        | u32::from(dpp.row_mask) << 28;
    Ok(Encoded::new([short(p, roles, DPP), word]))
}

fn selected(p: &Parts, roles: &Roles, sdwa: Sdwa, has: bool) -> Result<Encoded, EncodeReason> {
    let format = p.desc.form.format;
    let compares = format == Format::Vopc;
    let updates = roles.result.is_some_and(|(slot, _)| slot.access == Access::Update);
    let floats = |n: usize| roles.sources.get(n).is_some_and(|s| matches!(s.1.value, Value::F16 | Value::F32));
    let sources = roles.sources.len();
    // What converts bytes writes all of its result.
    let whole = compares || p.desc.form.variant == Variant::Halves;
    let valid = has
        && matches!(format, Format::Vop1 | Format::Vop2 | Format::Vopc)
        && !updates
        && matches!(sources, 1 | 2)
        && (!whole || (sdwa.dst, sdwa.rest) == Default::default())
        && (sources == 2 || sdwa.src[1] == Part::Dword)
        && sdwa.signed >> sources == 0
        && (sdwa.signed == 0 || p.desc.form.variant != Variant::Halves)
        && !(0..sources).any(|n| floats(n) && sdwa.signed >> n & 1 == 1);
    require(valid, Modifier::Sdwa)?;
    for &(at, _, coded) in &roles.sources {
        if !matches!(coded, Coded::Vector(_) | Coded::Scalar(..)) {
            return Err(EncodeReason::Operand(at, Misfit::Kind));
        }
    }
    let masks = [roles.mask_in, roles.mask_out].into_iter().flatten().all(|m| m == super::operand::VCC_MASK);
    require(masks, Modifier::Sdwa)?;
    let (neg, abs) = (u32::from(p.inst.mods.neg), u32::from(p.inst.mods.abs));
    let source = |n: usize, part: Part| {
        let scalar = roles.sources.get(n).is_some_and(|s| !s.2.is_vector());
        part as u32 | (u32::from(sdwa.signed) >> n & 1) << 3 | (neg >> n & 1) << 4 | (abs >> n & 1) << 5 | u32::from(scalar) << 7
    };
    let result = if compares {
        let mask = roles.result.map_or(0, |(_, coded)| coded.register());
        let vcc = roles.result.is_none_or(|(_, coded)| coded == super::operand::VCC_MASK);
        if vcc { 0 } else { mask | 0x80 }
    } else {
        sdwa.dst as u32 | (sdwa.rest as u32) << 3
    };
    let second = if sources == 2 { source(1, sdwa.src[1]) } else { 0 };
    let word = roles.sources[0].2.register() | result << 8 | source(0, sdwa.src[0]) << 16 | second << 24;
    Ok(Encoded::new([short(p, roles, SDWA), word]))
}
