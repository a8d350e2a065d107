//! The plain loop of a matrix product: loads feed products through views, sums are carried, an epilogue stores them.

use super::Refusal;
use super::ping_pong::Turn;
use super::write::{Arg, Writer, number};
use crate::plan::{ALIGN, PanelTile, Specialised};
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Attr, GridAxis, Inst, Kernel, Literal, Op, Region, Scalar, SharedType, Task, Type, Value, ValueDef};
use tilelift_lane::Target;

const AXES: [GridAxis; 3] = [GridAxis::X, GridAxis::Y, GridAxis::Z];

/// Refuses what is not of this kind.
pub(super) fn admit(kernel: &Kernel, target: &Target, plan: &Specialised) -> Result<(), Refusal> {
    if plan.mixed || plan.overlap.is_some() {
        return Err(Refusal::Mixed { main: plan.main });
    }
    if !plan.consumers.is_power_of_two() {
        return Err(Refusal::Consumers { groups: plan.consumers });
    }
    let accesses = || plan.loads.iter().chain(&plan.stores);
    if let Some(&(access, _)) = accesses().find(|(_, t)| t.span != t.widest) {
        return Err(Refusal::Swizzle { access });
    }
    if let Some(&(load, _)) = plan.loads.iter().find(|(_, t)| !t.bytes().is_multiple_of(ALIGN)) {
        return Err(Refusal::Slot { load });
    }
    let top = &kernel.regions[kernel.body].insts;
    if let Some(&(store, _)) = plan.stores.iter().find(|(i, _)| !top.contains(i) || plan.staging_parts != 1) {
        return Err(Refusal::Store { store });
    }
    if let Some(&load) = top.iter().skip_while(|&&i| i != plan.main).find(|&&i| kernel.insts[i].op == Op::Load) {
        return Err(Refusal::Loads { load });
    }
    let mut required = None;
    kernel.walk(kernel.body, &mut |i| required = required.or((kernel.insts[i].op == Op::RequireLayout).then_some(i)));
    if let Some(require) = required {
        return Err(Refusal::Layouts { require });
    }
    if depth(kernel, plan.main).is_none() {
        return Err(Refusal::Bounds { main: plan.main });
    }
    // Tasks without registers of their own are given some where a lane has few at entry.
    let units = target.units.as_ref();
    let few = units.is_none_or(|u| tilelift_lane::Registers::of(target, u, (plan.consumers + 1) * u.group_warps).entry < u.registers.most);
    if plan.registers.is_none() && few {
        return Err(Refusal::Registers);
    }
    Ok(())
}

/// The view's extent up to which a loop goes from zero, and its step, which is a literal.
fn depth(kernel: &Kernel, main: Inst) -> Option<(Inst, u32)> {
    let args = &kernel.insts[main].args;
    let number = |v: Value| match kernel.as_const(v) {
        Some((Literal::Int(x), Scalar::I32)) => Some(x),
        _ => None,
    };
    let extent = kernel.def_inst(args[1]).filter(|&i| kernel.insts[i].op == Op::Dim)?;
    let step = number(args[2]).and_then(|x| u32::try_from(x).ok()).filter(|&n| n > 0)?;
    (number(args[0])? == 0).then_some((extent, step))
}

/// Slots of the ring, and what tells who may use them.
pub(super) struct Ring {
    pub depth: u32,
    pub full: Value,
    pub empty: Value,
    /// The slots of each load.
    pub slots: Vec<Value>,
}

impl Ring {
    /// The slot of a step, and how often the ring has gone round before.
    pub fn turn(&self, w: &mut Writer<'_>, step: Value) -> Result<[Value; 2], Refusal> {
        Ok([w.bin(Op::Rem, step, number(self.depth))?, w.bin(Op::Div, step, number(self.depth))?])
    }

    /// Gives the slot of a step back.
    pub fn give_back(&self, w: &mut Writer<'_>, step: Value) -> Result<(), Refusal> {
        let slot = w.bin(Op::Rem, step, number(self.depth))?;
        let empty = w.bin(Op::BarrierIndex, self.empty, slot)?;
        w.act(Op::BarrierArrive, &[empty.into()], &[]);
        Ok(())
    }
}

/// The positions of an instance that a task takes: from the `first`th on, every `of`th.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub first: u32,
    pub of: u32,
}

