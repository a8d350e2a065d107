//! The producer at a grid position: the slices of bounds and indices, and the copies of each step.
//!
//! ```text
//! a step:  indices (see [`super::ahead`]) ─ wait until the slot is empty ─ expect its bytes ─ begin the copies
//! ```

use super::Refusal;
use super::ahead::{Ahead, Wanted};
use super::schedule::{ProgramPlan, Ring};
use super::write::{Arg, Writer, number};
use crate::plan::{decisions, needs, places, slice_by};
use std::collections::BTreeSet;
use tilelift_ir::{Attr, Inst, Op, Region, Type, Value};

/// What is done at a loop from the step of a number on; gives the number of the step behind.
type Steps<'s> = dyn Fn(&ProgramPlan<'_>, &mut Writer<'_>, Arg) -> Result<Arg, Refusal> + 's;

/// What a task does that goes through the loops and choices around the loops of the ring.
struct Walk<'s> {
    /// What it computes on its way.
    before: BTreeSet<Inst>,
    /// What it does at a loop of the ring.
    at: &'s Steps<'s>,
    /// It brings what is brought once, in front of all that goes round.
    brings: bool,
}

impl ProgramPlan<'_> {
    /// The producer at a grid position: gives the number of the step behind.
    pub(super) fn produce(&self, w: &mut Writer<'_>, start: Arg) -> Result<Arg, Refusal> {
        let walk = Walk { before: self.before(), at: &|s, w, done| s.copies(w, done), brings: true };
        self.go_through(w, self.kernel.body, start, &walk)
    }

    /// Who transposes operands, at a grid position: gives the number of the step behind.
    pub(super) fn transposer(&self, w: &mut Writer<'_>, start: Arg) -> Result<Arg, Refusal> {
        let walk = Walk { before: self.before(), at: &|s, w, done| s.transpose_steps(w, done), brings: false };
        self.go_through(w, self.kernel.body, start, &walk)
    }

    /// What copies need in a region, the loops and choices around them, and what is done at the loops whose copies go through the ring.
    fn go_through(&self, w: &mut Writer<'_>, r: Region, start: Arg, walk: &Walk<'_>) -> Result<Arg, Refusal> {
        let kernel = self.kernel;
        let mut done = start;
        for &i in &kernel.regions[r].insts {
            let d = &kernel.insts[i];
            if walk.brings {
                self.before.iter().chain([self]).filter(|s| s.goes_round(i)).try_for_each(|s| s.bring_operands(w))?;
            }
            if let Some(s) = self.of_loop(i) {
                done = (walk.at)(s, w, done)?;
            } else if walk.brings
                && let Some(group) = self.epilogue_group(i)
            {
                done = self.bring_behind(w, group, done)?;
            } else if !self.plan.is_around(i) {
                if walk.before.contains(&i) {
                    w.copy(i)?;
                }
            } else if d.op == Op::If {
                let condition = w.get(d.args[0])?;
                let arm = |w: &mut Writer<'_>, r: Region| Ok(vec![self.go_through(w, r, done, walk)?]);
                done = w.choice(condition, |w| arm(w, d.regions[0]), |w| arm(w, d.regions[1]))?[0];
            } else {
                let carried = self.replayed(i);
                let bounds = [w.get(d.args[0])?, w.get(d.args[1])?, w.get(d.args[2])?];
                let mut init = vec![done];
                for &k in &carried {
                    init.push(w.get(d.args[3 + k])?);
                }
                let (params, yields) = (&kernel.regions[d.regions[0]].params, kernel.yields(d.regions[0]));
                let ends = w.for_loop(bounds, &init, |w, index, now| {
                    w.set(params[0], index);
                    carried.iter().zip(&now[1..]).for_each(|(&k, &v)| w.set(params[k + 1], v));
                    let mut next = vec![self.go_through(w, d.regions[0], now[0].into(), walk)?];
                    for &k in &carried {
                        next.push(w.get(yields[k])?);
                    }
                    Ok(next)
                })?;
                done = ends[0].into();
            }
        }
        Ok(done)
    }

    /// What a loop carries for the copies, by number.
    fn replayed(&self, i: Inst) -> BTreeSet<usize> {
        self.plan.loops().flat_map(|s| &s.replay.carried).filter(|c| c.0 == i).map(|c| c.1).collect()
    }

    /// The copies of the loop; gives the number of the step behind.
    fn copies(&self, w: &mut Writer<'_>, start: Arg) -> Result<Arg, Refusal> {
        let (kernel, plan) = (self.kernel, self.plan);
        let ahead = Ahead::of(
            kernel,
            plan.main,
            &plan.replay,
            self.copied().map(|l| l.0).chain(plan.vectors.iter().copied()).collect(),
            Wanted::Places,
        );
        let [first, _, by] = self.bounds(w)?;
        let mut init = vec![start];
        init.extend(ahead.first(w, first)?);
        let ends = self.steps(w, &init, |w, step, carried| {
            let (done, at) = (carried[0], self.index(w, step)?);
            let state: Vec<Arg> = carried[1..].iter().map(|&v| v.into()).collect();
            let (places, state) = ahead.step(w, at.into(), &state, |w| Ok(w.bin(Op::Add, at, by)?.into()))?;
            self.fill(w, done, &places)?;
            let mut next = vec![w.bin(Op::Add, done, number(1))?.into()];
            next.extend(state);
            Ok(next)
        })?;
        if self.asks_ahead() {
            self.fill_one_more(w, ends[0])?;
        }
        Ok(ends[0].into())
    }

    /// What the producer computes in front of the loop: what its copies need, but for what is there in front of all tasks.
    fn before(&self) -> BTreeSet<Inst> {
        let kernel = self.kernel;
        let mut open = Vec::new();
        for s in self.plan.loops() {
            open.extend(decisions(kernel, s.main));
            s.around.iter().for_each(|&i| open.extend(decisions(kernel, i)));
            for &(i, k) in &s.replay.carried {
                open.push(kernel.insts[i].args[3 + k]);
                // What the loop itself carries on is computed in its steps, of what may stand in front of it.
                open.extend(kernel.insts[i].regions.first().map(|&r| kernel.yields(r)[k]));
            }
            let once = s.brought.iter().map(|b| b.load).chain(s.epilogue.operands.iter().map(|o| o.0));
            let copied = s.loads.iter().chain(&s.lane_tiles).map(|l| l.0).chain(s.vectors.iter().copied()).chain(once);
            copied.for_each(|i| open.extend(places(kernel, i)));
        }
        slice_by(kernel, open, &|i, take| {
            if !self.front.contains(&i) {
                needs(kernel, i, take);
            }
        })
        .difference(&self.front)
        .copied()
        .collect()
    }

    /// Fills the slot of a step from these places.
    fn fill(&self, w: &mut Writer<'_>, done: Value, places: &[Vec<Arg>]) -> Result<(), Refusal> {
        self.fill_of(w, &self.ring, done, places)?;
        self.ring_late.as_ref().map_or(Ok(()), |late| self.fill_of(w, late, done, places))
    }

    /// The same of what a ring guards.
    fn fill_of(&self, w: &mut Writer<'_>, ring: &Ring, done: Value, places: &[Vec<Arg>]) -> Result<(), Refusal> {
        let (kernel, plan) = (self.kernel, self.plan);
        let [slot, round] = ring.slot_and_round(w, done)?;
        let empty = w.bin(Op::BarrierIndex, ring.empty, slot)?;
        // The phase before the one that is filled.
        let before = w.bin(Op::Add, round, number(1))?;
        w.act(Op::BarrierWait, &[empty.into(), before.into()], &[]);
        // What the consumers' lanes have read comes before what units bring: one lane says so here, instead of all of theirs.
        if !plan.lane_tiles.is_empty() {
            w.act(Op::FenceAsync, &[], &[]);
        }
        let full = w.bin(Op::BarrierIndex, ring.full, slot)?;
        let by_unit = |load: Inst| !plan.by_lanes.contains(&load);
        let guarded = |load: Inst| self.ring_of(load).full == ring.full;
        let bytes = self.copied().filter(|c| by_unit(c.0) && guarded(c.0)).map(|(_, bytes, _)| bytes).sum();
        if bytes > 0 {
            w.act(Op::BarrierExpect, &[full.into()], &[Attr::Count(bytes)]);
        } else if ring.brought {
            // Another loop of the ring has units bring something.
            w.act(Op::BarrierArrive, &[full.into()], &[]);
        }
        // What the unit brings is on its way while lanes copy.
        for unit in [true, false] {
            for ((load, _, slots), at) in self.copied().zip(places).filter(|x| by_unit(x.0.0) == unit && guarded(x.0.0)) {
                let buffer = w.bin(Op::LocalIndex, slots, slot)?;
                let view = w.get(kernel.insts[load].args[0])?;
                self.copy(w, load, view, at, [buffer, full])?;
            }
        }
        self.copy_vectors(w, slot.into(), &places[plan.loads.len() + plan.lane_tiles.len()..])?;
        if ring.copied {
            w.act(Op::CopyAsyncArrive, &[full.into()], &[]);
        }
        Ok(())
    }

    /// The copy of a load or gather from these places to a buffer.
    fn copy(&self, w: &mut Writer<'_>, load: Inst, view: Arg, at: &[Arg], [buffer, full]: [Value; 2]) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let indices = kernel.operand(load, "indices").len();
        let (at, mask) = at.split_at(indices.min(at.len()));
        let mut args: Vec<Arg> = [view].into_iter().chain(at.iter().copied()).chain([buffer.into()]).collect();
        if !self.plan.by_lanes.contains(&load) {
            args.push(full.into());
            w.act(Op::AsyncLoad, &args, &[]);
        } else if kernel.insts[load].op == Op::Gather {
            args.extend(mask);
            w.act_with(Op::GatherAsync, &args, if mask.is_empty() { 0 } else { 0b1000 });
        } else {
            w.act(Op::CopyAsync, &args, &[]);
        }
        Ok(())
    }

    /// What stands in front of the loop and is computed in front of all tasks: what copies need, where it takes tiles or reads memory. Tiles stay
    /// in front: those that the tasks look at are computed there again.
    pub(super) fn in_front(&self, w: &mut Writer<'_>) -> Result<BTreeSet<Inst>, Refusal> {
        let (kernel, replay) = (self.kernel, self.replay());
        let mut done = BTreeSet::new();
        if self.plan.persistent || !(replay.tiles || replay.reads) {
            return Ok(done);
        }
        let front: Vec<Inst> = kernel.regions[kernel.body].insts.iter().copied().filter(|i| replay.insts.contains(i)).collect();
        let scalar = |v: Value| matches!(kernel.ty(v), Type::Scalar(_));
        // What nothing but these look at, and scalars, need not be computed again; from the last one on, since users stand behind.
        let mut others: BTreeSet<Value> = BTreeSet::new();
        let all: BTreeSet<Inst> = front.iter().copied().collect();
        kernel.walk(kernel.body, &mut |i| {
            if !all.contains(&i) {
                others.extend(kernel.insts[i].args.iter().copied());
            }
        });
        for &i in front.iter().rev() {
            let d = &kernel.insts[i];
            if d.results.iter().all(|v| scalar(*v) || !others.contains(v)) {
                done.insert(i);
            } else {
                needs(kernel, i, &mut |v| _ = others.insert(v));
            }
        }
        // Tiles that tasks alone look at are theirs.
        let mut wanted: BTreeSet<Value> = BTreeSet::new();
        let mut here: BTreeSet<Inst> = BTreeSet::new();
        for &i in front.iter().rev() {
            if done.contains(&i) || kernel.insts[i].results.iter().any(|v| wanted.contains(v)) {
                needs(kernel, i, &mut |v| _ = wanted.insert(v));
                here.insert(i);
            }
        }
        front.iter().filter(|i| here.contains(i)).try_for_each(|&i| w.copy(i))?;
        front.iter().flat_map(|&i| &kernel.insts[i].results).filter(|v| !scalar(**v)).for_each(|&v| w.forget(v));
        Ok(done)
    }
}
