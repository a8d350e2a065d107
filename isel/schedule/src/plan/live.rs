//! What a step of a loop does that somebody looks at, but for what the ring of its copies holds.

use super::overlap::is_zero;
use super::replay::{Replay, needs, slice_by};
use super::updates::BulkUpdate;
use std::collections::BTreeSet;
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Value};
use tilelift_lane::hash::Set;

/// True for an instruction that others see, or that holds one.
fn seen(kernel: &Kernel, i: Inst) -> bool {
    let d = &kernel.insts[i];
    match d.op.info().effects {
        Effects::Pure | Effects::Reads => false,
        Effects::Control => d.regions.iter().any(|&r| kernel.regions[r].insts.iter().any(|&j| seen(kernel, j))),
        Effects::Writes
        | Effects::Updates
        | Effects::Observes
        | Effects::Shared
        | Effects::AsyncReads
        | Effects::AsyncWrites
        | Effects::AsyncUpdates => true,
    }
}

/// What a step of a loop computes that the next one or others look at; `ring` says which loads come from a ring.
/// Of updates that bulk copies do nobody looks at tiles of indices.
pub(crate) fn live(kernel: &Kernel, region: Region, ring: &dyn Fn(Inst) -> bool, updates: &[BulkUpdate]) -> BTreeSet<Inst> {
    behind(kernel, region, kernel.yields(region).to_vec(), ring, updates)
}

/// Which values that a loop carries its consumers carry, by number: not those that only say where its copies come from.
pub(crate) fn computed_carried(kernel: &Kernel, main: Inst, replay: &Replay, ring: &dyn Fn(Inst) -> bool) -> Vec<usize> {
    let d = &kernel.insts[main];
    let region = d.regions[0];
    let (params, yields) = (&kernel.regions[region].params[1..], kernel.yields(region));
    let mut after = Set::default();
    kernel.walk(kernel.body, &mut |i| after.extend(kernel.insts[i].args.iter().copied()));
    let mut dropped: BTreeSet<usize> =
        replay.carried.iter().filter(|c| c.0 == main).map(|c| c.1).filter(|&k| !after.contains(&d.results[k])).collect();
    // One that others are computed of is carried, and so is what it is computed of.
    loop {
        let kept: Vec<Value> = (0..yields.len()).filter(|k| !dropped.contains(k)).map(|k| yields[k]).collect();
        let mut taken: Set<Value> = kept.iter().copied().collect();
        for i in behind(kernel, region, kept, ring, &[]) {
            if !(matches!(kernel.insts[i].op, Op::Load | Op::Gather) && ring(i)) {
                needs(kernel, i, &mut |v| _ = taken.insert(v));
            }
        }
        let before = dropped.len();
        dropped.retain(|&k| !taken.contains(&params[k]));
        if dropped.len() == before {
            return (0..yields.len()).filter(|k| !dropped.contains(k)).collect();
        }
    }
}

/// What stands behind values and all that others see.
fn behind(kernel: &Kernel, region: Region, mut open: Vec<Value>, ring: &dyn Fn(Inst) -> bool, updates: &[BulkUpdate]) -> BTreeSet<Inst> {
    let effects: Vec<Inst> = kernel.regions[region].insts.iter().copied().filter(|&i| seen(kernel, i)).collect();
    for &i in &effects {
        match updates.iter().find(|u| u.inst == i) {
            Some(u) => open.extend(u.first.iter().flatten().chain(kernel.operand(i, "value")).chain(kernel.operand(i, "view"))),
            None => needs(kernel, i, &mut |v| open.push(v)),
        }
    }
    let mut out = slice_by(kernel, open, &|i, take| {
        let d = &kernel.insts[i];
        match d.op {
            Op::Load | Op::Gather if ring(i) => {}
            // Accumulators that begin at zero are written where the product stands.
            Op::Dot if is_zero(kernel, d.args[2]) => d.args[..2].iter().for_each(|&v| take(v)),
            _ => needs(kernel, i, take),
        }
    });
    out.extend(effects);
    out
}
