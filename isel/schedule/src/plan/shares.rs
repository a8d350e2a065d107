//! How the warpgroups of a task share a product.
//!
//! ```text
//! many rows        each group has the rows of every second instruction
//! few rows         each has half of the columns: operand A is one for all, in shared memory
//! few rows, and what the product makes is operand A of a product whose columns are shared:
//!                  each group computes all of it, and has that operand in its registers; rows are reduced without an exchange between groups
//! ```
//!
//! Which products groups compute all of is read off the program: those behind a tile that a product with shared columns takes from registers. Where the
//! plan may still choose, [`cheaper`] says which costs less; what it stores for a product is not taken from registers.

use super::overlap::lane_cost;
use super::replay::{Take, slice_by};
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Attr, Effects, Inst, Kernel, Op, Type, Value, ValueDef};
use tilelift_lane::{Costs, GroupMatrix, GroupMatrixId, Target, Units};

/// What groups compute all of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Copies {
    /// The products that each group computes.
    pub products: BTreeSet<Inst>,
    /// Those that share columns, and take an operand A of that kind from registers.
    pub readers: BTreeSet<Inst>,
    /// All that stands behind those operands.
    pub made: BTreeSet<Inst>,
}

impl Copies {
    /// How groups share a product: so many down the rows, and so many across the columns; `None` if they can't. What is left computes the same.
    pub fn shares(&self, row: &GroupMatrix, i: Inst, shape: [u32; 2], groups: u32) -> Option<[u32; 2]> {
        match self.products.contains(&i) {
            true => row.shares(shape, 1),
            false => row.shares(shape, groups),
        }
    }
}

/// M and N of a product.
fn shape(kernel: &Kernel, i: Inst) -> Option<[u32; 2]> {
    let t = kernel.ty(kernel.insts[i].results[0]).as_tile()?;
    (t.shape.len() == 2).then(|| [t.shape[0], t.shape[1]])
}

/// What a value is made of by lanes, by way of what loops carry; of a product its accumulator counts.
fn made_of(kernel: &Kernel, i: Inst, take: Take<'_>) {
    let d = &kernel.insts[i];
    match d.op {
        Op::Dot | Op::AsyncDot => take(d.args[2]),
        Op::AsyncDotWait => take(d.args[0]),
        _ if d.op.info().effects == Effects::Pure => d.args.iter().for_each(|&v| take(v)),
        _ => {}
    }
}

/// What stands behind a tile, as lanes make it.
fn behind(kernel: &Kernel, v: Value) -> BTreeSet<Inst> {
    let mut seen: BTreeSet<Value> = BTreeSet::new();
    let mut all = BTreeSet::new();
    let mut open = vec![v];
    while let Some(v) = open.pop() {
        if !seen.insert(v) {
            continue;
        }
        if let ValueDef::RegionParam(r, n) = kernel.values[v].def
            && let Some(i) = kernel.holder(r).filter(|&i| kernel.insts[i].op == Op::For)
            && n > 0
        {
            open.extend([kernel.insts[i].args[2 + n as usize], kernel.yields(r)[n as usize - 1]]);
            continue;
        }
        let slice = slice_by(kernel, vec![v], &|i, take| made_of(kernel, i, take));
        for &i in &slice {
            made_of(kernel, i, &mut |v| open.extend(matches!(kernel.values[v].def, ValueDef::RegionParam(..)).then_some(v)));
        }
        all.extend(slice);
    }
    all
}

