//! Mixed loops whose products run while the lanes compute: see [`crate::plan::Overlap`] for the parts.
//!
//! ```text
//! front        wait full(0) ─ early(0) ─ wait ─ head(0) ─ tail(0)
//! each n > 0   wait full(n) ─ start early(n), start late(n-1) ─ wait for early ─ head(n) ─ wait for late ─ give slot n-1 back ─ tail(n)
//! behind       late(last) ─ wait ─ give its slot back
//! ```
//!
//! Where slots of late products are apart, full(n) is full of what early ones read: its part is given back behind early(n), and late(n) waits for its own.
//!
//! Where the lanes take longer than the products, the wait for late products has to be held behind the head. A step asks there whether the next one's slot is full:
//! no assembler moves a wait over that, and the next step begins its products at once. That the last step asks, too, the producer fills one slot more, with
//! nothing; no other loop takes the ring then.
//!
//! Beside its products a step loads short tiles and numbers for the next one.
//!
//! The loop carries what heads carry, the operands A of late products, and the accumulators on which these add.

use super::Refusal;
use super::bounds::Runs;
use super::schedule::ProgramPlan;
use super::write::{Arg, Writer, number};
use crate::plan::{Overlap, Specialised, is_zero};
use tilelift_ir::{Attr, Inst, Kernel, Literal, Op, Region, Value, ValueDef};

/// A loop in parts.
struct LoopParts<'a, 'k> {
    schedule: &'a ProgramPlan<'k>,
    kernel: &'k Kernel,
    plan: &'k Specialised,
    region: Region,
    parts: &'a Overlap,
    /// Which carried values are accumulators of late products.
    late: Vec<bool>,
}

/// What late products need of the step before.
struct Pending {
    /// Their operands A.
    register_a: Vec<Arg>,
    /// What they add to.
    accumulators: Vec<Arg>,
}

/// The loop of the consumers; gives the number of the step behind it.
pub(super) fn main(schedule: &ProgramPlan<'_>, parts: &Overlap, w: &mut Writer<'_>, start: Arg) -> Result<Arg, Refusal> {
    let (kernel, plan, region) = (schedule.kernel, schedule.plan, schedule.region);
    let d = &kernel.insts[plan.main];
    schedule.wait_brought(w)?;
    schedule.stage_in_front(w)?;
    let made = |y: &Value| parts.late.iter().any(|&l| kernel.insts[l].results[0] == *y);
    let late = kernel.yields(region).iter().map(made).collect();
    let p = LoopParts { schedule, kernel, plan, region, parts, late };
    let bounds = schedule.bounds(w)?;
    let init = schedule.all(w, &d.args[3..])?;
    let none: Vec<Arg> = init.iter().copied().chain([start]).collect();
    let ends = match schedule.runs(w)? {
        Runs::Always => p.steps(w, bounds, &init, start)?,
        Runs::Never => none,
        Runs::If(some) => w.choice(some, |w| p.steps(w, bounds, &init, start), |_| Ok(none))?,
    };
    d.results.iter().zip(&ends).for_each(|(&v, &end)| w.set(v, end));
    Ok(ends[init.len()])
}

impl ProgramPlan<'_> {
    /// True where steps wait for the slot of the next one: nobody takes the ring behind the loop, and late products have another slot.
    pub(super) fn asks_ahead(&self) -> bool {
        let plan = self.plan;
        let last = !plan.persistent && plan.around.is_empty() && self.alone;
        last && plan.vectors.is_empty() && plan.masked.is_empty() && plan.overlap.as_ref().is_some_and(|o| o.hold) && self.ring.depth > 2
    }

    /// The producer says that one slot more is full, behind the last step.
    pub(super) fn fill_one_more(&self, w: &mut Writer<'_>, step: Value) -> Result<(), Refusal> {
        let [slot, round] = self.ring.slot_and_round(w, step)?;
        let empty = w.bin(Op::BarrierIndex, self.ring.empty, slot)?;
        let before = w.bin(Op::Add, round, number(1))?;
        w.act(Op::BarrierWait, &[empty.into(), before.into()], &[]);
        let full = w.bin(Op::BarrierIndex, self.ring.full, slot)?;
        // For units and for lanes, as where a slot is filled; of neither a copy is on its way.
        for _ in 0..u32::from(self.ring.brought) + u32::from(self.ring.copied) {
            w.act(Op::BarrierArrive, &[full.into()], &[]);
        }
        Ok(())
    }
}

