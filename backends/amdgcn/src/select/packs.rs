//! Computations of 32-bit floats two by two: numbers in neighbouring registers take one instruction where both take the same operation.
//!
//! ```text
//! v4 = mul v0 v9        v_pk_mul_f32 v[4:5], v[0:1], v[8:9]
//! v5 = mul v1 v9
//! ```
//!
//! Pairs begin where matrix instructions leave their sums, or take them, and go on with what is computed of pairs. What both have in common is copied to a
//! pair of registers. The second of two computations goes up to the first one, where its operands are there. Who finds no neighbours in the end computes one by one.

use super::rearrange::{BlockOrder, rearranged};
use super::role::Role;
use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::BTreeSet;
use tilelift_lane::{BinOp, Block, Carried, Control, Inst, LTy, LVal, Program, UnOp, visit};

/// An operation that instructions have for two numbers at once, or that goes from pair to pair one by one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum PairOp {
    Bin(BinOp),
    Fma,
    Un(UnOp),
}

type Operands = SmallVec<[LVal; 3]>;

/// A computation of `f32`.
fn computed(program: &Program, inst: &Inst) -> Option<(LVal, PairOp, Operands)> {
    let (dst, op, operands) = match inst {
        Inst::Bin { dst, op: op @ (BinOp::Add | BinOp::Sub | BinOp::Mul), a, b } => {
            (*dst, PairOp::Bin(*op), SmallVec::from_slice(&[*a, *b]))
        }
        Inst::Fma { dst, a, b, c } => (*dst, PairOp::Fma, SmallVec::from_slice(&[*a, *b, *c])),
        Inst::Un { dst, op, a } => (*dst, PairOp::Un(*op), SmallVec::from_slice(&[*a])),
        _ => return None,
    };
    (program.vals[dst] == LTy::F32).then_some((dst, op, operands))
}

/// Two computations as one instruction.
pub(super) struct Pack {
    pub(super) dsts: [LVal; 2],
    /// The operation; a product and a sum if there is none.
    pub(super) op: Option<BinOp>,
    /// Operands of the first and of the second.
    pub(super) operands: SmallVec<[[LVal; 2]; 3]>,
}

/// The pairs of a program.
#[derive(Clone, Default)]
pub(super) struct Packs {
    /// The value in the register behind one, which is the first of an aligned pair.
    next: SecondaryMap<LVal, Option<LVal>>,
    /// True for the second of a pair.
    second: SecondaryMap<LVal, bool>,
    /// Pairs in the order in which they were found.
    all: Vec<[LVal; 2]>,
}

impl Packs {
    /// Finds the pairs of a program with a body, and the body in which computations that go together stand so, if that is another one.
    pub(super) fn of(program: &Program, body: &Block) -> (Packs, Option<Block>) {
        let mut packs = Packs::default();
        packs.sums(program, body);
        if packs.all.is_empty() {
            return (packs, None);
        }
        packs.carried(body);
        let found = RefCell::new(packs);
        let body = rearranged(body, &|block, _| found.borrow_mut().order(program, block));
        (found.into_inner(), body)
    }

    /// The value in the register behind one, if they are a pair.
    pub(super) fn behind(&self, v: LVal) -> Option<LVal> {
        self.next[v]
    }

    /// Pairs, each for an aligned pair of registers.
    pub(super) fn all(&self) -> &[[LVal; 2]] {
        &self.all
    }

    /// Two computations, one behind the other, that may be one instruction.
    pub(super) fn pack(&self, program: &Program, first: &Inst, second: &Inst) -> Option<Pack> {
        let ((d, op, a), (e, same, b)) = (computed(program, first)?, computed(program, second)?);
        if op != same || self.next[d] != Some(e) {
            return None;
        }
        let op = match op {
            PairOp::Bin(op) => Some(op),
            PairOp::Fma => None,
            PairOp::Un(_) => return None,
        };
        let operands: SmallVec<[[LVal; 2]; 3]> = a.into_iter().zip(b).map(|(a, b)| [a, b]).collect();
        let apart = operands.iter().all(|&[a, b]| a == b || self.next[a] == Some(b));
        apart.then_some(Pack { dsts: [d, e], op, operands })
    }

    /// Takes note of a pair, unless its values are parts of others.
    fn pair(&mut self, a: LVal, b: LVal) -> bool {
        if self.next[a] == Some(b) {
            return true;
        }
        let taken = |s: &Self, v: LVal| s.next[v].is_some() || s.second[v];
        if a == b || taken(self, a) || taken(self, b) {
            return false;
        }
        (self.next[a], self.second[b]) = (Some(b), true);
        self.all.push([a, b]);
        true
    }

