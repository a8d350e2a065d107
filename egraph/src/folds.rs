//! Which loops of a kernel are folds: found in front of the graph, from the instructions alone.
//!
//! ```text
//! acc = for j in range carry acc = init { …  e …  yield acc op e }              e does not see acc
//! acc = for j in range carry acc = init { …  e, h …  yield acc * h + e }          nor does h
//! ```
//!
//! Others may see `acc` and what it becomes, behind the instruction that makes it so: those are states of the fold.
//!
//! A loop is taken if it writes nothing, holds no control but such loops, and carries nothing but such values and unchanged ones.

use crate::graph::combining;
use crate::hash::IndexMap;
use crate::rules::Class;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use tilelift_ir::{Effects, Inst, Kernel, Literal, Op, Region, Scalar, Value};

/// The most loops that are taken: sets of ranges are words.
const MOST: usize = 64;

/// What a loop does with a carried value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    /// Hands it on.
    Same,
    /// Makes it another.
    Step {
        /// Where.
        step: Inst,
        /// How elements are put to it.
        op: Op,
        /// The element; none if the instruction adds a matrix product.
        element: Option<Value>,
        /// By what it is multiplied first, and where, if not there.
        factor: Option<(Value, Option<Inst>)>,
        /// Whether others see the accumulator, and what it becomes.
        seen: [bool; 2],
    },
}

/// The loops that are folds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folds {
    /// Slots of each.
    pub(crate) slots: IndexMap<Inst, SmallVec<[Slot; 4]>>,
    /// Instructions that put elements to accumulators.
    pub(crate) steps: SecondaryMap<Inst, bool>,
}

/// Ops that put elements together in any order.
pub(crate) fn is_monoid(op: Op) -> bool {
    matches!(op, Op::Add | Op::Minimum | Op::Maximum | Op::MinimumU | Op::MaximumU | Op::MinNum | Op::MaxNum | Op::And | Op::Or | Op::Xor)
}

/// Finds the loops of a kernel that are folds. Rules that need leave look into any; without, only those matter that share a range.
pub(crate) fn find(kernel: &Kernel, allow: Class) -> Folds {
    let mut f = Finder { kernel, allow, uses: SecondaryMap::new(), folds: Folds::default() };
    let mut loops = false;
    kernel.walk(kernel.body, &mut |i| loops |= kernel.insts[i].op == Op::For);
    if loops {
        let uses = &mut f.uses;
        kernel.walk(kernel.body, &mut |i| kernel.insts[i].args.iter().for_each(|&v| uses[v] += 1));
        f.block(kernel.body);
    }
    f.folds
}

/// A bound as it is compared in front of the graph.
#[derive(PartialEq)]
enum ComparedBound {
    Known(Literal, Scalar),
    Value(Value),
}

struct Finder<'k> {
    kernel: &'k Kernel,
    allow: Class,
    uses: SecondaryMap<Value, u32>,
    folds: Folds,
}

