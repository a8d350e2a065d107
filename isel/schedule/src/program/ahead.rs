//! Places of copies, computed ahead of who looks at what they bring: bounds and indices that a task computes again.
//!
//! ```text
//! nothing read       a step:  indices
//!
//! indices in memory  first:   reads(first step)
//!                    a step:  what follows of reads(step) ─ reads(next step)
//! ```
//!
//! What indices need from memory is read a step ahead, so that it comes while its reader waits for a slot or computes. Reads past the last step
//! bring what the view has there, or zeros, and are never looked at.

use super::Refusal;
use super::write::{Arg, Writer};
use crate::plan::{Replay, needs, places, slice_by};
use std::collections::BTreeSet;
use tilelift_ir::{Effects, Inst, Kernel, Op, Value};

/// The indices of each copy, and its mask.
pub(super) type Places = Vec<Vec<Arg>>;

/// What is asked of copies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// From where they come, which of gathers a mask says, too: what masks of loads leave out others see to.
    Places,
    /// All that loads say: masks, and what stands instead.
    Masks,
}

/// How places of copies are computed, a step at a time.
///
/// Between two steps there is a state: what the loop carries for its copies, and what has been read for the next ones.
#[derive(Clone)]
pub(super) struct Ahead<'k> {
    kernel: &'k Kernel,
    main: Inst,
    /// The loads that are copied, and what is asked of them.
    loads: Vec<Inst>,
    wanted: Wanted,
    /// What the loop carries for them, by number.
    carried: Vec<usize>,
    /// What is computed a step ahead: the reads, and what they need.
    early: Vec<Inst>,
    /// What is computed when the copies begin.
    late: Vec<Inst>,
    /// What the reads bring, as far as `late` and the copies look at it.
    read: Vec<Value>,
}

/// True if an instruction, or one in its regions, is such.
fn holds(kernel: &Kernel, i: Inst, what: &dyn Fn(Inst) -> bool) -> bool {
    let mut found = what(i);
    kernel.insts[i].regions.iter().for_each(|&r| kernel.walk(r, &mut |j| found |= what(j)));
    found
}

impl<'k> Ahead<'k> {
    /// Of the copies of a loop.
    pub fn of(kernel: &'k Kernel, main: Inst, replay: &Replay, loads: Vec<Inst>, wanted: Wanted) -> Ahead<'k> {
        let region = kernel.insts[main].regions[0];
        let step: Vec<Inst> = kernel.regions[region].insts.iter().copied().filter(|i| replay.insts.contains(i)).collect();
        let mut out = Ahead {
            kernel,
            main,
            loads,
            wanted,
            carried: replay.carried.iter().filter(|c| c.0 == main).map(|c| c.1).collect(),
            early: Vec::new(),
            late: step,
            read: Vec::new(),
        };
        let reads = |i: Inst| holds(kernel, i, &|j| kernel.insts[j].op.info().effects == Effects::Reads);
        let sources: BTreeSet<Inst> = out.late.iter().copied().filter(|&i| reads(i)).collect();
        // Nobody knows that a `while` ends where the step behind the last one begins.
        let endless = out.late.iter().any(|&i| holds(kernel, i, &|j| kernel.insts[j].op == Op::While));
        if endless || sources.is_empty() {
            return out;
        }
        let brought: Vec<Value> = sources.iter().flat_map(|&i| kernel.insts[i].results.iter().copied()).collect();
        let behind = slice_by(kernel, brought.clone(), &|i, take| needs(kernel, i, take));
        let mut wanted: Vec<Value> = out.loads.iter().flat_map(|&i| out.of_copy(i)).collect();
        wanted.extend(out.carried.iter().map(|&k| kernel.yields(region)[k]));
        let mut taken: BTreeSet<Value> = wanted.iter().copied().collect();
        let late = slice_by(kernel, wanted, &|i, take| {
            if !sources.contains(&i) {
                needs(kernel, i, take);
            }
        });
        late.iter().filter(|i| !sources.contains(i)).for_each(|&i| needs(kernel, i, &mut |v| _ = taken.insert(v)));
        let step = std::mem::take(&mut out.late);
        out.early = step.iter().copied().filter(|i| behind.contains(i)).collect();
        out.late = step.into_iter().filter(|i| late.contains(i) && !sources.contains(i)).collect();
        out.read = brought.into_iter().filter(|v| taken.contains(v)).collect();
        out
    }

    /// What a copy takes beside its view and its buffer.
    fn of_copy(&self, load: Inst) -> Vec<Value> {
        match self.wanted {
            Wanted::Places => places(self.kernel, load).collect(),
            Wanted::Masks => self.kernel.insts[load].args[1..].to_vec(),
        }
    }

    /// The state in front of the first step, whose index is given.
    pub fn first(&self, w: &mut Writer<'_>, at: Arg) -> Result<Vec<Arg>, Refusal> {
        let args = &self.kernel.insts[self.main].args[3..];
        let mut state = Vec::new();
        for &k in &self.carried {
            state.push(w.get(args[k])?);
        }
        self.read(w, at, &mut state)?;
        Ok(state)
    }

    /// A step: the indices of each copy, and the state behind it. `then` makes the index of the next step, if that is asked for.
    pub fn step(
        &self,
        w: &mut Writer<'_>,
        at: Arg,
        state: &[Arg],
        then: impl FnOnce(&mut Writer<'_>) -> Result<Arg, Refusal>,
    ) -> Result<(Places, Vec<Arg>), Refusal> {
        let kernel = self.kernel;
        let region = kernel.insts[self.main].regions[0];
        let (params, yields) = (&kernel.regions[region].params, kernel.yields(region));
        w.set(params[0], at);
        self.carried.iter().zip(state).for_each(|(&k, &v)| w.set(params[k + 1], v));
        self.read.iter().zip(&state[self.carried.len()..]).for_each(|(&v, &read)| w.set(v, read));
        self.late.iter().try_for_each(|&i| w.copy(i))?;
        let mut all = Vec::new();
        for &load in &self.loads {
            all.push(self.of_copy(load).into_iter().map(|v| w.get(v)).collect::<Result<Vec<Arg>, Refusal>>()?);
        }
        let mut next = Vec::new();
        for &k in &self.carried {
            next.push(w.get(yields[k])?);
        }
        if !self.early.is_empty() {
            let then = then(w)?;
            self.read(w, then, &mut next)?;
        }
        Ok((all, next))
    }

    /// Reads for the step of an index, whose carried values the state has.
    fn read(&self, w: &mut Writer<'_>, at: Arg, state: &mut Vec<Arg>) -> Result<(), Refusal> {
        if self.early.is_empty() {
            return Ok(());
        }
        let params = &self.kernel.regions[self.kernel.insts[self.main].regions[0]].params;
        w.set(params[0], at);
        self.carried.iter().zip(state.iter()).for_each(|(&k, &v)| w.set(params[k + 1], v));
        self.early.iter().try_for_each(|&i| w.copy(i))?;
        for &v in &self.read {
            state.push(w.get(v)?);
        }
        Ok(())
    }
}
