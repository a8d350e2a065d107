//! Fences of global memory: async units write over what lanes have read, and nothing but such a fence orders the two.
//!
//! ```text
//! t = load y[row, col] ; … ; local_store b ; fence_async, of global memory too ; task_barrier ; async_store y[row, col], b
//! ```

use std::collections::BTreeSet;
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Value};

/// The `fence_async` that order global memory, too: those that stand where stores of async units, to views that lanes read, do. If a store has no fence
/// beside it or around it, all do.
pub(super) fn of_global_memory(kernel: &Kernel) -> BTreeSet<Inst> {
    let is_copy = |op: Op| matches!(op, Op::AsyncLoad | Op::AsyncStore | Op::AsyncReduce);
    let (mut read, mut stores) = (BTreeSet::<Value>::new(), Vec::new());
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        let Some(&view) = d.args.first() else { return };
        if matches!(d.op, Op::AsyncStore | Op::AsyncReduce) {
            stores.push((i, view));
        } else if !is_copy(d.op) && matches!(d.op.info().effects.global(), Effects::Reads | Effects::Updates) {
            read.insert(view);
        }
    });
    let over: BTreeSet<Inst> = stores.into_iter().filter(|(_, view)| read.contains(view)).map(|(i, _)| i).collect();
    let mut found = Found::default();
    if !over.is_empty() {
        below(kernel, kernel.body, &over, &mut found);
    }
    if over.iter().all(|i| found.fenced.contains(i)) { found.beside } else { found.all }
}

#[derive(Default)]
struct Found {
    all: BTreeSet<Inst>,
    /// Fences of regions with such a store.
    beside: BTreeSet<Inst>,
    /// Stores in regions with a fence, at any depth.
    fenced: BTreeSet<Inst>,
}

/// The stores of a region, at any depth.
fn below(kernel: &Kernel, r: Region, over: &BTreeSet<Inst>, found: &mut Found) -> Vec<Inst> {
    let (mut stores, mut fences) = (Vec::new(), Vec::new());
    for &i in &kernel.regions[r].insts {
        let d = &kernel.insts[i];
        stores.extend(over.contains(&i).then_some(i));
        fences.extend((d.op == Op::FenceAsync).then_some(i));
        for &inner in &d.regions {
            stores.extend(below(kernel, inner, over, found));
        }
    }
    found.all.extend(&fences);
    if !stores.is_empty() && !fences.is_empty() {
        found.beside.extend(&fences);
        found.fenced.extend(&stores);
    }
    stores
}
