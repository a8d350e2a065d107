//! Loops and choices. Carried tiles become one carried lane value per register, in the layout of their class.

use super::Lower;
use super::location::{Tile, ValueLocation};
use super::task::Traces;
use crate::lower::location::Slot;
use std::rc::Rc;
use tilelift_ir::layout::Axis;
use tilelift_ir::{CmpOp, Inst, Region, Type, Value};
use tilelift_lane::{LVal, LaneBuilder};
use tilelift_schedule::LowerError;

impl Lower<'_> {
    /// The shape of the lane values for carried values, which have the types and layouts of `like`.
    pub(super) fn slots_of(&self, like: &[Value]) -> Result<Vec<Slot>, LowerError> {
        like.iter()
            .map(|&v| match self.kernel.ty(v) {
                Type::Tile(_) => {
                    let layout = self.layout_of(v)?;
                    let count = layout.size(Axis::Reg) as usize;
                    Ok(Slot { layout: Some(layout), count })
                }
                Type::Scalar(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => {
                    Ok(Slot { layout: None, count: 1 })
                }
            })
            .collect()
    }

    /// Lane values of `values` in the given slots.
    pub(super) fn flatten(&mut self, b: &mut LaneBuilder, values: &[Value], slots: &[Slot]) -> Result<Vec<LVal>, LowerError> {
        let mut out = Vec::new();
        for (&v, s) in values.iter().zip(slots) {
            match &s.layout {
                Some(l) => out.extend_from_slice(&self.tile(b, v, l)?.regs),
                None => out.push(self.scalar(v)?),
            }
        }
        Ok(out)
    }

    /// Binds values to lane values.
    pub(super) fn bind(&mut self, values: &[Value], slots: &[Slot], lanes: &[LVal]) {
        let mut at = 0;
        for (&v, s) in values.iter().zip(slots) {
            let regs = &lanes[at..at + s.count];
            at += s.count;
            self.values[v] = Some(match &s.layout {
                Some(l) => ValueLocation::Tile(Rc::new(Tile { layout: l.clone(), regs: regs.to_vec() })),
                None => ValueLocation::Scalar(regs[0]),
            });
        }
    }

    pub(super) fn for_op(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let bounds = [self.scalar(d.args[0])?, self.scalar(d.args[1])?, self.scalar(d.args[2])?];
        // At least one instance runs.
        let workers = self.counts_workers(d.args[2]);
        if b.as_const(bounds[2]).is_none() && !workers {
            // A step that is not positive stops the launch, as the interpreter does.
            let zero = b.constant(b.ty(bounds[2]), 0);
            let positive = b.cmp(CmpOp::Gt, bounds[2], zero);
            b.assert(positive);
        }
        let region = d.regions[0];
        let params = &kernel.regions[region].params;
        self.bring_operands(b, i)?;
        self.bring_tables(b, i)?;
        let slots = self.slots_of(&params[1..])?;
        let fresh = self.fresh_sums(b, i, bounds);
        let runs = !fresh.is_empty() || self.known_to_run(bounds);
        let mut init = self.flatten(b, &d.args[3..], &slots)?;
        if !fresh.is_empty() {
            self.undefined_at_first(b, &slots, &fresh, &mut init);
        }
        let narrow = self.carried_as_words(i, &slots);
        let init = self.join_words(b, &narrow, &slots, &init);
        let traces = self.traces();
        self.trace(traces.or(self.traces_of(region, traces)));
        let body = |cx: &mut Self, b: &mut LaneBuilder, iv: LVal, lanes: &[LVal]| {
            cx.forget_accesses();
            cx.values[params[0]] = Some(ValueLocation::Scalar(iv));
            let own = cx.split_words(b, &narrow, &slots, lanes);
            cx.bind(&params[1..], &slots, &own);
            cx.begin_sums(&params[1..], &fresh, [iv, bounds[0]]);
            cx.convert_all(b, &params[1..])?;
            cx.region(b, region)?;
            cx.late_copies(b)?;
            let next = cx.flatten(b, kernel.yields(region), &slots)?;
            Ok::<_, LowerError>(cx.join_words(b, &narrow, &slots, &next))
        };
        // Groups meet for what stands in front of the loop: a turn begins behind it.
        self.begin_turn(b);
        let results = match runs {
            false => b.for_loop(self, bounds, &init, body)?,
            true => b.for_loop_that_runs(self, bounds, &init, body)?,
        };
        self.forget_accesses();
        self.trace(traces.or(self.traces()));
        let results = self.split_words(b, &narrow, &slots, &results);
        self.bind(&d.results, &slots, &results);
        Ok(())
    }

    pub(super) fn while_op(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let (test, run) = (d.regions[0], d.regions[1]);
        let slots = self.slots_of(&kernel.regions[run].params)?;
        let init = self.flatten(b, &d.args, &slots)?;
        let traces = self.traces();
        let once = traces.or(self.traces_of(test, traces));
        let may = once.or(self.traces_of(run, once));
        let may = may.or(self.traces_of(test, may));
        self.trace(may);
        let results = b.while_loop(
            self,
            &init,
            |cx, b, lanes| {
                cx.forget_accesses();
                cx.bind(&kernel.regions[test].params, &slots, lanes);
                cx.convert_all(b, &kernel.regions[test].params)?;
                cx.region(b, test)?;
                cx.scalar(kernel.yields(test)[0])
            },
            |cx, b, lanes| {
                cx.bind(&kernel.regions[run].params, &slots, lanes);
                cx.convert_all(b, &kernel.regions[run].params)?;
                cx.region(b, run)?;
                cx.flatten(b, kernel.yields(run), &slots)
            },
        )?;
        self.forget_accesses();
        self.trace(may);
        self.bind(&d.results, &slots, &results);
        Ok(())
    }

    pub(super) fn if_op(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        if self.arrive_if(b, i)? {
            return Ok(());
        }
        let condition = self.scalar(d.args[0])?;
        self.bring_operands(b, i)?;
        self.bring_tables(b, i)?;
        let slots = self.slots_of(&d.results)?;
        let (before, mut after) = (self.traces(), Traces::default());
        let arm = |cx: &mut Self, b: &mut LaneBuilder, r: Region| -> Result<Vec<LVal>, LowerError> {
            cx.region(b, r)?;
            cx.flatten(b, kernel.yields(r), &slots)
        };
        let otherwise = |cx: &mut Self, b: &mut LaneBuilder| {
            // A barrier of the first arm did not happen here.
            cx.forget_accesses();
            cx.trace(before);
            arm(cx, b, d.regions[1])
        };
        let then = |cx: &mut Self, b: &mut LaneBuilder| {
            let known = cx.assume(d.args[0]);
            let done = arm(cx, b, d.regions[0]);
            cx.assume_no_more(known);
            after = cx.traces();
            done
        };
        let results = b.if_else(self, condition, then, otherwise)?;
        self.forget_accesses();
        self.trace(after.or(self.traces()));
        self.bind(&d.results, &slots, &results);
        Ok(())
    }
}
