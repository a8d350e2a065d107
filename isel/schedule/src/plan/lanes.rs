//! Copies by the lanes of a task: how the buffers that they fill lie, when products fetch from them, and when copies begin.
//!
//! ```text
//! rows of at most 128 bytes, their pieces of 16 turned by the row: matrix loads, plain and transposed, meet no bank twice
//! copy_async ── local_load ── dot       the product fetches as it goes, and the copy begins once its first operands are there
//! ```

use super::buffers::{Blocks, Handle, allocation, handle};
use super::loads::local_loads;
use super::{BufferLayout, Explicit};
use crate::access::GlobalAccess;
use cranelift_entity::SecondaryMap;
use std::collections::BTreeMap;
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Value};

/// The widest row of a panel, and the piece of it that is moved as a whole.
const ROW: [u32; 2] = [128, 16];

/// True if a handle is all of what it was indexed from.
fn is_whole(h: &Handle, shape: &[u32]) -> bool {
    h.parts.iter().all(|p| p.at == 0 && shape.get(p.of) == Some(&p.extent))
}

/// True if products alone read what is loaded from a buffer, and something is.
fn multiplied(kernel: &Kernel, root: Inst) -> bool {
    let loads = local_loads(kernel);
    let (mut any, mut all) = (false, true);
    for (i, d) in kernel.insts.iter().filter(|(_, d)| d.op == Op::LocalLoad) {
        if handle(kernel, d.args[0]).is_some_and(|h| allocation(kernel, h.root) == root) {
            (any, all) = (true, all && loads[i]);
        }
    }
    any && all
}

/// The panels of a buffer that lanes fill, by copies or with operands of products, if it is used slot by slot and its rows are whole pieces.
pub(super) fn panels(kernel: &Kernel, root: Inst) -> Option<Blocks> {
    let d = &kernel.insts[root];
    let ty = kernel.ty(*d.results.first()?).as_shared()?;
    if d.op != Op::LocalAlloc || !d.args.is_empty() {
        return None;
    }
    let mut found: Option<(usize, u32)> = None;
    let (mut plain, mut operands) = (true, None);
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        for h in d.args.iter().filter_map(|&v| handle(kernel, v)).filter(|h| allocation(kernel, h.root) == root) {
            plain &= h.root == root && is_whole(&h, &ty.shape) && !matches!(d.op, Op::LocalAlloc | Op::LocalReinterpret | Op::LocalSlice);
            let along = match d.op {
                Op::CopyAsync => GlobalAccess::of(kernel, i).contiguous().and_then(|k| h.parts.get(k)).map(|p| p.of),
                Op::LocalStore if *operands.get_or_insert_with(|| multiplied(kernel, root)) => Some(ty.shape.len() - 1),
                _ => continue,
            };
            let Some(contiguous) = along else {
                plain = false;
                continue;
            };
            let rows = h.parts.iter().filter(|p| p.of != contiguous).map(|p| p.extent).product();
            plain &= *found.get_or_insert((contiguous, rows)) == (contiguous, rows);
        }
    });
    let (contiguous, rows) = found.filter(|_| plain)?;
    let row = ty.shape.get(contiguous)? * ty.elem.bytes();
    let swizzle = ROW[0].min(1 << row.trailing_zeros());
    (swizzle >= ROW[1]).then_some(Blocks { contiguous, swizzle, rows })
}

/// Where instructions stand.
fn places(kernel: &Kernel) -> BTreeMap<Inst, (Region, usize)> {
    fn visit(kernel: &Kernel, r: Region, out: &mut BTreeMap<Inst, (Region, usize)>) {
        for (n, &i) in kernel.regions[r].insts.iter().enumerate() {
            out.insert(i, (r, n));
            kernel.insts[i].regions.iter().for_each(|&inner| visit(kernel, inner, out));
        }
    }
    let mut out = BTreeMap::new();
    visit(kernel, kernel.body, &mut out);
    out
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

/// The products that read a tile, through views of it.
fn readers(uses: &SecondaryMap<Value, Vec<Inst>>, kernel: &Kernel, v: Value, out: &mut Vec<Inst>) {
    for &i in &uses[v] {
        match kernel.insts[i].op {
            Op::Dot => out.push(i),
            _ => kernel.insts[i].results.iter().for_each(|&r| readers(uses, kernel, r, out)),
        }
    }
}

/// What products do with buffers that lanes have filled.
#[derive(Default)]
pub struct Fetches {
    /// Loads of buffers that nobody but products reads, and nothing changes before they do: these fetch the tile as they need it.
    pub loads: SecondaryMap<Inst, bool>,
    /// Copies, and ends of their groups, that begin once the product behind them, which fetches, has its first operands.
    pub late: SecondaryMap<Inst, bool>,
}

/// Finds them.
pub fn fetches(kernel: &Kernel, plan: &Explicit) -> Fetches {
    let mut out = Fetches::default();
    let candidates = local_loads(kernel);
    let mut uses: SecondaryMap<Value, Vec<Inst>> = SecondaryMap::new();
    let mut filled = Vec::new();
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        d.args.iter().for_each(|&v| uses[v].push(i));
        if d.op == Op::CopyAsync {
            filled.extend(handle(kernel, kernel.operand(i, "buffer")[0]).map(|h| h.root));
        }
    });
    let places = places(kernel);
    let fits = |f: &BufferLayout| {
        let panels = f.panels.filter(|p| p.rows.is_power_of_two() && p.rows >= 8);
        panels.is_some_and(|p| (f.shape[p.contiguous] * f.size).is_power_of_two())
    };
    let mut fetching: Vec<Inst> = Vec::new();
    for (&i, &(region, at)) in places.iter().filter(|(i, _)| candidates[**i]) {
        let Some(h) = handle(kernel, kernel.insts[i].args[0]) else { continue };
        let swizzled = plan.forms.get(&h.root).is_some_and(fits) && filled.contains(&h.root);
        let mut dots = Vec::new();
        readers(&uses, kernel, kernel.insts[i].results[0], &mut dots);
        let near = dots.iter().all(|dot| {
            let Some(&(r, end)) = places.get(dot) else { return false };
            r == region && kernel.regions[r].insts[at + 1..end].iter().all(|&j| leaves(kernel, j))
        });
        out.loads[i] = swizzled && near;
        if out.loads[i] {
            fetching.extend(dots);
        }
    }
    for (&i, &(region, at)) in places.iter().filter(|(i, _)| matches!(kernel.insts[**i].op, Op::CopyAsync | Op::CopyAsyncCommit)) {
        let behind = &kernel.regions[region].insts[at + 1..];
        let next =
            behind.iter().find(|&&j| fetching.contains(&j) || !leaves(kernel, j) || kernel.insts[j].op.info().effects == Effects::Control);
        out.late[i] = next.is_some_and(|j| fetching.contains(j));
    }
    out
}
