//! A dimension of tiles through all that keeps it: what loops carry, what is computed element by element, transposes, products.
//!
//! ```text
//! load a : tile<4x64x32>  ─►  dot a, b, c : tile<4x64x64>  ─►  yield, the loop's result  ─►  store          the 4 of all of them is one dimension
//! ```
//!
//! Accesses of memory begin and end it. Whoever folds it, puts other elements beside it, or reads it under a mask, needs it as it is.

use crate::plan::keeps_extents;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::propagate::carried;
use tilelift_ir::{Attr, Inst, Kernel, Op, Value, ValueDef};

/// A dimension of more values than so many is left as it is.
const MOST: usize = 2048;

/// A dimension of a tile.
pub(crate) type Axis = (Value, usize);

/// The extent of a dimension.
pub(crate) fn extent(kernel: &Kernel, (v, d): Axis) -> Option<u32> {
    kernel.ty(v).shape()?.get(d).copied()
}

/// Who reads what, and who hands it on.
pub(crate) struct Near<'k> {
    kernel: &'k Kernel,
    users: BTreeMap<Value, Vec<Inst>>,
    /// The holder of the region that a `yield` ends.
    ends: BTreeMap<Inst, Inst>,
}

impl<'k> Near<'k> {
    /// Of a kernel.
    pub fn of(kernel: &'k Kernel) -> Near<'k> {
        let (mut users, mut ends): (BTreeMap<Value, Vec<Inst>>, _) = (BTreeMap::new(), BTreeMap::new());
        kernel.walk(kernel.body, &mut |i| {
            let d = &kernel.insts[i];
            d.args.iter().for_each(|&v| users.entry(v).or_default().push(i));
            ends.extend(d.regions.iter().filter_map(|&r| Some((kernel.terminator(r)?, i))));
        });
        Near { kernel, users, ends }
    }

    /// All that is one dimension with another; `None` if somebody needs it as it is.
    pub fn one(&self, axis: Axis) -> Option<BTreeSet<Axis>> {
        let has = extent(self.kernel, axis)?;
        let (mut todo, mut out) = (vec![axis], BTreeSet::new());
        while let Some(axis) = todo.pop() {
            if extent(self.kernel, axis) != Some(has) || out.len() > MOST {
                return None;
            }
            if !out.insert(axis) {
                continue;
            }
            let made = match self.kernel.values[axis.0].def {
                ValueDef::Result(i, _) => i,
                ValueDef::RegionParam(r, _) => self.kernel.holder(r)?,
                ValueDef::KernelParam(_) => return None,
            };
            todo.extend(self.at(made, axis)?);
            for &i in self.users.get(&axis.0).into_iter().flatten() {
                todo.extend(self.at(self.ends.get(&i).copied().unwrap_or(i), axis)?);
            }
        }
        Some(out)
    }

    /// What an instruction makes one with a dimension; `None` if it needs that as it is.
    fn at(&self, i: Inst, (v, axis): Axis) -> Option<Vec<Axis>> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let is_tile = |v: &Value| kernel.ty(*v).as_tile().is_some();
        let all = || d.args.iter().chain(&d.results).copied().filter(is_tile);
        match d.op {
            Op::Load | Op::Store => (d.present == 0).then(Vec::new),
            Op::Splat | Op::Iota => Some(Vec::new()),
            Op::Assert => None,
            _ if kernel.is_elementwise(i) => Some(all().map(|v| (v, axis)).collect()),
            Op::Transpose | Op::Reshape | Op::Broadcast | Op::Reduce => {
                let [from, to] = [d.args[0], *d.results.first()?];
                let pairs = self.kept(i);
                let mine = |p: &[usize; 2]| (v == from && p[0] == axis) || (v == to && p[1] == axis);
                let p = pairs.into_iter().find(mine);
                // A broadcast makes it, and all else that is not kept is gone.
                match p {
                    Some([a, b]) => Some(vec![(from, a), (to, b)]),
                    None => (d.op == Op::Broadcast && v == to).then(Vec::new),
                }
            }
            Op::Dot => self.product(i, (v, axis)),
            Op::For | Op::While | Op::If => {
                let list = carried(kernel, i).into_iter().map(|c| c.flows().flat_map(|(a, b)| [a, b]).collect::<Vec<Value>>());
                let mine: Vec<Vec<Value>> = list.filter(|c| c.contains(&v)).collect();
                (!mine.is_empty()).then(|| mine.concat().into_iter().map(|v| (v, axis)).collect())
            }
            _ => None,
        }
    }

    /// Dimensions of an operand, and of the result, that are one.
    fn kept(&self, i: Inst) -> Vec<[usize; 2]> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let shape = |v: Value| kernel.ty(v).shape().unwrap_or_default();
        let (from, to) = (shape(d.args[0]), d.results.first().map(|&v| shape(v)).unwrap_or_default());
        match (d.op, d.attrs.first()) {
            (Op::Transpose, Some(Attr::Perm(p))) => p.iter().enumerate().map(|(to, &from)| [from as usize, to]).collect(),
            (Op::Reshape, _) if keeps_extents(kernel, i) => {
                let real = |s: &[u32]| (0..s.len()).filter(|&n| s[n] != 1).collect::<Vec<usize>>();
                real(from).into_iter().zip(real(to)).map(|(a, b)| [a, b]).collect()
            }
            (Op::Broadcast, _) if from.len() == to.len() => (0..to.len()).filter(|&n| from[n] == to[n]).map(|n| [n, n]).collect(),
            (Op::Reduce, _) => {
                let gone = d.attrs.iter().find_map(|a| if let Attr::Dim(d) = a { Some(*d as usize) } else { None });
                (0..from.len()).filter(|&n| Some(n) != gone).enumerate().map(|(to, from)| [from, to]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What a product makes one with a dimension of an operand or of the sums.
    fn product(&self, i: Inst, axis: Axis) -> Option<Vec<Axis>> {
        let d = &self.kernel.insts[i];
        let (&[a, b, c], sums) = (&d.args[..], d.results[0]) else { return None };
        let matrix = self.kernel.ty(sums).shape()?.len().checked_sub(2)?;
        let mut groups: Vec<Vec<Axis>> = (0..matrix).map(|n| [a, b, c, sums].map(|v| (v, n)).to_vec()).collect();
        groups.push([a, c, sums].map(|v| (v, matrix)).to_vec());
        groups.push([b, c, sums].map(|v| (v, matrix + 1)).to_vec());
        groups.push(vec![(a, matrix + 1), (b, matrix)]);
        let mine: Vec<Vec<Axis>> = groups.into_iter().filter(|g| g.contains(&axis)).collect();
        Some(mine.concat())
    }
}
