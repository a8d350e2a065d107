//! What an instruction does to registers, as allocation sees it: the instruction table's answer, corrected by what modifiers say.

use crate::isa::{Access, Fixed, Format, Kind, Opcode, Slot};
use crate::mir::{Inst, Operand, Part, Rest, Span};

/// A register that an instruction names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    /// The registers.
    pub span: Span,
    /// What happens to them. A write that keeps part of what was there is an update.
    pub access: Access,
}

/// The registers that an instruction names, operand by operand.
#[inline]
pub(super) fn touches(inst: &Inst) -> impl Iterator<Item = Touch> + Clone + '_ {
    let partial = writes_partly(inst);
    let slots = inst.op.desc().slots;
    inst.operands.iter().enumerate().filter_map(move |(at, value)| {
        let Operand::Reg(span) = *value else { return None };
        let slot = slots.get(at)?;
        let access = if slot.access == Access::Def && partial { Access::Update } else { slot.access };
        Some(Touch { span: inst.selected(at, span), access })
    })
}

/// True if results keep some bits or lanes of what was there for reasons other than `exec`.
fn writes_partly(inst: &Inst) -> bool {
    let upper_half_only = inst.mods.op_sel & 0b1000 != 0;
    let lanes_without_source = inst.mods.dpp.is_some_and(|d| d.row_mask != 0xf || d.bank_mask != 0xf || !d.bound_ctrl);
    let part = inst.mods.sdwa.is_some_and(|s| s.rest == Rest::Keep && s.dst != Part::Dword);
    upper_half_only || lanes_without_source || part
}

/// The shortest encoding's format: what kind of instruction it is.
pub(super) fn format(op: Opcode) -> Format {
    op.desc().form.format
}

/// True if results may not lie where sources lie, although those are read for the last time: the instruction writes before it has read all.
///
/// Matrix instructions with more than four result registers write while they still read; scalar loads of several words may be executed again
/// from the start; products of 64 bits write their result in two steps.
pub(super) fn writes_early(inst: &Inst) -> bool {
    let result_words = inst.operands.iter().zip(inst.op.desc().slots).find_map(|(value, slot)| match value {
        Operand::Reg(span) if slot.access != Access::Use => Some(span.words),
        _ => None,
    });
    let words = result_words.unwrap_or(0);
    match format(inst.op) {
        Format::Mai | Format::Vop3px2 => words > 4 && ignores_exec(inst.op),
        Format::Smem => words > 1,
        _ => matches!(inst.op, Opcode::VMadU64U32 | Opcode::VMadI64I32),
    }
}

/// Operands that must be in the same vector file: the encoding has one bit for them.
pub(super) fn same_file(inst: &Inst) -> impl Iterator<Item = &Operand> {
    let matrix = matches!(format(inst.op), Format::Mai | Format::Vop3px2);
    let together = move |slot: &Slot| match slot.kind {
        Kind::AccSource => true,
        Kind::VectorOrAcc => !matrix || slot.access != Access::Use,
        _ => false,
    };
    inst.operands.iter().zip(inst.op.desc().slots).filter(move |(_, slot)| together(slot)).map(|(operand, _)| operand)
}

/// True if the instruction reads and writes lanes whether they take part or not.
pub(super) fn ignores_exec(op: Opcode) -> bool {
    !op.desc().implicit.iter().any(|i| i.access != Access::Def && i.reg == Fixed::Exec)
}
