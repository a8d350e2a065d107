//! Matrix instructions, and moves between the vector files.

use super::encoded::{Encoded, Parts};
use super::error::{EncodeReason, Modifier};
use super::mods::{none_left, require};
use super::operand::Coded;
use super::roles::Roles;
use crate::isa::{Format, Value, Variant};
use crate::mir::Mods;

/// Results of more registers than this must not overlap what they are added to, unless they are the same.
const MAY_OVERLAP: u8 = 4;

pub(super) fn matrix(p: &Parts) -> Result<Encoded, EncodeReason> {
    if p.desc.form.variant == Variant::Move {
        return moves(p);
    }
    let (Some(&d), Some(&a), Some(&b), Some(&c)) = (p.operands.first(), p.operands.get(1), p.operands.get(2), p.operands.get(3)) else {
        return Err(EncodeReason::Operands(p.operands.len()));
    };
    let is_register = !matches!(c, Coded::Inline(_));
    if is_register && c.is_acc() != d.is_acc() {
        return Err(EncodeReason::TwoFiles);
    }
    let words = p.desc.slots[0].words;
    if is_register && words > MAY_OVERLAP {
        let apart = d.register().abs_diff(c.register());
        if apart != 0 && apart < words.into() {
            return Err(EncodeReason::Overlap);
        }
    }
    let mods = &p.inst.mods;
    let narrow = p.desc.form.variant == Variant::Narrow;
    let scaled = p.desc.form.format == Format::Vop3px2;
    none_left(&Mods { cbsz: 0, abid: 0, blgp: 0, op_sel: 0, op_sel_hi: 0, ..*mods })?;
    let f64 = p.desc.slots[3].value == Value::F64;
    let (formats, blocks) = if narrow {
        (4, 0)
    } else if f64 {
        (0, 0)
    } else {
        (7, 15)
    };
    require(mods.cbsz <= formats, Modifier::Cbsz)?;
    require(mods.abid <= blocks, Modifier::Abid)?;
    require(mods.blgp <= if narrow { 4 } else { 7 }, Modifier::Blgp)?;
    let scales = if scaled { 3 } else { 0 };
    require(mods.op_sel & !scales == 0, Modifier::OpSel)?;
    require(mods.op_sel_hi & !scales == 0, Modifier::OpSelHi)?;
    // The bit of the block says that scales stand before it.
    let block = if scaled { 1 } else { u32::from(mods.abid) };
    let low = 0b1_1010_0111 << 23
        | u32::from(p.number) << 16
        | u32::from(d.is_acc()) << 15
        | block << 11
        | u32::from(mods.cbsz) << 8
        | d.register();
    let high = u32::from(a.source())
        | u32::from(b.source()) << 9
        | u32::from(c.source()) << 18
        | u32::from(a.is_acc()) << 27
        | u32::from(b.is_acc()) << 28
        | u32::from(mods.blgp) << 29;
    if !scaled {
        return Ok(Encoded::new([low, high]));
    }
    // An instruction of its own that hands the scales to the one behind it.
    const LOAD_SCALES: u32 = 0xd3ac_0000;
    let scale = |n: usize| p.operands.get(4 + n).map_or(0, |c| u32::from(c.source()));
    let first = LOAD_SCALES | u32::from(mods.op_sel) << 11;
    let second = scale(0) | scale(1) << 9 | u32::from(mods.op_sel_hi) << 27;
    Ok(Encoded::new([first, second, low, high]))
}

/// `v_accvgpr_read` and `v_accvgpr_write`.
fn moves(p: &Parts) -> Result<Encoded, EncodeReason> {
    none_left(&p.inst.mods)?;
    let roles = Roles::of(p)?;
    let result = p.operands.first().map_or(0, |c| c.register());
    let source = roles.sources.first().map_or(0, |s| u32::from(s.2.source()));
    if let Some(&(at, _, Coded::Literal(_))) = roles.sources.first() {
        return Err(EncodeReason::Operand(at, super::error::Misfit::Literal));
    }
    let low = 0b1_1010_0111 << 23 | u32::from(p.number) << 16 | 1 << 14 | result;
    Ok(Encoded::new([low, 3 << 27 | source]))
}
