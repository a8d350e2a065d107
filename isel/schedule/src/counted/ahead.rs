//! Loops on a condition whose rounds are counted by going through them once in front, with the scalars alone that decide.
//!
//! ```text
//! while carry i = first, a { yield c(i) } do carry i, a {        while carry n = 0, i = first { yield c(i) } do carry n, i { yield n + 1, next(i) }
//!     … i … a … products                                   ─►    for _ in 0..n step 1 carry i = first, a {
//!     yield next(i), b                                               … i … a … products
//! }                                                                  yield next(i), b
//!                                                                }
//! ```
//!
//! So copies run ahead where no closed form says how often a loop goes round: its next number stands in a list that nobody writes, or is computed of
//! what is left. The loop in front goes round exactly as often: it asks the same of the same.

use crate::rewrite::Rewrite;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Attr, Effects, Inst, Kernel, Literal, Op, Region, Scalar, Type, Value, ValueDef};
use tilelift_lane::hash::Set;

/// Elements of a tile that is computed once more at most.
const SMALL: u64 = 16;

/// What decides how often a loop goes round.
pub(super) struct RoundsAhead {
    /// The numbers of the carried values that take part.
    carried: Vec<usize>,
    /// What the condition computes, in order.
    test: Vec<Inst>,
    /// What makes the next ones of these values, in order.
    next: Vec<Inst>,
}

impl RoundsAhead {
    /// What decides, if that is scalars alone, and the loop holds products.
    pub fn of(kernel: &Kernel, written: &Set<Value>, main: Inst) -> Option<RoundsAhead> {
        let &[test, body] = &kernel.insts[main].regions[..] else { return None };
        let (mut products, mut asserts) = (false, false);
        for region in [test, body] {
            kernel.walk(region, &mut |i| {
                products |= matches!(kernel.insts[i].op, Op::Dot | Op::DotScaled);
                // A launch that ends in one of its rounds would not in front.
                asserts |= kernel.insts[i].op == Op::Assert;
            });
        }
        let asked: Vec<Inst> = kernel.regions[test].insts.iter().copied().filter(|&i| kernel.insts[i].op != Op::Yield).collect();
        if !products || asserts || !asked.iter().all(|&i| repeats(kernel, written, i)) {
            return None;
        }
        // Values of the body that are needed, in the order in which they are found.
        let (mut carried, mut insts) = (BTreeSet::new(), BTreeSet::new());
        let mut open: Vec<Value> =
            asked.iter().flat_map(|&i| kernel.insts[i].args.iter().copied()).chain(kernel.yields(test).to_vec()).collect();
        while let Some(v) = open.pop() {
            match kernel.values[v].def {
                ValueDef::RegionParam(r, n) if r == test || r == body => {
                    if !small(kernel, v) {
                        return None;
                    }
                    if carried.insert(n as usize) {
                        open.push(*kernel.yields(body).get(n as usize)?);
                    }
                }
                ValueDef::Result(i, _) if kernel.regions[body].insts.contains(&i) => {
                    if !repeats(kernel, written, i) {
                        return None;
                    }
                    if insts.insert(i) {
                        open.extend(kernel.insts[i].args.iter().copied());
                    }
                }
                // What the condition computes is looked at above; what stands in front of the loop is there.
                _ => {}
            }
        }
        let next = kernel.regions[body].insts.iter().copied().filter(|i| insts.contains(i)).collect();
        Some(RoundsAhead { carried: carried.into_iter().collect(), test: asked, next })
    }

    /// Counts the rounds of a loop in front of it.
    pub fn write(&self, to: &mut Rewrite, here: (Region, Inst)) -> Value {
        let d = to.kernel.insts[here.1].clone();
        let (test, body) = (d.regions[0], d.regions[1]);
        let number = Type::Scalar(Scalar::I32);
        let zero = to.number(here, 0);
        let args: Vec<Value> = [zero].into_iter().chain(self.carried.iter().map(|&n| d.args[n])).collect();
        let types: Vec<Type> = args.iter().map(|&v| to.kernel.ty(v).clone()).collect();
        let [asks, goes] = [test, body].map(|r| {
            let own = to.kernel.add_region();
            let params: Vec<Value> = types.iter().map(|ty| to.kernel.add_region_param(own, ty.clone())).collect();
            let mut by: BTreeMap<Value, Value> = BTreeMap::new();
            by.extend(self.carried.iter().map(|&n| to.kernel.regions[r].params[n]).zip(params[1..].iter().copied()));
            let list = if r == test { &self.test } else { &self.next };
            copied(&mut to.kernel, list, own, &mut by);
            let of = |by: &BTreeMap<Value, Value>, v: Value| by.get(&v).copied().unwrap_or(v);
            let yields = to.kernel.yields(r).to_vec();
            let mut handed: Vec<Value> = Vec::new();
            if r == test {
                handed.extend(yields.iter().map(|&v| of(&by, v)));
            } else {
                let one = to.kernel.add_inst(Op::Const, &[], 0, &[Attr::Literal(Literal::Int(1))], &[], std::slice::from_ref(&number));
                let next =
                    to.kernel.add_inst(Op::Add, &[params[0], to.kernel.insts[one].results[0]], 0, &[], &[], std::slice::from_ref(&number));
                to.kernel.regions[own].insts.extend([one, next]);
                handed.push(to.kernel.insts[next].results[0]);
                handed.extend(self.carried.iter().map(|&n| of(&by, yields[n])));
            }
            let end = to.kernel.add_inst(Op::Yield, &handed, 0, &[], &[], &[]);
            to.kernel.regions[own].insts.push(end);
            own
        });
        let made = to.kernel.add_inst(Op::While, &args, 0, &[], &[asks, goes], &types);
        to.place(here, made);
        to.kernel.insts[made].results[0]
    }
}

/// True for an instruction that may be done once more in front of its loop.
fn repeats(kernel: &Kernel, written: &Set<Value>, i: Inst) -> bool {
    let d = &kernel.insts[i];
    let may = match d.op.info().effects {
        Effects::Pure => true,
        Effects::Reads => d.args.first().is_some_and(|v| !written.contains(v)),
        _ => false,
    };
    may && d.regions.is_empty() && d.results.iter().all(|&v| small(kernel, v))
}

/// True for a scalar, and a tile of few elements.
fn small(kernel: &Kernel, v: Value) -> bool {
    match kernel.ty(v) {
        Type::Scalar(_) => true,
        Type::Tile(t) => t.elements() <= SMALL,
        Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => false,
    }
}

/// Copies instructions to the end of a region, with other values for some that they read.
fn copied(kernel: &mut Kernel, list: &[Inst], to: Region, by: &mut BTreeMap<Value, Value>) {
    for &i in list {
        let d = kernel.insts[i].clone();
        let args: Vec<Value> = d.args.iter().map(|v| by.get(v).copied().unwrap_or(*v)).collect();
        let types: Vec<Type> = d.results.iter().map(|&v| kernel.ty(v).clone()).collect();
        let made = kernel.add_inst(d.op, &args, d.present, &d.attrs, &[], &types);
        kernel.locs[made] = kernel.locs[i];
        kernel.regions[to].insts.push(made);
        by.extend(d.results.iter().copied().zip(kernel.insts[made].results.clone()));
    }
}
