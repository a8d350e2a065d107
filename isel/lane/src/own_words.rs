//! Words of operand A that something reads while they are multiplied: the product gets copies of its own.
//!
//! While lanes' registers are being multiplied nothing else may read them, and how long that takes is not the affair of whoever else has the value:
//! equal values are one here, and a loop hands on what it carries.
//!
//! ```text
//! w = pack x, x                     w = pack x, x
//!                                   o = own w
//! fence_matrices                    fence_matrices
//! r = multiply w, …          ──►    r = multiply o, …       in flight until a wait covers it
//! store w                           store w
//! wait_matrices 0                   wait_matrices 0
//! ```
//!
//! One pass finds what is read in flight, loops once more where something is in flight at the end of an iteration: it is so at the beginning of the next
//! one.

use crate::hash::{Map, Set};
use crate::inst::{Block, Control, Inst};
use crate::op::UnOp;
use crate::unit::{OperandA, Unit};
use crate::value::{LTy, LVal};
use crate::visit::blocks_mut;
use cranelift_entity::PrimaryMap;
use std::sync::Arc;

/// Words that multiplications read, and for each the groups that have been closed since.
type Flights = Map<LVal, u32>;

/// Gives multiplications copies of words that are read while they run, and of numbers (`is_const`), which any instruction may take from one register.
pub(super) fn own_words(body: &mut Block, vals: &mut PrimaryMap<LVal, LTy>, is_const: &dyn Fn(LVal) -> bool) {
    let (instructions, words) = size(body);
    if words > 0 {
        let mut found = Found { read: Set::default(), left: MOST_LOOKS * instructions };
        found.block(body, &mut Flights::default());
        copy(body, vals, &|v| found.left == 0 || found.read.contains(&v) || is_const(v));
    }
}

/// How often each instruction is looked at, at most, on average: beyond that every word counts as read.
const MOST_LOOKS: usize = 16;

/// Instructions of a block, and words that its multiplications take from registers.
fn size(block: &Block) -> (usize, usize) {
    block.iter().fold((0, 0), |(n, w), i| {
        let inner = crate::visit::blocks(i).map(size).fold((1, words(i).map_or(0, <[LVal]>::len)), |(n, w), (m, v)| (n + m, w + v));
        (n + inner.0, w + inner.1)
    })
}

/// The words of a multiplication that takes its operand A from registers.
fn words(inst: &Inst) -> Option<&[LVal]> {
    match inst {
        Inst::Unit(u) => match &**u {
            Unit::Multiply(m) => match &m.a {
                OperandA::Regs(words) => Some(words),
                OperandA::Shared(_) => None,
            },
            _ => None,
        },
        _ => None,
    }
}

struct Found {
    /// Words that are read in flight.
    read: Set<LVal>,
    /// Instructions that may still be looked at.
    left: usize,
}

impl Found {
    fn look(&mut self, v: LVal, flying: &Flights) {
        if flying.contains_key(&v) {
            self.read.insert(v);
        }
    }

    fn block(&mut self, block: &Block, flying: &mut Flights) {
        for i in block {
            self.left = self.left.saturating_sub(1);
            if self.left > 0 {
                self.inst(i, flying);
            }
        }
    }

    /// The iterations of a loop: what one leaves in flight the next one finds.
    fn again(&mut self, flying: &mut Flights, iteration: &mut dyn FnMut(&mut Found, &mut Flights)) {
        let front = flying.clone();
        iteration(self, flying);
        let more = flying.iter().any(|(v, age)| front.get(v).is_none_or(|before| age < before));
        join(flying, &front);
        if more {
            iteration(self, flying);
            join(flying, &front);
        }
    }

    fn inst(&mut self, inst: &Inst, flying: &mut Flights) {
        match inst.control() {
            None => self.plain(inst, flying),
            Some(Control::For(l)) => {
                [l.lo, l.hi, l.step].into_iter().chain(l.carried.iter().map(|c| c.init)).for_each(|v| self.look(v, flying));
                self.again(flying, &mut |found, flying| {
                    found.block(&l.body, flying);
                    l.carried.iter().for_each(|c| found.look(c.next, flying));
                });
            }
            Some(Control::While(l)) => {
                l.carried.iter().for_each(|c| self.look(c.init, flying));
                self.again(flying, &mut |found, flying| {
                    found.block(&l.test, flying);
                    found.look(l.condition, flying);
                    let tested = flying.clone();
                    found.block(&l.body, flying);
                    l.carried.iter().for_each(|c| found.look(c.next, flying));
                    join(flying, &tested);
                });
            }
            Some(Control::If(c)) => {
                self.look(c.condition, flying);
                let mut other = flying.clone();
                self.block(&c.then, flying);
                self.block(&c.otherwise, &mut other);
                for &(_, a, b) in &c.results {
                    self.look(a, flying);
                    self.look(b, &other);
                }
                join(flying, &other);
            }
            Some(Control::Roles(r)) => r.roles.iter().for_each(|r| self.block(&r.body, &mut Flights::default())),
        }
    }

