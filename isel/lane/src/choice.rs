//! Puts computations that only one arm of a choice needs into that arm.
//!
//! The builder puts what it computes as far out as it can be known. Where a choice decides whether it is needed at all, that is too far:
//!
//! ```text
//! m = cmp …; s = select m …; if c { x } else { s }      becomes      if c { x } else { m = cmp …; s = select m … }
//! ```
//!
//! Nothing moves into a loop. From the last instruction to the first, each value gets the innermost block around all that need it, the places to
//! which those go included; then all of them go at once.

use super::inst::{Block, Control};
use super::nest::{Nest, Table, each_block_mut};
use super::value::LVal;
use super::visit::{computed, results};

/// Nothing needs the value.
const NOTHING: u32 = u32::MAX;

/// Moves the computations of a block and of the blocks inside it; the values that are made there have numbers from `values[0]` up to `values[1]`.
pub(super) fn into_arms(block: &mut Block, nest: &Nest, values: [usize; 2]) {
    if !nest.chooses() {
        return;
    }
    let at = Table::new(values[0], values[1], NOTHING);
    let mut needs = Needs { nest, at, leaves: vec![false; nest.len()], come: vec![0; nest.len()] };
    needs.block(block, 0);
    if needs.leaves.contains(&true) {
        let Needs { at, leaves, come, .. } = needs;
        let fronts = come.into_iter().map(Block::with_capacity).collect();
        ArmMoves { nest, at, leaves, fronts }.block(block, 0);
    }
}

/// Where values are needed.
struct Needs<'a> {
    nest: &'a Nest,
    /// The innermost block around all that need a value; of what an instruction computes, where it goes: at its first value.
    at: Table<u32>,
    /// Blocks that some computations leave.
    leaves: Vec<bool>,
    /// How many computations come to each block.
    come: Vec<usize>,
}

impl Needs<'_> {
    /// A value is needed in a block.
    #[inline]
    fn need(&mut self, v: LVal, n: u32) {
        let old = self.at.get(v);
        if old != n {
            self.at.set(v, if old == NOTHING { n } else { self.nest.common(old, n) });
        }
    }

    /// Looks through a block from its last instruction to its first: who needs a value comes before the value.
    fn block(&mut self, block: &Block, n: u32) {
        let mut k = self.nest.inner(n).len();
        for inst in block.iter().rev() {
            let Some(control) = inst.control() else {
                let at = computed(inst).map_or(n, |made| self.goes(made, n));
                inst.operands(|v, _| self.need(v, at));
                continue;
            };
            k -= 1;
            let first = self.nest.inner(n)[k];
            match control {
                Control::For(l) => {
                    l.carried.iter().for_each(|c| self.need(c.next, first));
                    self.block(&l.body, first);
                }
                Control::While(l) => {
                    let body = self.nest.behind(first);
                    l.carried.iter().for_each(|c| self.need(c.next, body));
                    // The body sees what the test makes.
                    l.test.iter().flat_map(results).for_each(|v| self.need(v, first));
                    self.block(&l.body, body);
                    self.need(l.condition, first);
                    self.block(&l.test, first);
                }
                Control::If(c) => {
                    let other = self.nest.behind(first);
                    for &(_, a, b) in &c.results {
                        self.need(a, first);
                        self.need(b, other);
                    }
                    self.block(&c.otherwise, other);
                    self.block(&c.then, first);
                }
                Control::Roles(r) => {
                    let mut at = first;
                    for r in &r.roles {
                        self.block(&r.body, at);
                        at = self.nest.behind(at);
                    }
                }
            }
            inst.operands(|v, _| self.need(v, n));
        }
    }

    /// Where a computation in a block goes; one that nothing needs stays.
    fn goes(&mut self, made: &[LVal], n: u32) -> u32 {
        let needed = made.iter().map(|&v| self.at.get(v)).filter(|&at| at != NOTHING);
        let to = needed.reduce(|a, b| self.nest.common(a, b)).map_or(n, |at| self.nest.nearest(n, at));
        if to != n {
            self.leaves[n as usize] = true;
            self.come[to as usize] += 1;
        }
        made.first().into_iter().for_each(|&v| self.at.set(v, to));
        to
    }
}

/// Computations on their way.
struct ArmMoves<'a> {
    nest: &'a Nest,
    at: Table<u32>,
    leaves: Vec<bool>,
    /// What goes to the front of each block.
    fronts: Vec<Block>,
}

