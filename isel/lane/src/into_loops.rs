//! Puts sums with a literal, and comparisons with them, into the loop that needs them, where registers are few.
//!
//! ```text
//! a = add x, 1; b = add x, 2; … for { … a … b … }      becomes      for { a = add x, 1; b = add x, 2; … a … b … }
//! ```
//!
//! The builder puts them in front of the loop, where they are computed once, and held as long as the loop runs. In it they are there where they are needed,
//! and one value is held for all. So they move if what they add to is held anyway, or there are several; and none that something else needs.

use super::inst::{Block, Control, Inst};
use super::op::BinOp;
use super::value::LVal;
use super::visit::{computed, reads};
use crate::hash::{Map, Set};
use crate::nest::each_block_mut;

/// Moves sums and comparisons of a block, and of the blocks inside it; `literal` says what is one.
pub(super) fn into_loops(block: &mut Block, literal: &dyn Fn(LVal) -> bool) {
    if block.iter().any(is_loop) {
        let moved = moves(block, literal);
        let mut taken: Map<usize, Vec<Inst>> = Map::default();
        let mut at = 0;
        block.retain(|inst| {
            at += 1;
            let goes = moved.get(&(at - 1));
            goes.into_iter().for_each(|&to| taken.entry(to).or_default().push(inst.clone()));
            goes.is_none()
        });
        // Places behind a sum that went are one less.
        let places: Vec<usize> = (0..at).filter(|k| !moved.contains_key(k)).collect();
        for (inst, was) in block.iter_mut().zip(places) {
            if let (Some(mut front), Inst::For(l)) = (taken.remove(&was), inst) {
                front.append(&mut l.body);
                l.body = front;
            }
        }
    }
    block.iter_mut().for_each(|i| each_block_mut(i, &mut |b| into_loops(b, literal)));
}

fn is_loop(inst: &Inst) -> bool {
    matches!(inst.control(), Some(Control::For(_)))
}

/// What a sum with a literal adds to.
fn base(inst: &Inst, literal: &dyn Fn(LVal) -> bool) -> Option<LVal> {
    match *inst {
        Inst::Bin { op: BinOp::Add, a, b, .. } if literal(b) => Some(a),
        _ => None,
    }
}

/// The instructions of a block that go into a loop of it, by their places.
fn moves(block: &Block, literal: &dyn Fn(LVal) -> bool) -> Map<usize, usize> {
    let sums: Map<LVal, LVal> = block.iter().filter_map(|i| Some((*i.results().first()?, base(i, literal)?))).collect();
    let bases: Set<LVal> = sums.values().copied().collect();
    // Who reads what may go, and what that adds to: nobody asks for the rest.
    let compared = |i: &Inst| matches!(i, Inst::Cmp { .. });
    let mut readers: Map<LVal, Vec<usize>> = bases.iter().chain(sums.keys()).map(|&v| (v, Vec::new())).collect();
    readers.extend(block.iter().filter(|i| compared(i)).flat_map(|i| i.results().iter().map(|&v| (v, Vec::new()))));
    if readers.is_empty() {
        return Map::default();
    }
    for (k, inst) in block.iter().enumerate() {
        reads(inst, &mut |v| {
            if let Some(list) = readers.get_mut(&v).filter(|list| list.last() != Some(&k)) {
                list.push(k);
            }
        });
    }
    // What is there in the loop if sums are made in it.
    let ready = |v: LVal| literal(v) || sums.contains_key(&v) || bases.contains(&v);
    let mut goes: Map<usize, usize> = Map::default();
    let mut alike: Map<(usize, LVal), u32> = Map::default();
    // Who reads a value stands behind it.
    for (k, inst) in block.iter().enumerate().rev() {
        let base = match *inst {
            Inst::Cmp { a, b, .. } if ready(a) && ready(b) => None,
            _ => match base(inst, literal) {
                Some(base) => Some(base),
                None => continue,
            },
        };
        let (Some(&v), Some(_)) = (inst.results().first(), computed(inst)) else { continue };
        let mut to = readers.get(&v).into_iter().flatten().map(|r| if is_loop(&block[*r]) { Some(*r) } else { goes.get(r).copied() });
        let Some(Some(at)) = to.next() else { continue };
        if to.all(|other| other == Some(at)) && !starts(&block[at]).contains(&v) {
            goes.insert(k, at);
            base.into_iter().for_each(|base| *alike.entry((at, base)).or_default() += 1);
        }
    }
    goes.retain(|&k, at| {
        let held = |v: LVal| readers.get(&v).is_some_and(|r| r.contains(at)) || alike.get(&(*at, v)).is_some_and(|&n| n > 1);
        base(&block[k], literal).is_none_or(held)
    });
    goes
}

/// What a loop reads where it stands, or hands on without computing it.
fn starts(inst: &Inst) -> Vec<LVal> {
    match inst.control() {
        Some(Control::For(l)) => [l.lo, l.hi, l.step].into_iter().chain(l.carried.iter().flat_map(|c| [c.init, c.next])).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inst::For;
    use crate::testing::Asm;
    use crate::value::LTy;
    use crate::visit::blocks;

    /// Sums that stand in front of a loop that reads them, and in it, of so many of one value; something else reads the first.
    fn moved(sums: usize, else_too: bool, held: bool) -> [usize; 2] {
        let mut a = Asm::new(1);
        let base = a.alloc(64);
        let x = a.load_shared(base, 0, LTy::I32);
        let literals: Vec<LVal> = (0..sums).map(|n| a.i32(n as i64 + 1)).collect();
        let all: Vec<LVal> = literals.iter().map(|&c| a.bin(BinOp::Add, x, c)).collect();
        let (iv, lo, hi, step) = (a.val(LTy::I32), a.i32(0), a.i32(4), a.i32(1));
        let outer = std::mem::take(&mut a.p.body);
        all.iter().for_each(|&v| a.store_shared(base, 0, &[v]));
        if held {
            a.store_shared(base, 0, &[x]);
        }
        let body = std::mem::replace(&mut a.p.body, outer);
        a.push(Inst::For(Box::new(For { iv, lo, hi, step, runs: true, carried: Vec::new(), body })));
        if else_too {
            a.store_shared(base, 0, &all[..1]);
        }
        into_loops(&mut a.p.body, &|v| literals.contains(&v));
        let count = |b: &Block| b.iter().filter(|i| matches!(i, Inst::Bin { .. })).count();
        let inside = a.p.body.iter().flat_map(blocks).map(count).sum();
        [count(&a.p.body), inside]
    }

    #[test]
    fn sums_move_where_one_value_is_held_for_all() {
        assert_eq!(moved(4, false, false), [0, 4]);
        assert_eq!(moved(1, false, true), [0, 1], "what it adds to is held");
        assert_eq!(moved(1, false, false), [1, 0], "one for one");
        assert_eq!(moved(4, true, false), [1, 3], "what something else needs is there anyway");
    }
}
