//! Pipelined loops as programs: the lanes copy tiles into rings of slots, some iterations ahead of the products.
//!
//! ```text
//! ring of S slots      local_alloc, one per load that only products read, or of a matrix that lanes compute with, and whose place follows from the loop's index
//! front:  copy 0 … copy S-2, a group each
//! body:   copy_async_wait S-2 ─ task_barrier ─ copy i+S-1 into slot (i-1) mod S, a group ─ the body, which loads from slot i mod S
//! behind: copy_async_wait 0
//! ```
//!
//! Where the target has no copies that run by themselves, lanes hold the next step's tiles in registers while products run:
//!
//! ```text
//! one slot             per such load
//! front:  load 0 ─ local_store
//! body:   task_barrier ─ load i+1 ─ the body, which loads from the slot ─ task_barrier ─ local_store of what was loaded
//! behind: task_barrier
//! ```
//!
//! Where such copies' pieces lie side by side ([`Target::copies_in_rows`]), loops all of whose loads suit them copy as above, into two slots, and go two
//! steps a round where they count from zero ([`pairs`]).
//!
//! The barrier shows what has arrived to all lanes, and tells that all have done with the slot that the next copy overwrites. Copies past
//! the end of the loop are put outside of the view, where they move nothing. All else stays as it is.

pub(super) mod carried;
pub(super) mod lane_tiles;
mod pairs;
mod rows;

use super::Refusal;
use super::ahead::{Ahead, Wanted};
use super::write::{Arg, Writer, number};
use crate::access::GlobalAccess;
use crate::facts::divisor;
use crate::indexed::indexed_vectors;
use crate::longest_first::LaunchOrder;
use crate::named::Named;
use crate::plan::{Plan, Replay, Schedule, copied_loads, live, replay, written_views};
use crate::reason::{Index, NotAhead};
use lane_tiles::{brings_lane_tile, lane_tiles, stored};
use rows::{copied_in_rows, pair_step};
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::layout::{Axis, coalesced, operand_swizzle, vectors_without};
use tilelift_ir::num::wrap;
use tilelift_ir::{Attr, CmpOp, Effects, Extent, Inst, Kernel, Literal, Op, Region, Scalar, SharedType, TileType, Type, Value, ValueDef};
use tilelift_lane::Target;
use tilelift_lane::hash::Set;

/// The bit of `present` that says that a gather has a mask.
const MASK: u8 = 0b0100;

/// The copies of a loop.
#[derive(Clone, Default)]
struct LoopCopies {
    /// The loads.
    loads: Vec<Inst>,
    /// What their indices follow from.
    replay: Replay,
    /// The slots of each load.
    slots: Vec<Value>,
    /// Steps that a loop without slots carries ([`carried`]); 0 of one that has them.
    steps: u32,
}

/// What is written.
struct Pipelined<'k> {
    kernel: &'k Kernel,
    stages: u32,
    rings: BTreeMap<Inst, LoopCopies>,
    /// Registers hold what is ahead.
    held: bool,
    /// What is ahead is one step ahead.
    two: bool,
}

/// The loops of a kernel that are pipelined.
pub struct Pipelines<'k> {
    kernel: &'k Kernel,
    warps: u32,
    rings: BTreeMap<Inst, LoopCopies>,
    /// Registers hold what is ahead.
    held: bool,
    /// What is ahead is one step ahead.
    two: bool,
    /// The machine begins with the first positions of the grid.
    in_order: bool,
    /// Tiles that lanes compute with have slots, too.
    beside: bool,
}

impl<'k> Pipelines<'k> {
    /// Those that a plan pipelines, if there are any.
    pub fn of(kernel: &'k Kernel, target: &Target, plan: &Plan) -> Option<Pipelines<'k>> {
        if !matches!(plan.schedule, Schedule::Pipelined { .. }) || plan.stages < 2 {
            return None;
        }
        Pipelines::with(kernel, target, plan.warps, true)
    }

    /// The same with copies of what products alone take, where lanes' tiles have slots here.
    pub fn operands_alone(&self, target: &Target) -> Option<Pipelines<'k>> {
        if self.beside { Pipelines::with(self.kernel, target, self.warps, false) } else { None }
    }

