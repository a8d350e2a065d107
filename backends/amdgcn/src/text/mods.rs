//! Modifiers as text, in the assembler's order.

use crate::chip::Chip;
use crate::isa::{Access, Desc, Format, Kind, Value, Variant};
use crate::mir::{Dpp, Inst, Operand, Part, Rest, Sdwa};
use std::fmt::Write;

/// What stands behind the operands, each with a blank before it. Writing to a string does not fail.
pub(super) fn mods(inst: &Inst, desc: &Desc, chip: Chip, out: &mut String) -> std::fmt::Result {
    match desc.form.format {
        Format::Smem | Format::Ds | Format::Global | Format::Scratch | Format::Mubuf => memory(inst, desc, chip, out),
        Format::Mai | Format::Vop3px2 => matrix(inst, desc, chip, out),
        Format::Vop3p => packed(inst, desc, out),
        _ => vector(inst, desc, out),
    }
}

fn memory(inst: &Inst, desc: &Desc, chip: Chip, out: &mut String) -> std::fmt::Result {
    let mods = &inst.mods;
    let by_lane = |at: usize| {
        desc.slots.get(at).is_some_and(|s| s.kind == Kind::VectorOrOff) && inst.operands.get(at).is_some_and(|o| *o != Operand::Off)
    };
    if desc.form.format == Format::Mubuf && (by_lane(0) || by_lane(1)) {
        out.push_str(" offen");
    }
    match (desc.form.variant, desc.form.format) {
        (Variant::TwoOffsets, _) => {
            for (name, offset) in [("offset0", mods.offset), ("offset1", mods.offset1.into())] {
                if offset != 0 {
                    write!(out, " {name}:{offset}")?;
                }
            }
        }
        (_, Format::Smem) if mods.offset < 0 => write!(out, " offset:-{:#x}", mods.offset.unsigned_abs())?,
        _ if mods.offset != 0 => write!(out, " offset:{}", mods.offset)?,
        _ => {}
    }
    let returns = desc.form.variant == Variant::Returns;
    let old = chip == Chip::Gfx90a || desc.form.format == Format::Smem;
    let names = if old { ["glc", "scc", "slc"] } else { ["sc0", "sc1", "nt"] };
    // The assembler's order is sc0, nt, sc1.
    for (set, name) in [(mods.sc0 || returns, names[0]), (mods.nt, names[2]), (mods.sc1, names[1])] {
        if set {
            write!(out, " {name}")?;
        }
    }
    if desc.form.variant == Variant::ToLds && desc.form.format == Format::Mubuf {
        out.push_str(" lds");
    }
    Ok(())
}

fn matrix(inst: &Inst, desc: &Desc, chip: Chip, out: &mut String) -> std::fmt::Result {
    let mods = &inst.mods;
    if desc.form.format == Format::Vop3px2 {
        bits(out, "op_sel", mods.op_sel, 3)?;
        bits(out, "op_sel_hi", mods.op_sel_hi, 3)?;
    }
    for (name, value) in [("cbsz", mods.cbsz), ("abid", mods.abid)] {
        if value != 0 {
            write!(out, " {name}:{value}")?;
        }
    }
    let signs = desc.slots.get(3).is_some_and(|s| s.value == Value::F64) && chip != Chip::Gfx90a;
    match (mods.blgp, signs) {
        (0, _) => Ok(()),
        (blgp, true) => bits(out, "neg", blgp, 3),
        (blgp, false) => write!(out, " blgp:{blgp}"),
    }
}

fn packed(inst: &Inst, desc: &Desc, out: &mut String) -> std::fmt::Result {
    let mods = &inst.mods;
    let sources = desc.slots.iter().filter(|s| s.access == Access::Use).count();
    let mixed = desc.form.variant == Variant::Mix;
    if mods.op_sel != 0 {
        bits(out, "op_sel", mods.op_sel, sources)?;
    }
    if mixed && mods.op_sel_hi != 0 {
        bits(out, "op_sel_hi", mods.op_sel_hi, sources)?;
    }
    if !mixed && mods.op_sel_hi_off != 0 {
        bits(out, "op_sel_hi", !mods.op_sel_hi_off, sources)?;
    }
    if !mixed && mods.neg != 0 {
        bits(out, "neg_lo", mods.neg, sources)?;
    }
    if mods.neg_hi != 0 {
        bits(out, "neg_hi", mods.neg_hi, sources)?;
    }
    clamp(inst, out);
    Ok(())
}