/// Names of the tasks of consumers that take positions in turns.
const TEAMS: [&str; 2] = ["first", "second"];

/// What is written, and how.
pub(super) struct Schedule<'k> {
    pub kernel: &'k Kernel,
    pub plan: &'k Specialised,
    /// The region of the loop.
    pub region: Region,
    /// Steps of the loop, and how far each goes.
    pub steps: Value,
    step: u32,
    pub ring: Ring,
    /// A buffer per bulk store.
    staging: BTreeMap<Inst, Value>,
}

/// Writes the kernel.
pub(super) fn write(kernel: &Kernel, target: &Target, plan: &Specialised) -> Result<Kernel, Refusal> {
    let group = target.units.as_ref().map_or(1, |u| u.group_warps);
    let mut w = Writer::new(kernel);
    let alloc = |w: &mut Writer<'_>, shape: &[u32], t: &PanelTile| {
        w.make(Op::LocalAlloc, &[], &[], Some(&Type::Shared(SharedType::new(shape, t.elem))))
    };
    let mut slots = Vec::new();
    for (_, t) in &plan.loads {
        let shape: Vec<u32> = [plan.depth].iter().chain(&t.shape).copied().collect();
        slots.push(alloc(&mut w, &shape, t)?);
    }
    let mut staging: Vec<BTreeMap<Inst, Value>> = Vec::new();
    for _ in 0..plan.teams {
        let own = plan.stores.iter().map(|(i, t)| Ok((*i, alloc(&mut w, &t.shape, t)?)));
        staging.push(own.collect::<Result<_, Refusal>>()?);
    }
    let words = Type::Barrier(plan.depth);
    let full = w.make(Op::BarrierAlloc, &[], &[Attr::Count(1)], Some(&words))?;
    let empty = w.make(Op::BarrierAlloc, &[], &[Attr::Count(1)], Some(&words))?;
    let turns = match plan.teams {
        1 => None,
        n => Some(w.make(Op::BarrierAlloc, &[], &[Attr::Count(1)], Some(&Type::Barrier(n)))?),
    };
    let region = kernel.insts[plan.main].regions[0];
    let (extent, step) = depth(kernel, plan.main).ok_or(Refusal::Bounds { main: plan.main })?;
    w.copy(extent)?;
    let end = w.get(kernel.insts[extent].results[0])?;
    let end = w.bin(Op::Add, end, number(step - 1))?;
    let steps = w.bin(Op::DivU, end, number(step))?;
    let ring = Ring { depth: plan.depth, full, empty, slots };
    let mut s = Schedule { steps, step, kernel, plan, region, ring, staging: BTreeMap::new() };
    let task = |name: &str, warps: u32, n: usize| Task { registers: plan.registers.map(|r| r[n]), ..Task::new(name, warps) };
    let all = Share { first: 0, of: 1 };
    let mut tasks = vec![task("producer", group, 0)];
    let mut regions = vec![w.task(|w| s.positions(w, &s.copied(), all, &[number(0)], |w, ring| Ok(vec![s.produce(w, ring[0])?])))?];
    let everything: BTreeSet<Inst> = kernel.regions[kernel.body].insts.iter().copied().collect();
    for (team, own) in (0..).zip(staging) {
        s.staging = own;
        let name = if turns.is_none() { "consumers" } else { TEAMS[team as usize % TEAMS.len()] };
        tasks.push(task(name, group * plan.consumers, 1));
        regions.push(w.task(|w| match turns {
            Some(turns) => s.every_other(w, &everything, team, turns),
            None => s.positions(w, &everything, all, &[number(0)], |w, ring| Ok(vec![s.consume(w, ring[0], None)?])),
        })?);
    }
    w.tasks(tasks, &regions);
    Ok(w.finish())
}

