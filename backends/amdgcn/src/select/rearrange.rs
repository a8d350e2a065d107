//! Other orders of the instructions of blocks: found first, then made in one copy of the program, however deep blocks stand in one another.

use tilelift_lane::{Block, Inst, LVal, visit};

/// Positions of a block's instructions in their new order; nothing where they stay.
pub(super) type BlockOrder = Option<Vec<usize>>;

/// A body with its blocks in the orders that are asked for, if one has another. What is asked is a block with those of its values that are read outside of it.
pub(super) fn rearranged(body: &Block, order: &dyn Fn(&Block, &[LVal]) -> BlockOrder) -> Option<Block> {
    let mut orders = Vec::new();
    find(body, &[], order, &mut orders);
    if orders.iter().all(Option::is_none) {
        return None;
    }
    let mut body = body.clone();
    apply(&mut body, &mut orders.into_iter());
    Some(body)
}

/// The orders of a block and of those inside of it, in the order in which they stand in the program.
fn find(block: &Block, handed: &[LVal], order: &dyn Fn(&Block, &[LVal]) -> BlockOrder, out: &mut Vec<BlockOrder>) {
    out.push(order(block, handed));
    for inst in block.iter().filter(|i| i.control().is_some()) {
        visit::blocks(inst).zip(visit::handed(inst)).for_each(|(b, handed)| find(b, &handed, order, out));
    }
}

fn apply(block: &mut Block, orders: &mut dyn Iterator<Item = BlockOrder>) {
    let own = orders.next().flatten();
    for inst in block.iter_mut().filter(|i| i.control().is_some()) {
        visit::blocks_mut(inst).into_iter().for_each(|b| apply(b, orders));
    }
    if let Some(order) = own {
        let mut old: Vec<Option<Inst>> = std::mem::take(block).into_iter().map(Some).collect();
        *block = order.into_iter().filter_map(|i| old.get_mut(i)?.take()).collect();
    }
}
