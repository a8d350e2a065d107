//! The blocks of a role by numbers, and tables by its values: what passes over blocks in blocks ask again and again.
//!
//! ```text
//! 0 { if 1 { … } else 2 { for 3 { … } } … while 4 { … } 5 { … } }      numbers in the order in which blocks begin
//! ```
//!
//! So the blocks inside a block have the numbers behind its own, up to a last one.

use super::inst::{Block, Control, Inst};
use super::unit::Unit;
use super::value::LVal;
use cranelift_entity::EntityRef;

/// A block.
#[derive(Debug)]
struct Node {
    /// The block around it; the outermost has itself.
    parent: u32,
    /// It is an arm of a choice.
    arm: bool,
    /// It has loads of global memory, not counting those of blocks inside.
    loads: bool,
    /// It has multiplications beside the lanes, likewise.
    multiplies: bool,
    /// The last block inside it, itself if there is none.
    last: u32,
    /// The first blocks of its instructions with blocks, in their order.
    inner: Vec<u32>,
}

/// The blocks inside a block, which is number 0.
#[derive(Debug)]
pub(super) struct Nest {
    nodes: Vec<Node>,
}

impl Nest {
    /// Those of a block.
    pub fn of(block: &Block) -> Nest {
        let mut nest = Nest { nodes: Vec::new() };
        nest.add(block, 0, false);
        nest
    }

    fn add(&mut self, block: &Block, parent: u32, arm: bool) {
        let n = self.nodes.len() as u32;
        self.nodes.push(Node { parent, arm, loads: false, multiplies: false, last: n, inner: Vec::new() });
        let (mut loads, mut multiplies) = (false, false);
        for inst in block {
            loads |= matches!(inst, Inst::LoadGlobal { .. });
            multiplies |= matches!(inst, Inst::Unit(u) if matches!(**u, Unit::Multiply(_)));
            let Some(control) = inst.control() else { continue };
            let first = self.nodes.len() as u32;
            self.nodes[n as usize].inner.push(first);
            let arm = matches!(control, Control::If(_));
            each_block(control, &mut |b| self.add(b, n, arm));
        }
        let last = self.nodes.len() as u32 - 1;
        let node = &mut self.nodes[n as usize];
        (node.loads, node.multiplies, node.last) = (loads, multiplies, last);
    }

