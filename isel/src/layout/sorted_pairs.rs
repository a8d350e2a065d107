//! Sorts of one tile that are done as one: its elements, and their positions.

use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tilelift_ir::{Inst, Kernel, Op, Region, Value};

/// What is sorted with an instruction: `argsort` with `sort`, `arg_top_k` with `top_k`, of one tile in one region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OtherHalf {
    pub inst: Inst,
    /// It stands in front.
    pub in_front: bool,
}

/// What an instruction sorts: the tile, whether some of it or all, and whether it gives positions.
type Sorts = (Value, bool, bool);

fn sorts(kernel: &Kernel, i: Inst) -> Option<Sorts> {
    let d = &kernel.insts[i];
    let (some, places) = match d.op {
        Op::Sort => (false, false),
        Op::ArgSort => (false, true),
        Op::TopK => (true, false),
        Op::ArgTopK => (true, true),
        _ => return None,
    };
    Some((d.args[0], some, places))
}

/// The pairs of a kernel: of equal instructions in a region the first has one.
pub(crate) fn sorted_pairs(kernel: &Kernel) -> SecondaryMap<Inst, Option<OtherHalf>> {
    let mut out = SecondaryMap::new();
    kernel.regions.keys().for_each(|r| in_region(kernel, r, &mut out));
    out
}

fn in_region(kernel: &Kernel, r: Region, out: &mut SecondaryMap<Inst, Option<OtherHalf>>) {
    let alike = |i: Inst, j: Inst| {
        let (d, e) = (&kernel.insts[i], &kernel.insts[j]);
        let shape = |i: Inst| kernel.ty(kernel.insts[i].results[0]).shape();
        d.args == e.args && d.attrs == e.attrs && shape(i) == shape(j)
    };
    // Of each kind the first, with its place: what differs are axes, orders and numbers of elements, which are few.
    let mut first: BTreeMap<Sorts, SmallVec<[(usize, Inst); 1]>> = BTreeMap::new();
    for (at, &i) in kernel.regions[r].insts.iter().enumerate() {
        if let Some(sorts) = sorts(kernel, i) {
            let list = first.entry(sorts).or_default();
            if !list.iter().any(|x| alike(x.1, i)) {
                list.push((at, i));
            }
        }
    }
    for (&(tile, some, places), list) in &first {
        let others = first.get(&(tile, some, !places)).into_iter().flatten();
        for &(at, i) in list {
            if let Some(&(place, inst)) = others.clone().find(|x| alike(x.1, i)) {
                out[i] = Some(OtherHalf { inst, in_front: place < at });
            }
        }
    }
}
