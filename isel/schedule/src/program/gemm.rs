//! The tasks of a specialised loop: rings, and the grid positions that the instance runs. What the producer does at one is [`super::produce`]'s, what the
//! consumers do [`super::epilogue`]'s, the loop of plain products [`super::consume`]'s, that of loops that compute between them [`super::mixed`]'s.

use super::Refusal;
use super::schedule::{ProgramPlan, Ring, Share, Staging, buffer_type, required};
use super::sliced::NAMES;
use super::slots::Slots;
use super::write::{Arg, Writer, number};
use crate::longest_first::LaunchOrder;
use crate::plan::{COPYING_WARPS, Specialised, SwizzledTile, TRANSPOSER_REGISTERS, live};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Attr, GridAxis, Inst, Kernel, Op, Task, Type, Value};
use tilelift_lane::Target;

const AXES: [GridAxis; 3] = [GridAxis::X, GridAxis::Y, GridAxis::Z];

/// Writes the kernel.
pub(super) fn write<'k>(kernel: &'k Kernel, target: &'k Target, plan: &'k Specialised) -> Result<Kernel, Refusal> {
    let group = target.units.as_ref().map_or(1, |u| u.group_warps);
    let mut w = Writer::new(kernel);
    w.loc = kernel.locs[plan.main];
    if !plan.persistent && target.begins_in_order {
        w.take_in_order(LaunchOrder::of(kernel, &plan.loops().map(|s| s.main).collect::<Vec<Inst>>()));
    }
    let mut operands = Slots::default();
    let mut slots = Vec::new();
    for s in plan.loops() {
        slots.push(operands.of(&mut w, plan.depth, s.loads.iter().map(|l| (&l.1, s.by_lanes.contains(&l.0))))?);
    }
    let mut stores: Vec<&(Inst, SwizzledTile)> = plan.stores.iter().filter(|s| !plan.results_over.contains_key(&s.0)).collect();
    if plan.staging_shared {
        stores.sort_by_key(|s| Reverse(s.1.bytes()));
    }
    let (mut staging, mut first) = (BTreeMap::new(), None);
    for (i, t) in stores {
        let (mut shape, down) = Staging::shape(t, plan.staging_parts);
        // Each replica has a buffer of its own.
        if plan.consumer_sets > 1 {
            shape.insert(0, plan.consumer_sets);
        }
        let buffer = w.buffer_in(&buffer_type(&shape, t), t, first.filter(|_| plan.staging_shared))?;
        first.get_or_insert(buffer);
        staging.insert(*i, Staging { buffer, parts: (down, plan.staging_parts) });
    }
    let mbarriers = Type::Barrier(plan.depth);
    // The producer's lanes arrive when what they copy is there, beside the bytes of units.
    let copied = plan.loops().any(|s| !(s.vectors.is_empty() && s.by_lanes.is_empty()));
    let brought = plan.loops().any(|s| s.loads.len() + s.lane_tiles.len() > s.by_lanes.len());
    let fills = u32::from(copied) + u32::from(brought);
    let full = w.make(Op::BarrierAlloc, &[], &[Attr::Count(fills)], Some(&mbarriers))?;
    // Who transposes operands reads slots as well.
    let tasks_of_columns = plan.columns.as_ref().map_or(1, |c| c.tasks);
    let readers = tasks_of_columns + u32::from(!plan.transposed_b.is_empty());
    let empty = w.make(Op::BarrierAlloc, &[], &[Attr::Count(readers)], Some(&mbarriers))?;
    let barriers = match plan.consumer_sets {
        1 => None,
        n => Some(w.make(Op::BarrierAlloc, &[], &[Attr::Count(1)], Some(&Type::Barrier(n)))?),
    };
    let fenced = plan.loops().any(|s| !s.by_lanes.is_empty());
    let ring = Ring { depth: plan.depth, full, empty, copied, brought, fenced, turn: [0, 1] };
    let mut ring_late = None;
    if apart(plan) {
        let full = w.make(Op::BarrierAlloc, &[], &[Attr::Count(fills)], Some(&mbarriers))?;
        let empty = w.make(Op::BarrierAlloc, &[], &[Attr::Count(readers)], Some(&mbarriers))?;
        ring_late = Some(Ring { full, empty, ..ring.clone() });
    }
    let units = target.units.as_ref();
    let required = required(kernel);
    let sole = plan.before.is_empty();
    let one = |plan: &'k Specialised, slots: Vec<Value>, before: Vec<ProgramPlan<'k>>| {
        let region = kernel.insts[plan.main].regions[0];
        let copied = |i: Inst| plan.loads.iter().chain(&plan.lane_tiles).any(|l| l.0 == i);
        // Masks of what lanes read they compute.
        let masked = |i: Inst| plan.lane_tiles.iter().any(|l| l.0 == i) && !kernel.operand(i, "mask").is_empty();
        let in_ring = |i: Inst| copied(i) && !masked(i) || plan.prefetched.contains(&i) || plan.vectors.contains(&i);
        let live = if plan.mixed { live(kernel, region, &in_ring, &plan.updates) } else { BTreeSet::new() };
        let (staging, front) = (BTreeMap::new(), BTreeSet::new());
        ProgramPlan {
            count: None,
            kernel,
            plan,
            units,
            region,
            live,
            ring: ring.clone(),
            ring_late: ring_late.clone(),
            slots,
            staging,
            transposed: None,
            brought: None,
            handed: None,
            staged: Vec::new(),
            updates: Vec::new(),
            vectors: Vec::new(),
            slices: None,
            lane_tiles: Vec::new(),
            front,
            required,
            alone: sole,
            before,
        }
    };
    let own = slots.pop().unwrap_or_default();
    let before = plan.before.iter().zip(slots).map(|(s, slots)| one(s, slots, Vec::new())).collect();
    let mut s = ProgramPlan { staging, ..one(plan, own, before) };
    if barriers.is_some() {
        s.count = s.counted(&mut w)?;
    }
    s.bring(&mut w)?;
    for (i, t) in &plan.stores {
        let over = plan.results_over.get(i).and_then(|&n| s.brought.as_ref()?.buffers.get(n).copied());
        if let Some(over) = over {
            let (shape, down) = Staging::shape(t, plan.staging_parts);
            let buffer = w.buffer_in(&buffer_type(&shape, t), t, Some(over))?;
            s.staging.insert(*i, Staging { buffer, parts: (down, plan.staging_parts) });
        }
    }
    s.alloc_transposed(&mut w)?;
    s.alloc_staged(&mut w)?;
    s.alloc_handed(&mut w)?;
    s.alloc_updates(&mut w)?;
    s.alloc_lane_tiles(&mut w, &mut Slots::default())?;
    s.alloc_vectors(&mut w)?;
    s.alloc_slices(&mut w)?;
    s.front = s.in_front(&mut w)?;
    let only = s.brought_only();
    s.before.iter_mut().for_each(|b| b.live.retain(|i| !only.contains(i)));
    s.live.retain(|i| !only.contains(i));
    s.front.extend(only);
    let task = |name: &str, warps: u32, n: usize| Task { registers: plan.registers.map(|r| r[n]), ..Task::new(name, warps) };
    let all = Share::all();
    let mut tasks = vec![task("producer", if plan.vectors.is_empty() { group } else { COPYING_WARPS }, 0)];
    let mut regions = vec![w.task(|w| s.positions(w, &plan.replay.insts, all, &[number(0)], |w, ring| Ok(vec![s.produce(w, ring[0])?])))?];
    if s.transposed.is_some() {
        tasks.push(Task { registers: plan.registers.map(|_| TRANSPOSER_REGISTERS), ..Task::new("transposer", group) });
        regions.push(w.task(|w| s.positions(w, &plan.replay.insts, all, &[number(0)], |w, ring| Ok(vec![s.transposer(w, ring[0])?])))?);
    }
    if plan.columns.is_some() {
        for number in 0..tasks_of_columns {
            tasks.push(task(if number == 0 { "consumers" } else { "columns" }, group, 1));
            regions.push(w.task(|w| s.columns(w, number))?);
        }
        w.tasks(tasks, &regions);
        return Ok(w.finish());
    }
    let everything: BTreeSet<Inst> = kernel.regions[kernel.body].insts.iter().copied().collect();
    s.ring.turn = [0, plan.slices];
    tasks.push(task(NAMES[0], group * plan.consumers, 1).replicas(plan.consumer_sets));
    regions.push(w.replicas(|w, own| match barriers {
        Some(barriers) => {
            for staging in s.staging.values_mut() {
                staging.buffer = w.bin(Op::LocalIndex, staging.buffer, own)?;
            }
            s.every_other(w, &everything, own, barriers)
        }
        None => s.positions(w, &everything, all, &[number(0)], |w, ring| Ok(vec![s.consume(w, ring[0], None)?])),
    })?);
    for own in 1..plan.slices {
        if let Some(slices) = &mut s.slices {
            slices.own = own;
        }
        s.ring.turn = [own, plan.slices];
        tasks.push(task(NAMES[own as usize % NAMES.len()], group * plan.consumers, 1));
        regions.push(w.task(|w| s.positions(w, &everything, all, &[number(0)], |w, ring| Ok(vec![s.consume(w, ring[0], None)?])))?);
    }
    w.tasks(tasks, &regions);
    Ok(w.finish())
}

