//! Mixed loops some of whose products end a step later than they begin: see [`crate::plan::Late`].
//!
//! ```text
//! front     the first part of the first step, of nothing before it
//! each n    the rest of step n ─ wait full(n+1) ─ products of n+1 begin ─ those of n end ─ what looks at these ─ give slot n back
//! behind    the rest of the last step ─ its products end ─ what looks at these ─ give its slot back
//! ```
//!
//! So the loop goes round between the two parts of a step. It carries what the rest of the step wants of its first part: products in flight, what lanes
//! have computed, accumulators; what needs no product is computed again. A slot that late products read is given back in the next step.

use super::Refusal;
use super::bounds::Runs;
use super::schedule::ProgramPlan;
use super::staged::StagedState;
use super::step_state::StepState;
use super::write::{Arg, Writer, number};
use crate::plan::{Late, StepPart, in_ring, is_zero, late_order, needs, slice_by, written_views};
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Attr, Inst, Literal, Op, Value, ValueDef};

/// A step, to the next one.
struct Before {
    /// Those of its products that `after` looks at, as they are now.
    products: BTreeMap<Inst, Arg>,
    index: Arg,
    /// Its number, while its slot is to be given back, and the products that still read that.
    step: Option<Arg>,
    readers: Vec<Inst>,
}

/// A loop whose steps are written in two parts.
struct SplitSteps<'a, 'k> {
    schedule: &'a ProgramPlan<'k>,
    late: &'a Late,
    first: Vec<StepPart>,
    rest: Vec<StepPart>,
    /// Products in flight at the end of a step that read slots.
    readers: Vec<Inst>,
    /// What the rest wants of the first part.
    kept: Vec<Value>,
    /// What it computes again.
    again: Vec<Inst>,
    /// Buffers as the first part and the rest find them.
    buffers: [StagedState; 2],
}

/// The loop of the consumers; gives the number of the step behind it.
pub(super) fn main(schedule: &ProgramPlan<'_>, late: &Late, w: &mut Writer<'_>, start: Arg) -> Result<Arg, Refusal> {
    let d = &schedule.kernel.insts[schedule.plan.main];
    schedule.wait_brought(w)?;
    schedule.stage_in_front(w)?;
    let Some(steps) = SplitSteps::of(schedule, late) else { return Err(Refusal::Written { value: d.results[0] }) };
    let init = schedule.all(w, &d.args[3..])?;
    let none: Vec<Arg> = init.iter().copied().chain([start]).collect();
    let ends = match schedule.runs(w)? {
        Runs::Always => steps.all(w, &init, start)?,
        Runs::Never => none,
        Runs::If(some) => w.choice(some, |w| steps.all(w, &init, start), |_| Ok(none))?,
    };
    d.results.iter().zip(&ends).for_each(|(&v, &end)| w.set(v, end));
    Ok(ends[init.len()])
}

impl<'a, 'k> SplitSteps<'a, 'k> {
    fn of(schedule: &'a ProgramPlan<'k>, late: &'a Late) -> Option<SplitSteps<'a, 'k>> {
        let (kernel, plan, region) = (schedule.kernel, schedule.plan, schedule.region);
        let (mut first, free) = late_order(kernel, region, &written_views(kernel), &|i| schedule.computed(i), late).ok()?;
        let cut = first.iter().position(|p| *p == StepPart::Cut)?;
        let rest = first.split_off(cut + 1);
        // What needs no product and what only the rest wants is done there.
        let mut open: Vec<Value> = Vec::new();
        for part in &first {
            match *part {
                StepPart::Begin(i) => open.extend(&kernel.insts[i].args),
                StepPart::Compute(i) if !free.contains(&i) => needs(kernel, i, &mut |v| open.push(v)),
                _ => {}
            }
        }
        let wanted = slice_by(kernel, open, &|i, take| {
            if free.contains(&i) {
                needs(kernel, i, take);
            }
        });
        let all = first.clone();
        first.retain(|p| !matches!(p, StepPart::Compute(i) if free.contains(i) && !wanted.contains(i)));
        let slot = |v: &Value| kernel.def_inst(*v).is_some_and(|i| in_ring(kernel, &plan.loads, i));
        let readers = late.products.iter().copied().filter(|&i| kernel.insts[i].args[..2].iter().any(slot)).collect();
        let mut out = SplitSteps {
            schedule,
            late,
            first,
            rest,
            readers,
            kept: Vec::new(),
            again: Vec::new(),
            buffers: [StagedState::default(), StagedState::default()],
        };
        out.follow_buffers();
        out.keep(&all, &free);
        Some(out)
    }

