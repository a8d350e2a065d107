//! Loops that go round only where a mask lets something happen.
//!
//! ```text
//! for j in 0..n step 32 { …  select(j + iota <= row + iota, score, -inf)  … }
//!     a comparison is the same in the whole tile, and then nothing changes       (`still`)
//!     it is for all j from where the tile's first column is behind its last row  (`reach`)
//! for j in 0..min(n, max(row + 128, 1)) step 32 { … }
//! ```
//!
//! A loop is looked at if it writes nothing. For each comparison of integers in it the round is followed with that comparison false in all
//! elements, then true: if every carried value is handed on as it came, rounds in which it is so can go. Coordinates are sums of multiples
//! of the index, of values known in front of the loop, and of positions in the tile; the bound that follows is computed in front.
//!
//! One round stays: what is divided by a sum of nothing is what it was, a row without any key.
//!
//! What a mask leaves out counts as finite: 0 times it is 0, and it less itself is 0. So this belongs to [`Class::Reassoc`](crate::Class), as the rules that
//! move sums. Coordinates do not wrap.

mod put;
mod reach;
mod still;

use crate::hash::IndexMap;
pub use reach::End;
use reach::{Bound, Line, Reach, Same, made_in};
use std::fmt;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Attr, CmpOp, Effects, Inst, Kernel, Loc, Op, Region, Value};

/// The most comparisons that are tried in a loop.
const MOST: usize = 16;

/// A loop that goes round less often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Narrowed {
    /// Where the loop stands.
    pub place: Loc,
    /// Which rounds went.
    pub end: End,
    /// The comparison that is the same in all elements there.
    pub mask: CmpOp,
    /// What it is there.
    pub holds: bool,
}

impl fmt::Display for Narrowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.end == End::First { "first" } else { "last" };
        write!(f, "loop at {}: no {end} rounds in which `cmp {}` is {} everywhere", self.place, self.mask.word(), self.holds)
    }
}

/// What [`crate::Options::only`] calls it.
pub(crate) const NAME: &str = "narrow";

/// The kernel with narrower loops, and what was done; none if nothing was.
pub(crate) fn narrow(kernel: &Kernel) -> Option<(Kernel, Vec<Narrowed>)> {
    let mut loops = Vec::new();
    find(kernel, kernel.body, &mut loops);
    if loops.is_empty() {
        return None;
    }
    let same = Same::new(kernel);
    let mut found: Vec<CutLoop> = loops.into_iter().map(|(region, inst)| CutLoop::new(kernel, &same, region, inst)).collect();
    // Loops over one range may become one loop, and stay such: what is cut from one is cut from all.
    let mut ranges: IndexMap<(Region, [Line; 3]), Vec<Bound>> = IndexMap::default();
    for l in &found {
        let own = || l.cuts.iter().map(|c| c.bound.clone()).collect();
        ranges.entry((l.region, l.range.clone())).and_modify(|b| b.retain(|b| l.cuts.iter().any(|c| c.bound == *b))).or_insert_with(own);
    }
    for l in &mut found {
        let common = &ranges[&(l.region, l.range.clone())];
        l.cuts.retain(|c| common.contains(&c.bound));
    }
    if found.iter().all(|l| l.cuts.is_empty()) {
        return None;
    }
    let (mut made, mut done) = (kernel.clone(), Vec::new());
    for l in &found {
        for cut in &l.cuts {
            cut.bound.put(&mut made, l.region, l.inst);
            taken(Decision::Rounds, || Told::of(cut.what));
            done.push(cut.what);
        }
    }
    Some((made, done))
}

/// A loop that may be cut.
struct CutLoop {
    region: Region,
    inst: Inst,
    /// Its bounds and its step.
    range: [Line; 3],
    cuts: Vec<Cut>,
}

impl CutLoop {
    fn new(kernel: &Kernel, same: &Same, region: Region, inst: Inst) -> CutLoop {
        let inside = made_in(kernel, inst);
        let reach = Reach::new(kernel, same, inst, &inside);
        let range = [0, 1, 2].map(|n| reach.line(kernel.insts[inst].args[n]));
        CutLoop { region, inst, range, cuts: cuts(kernel, inst, reach) }
    }
}

/// Loops with their regions, inner ones first.
fn find(kernel: &Kernel, region: Region, loops: &mut Vec<(Region, Inst)>) {
    for &inst in &kernel.regions[region].insts {
        let d = &kernel.insts[inst];
        d.regions.iter().for_each(|&r| find(kernel, r, loops));
        if d.op == Op::For && !d.results.is_empty() && d.regions.iter().all(|&r| quiet(kernel, r)) {
            loops.push((region, inst));
        }
    }
}

/// True if nothing in a region is seen from outside, and it ends.
fn quiet(kernel: &Kernel, region: Region) -> bool {
    kernel.regions[region].insts.iter().all(|&i| {
        let d = &kernel.insts[i];
        let own = match d.op.info().effects {
            Effects::Pure | Effects::Reads => true,
            Effects::Control => matches!(d.op, Op::For | Op::If | Op::Yield),
            _ => false,
        };
        own && d.regions.iter().all(|&r| quiet(kernel, r))
    })
}

struct Cut {
    bound: Bound,
    what: Narrowed,
}

/// What can be cut from a loop.
fn cuts(kernel: &Kernel, inst: Inst, reach: Reach<'_>) -> Vec<Cut> {
    let body = kernel.insts[inst].regions[0];
    let compares = kernel.regions[body].insts.iter().filter_map(|&i| compare(kernel, i)).take(MOST);
    let mut found: Vec<Cut> = Vec::new();
    for (result, mask, sides) in compares {
        for holds in [false, true] {
            // First what costs less to know.
            let bounds = reach.bounds(mask, sides, holds);
            if bounds.is_empty() || !still::is_still(kernel, body, (result, holds)) {
                continue;
            }
            for bound in bounds.into_iter().filter(|b| found.iter().all(|c| c.bound != *b)).collect::<Vec<_>>() {
                found.push(Cut { what: Narrowed { place: kernel.locs[inst], end: bound.end, mask, holds }, bound });
            }
        }
    }
    found
}

/// A comparison of integers with a sign.
fn compare(kernel: &Kernel, inst: Inst) -> Option<(Value, CmpOp, [Value; 2])> {
    let d = &kernel.insts[inst];
    match (d.op, d.attrs.first(), &d.args[..]) {
        (Op::Cmp, Some(&Attr::Cmp(mask)), &[a, b]) if kernel.ty(a).elem().is_int() && !mask.is_unsigned() => {
            Some((d.results[0], mask, [a, b]))
        }
        _ => None,
    }
}