    fn plain(&mut self, inst: &Inst, flying: &mut Flights) {
        if let Inst::Unit(u) = inst {
            match &**u {
                Unit::CommitMatrices => flying.values_mut().for_each(|age| *age += 1),
                Unit::WaitMatrices { pending } => flying.retain(|_, age| *age == 0 || *age <= *pending),
                _ => {}
            }
        }
        let taken = words(inst).unwrap_or_default();
        if !flying.is_empty() {
            // Multiplications may share words.
            let mut own = taken.iter();
            inst.operands(|v, _| {
                if own.as_slice().first() == Some(&v) {
                    own.next();
                } else {
                    self.look(v, flying);
                }
            });
        }
        flying.extend(taken.iter().map(|&v| (v, 0)));
    }
}

/// Where two paths meet: the newer flight counts.
fn join(flying: &mut Flights, other: &Flights) {
    for (&v, &age) in other {
        flying.entry(v).and_modify(|own| *own = age.min(*own)).or_insert(age);
    }
}

/// Puts the copies of words in front of the fence of the multiplications that take them.
fn copy(block: &mut Block, vals: &mut PrimaryMap<LVal, LTy>, wanted: &dyn Fn(LVal) -> bool) {
    let takes = |i: &Inst| words(i).is_some_and(|list| list.iter().any(|&w| wanted(w)));
    if !block.iter().any(takes) {
        block.iter_mut().flat_map(blocks_mut).for_each(|b| copy(b, vals, wanted));
        return;
    }
    let room = Block::with_capacity(block.len());
    let old = std::mem::replace(block, room);
    // Where the last fence stands, and what was copied in front of it.
    let (mut fence, mut owned): (Option<usize>, Map<LVal, LVal>) = (None, Map::default());
    for mut inst in old {
        blocks_mut(&mut inst).into_iter().for_each(|b| copy(b, vals, wanted));
        match &mut inst {
            Inst::Unit(u) => match Arc::make_mut(u) {
                Unit::FenceMatrices => {
                    fence = Some(block.len());
                    owned.clear();
                }
                // A copy in front of it would write what a product of the iteration before still reads.
                Unit::WaitMatrices { .. } => {
                    fence = None;
                    owned.clear();
                }
                Unit::Multiply(m) => {
                    let OperandA::Regs(words) = &mut m.a else {
                        block.push(inst);
                        continue;
                    };
                    let mut copies: Vec<Inst> = Vec::new();
                    for w in words.iter_mut().filter(|w| wanted(**w)) {
                        *w = *owned.entry(*w).or_insert_with(|| own(*w, vals, &mut copies));
                    }
                    if !copies.is_empty() {
                        let at = *fence.get_or_insert_with(|| {
                            block.push(Inst::Unit(Unit::FenceMatrices.into()));
                            block.len() - 1
                        });
                        fence = Some(at + copies.len());
                        block.splice(at..at, copies);
                    }
                }
                _ => {}
            },
            // What a multiplication takes after a branch is fenced there.
            Inst::For(_) | Inst::While(_) | Inst::If(_) | Inst::Roles(_) => {
                fence = None;
                owned.clear();
            }
            _ => {}
        }
        block.push(inst);
    }
}

/// A copy of a word.
fn own(w: LVal, vals: &mut PrimaryMap<LVal, LTy>, copies: &mut Vec<Inst>) -> LVal {
    let bits = LTy::I32;
    let [word, copied, own] = [vals.push(bits), vals.push(bits), vals.push(vals[w])];
    copies.push(Inst::Bitcast { dst: word, a: w });
    copies.push(Inst::Un { dst: copied, op: UnOp::Own, a: word });
    copies.push(Inst::Bitcast { dst: own, a: copied });
    own
}
