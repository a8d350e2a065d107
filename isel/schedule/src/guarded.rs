//! Guarded products as loops: `if c { … dot … }` is a loop of one round, or of none.
//!
//! ```text
//! for i … carry a {                          for i … carry a, c = c(first i) {
//!     c = c(i)                                   next = c(i + step)          asked for a step ahead, so that nobody waits for memory
//!     b = if c { … dot …, a … } else { a }  ─►   b = for 0..(c ? 1 : 0) carry x = a { … dot …, x … }
//!     yield b                                    yield b, next
//! }                                          }
//! ```
//!
//! Blocks that a mask leaves out are neither copied nor multiplied: the producer asks as the consumers do, and a ring of slots goes on from one round
//! that is done to the next. The rewrite is from tile IR to tile IR, and says nothing of how the loop runs.

use crate::plan::written_views;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Attr, Effects, Inst, Kernel, Literal, Op, Region, Scalar, Type, Value, ValueData, ValueDef};

/// Instructions that a condition is computed by, at most, to be asked for a step ahead.
const MOST_ASKED: usize = 16;

/// The kernel with products that stand in choices of loops in loops of their own; `None` if there are none.
pub fn guarded(kernel: &Kernel) -> Option<Kernel> {
    if kernel.is_explicit() {
        return None;
    }
    let mut found = Vec::new();
    kernel.walk(kernel.body, &mut |main| {
        if kernel.insts[main].op == Op::For {
            let region = kernel.insts[main].regions[0];
            let list = kernel.regions[region].insts.iter().copied();
            found.extend(list.filter_map(|i| Some((main, region, i, Arm::of(kernel, i)?))));
        }
    });
    if found.is_empty() {
        return None;
    }
    taken(Decision::GuardedProducts, || Told::of(format!("{} choices of products are loops of one round", found.len())));
    let written = written_views(kernel);
    let mut made = Guarded { kernel: kernel.clone() };
    for (main, region, choice, arm) in found {
        let condition = made.ahead(main, region, choice, &written);
        made.as_loop(region, choice, arm, condition)?;
    }
    Some(made.kernel)
}

/// The arm of a choice that multiplies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arm {
    Then,
    Else,
}

impl Arm {
    /// That of a choice of which one arm has products of its own.
    fn of(kernel: &Kernel, choice: Inst) -> Option<Arm> {
        let d = &kernel.insts[choice];
        if d.op != Op::If {
            return None;
        }
        let multiplies = |r: Region| kernel.regions[r].insts.iter().any(|&i| kernel.insts[i].op == Op::Dot);
        match d.regions[..] {
            [then, otherwise] if multiplies(then) && !multiplies(otherwise) => Some(Arm::Then),
            [then, otherwise] if multiplies(otherwise) && !multiplies(then) => Some(Arm::Else),
            _ => None,
        }
    }
}

struct Guarded {
    kernel: Kernel,
}

impl Guarded {
    /// Puts an instruction in front of another one, at its place in the source.
    fn put(&mut self, region: Region, before: Inst, (op, args, attrs): (Op, &[Value], &[Attr]), ty: Type) -> Value {
        let made = self.kernel.add_inst(op, args, 0, attrs, &[], &[ty]);
        self.place(region, before, made);
        self.kernel.insts[made].results[0]
    }

    fn place(&mut self, region: Region, before: Inst, made: Inst) {
        self.kernel.locs[made] = self.kernel.locs[before];
        let insts = &mut self.kernel.regions[region].insts;
        let at = insts.iter().position(|&j| j == before).unwrap_or(0);
        insts.insert(at, made);
    }

    fn number(&mut self, region: Region, before: Inst, n: i64) -> Value {
        self.put(region, before, (Op::Const, &[], &[Attr::Literal(Literal::Int(n))]), Type::Scalar(Scalar::I32))
    }

    /// Has all instructions use a value instead of another one.
    fn replace(&mut self, v: Value, by: Value) {
        self.kernel.insts.values_mut().for_each(|d| d.args.iter_mut().filter(|a| **a == v).for_each(|a| *a = by));
    }

