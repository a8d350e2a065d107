//! What an instruction reads and writes, word by word, for the checkers.

use crate::isa::{Access, Format, Kind, Opcode};
use crate::mir::{Fixed, Inst, Operand, Part, Rest, Span};

/// What happens to a register that an operand names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Effect {
    /// The operand's number.
    pub at: usize,
    /// The register.
    pub span: Span,
    /// It is read, or keeps a part of what it had.
    pub reads: bool,
    /// It is written.
    pub writes: bool,
    /// What may stand there.
    pub kind: Kind,
}

/// Effects of an instruction's operands.
pub(super) fn effects(inst: &Inst) -> Vec<Effect> {
    let mut found = Vec::new();
    for (at, (operand, slot)) in inst.operands.iter().zip(inst.op.desc().slots).enumerate() {
        let Operand::Reg(span) = *operand else { continue };
        let writes = slot.access != Access::Use;
        let mut reads = slot.access != Access::Def;
        // Only the upper half is written, or only lanes that have a source, or rows and banks that are asked for.
        reads |= writes && inst.mods.op_sel >> 3 & 1 == 1;
        if let Some(dpp) = inst.mods.dpp {
            reads |= writes && !(dpp.bound_ctrl && dpp.row_mask == 15 && dpp.bank_mask == 15);
        }
        if let Some(parts) = inst.mods.sdwa {
            reads |= writes && parts.rest == Rest::Keep && parts.dst != Part::Dword;
        }
        // A packed instruction may take one word of two for both of its numbers.
        let two = matches!(inst.op, Opcode::VPkAddF32 | Opcode::VPkMulF32 | Opcode::VPkFmaF32) && span.words == 2 && !writes;
        let words = |mask: u8| (0..2u8).find(|w| two && mask >> (at.max(1) - 1) & 1 == *w);
        let span = match (words(inst.mods.op_sel), words(!inst.mods.op_sel_hi_off)) {
            (Some(a), Some(b)) if a == b => span.part(a, 1),
            _ => span,
        };
        found.push(Effect { at, span, reads, writes, kind: slot.kind });
    }
    found
}

/// True if the instruction asks which lanes take part.
pub(super) fn asks_exec(inst: &Inst) -> bool {
    inst.op.desc().implicit.iter().any(|i| i.reg == Fixed::Exec && matches!(i.access, Access::Use | Access::Update))
}

/// How an instruction uses a register with a name, as an operand or otherwise: read, written.
pub(super) fn named(inst: &Inst, reg: Fixed) -> (bool, bool) {
    let mut both = (false, false);
    for i in inst.op.desc().implicit.iter().filter(|i| i.reg == reg) {
        both.0 |= i.access != Access::Def;
        both.1 |= i.access != Access::Use;
    }
    for e in effects(inst).iter().filter(|e| e.span.reg == crate::mir::Reg::Fixed(reg)) {
        both.0 |= e.reads;
        both.1 |= e.writes;
    }
    both
}

/// True for matrix instructions, moves between the files not counted.
pub(super) fn is_matrix(inst: &Inst) -> bool {
    matches!(inst.op.desc().form.format, Format::Mai | Format::Vop3px2) && !asks_exec(inst)
}
