//! Copies by the lanes of a task: how the buffers that they fill lie, when products fetch from them, and when copies begin.
//!
//! ```text
//! rows of at most 128 bytes, the numbers of their pieces of 16 XORed with the row's (a swizzle): matrix loads, plain and transposed, meet no bank twice
//! copy_async ── local_load ── dot       the product fetches as it goes, and the copy begins once its first operands are there
//! ```

use super::buffer_layout::{BufferLayout, Swizzled};
use super::handle::{Handle, allocation, handle};
use super::loads::local_loads;
use super::locals::Locals;
use crate::access::GlobalAccess;
use cranelift_entity::SecondaryMap;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Attr, Effects, Inst, Kernel, Op, Region, Value};

/// The widest swizzle, and the piece of it that is moved as a whole.
const ROW: [u32; 2] = [128, 16];

/// True if a handle is all of what it was indexed from.
fn is_whole(h: &Handle, shape: &[u32]) -> bool {
    h.parts.iter().all(|p| p.at == 0 && shape.get(p.of) == Some(&p.extent))
}

/// How buffers lie that lanes fill.
pub(super) struct Filled<'k> {
    kernel: &'k Kernel,
    locals: &'k Locals,
    /// Loads that only products read.
    loads: SecondaryMap<Inst, bool>,
    /// See [`Target::moves_by_lanes`](tilelift_lane::Target::moves_by_lanes).
    by_lanes: bool,
}

impl<'k> Filled<'k> {
    pub(super) fn new(kernel: &'k Kernel, locals: &'k Locals, by_lanes: bool) -> Filled<'k> {
        Filled { kernel, locals, loads: local_loads(kernel), by_lanes }
    }

    /// The dimension along rows of a buffer that lanes fill with operands: where no matrix load brings runs along the summed dimension from memory
    /// where they are none, that one, if all products agree; else the last.
    fn rows_of_operands(&self, root: Inst, rank: usize) -> usize {
        let mut found = None;
        for &load in self.locals.uses(root).iter().filter(|&&i| self.by_lanes && self.kernel.insts[i].op == Op::LocalLoad) {
            let Some(h) = handle(self.kernel, self.kernel.insts[load].args[0]) else { return rank - 1 };
            let Some(d) = summed(self.kernel, self.kernel.insts[load].results[0]).and_then(|d| Some(h.parts.get(d)?.of)) else {
                return rank - 1;
            };
            if *found.get_or_insert(d) != d {
                return rank - 1;
            }
        }
        found.unwrap_or(rank - 1)
    }

    /// True if products alone read what is loaded from a buffer, and something is.
    fn multiplied(&self, root: Inst) -> bool {
        let mut loads = self.locals.uses(root).iter().filter(|&&i| self.kernel.insts[i].op == Op::LocalLoad).peekable();
        loads.peek().is_some() && loads.all(|&i| self.loads[i])
    }

    /// The swizzle of a buffer that lanes fill, by copies or with operands of products, if it is used slot by slot and its rows are whole pieces.
    pub(super) fn swizzled(&self, root: Inst) -> Option<Swizzled> {
        let kernel = self.kernel;
        let d = &kernel.insts[root];
        let ty = kernel.ty(*d.results.first()?).as_shared()?;
        if d.op != Op::LocalAlloc || !d.args.is_empty() {
            return None;
        }
        let mut found: Option<(usize, u32)> = None;
        let (mut plain, mut operands) = (true, None);
        for &i in self.locals.uses(root) {
            let d = &kernel.insts[i];
            for h in d.args.iter().filter_map(|&v| handle(kernel, v)).filter(|h| allocation(kernel, h.root) == root) {
                plain &=
                    h.root == root && is_whole(&h, &ty.shape) && !matches!(d.op, Op::LocalAlloc | Op::LocalReinterpret | Op::LocalSlice);
                let along = match d.op {
                    Op::CopyAsync => GlobalAccess::of(kernel, i).contiguous().and_then(|k| h.parts.get(k)).map(|p| p.of),
                    Op::LocalStore if *operands.get_or_insert_with(|| self.multiplied(root)) => {
                        Some(self.rows_of_operands(root, ty.shape.len()))
                    }
                    _ => continue,
                };
                let Some(contiguous) = along else {
                    plain = false;
                    continue;
                };
                let rows = h.parts.iter().filter(|p| p.of != contiguous).map(|p| p.extent).product();
                plain &= *found.get_or_insert((contiguous, rows)) == (contiguous, rows);
            }
        }
        // Nothing of a single row meets itself in a bank.
        let (contiguous, rows) = found.filter(|&(_, rows)| plain && rows > 1)?;
        let row = ty.shape.get(contiguous)? * ty.elem.bytes();
        let swizzle = ROW[0].min(1 << row.trailing_zeros());
        (swizzle >= ROW[1]).then_some(Swizzled { contiguous, swizzle, rows })
    }
}

/// The dimension of a tile over which products sum, through transposes, if all that read it agree.
pub(crate) fn summed(kernel: &Kernel, v: Value) -> Option<usize> {
    let mut found = None;
    let uses = kernel.insts.iter().filter(|(_, d)| d.args.contains(&v));
    for (_, d) in uses {
        let dim = match (d.op, d.attrs.first()) {
            (Op::Dot, _) => usize::from(d.args[0] == v),
            (Op::DotScaled, _) if d.args[0] == v || d.args[2] == v => usize::from(d.args[0] == v),
            (Op::Transpose, Some(Attr::Perm(p))) => *p.get(summed(kernel, *d.results.first()?)?)? as usize,
            _ => return None,
        };
        if *found.get_or_insert(dim) != dim {
            return None;
        }
    }
    found
}