    /// What the loop carries at first for a result of the choice: what the other arm hands on, if that is there whatever the condition is; else what
    /// products of the result are added to, or zeros.
    fn init(&mut self, (region, choice): (Region, Inst), (inside, beside): (Region, Region), n: usize) -> Option<Value> {
        let kernel = &self.kernel;
        let (given, other) = (kernel.yields(inside)[n], kernel.yields(beside)[n]);
        let mut own = BTreeSet::new();
        for r in [inside, beside] {
            kernel.walk(r, &mut |i| own.extend(kernel.insts[i].results.iter().copied()));
        }
        if !own.contains(&other) {
            return Some(other);
        }
        let added = kernel.def_inst(given).map(|i| &kernel.insts[i]).filter(|d| d.op == Op::Dot).map(|d| d.args[2]);
        if let Some(v) = added.filter(|v| !own.contains(v)) {
            return Some(v);
        }
        let ty = kernel.ty(given).clone();
        let elem = match &ty {
            Type::Scalar(s) => *s,
            Type::Tile(t) => t.elem,
            _ => return None,
        };
        let zero = if elem.is_float() { Literal::Float(0) } else { Literal::Int(0) };
        let scalar = self.put(region, choice, (Op::Const, &[], &[Attr::Literal(zero)]), Type::Scalar(elem));
        Some(match ty {
            Type::Tile(_) => self.put(region, choice, (Op::Splat, &[scalar], &[]), ty),
            _ => scalar,
        })
    }

    /// The arm that multiplies as a loop in front of the choice, which is left to choose between its results and those of the other arm.
    fn as_loop(&mut self, region: Region, choice: Inst, arm: Arm, condition: Value) -> Option<()> {
        let d = self.kernel.insts[choice].clone();
        // The arm that multiplies, the other one, and the rounds where the condition holds.
        let (inside, beside, once) = match arm {
            Arm::Then => (d.regions[0], d.regions[1], 1),
            Arm::Else => (d.regions[1], d.regions[0], 0),
        };
        let init = (0..d.results.len()).map(|n| self.init((region, choice), (inside, beside), n)).collect::<Option<Vec<Value>>>()?;
        let (holds, fails) = (self.number(region, choice, once), self.number(region, choice, 1 - once));
        let rounds = self.put(region, choice, (Op::Select, &[condition, holds, fails], &[]), Type::Scalar(Scalar::I32));
        let (zero, one) = (self.number(region, choice, 0), self.number(region, choice, 1));
        let body = self.kernel.add_region();
        self.kernel.add_region_param(body, Type::Scalar(Scalar::I32));
        self.kernel.regions[body].insts = std::mem::take(&mut self.kernel.regions[inside].insts);
        let mut own: BTreeMap<Value, Value> = BTreeMap::new();
        for &v in &init {
            let param = self.kernel.add_region_param(body, self.kernel.ty(v).clone());
            own.entry(v).or_insert(param);
        }
        // In the only round what is carried is what it began with.
        let mut users = Vec::new();
        self.kernel.walk(body, &mut |i| users.push(i));
        for i in users {
            self.kernel.insts[i].args.iter_mut().for_each(|a| *a = own.get(a).copied().unwrap_or(*a));
        }
        let args: Vec<Value> = [zero, rounds, one].into_iter().chain(init.iter().copied()).collect();
        let types: Vec<Type> = d.results.iter().map(|&v| self.kernel.ty(v).clone()).collect();
        let made = self.kernel.add_inst(Op::For, &args, 0, &[], &[body], &types);
        self.place(region, choice, made);
        let results = self.kernel.insts[made].results.clone();
        let end = self.kernel.add_inst(Op::Yield, &results, 0, &[], &[], &[]);
        self.kernel.regions[inside].insts.push(end);
        // Where the other arm only hands on what the loop began with, there is nothing left to choose.
        let others = &self.kernel.regions[beside].insts;
        if others.len() == 1 && self.kernel.yields(beside) == init {
            d.results.iter().zip(&results).for_each(|(&v, &by)| self.replace(v, by));
            self.kernel.regions[region].insts.retain(|&i| i != choice);
        }
        Some(())
    }