/// What groups compute all of, among products of a task with so many groups: operands A in registers are whole in each of them. `asked` says of which
/// products they are.
pub fn copies(
    kernel: &Kernel,
    units: &Units,
    dots: &BTreeMap<Inst, GroupMatrixId>,
    groups: u32,
    asked: &dyn Fn(Inst, &BTreeSet<Inst>) -> bool,
) -> Copies {
    let mut out = Copies::default();
    let row = |i: Inst| dots.get(&i).and_then(|q| units.matrix.get(q.as_u32() as usize));
    let across = |i: Inst| row(i).zip(shape(kernel, i)).and_then(|(row, s)| row.shares(s, groups)).is_some_and(|s| s[1] > 1);
    let whole = |i: Inst| row(i).zip(shape(kernel, i)).is_some_and(|(row, s)| row.shares(s, 1).is_some());
    for &i in dots.keys().filter(|&&i| across(i)) {
        let a = kernel.insts[i].args[0];
        if !matches!(kernel.ty(a), Type::Tile(_)) || row(i).is_none_or(|row| row.a.is_none()) {
            continue;
        }
        let slice = behind(kernel, a);
        let products: BTreeSet<Inst> = slice.iter().copied().filter(|i| dots.contains_key(i)).collect();
        let fits = !products.is_empty() && products.iter().all(|&j| j != i && whole(j) && across(j));
        if fits && asked(i, &slice) {
            out.products.extend(products);
            out.readers.insert(i);
            out.made.extend(slice);
        }
    }
    // One that shares its own columns after all has none of them whole.
    let split: Vec<Inst> = out.readers.intersection(&out.products).copied().collect();
    if split.is_empty() { out } else { Copies::default() }
}

/// What the unit takes for a product of so many columns.
fn unit(c: &Costs, row: &GroupMatrix, [m, n, k]: [u64; 3]) -> u64 {
    let each = (u64::from(row.m) * u64::from(row.k) * n * c.group_product / 1024).max(c.group_operands[0] + c.group_operands[1] * n);
    m / u64::from(row.m) * (k / u64::from(row.k)) * each
}

/// True if it costs less that each group computes all that stands behind an operand A than that they share it. Groups that exchange what they have go in
/// step: nobody multiplies while lanes reduce rows, exchange them and store the operand; groups that compute the same do it while others multiply, if nothing
/// else has them meet (`alone`).
pub(super) fn cheaper(
    kernel: &Kernel,
    target: &Target,
    dots: &BTreeMap<Inst, GroupMatrixId>,
    (reader, slice, alone): (Inst, &BTreeSet<Inst>, bool),
    groups: u32,
) -> bool {
    let (c, Some(units)) = (&target.costs, &target.units) else { return false };
    let (many, warps) = (u64::from(groups), u64::from(groups * units.group_warps));
    let products = |columns: u32| {
        let product = |i: &Inst| {
            let (q, [m, n]) = (dots.get(i)?, shape(kernel, *i)?);
            let k = u64::from(kernel.ty(kernel.insts[*i].args[0]).as_tile()?.shape[1]);
            Some(many * unit(c, units.matrix.get(q.as_u32() as usize)?, [m.into(), (n / columns).into(), k]))
        };
        slice.iter().filter_map(product).sum::<u64>()
    };
    let (meet, elements) = (c.barrier[0] + c.barrier[1] * warps, |v: Value| kernel.ty(v).as_tile().map_or(0, |t| t.elements()));
    // Rows of what is made are reduced: lanes store what they have, and load what the groups have of the same rows.
    let mut exchanges = 0;
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        let made = || d.args.iter().all(|&v| kernel.def_inst(v).is_some_and(|j| slice.contains(&j)));
        if d.op == Op::Reduce && d.attrs.contains(&Attr::Dim(1)) && made() {
            exchanges += elements(d.args[0]) * 4 * (1 + many) / 128 * c.wavefront + 2 * meet + 2 * c.shared_latency;
        }
    });
    let a = kernel.insts[reader].args[0];
    let bytes = elements(a) * u64::from(kernel.ty(a).elem().bytes());
    let stored = bytes / 128 * c.wavefront + 2 * meet + c.shared_latency;
    let lanes: Vec<Inst> = slice.iter().copied().filter(|i| !dots.contains_key(i)).collect();
    let in_step = if alone { lane_cost(kernel, target, &lanes) + 2 * c.group_wait } else { 0 };
    products(1) < products(groups) + exchanges + stored + in_step
}
