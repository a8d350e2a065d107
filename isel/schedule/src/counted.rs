//! Loops on a condition that count, as counted loops.
//!
//! ```text
//! while carry i = first, a { yield i < end } do carry i, a {        for i in first..end step s carry a {
//!     … i … a …                                                ─►       … i … a …
//!     yield i + s, b                                                    yield b
//! }                                                                 }
//! ```
//!
//! Everything that knows loops knows counted ones: copies run ahead of them, and their products run beside the lanes. What `i` is behind the loop is
//! computed of the bounds, if somebody asks. The rewrite is from tile IR to tile IR.

use crate::rewrite::Rewrite;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Attr, CmpOp, Effects, Inst, Kernel, Literal, Op, Region, Scalar, Type, Value};

/// Which of the values that a loop carries counts, and how far.
struct Count {
    /// The number of the carried value.
    at: usize,
    /// What the condition computes of what stands in front of the loop, in order.
    asked: Vec<Inst>,
    /// The number that it stays below, or does not exceed.
    end: Value,
    inclusive: bool,
    /// What makes the number that is added in a round: a literal, or a number of instances.
    step: Inst,
}

/// The kernel with loops on a condition that count as counted loops; `None` if there are none.
pub fn counted(kernel: &Kernel) -> Option<Kernel> {
    if kernel.is_explicit() {
        return None;
    }
    let mut found = Vec::new();
    for (region, data) in kernel.regions.iter() {
        let loops = data.insts.iter().copied().filter(|&i| kernel.insts[i].op == Op::While);
        found.extend(loops.filter_map(|i| Some((region, i, count(kernel, i)?))));
    }
    if found.is_empty() {
        return None;
    }
    let read = kernel.insts.values().flat_map(|d| d.args.iter().copied()).collect();
    let mut made = Rewriting { to: Rewrite::of(kernel), read, bodies: BTreeMap::new() };
    for (region, main, count) in found {
        made.as_counted(region, main, count);
    }
    Some(made.to.finish())
}

/// How a loop counts, if it does: its condition compares what it carries, and what is added to in each round, with what stands in front of it.
fn count(kernel: &Kernel, main: Inst) -> Option<Count> {
    let &[test, body] = &kernel.insts[main].regions[..] else { return None };
    let [tested, carried] = [test, body].map(|r| &kernel.regions[r].params);
    let &[condition] = kernel.yields(test) else { return None };
    let of_test: BTreeSet<Value> = kernel.regions[test].insts.iter().flat_map(|&i| kernel.insts[i].results.iter().copied()).collect();
    let compares = kernel.def_inst(condition).filter(|_| of_test.contains(&condition))?;
    let (d, Some(Attr::Cmp(op))) = (&kernel.insts[compares], kernel.insts[compares].attrs.first()) else { return None };
    let place = |v: Value| tested.iter().position(|&p| p == v);
    let (at, end, op) = match (place(d.args[0]), place(d.args[1])) {
        (Some(at), None) => (at, d.args[1], *op),
        (None, Some(at)) => (at, d.args[0], swapped(*op)?),
        _ => return None,
    };
    let inclusive = match op {
        CmpOp::Lt => false,
        CmpOp::Le => true,
        _ => return None,
    };
    let index = carried.get(at).copied()?;
    if *kernel.ty(index) != Type::Scalar(Scalar::I32) {
        return None;
    }
    // What else the condition is computed by asks nothing that changes.
    let asked: Vec<Inst> =
        kernel.regions[test].insts.iter().copied().filter(|&i| i != compares && kernel.insts[i].op != Op::Yield).collect();
    let fixed = |i: &Inst| {
        let d = &kernel.insts[*i];
        matches!(d.op.info().effects, Effects::Pure) && d.regions.is_empty() && d.args.iter().all(|v| !tested.contains(v))
    };
    if !asked.iter().all(fixed) {
        return None;
    }
    let next = kernel.def_inst(*kernel.yields(body).get(at)?)?;
    let d = &kernel.insts[next];
    let step = match (d.op, &d.args[..]) {
        (Op::Add, &[a, b]) if a == index => b,
        (Op::Add, &[a, b]) if b == index => a,
        _ => return None,
    };
    let positive = matches!(kernel.as_const(step), Some((Literal::Int(n), _)) if n > 0);
    // A number of instances is positive, too.
    let by = kernel.def_inst(step).filter(|&i| positive || kernel.insts[i].op == Op::NumPrograms)?;
    Some(Count { at, asked, end, inclusive, step: by })
}