    /// Notes what the rest of a step, and the next one, want of what comes first in the order.
    fn keep(&mut self, first: &[StepPart], free: &BTreeSet<Inst>) {
        let (s, kernel) = (self.schedule, self.schedule.kernel);
        let mut stored = self.buffers[1].clone();
        let mut open: Vec<Value> = kernel.yields(s.region).to_vec();
        // They may have begun in front of the cut.
        open.extend(self.late.looked_at().map(|i| kernel.insts[i].results[0]));
        for &part in &self.rest {
            match part {
                StepPart::Begin(i) => {
                    let to_stage = s.to_stage(i, &stored);
                    open.extend(to_stage.iter().map(|&n| s.plan.staged[n].value));
                    stored.stored.extend(to_stage);
                    let d = &kernel.insts[i];
                    let in_memory = s.plan.staged.iter().any(|t| t.uses.iter().any(|u| (u.product, u.operand) == (i, 0)))
                        || s.plan.brought.iter().any(|b| b.value == d.args[0]);
                    open.extend((!in_memory).then_some(d.args[0]));
                    open.extend((!is_zero(kernel, d.args[2])).then_some(d.args[2]));
                }
                StepPart::Wait(i, _) => open.extend(&kernel.insts[i].results),
                StepPart::Compute(i) => match s.plan.updates.iter().find(|u| u.inst == i) {
                    Some(u) => open.extend(u.first.iter().flatten().chain(kernel.operand(i, "value")).copied()),
                    None => needs(kernel, i, &mut |v| open.push(v)),
                },
                StepPart::WaitBefore(..) | StepPart::After | StepPart::Cut => {}
            }
        }
        let made = |part: &StepPart| match *part {
            StepPart::Begin(i) | StepPart::Compute(i) => Some(i),
            StepPart::Wait(..) | StepPart::WaitBefore(..) | StepPart::After | StepPart::Cut => None,
        };
        let early: BTreeSet<Inst> = first.iter().filter_map(made).collect();
        let params = &kernel.regions[s.region].params;
        let ahead = !self.waits_in_rest();
        let mut kept: BTreeSet<Value> = BTreeSet::new();
        let again = {
            let mut keep = |v: Value| match kernel.values[v].def {
                ValueDef::Result(i, _) if early.contains(&i) && !free.contains(&i) => _ = kept.insert(v),
                // What is loaded for the next step stands there by then.
                ValueDef::Result(i, _) if ahead && s.plan.prefetched.contains(&i) => _ = kept.insert(v),
                ValueDef::RegionParam(r, n) if r == s.region && n > 0 => _ = kept.insert(v),
                _ => {}
            };
            open.iter().for_each(|&v| keep(v));
            // What is computed again may itself want carried numbers.
            let slice = slice_by(kernel, open, &|i, take| {
                if early.contains(&i) && free.contains(&i) {
                    needs(kernel, i, take);
                }
            });
            let again: Vec<Inst> = first.iter().filter_map(made).filter(|i| slice.contains(i) && free.contains(i)).collect();
            again.iter().for_each(|&i| needs(kernel, i, &mut keep));
            again
        };
        self.again = again;
        self.kept = kernel.regions[s.region]
            .insts
            .iter()
            .flat_map(|&i| kernel.insts[i].results.iter().copied())
            .filter(|v| kept.contains(v))
            .collect();
        self.kept.extend(params.iter().copied().filter(|v| kept.contains(v)));
    }

