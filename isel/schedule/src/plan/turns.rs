//! Warpgroups that multiply in turns: while one does, the others compute. (FlashAttention-3, section 3.1, calls it ping-pong scheduling; sets
//! of consumers that take grid positions in ping-pong are in `ping_pong.rs`.)
//!
//! ```text
//! one by one   group 0   first(0) ─ computes ────── last(0), first(1) ─ computes ────── last(1), first(2) ─ …
//!              group 1              first(0) ─ computes ────── last(0), first(1) ─ computes ────── …
//!
//! overlapped   group 0   first(1), last(0) ─ computes ────── first(2), last(1) ─ …
//!              group 1                       first(1), last(0) ─ computes ────── …
//! ```
//!
//! Groups that come to their products at one time both wait for twice as long, and leave the unit idle while both compute. Where no product of a step runs beside what
//! lanes make of another one of it, a turn is a step's last product and the first one of the next step, to their ends. Where they do, groups drift apart by
//! themselves, and turns set them apart sooner: a turn is all that a step begins. It pays where lanes take longer than the products, and where a step is long beside
//! the hand-over (H200, full and causal attention, 4096 keys: D = 64 3.3% and -0.8%, D = 128 in steps of 176 keys 2.7%, of 1024 keys 11%; in steps of 96 keys -1.5%).
//!
//! A group that waits for its turn comes to no meeting of the task: in a turn there is none.

use super::overlap::{lane_cost, product_cost};
use super::replay::looks_at;
use super::specialised::{Specialised, Turns};
use cranelift_entity::EntityRef;
use tilelift_ir::propagate::{Pass, pass};
use tilelift_ir::{Inst, Kernel, Op, Value};
use tilelift_lane::hash::Set;
use tilelift_lane::{GroupMatrixId, Target};

/// Overlapped steps are long whose products take so many hand-overs.
const LONG: u64 = 24;

/// The turns that the groups of a loop take, if that pays: what lanes compute between the two takes as long as another group's products.
pub(super) fn turns(kernel: &Kernel, target: &Target, s: &Specialised) -> Option<Turns> {
    let alone = s.consumers > 1 && s.consumer_sets == 1 && s.slices == 1 && !s.persistent && s.around.is_empty();
    let meets = !(s.staged.is_empty() && s.updates.is_empty() && s.masked.is_empty() && s.vectors.is_empty() && s.lane_tiles.is_empty());
    if !s.mixed || !alone || meets || !share_rows(kernel, target, s) {
        return None;
    }
    let products: u64 = s.dots.iter().map(|d| product_cost(kernel, target, d.0)).sum();
    if let Some(parts) = &s.overlap {
        let long = products >= LONG * target.costs.group_turn;
        return (parts.hold || long).then_some(Turns::Begun);
    }
    let one_by_one = s.late.is_none() && !s.converts_ahead && s.columns.is_none();
    if !one_by_one {
        return None;
    }
    let body = &kernel.regions[kernel.insts[s.main].regions[0]].insts;
    let at = |i: Inst| body.iter().position(|&j| j == i);
    let mut places: Vec<usize> = s.dots.iter().map(|d| at(d.0)).collect::<Option<_>>()?;
    places.sort_unstable();
    let (&from, &to) = (places.first()?, places.last()?);
    let (before, rest) = body.split_at(from);
    let (between, behind) = (&rest[..to - from], rest.get(to - from + 1..)?);
    let (first, last) = (body[from], body[to]);
    if !follows(kernel, [first, last], between) || !before.iter().chain(behind).all(|&i| each_alone(kernel, s, i)) {
        return None;
    }
    (lane_cost(kernel, target, between) * u64::from(s.consumers) >= products).then_some(Turns::Products { first, last })
}

/// True if each group has rows of its own of every product: who shares columns meets others to look at a row.
fn share_rows(kernel: &Kernel, target: &Target, s: &Specialised) -> bool {
    let rows = |i: Inst| kernel.ty(kernel.insts[i].args[0]).as_tile().and_then(|t| t.shape.first().copied());
    let instruction = |id: GroupMatrixId| target.units.as_ref().and_then(|u| u.matrix.get(id.index()));
    s.dots.iter().all(|&(i, id)| rows(i).zip(instruction(id)).is_some_and(|(rows, row)| rows.is_multiple_of(row.m * s.consumers)))
}

/// True if an operand of the last product is computed of what the first one makes.
fn follows(kernel: &Kernel, [first, last]: [Inst; 2], between: &[Inst]) -> bool {
    let mut made: Set<Value> = kernel.insts[first].results.iter().copied().collect();
    for &i in between {
        if looks_at(kernel, i, |v| made.contains(&v)) {
            made.extend(kernel.insts[i].results.iter().copied());
        }
    }
    kernel.insts[last].args[..2].iter().any(|v| made.contains(v))
}

/// True for what each lane computes of what it has, so that no groups meet for it, and for what others do.
fn each_alone(kernel: &Kernel, s: &Specialised, i: Inst) -> bool {
    let d = &kernel.insts[i];
    let tile = |v: &Value| kernel.ty(*v).as_tile().is_some();
    let lanes = d.args.iter().chain(&d.results).any(tile);
    let brought = s.loads.iter().any(|l| l.0 == i);
    brought
        || d.op == Op::Yield
        || d.regions.is_empty()
            && (!lanes || matches!(pass(d.op), Pass::Elementwise | Pass::Born | Pass::Broadcast | Pass::Reshape | Pass::Transpose))
}
