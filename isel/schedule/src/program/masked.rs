//! Zeros where masks leave out what copies bring whole: see [`crate::plan`]'s `masked`.
//!
//! ```text
//! a step    wait full ─ if a mask cuts the tile: zeros ─ fence ─ all have stored ─ the products that read the slot
//! ```

use super::Refusal;
use super::holds::holds;
use super::schedule::ProgramPlan;
use super::write::{Arg, Writer};
use crate::plan::mask_slice;
use std::collections::BTreeSet;
use tilelift_ir::{Op, Value};

/// `local_store` with a mask.
const MASKED: u8 = 0b100;

impl ProgramPlan<'_> {
    /// Puts zeros where they belong in a slot that is full, in the step of an index.
    pub(super) fn apply_masks(&self, w: &mut Writer<'_>, slot: Arg, index: Arg) -> Result<(), Refusal> {
        let (kernel, loads) = (self.kernel, &self.plan.masked);
        if loads.is_empty() {
            return Ok(());
        }
        self.at_index(w, &mask_slice(kernel, self.region, loads), index, |w| match self.whole(w)? {
            Some(whole) => w.choice(whole, |_| Ok(Vec::new()), |w| self.put_zeros(w, slot).map(|()| Vec::new())).map(drop),
            None => self.put_zeros(w, slot),
        })
    }

    /// A condition under which no mask cuts anything; `None` if numbers don't tell.
    fn whole(&self, w: &mut Writer<'_>) -> Result<Option<Arg>, Refusal> {
        let masks: BTreeSet<Value> = self.plan.masked.iter().flat_map(|&i| self.kernel.operand(i, "mask").iter().copied()).collect();
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
        for (&(i, _), &slots) in self.plan.loads.iter().zip(&self.slots).filter(|l| self.plan.masked.contains(&l.0.0)) {
            let buffer = w.bin(Op::LocalIndex, slots, slot)?;
            let mask = kernel.operand(i, "mask").iter().map(|&v| w.get(v)).collect::<Result<Vec<Arg>, Refusal>>()?;
            let out = w.make(Op::Not, &mask, &[], None)?;
            let zeros = self.zero(w, kernel.insts[i].results[0])?;
            stores.push([buffer.into(), zeros.into(), out.into()]);
        }
        stores.iter().for_each(|args| w.act_with(Op::LocalStore, args, MASKED));
        w.act(Op::FenceAsync, &[], &[]);
        w.act(Op::TaskBarrier, &[], &[]);
        Ok(())
    }
}
