//! Zeros where masks leave out what copies bring whole: see [`crate::plan`]'s `cut`.
//!
//! ```text
//! a step    wait full ─ zeros, if the mask cuts the tile ─ fence ─ all have stored ─ the products that read the slot
//! ```

use super::Refusal;
use super::schedule::Schedule;
use super::write::{Arg, Writer};
use crate::plan::mask_slice;
use tilelift_ir::{Literal, Op};

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
        // They stand side by side: lanes meet in front of them once.
        let mut stores = Vec::new();
        for (&(i, _), &slots) in self.plan.loads.iter().zip(&self.slots).filter(|l| loads.contains(&l.0.0)) {
            let (ty, buffer) = (kernel.ty(kernel.insts[i].results[0]), w.bin(Op::LocalIndex, slots, slot)?);
            let mask = kernel.operand(i, "mask").iter().map(|&v| w.get(v)).collect::<Result<Vec<Arg>, Refusal>>()?;
            let out = w.make(Op::Not, &mask, &[], None)?;
            let zero = if ty.elem().is_float() { Literal::Float(0f64.to_bits()) } else { Literal::Int(0) };
            let zeros = w.make(Op::Splat, &[Arg::Literal(zero, ty.elem())], &[], Some(ty))?;
            stores.push([buffer.into(), zeros.into(), out.into()]);
        }
        stores.iter().for_each(|args| w.act_with(Op::LocalStore, args, MASKED));
        made().zip(before).for_each(|(v, was)| _ = w.swap(v, was));
        w.act(Op::FenceAsync, &[], &[]);
        w.act(Op::TaskBarrier, &[], &[]);
        Ok(())
    }
}