impl<'k> Schedule<'k> {
    /// What decides the places of the copies.
    fn copied(&self) -> BTreeSet<Inst> {
        let kernel = self.kernel;
        let mut open: Vec<Value> = self.plan.loads.iter().flat_map(|&(i, _)| kernel.operand(i, "indices").iter().copied()).collect();
        let mut slice = BTreeSet::new();
        while let Some(v) = open.pop() {
            if let ValueDef::Result(i, _) = kernel.values[v].def
                && slice.insert(i)
            {
                open.extend(&kernel.insts[i].args);
            }
        }
        slice
    }

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
        for _ in 0..share.first {
            first = w.bin(Op::Add, first, workers)?;
        }
        if share.of > 1 {
            stride = w.bin(Op::Mul, workers, number(share.of))?;
        }
        w.for_loop([first.into(), end.into(), stride.into()], init, |w, at, carried| {
            let set = |w: &mut Writer<'_>, axis: usize, v: Value| wanted.get(&axis).into_iter().flatten().for_each(|&p| w.set(p, v));
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

    /// True for what `positions` makes.
    fn is_position(&self, i: Inst) -> bool {
        self.plan.persistent && self.kernel.insts[i].op == Op::ProgramId
    }

    /// The loop over the steps, which counts by ones; `body` gets the index of the original loop if it asks for it.
    pub fn steps(
        &self,
        w: &mut Writer<'_>,
        init: &[Arg],
        body: impl FnOnce(&mut Writer<'_>, Value, &[Value]) -> Result<Vec<Arg>, Refusal>,
    ) -> Result<Vec<Value>, Refusal> {
        w.for_loop([number(0), self.steps.into(), number(1)], init, body)
    }

    /// The producer at a grid position.
    fn produce(&self, w: &mut Writer<'_>, start: Arg) -> Result<Arg, Refusal> {
        let (kernel, plan) = (self.kernel, self.plan);
        let slice = self.copied();
        let mine = |r: Region| kernel.regions[r].insts.iter().copied().filter(|i| slice.contains(i) && !self.is_position(*i));
        mine(kernel.body).try_for_each(|i| w.copy(i))?;
        let ends = self.steps(w, &[start], |w, index, done| {
            let at = w.bin(Op::Mul, index, number(self.step))?;
            w.set(kernel.regions[self.region].params[0], at);
            mine(self.region).try_for_each(|i| w.copy(i))?;
            let [slot, round] = self.ring.turn(w, done[0])?;
            let empty = w.bin(Op::BarrierIndex, self.ring.empty, slot)?;
            // The phase before the one that is filled.
            let before = w.bin(Op::Add, round, number(1))?;
            w.act(Op::BarrierWait, &[empty.into(), before.into()], &[]);
            let full = w.bin(Op::BarrierIndex, self.ring.full, slot)?;
            let bytes = plan.loads.iter().map(|(_, t)| t.bytes()).sum();
            w.act(Op::BarrierExpect, &[full.into()], &[Attr::Count(bytes)]);
            for (n, &(load, _)) in plan.loads.iter().enumerate() {
                let buffer = w.bin(Op::LocalIndex, self.ring.slots[n], slot)?;
                let mut args = vec![w.get(kernel.insts[load].args[0])?];
                for &v in kernel.operand(load, "indices") {
                    args.push(w.get(v)?);
                }
                args.extend([Arg::from(buffer), full.into()]);
                w.act(Op::AsyncLoad, &args, &[]);
            }
            Ok(vec![w.bin(Op::Add, done[0], number(1))?.into()])
        })?;
        Ok(ends[0].into())
    }

    /// The consumers at a grid position; `turn` if others take the next one.
    pub fn consume(&self, w: &mut Writer<'_>, start: Arg, turn: Option<Turn>) -> Result<Arg, Refusal> {
        let (kernel, plan) = (self.kernel, self.plan);
        let mut done = start;
        for &i in &kernel.regions[kernel.body].insts {
            if i == plan.main {
                done = self.main(w, done, turn)?;
            } else if let Some(&buffer) = self.staging.get(&i) {
                self.store(w, i, buffer)?;
            } else if !self.is_position(i) {
                w.copy(i)?;
            }
        }
        Ok(done)
    }

    /// A store by a bulk copy.
    fn store(&self, w: &mut Writer<'_>, i: Inst, buffer: Value) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let value = w.get(kernel.operand(i, "value")[0])?;
        w.act(Op::AsyncStoreWait, &[], &[Attr::Count(0)]);
        w.act(Op::LocalStore, &[buffer.into(), value], &[]);
        w.act(Op::FenceAsync, &[], &[]);
        w.act(Op::TaskBarrier, &[], &[]);
        let mut args = vec![w.get(kernel.insts[i].args[0])?];
        for &v in kernel.operand(i, "indices") {
            args.push(w.get(v)?);
        }
        args.push(buffer.into());
        w.act(Op::AsyncStore, &args, &[]);
        Ok(())
    }
}
