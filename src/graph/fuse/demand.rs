//! Whether elements outside of a tensor matter to a kernel that got a tile of it.
//!
//! A load reads `other` outside; a tile that never was in memory holds something there. Along a dimension it does not matter if what
//! follows from element `i` only ever reaches element `i`, and the stores drop it since their tensors end where this one does: rows of
//! a product's left factor, rows of a row-wise function. Nor does it where a mask that ends where the tensor does puts something else in the
//! place of what follows.

use super::access::Seen;
use super::atoms::{Atoms, Sum};
use crate::graph::nodes::Graph;
use crate::graph::size::Size;
use std::collections::BTreeMap;
use tilelift_ir::ops::Rule;
use tilelift_ir::{Attr, CmpOp, Inst, Op, Type, Value};

/// Masks upon masks that are followed.
const MOST_MASKS: u32 = 16;

struct Trace<'a, 'g> {
    graph: &'a Graph,
    seen: &'a Seen<'g>,
    atoms: &'a Atoms,
    /// First index and extent of the dimension.
    start: Sum,
    extent: Size,
    /// The dimension of each value that runs along.
    along: BTreeMap<Value, usize>,
    changed: bool,
}

/// True if elements outside of the tensor along dimension `d` of the tile that `load` gives reach no element of any tensor.
pub(crate) fn dropped(graph: &Graph, (seen, atoms): (&Seen<'_>, &Atoms), load: Inst, d: usize) -> bool {
    let kernel = &seen.node.kernel;
    let Some(access) = seen.accesses.iter().find(|a| a.inst == load) else { return false };
    let Some(place) = access.place.as_ref().filter(|p| !p.flat) else { return false };
    let extent = graph.tensors()[access.tensor.index()].dims[d].clone();
    let along = BTreeMap::from([(kernel.insts[load].results[0], d)]);
    let mut trace = Trace { graph, seen, atoms, start: place.index[d].clone(), extent, along, changed: true };
    let mut insts = Vec::new();
    kernel.walk(kernel.body, &mut |i| insts.push(i));
    while trace.changed {
        trace.changed = false;
        if !insts.iter().all(|&i| trace.inst(i).is_some()) {
            return false;
        }
    }
    true
}

impl Trace<'_, '_> {
    fn set(&mut self, v: Value, d: usize) -> Option<()> {
        match self.along.insert(v, d) {
            Some(old) => (old == d).then_some(()),
            None => {
                self.changed = true;
                Some(())
            }
        }
    }

    fn shape(&self, v: Value) -> &[u32] {
        self.seen.node.kernel.ty(v).shape().unwrap_or(&[])
    }

    /// Follows an instruction; `None` where elements may get elsewhere.
    fn inst(&mut self, i: Inst) -> Option<()> {
        let kernel = &self.seen.node.kernel;
        let d = &kernel.insts[i];
        // Control: from what goes in to the parameters, from the yields to results and parameters.
        let from = if d.op == Op::For { 3 } else { 0 };
        if matches!(d.op, Op::For | Op::While) {
            for (k, &v) in d.args.iter().enumerate().skip(from) {
                self.flows(i, k - from, v)?;
            }
            let body = *d.regions.last()?;
            for (k, &v) in kernel.yields(body).iter().enumerate() {
                self.flows(i, k, v)?;
            }
            return Some(());
        }
        if d.op == Op::If {
            for &r in &d.regions {
                for (k, &v) in kernel.yields(r).iter().enumerate() {
                    if let Some(&at) = self.along.get(&v) {
                        self.set(d.results[k], at)?;
                    }
                }
            }
            return Some(());
        }
        let tags: Vec<Option<usize>> = d.args.iter().map(|v| self.along.get(v).copied()).collect();
        let Some(first) = tags.iter().flatten().next().copied() else { return Some(()) };
        if d.op == Op::Select && tags[0].is_none() && tags[2].is_none() && self.ends(d.args[0], first, MOST_MASKS) {
            return Some(());
        }
        let axis = match d.attrs.last() {
            Some(Attr::Dim(a)) => Some(*a as usize),
            _ => None,
        };
        let to = match d.op.info().rule {
            _ if kernel.is_elementwise(i) || d.op == Op::Philox || d.op == Op::Gather => {
                tags.iter().flatten().all(|&t| t == first).then_some(first)?
            }
            Rule::Broadcast => (self.shape(d.args[0])[first] == self.shape(d.results[0])[first]).then_some(first)?,
            Rule::Transpose => match d.attrs.first() {
                Some(Attr::Perm(p)) => p.iter().position(|&x| x as usize == first)?,
                _ => return None,
            },
            Rule::Reshape => self.reshaped(d.args[0], d.results[0], first)?,
            Rule::Reduce | Rule::ArgReduce | Rule::ReduceBy => match axis? {
                a if a == first || tags.iter().flatten().any(|&t| t != first) => return None,
                a => first - usize::from(a < first),
            },
            Rule::Scan | Rule::ScanBy | Rule::Sort | Rule::ArgSort | Rule::TopK | Rule::ArgTopK | Rule::Flip => {
                (axis? != first && tags.iter().flatten().all(|&t| t == first)).then_some(first)?
            }
            Rule::Dot => {
                let rank = self.shape(d.results[0]).len();
                let (m, n, k) = (rank - 2, rank - 1, [rank - 1, rank - 2]);
                let mut to = None;
                for (arg, tag) in tags.iter().enumerate() {
                    let Some(t) = *tag else { continue };
                    let at = match arg {
                        0 | 1 if t == k[arg] => return None,
                        0 if t == m => m,
                        1 if t == n => n,
                        _ => t,
                    };
                    if to.is_some_and(|x| x != at) {
                        return None;
                    }
                    to = Some(at);
                }
                to?
            }
            Rule::Store => {
                let place = self.seen.accesses.iter().find(|a| a.inst == i).and_then(|a| Some((a.tensor, a.place.as_ref()?)));
                let (tensor, place) = place?;
                let dims = &self.graph.tensors()[tensor.index()].dims;
                let ends = !place.flat && place.index[first] == self.start && dims[first] == self.extent;
                return (ends && tags.iter().flatten().all(|&t| t == first)).then_some(());
            }
            // The other end of a yield was looked at with its owner.
            Rule::Control if d.op == Op::Yield => return Some(()),
            _ => return None,
        };
        for &r in &d.results {
            if matches!(kernel.ty(r), Type::Tile(_)) {
                self.set(r, to)?;
            } else {
                return None;
            }
        }
        Some(())
    }

    /// True if a mask is false outside of the tensor along a dimension of its tile: its coordinate is compared with the extent.
    fn ends(&self, mask: Value, d: usize, most: u32) -> bool {
        let kernel = &self.seen.node.kernel;
        let (Some(i), Some(most)) = (kernel.def_inst(mask), most.checked_sub(1)) else { return false };
        let i = &kernel.insts[i];
        match (i.op, i.attrs.first()) {
            (Op::And, _) => i.args.iter().any(|&m| self.ends(m, d, most)),
            (Op::Broadcast, _) if self.shape(i.args[0])[d] == self.shape(mask)[d] => self.ends(i.args[0], d, most),
            (Op::Cmp, Some(Attr::Cmp(CmpOp::Lt))) => self.counts(i.args[0], d) && self.is_extent(i.args[1]),
            (Op::Cmp, Some(Attr::Cmp(CmpOp::Gt))) => self.counts(i.args[1], d) && self.is_extent(i.args[0]),
            _ => false,
        }
    }

    /// True if a value is the coordinate along the dimension of the tensor, which never is negative.
    fn counts(&self, v: Value, d: usize) -> bool {
        let kernel = &self.seen.node.kernel;
        let made = |v: Value| kernel.def_inst(v).map(|i| &kernel.insts[i]);
        let steps = |v: Value| made(v).is_some_and(|i| i.op == Op::Iota && i.attrs.first() == Some(&Attr::Dim(d as u32)));
        let start = |v: Value| made(v).filter(|i| i.op == Op::Splat).and_then(|i| self.seen.sums.get(&i.args[0])) == Some(&self.start);
        let along = match made(v) {
            Some(i) if i.op == Op::Add => (steps(i.args[0]) && start(i.args[1])) || (steps(i.args[1]) && start(i.args[0])),
            Some(i) if i.op == Op::Broadcast && self.shape(i.args[0])[d] == self.shape(v)[d] => return self.counts(i.args[0], d),
            _ => steps(v) && self.start.as_number() == Some(0),
        };
        along && self.atoms.not_negative(&self.start, &self.seen.node.grid)
    }

    /// True if all elements of a value are the tensor's extent.
    fn is_extent(&self, v: Value) -> bool {
        let kernel = &self.seen.node.kernel;
        let Some(i) = kernel.def_inst(v).map(|i| &kernel.insts[i]).filter(|i| i.op == Op::Splat) else { return false };
        let Some(sum) = self.seen.sums.get(&i.args[0]) else { return false };
        match self.extent.fixed() {
            Some(n) => sum.as_number() == i32::try_from(n).ok(),
            None => self.atoms.is_size(sum, &self.extent),
        }
    }

    /// Value number `k` that travels through a loop.
    fn flows(&mut self, i: Inst, k: usize, v: Value) -> Option<()> {
        let kernel = &self.seen.node.kernel;
        let d = &kernel.insts[i];
        let Some(&at) = self.along.get(&v) else { return Some(()) };
        for &r in &d.regions {
            let first = usize::from(d.op == Op::For);
            self.set(*kernel.regions[r].params.get(first + k)?, at)?;
        }
        self.set(*d.results.get(k)?, at)
    }

    /// The dimension behind a reshape that adds or drops extents of 1.
    fn reshaped(&self, from: Value, to: Value, d: usize) -> Option<usize> {
        let (from, to) = (self.shape(from), self.shape(to));
        let mut next = 0;
        for (k, &e) in from.iter().enumerate() {
            if e == 1 && k != d {
                continue;
            }
            let at = (next..to.len()).find(|&j| to[j] == e)?;
            if to[next..at].iter().any(|&x| x != 1) {
                return None;
            }
            if k == d {
                let rest: Vec<u32> = from[k + 1..].iter().copied().filter(|&x| x != 1).collect();
                return (to[at + 1..].iter().copied().filter(|&x| x != 1).collect::<Vec<_>>() == rest).then_some(at);
            }
            next = at + 1;
        }
        None
    }
}
