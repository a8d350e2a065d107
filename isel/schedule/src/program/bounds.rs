//! The bounds of a loop: each task counts its steps as the kernel does, from the same numbers, so that they agree on how many there are.
//!
//! ```text
//! for at in lo..hi step s    ─►    producer: for at in lo..hi step s carry done      consumers: the same; a step is not the first if at ≠ lo
//!                            ping-pong: count = steps, for n in 0..count step 1      at = lo + n s; who passes over a position adds `count`
//! ```

use super::Refusal;
use super::schedule::ProgramPlan;
use super::write::{Arg, Writer, number};
use crate::plan::alike;
use tilelift_ir::{Attr, CmpOp, Literal, Op, Scalar, Value};

/// Whether a loop runs.
#[derive(Clone, Copy)]
pub(super) enum Runs {
    Always,
    Never,
    /// If this holds.
    If(Value),
}

/// A step of the loop.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// What the written loop counts: the kernel's index, or steps.
    counter: Value,
    first: Arg,
}

impl Step {
    /// True in every step but the first.
    ///
    /// # Errors
    /// As [`Writer::make`].
    pub fn later(self, w: &mut Writer<'_>) -> Result<Value, Refusal> {
        w.cmp(CmpOp::Ne, self.counter, self.first)
    }
}

/// A literal `i32`.
fn literal(a: Arg) -> Option<i64> {
    match a {
        Arg::Literal(Literal::Int(x), Scalar::I32) => Some(x),
        Arg::Literal(..) | Arg::Value(_) => None,
    }
}

impl ProgramPlan<'_> {
    /// First index, end and step of the kernel's loop.
    pub(super) fn bounds(&self, w: &Writer<'_>) -> Result<[Arg; 3], Refusal> {
        let args = &self.kernel.insts[self.plan.main].args;
        Ok([w.get(args[0])?, w.get(args[1])?, w.get(args[2])?])
    }

    /// The same of the loop that is written.
    fn counters(&self, w: &Writer<'_>) -> Result<[Arg; 3], Refusal> {
        match self.count {
            Some(count) => Ok([number(0), count.into(), number(1)]),
            None => self.bounds(w),
        }
    }

    /// Whether there is a step.
    pub(super) fn runs(&self, w: &mut Writer<'_>) -> Result<Runs, Refusal> {
        if self.count.is_none() && self.asked_before() {
            return Ok(Runs::Always);
        }
        let [lo, hi, _] = self.counters(w)?;
        Ok(match (literal(lo), literal(hi)) {
            (Some(lo), Some(hi)) if lo < hi => Runs::Always,
            (Some(_), Some(_)) => Runs::Never,
            _ => Runs::If(w.cmp(CmpOp::Lt, lo, hi)?),
        })
    }

    /// True if the loop stands in the arm of a choice that asks whether it runs.
    fn asked_before(&self) -> bool {
        let (kernel, main) = (self.kernel, self.plan.main);
        let Some(&choice) = self.plan.around.last().filter(|&&i| kernel.insts[i].op == Op::If) else { return false };
        let d = &kernel.insts[choice];
        let Some(asks) = kernel.def_inst(d.args[0]).map(|i| &kernel.insts[i]) else { return false };
        let less = asks.op == Op::Cmp && matches!(asks.attrs.first(), Some(Attr::Cmp(CmpOp::Lt)));
        less && asks.args[..] == kernel.insts[main].args[..2] && kernel.regions[d.regions[0]].insts.contains(&main)
    }

    /// The loop over the steps.
    pub(super) fn steps(
        &self,
        w: &mut Writer<'_>,
        init: &[Arg],
        body: impl FnOnce(&mut Writer<'_>, Step, &[Value]) -> Result<Vec<Arg>, Refusal>,
    ) -> Result<Vec<Value>, Refusal> {
        let bounds = self.counters(w)?;
        w.for_loop(bounds, init, |w, counter, carried| body(w, Step { counter, first: bounds[0] }, carried))
    }

    /// The kernel's index in a step.
    pub(super) fn index(&self, w: &mut Writer<'_>, step: Step) -> Result<Value, Refusal> {
        if self.count.is_none() {
            return Ok(step.counter);
        }
        let [lo, _, by] = self.bounds(w)?;
        let past = w.bin(Op::Mul, step.counter, by)?;
        if literal(lo) == Some(0) { Ok(past) } else { w.bin(Op::Add, lo, past) }
    }

    /// How many steps the loop has, in front of all tasks; `None` if that may differ from position to position, or may be no `i32`.
    ///
    /// # Errors
    /// As [`Writer::make`].
    pub(super) fn counted(&self, w: &mut Writer<'_>) -> Result<Option<Value>, Refusal> {
        let kernel = self.kernel;
        let Some((made, by)) = alike(kernel, self.plan.main) else { return Ok(None) };
        kernel.regions[kernel.body].insts.iter().filter(|i| made.contains(i)).try_for_each(|&i| w.copy(i))?;
        let [lo, hi, _] = self.bounds(w)?;
        let extent = kernel.def_inst(kernel.insts[self.plan.main].args[1]).is_some_and(|i| kernel.insts[i].op == Op::Dim);
        if literal(lo) == Some(0) && extent {
            // No extent is negative, so that the sum is right without a sign.
            let end = w.bin(Op::Add, hi, number(by - 1))?;
            return w.bin(Op::DivU, end, number(by)).map(Some);
        }
        if literal(lo) == Some(0) && by == 1 {
            return w.bin(Op::Maximum, hi, number(0)).map(Some);
        }
        // The distance has no sign; where there is none, the quotient means nothing.
        let some = w.cmp(CmpOp::Lt, lo, hi)?;
        let distance = w.bin(Op::Sub, hi, lo)?;
        let before = w.bin(Op::Sub, distance, number(1))?;
        let full = w.bin(Op::DivU, before, number(by))?;
        let count = w.bin(Op::Add, full, number(1))?;
        let count = w.make(Op::Select, &[some.into(), count.into(), number(0)], &[], None)?;
        Ok(Some(w.bin(Op::Maximum, count, number(0))?))
    }
}