impl ArmMoves<'_> {
    fn block(&mut self, block: &mut Block, n: u32) {
        let mut stay = std::mem::take(&mut self.fronts[n as usize]);
        if self.leaves[n as usize] {
            stay.reserve(block.len());
            for inst in std::mem::take(block) {
                match computed(&inst).and_then(<[LVal]>::first).map(|&v| self.at.get(v)) {
                    Some(to) if to != n && to != NOTHING => self.fronts[to as usize].push(inst),
                    _ => stay.push(inst),
                }
            }
            *block = stay;
        } else if !stay.is_empty() {
            stay.append(block);
            *block = stay;
        }
        let mut inner = self.nest.inner(n).iter();
        for inst in block.iter_mut().filter(|i| i.control().is_some()) {
            let Some(&first) = inner.next() else { break };
            let mut at = first;
            each_block_mut(inst, &mut |b| {
                self.block(b, at);
                at = self.nest.behind(at);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inst::If;
    use crate::inst::Inst;
    use crate::interp::tests::Asm;
    use crate::op::BinOp;
    use crate::value::LTy;

    #[test]
    fn what_one_arm_needs_moves_into_it_and_what_both_need_stays() {
        let mut a = Asm::new(1);
        let base = a.alloc(8);
        let [x, y] = [a.i32(3), a.i32(4)];
        let both = a.bin(BinOp::Add, x, y);
        let inner = a.bin(BinOp::Mul, both, y);
        let one = a.bin(BinOp::Add, inner, y);
        let condition = a.constant(LTy::I1, 0);
        let r = a.val(LTy::I32);
        a.push(Inst::If(Box::new(If { condition, then: Block::new(), otherwise: Block::new(), results: vec![(r, both, one)] })));
        a.store_shared(base, 0, &[r]);
        let nest = Nest::of(&a.p.body);
        into_arms(&mut a.p.body, &nest, [0, a.p.vals.len()]);
        let Some(Inst::If(c)) = a.p.body.iter().find(|i| matches!(i, Inst::If(_))) else { panic!() };
        let made: Vec<LVal> = c.otherwise.iter().flat_map(|i| computed(i).unwrap_or(&[]).to_vec()).collect();
        assert_eq!((made, c.then.len()), (vec![inner, one], 0));
        assert!(a.p.body.iter().any(|i| computed(i) == Some(&[both])));
        a.run(&mut Default::default()).unwrap();
    }

    #[test]
    fn nothing_moves_into_a_loop_and_all_else_as_far_in_as_it_is_needed() {
        let mut a = Asm::new(1);
        let base = a.alloc(8);
        let yes = a.constant(LTy::I1, 1);
        let [x, y] = [a.i32(3), a.i32(4)];
        let [deep, looped, shared] = [BinOp::Add, BinOp::Mul, BinOp::Sub].map(|op| a.bin(op, x, y));
        let outer = std::mem::take(&mut a.p.body);
        let put = |a: &mut Asm, values: &[LVal]| {
            values.iter().for_each(|&v| a.store_shared(base, 0, &[v]));
            std::mem::take(&mut a.p.body)
        };
        let choose = |then: Block, otherwise: Block| vec![Inst::If(Box::new(If { condition: yes, then, otherwise, results: Vec::new() }))];
        // if { if { deep } else { shared } for { looped, shared } }
        let (one, other, body) = (put(&mut a, &[deep]), put(&mut a, &[shared]), put(&mut a, &[looped, shared]));
        let mut arm = choose(one, other);
        let iv = a.val(LTy::I32);
        arm.push(Inst::For(Box::new(crate::For { iv, lo: x, hi: y, step: x, runs: false, carried: Vec::new(), body })));
        a.p.body = outer;
        a.p.body.extend(choose(arm, Block::new()));
        let nest = Nest::of(&a.p.body);
        into_arms(&mut a.p.body, &nest, [0, a.p.vals.len()]);
        let made = |b: &Block| b.iter().flat_map(|i| computed(i).unwrap_or(&[]).to_vec()).collect::<Vec<LVal>>();
        let Some(Inst::If(c)) = a.p.body.last() else { panic!() };
        let Some(Inst::If(inner)) = c.then.iter().find(|i| matches!(i, Inst::If(_))) else { panic!() };
        // What the loop reads stands in front of it, with its bounds and the address that all stores share.
        assert_eq!(made(&c.then), [base, x, y, looped, shared]);
        assert_eq!((made(&inner.then), made(&inner.otherwise)), (vec![deep], vec![]));
        assert_eq!(made(&a.p.body), [yes]);
        a.run(&mut Default::default()).unwrap();
    }
}
