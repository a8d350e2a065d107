//! An instruction as text.

use super::mods::mods;
use super::operand::operand;
use crate::chip::Chip;
use crate::isa::{Access, Desc, Format, Kind, Opcode, Variant, Wait};
use crate::mir::{Inst, Operand};
use std::fmt::{Result, Write};

/// An instruction as the chip's assembler reads it. Virtual registers print, too, for people to read.
pub fn inst(inst: &Inst, chip: Chip) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write(inst, chip, &mut out);
    out
}

/// Writes an instruction.
pub(super) fn write(inst: &Inst, chip: Chip, out: &mut String) -> Result {
    let desc = inst.op.desc();
    out.push_str(desc.mnemonic(chip));
    if inst.mods.dpp.is_some() {
        out.push_str("_dpp");
    } else if inst.mods.sdwa.is_some() {
        out.push_str("_sdwa");
    }
    if inst.op == Opcode::SWaitcnt
        && let Some(&Operand::Imm(bits)) = inst.operands.first()
        && Wait::of(bits as u16).bits() == bits as u16
    {
        return wait(Wait::of(bits as u16), out);
    }
    let mut source = 0;
    for (at, op) in inst.operands.iter().enumerate() {
        out.push_str(if at == 0 { " " } else { ", " });
        let slot = desc.slots.get(at);
        if slot.is_some_and(|s| s.access == Access::Use && matches!(s.kind, Kind::Source | Kind::Vector)) {
            let signs = Signs::of(inst, desc, source);
            signs.before(out);
            operand(op, slot, out)?;
            signs.behind(out);
            source += 1;
        } else {
            operand(op, slot, out)?;
        }
    }
    mods(inst, desc, chip, out)
}

/// A source's changes of sign; packed instructions have them behind the operands.
struct Signs {
    negated: bool,
    absolute: bool,
    extended: bool,
}

impl Signs {
    fn of(inst: &Inst, desc: &Desc, source: usize) -> Signs {
        let mods = &inst.mods;
        let packed = desc.form.format == Format::Vop3p && desc.form.variant != Variant::Mix;
        let set = |bits: u8| bits >> source & 1 == 1;
        Signs { negated: !packed && set(mods.neg), absolute: !packed && set(mods.abs), extended: mods.sdwa.is_some_and(|s| set(s.signed)) }
    }

    fn before(&self, out: &mut String) {
        for (set, text) in [(self.negated, "-"), (self.absolute, "|"), (self.extended, "sext(")] {
            if set {
                out.push_str(text);
            }
        }
    }

    fn behind(&self, out: &mut String) {
        for (set, text) in [(self.extended, ")"), (self.absolute, "|")] {
            if set {
                out.push_str(text);
            }
        }
    }
}

fn wait(wait: Wait, out: &mut String) -> Result {
    let fields =
        [("vmcnt", wait.vector, Wait::NONE.vector), ("expcnt", wait.export, Wait::NONE.export), ("lgkmcnt", wait.lgkm, Wait::NONE.lgkm)];
    let nothing = wait == Wait::NONE;
    for (name, count, most) in fields {
        if count != most || nothing {
            write!(out, " {name}({count})")?;
        }
    }
    Ok(())
}