    /// The condition of a choice in a loop; one that asks memory which nobody writes, at places that follow from the loop's index, is carried, and asked
    /// for a step ahead.
    fn ahead(&mut self, main: Inst, region: Region, choice: Inst, written: &HashSet<Value>) -> Value {
        let condition = self.kernel.insts[choice].args[0];
        let Some(end) = self.kernel.terminator(region) else { return condition };
        let Some(holder) = self.kernel.regions.iter().find(|r| r.1.insts.contains(&main)).map(|r| r.0) else { return condition };
        let Some(asked) = self.asked(region, condition, written) else { return condition };
        let index = self.kernel.regions[region].params[0];
        let [lo, step] = [0, 2].map(|n| self.kernel.insts[main].args[n]);
        let first = self.again(&asked, (holder, main), (index, lo), condition);
        let Some(&front) = self.kernel.regions[region].insts.first() else { return condition };
        let later = self.put(region, front, (Op::Add, &[index, step], &[]), self.kernel.ty(index).clone());
        let next = self.again(&asked, (region, front), (index, later), condition);
        let own = self.kernel.add_region_param(region, Type::Scalar(Scalar::I1));
        self.kernel.insts[main].args.push(first);
        self.kernel.insts[end].args.push(next);
        let def = ValueDef::Result(main, self.kernel.insts[main].results.len() as u32);
        let result = self.kernel.values.push(ValueData { ty: Type::Scalar(Scalar::I1), def });
        self.kernel.insts[main].results.push(result);
        self.kernel.insts[choice].args[0] = own;
        self.forget(region, &asked);
        own
    }

    /// Takes what nobody looks at any more out of a body.
    fn forget(&mut self, region: Region, list: &[Inst]) {
        for &i in list.iter().rev() {
            let results = self.kernel.insts[i].results.clone();
            let mut used = false;
            self.kernel.walk(self.kernel.body, &mut |j| used |= self.kernel.insts[j].args.iter().any(|a| results.contains(a)));
            if !used {
                self.kernel.regions[region].insts.retain(|&j| j != i);
            }
        }
    }

    /// What of a loop's body a condition is computed by, in order, if it loads something, and may be computed for any index.
    fn asked(&self, region: Region, condition: Value, written: &HashSet<Value>) -> Option<Vec<Inst>> {
        let kernel = &self.kernel;
        let (mut wanted, mut loads): (BTreeSet<Value>, bool) = ([condition].into_iter().collect(), false);
        let mut out = Vec::new();
        for &i in kernel.regions[region].insts.iter().rev() {
            let d = &kernel.insts[i];
            if !d.results.iter().any(|v| wanted.contains(v)) {
                continue;
            }
            let unwritten = d.op == Op::Load && !written.contains(&d.args[0]);
            let small = d.results.iter().all(|&v| kernel.ty(v).as_tile().is_none_or(|t| t.elements() == 1));
            let divides = matches!(d.op, Op::Div | Op::Rem | Op::DivU | Op::RemU) && kernel.as_const(d.args[1]).is_none();
            if !(unwritten || matches!(d.op.info().effects, Effects::Pure)) || !small || divides || !d.regions.is_empty() {
                return None;
            }
            loads |= unwritten;
            wanted.extend(d.args.iter().copied());
            out.push(i);
        }
        // What is carried is not known a step ahead.
        let carried = kernel.regions[region].params[1..].iter().any(|p| wanted.contains(p));
        out.reverse();
        (loads && !carried && out.len() <= MOST_ASKED).then_some(out)
    }

    /// Computes a value once more for another index, in front of an instruction.
    fn again(&mut self, asked: &[Inst], (region, before): (Region, Inst), (index, by): (Value, Value), of: Value) -> Value {
        let mut own: BTreeMap<Value, Value> = [(index, by)].into_iter().collect();
        for &i in asked {
            let d = self.kernel.insts[i].clone();
            let args: Vec<Value> = d.args.iter().map(|v| own.get(v).copied().unwrap_or(*v)).collect();
            let types: Vec<Type> = d.results.iter().map(|&v| self.kernel.ty(v).clone()).collect();
            let made = self.kernel.add_inst(d.op, &args, d.present, &d.attrs, &[], &types);
            self.place(region, before, made);
            let results = self.kernel.insts[made].results.clone();
            own.extend(d.results.iter().copied().zip(results));
        }
        own.get(&of).copied().unwrap_or(of)
    }
}
