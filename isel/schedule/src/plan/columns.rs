//! Columns of accumulators that tasks share, where one of them makes what all of their products multiply by.
//!
//! ```text
//! S = dot q, k ─ P = softmax S ─ O = O * scale + dot P, v         rows are few, and O has more columns than one warpgroup holds
//!
//! first task      S ─ P, scale ─► in shared memory ─ its columns of O
//! each other      P, scale of the first ─ its columns of O          a step of S runs beside the step before of these columns
//! ```
//!
//! *Wide* values have columns that are shared: accumulators, and what is computed of them element by element. What they need of others is a tile by which the
//! products multiply from the left, or one number a row. Where anything else is asked of them, tasks don't share columns.

use super::replay::{looks_at, needs, slice_by};
use super::shares::Copies;
use super::tensor_boxes::SwizzledTile;
use std::collections::BTreeSet;
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Type, Value, ValueDef};
use tilelift_lane::Units;

/// Columns that tasks share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnTasks {
    /// How many tasks, a warpgroup each.
    pub tasks: u32,
    /// Values whose columns are shared.
    pub wide: BTreeSet<Value>,
    /// The products that make them, in program order.
    pub products: Vec<Inst>,
    /// What the first task hands over in a step: operands A and how they lie, and numbers of rows.
    pub handed: Vec<(Value, Option<SwizzledTile>)>,
    /// Numbers of rows that it hands over behind the loop.
    pub handed_behind: Vec<Value>,
    /// What the others compute beside that: bounds, and where results are stored.
    pub others: BTreeSet<Inst>,
}

impl ColumnTasks {
    /// Bytes of shared memory of what is handed over.
    pub fn bytes(&self, kernel: &Kernel) -> u32 {
        let rows = |v: Value| kernel.ty(v).as_tile().map_or(0, |t| t.elements() as u32 * t.elem.bytes());
        let own = |(v, tile): &(Value, Option<SwizzledTile>)| tile.as_ref().map_or(rows(*v), SwizzledTile::bytes);
        let all = self.handed.iter().map(own).chain(self.handed_behind.iter().map(|&v| rows(v)));
        all.map(|bytes| bytes.next_multiple_of(super::tensor_boxes::ALIGN)).sum()
    }
}

/// The values whose columns are shared with those of some.
struct Wide<'k> {
    kernel: &'k Kernel,
    main: Inst,
    region: Region,
    products: &'k BTreeSet<Inst>,
    found: BTreeSet<Value>,
    open: Vec<Value>,
}

/// True for an op that computes each element of its result from those at the same place.
fn elementwise(kernel: &Kernel, i: Inst) -> bool {
    matches!(kernel.insts[i].op, tilelift_ir::elementwise_ops!())
}

impl Wide<'_> {
    fn add(&mut self, v: Value) {
        if self.found.insert(v) {
            self.open.push(v);
        }
    }

    /// A value that the loop carries, by number.
    fn carried(&mut self, k: usize) {
        let d = &self.kernel.insts[self.main];
        for v in [d.args[3 + k], self.kernel.regions[self.region].params[k + 1], self.kernel.yields(self.region)[k], d.results[k]] {
            self.add(v);
        }
    }

    /// The operands of an instruction that are as wide as its result; `None` where columns are mixed.
    fn operands(&mut self, i: Inst) -> Option<()> {
        let (kernel, d) = (self.kernel, &self.kernel.insts[i]);
        let tiles = d.args.iter().copied().filter(|&v| matches!(kernel.ty(v), Type::Tile(_)));
        match d.op {
            Op::Dot if self.products.contains(&i) => self.add(d.args[2]),
            Op::Splat => {}
            Op::Broadcast => {
                let [_, 1] = kernel.ty(d.args[0]).shape()? else { return None };
            }
            Op::Reshape => {
                let bare = |v: Value| kernel.ty(v).shape().map(|s| s.iter().copied().filter(|&e| e != 1).collect::<Vec<u32>>());
                let last = |v: Value| kernel.ty(v).shape().and_then(|s| s.last().copied());
                if bare(d.args[0]) != bare(d.results[0]) || last(d.args[0]) != last(d.results[0]) {
                    return None;
                }
                self.add(d.args[0]);
            }
            _ if elementwise(kernel, i) => tiles.for_each(|v| self.add(v)),
            _ => return None,
        }
        Some(())
    }

    /// Follows a value to what it is made of, and to what is made of it.
    fn follow(&mut self, v: Value) -> Option<()> {
        let kernel = self.kernel;
        match kernel.values[v].def {
            ValueDef::RegionParam(r, n) if r == self.region && n > 0 => self.carried(n as usize - 1),
            ValueDef::Result(i, n) if i == self.main => self.carried(n as usize),
            ValueDef::Result(i, _) => {
                let here = [kernel.body, self.region].iter().any(|&r| kernel.regions[r].insts.contains(&i));
                here.then_some(())?;
                self.operands(i)?;
            }
            ValueDef::RegionParam(..) | ValueDef::KernelParam(_) => return None,
        }
        let mut users = Vec::new();
        kernel.walk(kernel.body, &mut |j| users.extend(kernel.insts[j].args.iter().enumerate().filter(|a| *a.1 == v).map(|a| (j, a.0))));
        for (j, n) in users {
            let d = &kernel.insts[j];
            match d.op {
                Op::Yield if kernel.regions[self.region].insts.contains(&j) => self.carried(n),
                Op::For if j == self.main && n > 2 => self.carried(n - 3),
                Op::Store if d.present == 0 && kernel.regions[kernel.body].insts.contains(&j) && kernel.operand(j, "value") == [v] => {}
                Op::Dot if self.products.contains(&j) && n == 2 => self.add(d.results[0]),
                Op::Reshape => self.add(d.results[0]),
                _ if elementwise(kernel, j) => self.add(d.results[0]),
                _ => return None,
            }
        }
        Some(())
    }
}