/// A comparison with its operands exchanged.
fn swapped(op: CmpOp) -> Option<CmpOp> {
    match op {
        CmpOp::Gt => Some(CmpOp::Lt),
        CmpOp::Ge => Some(CmpOp::Le),
        _ => None,
    }
}

struct Rewriting {
    to: Rewrite,
    /// What somebody reads.
    read: BTreeSet<Value>,
    /// Where the bodies of loops have gone.
    bodies: BTreeMap<Region, Region>,
}

impl Rewriting {
    fn as_counted(&mut self, region: Region, main: Inst, count: Count) {
        let region = self.bodies.get(&region).copied().unwrap_or(region);
        let here = (region, main);
        let d = self.to.kernel.insts[main].clone();
        let (body, at) = (d.regions[1], count.at);
        let place = self.to.kernel.regions[region].insts.iter().position(|&j| j == main).unwrap_or(0);
        self.to.kernel.regions[region].insts.splice(place..place, count.asked);
        // It may stand in the body.
        let by = self.to.kernel.insts[count.step].clone();
        let step = self.to.put(here, (by.op, &[], &by.attrs), Type::Scalar(Scalar::I32));
        let mut end = count.end;
        if count.inclusive {
            let one = self.to.number(here, 1);
            end = self.to.put(here, (Op::Add, &[end, one], &[]), Type::Scalar(Scalar::I32));
        }
        let first = d.args[at];
        let others = |list: &[Value]| -> Vec<Value> { list.iter().enumerate().filter(|&(n, _)| n != at).map(|(_, &v)| v).collect() };
        let args: Vec<Value> = [first, end, step].into_iter().chain(others(&d.args)).collect();
        let types: Vec<Type> = others(&d.results).iter().map(|&v| self.to.kernel.ty(v).clone()).collect();
        // The loop's region has parameters of its own: the index comes first.
        let own = self.to.kernel.add_region();
        let params = self.to.kernel.regions[body].params.clone();
        let index = self.to.kernel.add_region_param(own, Type::Scalar(Scalar::I32));
        self.to.replace(params[at], index);
        for p in others(&params) {
            let ty = self.to.kernel.ty(p).clone();
            let param = self.to.kernel.add_region_param(own, ty);
            self.to.replace(p, param);
        }
        self.to.kernel.regions[own].insts = std::mem::take(&mut self.to.kernel.regions[body].insts);
        self.bodies.insert(body, own);
        if let Some(end) = self.to.kernel.terminator(own) {
            self.to.kernel.insts[end].args.remove(at);
        }
        let made = self.to.kernel.add_inst(Op::For, &args, 0, &[], &[own], &types);
        self.to.place(here, made);
        let made = self.to.kernel.insts[made].results.clone();
        others(&d.results).into_iter().zip(made).for_each(|(v, by)| self.to.replace(v, by));
        if self.read.contains(&d.results[at]) {
            let last = self.behind(here, [first, end, step]);
            self.to.replace(d.results[at], last);
        }
        self.to.kernel.regions[region].insts.retain(|&i| i != main);
    }

    /// What a counter is behind its loop. Distances have no sign: they may be larger than the largest number.
    fn behind(&mut self, here: (Region, Inst), [first, end, step]: [Value; 3]) -> Value {
        let (zero, one) = (self.to.number(here, 0), self.to.number(here, 1));
        let some = self.to.put(here, (Op::Cmp, &[first, end], &[Attr::Cmp(CmpOp::Lt)]), Type::Scalar(Scalar::I1));
        let distance = self.to.put(here, (Op::Sub, &[end, first], &[]), Type::Scalar(Scalar::I32));
        let before = self.to.put(here, (Op::Sub, &[distance, one], &[]), Type::Scalar(Scalar::I32));
        let full = self.to.put(here, (Op::DivU, &[before, step], &[]), Type::Scalar(Scalar::I32));
        let rounds = self.to.put(here, (Op::Add, &[full, one], &[]), Type::Scalar(Scalar::I32));
        let gone = self.to.put(here, (Op::Mul, &[rounds, step], &[]), Type::Scalar(Scalar::I32));
        let gone = self.to.put(here, (Op::Select, &[some, gone, zero], &[]), Type::Scalar(Scalar::I32));
        self.to.put(here, (Op::Add, &[first, gone], &[]), Type::Scalar(Scalar::I32))
    }
}
