//! Removes branches to the block behind.

use crate::isa::Opcode;
use crate::mir::{Operand, Program};
use cranelift_entity::EntityRef;

/// Removes branches at the ends of blocks that go where control flow goes anyhow.
pub(super) fn remove(program: &mut Program) {
    for (block, data) in program.blocks.iter_mut() {
        let behind = block.index() + 1;
        while let Some(last) = data.insts.last() {
            let jump = matches!(
                last.op,
                Opcode::SBranch
                    | Opcode::SCbranchScc0
                    | Opcode::SCbranchScc1
                    | Opcode::SCbranchVccz
                    | Opcode::SCbranchVccnz
                    | Opcode::SCbranchExecz
                    | Opcode::SCbranchExecnz
            );
            let needless = jump && matches!(last.operands.first(), Some(Operand::Block(to)) if to.index() == behind);
            if !needless {
                break;
            }
            data.insts.pop();
        }
    }
}
