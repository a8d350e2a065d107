//! Overlapped main loops whose early products are started a whole step ahead: while lanes compute on one step's products, those of the
//! next step run, and nobody waits for them. The products of two steps are held at once.
//!
//! ```text
//! front        wait full(0) ─ early(0) ─ wait
//! each n       wait full(n+1) ─ start early(n+1) ─ head(n) ─ wait for it and for late(n-1), slot n-1 is empty ─ tail(n) ─ start late(n)
//! behind       head(last) ─ wait ─ tail(last) ─ late(last) ─ wait ─ the last two slots are empty
//! ```

use super::control::Slot;
use super::{Held, Lower, Tile};
use crate::error::LowerError;
use crate::lane::{LVal, LaneBuilder, Unit};
use crate::plan::Overlap;
use tilelift_ir::{CmpOp, Inst, Value};

/// What goes from step to step, by its places among the carried lane values.
struct Carried {
    /// Values that heads make.
    heads: usize,
    /// Sums of late products.
    late: usize,
    /// Early products of the step.
    early: usize,
}

impl Carried {
    fn heads<'a>(&self, lanes: &'a [LVal]) -> &'a [LVal] {
        &lanes[..self.heads]
    }

    fn late<'a>(&self, lanes: &'a [LVal]) -> &'a [LVal] {
        &lanes[self.heads..][..self.late]
    }

    fn early<'a>(&self, lanes: &'a [LVal]) -> &'a [LVal] {
        &lanes[self.heads + self.late..][..self.early]
    }

    /// The index of the step, its slot, the slot before, whether there is one before, and slot and parity of the next step.
    fn numbers(&self, lanes: &[LVal]) -> [LVal; 6] {
        std::array::from_fn(|k| lanes[self.heads + self.late + self.early + k])
    }
}

