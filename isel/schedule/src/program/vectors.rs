//! Vectors beside the ring, and those that come through it: see [`crate::plan`]'s `vectors`.

use super::Refusal;
use super::schedule::ProgramPlan;
use super::write::{Arg, Writer};
use crate::plan::is_vector;
use tilelift_ir::{Attr, Inst, Op, SharedType, Type, Value};

impl ProgramPlan<'_> {
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

    /// What lanes compute in a step. Whoever looks at a vector reads it from its slot, as it wants it: rows, columns or one number.
    pub(super) fn compute(&self, w: &mut Writer<'_>, i: Inst) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        if let Some(load) = self.vector_behind(i) {
            if self.read_by_users(load) {
                return Ok(());
            }
            if load == i {
                let buffer = w.get(d.results[0])?;
                let tile = w.make(Op::LocalLoad, &[buffer], &[], None)?;
                w.set(d.results[0], tile);
                return Ok(());
            }
        }
        let mut here: Vec<(Value, Option<Arg>)> = Vec::new();
        for &v in &d.args {
            let load = kernel.def_inst(v).and_then(|j| self.vector_behind(j));
            if load.is_some_and(|l| self.read_by_users(l)) && here.iter().all(|h| h.0 != v) {
                let tile = self.read_vector(w, v)?;
                here.push((v, w.swap(v, Some(tile))));
            }
        }
        w.copy(i)?;
        here.into_iter().for_each(|(v, was)| _ = w.swap(v, was));
        Ok(())
    }

    /// True for a vector that units bring, as they bring tiles.
    pub(super) fn brings_vector(&self, i: Inst) -> bool {
        self.plan.lane_tiles.iter().any(|l| l.0 == i) && self.kernel.operand(i, "mask").is_empty() && is_vector(self.kernel, i)
    }

    /// The load of a vector that an instruction is, or whose elements it shows in another shape.
    fn vector_behind(&self, mut i: Inst) -> Option<Inst> {
        let kernel = self.kernel;
        loop {
            let d = &kernel.insts[i];
            match d.op {
                Op::Load => return (self.plan.vectors.contains(&i) || self.brings_vector(i)).then_some(i),
                Op::Reshape | Op::Slice if kernel.ty(d.results[0]).as_tile().is_some() => i = kernel.def_inst(d.args[0])?,
                _ => return None,
            }
        }
    }

    /// True if all that look at a vector are instructions of a step.
    fn read_by_users(&self, load: Inst) -> bool {
        let kernel = self.kernel;
        let body = &kernel.regions[self.region].insts;
        let mut seen: Vec<Value> = kernel.insts[load].results.to_vec();
        let mut all = true;
        kernel.walk(kernel.body, &mut |i| {
            let d = &kernel.insts[i];
            if d.args.iter().any(|v| seen.contains(v)) {
                all &= body.contains(&i) && d.regions.is_empty() && !matches!(d.op, Op::Yield | Op::Dot);
                if self.vector_behind(i).is_some() {
                    seen.extend_from_slice(&d.results);
                }
            }
        });
        all
    }

    /// A vector, or some of it, from its slot.
    fn read_vector(&self, w: &mut Writer<'_>, v: Value) -> Result<Arg, Refusal> {
        let (kernel, ty) = (self.kernel, self.kernel.ty(v));
        let Some(i) = kernel.def_inst(v) else { return w.get(v) };
        let d = &kernel.insts[i];
        match (d.op, d.attrs.first()) {
            (Op::Load, _) => {
                let buffer = w.get(v)?;
                Ok(w.make(Op::LocalLoad, &[buffer], &[], None)?.into())
            }
            (Op::Slice, Some(Attr::Offsets(at))) => {
                let of = self.vector_behind(i).map(|load| kernel.insts[load].results[0]);
                let long = |v: Value| kernel.ty(v).as_tile().and_then(|t| t.shape.iter().position(|&e| e > 1));
                let (Some(of), Some(n)) = (of, long(d.args[0])) else { return Err(Refusal::Written { value: v }) };
                let whole = kernel.ty(d.args[0]).as_tile().map(|t| t.elements()) == kernel.ty(of).as_tile().map(|t| t.elements());
                let (Some(k), Some(from), Some(t), true) = (long(of), kernel.ty(of).as_tile(), ty.as_tile(), whole) else {
                    let tile = self.read_vector(w, d.args[0])?;
                    return Ok(w.make(Op::Slice, &[tile], &d.attrs, Some(ty))?.into());
                };
                let (mut offsets, mut shape) = (vec![0; from.shape.len()], vec![1; from.shape.len()]);
                (offsets[k], shape[k]) = (at[n], t.shape[n]);
                let part = Type::Shared(SharedType::new(&shape, from.elem));
                let buffer = w.get(of)?;
                let part = w.make(Op::LocalSlice, &[buffer], &[Attr::Offsets(offsets.into_iter().collect())], Some(&part))?;
                let tile = w.make(Op::LocalLoad, &[part.into()], &[], None)?;
                match t.shape[..] == shape[..] {
                    true => Ok(tile.into()),
                    false => Ok(w.make(Op::Reshape, &[tile.into()], &[], Some(ty))?.into()),
                }
            }
            _ => {
                let tile = self.read_vector(w, d.args[0])?;
                Ok(w.make(d.op, &[tile], &d.attrs, Some(ty))?.into())
            }
        }
    }
}
