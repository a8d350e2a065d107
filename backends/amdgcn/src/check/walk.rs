//! Walks forward from an instruction over all ways, with a number per position: a position is visited again only with a smaller one.

use crate::mir::{Block, Inst, Program};
use rustc_hash::FxHashMap;

/// Where an instruction stands.
pub(super) type Position = (Block, usize);

/// Visits what may be executed behind `from`. `visit` gets each instruction with its position and the number there, and answers the number
/// behind it; nothing where the walk ends.
pub(super) fn forward(program: &Program, from: Position, start: u32, mut visit: impl FnMut(Position, &Inst, u32) -> Option<u32>) {
    let mut best: FxHashMap<Position, u32> = FxHashMap::default();
    let mut open = vec![((from.0, from.1 + 1), start)];
    while let Some(((block, mut at), mut number)) = open.pop() {
        let Some(data) = program.blocks.get(block) else { continue };
        loop {
            let known = best.entry((block, at)).or_insert(u32::MAX);
            if *known <= number {
                break;
            }
            *known = number;
            let Some(inst) = data.insts.get(at) else {
                open.extend(data.next.iter().map(|&next| ((next, 0), number)));
                break;
            };
            match visit((block, at), inst, number) {
                Some(behind) => number = behind,
                None => break,
            }
            at += 1;
        }
    }
}

/// All instructions with their positions.
pub(super) fn all(program: &Program) -> impl Iterator<Item = (Position, &Inst)> {
    program.blocks.iter().flat_map(|(block, data)| data.insts.iter().enumerate().map(move |(at, inst)| ((block, at), inst)))
}