    /// All steps, of which there is one at least: gives the carried values, and the number of the step behind.
    fn all(&self, w: &mut Writer<'_>, init: &[Arg], start: Arg) -> Result<Vec<Arg>, Refusal> {
        let (s, kernel) = (self.schedule, self.schedule.kernel);
        let [lo, hi, by] = s.bounds(w)?;
        let params = &kernel.regions[s.region].params;
        let loaded = s.load_ahead(w, lo)?;
        let cut = self.first(w, [start, lo, by], (init, &loaded), None)?;
        let second = match lo {
            Arg::Literal(Literal::Int(0), _) => by,
            lo => w.bin(Op::Add, lo, by)?.into(),
        };
        let ends = w.for_loop([second, hi, by], &cut, |w, index, at| {
            let at: Vec<Arg> = at.iter().map(|&v| v.into()).collect();
            let (before, loaded) = self.rest(w, &at, by)?;
            let step = s.next(w, at[0])?;
            let values = s.all(w, kernel.yields(s.region))?;
            self.first(w, [step, index.into(), by], (&values, &loaded), Some(before))
        })?;
        let at: Vec<Arg> = ends.into_iter().map(Arg::from).collect();
        let (mut before, _) = self.rest(w, &at, by)?;
        let values = s.all(w, kernel.yields(s.region))?;
        params[1..].iter().zip(values).for_each(|(&p, v)| w.set(p, v));
        let mut state = StepState::new(at[0], [at[1], by]);
        let last = self.late.products.len();
        for (n, &i) in self.late.products.iter().enumerate() {
            self.wait_before(w, (i, (last - 1 - n) as u32), &mut before, &mut state)?;
        }
        self.after(w, &before, &mut state.buffers)?;
        self.give_back(w, &mut before)?;
        let mut out = s.all(w, &params[1..])?;
        out.push(s.next(w, at[0])?);
        Ok(out)
    }

    /// The first part of a step of a number and an index, with what is left of the one before: gives what the rest finds.
    fn first(
        &self,
        w: &mut Writer<'_>,
        [step, index, by]: [Arg; 3],
        (values, loaded): (&[Arg], &[Arg]),
        mut before: Option<Before>,
    ) -> Result<Vec<Arg>, Refusal> {
        let (s, kernel) = (self.schedule, self.schedule.kernel);
        let params = &kernel.regions[s.region].params;
        w.set(params[0], index);
        params[1..].iter().zip(values).for_each(|(&p, &v)| w.set(p, v));
        s.plan.prefetched.iter().zip(loaded).for_each(|(&i, &v)| w.set(kernel.insts[i].results[0], v));
        let slot = s.wait(w, step)?;
        s.apply_masks(w, slot, index)?;
        self.see(w, slot)?;
        let mut state = StepState::new(step, [index, by]);
        if before.is_some() {
            state.buffers = self.buffers[0].clone();
        }
        for &part in &self.first {
            let met = self.meets(part, &state.buffers);
            match (part, &mut before) {
                (StepPart::WaitBefore(i, behind), Some(before)) => self.wait_before(w, (i, behind), before, &mut state)?,
                (StepPart::After, Some(before)) => self.after(w, before, &mut state.buffers)?,
                _ => s.part(w, part, &mut state)?,
            }
            // Lanes have met, or need not.
            if let Some(before) = before.as_mut().filter(|b| b.readers.is_empty() && (met || !self.meets_at_all())) {
                self.give_back(w, before)?;
            }
        }
        if let Some(before) = &mut before {
            self.give_back(w, before)?;
        }
        // In front of the loop they are over: an assembler may give them other registers there.
        let over = |i: &Inst| before.is_none() && self.rest.iter().any(|p| matches!(p, StepPart::Wait(j, _) if j == i));
        for &i in state.begun.iter().filter(|&i| over(i)) {
            let v = w.get(kernel.insts[i].results[0])?;
            let v = w.make(Op::AsyncDotWait, &[v], &[Attr::Count(0)], None)?;
            w.set(kernel.insts[i].results[0], v);
        }
        let mut out = vec![step, index];
        out.extend(s.all(w, &self.kept)?);
        match self.waits_in_rest() {
            true => out.extend(loaded.iter().copied()),
            false => {
                s.begin_ahead(w, &mut state)?;
                out.extend(state.ahead.unwrap_or_default());
            }
        }
        Ok(out)
    }