    fn with(kernel: &'k Kernel, target: &Target, warps: u32, lanes: bool) -> Option<Pipelines<'k>> {
        let (rings, beside) = rings(kernel, target, warps, lanes);
        let mut out = Pipelines {
            kernel,
            warps,
            rings,
            beside,
            held: target.moves_by_lanes(),
            two: target.moves_by_lanes(),
            in_order: target.begins_in_order,
        };
        out.held &= !out.in_rows(target);
        (!out.rings.is_empty()).then_some(out)
    }

    /// True if copies whose pieces lie side by side bring all there is, and two slots of each ring have room.
    fn in_rows(&self, target: &Target) -> bool {
        let loads = || self.rings.values().flat_map(|r| &r.loads);
        let suits = |&load: &Inst| copied_in_rows(self.kernel, target, self.warps, load);
        // One step a round, addresses in shared memory change with the slot, which costs more than registers do.
        let pairs = self
            .rings
            .iter()
            .all(|(&main, ring)| pair_step(self.kernel, main).is_some() && !ring.replay.reads && ring.replay.carried.is_empty());
        pairs && target.copies_in_rows && 2 * self.stage_bytes() <= u64::from(target.shared_bytes) && loads().all(suits)
    }

    /// Stages of a loop when so many are asked for: what registers hold, or copies that all wait for bring, is one step ahead.
    pub fn stages(&self, asked: u32) -> u32 {
        if self.two { asked.min(2) } else { asked }
    }

    /// Loads that run ahead.
    pub fn ahead(&self) -> usize {
        self.rings.values().map(|r| r.loads.len()).sum()
    }

    /// Stages that one slot of each ring is for: registers hold one more.
    pub fn slot_stages(&self) -> u32 {
        if self.held { 2 } else { 1 }
    }

    /// Bytes of one slot of each ring: all of them are there together.
    pub fn stage_bytes(&self) -> u64 {
        let loads = self.rings.values().flat_map(|r| &r.loads);
        let tiles = loads.filter_map(|&i| self.kernel.ty(self.kernel.insts[i].results[0]).as_tile());
        tiles.map(stored).map(|(shape, elem)| shape.iter().map(|&e| u64::from(e)).product::<u64>() * u64::from(elem.bytes())).sum()
    }

    /// Writes the kernel with those loops as programs, in so many stages.
    ///
    /// # Errors
    /// What can't be written.
    pub fn written(&self, stages: u32) -> Result<Kernel, Refusal> {
        let kernel = self.kernel;
        let mut w = Writer::new(kernel);
        if self.in_order {
            w.take_in_order(LaunchOrder::of(kernel, &self.rings.keys().copied().collect::<Vec<Inst>>()));
        }
        let mut p = Pipelined { kernel, stages, rings: self.rings.clone(), held: self.held, two: self.two };
        for (&main, ring) in &mut p.rings {
            w.loc = kernel.locs[main];
            for &load in &ring.loads {
                let Some(t) = kernel.ty(kernel.insts[load].results[0]).as_tile() else {
                    return Err(Refusal::Written { value: kernel.insts[load].results[0] });
                };
                let slots = (!self.held).then_some(stages);
                let (extents, elem) = stored(t);
                let shape: Vec<u32> = slots.iter().chain(&extents).copied().collect();
                let ty = SharedType::new(&shape, elem);
                ring.slots.push(w.make(Op::LocalAlloc, &[], &[Attr::Count(0)], Some(&Type::Shared(ty)))?);
            }
        }
        p.region(&mut w, kernel.body, false)?;
        let mut out = w.finish();
        out.hints.warps = Some(self.warps);
        Ok(out)
    }
}

/// Says why the lanes of so many warps do not copy what a load brings, if they do not: each piece once, in a width that the target has copies of.
fn copied_once(kernel: &Kernel, target: &Target, warps: u32, load: Inst) -> Result<(), NotAhead> {
    let d = &kernel.insts[load];
    let narrow = || begins_anywhere(kernel, target, load).unwrap_or(NotAhead::Width);
    let (extents, elem) = kernel.ty(d.results[0]).as_tile().map(stored).ok_or_else(narrow)?;
    let (shape, bytes) = (&extents[..], elem.bytes());
    let (order, vec) = match d.op {
        Op::Gather => {
            let v = indexed_vectors(kernel, load, shape.len(), target.vector_bytes);
            (v.order.to_vec(), v.elements)
        }
        _ => {
            let access = GlobalAccess::of(kernel, load);
            (access.order(), access.vector_elements(target.vector_bytes))
        }
    };
    let layout = coalesced(shape, bytes, &order, vec, target.lanes, warps).map_err(|_| narrow())?;
    let swizzle = order.first().and_then(|&fast| operand_swizzle(shape, bytes, fast).ok());
    let columns = swizzle.and_then(|s| s.columns_from(&layout).ok()).ok_or_else(narrow)?;
    let size = vectors_without(&columns, bytes, vec * bytes, 0).width * bytes;
    if !target.copy_async.contains(&size) {
        return Err(narrow());
    }
    let shared = layout.free_mask(Axis::Lane) | layout.free_mask(Axis::Warp);
    if shared == 0 { Ok(()) } else { Err(NotAhead::Shares) }
}

/// That a load begins anywhere in rows of a view whose elements lie so that lanes would copy them.
fn begins_anywhere(kernel: &Kernel, target: &Target, load: Inst) -> Option<NotAhead> {
    let d = &kernel.insts[load];
    let access = (d.op == Op::Load).then(|| GlobalAccess::of(kernel, load))?;
    let (dim, elements) = (access.contiguous()?, access.view_elements(target.vector_bytes));
    let at = *kernel.operand(load, "indices").get(dim)?;
    let bytes = |n: u32| n * access.view.elem.bytes();
    let copied = |n: u32| target.copy_async.iter().any(|&size| size <= bytes(n));
    let torn = access.divisor(dim, target.vector_bytes);
    (copied(elements) && !copied(torn)).then(|| NotAhead::Start {
        view: Named::of(kernel, d.args[0]),
        dim,
        at: Index::of(kernel, at),
        elements,
    })
}

/// The loops that are pipelined, and what of them runs ahead: operands of products, and tiles for lanes, if they are to; and whether there are such.
fn rings(kernel: &Kernel, target: &Target, warps: u32, lanes: bool) -> (BTreeMap<Inst, LoopCopies>, bool) {
    let staged = copied_loads(kernel);
    let written = written_views(kernel);
    let (mut out, mut beside) = (BTreeMap::new(), false);
    let mut loops = Vec::new();
    kernel.walk(kernel.body, &mut |i| loops.extend((kernel.insts[i].op == Op::For).then_some(i)));
    for main in loops {
        let region = kernel.insts[main].regions[0];
        let own = || kernel.regions[region].insts.iter().copied();
        // What is inside a loop is looked at only where it brings something itself: loops around it would look at the same again.
        let for_lanes = lanes && own().any(|i| brings_lane_tile(kernel, i));
        if !for_lanes && !own().any(|i| staged[i]) {
            continue;
        }
        let inside = content(kernel, region);
        let mut ring = LoopCopies::default();
        let mut tiles = if for_lanes { lane_tiles(kernel, target, (region, &inside.0)) } else { BTreeSet::new() };
        // Elements that share bytes come to lanes in the order of fragments, which no slot has: they take one where a step copies nothing else.
        if own().any(|i| staged[i]) {
            tiles.retain(|&i| !kernel.ty(kernel.insts[i].results[0]).elem().is_packed());
        }
        for load in own().filter(|&i| staged[i] || tiles.contains(&i)) {
            if let Ok(found) = slice_of(kernel, target, warps, load, (main, &inside, &written)) {
                beside |= !staged[load];
                ring.loads.push(load);
                ring.replay.add(found);
            }
        }
        if !ring.loads.is_empty() {
            out.insert(main, ring);
        }
    }
    (out, beside)
}

/// The instructions in a region, and the first op among them that writes.
pub(super) fn content(kernel: &Kernel, region: Region) -> (BTreeSet<Inst>, Option<Op>) {
    let (mut inside, mut writes) = (BTreeSet::new(), None);
    kernel.walk(region, &mut |i| {
        inside.insert(i);
        let op = kernel.insts[i].op;
        if matches!(op.info().effects, Effects::Writes | Effects::Updates) {
            writes.get_or_insert(op);
        }
    });
    (inside, writes)
}

/// What a body holds.
type Content = (BTreeSet<Inst>, Option<Op>);

/// What the indices and the mask of a load for products follow from in the body of a loop, if it can run ahead of all that the loop writes, and there are
/// copies of its width.
pub(super) fn slice_of(
    kernel: &Kernel,
    target: &Target,
    warps: u32,
    load: Inst,
    body: (Inst, &Content, &Set<Value>),
) -> Result<Replay, NotAhead> {
    let found = run_ahead(kernel, load, body)?;
    // What stands where a mask leaves something out is zero in a buffer.
    if kernel.insts[load].op == Op::Gather && kernel.insts[load].present & !MASK != 0 {
        return Err(NotAhead::Gathered);
    }
    // What registers hold has any width.
    if !target.moves_by_lanes() {
        copied_once(kernel, target, warps, load)?;
    }
    Ok(found)
}

/// What the indices and the mask of a load follow from in the body of a loop, if it can run ahead of all that the loop writes.
fn run_ahead(kernel: &Kernel, load: Inst, (main, (inside, writes), written): (Inst, &Content, &Set<Value>)) -> Result<Replay, NotAhead> {
    let region = kernel.insts[main].regions[0];
    if let Some(op) = *writes
        && written.contains(&kernel.insts[load].args[0])
        && !stays_behind(kernel, load, (main, inside))
    {
        return Err(NotAhead::Writes { op });
    }
    // Of the loop's own values only its index, and what it carries, are computed ahead.
    let there = |v: Value| match kernel.values[v].def {
        ValueDef::KernelParam(_) => true,
        ValueDef::RegionParam(r, _) => r != region && kernel.holder(r).is_none_or(|i| !inside.contains(&i)),
        ValueDef::Result(i, _) => !inside.contains(&i),
    };
    let found = replay(kernel, (main, &[]), written, kernel.insts[load].args[1..].to_vec(), &there);
    found.map_err(|v| NotAhead::Address { value: Named::of(kernel, v) })
}

/// True if all that a loop writes to the view of a load lies behind what the load brings in later iterations: along a dimension both go with the index, which
/// steps by no less than what either of them covers there.
fn stays_behind(kernel: &Kernel, load: Inst, (main, inside): (Inst, &BTreeSet<Inst>)) -> bool {
    let (view, index) = (kernel.insts[load].args[0], kernel.regions[kernel.insts[main].regions[0]].params[0]);
    let step = kernel.insts[main].args[2];
    // A step is positive, or the launch stops: it is no less than a power of two that divides it, however it wrapped.
    let covers = |extent: u32| match kernel.as_const(step) {
        Some((Literal::Int(step), _)) => i64::from(extent) <= step,
        _ => extent.checked_next_power_of_two().is_some_and(|most| divisor(kernel, step, most) >= extent),
    };
    // The dimensions in which an access goes so.
    let goes = |i: Inst, tile: Value| -> Vec<usize> {
        let Some(shape) = kernel.ty(tile).shape() else { return Vec::new() };
        let indices = kernel.operand(i, "indices").iter().zip(shape).enumerate();
        indices.filter(|&(_, (&at, &extent))| at == index && covers(extent)).map(|(d, _)| d).collect()
    };
    let own = goes(load, kernel.insts[load].results[0]);
    let writes = |i: &Inst| {
        let d = &kernel.insts[*i];
        matches!(d.op.info().effects.global(), Effects::Writes | Effects::Updates) && d.args.first() == Some(&view)
    };
    kernel.insts[load].op == Op::Load
        && inside.iter().copied().filter(writes).all(|i| {
            let value = kernel.operand(i, "value").first();
            kernel.insts[i].op == Op::Store && value.is_some_and(|&v| goes(i, v).iter().any(|d| own.contains(d)))
        })
}

/// A number of a scalar type.
fn literal(n: i64, ty: Scalar) -> Arg {
    Arg::Literal(Literal::Int(n), ty)
}

impl Pipelined<'_> {
    /// The instructions of a region, but for its `yield`.
    fn region(&self, w: &mut Writer<'_>, r: Region, nested: bool) -> Result<(), Refusal> {
        let insts = self.kernel.regions[r].insts.iter();
        insts.filter(|&&i| self.kernel.insts[i].op != Op::Yield).try_for_each(|&i| self.inst(w, i, nested))
    }

