//! The set-up of scratch memory, where the chip has none ready: the kernel adds its wavefront's bytes to the address of all wavefronts' memory.
//!
//! What it is made of stands between the address of the arguments and the workgroup's numbers, and behind those, so that the numbers are moved to
//! where a kernel without scratch memory finds them: whether there is any is known when registers are given.

use crate::isa::Opcode;
use crate::mir::{Block, File, Inst, Program, Span};
use cranelift_entity::EntityRef;

/// Inserts the set-up, if the program needs one, before all else.
pub(super) fn insert(program: &mut Program) {
    let Some(setup) = program.scratch_setup() else { return };
    let s = |number: u16| Span::physical(File::Scalar, number, 1);
    let [low, high] = [0, 1].map(|word| Span::FLAT_SCRATCH.part(word, 1));
    let mut insts = vec![
        Inst::new(Opcode::SAddU32, [low.into(), s(setup.base).into(), s(setup.offset).into()]),
        Inst::new(Opcode::SAddcU32, [high.into(), s(setup.base + 1).into(), 0.into()]),
    ];
    // Each goes where the one before has gone from.
    let numbers = setup.base + 2..setup.offset;
    insts.extend(numbers.map(|from| Inst::new(Opcode::SMovB32, [s(from - 2).into(), s(from).into()])));
    program.blocks[Block::new(0)].insts.splice(0..0, insts);
}