impl LoopParts<'_, '_> {
    /// All steps, of which there is one at least: gives the carried values, and the number of the step behind.
    fn steps(&self, w: &mut Writer<'_>, bounds: [Arg; 3], init: &[Arg], start: Arg) -> Result<Vec<Arg>, Refusal> {
        let (kernel, schedule) = (self.kernel, self.schedule);
        let (params, yields) = (&kernel.regions[self.region].params, kernel.yields(self.region));
        w.set(params[0], bounds[0]);
        params[1..].iter().zip(init).for_each(|(&p, &v)| w.set(p, v));
        let second = match bounds[0] {
            Arg::Literal(Literal::Int(0), _) => bounds[2],
            lo => w.bin(Op::Add, lo, bounds[2])?.into(),
        };
        let here = schedule.load_ahead(w, bounds[0])?;
        let early = self.start_early(w, start, bounds[0], Op::TurnFirst)?;
        self.schedule.end_of_turn(w, Op::TurnPass);
        let loaded = schedule.load_ahead(w, second)?;
        self.landed(w, &early, 0)?;
        self.release_early(w, start)?;
        self.bind_loaded(w, &here);
        self.head(w)?;
        self.tail(w)?;
        let ahead = schedule.asks_ahead();
        let next = schedule.next(w, start)?;
        if ahead {
            schedule.wait(w, next)?;
        }
        let mut carried = self.heads(w)?;
        let heads = carried.len();
        let pending = self.pending(w)?;
        let register_a = heads + pending.register_a.len();
        carried.extend(pending.register_a.iter().chain(&pending.accumulators));
        let all = carried.len();
        carried.push(next);
        if ahead {
            carried.push(schedule.next(w, next)?);
        }
        // The step before, where its round is asked for.
        let apart = schedule.ring_late.is_some();
        if apart {
            carried.push(start);
        }
        // What the next step loads beside its products.
        let behind = carried.len();
        carried.extend(loaded);
        let split = |at: &[Value]| {
            let args = |list: &[Value]| list.iter().copied().map(Arg::from).collect();
            Pending { register_a: args(&at[heads..register_a]), accumulators: args(&at[register_a..all]) }
        };
        let ends = w.for_loop([second, bounds[1], bounds[2]], &carried, |w, index, at| {
            w.set(params[0], index);
            let done = at[all];
            let early = match ahead {
                true => self.start_early_in(w, done.into())?,
                false => self.start_early(w, done.into(), index.into(), Op::TurnWait)?,
            };
            let before = if apart { at[all + 1] } else { w.bin(Op::Sub, done, number(1))? };
            let late = self.start_late(w, before, &split(at))?;
            self.schedule.end_of_turn(w, Op::TurnPass);
            let loaded = match self.plan.prefetched.is_empty() {
                true => Vec::new(),
                false => {
                    let next = w.bin(Op::Add, index, bounds[2])?;
                    schedule.load_ahead(w, next.into())?
                }
            };
            self.landed(w, &early, late.len() as u32)?;
            self.release_early(w, done.into())?;
            self.bind_loaded(w, &at[behind..].iter().map(|&v| v.into()).collect::<Vec<Arg>>());
            let head = (0..).zip(&self.late).filter(|(_, late)| !**late).map(|(k, _): (usize, _)| params[k + 1]);
            head.zip(at).for_each(|(p, &v)| w.set(p, v));
            self.head(w)?;
            if ahead {
                schedule.wait(w, at[all + 1].into())?;
            } else if self.parts.hold {
                w.act(Op::SchedBarrier, &[], &[]);
            }
            let late = self.wait_late(w, &late)?;
            self.release_late(w, before)?;
            self.bind_late(w, yields, &params[1..], &late);
            self.tail(w)?;
            let mut next = self.heads(w)?;
            let pending = self.pending(w)?;
            next.extend(pending.register_a.into_iter().chain(pending.accumulators));
            next.push(schedule.next(w, done.into())?);
            if ahead {
                next.push(schedule.next(w, at[all + 1].into())?);
            }
            if apart {
                next.push(schedule.next(w, before.into())?);
            }
            next.extend(loaded);
            Ok(next)
        })?;
        // The late products of the last step.
        let last = if apart { ends[all + 1] } else { w.bin(Op::Sub, ends[all], number(1))? };
        self.schedule.end_of_turn(w, Op::TurnWait);
        let late = self.start_late(w, last, &split(&ends))?;
        self.schedule.end_of_turn(w, Op::TurnLast);
        let late = self.wait_late(w, &late)?;
        self.release_late(w, last)?;
        let results = &kernel.insts[self.plan.main].results;
        self.bind_late(w, yields, results, &late);
        let mut heads = ends.iter().copied();
        let mut out = Vec::new();
        for (k, &v) in results.iter().enumerate() {
            match self.late[k] {
                true => out.push(w.get(v)?),
                false => out.extend(heads.next().map(Arg::from)),
            }
        }
        out.push(ends[all].into());
        Ok(out)
    }

