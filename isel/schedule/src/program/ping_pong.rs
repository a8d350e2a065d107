//! Two replicas of the consumers that take grid positions in ping-pong: while one multiplies, the other one stores.
//!
//! ```text
//! first    its turn ─► products of position 0 ─► second's turn   epilogue   its turn ─► products of position 2 ─► …
//! second                                         its turn ─► products of position 1 ─► first's turn   epilogue   …
//! ```
//!
//! Steps count through all positions, so that a replica passes over the slots of the other one's by adding their number.

use super::Refusal;
use super::schedule::{ProgramPlan, Share};
use super::write::{Arg, Writer, number};
use std::collections::BTreeSet;
use tilelift_ir::{Inst, Op, Value};

/// Which of two replicas may multiply.
#[derive(Clone, Copy)]
pub(super) struct PingPong {
    /// Barriers, one per replica.
    barriers: Value,
    /// This replica's, and the other's.
    own: Value,
    other: Value,
    /// The phase of this replica's that has to be over.
    phase: Value,
}

impl PingPong {
    /// Waits for it.
    pub fn take(self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        let own = w.bin(Op::BarrierIndex, self.barriers, self.own)?;
        w.act(Op::BarrierWait, &[own.into(), self.phase.into()], &[]);
        Ok(())
    }

    /// All products have begun: it is the other's.
    pub fn hand_over(self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        let other = w.bin(Op::BarrierIndex, self.barriers, self.other)?;
        w.act(Op::BarrierArrive, &[other.into()], &[]);
        Ok(())
    }
}

impl ProgramPlan<'_> {
    /// The work of the replica of that number, which takes every other position.
    pub fn every_other(&self, w: &mut Writer<'_>, of: &BTreeSet<Inst>, own: Value, barriers: Value) -> Result<(), Refusal> {
        let Some(mut count) = self.count.map(Arg::from) else { return Err(Refusal::Bounds { main: self.plan.main }) };
        // What comes behind the loop takes steps as well.
        if self.plan.epilogue.steps() > 0 {
            count = w.bin(Op::Add, count, number(self.plan.epilogue.steps()))?.into();
        }
        let before = w.bin(Op::Mul, count, own)?;
        let other = w.bin(Op::Sub, number(1), own)?;
        self.positions(w, of, Share { first: own.into(), of: 2 }, &[before.into(), number(0)], |w, carried| {
            let &[done, nth] = carried else { return Ok(Vec::new()) };
            // The first product needs nobody to hand it over: a wait for the phase before a fresh barrier's first is over.
            let phase = w.bin(Op::Add, nth, other)?;
            let ping_pong = PingPong { barriers, own, other, phase };
            let done = self.consume(w, done, Some(ping_pong))?;
            let done = w.bin(Op::Add, done, count)?;
            let nth = w.bin(Op::Add, nth, number(1))?;
            Ok(vec![Arg::from(done), Arg::from(nth)])
        })
    }
}
