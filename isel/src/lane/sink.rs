//! Puts every computation of a block right in front of the first instruction that needs it.
//!
//! The lowering expands a tile op for all registers before it comes to the next op, so of a chain of ops every step of every register
//! would be held at once. Behind this pass a chain is computed register by register, where its end is stored.
//!
//! ```text
//! x0 x1 x2 … y0 y1 y2 … store y0, y1 …      becomes      x0 y0 x1 y1 store y0, y1 …
//! ```
//!
//! Where bulk stores go is computed in front of the loop of multiplications, beside the way of its first operands.
//!
//! Loads of memory that the kernel only reads move likewise, if asked for: what they load is then not held beside everything else.

use super::visit::{blocks, computed, reads};
use super::{Block, Inst, LVal, Unit};
use std::collections::HashMap;

/// What an instruction that may move makes.
fn moves(inst: &Inst, loads: bool) -> Option<&[LVal]> {
    match inst {
        Inst::LoadGlobal { dsts, .. } if loads => Some(dsts),
        other => computed(other),
    }
}

/// Reorders a block and the blocks inside it; `loads` says that global loads may move, too.
pub(super) fn sink(block: &mut Block, loads: bool) {
    for inst in block.iter_mut() {
        match inst {
            Inst::For(l) => sink(&mut l.body, loads),
            Inst::While(l) => {
                sink(&mut l.test, loads);
                sink(&mut l.body, loads);
            }
            Inst::If(c) => {
                sink(&mut c.then, loads);
                sink(&mut c.otherwise, loads);
            }
            _ => {}
        }
    }
    let mut makers: HashMap<LVal, usize> = HashMap::new();
    for (n, inst) in block.iter().enumerate() {
        moves(inst, loads).unwrap_or(&[]).iter().for_each(|&v| {
            makers.insert(v, n);
        });
    }
    let mut early = fenced(block);
    early.extend(destinations(block, &makers));
    let mut left: Vec<Option<Inst>> = std::mem::take(block).into_iter().map(Some).collect();
    let needs = |inst: &Inst| {
        let mut list = Vec::new();
        reads(inst, &mut |v| list.extend(makers.get(&v).copied()));
        list
    };
    // Computations that nothing in the block needs are the block's results: they go last, in order.
    let anchors: Vec<usize> = (0..left.len()).filter(|&n| left[n].as_ref().is_some_and(|i| moves(i, loads).is_none())).collect();
    for root in anchors.into_iter().chain(0..left.len()) {
        // Operands first, without recursion: chains may be long.
        let mut open = vec![(root, false)];
        while let Some((n, ready)) = open.pop() {
            let Some(inst) = &left[n] else { continue };
            if ready {
                block.extend(left[n].take());
                continue;
            }
            open.push((n, true));
            let mut list = needs(inst);
            list.extend(early.get(&n).into_iter().flatten().filter_map(|v| makers.get(v)).filter(|&&k| k < n));
            list.reverse();
            open.extend(list.into_iter().filter(|&k| k != n).map(|k| (k, false)));
        }
    }
}

/// What the multiplications behind each fence read, by the fence's place: registers that are written between fence and multiplication
/// would want a fence of their own.
fn fenced(block: &Block) -> HashMap<usize, Vec<LVal>> {
    let mut all = HashMap::new();
    let mut fence = None;
    for (n, inst) in block.iter().enumerate() {
        let Inst::Unit(u) = inst else { continue };
        if **u == Unit::FenceMatrices {
            fence = Some(n);
        } else if **u == Unit::CommitMatrices {
            fence = None;
        } else if let (Unit::Multiply(_), Some(f)) = (&**u, fence) {
            let list: &mut Vec<LVal> = all.entry(f).or_default();
            u.operands(|v, _| list.push(v));
        }
    }
    all
}

/// What was computed in front of a loop of multiplications for the coordinates of bulk stores behind it, by the loop's place.
fn destinations(block: &Block, makers: &HashMap<LVal, usize>) -> HashMap<usize, Vec<LVal>> {
    fn multiplies(inst: &Inst) -> bool {
        match inst {
            Inst::Unit(u) => matches!(**u, Unit::Multiply(_)),
            other => blocks(other).into_iter().any(|b| b.iter().any(multiplies)),
        }
    }
    let mut all: HashMap<usize, Vec<LVal>> = HashMap::new();
    let mut main = None;
    for (n, inst) in block.iter().enumerate() {
        match (inst, main) {
            (Inst::For(_) | Inst::If(_), None) if multiplies(inst) => main = Some(n),
            (Inst::Unit(u), Some(main)) => {
                let Unit::BulkStore { at, .. } = &**u else { continue };
                let mut open: Vec<LVal> = at.to_vec();
                while let Some(v) = open.pop() {
                    match makers.get(&v) {
                        Some(&k) if k > main => reads(&block[k], &mut |x| open.push(x)),
                        Some(_) => all.entry(main).or_default().push(v),
                        None => {}
                    }
                }
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::interp::tests::Asm;
    use crate::lane::{BinOp, LTy};

    #[test]
    fn chains_are_computed_where_they_are_stored() {
        let mut a = Asm::new(1);
        let base = a.alloc(8);
        let x: Vec<LVal> = (0..2).map(|i| a.i32(i)).collect();
        let y: Vec<LVal> = x.iter().map(|&v| a.bin(BinOp::Add, v, v)).collect();
        let z: Vec<LVal> = y.iter().map(|&v| a.bin(BinOp::Mul, v, v)).collect();
        a.store_shared(base, 0, &z[..1]);
        a.store_shared(base, 4, &z[1..]);
        sink(&mut a.p.body, false);
        let order: Vec<LVal> = a.p.body.iter().flat_map(|i| computed(i).unwrap_or(&[]).to_vec()).collect();
        assert_eq!(order, [base, x[0], y[0], z[0], x[1], y[1], z[1]]);
        assert!(matches!(a.p.body[4], Inst::StoreShared { .. }));
        assert_eq!(a.p.vals[z[0]], LTy::I32);
        a.run(&mut Default::default()).unwrap();
    }

    #[test]
    fn loads_move_where_that_is_asked_for() {
        for loads in [false, true] {
            let mut a = Asm::new(1);
            let base = a.alloc(8);
            let x: Vec<LVal> = (0..2).map(|_| a.load(0, LTy::I32)).collect();
            a.store_shared(base, 0, &x[..1]);
            a.store_shared(base, 4, &x[1..]);
            sink(&mut a.p.body, loads);
            let kinds: Vec<bool> =
                a.p.body.iter().filter(|i| computed(i).is_none()).map(|i| matches!(i, Inst::LoadGlobal { .. })).collect();
            assert_eq!(kinds, if loads { [true, false, true, false] } else { [true, true, false, false] });
        }
    }
}
