//! Main loops whose products run while the lanes compute: see [`tilelift_schedule::plan::Overlap`] for the parts.
//!
//! ```text
//! front        wait full(0) ─ early(0) ─ wait ─ head(0) ─ tail(0)
//! each n > 0   wait full(n) ─ start early(n), start late(n-1) ─ wait for early ─ head(n) ─ wait for late ─ slot n-1 is empty ─ tail(n)
//! behind       late(last) ─ wait ─ its slot is empty
//! ```
//!
//! From step to step go the head's carried values, the operands A of the late products as words, and the sums on which these add.

use super::control::Slot;
use super::warpgroup::{SourceA, Start};
use super::{Lower, Tile, ValueLocation};
use crate::lane::GroupMatrixId;
use crate::lane::{LTy, LVal, LaneBuilder, Unit, Vals};
use crate::layout::dots::DotPlan;
use std::collections::BTreeMap;
use std::rc::Rc;
use tilelift_ir::{CmpOp, Inst, Region, Value};
use tilelift_schedule::LowerError;
use tilelift_schedule::plan::{Overlap, is_zero};
use tilelift_schedule::reason::Missing;

/// What the late products of a step need: the words of each operand A by fragment, and the sums; no sum means zero.
#[derive(Default)]
struct Pending {
    register_a: Vec<BTreeMap<(u32, u32), Vals>>,
    sums: Vec<Option<Vec<LVal>>>,
}

impl Pending {
    fn flatten(&self) -> Vec<LVal> {
        let words = self.register_a.iter().flat_map(|l| l.values().flatten());
        words.chain(self.sums.iter().flatten().flatten()).copied().collect()
    }

    /// The same shape with other registers.
    fn with(&self, lanes: &[LVal]) -> Pending {
        let mut lanes = lanes.iter().copied();
        let mut words = |w: &Vals| -> Vals { lanes.by_ref().take(w.len()).collect() };
        let register_a = self.register_a.iter().map(|l| l.iter().map(|(&at, w)| (at, words(w))).collect()).collect();
        let sums = self.sums.iter().map(|s| s.as_ref().map(|s| lanes.by_ref().take(s.len()).collect())).collect();
        Pending { register_a, sums }
    }
}