    /// The rest of a step, which finds this: what the next one finds, and what is loaded for it.
    fn rest(&self, w: &mut Writer<'_>, at: &[Arg], by: Arg) -> Result<(Before, Vec<Arg>), Refusal> {
        let (s, kernel) = (self.schedule, self.schedule.kernel);
        let (step, index) = (at[0], at[1]);
        w.set(kernel.regions[s.region].params[0], index);
        self.kept.iter().zip(&at[2..]).for_each(|(&v, &now)| w.set(v, now));
        let loaded = &at[2 + self.kept.len()..];
        let mut state = StepState::new(step, [index, by]);
        state.buffers = self.buffers[1].clone();
        if self.waits_in_rest() {
            s.plan.prefetched.iter().zip(loaded).for_each(|(&i, &v)| w.set(kernel.insts[i].results[0], v));
        } else {
            state.ahead = Some(loaded.to_vec());
        }
        let slot = w.bin(Op::Rem, step, number(s.ring.depth))?;
        self.see(w, slot.into())?;
        self.again.iter().try_for_each(|&i| s.part(w, StepPart::Compute(i), &mut state))?;
        self.rest.iter().try_for_each(|&part| s.part(w, part, &mut state))?;
        if self.readers.is_empty() {
            s.release(w, step)?;
        }
        let products = self.late.looked_at().map(|i| Ok((i, w.get(kernel.insts[i].results[0])?)));
        let products = products.collect::<Result<BTreeMap<Inst, Arg>, Refusal>>()?;
        let before = Before { products, index, step: (!self.readers.is_empty()).then_some(step), readers: self.readers.clone() };
        Ok((before, state.ahead.unwrap_or_default()))
    }

    /// True if the rest waits for products: loads for the next step begin there.
    fn waits_in_rest(&self) -> bool {
        self.rest.iter().any(|p| matches!(p, StepPart::Wait(..)))
    }

    /// Names what is in a slot.
    fn see(&self, w: &mut Writer<'_>, slot: Arg) -> Result<(), Refusal> {
        let s = self.schedule;
        s.see_vectors(w, slot)?;
        s.see_lane_tiles(w, slot)?;
        s.see(w, slot, &s.plan.dots.iter().map(|d| d.0).collect::<Vec<Inst>>())
    }

    /// Waits for a product of the step before.
    fn wait_before(&self, w: &mut Writer<'_>, (i, behind): (Inst, u32), before: &mut Before, state: &mut StepState) -> Result<(), Refusal> {
        let (s, kernel) = (self.schedule, self.schedule.kernel);
        let wait = |w: &mut Writer<'_>, v: Arg| w.make(Op::AsyncDotWait, &[v], &[Attr::Count(behind)], None);
        match self.late.carried_as(i) {
            Some(k) => {
                let p = kernel.regions[s.region].params[k + 1];
                // A product of this step may add to it by now.
                let next = state.begun.iter().find(|&&j| kernel.insts[j].args[2] == p);
                let held = next.map_or(p, |&j| kernel.insts[j].results[0]);
                let v = w.get(held)?;
                let v = wait(w, v)?;
                w.set(held, v);
            }
            None => {
                if let Some(v) = before.products.get_mut(&i) {
                    *v = wait(w, *v)?.into();
                }
            }
        }
        before.readers.retain(|&j| j != i);
        s.read_by(i, &mut state.buffers);
        Ok(())
    }

