//! The plain loop of a matrix product: loads feed products through views, sums are carried, an epilogue stores them.

use super::Refusal;
use super::bounds::Runs;
use super::epilogue::{Staging, buffer_type, required};
use super::write::{Arg, Writer, number};
use crate::plan::{Specialised, is_view};
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Attr, GridAxis, Inst, Kernel, Op, Region, Task, Type, Value, ValueDef};
use tilelift_lane::Target;

const AXES: [GridAxis; 3] = [GridAxis::X, GridAxis::Y, GridAxis::Z];

/// Refuses what is not of this kind.
pub(super) fn admit(target: &Target, plan: &Specialised) -> Result<(), Refusal> {
    if plan.mixed || plan.overlap.is_some() {
        return Err(Refusal::Mixed { main: plan.main });
    }
    if plan.teams > 1 {
        return Err(Refusal::PingPong);
    }
    if let (true, Some(&(dot, _))) = (plan.brief, plan.dots.first()) {
        return Err(Refusal::Promoted { dot });
    }
    if let Some(&dot) = plan.lefts.first() {
        return Err(Refusal::OperandA { dot });
    }
    if let Some(&(dot, _)) = plan.dots.get(1) {
        return Err(Refusal::Products { dot });
    }
    if !plan.consumers.is_power_of_two() {
        return Err(Refusal::Consumers { groups: plan.consumers });
    }
    // Tasks without registers of their own are given some where a lane has few at entry.
    let units = target.units.as_ref();
    let few = units.is_none_or(|u| tilelift_lane::Registers::of(target, u, (plan.consumers + 1) * u.group_warps).entry < u.registers.most);
    if plan.registers.is_none() && few {
        return Err(Refusal::Registers);
    }
    Ok(())
}

/// Slots of the ring, and what tells who may use them.
struct Ring {
    depth: u32,
    full: Value,
    empty: Value,
    /// The slots of each load.
    slots: Vec<Value>,
}

impl Ring {
    /// The slot of a step, and how often the ring has gone round before.
    fn turn(&self, w: &mut Writer<'_>, step: Value) -> Result<[Value; 2], Refusal> {
        Ok([w.bin(Op::Rem, step, number(self.depth))?, w.bin(Op::Div, step, number(self.depth))?])
    }

    /// Gives the slot of a step back.
    fn give_back(&self, w: &mut Writer<'_>, step: Value) -> Result<(), Refusal> {
        let slot = w.bin(Op::Rem, step, number(self.depth))?;
        let empty = w.bin(Op::BarrierIndex, self.empty, slot)?;
        w.act(Op::BarrierArrive, &[empty.into()], &[]);
        Ok(())
    }
}

/// What is written, and how.
pub(super) struct Schedule<'k> {
    pub kernel: &'k Kernel,
    pub plan: &'k Specialised,
    /// The region of the loop.
    region: Region,
    ring: Ring,
    /// A buffer per bulk store.
    pub staging: BTreeMap<Inst, Staging>,
    /// A requirement of a layout in registers, if there is one.
    pub required: Option<Inst>,
}

/// Writes the kernel.
pub(super) fn write(kernel: &Kernel, target: &Target, plan: &Specialised) -> Result<Kernel, Refusal> {
    let group = target.units.as_ref().map_or(1, |u| u.group_warps);
    let mut w = Writer::new(kernel);
    let mut slots = Vec::new();
    for (_, t) in &plan.loads {
        let shape: Vec<u32> = [plan.depth].iter().chain(&t.shape).copied().collect();
        slots.push(w.buffer(&buffer_type(&shape, t), t)?);
    }
    let mut staging = BTreeMap::new();
    for (i, t) in &plan.stores {
        let (shape, down) = Staging::shape(t, plan.staging_parts);
        let buffer = w.buffer(&buffer_type(&shape, t), t)?;
        staging.insert(*i, Staging { buffer, parts: (down, plan.staging_parts) });
    }
    let words = Type::Barrier(plan.depth);
    let full = w.make(Op::BarrierAlloc, &[], &[Attr::Count(1)], Some(&words))?;
    let empty = w.make(Op::BarrierAlloc, &[], &[Attr::Count(1)], Some(&words))?;
    let region = kernel.insts[plan.main].regions[0];
    let s = Schedule { kernel, plan, region, ring: Ring { depth: plan.depth, full, empty, slots }, staging, required: required(kernel) };
    let producer = w.task(|w| s.positions(w, &s.copied(), |w, ring| s.produce(w, ring)))?;
    let everything: BTreeSet<Inst> = kernel.regions[kernel.body].insts.iter().copied().collect();
    let consumers = w.task(|w| s.positions(w, &everything, |w, ring| s.consume(w, ring)))?;
    let task = |name: &str, warps: u32, n: usize| Task { registers: plan.registers.map(|r| r[n]), ..Task::new(name, warps) };
    w.tasks(vec![task("producer", group, 0), task("consumers", group * plan.consumers, 1)], &[producer, consumers]);
    Ok(w.finish())
}

