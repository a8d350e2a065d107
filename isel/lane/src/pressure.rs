//! Registers of a lane that values take where most of them live at once.
//!
//! ```text
//! x = load        x          1
//! y = add x, x    x y        2     both, for nothing says that y may lie where x lay
//! z = exp y       y z        2
//! store z         z          1
//! ```
//!
//! A value lives from where it is made to where it is read last; one that is made outside of a loop and read inside, as long as the loop runs.
//!
//! An assembler that orders instructions anew does so between two branches, and only there: what lives across a branch takes a register in any order.

use super::inst::{Block, Control, Inst};
use super::op::{BinOp, UnOp};
use super::value::{LTy, LVal};
use super::visit::{blocks, reads, results};
use cranelift_entity::{EntityRef, PrimaryMap};

/// Bytes of a lane's registers that each value of a block takes. Literals are parts of instructions, conditions have registers of their own, and parts of
/// words lie in them.
pub(super) fn sizes(block: &Block, vals: &PrimaryMap<LVal, LTy>) -> Vec<u32> {
    let mut out: Vec<u32> = vals.values().map(|&ty| if ty == LTy::I1 { 0 } else { 4 * ty.bits().div_ceil(32) }).collect();
    measure(block, vals, &mut out);
    out
}

fn measure(block: &Block, vals: &PrimaryMap<LVal, LTy>, out: &mut [u32]) {
    let set = |out: &mut [u32], v: LVal, bytes: u32| out.get_mut(v.index()).into_iter().for_each(|size| *size = bytes);
    for inst in block {
        match inst {
            Inst::Const { dst, .. } => set(out, *dst, 0),
            Inst::Unpack { dsts, .. } => dsts.iter().for_each(|&v| set(out, v, vals.get(v).map_or(0, |ty| ty.bits().div_ceil(8)))),
            other => blocks(other).for_each(|b| measure(b, vals, out)),
        }
    }
}

/// Bytes of a block's values that are live at once, the blocks inside it included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pressure {
    /// Where most are.
    pub most: u32,
    /// Where most are among the places behind branches.
    pub across: u32,
}

/// The bytes of a block's values where most are live.
pub(super) fn pressure(block: &Block, vals: &PrimaryMap<LVal, LTy>, sizes: &[u32]) -> Pressure {
    let mut places = Places { at: vec![u32::MAX; sizes.len()], starts: Vec::new(), count: 0 };
    places.block(block);
    let mut meter = PressureMeter { vals, sizes, places, live: vec![false; sizes.len()], now: 0, held: Pressure { most: 0, across: 0 } };
    meter.block(block);
    meter.held
}

/// True if an instruction is a branch, or is written as one with its rare cases behind it: quotients and roots rounded to nearest.
pub(super) fn branches(inst: &Inst, vals: &PrimaryMap<LVal, LTy>) -> bool {
    match inst {
        Inst::Bin { op: BinOp::Div, dst, .. } => matches!(vals.get(*dst), Some(LTy::Num(s)) if s.is_float()),
        Inst::Un { op: UnOp::Sqrt, .. } | Inst::Divide { .. } => true,
        other => other.control().is_some(),
    }
}

/// Where values are made, and where instructions with blocks begin.
struct Places {
    at: Vec<u32>,
    /// Inner instructions come in front of those around them.
    starts: Vec<u32>,
    count: u32,
}

impl Places {
    fn made(&mut self, v: LVal) {
        if let Some(at) = self.at.get_mut(v.index()) {
            *at = self.count;
        }
    }

    fn block(&mut self, block: &Block) {
        for inst in block {
            self.count += 1;
            let Some(control) = inst.control() else {
                inst.results().iter().for_each(|&v| self.made(v));
                continue;
            };
            let start = self.count;
            match control {
                Control::For(l) => {
                    self.made(l.iv);
                    l.carried.iter().for_each(|c| self.made(c.param));
                }
                Control::While(l) => l.carried.iter().for_each(|c| self.made(c.param)),
                Control::If(_) | Control::Roles(_) => {}
            }
            blocks(inst).for_each(|b| self.block(b));
            results(inst).into_iter().for_each(|v| self.made(v));
            self.starts.push(start);
        }
    }
}

/// Goes from the end of a block to its start.
struct PressureMeter<'a> {
    vals: &'a PrimaryMap<LVal, LTy>,
    sizes: &'a [u32],
    places: Places,
    live: Vec<bool>,
    now: u32,
    held: Pressure,
}

