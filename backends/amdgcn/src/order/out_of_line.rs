//! What loops branch over lies behind the kernel: of two ways the one that comes first goes straight on.
//!
//! ```text
//!        s_cbranch_scc0 other           s_cbranch_scc0 other
//!        one                            one
//!        s_branch on                    s_branch on          removed, since it goes to the next block
//! other: …                       on:    …
//! on:    …                       other: …
//!                                       s_branch on
//! ```

use crate::isa::Opcode;
use crate::mir::{Block, Inst, Operand, Program};
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap};

/// The number of the block to which a block of a loop goes over others, always, if these and it are in the same loop.
fn over(program: &Program, at: usize) -> Option<usize> {
    let data = program.blocks.get(Block::new(at))?;
    let last = data.insts.last().filter(|inst| inst.op == Opcode::SBranch && data.depth > 0)?;
    let Some(&Operand::Block(to)) = last.operands.first() else { return None };
    let inside = |n: usize| program.blocks.get(Block::new(n)).is_some_and(|b| b.depth >= data.depth);
    let same = program.blocks.get(to).is_some_and(|b| b.depth == data.depth);
    (to.index() > at + 1 && same && (at + 1..to.index()).all(inside)).then_some(to.index())
}

/// True if nothing falls out of the block.
fn ends(program: &Program, at: usize) -> bool {
    let last = program.blocks.get(Block::new(at)).and_then(|b| b.insts.last());
    last.is_some_and(|inst| matches!(inst.op, Opcode::SBranch | Opcode::SEndpgm | Opcode::SSetpcB64))
}

/// Moves what loops branch over.
pub(super) fn move_away(program: &mut Program) {
    let count = program.blocks.len();
    let (mut straight, mut away) = (Vec::with_capacity(count), Vec::new());
    let mut at = 0;
    while at < count {
        straight.push(at);
        at = match over(program, at) {
            Some(to) if ends(program, count - 1) => {
                if !ends(program, to - 1) {
                    program.blocks[Block::new(to - 1)].insts.push(Inst::new(Opcode::SBranch, [Operand::Block(Block::new(to))]));
                }
                away.extend(at + 1..to);
                to
            }
            _ => at + 1,
        };
    }
    if away.is_empty() {
        return;
    }
    let order = straight.into_iter().chain(away);
    let mut number: SecondaryMap<Block, Option<Block>> = SecondaryMap::new();
    let mut old: Vec<_> = std::mem::take(&mut program.blocks).into_iter().map(|(_, data)| Some(data)).collect();
    let mut new = PrimaryMap::with_capacity(count);
    for from in order {
        if let Some(data) = old.get_mut(from).and_then(Option::take) {
            number[Block::new(from)] = Some(new.push(data));
        }
    }
    let number = |b: Block| number[b].unwrap_or(b);
    for data in new.values_mut() {
        data.next.iter_mut().for_each(|b| *b = number(*b));
        for operand in data.insts.iter_mut().flat_map(|inst| &mut inst.operands) {
            if let Operand::Block(to) = operand {
                *to = number(*to);
            }
        }
    }
    program.blocks = new;
}
