//! Sums that bulk copies add to global memory, while the lanes go on.
//!
//! ```text
//! wait until the sums of the step before are read ─ store ─ fence ─ all have stored ─ one lane begins the copy
//! ```

use super::Refusal;
use super::schedule::{ProgramPlan, buffer_type};
use super::staged::StagedState;
use super::write::{Arg, Writer, number};
use tilelift_ir::{AtomicOp, Attr, Op, TileType, Type};

impl ProgramPlan<'_> {
    /// Allocates the buffers, for all loops.
    pub(super) fn alloc_updates(&mut self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        for s in self.before.iter_mut() {
            s.alloc_updates(w)?;
        }
        for u in &self.plan.updates {
            self.updates.push(w.buffer(&buffer_type(&u.tile.shape, &u.tile), &u.tile)?);
        }
        Ok(())
    }

    /// Waits until bulk copies have read what they add.
    pub(super) fn wait_for_updates(&self, w: &mut Writer<'_>, buffers: &mut StagedState) {
        if !self.plan.updates.is_empty() {
            w.act(Op::AsyncStoreWait, &[], &[Attr::Count(0)]);
            buffers.sent = (0..self.plan.updates.len()).collect();
        }
    }

    /// True if there are some.
    pub(super) fn waits_for_updates(&self) -> bool {
        !self.plan.updates.is_empty()
    }

    /// An update.
    pub(super) fn bulk_update(&self, w: &mut Writer<'_>, n: usize, buffers: &mut StagedState) -> Result<(), Refusal> {
        let (u, kernel) = (&self.plan.updates[n], self.kernel);
        let v = kernel.operand(u.inst, "value")[0];
        let mut tile = w.get(v)?;
        let ty = TileType { shape: u.tile.shape.iter().copied().collect(), elem: u.tile.elem };
        if kernel.ty(v).shape() != Some(&u.tile.shape[..]) {
            tile = w.make(Op::Reshape, &[tile], &[], Some(&Type::Tile(ty)))?.into();
        }
        if !buffers.sent.remove(&n) {
            self.wait_for_updates(w, buffers);
            buffers.sent.remove(&n);
        }
        w.act(Op::LocalStore, &[self.updates[n].into(), tile], &[]);
        w.act(Op::FenceAsync, &[], &[]);
        w.act(Op::TaskBarrier, &[], &[]);
        buffers.read.clear();
        let mut args = vec![w.get(kernel.insts[u.inst].args[0])?];
        for numbers in &u.first {
            let mut at: Option<Arg> = None;
            for &v in numbers {
                let one = w.get(v)?;
                at = Some(match at {
                    None => one,
                    Some(sum) => w.bin(Op::Add, sum, one)?.into(),
                });
            }
            args.push(at.unwrap_or(number(0)));
        }
        args.push(self.updates[n].into());
        w.act(Op::AsyncReduce, &args, &[Attr::Atomic(AtomicOp::Add)]);
        Ok(())
    }
}
