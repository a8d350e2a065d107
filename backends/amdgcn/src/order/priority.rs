//! Priority of wavefronts that multiply: where two share a unit, the one that is among its products goes before the one that loads and stores.
//!
//! ```text
//! v_mfma …  s_setprio 1  v_mfma … ds_read … v_mfma …  s_setprio 0   s_barrier   ds_write …
//! ```
//!
//! Pieces of loops between barriers that have several products are raised, from behind the first product to behind the last one: both instructions
//! are issued while the unit multiplies. What stores to local data share is what others wait for, and is not raised. A wavefront that has the unit for itself needs no priority.

use super::class::{Class, class};
use crate::alloc::Facts;
use crate::chip::Chip;
use crate::isa::{Access, Format, Kind, Opcode};
use crate::mir::{BlockData, Inst, Operand, Program};

/// Unified registers of a lane, which wavefronts of a unit share.
const REGISTERS: u32 = 512;
/// Products from which on a piece is raised.
const SEVERAL: usize = 4;

/// Raises the priority of a program's products, if wavefronts share units.
pub(super) fn insert(program: &mut Program, facts: Facts) {
    if facts.pool() > REGISTERS / 2 {
        return;
    }
    let chip = program.chip;
    for data in program.blocks.values_mut().filter(|data| data.depth > 0) {
        let raised = raised(data, chip);
        // From the end, so that positions stay right.
        for &[first, last] in raised.iter().rev() {
            data.insts.insert(last + 1, set(0));
            data.insts.insert(first + 1, set(1));
        }
    }
}

fn set(priority: i64) -> Inst {
    Inst::new(Opcode::SSetprio, [Operand::Imm(priority)])
}

/// The first and the last product of each piece that is raised.
fn raised(data: &BlockData, chip: Chip) -> Vec<[usize; 2]> {
    let mut all = Vec::new();
    let mut from = 0;
    for piece in data.insts.split_inclusive(|inst| inst.op == Opcode::SBarrier) {
        let products: Vec<usize> = (0..piece.len()).filter(|&at| matches!(class(&piece[at], chip), Class::Matrix(..))).collect();
        if let (&[first, .., last], true) = (&products[..], products.len() >= SEVERAL && !piece.iter().any(stores)) {
            all.push([from + first, from + last]);
        }
        from += piece.len();
    }
    all
}

/// True if the instruction writes local data share.
fn stores(inst: &Inst) -> bool {
    let desc = inst.op.desc();
    desc.form.format == Format::Ds && desc.slots.iter().any(|s| s.kind == Kind::VectorOrAcc && s.access != Access::Def)
}
