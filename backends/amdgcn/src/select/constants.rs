//! Constants, and numbers that no loop changes, which loops put into scalar registers step by step are put there in front of them.
//!
//! ```text
//! body:  s_mov_b32 s4, 0x5040100               s_mov_b32 s4, 0x5040100
//!        v_perm_b32 …, s4              ─►  body:  v_perm_b32 …, s4
//! ```
//!
//! Words that nothing else writes are moved, and few of them, as far as there are scalar registers: each is alive in all of its loop.

use crate::isa::{Access, Opcode};
use crate::mir::{Block, File, Inst, Operand, Program, Reg, Span, VReg};
use cranelift_entity::EntityRef;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// Words that move out of a loop, at most.
const MOST: usize = 8;
/// Scalar words up to which a loop has room for more.
const ENOUGH: usize = 88;

/// A word of a virtual register.
type VRegWord = (VReg, u8);

fn words(span: &Span) -> impl Iterator<Item = VRegWord> + use<> {
    let (first, count) = (span.first, span.words);
    let reg = if let Reg::Virtual(v) = span.reg { Some(v) } else { None };
    reg.into_iter().flat_map(move |v| (first..first + count).map(move |w| (v, w)))
}

/// How often words are written, and how often in loops.
type Writes = FxHashMap<VRegWord, [u32; 2]>;

/// True if a move gives a scalar word, which is written once, what no loop changes.
fn constant(program: &Program, writes: &Writes, inst: &Inst) -> bool {
    let (Opcode::SMovB32, [Operand::Reg(to), from]) = (inst.op, &inst.operands[..]) else { return false };
    let Some(word) = words(to).next() else { return false };
    let stays = match from {
        Operand::Imm(_) => true,
        Operand::Reg(span) => {
            matches!(span.reg, Reg::Virtual(_)) && words(span).all(|w| writes.get(&w).is_some_and(|[all, looped]| *all > 0 && *looped == 0))
        }
        _ => false,
    };
    stays && program.vregs[word.0].file == File::Scalar && writes.get(&word).is_some_and(|[all, _]| *all == 1)
}

fn writes(program: &Program) -> Writes {
    let mut out = Writes::default();
    for (data, inst) in program.blocks.values().flat_map(|b| b.insts.iter().map(move |inst| (b, inst))) {
        for (operand, slot) in inst.operands.iter().zip(inst.op.desc().slots) {
            if let (Operand::Reg(span), true) = (operand, slot.access != Access::Use) {
                for word in words(span) {
                    let [all, looped] = out.entry(word).or_default();
                    (*all, *looped) = (*all + 1, *looped + u32::from(data.depth > 0));
                }
            }
        }
    }
    out
}

/// Scalar words that an instruction reads and writes.
fn scalars(program: &Program, inst: &Inst, mut each: impl FnMut(VRegWord, Access)) {
    for (operand, slot) in inst.operands.iter().zip(inst.op.desc().slots) {
        if let Operand::Reg(span) = operand {
            words(span).filter(|w| program.vregs[w.0].file == File::Scalar).for_each(|w| each(w, slot.access));
        }
    }
}

/// Scalar words that are alive at a time in a loop's blocks, at most: those of several blocks, and those of one block where it has most of its own.
fn pressure(program: &Program, blocks: Range<usize>, home: &FxHashMap<VRegWord, Option<usize>>) -> usize {
    let (mut several, mut most) = (FxHashSet::default(), 0);
    for at in blocks {
        let mut own = FxHashSet::default();
        for inst in program.blocks[Block::new(at)].insts.iter().rev() {
            scalars(program, inst, |word, access| {
                if home.get(&word) != Some(&Some(at)) {
                    several.insert(word);
                } else if access == Access::Def {
                    own.remove(&word);
                }
            });
            scalars(program, inst, |word, access| {
                if access != Access::Def && home.get(&word) == Some(&Some(at)) {
                    own.insert(word);
                }
            });
            most = most.max(own.len());
        }
    }
    several.len() + most
}

/// The only block of each scalar word; nothing of words of several blocks.
fn homes(program: &Program) -> FxHashMap<VRegWord, Option<usize>> {
    let mut out = FxHashMap::default();
    for (block, data) in program.blocks.iter() {
        for inst in &data.insts {
            scalars(program, inst, |word, _| {
                let home = out.entry(word).or_insert(Some(block.index()));
                *home = home.filter(|&b| b == block.index());
            });
        }
    }
    out
}

/// Moves them.
pub(super) fn in_front_of_loops(program: &mut Program) {
    let blocks = program.blocks.len();
    let looped = |program: &Program, at: usize| program.blocks.get(Block::new(at)).is_some_and(|b| b.depth > 0);
    if !(0..blocks).any(|at| looped(program, at)) {
        return;
    }
    let (writes, homes) = (writes(program), homes(program));
    let mut at = 0;
    while at < blocks {
        if !looped(program, at) {
            at += 1;
            continue;
        }
        let end = (at..blocks).find(|&n| !looped(program, n)).unwrap_or(blocks);
        let room = ENOUGH.saturating_sub(pressure(program, at..end, &homes)).min(MOST);
        let mut moved = Vec::new();
        for n in at..end {
            let insts = std::mem::take(&mut program.blocks[Block::new(n)].insts);
            let kept = insts.into_iter().filter_map(|inst| {
                let goes = moved.len() < room && constant(program, &writes, &inst);
                if goes {
                    moved.push(inst);
                    return None;
                }
                Some(inst)
            });
            let kept: Vec<Inst> = kept.collect();
            program.blocks[Block::new(n)].insts = kept;
        }
        // A loop is entered from the block in front of it.
        if let Some(front) = at.checked_sub(1) {
            program.blocks[Block::new(front)].insts.extend(moved);
        }
        at = end;
    }
}
