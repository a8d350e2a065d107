//! Checks waits: from each memory operation, all ways are walked until a wait covers it, and nothing on them may touch what it writes.

use super::effects::{Effect, effects, named};
use super::walk::{Position, all, forward};
use crate::isa::{Access, Counter, Fixed, Format, Kind, Opcode, Variant, Wait};
use crate::mir::{File, Inst, Operand, Program, Reg, Span};
use cranelift_entity::EntityRef;
use std::collections::BTreeSet;

/// An instruction that comes too early.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WaitFault {
    /// The instruction that comes too early.
    pub at: Position,
    /// The memory operation that may still be in flight.
    pub from: Position,
    /// What is wrong about it.
    pub what: Early,
}

/// Why an instruction comes too early.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Early {
    /// It reads what the operation still writes.
    Read,
    /// It writes what the operation still writes.
    Write,
    /// It is a barrier, or ends what the operation must be done before.
    Order,
}

/// A scalar operation in flight makes counts of local data share meaningless. True at the begin of blocks where one may be.
fn scalar_in_flight(program: &Program) -> Vec<bool> {
    let mut entry = vec![false; program.blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for (block, data) in program.blocks.iter() {
            let out = data.insts.iter().fold(entry[block.index()], scalar_behind);
            for next in &data.next {
                changed |= out && !entry[next.index()];
                entry[next.index()] |= out;
            }
        }
    }
    entry
}

fn scalar_behind(before: bool, inst: &Inst) -> bool {
    match waits_for(inst) {
        Some(wait) if wait.lgkm == 0 => false,
        _ => before || inst.op.desc().form.format == Format::Smem,
    }
}

fn waits_for(inst: &Inst) -> Option<Wait> {
    match (inst.op, inst.operands.first()) {
        (Opcode::SWaitcnt, Some(Operand::Imm(bits))) => Some(Wait::of(*bits as u16)),
        _ => None,
    }
}

/// Registers of a span: file and number; named ones count as scalar ones behind all others.
fn registers(span: Span) -> Vec<(File, u16)> {
    let (file, first) = match span.reg {
        Reg::Physical(file, number) => (file, number),
        Reg::Fixed(Fixed::Vcc) => (File::Scalar, 1000),
        Reg::Fixed(Fixed::Exec) => (File::Scalar, 1002),
        Reg::Fixed(Fixed::M0) => (File::Scalar, 1004),
        Reg::Fixed(Fixed::FlatScratch) => (File::Scalar, 1005),
        Reg::Fixed(Fixed::Scc) | Reg::Virtual(_) => return Vec::new(),
    };
    (0..u16::from(span.words)).map(|word| (file, first + u16::from(span.first) + word)).collect()
}

/// All registers that an instruction reads or writes, those that are no operands included.
fn touched(inst: &Inst) -> Vec<(Vec<(File, u16)>, bool)> {
    let operands = effects(inst).into_iter().map(|e: Effect| (registers(e.span), e.writes));
    let implicit = [(Fixed::Vcc, Span::VCC), (Fixed::Exec, Span::EXEC), (Fixed::M0, Span::M0)]
        .into_iter()
        .map(|(fixed, span)| (named(inst, fixed), span))
        .filter(|((reads, writes), _)| *reads || *writes)
        .map(|((_, writes), span)| (registers(span), writes));
    operands.chain(implicit).collect()
}

/// Checks that nothing is touched before it is there, and that barriers come behind what they order.
///
/// # Errors
/// All faults, in the order of the instructions that come too early.
pub fn waits(program: &Program) -> Result<(), Vec<WaitFault>> {
    let scalar = scalar_in_flight(program);
    let mut faults = BTreeSet::new();
    for (from, inst) in all(program) {
        let Some(counter) = inst.op.desc().counter() else { continue };
        let results: BTreeSet<(File, u16)> = effects(inst).iter().filter(|e| e.writes).flat_map(|e| registers(e.span)).collect();
        let slots = inst.op.desc().slots;
        let vector_memory = counter == Counter::Vector;
        let scratch = inst.op.desc().form.format == Format::Scratch;
        // What is read of vector registers and is no address goes to memory: updates that bring something back name the one file alone.
        let stores = vector_memory
            && !scratch
            && slots.iter().any(|s| matches!(s.kind, Kind::VectorOrAcc | Kind::Vector) && s.access != Access::Def);
        let fills = inst.op.desc().form.variant == Variant::ToLds;
        let writes_back = inst.op == Opcode::BufferWbl2;
        let before_barrier = stores || fills || writes_back || counter == Counter::Lds;
        forward(program, from, 0, |at, other, younger| {
            if let Some(wait) = waits_for(other) {
                let covered = match counter {
                    Counter::Vector => wait.vector < 63 && younger >= u32::from(wait.vector),
                    Counter::ScalarMemory => wait.lgkm == 0,
                    Counter::Lds => {
                        let here = program.blocks[at.0].insts[..at.1].iter().fold(scalar[at.0.index()], scalar_behind);
                        wait.lgkm == 0 || wait.lgkm < 15 && !here && younger >= u32::from(wait.lgkm)
                    }
                };
                return (!covered).then_some(younger);
            }
            let mut report = |what| {
                faults.insert(WaitFault { at, from, what });
            };
            for (registers, writes) in touched(other) {
                if registers.iter().any(|r| results.contains(r)) {
                    report(if writes { Early::Write } else { Early::Read });
                }
            }
            let theirs = other.op.desc().counter();
            let early = match other.op {
                Opcode::SBarrier => before_barrier,
                Opcode::BufferInv => vector_memory && !results.is_empty(),
                // Between wavefronts a barrier shows what was filled, and no access in front of it is to that.
                _ => (fills && program.waves == 1 && theirs == Some(Counter::Lds)) || (writes_back && theirs == Some(Counter::Vector)),
            };
            if early {
                report(Early::Order);
            }
            let counts = match counter {
                Counter::Vector => theirs == Some(Counter::Vector),
                Counter::Lds => theirs == Some(Counter::Lds),
                Counter::ScalarMemory => false,
            };
            Some(if counts { (younger + 1).min(63) } else { younger })
        });
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.into_iter().collect()) }
}
