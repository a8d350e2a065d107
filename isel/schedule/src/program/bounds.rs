//! The bounds of a loop: each task counts its steps as the kernel does, from the same numbers, so that they agree on how many there are.
//!
//! ```text
//! for at in lo..hi step s    ─►    producer: for at in lo..hi step s carry done      consumers: the same; a step is not the first if at ≠ lo
//! ```

use super::Refusal;
use super::gemm::Schedule;
use super::write::{Arg, Writer};
use tilelift_ir::{CmpOp, Literal, Value};

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
    /// The index, as the kernel has it.
    pub at: Value,
    first: Arg,
}

impl Step {
    /// True in every step but the first.
    ///
    /// # Errors
    /// As [`Writer::make`].
    pub fn later(self, w: &mut Writer<'_>) -> Result<Value, Refusal> {
        w.cmp(CmpOp::Ne, self.at, self.first)
    }
}

impl Schedule<'_> {
    /// First index, end and step of the loop.
    fn bounds(&self, w: &Writer<'_>) -> Result<[Arg; 3], Refusal> {
        let args = &self.kernel.insts[self.plan.main].args;
        Ok([w.get(args[0])?, w.get(args[1])?, w.get(args[2])?])
    }

    /// Whether there is a step.
    pub(super) fn runs(&self, w: &mut Writer<'_>) -> Result<Runs, Refusal> {
        Ok(match self.bounds(w)? {
            [Arg::Literal(Literal::Int(lo), _), Arg::Literal(Literal::Int(hi), _), _] => {
                if lo < hi {
                    Runs::Always
                } else {
                    Runs::Never
                }
            }
            [lo, hi, _] => Runs::If(w.cmp(CmpOp::Lt, lo, hi)?),
        })
    }

    /// The loop over the steps.
    pub(super) fn steps(
        &self,
        w: &mut Writer<'_>,
        init: &[Arg],
        body: impl FnOnce(&mut Writer<'_>, Step, &[Value]) -> Result<Vec<Arg>, Refusal>,
    ) -> Result<Vec<Value>, Refusal> {
        let bounds = self.bounds(w)?;
        w.for_loop(bounds, init, |w, at, carried| body(w, Step { at, first: bounds[0] }, carried))
    }
}