impl<'k> Schedule<'k> {
    /// What decides how many copies there are, and their places.
    fn copied(&self) -> BTreeSet<Inst> {
        let kernel = self.kernel;
        let bounds = kernel.insts[self.plan.main].args[..3].iter();
        let indices = self.plan.loads.iter().flat_map(|&(i, _)| kernel.operand(i, "indices"));
        let mut open: Vec<Value> = bounds.chain(indices).copied().collect();
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

    /// A task's work at each grid position of the instance: the one it stands at, or every so many-th. `body` gets the number of the first
    /// step, and gives that of the first one behind it; `of` is what it computes.
    fn positions(
        &self,
        w: &mut Writer<'_>,
        of: &BTreeSet<Inst>,
        body: impl FnOnce(&mut Writer<'_>, Arg) -> Result<Arg, Refusal>,
    ) -> Result<(), Refusal> {
        let kernel = self.kernel;
        if !self.plan.persistent {
            return body(w, number(0)).map(drop);
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
        w.for_loop([worker.into(), end.into(), workers.into()], &[number(0)], |w, at, done| {
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
            Ok(vec![body(w, done[0].into())?])
        })?;
        Ok(())
    }

    /// True for what `positions` makes.
    pub(super) fn is_position(&self, i: Inst) -> bool {
        self.plan.persistent && self.kernel.insts[i].op == Op::ProgramId
    }

    /// The producer at a grid position.
    fn produce(&self, w: &mut Writer<'_>, start: Arg) -> Result<Arg, Refusal> {
        let (kernel, plan) = (self.kernel, self.plan);
        let slice = self.copied();
        let mine = |r: Region| kernel.regions[r].insts.iter().copied().filter(|i| slice.contains(i) && !self.is_position(*i));
        mine(kernel.body).try_for_each(|i| w.copy(i))?;
        let ends = self.steps(w, &[start], |w, step, done| {
            w.set(kernel.regions[self.region].params[0], step.at);
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

    /// The loop of the consumers.
    pub(super) fn main(&self, w: &mut Writer<'_>, start: Arg) -> Result<Arg, Refusal> {
        let d = &self.kernel.insts[self.plan.main];
        let sums = d.args[3..].iter().map(|&v| w.get(v)).collect::<Result<Vec<Arg>, Refusal>>()?;
        let none: Vec<Arg> = sums.iter().copied().chain([start]).collect();
        let ends = match self.runs(w)? {
            Runs::Always => self.multiply(w, &sums, start)?,
            Runs::Never => none,
            Runs::If(some) => w.choice(some, |w| self.multiply(w, &sums, start), |_| Ok(none))?,
        };
        d.results.iter().zip(&ends).for_each(|(&v, &sum)| w.set(v, sum));
        Ok(ends[sums.len()])
    }

    /// At least one step: gives the sums, and the number of the step behind.
    fn multiply(&self, w: &mut Writer<'_>, sums: &[Arg], start: Arg) -> Result<Vec<Arg>, Refusal> {
        let (kernel, plan) = (self.kernel, self.plan);
        let params = &kernel.regions[self.region].params;
        let held = sums.len();
        let init: Vec<Arg> = sums.iter().copied().chain([start]).collect();
        let ends = self.steps(w, &init, |w, step, carried| {
            params[1..].iter().zip(carried).for_each(|(&p, &v)| w.set(p, v));
            let done = carried[held];
            let [slot, round] = self.ring.turn(w, done)?;
            let full = w.bin(Op::BarrierIndex, self.ring.full, slot)?;
            w.act(Op::BarrierWait, &[full.into(), round.into()], &[]);
            for (n, &(load, _)) in plan.loads.iter().enumerate() {
                let buffer = w.bin(Op::LocalIndex, self.ring.slots[n], slot)?;
                w.set(kernel.insts[load].results[0], buffer);
            }
            for &i in &kernel.regions[self.region].insts {
                self.step(w, i)?;
            }
            // All but the newest product are done: the slot before is read.
            let later = step.later(w)?;
            let give_back = |w: &mut Writer<'_>| {
                let before = w.bin(Op::Sub, done, number(1))?;
                self.ring.give_back(w, before).map(|()| Vec::new())
            };
            w.choice(later, give_back, |_| Ok(Vec::new()))?;
            let mut next = kernel.yields(self.region).iter().map(|&v| w.get(v)).collect::<Result<Vec<Arg>, Refusal>>()?;
            next.push(w.bin(Op::Add, done, number(1))?.into());
            Ok(next)
        })?;
        let mut out = Vec::new();
        for &sum in &ends[..held] {
            out.push(w.make(Op::AsyncDotWait, &[sum.into()], &[Attr::Count(0)], None)?.into());
        }
        let last = w.bin(Op::Sub, ends[held], number(1))?;
        self.ring.give_back(w, last)?;
        out.push(ends[held].into());
        Ok(out)
    }

    /// An instruction of the loop: views of slots, and products.
    fn step(&self, w: &mut Writer<'_>, i: Inst) -> Result<(), Refusal> {
        let d = &self.kernel.insts[i];
        match d.op {
            Op::Transpose => {
                let a = w.get(d.args[0])?;
                let v = w.make(Op::LocalTranspose, &[a], &d.attrs, None)?;
                w.set(d.results[0], v);
            }
            Op::Reshape => {
                let v = self.reshape(w, i)?;
                w.set(d.results[0], v);
            }
            Op::Dot => {
                let args = [w.get(d.args[0])?, w.get(d.args[1])?, w.get(d.args[2])?];
                let sum = w.make(Op::AsyncDot, &args, &d.attrs, None)?;
                let sum = w.make(Op::AsyncDotWait, &[sum.into()], &[Attr::Count(self.plan.in_flight)], None)?;
                w.set(d.results[0], sum);
            }
            _ if is_view(self.kernel, i) => {
                // The slot lies so.
                let v = w.get(d.args[0])?;
                w.set(d.results[0], v);
            }
            // Loads are the producer's, and so are the scalars that say from where.
            _ => {}
        }
        Ok(())
    }

    /// A slot without its extents of 1.
    fn reshape(&self, w: &mut Writer<'_>, i: Inst) -> Result<Value, Refusal> {
        let d = &self.kernel.insts[i];
        let refused = Refusal::View { reshape: i };
        let shape = |v: Value| self.kernel.ty(v).as_tile().map(|t| t.shape.to_vec()).ok_or(refused);
        let (from, to) = (shape(d.args[0])?, shape(d.results[0])?);
        let real: Vec<u32> = from.iter().copied().filter(|&e| e != 1).collect();
        let Arg::Value(mut v) = w.get(d.args[0])? else { return Err(refused) };
        if to != real {
            return Err(refused);
        }
        let (ones, others): (Vec<u32>, Vec<u32>) = (0..from.len() as u32).partition(|&k| from[k as usize] == 1);
        let order: Vec<u32> = ones.iter().chain(&others).copied().collect();
        if order.windows(2).any(|p| p[0] > p[1]) {
            v = w.make(Op::LocalTranspose, &[v.into()], &[Attr::Perm(order.iter().copied().collect())], None)?;
        }
        for _ in &ones {
            v = w.bin(Op::LocalIndex, v, number(0))?;
        }
        Ok(v)
    }
}
