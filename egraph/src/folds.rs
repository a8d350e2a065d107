//! Which loops of a kernel are folds: found in front of the graph, from the instructions alone.
//!
//! ```text
//! acc = for j in range carry acc = init { …  e …  yield acc op e }     e does not see acc, and nobody else sees acc or acc op e
//! ```
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
    /// Puts an element to it.
    Element { op: Op, element: Value },
    /// Adds a matrix product to it, which this instruction does.
    Product(Inst),
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
enum Bound {
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
            let bounds: Vec<[Bound; 3]> = found.iter().map(|(i, _)| self.bounds(*i)).collect();
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
            let yields = kernel.yields(kernel.insts[inst].regions[0]);
            for (slot, &y) in slots.iter().zip(yields) {
                if let (Slot::Element { .. } | Slot::Product(_), Some(step)) = (slot, kernel.def_inst(y)) {
                    self.folds.steps[step] = true;
                }
            }
            self.folds.slots.insert(inst, slots);
        }
        clean
    }

    fn bounds(&self, inst: Inst) -> [Bound; 3] {
        let args = &self.kernel.insts[inst].args;
        [0, 1, 2].map(|i| self.kernel.as_const(args[i]).map_or(Bound::Value(args[i]), |(l, s)| Bound::Known(l, s)))
    }

    fn slots(&self, inst: Inst) -> Option<SmallVec<[Slot; 4]>> {
        let kernel = self.kernel;
        let body = kernel.insts[inst].regions[0];
        let params = kernel.regions[body].params.get(1..)?;
        kernel.yields(body).iter().zip(params).map(|(&y, &acc)| if y == acc { Some(Slot::Same) } else { self.slot(body, y, acc) }).collect()
    }

    fn slot(&self, body: Region, y: Value, acc: Value) -> Option<Slot> {
        let kernel = self.kernel;
        let step = kernel.def_inst(y).filter(|i| kernel.regions[body].insts.contains(i))?;
        if self.uses[acc] != 1 || self.uses[y] != 1 {
            return None;
        }
        let d = &kernel.insts[step];
        match (d.op, &d.args[..]) {
            (Op::Dot, &[_, _, c]) if c == acc && self.allow >= Class::Free => Some(Slot::Product(step)),
            (op, &[a, b]) if is_monoid(op) && a == acc => Some(Slot::Element { op, element: b }),
            (op, &[a, b]) if is_monoid(op) && b == acc => Some(Slot::Element { op, element: a }),
            _ => None,
        }
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