fn vector(inst: &Inst, desc: &Desc, out: &mut String) -> std::fmt::Result {
    let mods = &inst.mods;
    let sources = desc.slots.iter().filter(|s| s.access == Access::Use && s.kind != Kind::Literal).count();
    if mods.op_sel != 0 && desc.form.variant == Variant::Bytes {
        bits(out, "op_sel", mods.op_sel, 4)?;
    } else if mods.op_sel != 0 {
        // The last one is the result's.
        let result = (mods.op_sel >> 3 & 1) << sources;
        bits(out, "op_sel", mods.op_sel & ((1 << sources) - 1) | result, sources + 1)?;
    }
    clamp(inst, out);
    match (mods.dpp, mods.sdwa) {
        (Some(dpp), _) => lanes(dpp, out),
        (None, Some(sdwa)) => parts(desc, sdwa, out),
        (None, None) => Ok(()),
    }
}

fn clamp(inst: &Inst, out: &mut String) {
    if inst.mods.clamp {
        out.push_str(" clamp");
    }
}

/// `name:[0,1,...]`, the lowest bit first.
fn bits(out: &mut String, name: &str, bits: u8, count: usize) -> std::fmt::Result {
    write!(out, " {name}:[")?;
    for n in 0..count {
        write!(out, "{}{}", if n == 0 { "" } else { "," }, bits >> n & 1)?;
    }
    out.push(']');
    Ok(())
}

fn lanes(dpp: Dpp, out: &mut String) -> std::fmt::Result {
    let n = dpp.ctrl & 15;
    match dpp.ctrl {
        0..=0xff => {
            let lane = |at: u16| dpp.ctrl >> (2 * at) & 3;
            write!(out, " quad_perm:[{},{},{},{}]", lane(0), lane(1), lane(2), lane(3))?;
        }
        0x100..=0x10f => write!(out, " row_shl:{n}")?,
        0x110..=0x11f => write!(out, " row_shr:{n}")?,
        0x120..=0x12f => write!(out, " row_ror:{n}")?,
        0x140 => out.push_str(" row_mirror"),
        0x141 => out.push_str(" row_half_mirror"),
        0x142 => out.push_str(" row_bcast:15"),
        0x143 => out.push_str(" row_bcast:31"),
        _ => write!(out, " row_newbcast:{n}")?,
    }
    write!(out, " row_mask:{:#x} bank_mask:{:#x}", dpp.row_mask, dpp.bank_mask)?;
    if dpp.bound_ctrl {
        out.push_str(" bound_ctrl:0");
    }
    Ok(())
}

fn parts(desc: &Desc, sdwa: Sdwa, out: &mut String) -> std::fmt::Result {
    let whole = desc.form.format == Format::Vopc || desc.form.variant == Variant::Halves;
    if !whole {
        let rest = match sdwa.rest {
            Rest::Zero => "UNUSED_PAD",
            Rest::Sign => "UNUSED_SEXT",
            Rest::Keep => "UNUSED_PRESERVE",
        };
        write!(out, " dst_sel:{} dst_unused:{rest}", part(sdwa.dst))?;
    }
    let sources = desc.slots.iter().filter(|s| s.access == Access::Use && matches!(s.kind, Kind::Source | Kind::Vector)).count();
    for (n, &source) in sdwa.src.iter().enumerate().take(sources) {
        write!(out, " src{n}_sel:{}", part(source))?;
    }
    Ok(())
}

fn part(part: Part) -> &'static str {
    match part {
        Part::Byte0 => "BYTE_0",
        Part::Byte1 => "BYTE_1",
        Part::Byte2 => "BYTE_2",
        Part::Byte3 => "BYTE_3",
        Part::Word0 => "WORD_0",
        Part::Word1 => "WORD_1",
        Part::Dword => "DWORD",
    }
}
