//! Vectors beside the ring: see [`crate::plan`]'s `vectors`.

use super::Refusal;
use super::schedule::Schedule;
use super::write::{Arg, Writer, number};
use tilelift_ir::{Attr, CmpOp, Inst, Op, SharedType, Type, Value};

impl Schedule<'_> {
    /// Allocates the slots, for all loops.
    pub(super) fn alloc_vectors(&mut self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        for s in self.before.iter_mut() {
            s.alloc_vectors(w)?;
        }
        for &i in &self.plan.vectors {
            let ty = self.kernel.ty(self.kernel.insts[i].results[0]);
            let Some(t) = ty.as_tile() else { return Err(Refusal::Typed { op: Op::LocalAlloc }) };
            let shape: Vec<u32> = [self.plan.depth].iter().chain(&t.shape).copied().collect();
            self.vectors.push(w.make(Op::LocalAlloc, &[], &[Attr::Count(0)], Some(&Type::Shared(SharedType::new(&shape, t.elem))))?);
        }
        Ok(())
    }

    /// The producer's lanes begin the copies of a step, from these places.
    pub(super) fn copy_vectors(&self, w: &mut Writer<'_>, slot: Arg, places: &[Vec<Arg>]) -> Result<(), Refusal> {
        if self.plan.vectors.is_empty() {
            // Another loop of the ring has some.
            if self.ring.fills > 1 {
                let full = w.bin(Op::BarrierIndex, self.ring.full, slot)?;
                w.act(Op::BarrierArrive, &[full.into()], &[]);
            }
            return Ok(());
        }
        for ((&i, at), &slots) in self.plan.vectors.iter().zip(places).zip(&self.vectors) {
            let buffer = w.bin(Op::LocalIndex, slots, slot)?;
            let mut args = vec![w.get(self.kernel.insts[i].args[0])?];
            args.extend(at.iter().copied().chain([buffer.into()]));
            w.act(Op::CopyAsync, &args, &[]);
        }
        w.act(Op::CopyAsyncCommit, &[], &[]);
        Ok(())
    }

    /// Waits for the copies of all steps but the newest ones, and says so to who waits for the slot of the step before the one of this number, if
    /// there is one.
    pub(super) fn vectors_landed(&self, w: &mut Writer<'_>, [start, behind]: [Arg; 2], newer: u32) -> Result<(), Refusal> {
        if self.plan.vectors.is_empty() {
            return Ok(());
        }
        w.act(Op::CopyAsyncWait, &[], &[Attr::Count(newer)]);
        let some = w.cmp(CmpOp::Ne, behind, start)?;
        let arrive = |w: &mut Writer<'_>| {
            let before = w.bin(Op::Sub, behind, number(1))?;
            let slot = w.bin(Op::Rem, before, number(self.ring.depth))?;
            let full = w.bin(Op::BarrierIndex, self.ring.full, slot)?;
            w.act(Op::BarrierArrive, &[full.into()], &[]);
            Ok(Vec::new())
        };
        w.choice(some, arrive, |_| Ok(Vec::new()))?;
        Ok(())
    }

    /// Names the vectors of a slot.
    pub(super) fn see_vectors(&self, w: &mut Writer<'_>, slot: Arg) -> Result<(), Refusal> {
        for (&i, &slots) in self.plan.vectors.iter().zip(&self.vectors) {
            let buffer = w.bin(Op::LocalIndex, slots, slot)?;
            w.set(self.kernel.insts[i].results[0], buffer);
        }
        Ok(())
    }

    /// What lanes compute in a step: a vector is read from its slot.
    pub(super) fn compute(&self, w: &mut Writer<'_>, i: Inst) -> Result<(), Refusal> {
        if !self.plan.vectors.contains(&i) {
            return w.copy(i);
        }
        let v: Value = self.kernel.insts[i].results[0];
        let buffer = w.get(v)?;
        let tile = w.make(Op::LocalLoad, &[buffer], &[], None)?;
        w.set(v, tile);
        Ok(())
    }
}
