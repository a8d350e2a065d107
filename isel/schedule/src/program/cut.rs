//! Zeros where masks leave out what copies bring whole: see [`crate::plan`]'s `cut`.
//!
//! ```text
//! a step    wait full ─ if a mask cuts the tile: zeros ─ fence ─ all have stored ─ the products that read the slot
//! ```

use super::Refusal;
use super::holds::holds;
use super::schedule::Schedule;
use super::write::{Arg, Writer};
use crate::plan::mask_slice;
use std::collections::BTreeSet;
use tilelift_ir::{Literal, Op, Value};

/// `local_store` with a mask.
const MASKED: u8 = 0b100;

impl Schedule<'_> {
    /// Puts zeros where they belong in a slot that is full, in the step of an index.
    pub(super) fn cut(&self, w: &mut Writer<'_>, slot: Arg, index: Arg) -> Result<(), Refusal> {
        let (kernel, loads) = (self.kernel, &self.plan.cut);
        if loads.is_empty() {
            return Ok(());
        }
        let slice = mask_slice(kernel, self.region, loads);
        let param = kernel.regions[self.region].params[0];
        let made = || slice.iter().flat_map(|&i| kernel.insts[i].results.iter().copied()).chain([param]);
        let before: Vec<Option<Arg>> = made().map(|v| w.swap(v, None)).collect();
        w.set(param, index);
        slice.iter().try_for_each(|&i| w.copy(i))?;
        match self.whole(w)? {
            Some(whole) => drop(w.choice(whole, |_| Ok(Vec::new()), |w| self.put_zeros(w, slot).map(|()| Vec::new()))?),
            None => self.put_zeros(w, slot)?,
        }
        made().zip(before).for_each(|(v, was)| _ = w.swap(v, was));
        Ok(())
    }

    /// A condition under which no mask cuts anything; `None` if numbers don't tell.
    fn whole(&self, w: &mut Writer<'_>) -> Result<Option<Arg>, Refusal> {
        let masks: BTreeSet<Value> = self.plan.cut.iter().flat_map(|&i| self.kernel.operand(i, "mask").iter().copied()).collect();
        let mut all: Option<Arg> = None;
        for mask in masks {
            let Some(one) = holds(self.kernel, w, mask, true)? else { return Ok(None) };
            all = Some(match all {
                Some(all) => w.bin(Op::And, all, one)?.into(),
                None => one,
            });
        }
        Ok(all)
    }

    /// Puts zeros in a slot: those of all loads side by side, so that lanes meet in front of them once.
    fn put_zeros(&self, w: &mut Writer<'_>, slot: Arg) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let mut stores = Vec::new();
        for (&(i, _), &slots) in self.plan.loads.iter().zip(&self.slots).filter(|l| self.plan.cut.contains(&l.0.0)) {
            let (ty, buffer) = (kernel.ty(kernel.insts[i].results[0]), w.bin(Op::LocalIndex, slots, slot)?);
            let mask = kernel.operand(i, "mask").iter().map(|&v| w.get(v)).collect::<Result<Vec<Arg>, Refusal>>()?;
            let out = w.make(Op::Not, &mask, &[], None)?;
            let zero = if ty.elem().is_float() { Literal::Float(0f64.to_bits()) } else { Literal::Int(0) };
            let zeros = w.make(Op::Splat, &[Arg::Literal(zero, ty.elem())], &[], Some(ty))?;
            stores.push([buffer.into(), zeros.into(), out.into()]);
        }
        stores.iter().for_each(|args| w.act_with(Op::LocalStore, args, MASKED));
        w.act(Op::FenceAsync, &[], &[]);
        w.act(Op::TaskBarrier, &[], &[]);
        Ok(())
    }
}