    /// What looks at products of the step before, with its index.
    fn after(&self, w: &mut Writer<'_>, before: &Before, buffers: &mut StagedState) -> Result<(), Refusal> {
        let (s, kernel) = (self.schedule, self.schedule.kernel);
        let mut open = Vec::new();
        for &i in &self.late.after {
            match s.plan.updates.iter().find(|u| u.inst == i) {
                Some(u) => open.extend(u.first.iter().flatten().chain(kernel.operand(i, "value")).copied()),
                None => needs(kernel, i, &mut |v| open.push(v)),
            }
        }
        let again = slice_by(kernel, open, &|i, take| {
            if self.late.again.contains(&i) {
                needs(kernel, i, take);
            }
        });
        let wanted = |i: &Inst| self.late.after.contains(i) || again.contains(i) && self.late.again.contains(i);
        let insts: Vec<Inst> = kernel.regions[s.region].insts.iter().copied().filter(|i| wanted(i) && s.computed(*i)).collect();
        let index = kernel.regions[s.region].params[0];
        let made = insts.iter().flat_map(|&i| kernel.insts[i].results.iter().copied()).chain([index]);
        let made = made.chain(before.products.keys().map(|&i| kernel.insts[i].results[0]));
        let here: Vec<(Value, Option<Arg>)> = made.map(|v| (v, w.swap(v, None))).collect();
        w.set(index, before.index);
        before.products.iter().for_each(|(&i, &v)| w.set(kernel.insts[i].results[0], v));
        insts.iter().try_for_each(|&i| match s.plan.updates.iter().position(|u| u.inst == i) {
            Some(n) => s.bulk_update(w, n, buffers),
            None => w.copy(i),
        })?;
        here.into_iter().for_each(|(v, was)| _ = w.swap(v, was));
        Ok(())
    }

    /// Gives the slot of the step before back, unless that is done.
    fn give_back(&self, w: &mut Writer<'_>, before: &mut Before) -> Result<(), Refusal> {
        before.step.take().map_or(Ok(()), |step| self.schedule.release(w, step))
    }

    /// True for a part at which lanes meet.
    fn meets(&self, part: StepPart, buffers: &StagedState) -> bool {
        let updates = |i: &Inst| self.schedule.plan.updates.iter().any(|u| u.inst == *i);
        match part {
            StepPart::Begin(i) => !self.schedule.to_stage(i, buffers).is_empty(),
            StepPart::Compute(i) => updates(&i),
            StepPart::After => self.late.after.iter().any(updates),
            StepPart::Wait(..) | StepPart::WaitBefore(..) | StepPart::Cut => false,
        }
    }

    /// True if lanes meet in the first part of a step.
    fn meets_at_all(&self) -> bool {
        self.first.iter().any(|&part| self.meets(part, &StagedState::default()))
    }

    /// Finds out how the parts of a step find the buffers: what is stored, and what is read by products that are over, or by bulk copies, where lanes
    /// have not met since.
    fn follow_buffers(&mut self) {
        let mut now = StagedState::default();
        for _ in 0..2 {
            now.stored.clear();
            self.buffers[0] = now.clone();
            self.follow(&self.first, true, &mut now);
            self.buffers[1] = now.clone();
            self.follow(&self.rest, true, &mut now);
            // One group that gives a slot back has met.
            if self.readers.is_empty() && self.schedule.plan.consumers == 1 {
                now.read.clear();
            }
        }
        // In front of the loop nothing is known of copies that a loop before this one began.
        let mut front = StagedState::default();
        self.follow(&self.first, false, &mut front);
        self.buffers[1].sent.retain(|n| front.sent.contains(n));
    }

    /// What is known of the buffers behind some parts; with or without what is left of the step before.
    fn follow(&self, parts: &[StepPart], before: bool, now: &mut StagedState) {
        let s = self.schedule;
        let all = || (0..s.plan.updates.len()).collect();
        let update = |i: Inst, now: &mut StagedState| {
            if let Some(n) = s.plan.updates.iter().position(|u| u.inst == i) {
                if !now.sent.contains(&n) {
                    now.sent = all();
                }
                now.sent.remove(&n);
                now.read.clear();
            }
        };
        for &part in parts {
            match part {
                StepPart::Begin(i) => {
                    let more = s.to_stage(i, now);
                    if !more.is_empty() {
                        if now.stored.is_empty() && s.waits_for_updates() {
                            now.sent = all();
                        }
                        now.read.clear();
                    }
                    now.stored.extend(more);
                }
                StepPart::WaitBefore(..) | StepPart::After if !before => {}
                StepPart::Wait(i, _) | StepPart::WaitBefore(i, _) => s.read_by(i, now),
                StepPart::Compute(i) => update(i, now),
                StepPart::After => self.late.after.iter().for_each(|&i| update(i, now)),
                StepPart::Cut => {}
            }
        }
    }
}
