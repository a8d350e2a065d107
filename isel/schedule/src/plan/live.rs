//! What a step of a loop does that somebody looks at, but for what the ring of its copies holds.

use super::overlap::is_zero;
use super::replay::{Replay, needs, slice_by};
use super::updates::BulkUpdate;
use std::collections::BTreeSet;
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Value, ValueDef};
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

/// What of a loop's body, and of the regions `inside` it, lanes compute with, each time where it stands: all that others see and the next step takes. Loads
/// whose places follow from a value are not told from one another: what places follow from is left out.
pub(crate) fn computed_with(kernel: &Kernel, region: Region, inside: &BTreeSet<Inst>) -> BTreeSet<Inst> {
    let mut seen = looked_at(kernel, region, inside);
    let loads = inside.iter().copied().filter(|&i| is_load(kernel, i));
    let placing = placing(kernel, region, inside, loads);
    seen.retain(|i| !placing.contains(i));
    seen
}

/// True if a load of a loop's body says where others of its loads stand, all of which are such, and lanes look at it for nothing else: it is read for them alone.
pub(crate) fn places_alone(kernel: &Kernel, region: Region, inside: &BTreeSet<Inst>, load: Inst, others: &dyn Fn(Inst) -> bool) -> bool {
    let seen = looked_at(kernel, region, inside);
    let placed = |i: &Inst| is_load(kernel, *i) && placing(kernel, region, inside, [*i].into_iter()).contains(&load);
    !seen.contains(&load) && inside.iter().copied().filter(placed).all(others)
}

fn is_load(kernel: &Kernel, i: Inst) -> bool {
    matches!(kernel.insts[i].op, Op::Load | Op::Gather)
}

/// What of a loop's body the next step and others look at, up to its loads.
fn looked_at(kernel: &Kernel, region: Region, inside: &BTreeSet<Inst>) -> BTreeSet<Inst> {
    let mut open = kernel.yields(region).to_vec();
    for &i in inside {
        if !matches!(kernel.insts[i].op.info().effects, Effects::Pure | Effects::Reads) {
            needs(kernel, i, &mut |v| open.push(v));
        }
    }
    slice_by(kernel, open, &|i, take| {
        if inside.contains(&i) && !is_load(kernel, i) {
            needs(kernel, i, take);
        }
    })
}

/// What the places of loads follow from, in the body of their loop, in this step or in those before.
fn placing(kernel: &Kernel, region: Region, inside: &BTreeSet<Inst>, loads: impl Iterator<Item = Inst>) -> BTreeSet<Inst> {
    let mut open: Vec<Value> = loads.flat_map(|i| kernel.insts[i].args[1..].iter().copied()).collect();
    let (mut out, mut carried) = (BTreeSet::new(), BTreeSet::new());
    while let Some(v) = open.pop() {
        match kernel.values[v].def {
            ValueDef::Result(i, _) if inside.contains(&i) && out.insert(i) => needs(kernel, i, &mut |v| open.push(v)),
            // What the step before carried there.
            ValueDef::RegionParam(r, n) if r == region && n > 0 && carried.insert(n) => {
                open.extend(kernel.yields(region).get(n as usize - 1))
            }
            ValueDef::Result(..) | ValueDef::RegionParam(..) | ValueDef::KernelParam(_) => {}
        }
    }
    out
}