impl Lower<'_> {
    /// The main loop of the consumers.
    pub(super) fn consume_overlapped(&mut self, b: &mut LaneBuilder, i: Inst, parts: &Overlap) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let bounds = [self.scalar(d.args[0])?, self.scalar(d.args[1])?, self.scalar(d.args[2])?];
        let region = d.regions[0];
        self.bring_operands_a(b)?;
        let slots = self.slots_of(&kernel.regions[region].params[1..])?;
        let init = self.flatten(b, &d.args[3..], &slots)?;
        let start = self.role_state()?.ring;
        let some = b.cmp(CmpOp::Lt, bounds[0], bounds[1]);
        let run = |cx: &mut Self, b: &mut LaneBuilder| cx.overlapped_steps(b, i, parts, bounds, &slots, &init);
        let none = || init.iter().copied().chain(start).collect::<Vec<LVal>>();
        let ends = match b.as_const(some) {
            Some(0) => none(),
            Some(_) => run(self, b)?,
            None => b.if_else(self, some, run, |_, _| Ok::<_, LowerError>(none()))?,
        };
        self.forget_accesses();
        let (values, ring) = ends.split_at(ends.len() - 2);
        self.role_mut()?.ring = [ring[0], ring[1]];
        self.bind(&d.results, &slots, values);
        Ok(())
    }

    /// All steps, of which there is one at least; returns the carried values, slot and parity.
    fn overlapped_steps(
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
        let elected = self.role_state()?.elected;
        let [slot, parity] = self.role_state()?.ring;
        let yields = kernel.yields(region);
        let late = self.late_yields(i, parts);

        self.forget_accesses();
        self.values[params[0]] = Some(ValueLocation::Scalar(bounds[0]));
        self.bind(&params[1..], slots, init);
        self.start_early(b, parts, [slot, parity])?;
        b.unit(Unit::WaitMatrices { pending: 0 });
        self.head(b, i, parts)?;
        self.tail(b, parts)?;
        let pending = self.pending(b, parts)?;
        let heads = |cx: &mut Self, b: &mut LaneBuilder| -> Result<Vec<LVal>, LowerError> {
            let mut out = Vec::new();
            for (k, &y) in yields.iter().enumerate().filter(|(k, _)| !late[*k]) {
                out.extend(cx.flatten(b, &[y], &slots[k..=k])?);
            }
            Ok(out)
        };
        let mut carried = heads(self, b)?;
        let (held, all) = (carried.len(), carried.len() + pending.flatten().len());
        carried.extend(pending.flatten());
        carried.push(slot);
        carried.extend(self.turn(b, [slot, parity])?);
        let second = b.add(bounds[0], bounds[2]);
        let ends = b.for_loop(self, [second, bounds[1], bounds[2]], &carried, |cx, b, iv, lanes| {
            cx.forget_accesses();
            cx.forget_step(region);
            cx.values[params[0]] = Some(ValueLocation::Scalar(iv));
            let [before, slot, parity] = [lanes[all], lanes[all + 1], lanes[all + 2]];
            cx.start_early(b, parts, [slot, parity])?;
            let sums = cx.start_late(b, parts, &pending.with(&lanes[held..all]), before)?;
            b.unit(Unit::WaitMatrices { pending: 1 });
            cx.bind_heads(params, &late, slots, &lanes[..held]);
            cx.head(b, i, parts)?;
            if parts.hold {
                b.unit(Unit::Hold);
            }
            b.unit(Unit::WaitMatrices { pending: 0 });
            let [_, empty] = cx.words(b, before)?;
            b.unit(Unit::Arrive { barrier: empty, guard: elected });
            cx.bind_late(parts, yields, &params[1..], &sums);
            cx.tail(b, parts)?;
            let mut next = heads(cx, b)?;
            next.extend(cx.pending(b, parts)?.flatten());
            next.push(slot);
            next.extend(cx.turn(b, [slot, parity])?);
            Ok::<_, LowerError>(next)
        })?;
        // The late products of the last step.
        let before = ends[all];
        b.unit(Unit::FenceMatrices);
        let sums = self.start_late(b, parts, &pending.with(&ends[held..all]), before)?;
        b.unit(Unit::WaitMatrices { pending: 0 });
        let [_, empty] = self.words(b, before)?;
        b.unit(Unit::Arrive { barrier: empty, guard: elected });
        let results = &kernel.insts[i].results;
        self.bind_late(parts, yields, results, &sums);
        let mut heads = ends[..held].iter().copied();
        let mut out = Vec::new();
        for (k, &r) in results.iter().enumerate() {
            if late[k] {
                out.extend(self.flatten(b, &[r], &slots[k..=k])?);
            } else {
                out.extend(heads.by_ref().take(slots[k].count));
            }
        }
        out.extend_from_slice(&ends[all + 1..]);
        Ok(out)
    }

    /// Which carried values are sums of late products.
    fn late_yields(&self, i: Inst, parts: &Overlap) -> Vec<bool> {
        let kernel = self.kernel;
        let yields = kernel.yields(kernel.insts[i].regions[0]);
        yields.iter().map(|&y| parts.late.iter().any(|&l| kernel.insts[l].results[0] == y)).collect()
    }

    /// Waits for a slot and starts the early products of what is in it.
    fn start_early(&mut self, b: &mut LaneBuilder, parts: &Overlap, [slot, parity]: [LVal; 2]) -> Result<(), LowerError> {
        let [full, _] = self.words(b, slot)?;
        b.unit(Unit::Wait { barrier: full, parity });
        self.read_slot(b, Some(slot))?;
        let mut ready = Vec::new();
        for &i in &parts.early {
            let (plan, q) = self.planned(i)?;
            let c = self.kernel.insts[i].args[2];
            let start = if is_zero(self.kernel, c) { Start::Zero } else { Start::Sum(self.tile(b, c, &plan.d)?.regs.clone()) };
            ready.push((i, self.left(b, i, &plan, q)?, plan, q, start));
        }
        b.unit(Unit::FenceMatrices);
        for (i, left, plan, q, start) in ready {
            let regs = self.start_dot(b, i, &plan, q, &left, start)?;
            self.set_tile(self.kernel.insts[i].results[0], Tile { layout: plan.d.clone(), regs });
        }
        b.unit(Unit::CommitMatrices);
        self.read_slot(b, None)
    }

    /// Starts the late products of the step whose slot this is; gives the registers of their results.
    fn start_late(&mut self, b: &mut LaneBuilder, parts: &Overlap, pending: &Pending, slot: LVal) -> Result<Vec<Vec<LVal>>, LowerError> {
        self.read_slot(b, Some(slot))?;
        let mut sums = Vec::new();
        for (n, &i) in parts.late.iter().enumerate() {
            let (plan, q) = self.planned(i)?;
            let start = pending.sums[n].clone().map_or(Start::Zero, Start::Sum);
            sums.push(self.start_dot(b, i, &plan, q, &SourceA::Regs(pending.register_a[n].clone()), start)?);
        }
        b.unit(Unit::CommitMatrices);
        self.read_slot(b, None)?;
        Ok(sums)
    }

    fn read_slot(&mut self, b: &mut LaneBuilder, slot: Option<LVal>) -> Result<(), LowerError> {
        let always = b.constant(LTy::I1, 1);
        self.role_mut()?.reading = slot.map(|s| [s, always]);
        Ok(())
    }

    fn planned(&self, i: Inst) -> Result<(Rc<DotPlan>, GroupMatrixId), LowerError> {
        let found = self.assigned.dots[i].clone().and_then(|p| Some((p.clone(), p.group?)));
        found.ok_or_else(|| Missing::DotPlan.into())
    }

    /// Forgets conversions of what a step makes: the same instructions are lowered again for another step.
    fn forget_step(&mut self, region: Region) {
        let r = &self.kernel.regions[region];
        let made = r.insts.iter().flat_map(|&j| &self.kernel.insts[j].results).chain(&r.params);
        for v in made {
            self.variants.remove(v);
        }
    }

    /// What the lanes make of the early products.
    fn head(&mut self, b: &mut LaneBuilder, i: Inst, parts: &Overlap) -> Result<(), LowerError> {
        let region = self.kernel.insts[i].regions[0];
        for &j in &self.kernel.regions[region].insts {
            if ![&parts.early, &parts.late, &parts.tail].iter().any(|part| part.contains(&j)) {
                self.inst(b, j).map_err(|e| e.at(self.kernel.locs[j]))?;
            }
        }
        Ok(())
    }

    fn tail(&mut self, b: &mut LaneBuilder, parts: &Overlap) -> Result<(), LowerError> {
        parts.tail.iter().try_for_each(|&j| self.inst(b, j).map_err(|e| e.at(self.kernel.locs[j])))
    }

    /// What this step leaves to its late products.
    fn pending(&mut self, b: &mut LaneBuilder, parts: &Overlap) -> Result<Pending, LowerError> {
        let mut out = Pending::default();
        for &i in &parts.late {
            let (plan, q) = self.planned(i)?;
            match self.left(b, i, &plan, q)? {
                SourceA::Regs(words) => out.register_a.push(words),
                SourceA::Shared { .. } => return Err(Missing::RegisterA.into()),
            }
            let c = self.kernel.insts[i].args[2];
            out.sums.push(if is_zero(self.kernel, c) { None } else { Some(self.tile(b, c, &plan.d)?.regs.clone()) });
        }
        Ok(out)
    }

    /// Binds the carried values that heads make.
    fn bind_heads(&mut self, params: &[Value], late: &[bool], slots: &[Slot], lanes: &[LVal]) {
        let mut at = 0;
        for (k, s) in slots.iter().enumerate().filter(|(k, _)| !late[*k]) {
            self.bind(&params[k + 1..=k + 1], std::slice::from_ref(s), &lanes[at..at + s.count]);
            at += s.count;
        }
    }

    /// Binds the values that stand for sums of late products, in the order of the yields.
    fn bind_late(&mut self, parts: &Overlap, yields: &[Value], values: &[Value], sums: &[Vec<LVal>]) {
        for (&i, regs) in parts.late.iter().zip(sums) {
            let result = self.kernel.insts[i].results[0];
            if let (Some(k), Some(plan)) = (yields.iter().position(|&y| y == result), self.assigned.dots[i].clone()) {
                self.set_tile(values[k], Tile { layout: plan.d.clone(), regs: regs.clone() });
            }
        }
    }
}
