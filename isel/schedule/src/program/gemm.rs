//! The plain loop of a matrix product: loads feed products through views, sums are carried, an epilogue stores them.

use super::Refusal;
use super::write::{Arg, Writer, number};
use crate::plan::{ALIGN, PanelTile, Specialised};
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Attr, CmpOp, GridAxis, Inst, Kernel, Literal, Op, Region, Scalar, SharedType, Task, Type, Value, ValueDef};
use tilelift_lane::Target;

const AXES: [GridAxis; 3] = [GridAxis::X, GridAxis::Y, GridAxis::Z];

/// Refuses what is not of this kind.
pub(super) fn admit(kernel: &Kernel, target: &Target, plan: &Specialised) -> Result<(), Refusal> {
    if plan.teams > 1 {
        return Err(Refusal::PingPong);
    }
    // What mixed loops do with their products is theirs.
    let plain = !plan.mixed;
    if let (true, Some(&(dot, _))) = (plain && plan.brief, plan.dots.first()) {
        return Err(Refusal::Promoted { dot });
    }
    if let (true, Some(&dot)) = (plain, plan.lefts.first()) {
        return Err(Refusal::OperandA { dot });
    }
    if let (true, Some(&(dot, _))) = (plain, plan.dots.get(1)) {
        return Err(Refusal::Products { dot });
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
    if plain && depth(kernel, plan.main).is_none() {
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

    /// Waits for the slot of a step, and begins the copies into it.
    pub fn fill(&self, w: &mut Writer<'_>, kernel: &Kernel, plan: &Specialised, step: Value) -> Result<(), Refusal> {
        let [slot, round] = self.turn(w, step)?;
        let empty = w.bin(Op::BarrierIndex, self.empty, slot)?;
        // The phase before the one that is filled.
        let before = w.bin(Op::Add, round, number(1))?;
        w.act(Op::BarrierWait, &[empty.into(), before.into()], &[]);
        let full = w.bin(Op::BarrierIndex, self.full, slot)?;
        let bytes = plan.loads.iter().map(|(_, t)| t.bytes()).sum();
        w.act(Op::BarrierExpect, &[full.into()], &[Attr::Count(bytes)]);
        for (n, &(load, _)) in plan.loads.iter().enumerate() {
            let buffer = w.bin(Op::LocalIndex, self.slots[n], slot)?;
            let mut args = vec![w.get(kernel.insts[load].args[0])?];
            for &v in kernel.operand(load, "indices") {
                args.push(w.get(v)?);
            }
            args.extend([Arg::from(buffer), full.into()]);
            w.act(Op::AsyncLoad, &args, &[]);
        }
        Ok(())
    }

    /// Gives the slot of a step back.
    pub fn give_back(&self, w: &mut Writer<'_>, step: Value) -> Result<(), Refusal> {
        let slot = w.bin(Op::Rem, step, number(self.depth))?;
        let empty = w.bin(Op::BarrierIndex, self.empty, slot)?;
        w.act(Op::BarrierArrive, &[empty.into()], &[]);
        Ok(())
    }
}

/// What is written, and how.
struct Schedule<'k> {
    kernel: &'k Kernel,
    plan: &'k Specialised,
    /// The region of the loop.
    region: Region,
    /// Steps of the loop, and how far each goes.
    steps: Value,
    step: u32,
    ring: Ring,
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
    let mut staging = BTreeMap::new();
    for (i, t) in &plan.stores {
        staging.insert(*i, alloc(&mut w, &t.shape, t)?);
    }
    let words = Type::Barrier(plan.depth);
    let full = w.make(Op::BarrierAlloc, &[], &[Attr::Count(1)], Some(&words))?;
    let empty = w.make(Op::BarrierAlloc, &[], &[Attr::Count(1)], Some(&words))?;
    let region = kernel.insts[plan.main].regions[0];
    let (extent, step) = depth(kernel, plan.main).ok_or(Refusal::Bounds { main: plan.main })?;
    w.copy(extent)?;
    let end = w.get(kernel.insts[extent].results[0])?;
    let end = w.bin(Op::Add, end, number(step - 1))?;
    let steps = w.bin(Op::DivU, end, number(step))?;
    let s = Schedule { steps, step, kernel, plan, region, ring: Ring { depth: plan.depth, full, empty, slots }, staging };
    let producer = w.task(|w| positions(kernel, plan, w, &s.copied(), |w, ring| s.produce(w, ring)))?;
    let everything: BTreeSet<Inst> = kernel.regions[kernel.body].insts.iter().copied().collect();
    let consumers = w.task(|w| positions(kernel, plan, w, &everything, |w, ring| s.consume(w, ring)))?;
    let task = |name: &str, warps: u32, n: usize| Task { registers: plan.registers.map(|r| r[n]), ..Task::new(name, warps) };
    w.tasks(vec![task("producer", group, 0), task("consumers", group * plan.consumers, 1)], &[producer, consumers]);
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

    /// The loop over the steps, which counts by ones; `body` gets the index of the original loop if it asks for it.
    fn steps(
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
        let mine = |r: Region| kernel.regions[r].insts.iter().copied().filter(|i| slice.contains(i) && !is_position(kernel, self.plan, *i));
        mine(kernel.body).try_for_each(|i| w.copy(i))?;
        let ends = self.steps(w, &[start], |w, index, done| {
            let at = w.bin(Op::Mul, index, number(self.step))?;
            w.set(kernel.regions[self.region].params[0], at);
            mine(self.region).try_for_each(|i| w.copy(i))?;
            self.ring.fill(w, kernel, plan, done[0])?;
            Ok(vec![w.bin(Op::Add, done[0], number(1))?.into()])
        })?;
        Ok(ends[0].into())
    }

    /// The consumers at a grid position.
    fn consume(&self, w: &mut Writer<'_>, start: Arg) -> Result<Arg, Refusal> {
        let (kernel, plan) = (self.kernel, self.plan);
        let mut done = start;
        for &i in &kernel.regions[kernel.body].insts {
            if i == plan.main {
                done = self.main(w, done)?;
            } else if let Some(&buffer) = self.staging.get(&i) {
                store(kernel, w, i, buffer)?;
            } else if !is_position(kernel, plan, i) {
                w.copy(i)?;
            }
        }
        Ok(done)
    }

    /// The loop of the consumers.
    fn main(&self, w: &mut Writer<'_>, start: Arg) -> Result<Arg, Refusal> {
        let d = &self.kernel.insts[self.plan.main];
        let sums = d.args[3..].iter().map(|&v| w.get(v)).collect::<Result<Vec<Arg>, Refusal>>()?;
        let some = w.cmp(CmpOp::Lt, number(0), self.steps)?;
        let none: Vec<Arg> = sums.iter().copied().chain([start]).collect();
        let ends = w.choice(some, |w| self.multiply(w, &sums, start), |_| Ok(none))?;
        d.results.iter().zip(&ends).for_each(|(&v, &sum)| w.set(v, sum));
        Ok(ends[sums.len()].into())
    }

    /// At least one step: gives the sums, and the number of the step behind.
    fn multiply(&self, w: &mut Writer<'_>, sums: &[Arg], start: Arg) -> Result<Vec<Arg>, Refusal> {
        let (kernel, plan) = (self.kernel, self.plan);
        let params = &kernel.regions[self.region].params;
        let held = sums.len();
        let init: Vec<Arg> = sums.iter().copied().chain([start]).collect();
        let ends = self.steps(w, &init, |w, index, carried| {
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
            let later = w.cmp(CmpOp::Ne, index, number(0))?;
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
                let v = reshape(self.kernel, w, i)?;
                w.set(d.results[0], v);
            }
            Op::Dot => {
                let args = [w.get(d.args[0])?, w.get(d.args[1])?, w.get(d.args[2])?];
                let sum = w.make(Op::AsyncDot, &args, &d.attrs, None)?;
                let sum = w.make(Op::AsyncDotWait, &[sum.into()], &[Attr::Count(self.plan.in_flight)], None)?;
                w.set(d.results[0], sum);
            }
            // Loads are the producer's, and so are the scalars that say from where.
            _ => {}
        }
        Ok(())
    }
}

/// A task's work at each grid position of the instance: the one it stands at, or every so many-th. `body` gets the number of the first
/// step, and gives that of the first one behind it; `of` is what it computes.
pub(super) fn positions(
    kernel: &Kernel,
    plan: &Specialised,
    w: &mut Writer<'_>,
    of: &BTreeSet<Inst>,
    body: impl FnOnce(&mut Writer<'_>, Arg) -> Result<Arg, Refusal>,
) -> Result<(), Refusal> {
    if !plan.persistent {
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
pub(super) fn is_position(kernel: &Kernel, plan: &Specialised, i: Inst) -> bool {
    plan.persistent && kernel.insts[i].op == Op::ProgramId
}

/// A slot without its extents of 1.
pub(super) fn reshape(kernel: &Kernel, w: &mut Writer<'_>, i: Inst) -> Result<Value, Refusal> {
    let d = &kernel.insts[i];
    let refused = Refusal::View { reshape: i };
    let shape = |v: Value| kernel.ty(v).as_tile().map(|t| t.shape.to_vec()).ok_or(refused);
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

/// A store by a bulk copy.
pub(super) fn store(kernel: &Kernel, w: &mut Writer<'_>, i: Inst, buffer: Value) -> Result<(), Refusal> {
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
