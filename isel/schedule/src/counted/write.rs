//! A loop on a condition written as a counted one.

use super::ahead::RoundsAhead;
use super::find::Count;
use crate::rewrite::Rewrite;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Attr, CmpOp, Inst, Kernel, Literal, Op, Region, Scalar, Type, Value};

/// A kernel whose loops are written.
pub(super) struct Counting {
    to: Rewrite,
    /// What somebody reads.
    read: BTreeSet<Value>,
    /// Where the bodies of loops have gone.
    bodies: BTreeMap<Region, Region>,
}

/// What stands in front of a loop.
struct Front<'a> {
    to: &'a mut Rewrite,
    here: (Region, Inst),
    elem: Scalar,
    count: &'a Count,
    /// What the counter begins with, and what is compared with the end then.
    first: Value,
    compared: Value,
    /// How far it goes in a round, without a sign.
    step: Value,
    /// What has to hold besides.
    also: Option<Value>,
}

impl Counting {
    pub fn of(kernel: &Kernel) -> Counting {
        let read = kernel.insts.values().flat_map(|d| d.args.iter().copied()).collect();
        Counting { to: Rewrite::of(kernel), read, bodies: BTreeMap::new() }
    }

    pub fn finish(self) -> Kernel {
        self.to.finish()
    }

    /// Writes a loop of a region as a counted one.
    pub fn write(&mut self, region: Region, main: Inst, count: &Count) {
        let region = self.bodies.get(&region).copied().unwrap_or(region);
        let here = (region, main);
        let d = self.to.kernel.insts[main].clone();
        let (test, body) = (d.regions[0], d.regions[1]);
        // What is carried unchanged is there in front of the loop.
        for &n in count.unchanged.iter().filter(|&&n| n != count.at) {
            for r in [test, body] {
                self.to.replace(self.to.kernel.regions[r].params[n], d.args[n]);
            }
            self.to.replace(d.results[n], d.args[n]);
        }
        let place = self.to.kernel.regions[region].insts.iter().position(|&j| j == main).unwrap_or(0);
        self.to.kernel.regions[region].insts.splice(place..place, count.asked.iter().copied());
        self.to.kernel.regions[test].insts.clear();
        let read = self.read.contains(&d.results[count.at]);
        let mut front = Front::of(&mut self.to, here, count, d.args[count.at]);
        let bounds = front.bounds();
        let sure = count.certain.ends && count.certain.way;
        let last = if read || !sure { Some(front.behind()) } else { None };
        front.asserts(bounds[1], last);
        if let Some([last, _]) = last.filter(|_| read) {
            self.to.replace(d.results[count.at], last);
        }
        let kept: Vec<usize> = (0..d.args.len()).filter(|n| *n != count.at && !count.unchanged.contains(n)).collect();
        let (own, index) = self.body(body, Type::Scalar(count.elem), &kept);
        let counter = self.to.kernel.regions[body].params[count.at];
        if count.is_index() {
            self.to.replace(counter, index);
        } else {
            let op = if count.step.down { Op::Sub } else { Op::Add };
            let made = self.to.kernel.add_inst(op, &[d.args[count.at], index], 0, &[], &[], &[Type::Scalar(count.elem)]);
            self.to.kernel.locs[made] = self.to.kernel.locs[main];
            self.to.kernel.regions[own].insts.insert(0, made);
            self.to.replace(counter, self.to.kernel.insts[made].results[0]);
        }
        self.instead(here, bounds, own, &kept);
    }

    /// Writes a loop of a region as one of as many rounds as are counted in front of it.
    pub fn write_behind(&mut self, region: Region, main: Inst, ahead: &RoundsAhead) {
        let region = self.bodies.get(&region).copied().unwrap_or(region);
        let here = (region, main);
        let d = self.to.kernel.insts[main].clone();
        let rounds = ahead.write(&mut self.to, here);
        let (zero, one) = (self.to.number(here, 0), self.to.number(here, 1));
        let kept: Vec<usize> = (0..d.args.len()).collect();
        let (own, _) = self.body(d.regions[1], Type::Scalar(Scalar::I32), &kept);
        self.to.kernel.regions[d.regions[0]].insts.clear();
        self.instead(here, [zero, rounds, one], own, &kept);
    }

    /// The body with parameters of its own, the index first, of the carried values those that are kept; and the index.
    fn body(&mut self, body: Region, index: Type, kept: &[usize]) -> (Region, Value) {
        let own = self.to.kernel.add_region();
        let index = self.to.kernel.add_region_param(own, index);
        for &n in kept {
            let p = self.to.kernel.regions[body].params[n];
            let ty = self.to.kernel.ty(p).clone();
            let param = self.to.kernel.add_region_param(own, ty);
            self.to.replace(p, param);
        }
        self.to.kernel.regions[own].insts = std::mem::take(&mut self.to.kernel.regions[body].insts);
        if let Some(end) = self.to.kernel.terminator(own) {
            let args = &self.to.kernel.insts[end].args;
            self.to.kernel.insts[end].args = kept.iter().map(|&n| args[n]).collect();
        }
        self.bodies.insert(body, own);
        (own, index)
    }

    /// Puts a counted loop in the place of one on a condition.
    fn instead(&mut self, (region, main): (Region, Inst), bounds: [Value; 3], own: Region, kept: &[usize]) {
        let d = self.to.kernel.insts[main].clone();
        let args: Vec<Value> = bounds.into_iter().chain(kept.iter().map(|&n| d.args[n])).collect();
        let types: Vec<Type> = kept.iter().map(|&n| self.to.kernel.ty(d.results[n]).clone()).collect();
        let made = self.to.kernel.add_inst(Op::For, &args, 0, &[], &[own], &types);
        self.to.place((region, main), made);
        self.to.kernel.written_as[made] = Some(d.op);
        let made = self.to.kernel.insts[made].results.clone();
        kept.iter().zip(made).for_each(|(&n, by)| self.to.replace(d.results[n], by));
        self.to.kernel.regions[region].insts.retain(|&i| i != main);
    }
}