impl PressureMeter<'_> {
    /// From here on, backwards, a value is there.
    fn lives(&mut self, v: LVal) {
        if let Some(live @ false) = self.live.get_mut(v.index()) {
            *live = true;
            self.now += self.sizes[v.index()];
            self.held.most = self.held.most.max(self.now);
        }
    }

    /// In front of this, the value is not there.
    fn made(&mut self, v: LVal) {
        if let Some(live @ true) = self.live.get_mut(v.index()) {
            *live = false;
            self.now -= self.sizes[v.index()];
        }
    }

    fn block(&mut self, block: &Block) {
        for inst in block.iter().rev() {
            if branches(inst, self.vals) {
                self.held.across = self.held.across.max(self.now);
            }
            let Some(control) = inst.control() else {
                // Results that nobody reads have a place all the same.
                inst.results().iter().for_each(|&v| self.lives(v));
                inst.operands(|v, _| self.lives(v));
                inst.results().iter().for_each(|&v| self.made(v));
                continue;
            };
            results(inst).into_iter().for_each(|v| self.made(v));
            let start = self.places.starts.pop().unwrap_or(0);
            // What comes from outside and is read inside is there all through.
            let mut from_outside = |v: LVal| {
                if self.places.at.get(v.index()).is_some_and(|&at| at < start) {
                    self.lives(v);
                }
            };
            blocks(inst).flatten().for_each(|i| reads(i, &mut from_outside));
            self.control(control);
        }
    }

    fn control(&mut self, control: Control<'_>) {
        match control {
            Control::For(l) => {
                [l.hi, l.step].into_iter().for_each(|v| self.lives(v));
                l.carried.iter().for_each(|c| self.lives(c.next));
                self.block(&l.body);
                l.carried.iter().for_each(|c| self.made(c.param));
                self.made(l.iv);
                l.carried.iter().map(|c| c.init).chain([l.lo]).for_each(|v| self.lives(v));
            }
            Control::While(l) => {
                l.carried.iter().for_each(|c| self.lives(c.next));
                self.block(&l.body);
                // Where the loop ends, what it carries goes on.
                l.carried.iter().map(|c| c.param).chain([l.condition]).for_each(|v| self.lives(v));
                self.block(&l.test);
                l.carried.iter().for_each(|c| self.made(c.param));
                l.carried.iter().for_each(|c| self.lives(c.init));
            }
            Control::If(c) => {
                c.results.iter().for_each(|r| self.lives(r.2));
                self.block(&c.otherwise);
                c.results.iter().for_each(|r| self.lives(r.1));
                self.block(&c.then);
                self.lives(c.condition);
            }
            Control::Roles(r) => r.roles.iter().rev().for_each(|r| self.block(&r.body)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inst::{For, If};
    use crate::op::BinOp;
    use crate::testing::Asm;
    use crate::value::Carried;

    /// Bytes of a program where most are live.
    fn most(a: &Asm) -> u32 {
        pressure(&a.p.body, &a.p.vals, &sizes(&a.p.body, &a.p.vals)).most
    }

    #[test]
    fn values_live_up_to_their_last_use() {
        let mut a = Asm::new(1);
        let base = a.alloc(16);
        assert_eq!(most(&a), 4);
        let x: Vec<LVal> = (0..4).map(|n| a.load_shared(base, 4 * n, LTy::I32)).collect();
        assert_eq!(most(&a), 8, "what nobody reads is there where it is made");
        let sum = a.bin(BinOp::Add, x[0], x[1]);
        a.store_shared(base, 0, &[sum]);
        assert_eq!(most(&a), 16, "the address, two words, and their sum or another");
        a.store_shared(base, 0, &x);
        assert_eq!(most(&a), 24, "the address, four words and the sum");
        let one = a.i32(1);
        let more = a.bin(BinOp::Add, x[0], one);
        a.store_shared(base, 0, &[more]);
        assert_eq!(most(&a), 24, "no literal");
    }

    #[test]
    fn halves_lie_in_their_word() {
        let mut a = Asm::new(1);
        let base = a.alloc(16);
        let word = a.load_shared(base, 0, LTy::B32);
        let half = LTy::Num(tilelift_ir::Scalar::BF16);
        let dsts = a.vals(half, 2);
        a.push(Inst::Unpack { dsts: dsts.clone(), a: word });
        a.store_shared(base, 0, &dsts);
        assert_eq!(most(&a), 4 + 4 + 4);
        let sum = a.bin(BinOp::Add, dsts[0], dsts[1]);
        a.store_shared(base, 0, &[sum]);
        a.store_shared(base, 2, &dsts);
        assert_eq!(most(&a), 4 + 4 + 4, "computed halves have a register");
    }

    /// A program that loads `outside` values, does what `inner` makes of them in blocks, and stores those from `from` on.
    fn around(outside: usize, from: usize, inner: impl FnOnce(&mut Asm, &[LVal]) -> Inst) -> u32 {
        let mut a = Asm::new(1);
        let base = a.alloc(64);
        let x: Vec<LVal> = (0..outside).map(|n| a.load_shared(base, 4 * n as i32, LTy::I32)).collect();
        let inst = inner(&mut a, &x);
        a.push(inst);
        a.store_shared(base, 0, &x[from..]);
        most(&a)
    }

    /// The instructions that `f` appends, as a block.
    fn block(a: &mut Asm, f: impl FnOnce(&mut Asm)) -> Block {
        let outer = std::mem::take(&mut a.p.body);
        f(a);
        std::mem::replace(&mut a.p.body, outer)
    }

    #[test]
    fn loops_hold_what_they_read_and_carry() {
        // One value is read at the start of the body; four others are made behind it.
        let run = |carried: bool| {
            around(1, 1, |a, x| {
                let (iv, n) = (a.val(LTy::I32), a.i32(3));
                let [param, result] = [(); 2].map(|()| a.val(LTy::I32));
                let mut next = x[0];
                let body = block(a, |a| {
                    next = a.bin(BinOp::Add, if carried { param } else { x[0] }, iv);
                    let y: Vec<LVal> = (0..4).map(|_| a.bin(BinOp::Add, iv, iv)).collect();
                    y.iter().for_each(|&v| a.store_shared(v, 0, &[v]));
                });
                let carried = if carried { vec![Carried { param, init: x[0], next, result }] } else { Vec::new() };
                Inst::For(Box::new(For { iv, lo: n, hi: n, step: n, runs: false, carried, body }))
            })
        };
        // The address, which a store behind the loop reads, the counter, and four.
        assert_eq!(run(false), 4 * (1 + 1 + 4 + 1), "and x, for the next iteration");
        assert_eq!(run(true), 4 * (1 + 1 + 4 + 1), "and what is carried on, but not where it came from");
    }

    #[test]
    fn what_lives_across_branches_is_counted_apart() {
        let held = |op: BinOp| {
            let mut a = Asm::new(1);
            let base = a.alloc(64);
            let f32 = LTy::Num(tilelift_ir::Scalar::F32);
            let early: Vec<LVal> = (0..4).map(|n| a.load_shared(base, 4 * n, f32)).collect();
            let of = a.bin(op, early[0], early[1]);
            let late: Vec<LVal> = (4..9).map(|n| a.load_shared(base, 4 * n, f32)).collect();
            a.store_shared(base, 0, &[&early[..], &late, &[of]].concat());
            pressure(&a.p.body, &a.p.vals, &sizes(&a.p.body, &a.p.vals))
        };
        // The address, and what is loaded or made in front of the quotient and read behind it.
        assert_eq!(held(BinOp::Div), Pressure { most: 4 * (1 + 4 + 1 + 5), across: 4 * (1 + 4 + 1) });
        assert_eq!(held(BinOp::Mul), Pressure { most: 4 * (1 + 4 + 1 + 5), across: 0 });
    }

    #[test]
    fn arms_are_there_one_at_a_time() {
        let choice = |arms: [usize; 2]| {
            around(1, 1, |a, x| {
                let arm = |a: &mut Asm, n: usize| {
                    block(a, |a| {
                        let y: Vec<LVal> = (0..n).map(|_| a.bin(BinOp::Add, x[0], x[0])).collect();
                        y.iter().for_each(|&v| a.store_shared(v, 0, &[v]));
                    })
                };
                let (condition, then) = (a.constant(LTy::I1, 1), arm(a, arms[0]));
                Inst::If(Box::new(If { condition, results: Vec::new(), then, otherwise: arm(a, arms[1]) }))
            })
        };
        assert_eq!([choice([4, 1]), choice([1, 4]), choice([4, 4])], [4 * (1 + 1 + 4); 3]);
    }
}
