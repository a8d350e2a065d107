//! The consumers' loop: products of what arrives in the ring, and slots that are given back.
//!
//! ```text
//! a step   wait full[slot]   operand A to registers, if it goes there   products, one batch   one wait   give a slot back   partial sums
//!
//! one batch in flight      the wait leaves the newest batch: the slot before is given back, the last one behind the loop
//! none                     operand A is in registers, or lanes add what products are alone: the slot itself is given back
//! ```

use super::Refusal;
use super::bounds::Runs;
use super::ping_pong::PingPong;
use super::schedule::ProgramPlan;
use super::write::{Arg, Writer, number};
use crate::plan::merges_rows;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use tilelift_ir::{Attr, Inst, Literal, Op, SharedType, Type, Value};

impl ProgramPlan<'_> {
    /// The loop; gives the number of the step behind. In `ping_pong` it waits for its own, and hands over when its products have begun.
    pub fn main(&self, w: &mut Writer<'_>, start: Arg, ping_pong: Option<PingPong>) -> Result<Arg, Refusal> {
        let d = &self.kernel.insts[self.plan.main];
        let accumulators = self.plan.carried.iter().map(|&k| w.get(d.args[3 + k])).collect::<Result<Vec<Arg>, Refusal>>()?;
        ping_pong.map_or(Ok(()), |t| t.take(w))?;
        let none = |w: &mut Writer<'_>| {
            ping_pong.map_or(Ok(()), |t| self.hand_turn_over(w, t, start))?;
            Ok(accumulators.iter().copied().chain([start]).collect())
        };
        let ends: Vec<Arg> = match self.runs(w)? {
            Runs::Always => self.multiply(w, &accumulators, start, ping_pong)?,
            Runs::Never => none(w)?,
            Runs::If(some) => w.choice(some, |w| self.multiply(w, &accumulators, start, ping_pong), none)?,
        };
        self.plan.carried.iter().zip(&ends).for_each(|(&k, &accumulator)| w.set(d.results[k], accumulator));
        Ok(ends[accumulators.len()])
    }

    /// At least one step: gives the accumulators, and the number of the step behind.
    fn multiply(&self, w: &mut Writer<'_>, accumulators: &[Arg], start: Arg, ping_pong: Option<PingPong>) -> Result<Vec<Arg>, Refusal> {
        let (kernel, plan) = (self.kernel, self.plan);
        let params = &kernel.regions[self.region].params;
        let held = accumulators.len();
        let fresh = self.fresh(w)?;
        let init: Vec<Arg> = accumulators.iter().copied().chain([start]).collect();
        let ends = self.steps(w, &init, |w, step, carried| {
            plan.carried.iter().zip(carried).for_each(|(&k, &v)| w.set(params[k + 1], v));
            let done = carried[held];
            let [slot, round] = self.ring.slot_and_round(w, done)?;
            self.ring.wait_full(w, slot.into(), round.into())?;
            for (n, &(load, _)) in plan.loads.iter().enumerate() {
                let buffer = w.bin(Op::LocalIndex, self.slots[n], slot)?;
                w.set(kernel.insts[load].results[0], buffer);
            }
            if !plan.masked.is_empty() {
                let index = self.index(w, step)?;
                self.apply_masks(w, slot.into(), index.into())?;
            }
            self.batch(w, &fresh)?;
            if plan.in_flight > 0 {
                // All but the newest batch are done: the slot before is read.
                let later = step.later(w)?;
                let give_back = |w: &mut Writer<'_>| {
                    let before = w.bin(Op::Sub, done, number(1))?;
                    self.ring.give_back(w, before).map(|()| Vec::new())
                };
                w.choice(later, give_back, |_| Ok(Vec::new()))?;
            } else {
                self.ring.give_back(w, done)?;
            }
            self.promote(w)?;
            let yields = kernel.yields(self.region);
            let mut next = plan.carried.iter().map(|&k| w.get(yields[k])).collect::<Result<Vec<Arg>, Refusal>>()?;
            next.push(w.bin(Op::Add, done, number(1))?.into());
            Ok(next)
        })?;
        ping_pong.map_or(Ok(()), |t| self.hand_turn_over(w, t, ends[held].into()))?;
        let mut out: Vec<Arg> = ends.iter().map(|&v| v.into()).collect();
        if plan.in_flight > 0 {
            for accumulator in &mut out[..held] {
                *accumulator = w.make(Op::AsyncDotWait, &[*accumulator], &[Attr::Count(0)], None)?.into();
            }
            let last = w.bin(Op::Sub, ends[held], number(1))?;
            self.ring.give_back(w, last)?;
        }
        Ok(out)
    }

    /// The other set's turn comes when what stands behind the loop is there: it tells phases apart from then on.
    fn hand_turn_over(&self, w: &mut Writer<'_>, ping_pong: PingPong, done: Arg) -> Result<(), Refusal> {
        self.wait_behind(w, done)?;
        ping_pong.hand_over(w)
    }

    /// The products of the loop, in program order.
    fn dots(&self) -> impl Iterator<Item = Inst> {
        let kernel = self.kernel;
        kernel.regions[self.region].insts.iter().copied().filter(|&i| kernel.insts[i].op == Op::Dot)
    }

    /// Zeros to which a product is added that lanes add to the accumulator, by the accumulator.
    fn fresh(&self, w: &mut Writer<'_>) -> Result<BTreeMap<Inst, Value>, Refusal> {
        let mut out = BTreeMap::new();
        for i in self.dots().filter(|_| self.plan.promoted) {
            let ty = self.kernel.ty(self.kernel.insts[i].results[0]);
            let zero = if ty.elem().is_float() { Literal::Float(0.0f64.to_bits()) } else { Literal::Int(0) };
            out.insert(i, w.make(Op::Splat, &[Arg::Literal(zero, ty.elem())], &[], Some(ty))?);
        }
        Ok(out)
    }

    /// The products of a step, and the wait for those that are to be over; what they are is named by the kernel's products.
    fn batch(&self, w: &mut Writer<'_>, fresh: &BTreeMap<Inst, Value>) -> Result<(), Refusal> {
        let (kernel, plan) = (self.kernel, self.plan);
        kernel.regions[self.region].insts.iter().try_for_each(|&i| self.view(w, i))?;
        // Operands that go through registers: the slot may be written again when all lanes have read it.
        let mut fetched: BTreeMap<Value, Value> = BTreeMap::new();
        for &dot in &plan.register_a {
            let a = kernel.insts[dot].args[0];
            if let Entry::Vacant(place) = fetched.entry(a) {
                let from = w.get(a)?;
                place.insert(w.make(Op::LocalLoad, &[from], &[], None)?);
            }
        }
        if !fetched.is_empty() {
            w.act(Op::FenceAsync, &[], &[]);
            w.act(Op::TaskBarrier, &[], &[]);
        }
        let mut products = Vec::new();
        for i in self.dots() {
            let d = &kernel.insts[i];
            let a = match fetched.get(&d.args[0]).filter(|_| plan.register_a.contains(&i)) {
                Some(&tile) => tile.into(),
                None => w.get(d.args[0])?,
            };
            let accumulator = match fresh.get(&i) {
                Some(&zero) => zero.into(),
                None => w.get(d.args[2])?,
            };
            let args = [a, w.get(d.args[1])?, accumulator];
            let product = w.make(Op::AsyncDot, &args, &d.attrs, None)?;
            // The next one may add to it.
            w.set(d.results[0], product);
            products.push((i, product));
        }
        // One wait is for all: those that lanes look at are named by it.
        let pending = products.len() as u32 * plan.in_flight;
        let last = products.len().saturating_sub(1);
        for (n, (i, product)) in products.into_iter().enumerate() {
            if plan.promoted || n == last {
                let v = w.make(Op::AsyncDotWait, &[product.into()], &[Attr::Count(pending)], None)?;
                w.set(kernel.insts[i].results[0], v);
            }
        }
        Ok(())
    }

    /// Adds products to the accumulators, where lanes do.
    fn promote(&self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        for i in self.dots().filter(|_| self.plan.promoted) {
            let d = &self.kernel.insts[i];
            let (old, product) = (w.get(d.args[2])?, w.get(d.results[0])?);
            let sum = w.bin(Op::Add, old, product)?;
            w.set(d.results[0], sum);
        }
        Ok(())
    }

    /// What an instruction makes of a slot. Loads are the producer's, and so are the scalars that say from where.
    fn view(&self, w: &mut Writer<'_>, i: Inst) -> Result<(), Refusal> {
        if self.in_ring(i) && !matches!(self.kernel.insts[i].op, Op::Load | Op::Gather) { self.look(w, i) } else { Ok(()) }
    }

    /// Another view of a slot. Behind a reshape it has no extents of 1: a product asks for none, whatever the views in front of it have.
    pub(super) fn look(&self, w: &mut Writer<'_>, i: Inst) -> Result<(), Refusal> {
        let d = &self.kernel.insts[i];
        let from = w.get(d.args[0])?;
        let Some(shape) = self.kernel.ty(d.args[0]).as_tile().map(|t| &t.shape) else { return Err(Refusal::Written { value: d.args[0] }) };
        let Some(extents) = w.extents(from) else { return Err(Refusal::Written { value: d.args[0] }) };
        let bare = extents.len() != shape.len();
        if merges_rows(self.kernel, i)
            && let Some(t) = self.kernel.ty(d.results[0]).as_tile()
        {
            let shape: Vec<u32> = t.shape.iter().copied().filter(|&e| e != 1).collect();
            let seen = w.make(Op::LocalReinterpret, &[from], &[], Some(&Type::Shared(SharedType::new(&shape, t.elem))))?;
            w.set(d.results[0], seen);
            return Ok(());
        }
        let seen = match (d.op, d.attrs.first()) {
            (Op::Transpose, Some(Attr::Perm(perm))) if bare => {
                let real: Vec<usize> = (0..shape.len()).filter(|&k| shape[k] != 1).collect();
                let order = perm.iter().filter_map(|&p| real.iter().position(|&k| k == p as usize));
                transposed(w, from, order.map(|k| k as u32).collect())?
            }
            (Op::Transpose, _) => w.make(Op::LocalTranspose, &[from], &d.attrs, None)?.into(),
            (Op::Reshape, _) if !bare => {
                let (ones, others): (Vec<u32>, Vec<u32>) = (0..extents.len() as u32).partition(|&k| extents[k as usize] == 1);
                let mut v = transposed(w, from, ones.iter().chain(&others).copied().collect())?;
                for _ in &ones {
                    v = w.bin(Op::LocalIndex, v, number(0))?.into();
                }
                v
            }
            // The slot lies so.
            _ => from,
        };
        w.set(d.results[0], seen);
        Ok(())
    }
}

/// A slot with its dimensions in another order.
fn transposed(w: &mut Writer<'_>, slot: Arg, order: Vec<u32>) -> Result<Arg, Refusal> {
    if order.windows(2).all(|p| p[0] < p[1]) {
        return Ok(slot);
    }
    Ok(w.make(Op::LocalTranspose, &[slot], &[Attr::Perm(order.into_iter().collect())], None)?.into())
}