/// True where what late products read is filled and given back apart: a slot is read over two steps, and of two none else would be left to be filled
/// meanwhile.
fn apart(plan: &Specialised) -> bool {
    let units_alone = plan.by_lanes.is_empty()
        && plan.masked.is_empty()
        && plan.vectors.is_empty()
        && plan.lane_tiles.is_empty()
        && plan.transposed_b.is_empty();
    plan.depth == 2 && plan.before.is_empty() && units_alone && plan.overlap.as_ref().is_some_and(|o| !o.read_late.is_empty())
}

impl<'k> ProgramPlan<'k> {
    /// A task's work at its grid positions: the one that the instance stands at, or its share of every so many-th. `body` gets and gives what is
    /// carried from one to the next; `of` is what it computes.
    pub fn positions(
        &self,
        w: &mut Writer<'_>,
        of: &BTreeSet<Inst>,
        share: Share,
        init: &[Arg],
        body: impl FnOnce(&mut Writer<'_>, &[Arg]) -> Result<Vec<Arg>, Refusal>,
    ) -> Result<(), Refusal> {
        let kernel = self.kernel;
        if !self.plan.persistent {
            return body(w, init).map(drop);
        }
        let mut wanted: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
        let mut all = Vec::new();
        of.iter().for_each(|&i| {
            all.push(i);
            kernel.insts[i].regions.iter().for_each(|&r| kernel.walk(r, &mut |j| all.push(j)));
        });
        for i in all {
            let d = &kernel.insts[i];
            if let (Op::ProgramId, Some(Attr::Grid(axis))) = (d.op, d.attrs.first()) {
                let n = AXES.iter().position(|a| a == axis).unwrap_or(0);
                wanted.entry(n).or_default().push(d.results[0]);
            }
        }
        let grid = [w.grid(AXES[0])?, w.grid(AXES[1])?, w.grid(AXES[2])?];
        let plane = w.bin(Op::Mul, grid[0], grid[1])?;
        let end = w.bin(Op::Mul, plane, grid[2])?;
        let worker = w.make(Op::WorkerId, &[], &[], None)?;
        let workers = w.make(Op::NumWorkers, &[], &[], None)?;
        let (mut first, mut stride) = (worker, workers);
        if share.of > 1 {
            let before = w.bin(Op::Mul, workers, share.first)?;
            first = w.bin(Op::Add, worker, before)?;
            stride = w.bin(Op::Mul, workers, number(share.of))?;
        }
        w.for_loop([first.into(), end.into(), stride.into()], init, |w, at, carried| {
            let set =
                |w: &mut Writer<'_>, axis: usize, v: Value| wanted.get(&axis).into_iter().flatten().for_each(|&p| w.set_position(p, v));
            if wanted.contains_key(&0) {
                let x = w.bin(Op::RemU, at, grid[0])?;
                set(w, 0, x);
            }
            if wanted.keys().any(|&n| n > 0) {
                let row = w.bin(Op::DivU, at, grid[0])?;
                if wanted.contains_key(&1) {
                    let y = w.bin(Op::RemU, row, grid[1])?;
                    set(w, 1, y);
                }
                if wanted.contains_key(&2) {
                    let z = w.bin(Op::DivU, row, grid[1])?;
                    set(w, 2, z);
                }
            }
            let carried: Vec<Arg> = carried.iter().map(|&v| v.into()).collect();
            body(w, &carried)
        })?;
        Ok(())
    }
}
