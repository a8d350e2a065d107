//! An instruction as text.

use super::mods::mods;
use super::operand::operand;
use crate::chip::Chip;
use crate::isa::{Access, Desc, Format, Kind, Opcode, Variant, Wait};
use crate::mir::{Inst, Operand};

/// An instruction as the chip's assembler reads it. Virtual registers print, too, for people to read.
pub fn inst(inst: &Inst, chip: Chip) -> String {
    let desc = inst.op.desc();
    let mut out = desc.mnemonic(chip).to_owned();
    if inst.mods.dpp.is_some() {
        out.push_str("_dpp");
    } else if inst.mods.sdwa.is_some() {
        out.push_str("_sdwa");
    }
    if inst.op == Opcode::SWaitcnt
        && let Some(&Operand::Imm(bits)) = inst.operands.first()
        && Wait::of(bits as u16).bits() == bits as u16
    {
        wait(Wait::of(bits as u16), &mut out);
        return out;
    }
    let mut source = 0;
    for (at, op) in inst.operands.iter().enumerate() {
        out.push_str(if at == 0 { " " } else { ", " });
        let slot = desc.slots.get(at);
        let text = operand(op, slot);
        if slot.is_some_and(|s| s.access == Access::Use && matches!(s.kind, Kind::Source | Kind::Vector)) {
            out.push_str(&signs(inst, desc, source, text));
            source += 1;
        } else {
            out.push_str(&text);
        }
    }
    // Writing to a string does not fail.
    let _ = mods(inst, desc, chip, &mut out);
    out
}

/// A source with its changes of sign; packed instructions have them behind the operands.
fn signs(inst: &Inst, desc: &Desc, source: usize, text: String) -> String {
    let mods = &inst.mods;
    let set = |bits: u8| bits >> source & 1 == 1;
    let mut text = text;
    if mods.sdwa.is_some_and(|s| set(s.signed)) {
        text = format!("sext({text})");
    }
    if desc.form.format == Format::Vop3p && desc.form.variant != Variant::Mix {
        return text;
    }
    if set(mods.abs) {
        text = format!("|{text}|");
    }
    if set(mods.neg) {
        text = format!("-{text}");
    }
    text
}

fn wait(wait: Wait, out: &mut String) {
    let fields =
        [("vmcnt", wait.vector, Wait::NONE.vector), ("expcnt", wait.export, Wait::NONE.export), ("lgkmcnt", wait.lgkm, Wait::NONE.lgkm)];
    let nothing = wait == Wait::NONE;
    for (name, count, most) in fields {
        if count != most || nothing {
            out.push_str(&format!(" {name}({count})"));
        }
    }
}