impl Lower<'_> {
    /// All steps, of which there is one at least; returns the carried values, slot and parity.
    pub(super) fn steps_ahead(
        &mut self,
        b: &mut LaneBuilder,
        i: Inst,
        parts: &Overlap,
        bounds: [LVal; 3],
        slots: &[Slot],
        init: &[LVal],
    ) -> Result<Vec<LVal>, LowerError> {
        let kernel = self.kernel;
        let region = kernel.insts[i].regions[0];
        let params = &kernel.regions[region].params;
        let [slot, parity] = self.role_state()?.ring;
        let late = self.late_yields(i, parts);
        // Initial values in the order in which they are carried: what heads make first.
        let mut at = 0;
        let (mut carried, mut sums) = (Vec::new(), Vec::new());
        for (s, &late) in slots.iter().zip(&late) {
            let list = if late { &mut sums } else { &mut carried };
            list.extend_from_slice(&init[at..at + s.count]);
            at += s.count;
        }
        self.forget_accesses();
        self.values[params[0]] = Some(Held::Scalar(bounds[0]));
        self.start_early(b, parts, [slot, parity])?;
        b.unit(Unit::WaitMatrices { pending: 0 });
        let products = self.early_registers(b, parts)?;
        let c = Carried { heads: carried.len(), late: sums.len(), early: products.len() };
        carried.extend(sums);
        carried.extend(products);
        let [none, one] = [b.i32(0), b.i32(1)];
        carried.extend([bounds[0], slot, slot, none]);
        carried.extend(self.turn(b, [slot, parity])?);
        let second = b.add(bounds[0], bounds[2]);
        let ends = b.for_loop(self, [second, bounds[1], bounds[2]], &carried, |cx, b, iv, lanes| {
            cx.forget_accesses();
            cx.forget_step(region);
            let [index, slot, before, later, next_slot, next_parity] = c.numbers(lanes);
            cx.values[params[0]] = Some(Held::Scalar(iv));
            cx.start_early(b, parts, [next_slot, next_parity])?;
            let products = cx.early_registers(b, parts)?;
            cx.values[params[0]] = Some(Held::Scalar(index));
            let (mut next, sums) = cx.step_behind(b, i, parts, slots, &c, lanes, [slot, before, later])?;
            next.extend(sums.into_iter().flatten());
            next.extend(products);
            next.extend([iv, next_slot, slot, one]);
            next.extend(cx.turn(b, [next_slot, next_parity])?);
            Ok::<_, LowerError>(next)
        })?;
        self.forget_accesses();
        self.forget_step(region);
        let [index, slot, before, later, next_slot, next_parity] = c.numbers(&ends);
        self.values[params[0]] = Some(Held::Scalar(index));
        let (heads, sums) = self.step_behind(b, i, parts, slots, &c, &ends, [slot, before, later])?;
        b.unit(Unit::WaitMatrices { pending: 0 });
        let [_, empty] = self.words(b, slot)?;
        let guard = self.role_state()?.elected;
        b.unit(Unit::Arrive { barrier: empty, guard });
        let results = &kernel.insts[i].results;
        self.bind_late(parts, kernel.yields(region), results, &sums);
        let mut heads = heads.into_iter();
        let mut out = Vec::new();
        for (k, &r) in results.iter().enumerate() {
            if late[k] {
                out.extend(self.flatten(b, &[r], &slots[k..=k])?);
            } else {
                out.extend(heads.by_ref().take(slots[k].count));
            }
        }
        out.extend([next_slot, next_parity]);
        Ok(out)
    }

    /// What stands behind the early products of a step, which are done: head, tail, and the start of its late products. Gives what the
    /// head makes, and the started sums.
    #[allow(clippy::too_many_arguments)]
    fn step_behind(
        &mut self,
        b: &mut LaneBuilder,
        i: Inst,
        parts: &Overlap,
        slots: &[Slot],
        c: &Carried,
        lanes: &[LVal],
        [slot, before, later]: [LVal; 3],
    ) -> Result<(Vec<LVal>, Vec<Vec<LVal>>), LowerError> {
        let kernel = self.kernel;
        let region = kernel.insts[i].regions[0];
        let (params, yields) = (&kernel.regions[region].params, kernel.yields(region));
        let late = self.late_yields(i, parts);
        self.bind_early(parts, c.early(lanes))?;
        self.bind_heads(params, &late, slots, c.heads(lanes));
        self.head(b, i, parts)?;
        b.unit(Unit::Hold);
        b.unit(Unit::WaitMatrices { pending: 0 });
        let [_, empty] = self.words(b, before)?;
        let zero = b.i32(0);
        let some = b.cmp(CmpOp::Ne, later, zero);
        let guard = b.and_guard(self.role_state()?.elected, Some(some));
        b.unit(Unit::Arrive { barrier: empty, guard });
        let mut sums = c.late(lanes);
        for (k, s) in slots.iter().enumerate().filter(|(k, _)| late[*k]) {
            let (own, rest) = sums.split_at(s.count);
            self.bind(&params[k + 1..=k + 1], std::slice::from_ref(s), own);
            sums = rest;
        }
        self.tail(b, parts)?;
        let operands = self.pending(b, parts)?;
        let mut heads = Vec::new();
        for (k, &y) in yields.iter().enumerate().filter(|(k, _)| !late[*k]) {
            heads.extend(self.flatten(b, &[y], &slots[k..=k])?);
        }
        b.unit(Unit::FenceMatrices);
        let started = self.start_late(b, parts, &operands, slot)?;
        // In the order of the carried values.
        let mut sums = Vec::new();
        for &y in yields {
            if let Some(n) = parts.late.iter().position(|&l| kernel.insts[l].results[0] == y) {
                sums.push(started[n].clone());
            }
        }
        Ok((heads, sums))
    }

    /// The registers of the early products.
    fn early_registers(&mut self, b: &mut LaneBuilder, parts: &Overlap) -> Result<Vec<LVal>, LowerError> {
        let mut out = Vec::new();
        for &i in &parts.early {
            let plan = self.planned(i)?.0;
            out.extend_from_slice(&self.tile(b, self.kernel.insts[i].results[0], &plan.d)?.regs);
        }
        Ok(out)
    }

    /// Binds the early products to registers.
    fn bind_early(&mut self, parts: &Overlap, mut lanes: &[LVal]) -> Result<(), LowerError> {
        for &i in &parts.early {
            let layout = self.planned(i)?.0.d.clone();
            let (own, rest) = lanes.split_at(layout.size(tilelift_ir::layout::Axis::Reg) as usize);
            let result: Value = self.kernel.insts[i].results[0];
            self.set_tile(result, Tile { layout, regs: own.to_vec() });
            lanes = rest;
        }
        Ok(())
    }
}
