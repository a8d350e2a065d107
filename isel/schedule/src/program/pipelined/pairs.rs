//! Loops with two slots, two steps a round: which slot is read and which is filled stands in the text, so that addresses in shared memory are the same in
//! every round.
//!
//! ```text
//! front:  copy 0 into slot 0
//! body:   wait ─ barrier ─ copy i+1 into 1 ─ step i from slot 0 ─ wait ─ barrier ─ copy i+2 into 0 ─ step i+1 from slot 1      while i + 1 is a step
//! rest:   wait ─ barrier ─ the last step from slot 0                                                                      where steps are odd
//! ```

use super::{LoopCopies, Pipelined, literal, plus};
use crate::program::Refusal;
use crate::program::ahead::Ahead;
use crate::program::write::{Arg, Writer, number};
use tilelift_ir::{Attr, CmpOp, Inst, Op, Scalar};

impl Pipelined<'_> {
    /// A loop of pairs of steps, and the step that is left.
    pub(super) fn pairs(
        &self,
        w: &mut Writer<'_>,
        main: Inst,
        ring: &LoopCopies,
        (ahead, args): (&Ahead<'_>, &[Arg]),
        step: i64,
    ) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let d = &kernel.insts[main];
        let region = d.regions[0];
        let params = &kernel.regions[region].params;
        let ty = kernel.ty(params[0]).elem();
        let by = literal(step, ty);
        let first = ahead.first(w, args[0])?;
        let state = self.begin(w, (ahead, args[0], &first), |w| plus(w, args[0], by, 1, ty), (main, ring, number(0)))?;
        let end: Arg = w.bin(Op::Maximum, args[1], literal(0, ty))?.into();
        let most = w.bin(Op::Sub, end, by)?;
        let held = args.len() - 3;
        let init: Vec<Arg> = args[3..].iter().copied().chain(state).collect();
        let results = w.for_loop([args[0], most.into(), literal(2 * step, ty)], &init, |w, index, carried| {
            let mut values: Vec<Arg> = carried[..held].iter().map(|&v| v.into()).collect();
            let mut state: Vec<Arg> = carried[held..].iter().map(|&v| v.into()).collect();
            let mut at: Arg = index.into();
            for slot in 0..2 {
                let next = plus(w, index.into(), by, slot + 1, ty)?;
                self.shown(w);
                state = self.begin(w, (ahead, next, &state), |w| plus(w, next, by, 1, ty), (main, ring, number(1 - slot)))?;
                values = self.step(w, (main, ring), at, &values, slot)?;
                at = next;
            }
            values.extend(state);
            Ok(values)
        })?;
        let from = self.left(w, end, step, ty)?;
        let init: Vec<Arg> = results[..held].iter().map(|&v| v.into()).collect();
        let results = w.for_loop([from, end, by], &init, |w, index, carried| {
            self.shown(w);
            let values: Vec<Arg> = carried.iter().map(|&v| v.into()).collect();
            self.step(w, (main, ring), index.into(), &values, 0)
        })?;
        w.act(Op::CopyAsyncWait, &[], &[Attr::Count(0)]);
        Self::set_all(w, &d.results, &results);
        Ok(())
    }

    /// What was copied is there for all lanes.
    fn shown(&self, w: &mut Writer<'_>) {
        w.act(Op::CopyAsyncWait, &[], &[Attr::Count(0)]);
        w.act(Op::TaskBarrier, &[], &[]);
    }

    /// The instructions of a step, which reads a slot.
    fn step(&self, w: &mut Writer<'_>, (main, ring): (Inst, &LoopCopies), at: Arg, values: &[Arg], slot: u32) -> Result<Vec<Arg>, Refusal> {
        let region = self.kernel.insts[main].regions[0];
        let params = &self.kernel.regions[region].params;
        w.set(params[0], at);
        params[1..].iter().zip(values).for_each(|(&p, &v)| w.set(p, v));
        self.body(w, region, ring, |w, slots| w.bin(Op::LocalIndex, slots, number(slot)))?;
        self.given(w, region)
    }

    /// The index of the step that no pair has, or the end: the last one, where the bit of the step is not set in what lies in front of the end.
    fn left(&self, w: &mut Writer<'_>, end: Arg, step: i64, ty: Scalar) -> Result<Arg, Refusal> {
        let before = w.bin(Op::Sub, end, literal(1, ty))?;
        let second = w.bin(Op::And, before, literal(step, ty))?;
        let odd = w.cmp(CmpOp::Eq, second, literal(0, ty))?;
        let last = w.bin(Op::And, before, literal(-step, ty))?;
        Ok(w.make(Op::Select, &[odd.into(), last.into(), end], &[], None)?.into())
    }
}