impl Finder<'_> {
    /// Looks through a region, inner loops first; true if it holds nothing that keeps a loop around it from being a fold.
    fn block(&mut self, region: Region) -> bool {
        let kernel = self.kernel;
        let mut clean = true;
        let mut found: Vec<(Inst, SmallVec<[Slot; 4]>)> = Vec::new();
        for &inst in &kernel.regions[region].insts {
            let d = &kernel.insts[inst];
            let inner = d.regions.iter().fold(true, |all, &r| self.block(r) & all);
            match d.op.info().effects {
                Effects::Pure => clean &= !combining(d.op) && d.op != Op::Assume,
                Effects::Reads => {}
                Effects::Control if d.op == Op::Yield => {}
                Effects::Control if d.op == Op::For && inner && d.attrs.is_empty() => match self.slots(inst) {
                    Some(slots) => found.push((inst, slots)),
                    None => clean = false,
                },
                _ => clean = false,
            }
        }
        if self.allow < Class::Reassoc {
            let before = found.len();
            let bounds: Vec<[ComparedBound; 3]> = found.iter().map(|(i, _)| self.bounds(*i)).collect();
            let mut at = 0;
            found.retain(|_| {
                at += 1;
                bounds.iter().filter(|b| **b == bounds[at - 1]).count() > 1
            });
            clean &= found.len() == before;
        }
        for (inst, slots) in found {
            if self.folds.slots.len() == MOST {
                return false;
            }
            for slot in &slots {
                if let Slot::Step { step, factor, .. } = slot {
                    self.folds.steps[*step] = true;
                    factor.and_then(|f| f.1).into_iter().for_each(|scale| self.folds.steps[scale] = true);
                }
            }
            self.folds.slots.insert(inst, slots);
        }
        clean
    }

    fn bounds(&self, inst: Inst) -> [ComparedBound; 3] {
        let args = &self.kernel.insts[inst].args;
        [0, 1, 2].map(|i| self.kernel.as_const(args[i]).map_or(ComparedBound::Value(args[i]), |(l, s)| ComparedBound::Known(l, s)))
    }

    fn slots(&self, inst: Inst) -> Option<SmallVec<[Slot; 4]>> {
        let kernel = self.kernel;
        let body = kernel.insts[inst].regions[0];
        let params = kernel.regions[body].params.get(1..)?;
        let slot = |(&y, &acc): (&Value, &Value)| if y == acc { Some(Slot::Same) } else { self.slot(body, y, acc) };
        let slots = kernel.yields(body).iter().zip(params).map(slot).collect::<Option<SmallVec<[Slot; 4]>>>()?;
        self.in_order(body, &slots).then_some(slots)
    }

    fn slot(&self, body: Region, y: Value, acc: Value) -> Option<Slot> {
        let kernel = self.kernel;
        let here = |v: Value| kernel.def_inst(v).filter(|i| kernel.regions[body].insts.contains(i));
        let step = here(y)?;
        // The accumulator, or its product with a factor that nobody else sees.
        let from = |v: Value| -> Option<Option<(Value, Option<Inst>)>> {
            if v == acc {
                return Some(None);
            }
            let scale = here(v).filter(|&i| kernel.insts[i].op == Op::Mul && self.uses[v] == 1)?;
            match kernel.insts[scale].args[..] {
                [a, h] | [h, a] if a == acc && h != acc => Some(Some((h, Some(scale)))),
                _ => None,
            }
        };
        let float = kernel.ty(acc).elem().is_float();
        let d = &kernel.insts[step];
        let seen = [acc, y].map(|v| self.uses[v] > 1);
        let made = |op: Op, element: Option<Value>, factor| Some(Slot::Step { step, op, element, factor, seen });
        match (d.op, &d.args[..]) {
            (Op::Dot, &[_, _, c]) if self.allow >= Class::Free => made(Op::Add, None, from(c)?),
            // Rounded twice when it is made again.
            (Op::Fma, &[a, h, e] | &[h, a, e]) if a == acc && self.allow >= Class::Reassoc => made(Op::Add, Some(e), Some((h, None))),
            (op, &[a, e] | &[e, a]) if is_monoid(op) && a == acc => made(op, Some(e), None),
            (Op::Add, &[a, b]) if float => match (from(a), from(b)) {
                (Some(factor), _) => made(Op::Add, Some(b), factor),
                (None, Some(factor)) => made(Op::Add, Some(a), factor),
                (None, None) => None,
            },
            _ => None,
        }
    }

    /// True if nothing sees an accumulator, or what it becomes, in front of the step, and both are handed on in their own place only.
    fn in_order(&self, body: Region, slots: &[Slot]) -> bool {
        let kernel = self.kernel;
        let mut known: IndexMap<Value, bool> = IndexMap::default();
        // Instructions that may see the accumulator of a slot, once.
        let mut takes: IndexMap<Inst, usize> = IndexMap::default();
        let mut steps: IndexMap<Inst, usize> = IndexMap::default();
        for (k, slot) in slots.iter().enumerate() {
            if let Slot::Step { step, factor, .. } = slot {
                known.insert(kernel.regions[body].params[1 + k], false);
                known.insert(kernel.yields(body)[k], false);
                steps.insert(*step, k);
                takes.insert(factor.and_then(|f| f.1).unwrap_or(*step), k);
            }
        }
        let sound = |known: &IndexMap<Value, bool>, inst: Inst, but: Option<Value>| {
            let mut own = 0;
            let mut all = true;
            for v in &kernel.insts[inst].args {
                own += usize::from(Some(*v) == but);
                all &= Some(*v) == but || known.get(v).is_none_or(|k| *k);
            }
            all && own <= 1
        };
        kernel.regions[body].insts.iter().all(|&inst| {
            let d = &kernel.insts[inst];
            if d.op == Op::Yield {
                let own = |k: usize, y: Value| match slots.get(k) {
                    Some(Slot::Step { .. }) => d.args.iter().filter(|&&v| v == y).count() == 1 && !kernel.regions[body].params.contains(&y),
                    _ => !known.contains_key(&y),
                };
                return d.args.iter().enumerate().all(|(k, &y)| own(k, y));
            }
            let mut all = sound(&known, inst, takes.get(&inst).map(|&k| kernel.regions[body].params[1 + k]));
            for &r in &d.regions {
                kernel.walk(r, &mut |i| all &= sound(&known, i, None));
            }
            if let Some(&k) = steps.get(&inst) {
                for v in [kernel.regions[body].params[1 + k], kernel.yields(body)[k]] {
                    known.insert(v, true);
                }
            }
            all
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_kernels::{Size, cases};

    /// Without leave the loops of the library are what they were: none shares its range with another.
    #[test]
    fn loops_are_looked_at_where_rules_have_leave() {
        let (mut free, mut loose) = (0, 0);
        for case in cases().iter().filter(|c| c.size == Size::Small) {
            let kernel = case.build().expect("kernels of the library build");
            free += find(&kernel, Class::Free).slots.len();
            loose += find(&kernel, Class::Reassoc).slots.len();
        }
        assert!(free == 0 && loose > 50, "{free} loops without leave, {loose} with it");
    }
}