impl<'a> Front<'a> {
    fn of(to: &'a mut Rewrite, here: (Region, Inst), count: &'a Count, first: Value) -> Front<'a> {
        // It may be made in the body.
        let mut own = BTreeMap::new();
        to.again(&count.step.made, here, &mut own);
        let step = own.get(&count.step.value).copied().unwrap_or(count.step.value);
        let mut front = Front { to, here, elem: count.elem, count, first, compared: first, step, also: None };
        if count.step.below {
            front.step = front.op(Op::Neg, &[step]);
        }
        for &(op, by) in &count.shift {
            front.compared = front.op(op, &[front.compared, by]);
        }
        if let Some((&one, others)) = count.also.split_first() {
            front.also = Some(others.iter().fold(one, |a, &b| front.both(a, b)));
        }
        front
    }

    fn op(&mut self, op: Op, args: &[Value]) -> Value {
        self.to.put(self.here, (op, args, &[]), Type::Scalar(self.elem))
    }

    fn number(&mut self, n: i64) -> Value {
        self.to.put(self.here, (Op::Const, &[], &[Attr::Literal(Literal::Int(n))]), Type::Scalar(self.elem))
    }

    fn compare(&mut self, op: CmpOp, a: Value, b: Value) -> Value {
        self.to.put(self.here, (Op::Cmp, &[a, b], &[Attr::Cmp(op)]), Type::Scalar(Scalar::I1))
    }

    fn both(&mut self, a: Value, b: Value) -> Value {
        self.to.put(self.here, (Op::And, &[a, b], &[]), Type::Scalar(Scalar::I1))
    }

    /// True if the loop goes round at all.
    fn some(&mut self) -> Value {
        let some = self.compare(self.count.op, self.compared, self.count.end);
        self.also.map_or(some, |also| self.both(some, also))
    }

    /// How far it is from the first number to the end.
    fn distance(&mut self) -> Value {
        let (from, to) = if self.count.step.down { (self.count.end, self.compared) } else { (self.compared, self.count.end) };
        self.op(Op::Sub, &[to, from])
    }

    /// The bounds and the step of the counted loop.
    fn bounds(&mut self) -> [Value; 3] {
        let count = self.count;
        let (low, mut high) = match count.is_index() {
            true => (self.first, count.end),
            false => (self.number(0), self.distance()),
        };
        if count.inclusive() {
            let one = self.number(1);
            high = self.op(Op::Add, &[high, one]);
        }
        // Where the distance may wrap, the condition says whether the loop goes round.
        let goes = match count.is_index() || count.certain.way || count.op == CmpOp::Ne {
            true => self.also,
            false => Some(self.some()),
        };
        if let Some(goes) = goes {
            high = self.op(Op::Select, &[goes, high, low]);
        }
        [low, high, self.step]
    }

    /// What a counter is behind its loop, and what is compared with the end then. Distances have no sign: they may be larger than the largest number.
    fn behind(&mut self) -> [Value; 2] {
        let count = self.count;
        let (zero, one) = (self.number(0), self.number(1));
        let some = self.some();
        let distance = self.distance();
        let rounds = match count.op {
            CmpOp::Lt | CmpOp::Gt => {
                let before = self.op(Op::Sub, &[distance, one]);
                let full = self.op(Op::DivU, &[before, self.step]);
                self.op(Op::Add, &[full, one])
            }
            CmpOp::Le | CmpOp::Ge => {
                let full = self.op(Op::DivU, &[distance, self.step]);
                self.op(Op::Add, &[full, one])
            }
            _ => self.op(Op::DivU, &[distance, self.step]),
        };
        let gone = self.op(Op::Mul, &[rounds, self.step]);
        let gone = self.op(Op::Select, &[some, gone, zero]);
        let op = if count.step.down { Op::Sub } else { Op::Add };
        let last = self.op(op, &[self.first, gone]);
        [last, if count.shift.is_empty() { last } else { self.op(op, &[self.compared, gone]) }]
    }

    /// Asserts what is not certain: that the condition does not hold behind the loop, and that the way there is a number.
    fn asserts(&mut self, high: Value, last: Option<[Value; 2]>) {
        let count = self.count;
        let mut holds = Vec::new();
        if let Some([_, last]) = last.filter(|_| !count.certain.ends) {
            holds.push(self.compare(count.op.inverted(), last, count.end));
        }
        if !count.certain.way {
            holds.push(match count.is_index() {
                true => self.compare(CmpOp::Le, self.first, high),
                false => {
                    let zero = self.number(0);
                    self.compare(CmpOp::Ge, high, zero)
                }
            });
        }
        let Some((&one, others)) = holds.split_first() else { return };
        let mut holds = others.iter().fold(one, |a, &b| self.both(a, b));
        if let Some(also) = self.also {
            let not = self.to.put(self.here, (Op::Not, &[also], &[]), Type::Scalar(Scalar::I1));
            holds = self.to.put(self.here, (Op::Or, &[holds, not], &[]), Type::Scalar(Scalar::I1));
        }
        let made = self.to.kernel.add_inst(Op::Assert, &[holds], 0, &[], &[], &[]);
        self.to.place(self.here, made);
    }
}
