//! Loops that add up products of what lanes compute: they compute the operands of the next step while the products of this one run.
//!
//! ```text
//! wait slot 0 ─ compute operands of step 0
//! a step n:   wait slot n, load of it ─ begin the products of step n-1 ─ wait for those of step n-2 ─ give slot n-2 back ─ compute operands of step n
//! begin the products of the last step ─ wait for them
//! ```
//!
//! Operands that the unit takes from shared memory alone are stored behind what is computed, into the other one of two buffers ([`super::staged`]).
//!
//! Nobody waits for the last two slots: the loop runs once.
//!
//! Operands are there twice: in flight, and as they are computed, into the registers of those before (backends print such a loop twice). The products of a
//! step begin as soon as its operands are there, and nobody waits for them before the next ones have begun: an assembler moves a wait up, in front of
//! what lanes compute, and they would be idle.

use super::Refusal;
use super::schedule::ProgramPlan;
use super::write::{Arg, Writer, number};
use crate::plan::renewed_by;
use tilelift_ir::{Attr, CmpOp, Inst, Op, Value};

impl ProgramPlan<'_> {
    /// The loop of the consumers; gives the number of the step behind it.
    pub(super) fn converted(&self, w: &mut Writer<'_>, start: Arg) -> Result<Arg, Refusal> {
        let d = &self.kernel.insts[self.plan.main];
        self.wait_brought(w)?;
        let bounds = self.slice_bounds(w)?;
        let init = self.slice_init(w)?;
        let some = w.cmp(CmpOp::Lt, bounds[0], bounds[1])?;
        let none: Vec<Arg> = init.iter().copied().chain([start]).collect();
        let ends = w.choice(some, |w| self.convert_steps(w, bounds, &init, start), |_| Ok(none))?;
        d.results.iter().zip(&ends).for_each(|(&v, &end)| w.set(v, end));
        Ok(ends[init.len()])
    }

    /// At least one step: gives what the loop carries, and the number of the step behind.
    fn convert_steps(&self, w: &mut Writer<'_>, [first, end, by]: [Arg; 3], init: &[Arg], start: Arg) -> Result<Vec<Arg>, Refusal> {
        let kernel = self.kernel;
        let params = &kernel.regions[self.region].params;
        let (operands, held) = (self.computed_operands(), init.len());
        let words = operands.iter().all(|&v| self.in_words(v));
        let brought = self.load_ahead(w, first)?;
        let second: Arg = w.bin(Op::Add, first, by)?.into();
        let ahead = self.convert(w, start, first, (&brought, second), |_| Ok(()))?;
        let mut carried = init.to_vec();
        // The step whose operands are computed, the one whose products run, and whether there was one before that.
        carried.extend([self.next(w, start)?, start, number(0)]);
        carried.extend(self.all(w, &operands)?);
        carried.extend(ahead);
        let ends = w.for_loop([second, end, by], &carried, |w, index, carried| {
            let later = w.cmp(CmpOp::Ne, carried[held + 2], number(0))?;
            params[1..].iter().zip(carried).for_each(|(&p, &v)| w.set(p, v));
            let [now, before] = [carried[held], carried[held + 1]];
            operands.iter().zip(&carried[held + 3..]).for_each(|(&v, &now)| w.set(v, now));
            let brought: Vec<Arg> = carried[held + 3 + operands.len()..].iter().map(|&v| v.into()).collect();
            let behind: Arg = w.bin(Op::Add, index, by)?.into();
            let ahead = self.convert(w, now.into(), index.into(), (&brought, behind), |w| {
                let products = self.begin_products(w, before)?;
                // Words that a loop carries may be read until the next ones are made; what it carries apart is put together in the round.
                let newest = if words { products.len() as u32 } else { 0 };
                self.wait_for_products(w, &products, newest)?;
                self.give_back_before(w, before, later)
            })?;
            let mut out = self.all(w, kernel.yields(self.region))?;
            out.extend([self.next(w, now.into())?, self.next(w, before.into())?, number(1)]);
            out.extend(self.all(w, &operands)?);
            out.extend(ahead);
            Ok(out)
        })?;
        params[1..].iter().zip(&ends).for_each(|(&p, &v)| w.set(p, v));
        operands.iter().zip(&ends[held + 3..]).for_each(|(&v, &now)| w.set(v, now));
        let products = self.begin_products(w, ends[held + 1])?;
        self.wait_for_products(w, &products, 0)?;
        let mut out = self.all(w, kernel.yields(self.region))?;
        out.push(ends[held].into());
        Ok(out)
    }

    /// Gives the slot of the step before one back, if there is one.
    fn give_back_before(&self, w: &mut Writer<'_>, step: Value, later: Value) -> Result<(), Refusal> {
        let give_back = |w: &mut Writer<'_>| {
            let before = w.bin(Op::Sub, step, number(1))?;
            self.release(w, before).map(|()| Vec::new())
        };
        w.choice(later, give_back, |_| Ok(Vec::new())).map(drop)
    }

    /// True for an operand that loops carry in the words that products read: several elements in each. Were it not so, the proof would refuse the loop, and
    /// the printer waits for products at the end of a round.
    fn in_words(&self, v: Value) -> bool {
        let elem = self.kernel.ty(v).elem();
        matches!(elem.bits(), 8 | 16)
    }

    /// What lanes compute for products, in program order.
    fn computed_operands(&self) -> Vec<Value> {
        let kernel = self.kernel;
        let of_lanes = |v: &Value| kernel.def_inst(*v).is_some_and(|i| self.computed(i));
        let mut out: Vec<Value> = Vec::new();
        for v in self.plan.dots.iter().map(|d| kernel.insts[d.0].args[0]).filter(of_lanes) {
            if !out.contains(&v) {
                out.push(v);
            }
        }
        out
    }

    /// Waits for a step's slot and computes its operands of what has been loaded for it, and does something else until what the slot has is in registers;
    /// gives what is loaded for the step behind, at an index.
    fn convert(
        &self,
        w: &mut Writer<'_>,
        step: Arg,
        index: Arg,
        (brought, behind): (&[Arg], Arg),
        meanwhile: impl FnOnce(&mut Writer<'_>) -> Result<(), Refusal>,
    ) -> Result<Vec<Arg>, Refusal> {
        let kernel = self.kernel;
        w.set(kernel.regions[self.region].params[0], index);
        // Of two slots this step's is that of the one before the last, which is given back meanwhile.
        let mut meanwhile = Some(meanwhile);
        if let Some(first) = meanwhile.take_if(|_| self.plan.depth < 3) {
            first(w)?;
        }
        let slot = self.wait(w, step)?;
        self.apply_masks(w, slot, index)?;
        self.see_vectors(w, slot)?;
        self.see_lane_tiles(w, slot)?;
        let tiles = &self.plan.lane_tiles;
        tiles.iter().filter(|t| self.reads_first(t.0)).try_for_each(|t| self.read_lane_tile(w, t.0).map(drop))?;
        if let Some(last) = meanwhile {
            last(w)?;
        }
        let ahead = self.load_renewed(w, [index, behind], brought)?;
        self.plan.prefetched.iter().zip(brought).for_each(|(&i, &now)| w.set(kernel.insts[i].results[0], now));
        let body = kernel.regions[self.region].insts.iter().copied();
        let here = |i: Inst| self.computed(i) && !self.reads_first(i);
        body.filter(|&i| here(i) && !matches!(kernel.insts[i].op, Op::Dot | Op::Yield)).try_for_each(|i| self.compute_lanes(w, i))?;
        self.stage_ahead(w, step)?;
        Ok(ahead)
    }

    /// Begins the products of a step, whose other operands are in its slot.
    fn begin_products(&self, w: &mut Writer<'_>, step: Value) -> Result<Vec<Inst>, Refusal> {
        let kernel = self.kernel;
        let slot: Arg = self.ring.slot(w, step)?.into();
        let dots: Vec<Inst> = kernel.regions[self.region].insts.iter().copied().filter(|&i| kernel.insts[i].op == Op::Dot).collect();
        self.see(w, slot, &dots)?;
        for &i in &dots {
            let d = &kernel.insts[i];
            let a = self.operand_a(w, i)?;
            let accumulator = self.accumulator(w, d.args[2])?;
            let product = self.begin(w, i, step.into(), [a, accumulator])?;
            w.set(d.results[0], product);
        }
        Ok(dots)
    }

    /// What is loaded for the step behind one: what this step has, where places follow from a quotient of the index that stays the same.
    fn load_renewed(&self, w: &mut Writer<'_>, [index, behind]: [Arg; 2], brought: &[Arg]) -> Result<Vec<Arg>, Refusal> {
        let Some(quotient) = renewed_by(self.kernel, self.plan.main, &self.plan.prefetched) else { return self.load_ahead(w, behind) };
        let d = &self.kernel.insts[quotient];
        let by = w.get(d.args[1])?;
        let (now, then) = (w.bin(d.op, index, by)?, w.bin(d.op, behind, by)?);
        let renewed = w.cmp(CmpOp::Ne, now, then)?;
        w.choice(renewed, |w| self.load_ahead(w, behind), |_| Ok(brought.to_vec()))
    }

    /// Waits for the products that the loop yields, and so for all, up to the newest.
    fn wait_for_products(&self, w: &mut Writer<'_>, products: &[Inst], newest: u32) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let yields = kernel.yields(self.region);
        for v in products.iter().map(|&i| kernel.insts[i].results[0]).filter(|v| yields.contains(v)) {
            let product = w.get(v)?;
            let made = w.make(Op::AsyncDotWait, &[product], &[Attr::Count(newest)], None)?;
            w.set(v, made);
        }
        Ok(())
    }
}