    /// Binds what has been loaded for the step.
    fn bind_loaded(&self, w: &mut Writer<'_>, loaded: &[Arg]) {
        self.plan.prefetched.iter().zip(loaded).for_each(|(&i, &v)| w.set(self.kernel.insts[i].results[0], v));
    }

    /// Waits for the slot of a step of an index and starts its early products.
    fn start_early(&self, w: &mut Writer<'_>, step: Arg, index: Arg, turn: Op) -> Result<Vec<Value>, Refusal> {
        let slot = self.schedule.wait(w, step)?;
        self.schedule.apply_masks(w, slot, index)?;
        self.start_early_of(w, step, slot, turn)
    }

    /// Starts the early products of a step whose slot is known to be full.
    fn start_early_in(&self, w: &mut Writer<'_>, step: Arg) -> Result<Vec<Value>, Refusal> {
        let slot = w.bin(Op::Rem, step, number(self.schedule.ring.depth))?;
        self.start_early_of(w, step, slot.into(), Op::TurnWait)
    }

    fn start_early_of(&self, w: &mut Writer<'_>, step: Arg, slot: Arg, turn: Op) -> Result<Vec<Value>, Refusal> {
        let (schedule, early) = (self.schedule, &self.parts.early);
        schedule.see_vectors(w, slot)?;
        schedule.see_lane_tiles(w, slot)?;
        schedule.see(w, slot, early)?;
        let mut ready = Vec::new();
        for &i in early {
            let a = schedule.operand_a(w, i)?;
            let c = self.kernel.insts[i].args[2];
            let begun = early.iter().position(|&j| self.kernel.insts[j].results[0] == c);
            let c = if begun.is_some() { None } else { Some(schedule.accumulator(w, c)?) };
            ready.push((i, a, c, begun));
        }
        self.schedule.end_of_turn(w, turn);
        let mut out: Vec<Value> = Vec::new();
        for (i, a, c, begun) in ready {
            let on = begun.and_then(|n| out.get(n).copied()).map(Arg::from);
            let Some(c) = c.or(on) else { return Err(Refusal::Written { value: self.kernel.insts[i].args[2] }) };
            out.push(schedule.begin(w, i, step, [a, c])?);
        }
        Ok(out)
    }

    /// Starts the late products of a step, whose operands A and accumulators are these.
    fn start_late(&self, w: &mut Writer<'_>, step: Value, pending: &Pending) -> Result<Vec<Value>, Refusal> {
        let late = &self.parts.late;
        let slot = match &self.schedule.ring_late {
            Some(ring) => {
                let [slot, round] = ring.slot_and_round(w, step)?;
                ring.wait_full(w, slot.into(), round.into())?;
                slot
            }
            None => w.bin(Op::Rem, step, number(self.schedule.ring.depth))?,
        };
        self.schedule.see(w, slot.into(), late)?;
        let (mut register_a, mut accumulators) = (pending.register_a.iter(), pending.accumulators.iter());
        let mut out = Vec::new();
        for &i in late {
            let d = &self.kernel.insts[i];
            let [a, c] = [d.args[0], d.args[2]];
            let missing = || Refusal::Written { value: d.results[0] };
            let a = match self.schedule.brought(w, a)? {
                Some(brought) => brought,
                None if self.moves(a) => *register_a.next().ok_or_else(missing)?,
                None => w.get(a)?,
            };
            let c = if is_zero(self.kernel, c) { self.schedule.accumulator(w, c)? } else { *accumulators.next().ok_or_else(missing)? };
            out.push(self.schedule.begin(w, i, step.into(), [a, c])?);
        }
        Ok(out)
    }

