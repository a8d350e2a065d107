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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::Chip;
    use crate::mir::{BlockData, verify};

    /// A choice at a depth, in a loop of itself if that is not 0.
    fn choice(depth: u32) -> Program {
        let branch = |op: Opcode, to: usize| Inst::new(op, [Operand::Block(Block::new(to))]);
        let compare = || Inst::new(Opcode::SCmpEqU32, [0.into(), 0.into()]);
        let nop = |n: i64| Inst::new(Opcode::SNop, [Operand::Imm(n)]);
        let block = |insts: Vec<Inst>, next: &[usize], depth| {
            let next = next.iter().map(|&n| Block::new(n)).collect();
            BlockData { insts, next, depth }
        };
        let mut program = crate::testing::generate::empty(Chip::Gfx942, 4);
        program.blocks.push(block(Vec::new(), &[1], 0));
        program.blocks.push(block(vec![compare(), branch(Opcode::SCbranchScc0, 3)], &[3, 2], depth));
        program.blocks.push(block(vec![nop(1), branch(Opcode::SBranch, 4)], &[4], depth));
        program.blocks.push(block(vec![nop(2)], &[4], depth));
        program.blocks.push(block(vec![compare(), branch(Opcode::SCbranchScc1, 1)], &[1, 5], depth));
        program.blocks.push(block(vec![Inst::new(Opcode::SEndpgm, [])], &[], 0));
        program
    }

    fn nops(program: &Program) -> Vec<Vec<i64>> {
        let number = |i: &Inst| match (i.op, i.operands.first()) {
            (Opcode::SNop, Some(&Operand::Imm(n))) => Some(n),
            _ => None,
        };
        program.blocks.values().map(|b| b.insts.iter().filter_map(number).collect()).collect()
    }

    #[test]
    fn the_other_way_of_a_choice_in_a_loop_lies_behind_the_kernel() {
        let mut program = choice(1);
        assert_eq!(verify(&program), Ok(()));
        move_away(&mut program);
        assert_eq!(verify(&program), Ok(()));
        assert_eq!(nops(&program), [vec![], vec![], vec![1], vec![], vec![], vec![2]]);
        let branches = |at: usize| program.blocks[Block::new(at)].insts.last().map(|i| i.operands.to_vec());
        // To the other way, from there back, and around the loop.
        assert_eq!(branches(1), Some(vec![Operand::Block(Block::new(5))]));
        assert_eq!(branches(5), Some(vec![Operand::Block(Block::new(3))]));
        assert_eq!(branches(3), Some(vec![Operand::Block(Block::new(1))]));
    }

    #[test]
    fn others_stay() {
        let mut program = choice(0);
        let before = program.clone();
        move_away(&mut program);
        assert_eq!(program, before);
    }
}