/// How so many tasks share the columns of products, each of which takes an operand A that lanes make of products that all groups would compute; `None`
/// where they can't. `written` are views that the kernel stores to.
pub(super) fn column_tasks(
    kernel: &Kernel,
    units: &Units,
    main: Inst,
    copies: &Copies,
    tasks: u32,
    written: &dyn Fn(Value) -> bool,
) -> Option<ColumnTasks> {
    let region = kernel.insts[main].regions[0];
    let body = &kernel.regions[region].insts;
    let mut w = Wide { kernel, main, region, products: &copies.readers, found: BTreeSet::new(), open: Vec::new() };
    copies.readers.iter().for_each(|&i| w.add(kernel.insts[i].results[0]));
    while let Some(v) = w.open.pop() {
        w.follow(v)?;
    }
    let wide = w.found;
    let products: Vec<Inst> = body.iter().copied().filter(|i| copies.readers.contains(i)).collect();
    let shared = |v: &Value| kernel.ty(*v).shape().and_then(|s| s.last().copied()).is_some_and(|n| n.is_multiple_of(tasks));
    // All products of the loop that are not shared are the first task's; sums of the shared ones are looked at behind the loop.
    let only_carried = |&i: &Inst| {
        let v = kernel.insts[i].results[0];
        body.iter().all(|&j| kernel.insts[j].op == Op::Yield || !looks_at(kernel, j, |w| w == v))
    };
    let [_] = products[..] else { return None };
    if !wide.iter().all(shared) || !products.iter().all(only_carried) || copies.products.iter().any(|i| copies.readers.contains(i)) {
        return None;
    }
    let mut handed: Vec<(Value, Option<SwizzledTile>)> = Vec::new();
    for &i in &products {
        let a = kernel.insts[i].args[0];
        if handed.iter().all(|h| h.0 != a) {
            let t = kernel.ty(a).as_tile()?;
            let [m, k] = t.shape[..] else { return None };
            body.contains(&kernel.def_inst(a)?).then_some(())?;
            handed.push((a, Some(SwizzledTile::filled([m, k], t.elem, units, u32::MAX)?)));
        }
    }
    // It is there when their product begins.
    let sums = slice_by(kernel, products.iter().map(|&i| kernel.insts[i].args[2]).collect(), &|i, take| needs(kernel, i, take));
    let (mut handed_behind, mut wanted) = (Vec::new(), kernel.insts[main].args[..3].to_vec());
    let top = &kernel.regions[kernel.body].insts;
    let behind: BTreeSet<Inst> = top.iter().copied().skip_while(|&i| i != main).skip(1).collect();
    let results: Vec<Inst> = wide.iter().filter_map(|&v| kernel.def_inst(v)).filter(|&i| i != main).collect();
    for i in results {
        let d = &kernel.insts[i];
        match d.op {
            Op::Broadcast => {
                let v = d.args[0];
                let from = kernel.def_inst(v)?;
                let in_loop = body.contains(&i);
                match in_loop {
                    true if body.contains(&from) && sums.contains(&i) => {
                        if handed.iter().all(|h| h.0 != v) {
                            handed.push((v, None));
                        }
                    }
                    false if behind.contains(&from) => {
                        if !handed_behind.contains(&v) {
                            handed_behind.push(v);
                        }
                    }
                    _ => return None,
                }
            }
            _ => wanted.extend(d.args.iter().copied().filter(|&v| !matches!(kernel.ty(v), Type::Tile(_)))),
        }
    }
    let stores: Vec<Inst> =
        top.iter().copied().filter(|&i| kernel.insts[i].op == Op::Store && wide.contains(&kernel.operand(i, "value")[0])).collect();
    let first = top.iter().position(|i| stores.contains(i))?;
    // What is handed over behind the loop is there in front of the first store.
    let there = |v: &Value| kernel.def_inst(*v).and_then(|i| top.iter().position(|&j| j == i)).is_some_and(|n| n < first);
    if !handed_behind.iter().all(there) {
        return None;
    }
    stores.iter().for_each(|&i| wanted.extend(kernel.operand(i, "indices")));
    let others = slice_by(kernel, wanted, &|i, take| needs(kernel, i, take));
    let plain = |&i: &Inst| {
        let d = &kernel.insts[i];
        let reads = d.op.info().effects == Effects::Reads && d.args.first().is_some_and(|&v| !written(v));
        top.contains(&i) && i != main && d.regions.is_empty() && (d.op.info().effects == Effects::Pure || reads) && d.op != Op::Dot
    };
    others.iter().all(plain).then_some(())?;
    Some(ColumnTasks { tasks, wide, products, handed, handed_behind, others })
}
