//! Products that end a step later than they begin, as [`super::late`] finds them.

use super::replay::needs;
use std::collections::BTreeSet;
use tilelift_ir::{Inst, Kernel, Op, Region, Value};

/// What of a step ends in the next one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Late {
    /// The products, in the order in which they begin.
    pub products: Vec<Inst>,
    /// As which carried value the next step finds the accumulator of each, by number; none of those that `after` looks at.
    pub carried: Vec<Option<usize>>,
    /// What looks at them a step later, in program order.
    pub after: Vec<Inst>,
    /// What that needs of the index of its step, computed again.
    pub again: Vec<Inst>,
    /// Products that read the same buffer, which a step fills anew.
    pub(super) together: Vec<BTreeSet<Inst>>,
    /// Registers are left where some of them run across the end of the written loop.
    pub(super) spare: bool,
}

impl Late {
    /// As which carried value a product's accumulator goes on.
    pub(crate) fn carried_as(&self, product: Inst) -> Option<usize> {
        self.products.iter().position(|&p| p == product).and_then(|n| self.carried[n])
    }

    /// The products that `after` looks at.
    pub(crate) fn looked_at(&self) -> impl Iterator<Item = Inst> {
        self.products.iter().zip(&self.carried).filter(|(_, k)| k.is_none()).map(|(&p, _)| p)
    }

    /// Only those of its products that are among these, in their order.
    pub(super) fn only(&mut self, running: &[Inst]) {
        if self.looked_at().any(|p| !running.contains(&p)) {
            self.after.clear();
        }
        let stay = running.iter().filter_map(|&p| Some((p, *self.carried.get(self.products.iter().position(|&q| q == p)?)?)));
        let stay: Vec<(Inst, Option<usize>)> = stay.filter(|(_, k)| k.is_some() || !self.after.is_empty()).collect();
        (self.products, self.carried) = stay.into_iter().unzip();
    }

    /// Those of the step before that an instruction looks at, by way of what the loop carries. A product may add to one that runs.
    pub(super) fn needed_by(&self, kernel: &Kernel, region: Region, i: Inst) -> BTreeSet<Inst> {
        let buffer = |p: &Inst| self.together.iter().any(|t| t.contains(p) && t.contains(&i));
        let mut all = self.carried_by(kernel, region, i);
        all.extend(self.products.iter().copied().filter(buffer));
        all
    }

    /// The same, but for products that find operands in the same buffer.
    pub(super) fn carried_by(&self, kernel: &Kernel, region: Region, i: Inst) -> BTreeSet<Inst> {
        let params = &kernel.regions[region].params;
        let mut values: BTreeSet<Value> = BTreeSet::new();
        match kernel.insts[i].op {
            Op::Dot => values.extend(&kernel.insts[i].args[..2]),
            _ => needs(kernel, i, &mut |v| _ = values.insert(v)),
        }
        let carried = |p: &Inst| self.carried_as(*p).is_some_and(|k| values.contains(&params[k + 1]));
        self.products.iter().copied().filter(carried).collect()
    }
}
