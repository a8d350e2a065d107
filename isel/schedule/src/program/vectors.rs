//! Vectors beside the ring: see [`crate::plan`]'s `vectors`.

use super::Refusal;
use super::schedule::Schedule;
use super::write::{Arg, Writer};
use tilelift_ir::{Attr, Inst, Op, SharedType, Type, Value};

impl Schedule<'_> {
    /// Allocates the slots, for all loops: those that take one ring have the same vectors.
    pub(super) fn alloc_vectors(&mut self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        for &i in &self.plan.vectors {
            let ty = self.kernel.ty(self.kernel.insts[i].results[0]);
            let Some(t) = ty.as_tile() else { return Err(Refusal::Typed { op: Op::LocalAlloc }) };
            let shape: Vec<u32> = [self.plan.depth].iter().chain(&t.shape).copied().collect();
            self.vectors.push(w.make(Op::LocalAlloc, &[], &[Attr::Count(0)], Some(&Type::Shared(SharedType::new(&shape, t.elem))))?);
        }
        self.before.iter_mut().for_each(|s| s.vectors.clone_from(&self.vectors));
        Ok(())
    }

    /// The producer's lanes begin the copies of a step, from these places.
    pub(super) fn copy_vectors(&self, w: &mut Writer<'_>, slot: Arg, places: &[Vec<Arg>]) -> Result<(), Refusal> {
        for ((&i, at), &slots) in self.plan.vectors.iter().zip(places).zip(&self.vectors) {
            let buffer = w.bin(Op::LocalIndex, slots, slot)?;
            let mut args = vec![w.get(self.kernel.insts[i].args[0])?];
            args.extend(at.iter().copied().chain([buffer.into()]));
            w.act(Op::CopyAsync, &args, &[]);
        }
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
