//! What is known where blocks begin.

use crate::mir::{Block, BlockData, Program};
use cranelift_entity::EntityRef;

/// Rounds over all blocks before what is known may only grow.
const PATIENCE: usize = 30;

/// Visits blocks until nothing changes: what holds at a block's begin is what holds on some way there. What is inserted because of it makes it
/// hold no more further on, so less may be known in a later round; should that not settle, nothing that was known once is taken back.
///
/// Nothing stands for blocks that are not reached.
pub(super) fn entries<T: Clone + PartialEq>(
    program: &Program,
    start: T,
    join: impl Fn(&mut T, &T),
    transfer: impl Fn(&mut T, &BlockData),
) -> Vec<Option<T>> {
    let count = program.blocks.len();
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (block, data) in program.blocks.iter() {
        data.next.iter().for_each(|next| before[next.index()].push(block.index()));
    }
    let mut entry: Vec<Option<T>> = vec![None; count];
    let mut exit: Vec<Option<T>> = vec![None; count];
    for round in 0.. {
        let mut settled = true;
        for index in 0..count {
            let own = if round > PATIENCE { entry[index].clone() } else { None };
            let first = (index == 0).then(|| start.clone());
            let ways = first.into_iter().chain(own).chain(before[index].iter().filter_map(|&b| exit[b].clone()));
            let Some(state) = ways.reduce(|mut a, b| {
                join(&mut a, &b);
                a
            }) else {
                continue;
            };
            if entry[index].as_ref() == Some(&state) {
                continue;
            }
            settled = false;
            entry[index] = Some(state.clone());
            let mut state = state;
            transfer(&mut state, &program.blocks[Block::new(index)]);
            exit[index] = Some(state);
        }
        if settled {
            break;
        }
    }
    entry
}