    /// Gives back what early products have read, where that is apart.
    fn release_early(&self, w: &mut Writer<'_>, step: Arg) -> Result<(), Refusal> {
        self.schedule.ring_late.as_ref().map_or(Ok(()), |_| self.schedule.release(w, step))
    }

    /// Gives back what late products have read: all of the slot, unless that is apart.
    fn release_late(&self, w: &mut Writer<'_>, step: Value) -> Result<(), Refusal> {
        match &self.schedule.ring_late {
            Some(ring) => ring.give_back(w, step),
            None => self.schedule.release(w, step),
        }
    }

    /// True for what is another value in every step.
    fn moves(&self, v: Value) -> bool {
        match self.kernel.values[v].def {
            ValueDef::KernelParam(_) => false,
            ValueDef::RegionParam(r, _) => r == self.region,
            ValueDef::Result(i, _) => self.kernel.regions[self.region].insts.contains(&i),
        }
    }

    /// Waits for early products, with so many in flight behind them.
    fn landed(&self, w: &mut Writer<'_>, early: &[Value], behind: u32) -> Result<(), Refusal> {
        let ends = self.parts.early.iter().zip(early).filter(|(i, _)| !self.parts.is_added_to(self.kernel, **i));
        for (&i, &v) in ends {
            let v = w.make(Op::AsyncDotWait, &[v.into()], &[Attr::Count(behind)], None)?;
            w.set(self.kernel.insts[i].results[0], v);
        }
        Ok(())
    }

    fn wait_late(&self, w: &mut Writer<'_>, late: &[Value]) -> Result<Vec<Value>, Refusal> {
        late.iter().map(|&v| w.make(Op::AsyncDotWait, &[v.into()], &[Attr::Count(0)], None)).collect()
    }

    /// What the lanes make of the early products.
    fn head(&self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        let parts = [&self.parts.early, &self.parts.late, &self.parts.tail];
        let mine = |i: &&Inst| self.schedule.computed(**i) && !parts.iter().any(|p| p.contains(i));
        self.kernel.regions[self.region].insts.iter().filter(mine).try_for_each(|&i| self.schedule.compute_lanes(w, i))
    }

    fn tail(&self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        self.parts.tail.iter().filter(|i| self.schedule.live.contains(i)).try_for_each(|&i| self.schedule.compute_lanes(w, i))
    }

    /// What heads carry to the next step.
    fn heads(&self, w: &Writer<'_>) -> Result<Vec<Arg>, Refusal> {
        let yields = self.kernel.yields(self.region);
        yields.iter().zip(&self.late).filter(|(_, late)| !**late).map(|(&y, _)| w.get(y)).collect()
    }

    /// What this step leaves to its late products.
    fn pending(&self, w: &Writer<'_>) -> Result<Pending, Refusal> {
        let mut out = Pending { register_a: Vec::new(), accumulators: Vec::new() };
        for &i in &self.parts.late {
            let d = &self.kernel.insts[i];
            if self.moves(d.args[0]) {
                out.register_a.push(w.get(d.args[0])?);
            }
            if !is_zero(self.kernel, d.args[2]) {
                out.accumulators.push(w.get(d.args[2])?);
            }
        }
        Ok(out)
    }

    /// Binds the values that stand for accumulators of late products, in the order of the yields.
    fn bind_late(&self, w: &mut Writer<'_>, yields: &[Value], values: &[Value], late: &[Value]) {
        for (&i, &v) in self.parts.late.iter().zip(late) {
            let result = self.kernel.insts[i].results[0];
            if let Some(k) = yields.iter().position(|&y| y == result) {
                w.set(values[k], v);
            }
        }
    }
}