    /// What matrix instructions sum.
    fn sums(&mut self, program: &Program, block: &Block) {
        for inst in block {
            if let Role::Matrix { dsts, c, .. } = Role::of(inst) {
                for vals in [dsts, c] {
                    let pairs = vals.chunks_exact(2).filter(|p| p.iter().all(|&v| program.vals[v] == LTy::F32));
                    pairs.for_each(|p| _ = self.pair(p[0], p[1]));
                }
            }
            visit::blocks(inst).for_each(|b| self.sums(program, b));
        }
    }

    /// What loops carry, and what choices give, lies as what they are given.
    fn carried(&mut self, block: &Block) {
        for inst in block {
            visit::blocks(inst).for_each(|b| self.carried(b));
            match inst.control() {
                Some(Control::For(l)) => self.around(&l.carried),
                Some(Control::While(l)) => self.around(&l.carried),
                Some(Control::If(c)) => {
                    let of: FxHashMap<LVal, LVal> = c.results.iter().map(|&(r, a, _)| (a, r)).collect();
                    for &(r, a, _) in &c.results {
                        if let Some(other) = self.next[a].and_then(|b| of.get(&b)) {
                            self.pair(r, *other);
                        }
                    }
                }
                Some(Control::Roles(_)) | None => {}
            }
        }
    }

    fn around(&mut self, carried: &[Carried]) {
        let of: FxHashMap<LVal, &Carried> = carried.iter().map(|c| (c.next, c)).collect();
        for c in carried {
            if let Some(other) = self.next[c.next].and_then(|b| of.get(&b)) {
                self.pair(c.param, other.param);
                self.pair(c.result, other.result);
            }
        }
    }

    /// The order of a block in which the second of two computations stands behind the first one.
    fn order(&mut self, program: &Program, block: &Block) -> BlockOrder {
        let mut at: FxHashMap<(PairOp, Operands), usize> = FxHashMap::default();
        let mut maker: FxHashMap<LVal, usize> = FxHashMap::default();
        for (i, inst) in block.iter().enumerate() {
            if let Some((_, op, operands)) = computed(program, inst) {
                at.entry((op, operands)).or_insert(i);
            }
            visit::results(inst).into_iter().for_each(|v| _ = maker.insert(v, i));
        }
        let (mut done, mut order) = (vec![false; block.len()], Vec::with_capacity(block.len()));
        for i in 0..block.len() {
            if done[i] {
                continue;
            }
            let first = order.len();
            order.push(i);
            done[i] = true;
            let Some((other, goes)) = self.other(program, (block, &at), i) else { continue };
            if !goes || done[other] {
                continue;
            }
            // What the second one still needs goes in front of the first one.
            let Some(needs) = needs(block, &maker, &done, other) else { continue };
            for &n in &needs {
                done[n] = true;
                // Pairs of what is computed one by one are found by their first.
                self.other(program, (block, &at), n);
            }
            done[other] = true;
            order.splice(first..first, needs);
            order.push(other);
        }
        let changed = order.iter().enumerate().any(|(at, &i)| at != i);
        changed.then_some(order)
    }

    /// The computation that does with the second ones of pairs what one does with the first ones, if both make a pair; and whether they may be one instruction.
    fn other(
        &mut self,
        program: &Program,
        (block, at): (&Block, &FxHashMap<(PairOp, Operands), usize>),
        i: usize,
    ) -> Option<(usize, bool)> {
        let (dst, op, operands) = computed(program, &block[i])?;
        let key = (op, operands.iter().map(|&v| self.next[v].unwrap_or(v)).collect::<Operands>());
        let &j = at.get(&key).filter(|_| key.1 != operands)?;
        let (second, ..) = computed(program, &block[j])?;
        self.pair(dst, second).then_some((j, !matches!(op, PairOp::Un(_))))
    }
}

/// Computations that go up beside one, at most.
const NEEDS: usize = 8;

/// Computations of a block that another one needs and that are not done, in order; nothing if they are many, or not all are such.
fn needs(block: &Block, maker: &FxHashMap<LVal, usize>, done: &[bool], of: usize) -> Option<Vec<usize>> {
    let (mut all, mut open) = (BTreeSet::new(), vec![of]);
    while let Some(i) = open.pop() {
        let mut left = SmallVec::<[usize; 4]>::new();
        visit::reads(&block[i], &mut |v| left.extend(maker.get(&v).copied().filter(|&m| !done[m])));
        for n in left {
            if !block[n].effect().computes() || all.len() == NEEDS {
                return None;
            }
            if all.insert(n) {
                open.push(n);
            }
        }
    }
    // They stand in the order in which they need one another.
    Some(all.into_iter().collect())
}