    fn node(&self, n: u32) -> &Node {
        &self.nodes[n as usize]
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The first and the last of all blocks.
    pub fn all(&self) -> [u32; 2] {
        [0, self.nodes.len() as u32 - 1]
    }

    /// True if there are choices.
    pub fn chooses(&self) -> bool {
        self.nodes.iter().any(|n| n.arm)
    }

    /// The first blocks of a block's instructions with blocks, in their order.
    pub fn inner(&self, n: u32) -> &[u32] {
        &self.node(n).inner
    }

    /// The first and the last block of the `k`th instruction with blocks of a block, those inside of them included.
    pub fn range(&self, n: u32, k: usize) -> [u32; 2] {
        let node = self.node(n);
        [node.inner[k], node.inner.get(k + 1).map_or(node.last, |next| next - 1)]
    }

    /// The block behind another one and all that are inside of that: the second of an instruction, if that was the first.
    pub fn behind(&self, n: u32) -> u32 {
        self.node(n).last + 1
    }

    /// True if global memory is loaded in some of these blocks.
    pub fn loads(&self, [first, last]: [u32; 2]) -> bool {
        self.nodes[first as usize..=last as usize].iter().any(|n| n.loads)
    }

    /// True if lanes begin multiplications in some of these blocks.
    pub fn multiplies(&self, [first, last]: [u32; 2]) -> bool {
        self.nodes[first as usize..=last as usize].iter().any(|n| n.multiplies)
    }

    /// The innermost block around two.
    pub fn common(&self, mut a: u32, mut b: u32) -> u32 {
        while a != b {
            // The one that begins later is not around the other one.
            let later = if a > b { &mut a } else { &mut b };
            *later = self.node(*later).parent;
        }
        a
    }

    /// The block nearest to a block inside another one to which computations may go from there: into arms of choices, but not into loops. That is
    /// the outer block itself if the other one is not inside of it.
    pub fn nearest(&self, from: u32, to: u32) -> u32 {
        if !(from..=self.node(from).last).contains(&to) {
            return from;
        }
        let (mut nearest, mut at) = (to, to);
        while at != from {
            let node = self.node(at);
            at = node.parent;
            if !node.arm {
                nearest = at;
            }
        }
        nearest
    }
}

/// Calls `f` for the blocks of an instruction, in order.
pub(super) fn each_block<'b>(control: Control<'b>, f: &mut dyn FnMut(&'b Block)) {
    match control {
        Control::For(l) => f(&l.body),
        Control::While(l) => [&l.test, &l.body].into_iter().for_each(f),
        Control::If(c) => [&c.then, &c.otherwise].into_iter().for_each(f),
        Control::Roles(r) => r.roles.iter().for_each(|r| f(&r.body)),
    }
}

/// The same, to change them.
pub(super) fn each_block_mut(inst: &mut Inst, f: &mut dyn FnMut(&mut Block)) {
    match inst {
        Inst::For(l) => f(&mut l.body),
        Inst::While(l) => [&mut l.test, &mut l.body].into_iter().for_each(f),
        Inst::If(c) => [&mut c.then, &mut c.otherwise].into_iter().for_each(f),
        Inst::Roles(r) => r.roles.iter_mut().for_each(|r| f(&mut r.body)),
        _ => {}
    }
}

/// A table by values of which the first ones are not asked for: those that were made before the role was begun.
#[derive(Debug)]
pub(super) struct Table<T> {
    first: usize,
    rows: Vec<T>,
    /// What is said of values that are not in the table.
    other: T,
}

impl<T: Copy> Table<T> {
    /// A table of the values from `first` up to `end`, all alike.
    pub fn new(first: usize, end: usize, all: T) -> Table<T> {
        Table { first, rows: vec![all; end.saturating_sub(first)], other: all }
    }

    /// A value's row.
    #[inline]
    pub fn get(&self, v: LVal) -> T {
        *self.rows.get(v.index().wrapping_sub(self.first)).unwrap_or(&self.other)
    }

    /// Changes a value's row, if it is in the table.
    #[inline]
    pub fn set(&mut self, v: LVal, to: T) {
        if let Some(row) = self.rows.get_mut(v.index().wrapping_sub(self.first)) {
            *row = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inst::If;

    /// `0 { if 1 { if 2 {} else 3 {} } else 4 {} if 5 {} else 6 {} }`
    fn nest() -> Nest {
        let choose = |then: Block| Inst::If(Box::new(If { condition: LVal::new(0), then, otherwise: Block::new(), results: Vec::new() }));
        Nest::of(&vec![choose(vec![choose(Block::new())]), choose(Block::new())])
    }

    #[test]
    fn blocks_have_numbers_in_the_order_in_which_they_begin() {
        let nest = nest();
        assert_eq!((nest.len(), nest.all(), nest.chooses()), (7, [0, 6], true));
        assert_eq!((nest.inner(0), nest.inner(1), nest.inner(6)), (&[1, 5][..], &[2][..], &[][..]));
        assert_eq!([nest.range(0, 0), nest.range(0, 1), nest.range(1, 0)], [[1, 4], [5, 6], [2, 3]]);
        assert_eq!([nest.behind(1), nest.behind(2), nest.behind(5)], [4, 3, 6]);
        assert_eq!([nest.common(2, 3), nest.common(3, 4), nest.common(2, 1), nest.common(6, 6)], [1, 0, 1, 6]);
        assert_eq!([nest.nearest(0, 3), nest.nearest(1, 3), nest.nearest(1, 4), nest.nearest(3, 3)], [3, 3, 1, 3]);
    }

    #[test]
    fn a_table_has_rows_of_its_own_values_alone() {
        let mut table = Table::new(2, 4, 0);
        (0..6).for_each(|n| table.set(LVal::new(n), n));
        let rows: Vec<usize> = (0..6).map(|n| table.get(LVal::new(n))).collect();
        assert_eq!(rows, [0, 0, 2, 3, 0, 0]);
    }
}
