//! Products beside loops as loops: a product that stands in no loop of its own is a loop of one round.
//!
//! ```text
//! s = for … { … dot … }                       s = for … { … dot … }
//! t = load …; d = dot a, t, s        ─►       d = for 0..1 carry c = s { t = load …; e = dot a, t, c; yield e }
//! ```
//!
//! The unit multiplies in loops that a producer copies for. A product in front of such a loop, or behind it, would be computed by instructions of lanes:
//! its sums would go through shared memory from one's layout to the other's. As a loop it takes its operands from the ring, and its sums stay. The
//! rewrite is from tile IR to tile IR, and says nothing of how the loops run.

use crate::plan::{MAX_LOOPS, written_views};
use crate::rewrite::Rewrite;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Inst, Kernel, Op, Region, Value};
use tilelift_lane::hash::Set;

/// The kernel with the products of its own block in loops; `None` if there are none, or no loop beside them.
pub fn beside(kernel: &Kernel) -> Option<Kernel> {
    let own = &kernel.regions[kernel.body].insts;
    let multiplies = |i: Inst| {
        let mut found = false;
        let regions = &kernel.insts[i].regions;
        regions.iter().for_each(|&r| kernel.walk(r, &mut |j| found |= kernel.insts[j].op == Op::Dot));
        found
    };
    // Each is a loop of its own, and a producer goes through so many.
    let beside = own.iter().filter(|&&i| kernel.insts[i].op == Op::Dot).count();
    if !(1..=MAX_LOOPS).contains(&beside) || kernel.is_explicit() || !own.iter().any(|&i| kernel.insts[i].op == Op::For && multiplies(i)) {
        return None;
    }
    let written = written_views(kernel);
    let found: Vec<(Inst, Vec<Inst>)> = own
        .iter()
        .filter(|&&i| kernel.insts[i].op == Op::Dot)
        .map(|&i| (i, brought(kernel, i, &written)))
        .filter(|(_, loads)| !loads.is_empty())
        .collect();
    if found.is_empty() {
        return None;
    }
    taken(Decision::ProductsBeside, || Told::of(format!("{} products beside loops are loops of one round", found.len())));
    let mut out = Rewrite::of(kernel);
    found.into_iter().for_each(|(i, loads)| as_loop(&mut out, i, &loads));
    Some(out.finish())
}

/// The loads, and what is another view of them, that bring a product's factors and nothing else, in their order. Nobody writes what they read.
fn brought(kernel: &Kernel, dot: Inst, written: &Set<Value>) -> Vec<Inst> {
    let mut taken: BTreeSet<Inst> = BTreeSet::from([dot]);
    let block = &kernel.regions[kernel.body].insts;
    let Some(at) = block.iter().position(|&i| i == dot) else { return Vec::new() };
    let mut users: BTreeMap<Value, Vec<Inst>> = BTreeMap::new();
    kernel.walk(kernel.body, &mut |i| kernel.insts[i].args.iter().for_each(|&v| users.entry(v).or_default().push(i)));
    let mut loads = false;
    // Who uses a value stands behind it.
    for &i in block[..at].iter().rev() {
        let d = &kernel.insts[i];
        let moves = matches!(d.op, Op::Transpose | Op::Reshape);
        let load = d.op == Op::Load && !written.contains(&d.args[0]) && kernel.ty(d.results[0]).as_tile().is_some();
        let alone = |v: &Value| users.get(v).is_some_and(|u| u.iter().all(|j| taken.contains(j)));
        if (moves || load) && d.results.iter().all(alone) && !d.results.contains(&kernel.insts[dot].args[2]) {
            taken.insert(i);
            loads |= load;
        }
    }
    taken.remove(&dot);
    let list = block[..at].iter().copied().filter(|i| taken.contains(i)).collect();
    if loads { list } else { Vec::new() }
}

/// A product with its loads as a loop of one round.
fn as_loop(out: &mut Rewrite, dot: Inst, loads: &[Inst]) {
    let block: Region = out.kernel.body;
    let (at, d) = ((block, dot), out.kernel.insts[dot].clone());
    let sums = d.args[2];
    let product = out.kernel.add_inst(Op::Dot, &d.args, 0, &d.attrs, &[], &[out.kernel.ty(d.results[0]).clone()]);
    let sum = out.kernel.insts[product].results[0];
    let end = out.kernel.add_inst(Op::Yield, &[sum], 0, &[], &[], &[]);
    [product, end].into_iter().for_each(|i| out.kernel.locs[i] = out.kernel.locs[dot]);
    let inside = loads.iter().copied().chain([product, end]).collect();
    let once = out.number(at, 1);
    let made = out.looped(at, inside, once, &[sums], &[sums]);
    out.kernel.regions[block].insts.retain(|i| *i != dot && !loads.contains(i));
    made.into_iter().for_each(|by| out.replace(d.results[0], by));
}
