//! Sliced K: several tasks of consumers take the steps of one loop in turns, each into accumulators of its own, and the first one adds up.
//!
//! ```text
//! consumers       steps 0, 4, 8, …    wait for the sums of the others ─ add them ─ what stands behind the loop
//! second_slice    steps 1, 5, 9, …    store its sum ─ arrive
//! third_slice     steps 2, 6, 10, …   likewise
//! fourth_slice    steps 3, 7, 11, …   likewise
//! ```
//!
//! Each task counts its own steps, and has every other slot: a slot is always the same task's, which waits for each of its phases.

use super::Refusal;
use super::schedule::{ProgramPlan, Slices};
use super::write::{Arg, Writer, number};
use tilelift_ir::{Attr, Op, SharedType, Type};

/// Names of the tasks.
pub(super) const NAMES: [&str; 4] = ["consumers", "second_slice", "third_slice", "fourth_slice"];

impl ProgramPlan<'_> {
    /// Allocates what sums are handed over by, if several tasks take steps in turns.
    pub(super) fn alloc_slices(&mut self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        let of = self.plan.slices;
        if of < 2 {
            return Ok(());
        }
        let full = w.make(Op::BarrierAlloc, &[], &[Attr::Count(1)], Some(&Type::Barrier(of - 1)))?;
        let mut buffers = Vec::new();
        for _ in 1..of {
            let mut own = Vec::new();
            for &k in &self.plan.carried {
                let v = self.kernel.insts[self.plan.main].results[k];
                let Some(t) = self.kernel.ty(v).as_tile() else { return Err(Refusal::Typed { op: Op::LocalAlloc }) };
                let ty = Type::Shared(SharedType::new(&t.shape, t.elem));
                own.push(w.make(Op::LocalAlloc, &[], &[Attr::Count(0)], Some(&ty))?);
            }
            buffers.push(own);
        }
        self.slices = Some(Slices { own: 0, buffers, full });
        Ok(())
    }

    /// Which task this is, if several take steps in turns.
    pub(super) fn slice(&self) -> u32 {
        self.slices.as_ref().map_or(0, |s| s.own)
    }

    /// The loop's first index, end and step for this task.
    pub(super) fn slice_bounds(&self, w: &mut Writer<'_>) -> Result<[Arg; 3], Refusal> {
        let [lo, hi, by] = self.bounds(w)?;
        if self.plan.slices < 2 {
            return Ok([lo, hi, by]);
        }
        let first = match self.slice() {
            0 => lo,
            n => {
                let before = w.bin(Op::Mul, by, number(n))?;
                w.bin(Op::Add, lo, before)?.into()
            }
        };
        Ok([first, hi, w.bin(Op::Mul, by, number(self.plan.slices))?.into()])
    }

    /// What the loop carries at first: sums of all tasks but the first begin at zero.
    pub(super) fn slice_init(&self, w: &mut Writer<'_>) -> Result<Vec<Arg>, Refusal> {
        let d = &self.kernel.insts[self.plan.main];
        match self.slice() {
            0 => self.all(w, &d.args[3..]),
            _ => d.results.iter().map(|&v| Ok(self.zero(w, v)?.into())).collect(),
        }
    }

    /// The first task adds up what the others hand over; true for another one, which is done.
    pub(super) fn hand_sums_over(&self, w: &mut Writer<'_>) -> Result<bool, Refusal> {
        let Some(slices) = &self.slices else { return Ok(false) };
        let results = self.plan.carried.iter().map(|&k| self.kernel.insts[self.plan.main].results[k]);
        let barrier = |w: &mut Writer<'_>, n: u32| w.bin(Op::BarrierIndex, slices.full, number(n));
        if let Some(n) = slices.own.checked_sub(1) {
            for (v, &buffer) in results.zip(&slices.buffers[n as usize]) {
                let sum = w.get(v)?;
                w.act(Op::LocalStore, &[buffer.into(), sum], &[]);
            }
            let full = barrier(w, n)?;
            w.act(Op::BarrierArrive, &[full.into()], &[]);
            return Ok(true);
        }
        for (n, buffers) in (0..).zip(&slices.buffers) {
            let full = barrier(w, n)?;
            w.act(Op::BarrierWait, &[full.into(), number(0)], &[]);
            for (v, &buffer) in results.clone().zip(buffers) {
                let (sum, other) = (w.get(v)?, w.make(Op::LocalLoad, &[buffer.into()], &[], None)?);
                let both = w.bin(Op::Add, sum, other)?;
                w.set(v, both);
            }
        }
        Ok(false)
    }
}