/// True if an instruction, with all inside of it, leaves memory as it is, or begins copies: what is read in front of it may as well be read
/// behind it.
fn leaves(kernel: &Kernel, i: Inst) -> bool {
    let reads = |j: Inst| {
        let effects = kernel.insts[j].op.info().effects;
        !effects.is_shared() && matches!(effects.global(), Effects::Pure | Effects::Reads)
    };
    let d = &kernel.insts[i];
    let mut all = reads(i) || matches!(d.op, Op::LocalLoad | Op::CopyAsync | Op::CopyAsyncCommit);
    d.regions.iter().for_each(|&r| kernel.walk(r, &mut |j| all &= reads(j)));
    all
}

/// Where an instruction stands: its region, and how many stand in front of it there that change what is read. Of two in one region with the same
/// number, no such instruction stands from the first one up to the second.
fn places(kernel: &Kernel) -> SecondaryMap<Inst, Option<(Region, u32)>> {
    fn visit(kernel: &Kernel, r: Region, out: &mut SecondaryMap<Inst, Option<(Region, u32)>>) {
        let mut changes = 0;
        for &i in &kernel.regions[r].insts {
            out[i] = Some((r, changes));
            changes += u32::from(!leaves(kernel, i));
            kernel.insts[i].regions.iter().for_each(|&inner| visit(kernel, inner, out));
        }
    }
    let mut out = SecondaryMap::new();
    visit(kernel, kernel.body, &mut out);
    out
}

/// The products that read a tile, through views of it.
fn readers(uses: &SecondaryMap<Value, Vec<Inst>>, kernel: &Kernel, v: Value) -> Vec<Inst> {
    let (mut out, mut work) = (Vec::new(), vec![v]);
    while let Some(v) = work.pop() {
        for &i in &uses[v] {
            match kernel.insts[i].op {
                Op::Dot => out.push(i),
                _ => work.extend(&kernel.insts[i].results),
            }
        }
    }
    out
}

/// The load whose tile a store to local memory puts there as it is.
pub fn stores_load(kernel: &Kernel, i: Inst) -> Option<Inst> {
    let d = &kernel.insts[i];
    let load = kernel.def_inst(*d.args.get(1)?)?;
    (d.op == Op::LocalStore && kernel.insts[load].op == Op::Load).then_some(load)
}

/// What products do with buffers that lanes have filled.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Fetches {
    /// Loads of buffers that nobody but products reads, and nothing changes before they do: these fetch the tile as they need it.
    pub loads: SecondaryMap<Inst, bool>,
    /// Copies, and ends of their groups, that begin once the product behind them, which fetches, has its first operands.
    pub late: SecondaryMap<Inst, bool>,
}

/// Loads of local memory that nobody but products reads, with these, where nothing changes what is read before they do: in program order.
pub(super) fn read_by_products(kernel: &Kernel) -> Vec<(Inst, Vec<Inst>)> {
    let mut uses: SecondaryMap<Value, Vec<Inst>> = SecondaryMap::new();
    let mut order = Vec::new();
    let candidates = local_loads(kernel);
    if !kernel.insts.keys().any(|i| candidates[i]) {
        return Vec::new();
    }
    kernel.walk(kernel.body, &mut |i| {
        order.push(i);
        kernel.insts[i].args.iter().for_each(|&v| uses[v].push(i));
    });
    let places = places(kernel);
    let with_products = order.into_iter().filter(|&i| candidates[i]).map(|i| (i, readers(&uses, kernel, kernel.insts[i].results[0])));
    // The load itself changes nothing.
    with_products.filter(|(i, dots)| dots.iter().all(|&dot| places[dot] == places[*i])).collect()
}

/// Finds them, in buffers that lie in these layouts; tiles that lanes store there are as copies if `by_lanes` ([`super::TaskPlan::by_lanes`]).
pub(super) fn fetches(kernel: &Kernel, buffers: &BTreeMap<Inst, BufferLayout>, by_lanes: bool) -> Fetches {
    let mut out = Fetches::default();
    let mut filled = BTreeSet::new();
    kernel.walk(kernel.body, &mut |i| {
        if kernel.insts[i].op == Op::CopyAsync || by_lanes && stores_load(kernel, i).is_some() {
            filled.extend(handle(kernel, kernel.operand(i, "buffer")[0]).map(|h| h.root));
        }
    });
    if filled.is_empty() {
        return out;
    }
    let mut fetching: SecondaryMap<Inst, bool> = SecondaryMap::new();
    for (i, dots) in read_by_products(kernel) {
        let Some(h) = handle(kernel, kernel.insts[i].args[0]) else { continue };
        out.loads[i] = buffers.get(&h.root).is_some_and(BufferLayout::is_fetched) && filled.contains(&h.root);
        if out.loads[i] {
            dots.iter().for_each(|&dot| fetching[dot] = true);
        }
    }
    // From the last instruction of a region to the first: what decides comes next.
    for (_, region) in kernel.regions.iter() {
        let mut fetches = false;
        for &i in region.insts.iter().rev() {
            let op = kernel.insts[i].op;
            if matches!(op, Op::CopyAsync | Op::CopyAsyncCommit) {
                // Where lanes begin copies under bounds of their own, a branch in a product costs more than what comes in front of it.
                out.late[i] = fetches && !by_lanes;
            }
            if fetching[i] || !leaves(kernel, i) || op.info().effects == Effects::Control {
                fetches = fetching[i];
            }
        }
    }
    out
}
