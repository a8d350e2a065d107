//! Tiles that wait in registers while a loop of products runs.
//!
//! ```text
//! t = loop of products        128 words a lane, rounded to 16 bits: 64 wait
//! u = loop of products        128 words a lane beside them
//! use t, u
//! ```
//!
//! A program that needs more than its lanes have puts some into memory and back in each step, which no price of the logical model tells.

use std::collections::BTreeSet;
use tilelift_ir::{Inst, Kernel, Op, Region, Type, Value, ValueDef};

/// Warps of a program of which nothing is said.
const USUAL: u32 = 4;
/// Elements of a tile for each lane that a fused kernel may have, if its parts have fewer.
pub(super) const LARGEST: u64 = 512;
/// Registers of a lane that tiles may take beside addresses and what an epilogue needs.
const MOST: u64 = 216;

/// Registers of a lane that sums and waiting tiles of a loop of products take, where they are more than there are.
pub(super) fn too_many(kernel: &Kernel, warps: u32) -> Option<u64> {
    let lanes = u64::from(warps.max(1)) * 32;
    let mut most = 0;
    each_loop(kernel, kernel.body, &mut |region, i| {
        let sums: u64 = kernel.insts[i].results.iter().map(|&v| words(kernel, v)).sum();
        most = most.max((sums + waiting(kernel, region, i)).div_ceil(lanes));
    });
    (most > MOST).then_some(most)
}

/// Elements of the largest tile of a kernel for each lane; what is the same in all elements, or counts them, is none.
pub(super) fn for_a_lane(kernel: &Kernel) -> u64 {
    let lanes = u64::from(kernel.hints.warps.unwrap_or(USUAL).max(1)) * 32;
    let mut most = 0;
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        if !matches!(d.op, Op::Splat | Op::Iota | Op::Broadcast) {
            let elements = |v: &Value| kernel.ty(*v).as_tile().map_or(0, |t| t.elements());
            most = most.max(d.results.iter().map(elements).max().unwrap_or(0));
        }
    });
    most.div_ceil(lanes)
}

/// Loops whose bodies hold products, and the regions in which they stand.
fn each_loop(kernel: &Kernel, region: Region, visit: &mut dyn FnMut(Region, Inst)) {
    for &i in &kernel.regions[region].insts {
        let d = &kernel.insts[i];
        let dots = d.regions.iter().any(|&r| kernel.regions[r].insts.iter().any(|&j| kernel.insts[j].op.factors().is_some()));
        if d.op == Op::For && dots {
            visit(region, i);
        }
        d.regions.iter().for_each(|&r| each_loop(kernel, r, visit));
    }
}

/// Words of tiles that are made in front of a loop and needed behind it.
fn waiting(kernel: &Kernel, region: Region, at: Inst) -> u64 {
    let insts = &kernel.regions[region].insts;
    let Some(n) = insts.iter().position(|&i| i == at) else { return 0 };
    let front: BTreeSet<Inst> = insts[..n].iter().copied().collect();
    let mut needed: BTreeSet<Value> = BTreeSet::new();
    let mut see = |j: Inst| needed.extend(&kernel.insts[j].args);
    for &i in &insts[n + 1..] {
        see(i);
        kernel.insts[i].regions.iter().for_each(|&r| kernel.walk(r, &mut see));
    }
    let held = |v: &&Value| match kernel.values[**v].def {
        // What is the same in all elements, or counts them, is made again.
        ValueDef::Result(i, _) => front.contains(&i) && !matches!(kernel.insts[i].op, Op::Splat | Op::Iota | Op::Broadcast),
        ValueDef::KernelParam(_) | ValueDef::RegionParam(..) => false,
    };
    needed.iter().filter(held).map(|&v| words(kernel, v)).sum()
}

/// Words of 32 bits of a tile.
fn words(kernel: &Kernel, v: Value) -> u64 {
    match kernel.ty(v) {
        Type::Tile(t) => (t.elements() * u64::from(t.elem.bits())).div_ceil(32),
        _ => 0,
    }
}
