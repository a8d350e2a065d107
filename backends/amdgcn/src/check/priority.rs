//! Checks priorities: each block begins and ends at the priority that kernels begin with, and no barrier, end or store to local data share is met
//! above it, since others wait for those.

use super::walk::Position;
use crate::isa::{Access, Format, Kind, Opcode};
use crate::mir::{Inst, Operand, Program};

/// An instruction at a wrong priority.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PriorityFault {
    /// The instruction, or the end of its block.
    pub at: Position,
    /// The priority there.
    pub priority: i64,
}

/// True for what is done at the lowest priority.
fn low(inst: &Inst) -> bool {
    let desc = inst.op.desc();
    let store = desc.form.format == Format::Ds && desc.slots.iter().any(|s| s.kind == Kind::VectorOrAcc && s.access != Access::Def);
    store || matches!(inst.op, Opcode::SBarrier | Opcode::SEndpgm)
}

/// Checks a program.
///
/// # Errors
/// Every instruction at a wrong priority.
pub fn priorities(program: &Program) -> Result<(), Vec<PriorityFault>> {
    let mut faults = Vec::new();
    for (block, data) in program.blocks.iter() {
        let mut priority = 0;
        for (at, inst) in data.insts.iter().enumerate() {
            match (inst.op, inst.operands.first()) {
                (Opcode::SSetprio, Some(&Operand::Imm(to))) => priority = to,
                _ if priority > 0 && low(inst) => faults.push(PriorityFault { at: (block, at), priority }),
                _ => {}
            }
        }
        if priority > 0 {
            faults.push(PriorityFault { at: (block, data.insts.len()), priority });
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}