    /// What a region gives.
    fn given(&self, w: &Writer<'_>, r: Region) -> Result<Vec<Arg>, Refusal> {
        self.kernel.yields(r).iter().map(|&v| w.get(v)).collect()
    }

    fn set_all(w: &mut Writer<'_>, of: &[Value], to: &[Value]) {
        of.iter().zip(to).for_each(|(&v, &made)| w.set(v, made));
    }

    /// An instruction; `nested` says whether it may run again.
    fn inst(&self, w: &mut Writer<'_>, i: Inst, nested: bool) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        if let Some(ring) = self.rings.get(&i) {
            return self.pipeline(w, i, ring, nested);
        }
        let mut pipelines = false;
        d.regions.iter().for_each(|&r| kernel.walk(r, &mut |j| pipelines |= self.rings.contains_key(&j)));
        match d.op {
            Op::For if pipelines => {
                let args = d.args.iter().map(|&v| w.get(v)).collect::<Result<Vec<Arg>, Refusal>>()?;
                let region = d.regions[0];
                let params = &kernel.regions[region].params;
                let results = w.for_loop([args[0], args[1], args[2]], &args[3..], |w, index, carried| {
                    w.set(params[0], index);
                    Self::set_all(w, &params[1..], carried);
                    self.region(w, region, true)?;
                    self.given(w, region)
                })?;
                Self::set_all(w, &d.results, &results);
                Ok(())
            }
            Op::While if pipelines => {
                let init = d.args.iter().map(|&v| w.get(v)).collect::<Result<Vec<Arg>, Refusal>>()?;
                let part = |w: &mut Writer<'_>, r: Region, carried: &[Value]| {
                    Self::set_all(w, &kernel.regions[r].params, carried);
                    self.region(w, r, true)?;
                    self.given(w, r)
                };
                let (test, run) = (d.regions[0], d.regions[1]);
                let results = w.while_loop(&init, |w, carried| part(w, test, carried), |w, carried| part(w, run, carried))?;
                Self::set_all(w, &d.results, &results);
                Ok(())
            }
            Op::If if pipelines => {
                let condition = w.get(d.args[0])?;
                let arm = |w: &mut Writer<'_>, r: Region| {
                    w.apart(|w| {
                        self.region(w, r, nested)?;
                        self.given(w, r)
                    })
                };
                let ends = w.choice(condition, |w| arm(w, d.regions[0]), |w| arm(w, d.regions[1]))?;
                d.results.iter().zip(ends).for_each(|(&v, end)| w.set(v, end));
                Ok(())
            }
            _ => w.copy(i),
        }
    }

    /// A loop whose loads run ahead.
    fn pipeline(&self, w: &mut Writer<'_>, main: Inst, ring: &LoopCopies, nested: bool) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let d = &kernel.insts[main];
        let args = d.args.iter().map(|&v| w.get(v)).collect::<Result<Vec<Arg>, Refusal>>()?;
        let region = d.regions[0];
        let params = &kernel.regions[region].params;
        let ty = kernel.ty(params[0]).elem();
        if nested && ring.steps == 0 {
            // All are done with what the slots held when it ran before.
            w.act(Op::TaskBarrier, &[], &[]);
        }
        let ahead = Ahead::of(kernel, main, &ring.replay, ring.loads.clone(), Wanted::Masks);
        if ring.steps > 0 {
            return self.carry(w, main, ring, (&ahead, &args));
        }
        if self.held {
            return self.hold(w, main, ring, (&ahead, &args));
        }
        if let Some(step) = pair_step(kernel, main).filter(|_| self.two && self.stages == 2) {
            return self.pairs(w, main, ring, (&ahead, &args), step);
        }
        let mut at = args[0];
        let mut state = ahead.first(w, at)?;
        for slot in 0..self.stages - 1 {
            let by = |w: &mut Writer<'_>| plus(w, at, args[2], 1, ty);
            state = self.begin(w, (&ahead, at, &state), by, (main, ring, number(slot)))?;
            if slot + 2 < self.stages {
                at = plus(w, at, args[2], 1, ty)?;
            }
        }
        let held = args.len() - 3;
        let mut init: Vec<Arg> = args[3..].iter().copied().chain([number(0), number(self.stages - 1)]).collect();
        init.extend(state);
        let results = w.for_loop([args[0], args[1], args[2]], &init, |w, index, carried| {
            let [read, fill] = [carried[held], carried[held + 1]];
            w.act(Op::CopyAsyncWait, &[], &[Attr::Count(self.stages - 2)]);
            w.act(Op::TaskBarrier, &[], &[]);
            let at = plus(w, index.into(), args[2], self.stages - 1, ty)?;
            let state: Vec<Arg> = carried[held + 2..].iter().map(|&v| v.into()).collect();
            let state = self.begin(w, (&ahead, at, &state), |w| plus(w, at, args[2], 1, ty), (main, ring, fill.into()))?;
            w.set(params[0], index);
            Self::set_all(w, &params[1..], &carried[..held]);
            self.body(w, region, ring, |w, slots| w.bin(Op::LocalIndex, slots, read))?;
            let mut next = self.given(w, region)?;
            for slot in [read, fill] {
                let more = w.bin(Op::Add, slot, number(1))?;
                let last = w.cmp(CmpOp::Eq, slot, number(self.stages - 1))?;
                next.push(w.make(Op::Select, &[last.into(), number(0), more.into()], &[], None)?.into());
            }
            next.extend(state);
            Ok(next)
        })?;
        w.act(Op::CopyAsyncWait, &[], &[Attr::Count(0)]);
        Self::set_all(w, &d.results, &results[..held]);
        Ok(())
    }

    /// A loop whose next step is loaded into registers while the products of a step run.
    fn hold(&self, w: &mut Writer<'_>, main: Inst, ring: &LoopCopies, (ahead, args): (&Ahead<'_>, &[Arg])) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let d = &kernel.insts[main];
        let region = d.regions[0];
        let params = &kernel.regions[region].params;
        let ty = kernel.ty(params[0]).elem();
        let fill = |w: &mut Writer<'_>, tiles: &[Value]| {
            ring.slots.iter().zip(tiles).for_each(|(&slot, &tile)| w.act(Op::LocalStore, &[slot.into(), tile.into()], &[]));
        };
        let first = ahead.first(w, args[0])?;
        let by = |w: &mut Writer<'_>| plus(w, args[0], args[2], 1, ty);
        let (tiles, state) = self.tiles(w, (ahead, args[0], &first), by, (main, ring))?;
        fill(w, &tiles);
        let held = args.len() - 3;
        let init: Vec<Arg> = args[3..].iter().copied().chain(state).collect();
        let results = w.for_loop([args[0], args[1], args[2]], &init, |w, index, carried| {
            w.act(Op::TaskBarrier, &[], &[]);
            let at = plus(w, index.into(), args[2], 1, ty)?;
            let state: Vec<Arg> = carried[held..].iter().map(|&v| v.into()).collect();
            let (tiles, state) = self.tiles(w, (ahead, at, &state), |w| plus(w, at, args[2], 1, ty), (main, ring))?;
            w.set(params[0], index);
            Self::set_all(w, &params[1..], &carried[..held]);
            self.body(w, region, ring, |_, slot| Ok(slot))?;
            let mut next = self.given(w, region)?;
            w.act(Op::TaskBarrier, &[], &[]);
            fill(w, &tiles);
            next.extend(state);
            Ok(next)
        })?;
        w.act(Op::TaskBarrier, &[], &[]);
        Self::set_all(w, &d.results, &results[..held]);
        Ok(())
    }

    /// The instructions of an iteration, whose loads find their tiles in what `slot` makes of their slots.
    fn body(
        &self,
        w: &mut Writer<'_>,
        region: Region,
        ring: &LoopCopies,
        mut slot: impl FnMut(&mut Writer<'_>, Value) -> Result<Value, Refusal>,
    ) -> Result<(), Refusal> {
        let kernel = self.kernel;
        // What is read for copies alone is not read once more.
        let live = live(kernel, region, &|i| ring.loads.contains(&i), &[]);
        let reads = |i: Inst| kernel.insts[i].op.info().effects == Effects::Reads && !ring.loads.contains(&i);
        let taken = |i: Inst| kernel.insts[i].op != Op::Yield && (live.contains(&i) || !reads(i));
        for &i in kernel.regions[region].insts.iter().filter(|&&i| taken(i)) {
            match ring.loads.iter().position(|&load| load == i) {
                Some(n) => {
                    let slot = slot(w, ring.slots[n])?;
                    let mut tile = w.make(Op::LocalLoad, &[slot.into()], &[], None)?;
                    let ty = kernel.ty(kernel.insts[i].results[0]);
                    if ty.elem().is_packed() {
                        tile = w.make(Op::Bitcast, &[tile.into()], &[], Some(ty))?;
                    }
                    w.set(kernel.insts[i].results[0], tile);
                }
                None => self.inst(w, i, true)?,
            }
        }
        Ok(())
    }

    /// The places of an iteration's loads, whose index and state are given; and the state of the next one.
    fn places(
        &self,
        w: &mut Writer<'_>,
        (ahead, at, state): (&Ahead<'_>, Arg, &[Arg]),
        then: impl FnOnce(&mut Writer<'_>) -> Result<Arg, Refusal>,
        (main, ring): (Inst, &LoopCopies),
    ) -> Result<(Vec<Vec<Arg>>, Vec<Arg>), Refusal> {
        let kernel = self.kernel;
        let (mut places, state) = ahead.step(w, at, state, then)?;
        let mut more = None;
        for (&load, place) in ring.loads.iter().zip(&mut places) {
            let (gathers, out) = (kernel.insts[load].op == Op::Gather, outside(kernel, main, load));
            if !gathers && out.is_none() {
                continue;
            }
            let more = match more {
                Some(more) => more,
                None => {
                    let end = w.get(kernel.insts[main].args[1])?;
                    *more.insert(w.cmp(CmpOp::Lt, at, end)?)
                }
            };
            if gathers {
                mask_all(kernel, w, load, place, more)?;
            } else if let Some((dim, out)) = out {
                place[dim] = w.make(Op::Select, &[more.into(), place[dim], out], &[], None)?.into();
            }
        }
        Ok((places, state))
    }

    /// Loads the tiles of an iteration, whose index and state are given; and gives the state of the next one.
    fn tiles(
        &self,
        w: &mut Writer<'_>,
        step: (&Ahead<'_>, Arg, &[Arg]),
        then: impl FnOnce(&mut Writer<'_>) -> Result<Arg, Refusal>,
        (main, ring): (Inst, &LoopCopies),
    ) -> Result<(Vec<Value>, Vec<Arg>), Refusal> {
        let kernel = self.kernel;
        let (places, state) = self.places(w, step, then, (main, ring))?;
        let tiles = ring.loads.iter().zip(places).map(|(&load, at)| {
            let d = &kernel.insts[load];
            let mut args = vec![w.get(d.args[0])?];
            args.extend(at);
            match d.op {
                Op::Gather => w.make_with(d.op, (&args, d.present | MASK), &d.attrs, None),
                _ => w.make_with(d.op, (&args, d.present), &d.attrs, Some(kernel.ty(d.results[0]))),
            }
        });
        Ok((tiles.collect::<Result<Vec<Value>, Refusal>>()?, state))
    }

    /// Begins the copies of an iteration, whose index and state are given, into a slot, as a group; gives the state of the next one.
    fn begin(
        &self,
        w: &mut Writer<'_>,
        step: (&Ahead<'_>, Arg, &[Arg]),
        then: impl FnOnce(&mut Writer<'_>) -> Result<Arg, Refusal>,
        (main, ring, slot): (Inst, &LoopCopies, Arg),
    ) -> Result<Vec<Arg>, Refusal> {
        let kernel = self.kernel;
        let (places, state) = self.places(w, step, then, (main, ring))?;
        for (n, (&load, at)) in ring.loads.iter().zip(places).enumerate() {
            let buffer = w.bin(Op::LocalIndex, ring.slots[n], slot)?;
            let (d, indices) = (&kernel.insts[load], kernel.operand(load, "indices").len());
            let mut args = vec![w.get(d.args[0])?];
            args.extend(at);
            // A mask and what stands instead come behind the buffer, as the bits that tell of them do.
            args.insert(1 + indices, buffer.into());
            match d.op {
                Op::Gather => w.act_with(Op::GatherAsync, &args, (d.present | MASK) << 1),
                _ => w.act_with(Op::CopyAsync, &args, d.present << 1),
            }
        }
        w.act(Op::CopyAsyncCommit, &[], &[]);
        Ok(state)
    }
}

/// Leaves out all that a gather brings where a step is past the end of a loop: by its mask, which it has then.
fn mask_all(kernel: &Kernel, w: &mut Writer<'_>, gather: Inst, place: &mut Vec<Arg>, more: Value) -> Result<(), Refusal> {
    let d = &kernel.insts[gather];
    let Some(t) = kernel.ty(d.results[0]).as_tile() else { return Err(Refusal::Written { value: d.results[0] }) };
    let ty = Type::Tile(TileType::new(&t.shape, Scalar::I1));
    let more = w.make(Op::Splat, &[more.into()], &[], Some(&ty))?;
    match kernel.operand(gather, "mask") {
        [] => place.push(more.into()),
        [_] => {
            if let Some(own) = place.last_mut() {
                *own = w.bin(Op::And, *own, more)?.into();
            }
        }
        _ => return Err(Refusal::Written { value: d.results[0] }),
    }
    Ok(())
}

/// The index by which a copy for a step past the end of a loop is put outside of its view, and which dimension it is of: there it brings zeros, and nothing
/// moves. `None` where steps past the end are outside of the view by themselves.
fn outside(kernel: &Kernel, main: Inst, load: Inst) -> Option<(usize, Arg)> {
    if kernel.insts[load].op != Op::Load {
        return None;
    }
    let (d, region) = (&kernel.insts[load], kernel.insts[main].regions[0]);
    let (Type::View(view), index) = (kernel.ty(d.args[0]), kernel.regions[region].params[0]) else { return None };
    let end = kernel.insts[main].args[1];
    let indices = kernel.operand(load, "indices");
    let ends_there = |k: usize| match kernel.def_inst(end).map(|i| &kernel.insts[i]) {
        // Of another view, even: its extent is that of this one, or else more is moved, and nothing wrong.
        Some(e) if e.op == Op::Dim => true,
        _ => matches!((kernel.as_const(end), view.dims.get(k)), (Some((Literal::Int(n), _)), Some(Extent::Fixed(e))) if n >= i64::from(*e)),
    };
    if (0..indices.len()).any(|k| indices[k] == index && ends_there(k)) {
        return None;
    }
    let tile = kernel.ty(d.results[0]).shape()?;
    let contiguous = GlobalAccess::of(kernel, load).contiguous();
    let by_rank = |&k: &usize| (Some(k) == contiguous, tile.get(k).is_some_and(|&e| e > 1));
    let dim = (0..indices.len()).min_by_key(by_rank)?;
    let ty = kernel.ty(indices[dim]).elem();
    // Far below zero, whatever is added to it inside of a tile, and a multiple of all that counts.
    let least = match ty.bits() {
        64 => i64::MIN,
        32 => i64::from(i32::MIN),
        _ => return None,
    };
    Some((dim, literal(least, ty)))
}

/// So many steps further, as the type of the index counts.
fn plus(w: &mut Writer<'_>, at: Arg, step: Arg, steps: u32, ty: Scalar) -> Result<Arg, Refusal> {
    let by = match step {
        Arg::Literal(Literal::Int(step), _) => literal(wrap(step.wrapping_mul(i64::from(steps)), ty), ty),
        _ if steps == 1 => step,
        _ => w.bin(Op::Mul, step, literal(steps.into(), ty))?.into(),
    };
    Ok(match (at, by) {
        (Arg::Literal(Literal::Int(x), _), Arg::Literal(Literal::Int(y), _)) => literal(wrap(x.wrapping_add(y), ty), ty),
        _ => w.bin(Op::Add, at, by)?.into(),
    })
}
