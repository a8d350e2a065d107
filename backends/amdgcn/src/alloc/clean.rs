//! Removes instructions whose results nobody reads, and that do nothing else.

use super::effects::{format, touches};
use super::result::Origin;
use super::work::Work;
use crate::isa::{Access, Format, Opcode};
use crate::mir::{Block, Fixed, Inst, Program, Reg};
use cranelift_entity::EntityRef;

/// True if an instruction only writes registers.
fn pure(inst: &Inst) -> bool {
    let computes = match format(inst.op) {
        Format::Sop1
        | Format::Sop2
        | Format::Vop1
        | Format::Vop2
        | Format::Vop3a
        | Format::Vop3b
        | Format::Vop3p
        | Format::Vopc
        | Format::Mai
        | Format::Vop3px2 => true,
        Format::Sopc | Format::Sopk | Format::Sopp | Format::Smem | Format::Ds | Format::Global | Format::Scratch | Format::Mubuf => false,
    };
    computes && inst.op != Opcode::SSwappcB64 && inst.op.desc().implicit.iter().all(|i| i.access == Access::Use || i.reg == Fixed::Scc)
}

/// True if the condition bit that instruction `at` writes may be read.
fn condition_is_read(insts: &[Inst], at: usize) -> bool {
    let touches = |inst: &Inst, write: bool| {
        inst.op.desc().implicit.iter().any(|i| i.reg == Fixed::Scc && if write { i.access == Access::Def } else { i.access != Access::Def })
    };
    if !touches(&insts[at], true) && !insts[at].op.desc().implicit.iter().any(|i| i.reg == Fixed::Scc && i.access == Access::Update) {
        return false;
    }
    for inst in &insts[at + 1..] {
        if touches(inst, false) {
            return true;
        }
        if touches(inst, true) {
            return false;
        }
    }
    true
}

/// Counts of reads per virtual register.
fn reads(program: &Program) -> Vec<u32> {
    let mut reads = vec![0u32; program.vregs.len()];
    for inst in program.blocks.values().flat_map(|b| &b.insts) {
        count(inst, &mut |reg| reads[reg] += 1);
    }
    reads
}

/// Registers that an instruction reads, but for those that it only adds to.
fn count(inst: &Inst, each: &mut impl FnMut(usize)) {
    for touch in touches(inst) {
        if let (Reg::Virtual(reg), Access::Use) = (touch.span.reg, touch.access) {
            each(reg.index());
        }
    }
}

/// True if all that an instruction writes is virtual registers without readers.
fn unread(inst: &Inst, reads: &[u32]) -> bool {
    let mut written = false;
    let own = |reg: usize| {
        touches(inst).filter(|t| t.access == Access::Use && t.span.reg == Reg::Virtual(crate::mir::VReg::new(reg))).count() as u32
    };
    for touch in touches(inst).filter(|t| t.access != Access::Use) {
        match touch.span.reg {
            Reg::Virtual(reg) if reads[reg.index()] == own(reg.index()) => written = true,
            _ => return false,
        }
    }
    written
}

/// Removes them; answers how many went.
pub(super) fn remove_unread(work: &mut Work) -> usize {
    let mut removed = 0;
    let mut reads = reads(&work.program);
    loop {
        let before = removed;
        for index in (0..work.program.blocks.len()).rev() {
            let insts = &mut work.program.blocks[Block::new(index)].insts;
            let mut keep = vec![true; insts.len()];
            for at in (0..insts.len()).rev() {
                if pure(&insts[at]) && unread(&insts[at], &reads) && !condition_is_read(insts, at) {
                    keep[at] = false;
                    count(&insts[at], &mut |reg| reads[reg] -= 1);
                }
            }
            removed += keep.iter().filter(|k| !**k).count();
            retain(insts, &mut work.origin[index], &keep);
        }
        if removed == before {
            return removed;
        }
    }
}

/// Keeps some instructions.
pub(super) fn retain(insts: &mut Vec<Inst>, origin: &mut Origin, keep: &[bool]) {
    let mut flags = keep.iter();
    insts.retain(|_| flags.next().copied().unwrap_or(true));
    let mut flags = keep.iter();
    origin.retain(|_| flags.next().copied().unwrap_or(true));
}
