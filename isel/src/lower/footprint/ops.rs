//! The walk through each op that is more than renaming: which tiles it wants in which layout, and what goes through shared memory.

use super::super::reduce::{exchanges, spread_layout};
use super::super::scan::scan_exchanges;
use super::super::stage::{copy_layout, load_map, tile_map};
use super::super::{rearrange, sizes};
use super::walk::{At, Refused, Walk, Walked};
use crate::layout::assign::{access_layout, scattered_layout};
use crate::layout::packed::{bytes_of, halves_of};
use crate::layout::{fold_order, legal_width, memory_type, owners};
use crate::lower::facts::dim_of;
use crate::lower::scratch::{first_copies, plain_copies};
use std::rc::Rc;
use tilelift_ir::layout::{Axis, Layout, coalesced};
use tilelift_ir::{Attr, Inst, Op, Scalar, Value};
use tilelift_lane::LTy;
use tilelift_schedule::access::{GlobalAccess, access_layout_for};
use tilelift_schedule::plan::is_zero;

impl Walk<'_> {
    pub fn elementwise(&mut self, i: Inst) -> Walked {
        let d = &self.kernel.insts[i];
        let result = d.results[0];
        let packed = |v: Value| self.kernel.ty(v).elem().is_packed();
        if self.is_tile(result) && d.op == Op::Bitcast && packed(result) != packed(d.args[0]) {
            if packed(result) {
                let bytes = self.own_tile(d.args[0])?;
                self.set(result, Rc::new(halves_of(&bytes)?.0));
            } else {
                let layout = self.layout_of(result)?;
                self.tile(d.args[0], &Rc::new(halves_of(&layout)?.0))?;
                self.set(result, layout);
            }
            return Ok(());
        }
        if self.is_tile(result) {
            let layout = self.layout_of(result)?;
            self.tiles(&d.args, &layout)?;
        }
        self.set_own(result)
    }

    pub fn reshape(&mut self, from: Value, to: Value) -> Walked {
        match (self.is_tile(from), self.kernel.ty(to).shape()) {
            (true, Some(shape)) => {
                let held = self.own_tile(from)?;
                let layout = match held.reshape(shape) {
                    Ok(layout) => Rc::new(layout),
                    Err(_) => {
                        self.take(sizes::array(shape, memory_type(self.kernel.ty(to).elem()).bytes()), "reshape");
                        self.layout_of(to)?
                    }
                };
                self.set(to, layout);
                Ok(())
            }
            (true, None) => {
                self.own_tile(from)?;
                self.set_own(to)
            }
            (false, _) => self.set_own(to),
        }
    }

    pub fn rearrange(&mut self, i: Inst) -> Walked {
        let d = &self.kernel.insts[i];
        let result = d.results[0];
        let through = |w: &mut Self, shape: &[u32]| {
            w.take(sizes::array(shape, memory_type(w.kernel.ty(result).elem()).bytes()), "rearrangement");
            w.set_own(result)
        };
        match d.op {
            Op::Join => {
                let layout = rearrange::joined(self.layout_of(result)?, &*self.layout_of(d.args[0])?)?;
                self.tiles(&d.args, &Rc::new(layout.slice(layout.rank() - 1)))?;
                self.set(result, layout);
            }
            Op::Split => {
                let layout = rearrange::split_from(self.layout_of(d.args[0])?, self.target, self.plan.warps)?;
                self.tile(d.args[0], &layout)?;
                for &r in &d.results {
                    match self.is_tile(r) {
                        true => self.set(r, Rc::new(layout.slice(layout.rank() - 1))),
                        false => self.set_own(r)?,
                    }
                }
            }
            Op::Concat => {
                let (x, y) = (self.own_tile(d.args[0])?, self.layout_of(d.args[1])?);
                if x.shape() == y.shape() {
                    self.tile(d.args[1], &x)?;
                    if let Ok((_, layout)) = rearrange::concatenated(&x, dim_of(self.kernel, i)) {
                        self.set(result, Rc::new(layout));
                        return Ok(());
                    }
                }
                self.own_tile(d.args[1])?;
                let shape = self.layout_of(result)?.shape().to_vec();
                through(self, &shape)?;
            }
            Op::Slice => {
                let Some(Attr::Offsets(offsets)) = d.attrs.first() else { return Err(Refused) };
                let from = self.own_tile(d.args[0])?;
                let to = self.layout_of(result)?.shape().to_vec();
                match self.chunk_layout(&from, offsets, &to) {
                    Some(layout) => self.set(result, layout),
                    None => through(self, from.shape())?,
                }
            }
            _ => {
                let from = self.own_tile(d.args[0])?;
                match rearrange::flips_in_place(&from, dim_of(self.kernel, i)) {
                    true => self.set(result, from),
                    false => through(self, from.shape())?,
                }
            }
        }
        Ok(())
    }

    /// Reductions and scans: exchanges between warps.
    pub fn fold(&mut self, i: Inst) -> Walked {
        let d = &self.kernel.insts[i];
        let dim = dim_of(self.kernel, i);
        let t = self.kernel.ty(d.args[0]).as_tile().ok_or(Refused)?;
        let by = matches!(d.op, Op::ReduceBy | Op::ScanBy | Op::ScanReverseBy);
        let mut layout = self.layout_of(d.args[0])?;
        if !by {
            self.tile(d.args[0], &layout)?;
        }
        if owners(&layout, dim).is_none() {
            layout = spread_layout(t, self.target, &self.plan)?;
        }
        let operands = if by { &d.args[..] } else { &d.args[..1] };
        self.tiles(operands, &layout)?;
        let owned = owners(&layout, dim).ok_or(Refused)?;
        let scans = matches!(d.op, Op::Scan | Op::ScanReverse | Op::ScanBy | Op::ScanReverseBy);
        let tys: Vec<LTy> = match d.op {
            Op::ArgMin | Op::ArgMax => vec![if t.elem.bits() == 64 { LTy::I64 } else { LTy::I32 }, LTy::I32],
            _ => operands.iter().map(|&a| sizes::combined_type(self.kernel.ty(a).elem())).collect(),
        };
        let (counts, purpose) = match scans {
            true => (scan_exchanges(&layout, &owned), "scan"),
            false => (exchanges(&layout, dim, &owned, &fold_order(self.kernel, i, dim, &owned)), "reduction"),
        };
        for count in counts {
            self.take(sizes::exchange(self.target, self.plan.warps, count, &tys), purpose);
        }
        for &r in &d.results {
            match (scans, self.is_tile(r)) {
                (true, true) => self.set(r, layout.clone()),
                (false, true) => self.set(r, Rc::new(layout.slice(dim))),
                (_, false) => self.set_own(r)?,
            }
        }
        Ok(())
    }

    pub fn load(&mut self, i: Inst) -> Walked {
        let result = self.kernel.insts[i].results[0];
        let access = GlobalAccess::of(self.kernel, i);
        if self.staged[i] {
            self.first_for(i)?;
            let shape = self.kernel.ty(result).shape().ok_or(Refused)?;
            let (bytes, order) = (access.view.elem.bytes(), access.order());
            let vec = legal_width(access.vector_elements(self.target.vector_bytes), access.view.elem);
            let layout = coalesced(shape, bytes, &order, vec, self.target.lanes, self.plan.warps)?;
            let map = load_map((self.kernel, self.target, self.assigned), i, order[0], (&layout, vec * bytes))?;
            let piece = self.take(u64::from(map.elements()) * u64::from(bytes), "operand");
            self.values[result] = Some(At::Staged(Some(piece)));
            return Ok(());
        }
        let want = self.layout_of(result)?;
        if access.packed {
            let want = Rc::new(bytes_of(&want)?);
            let bytes = match self.searched() {
                true => want,
                false => access_layout_for(self.target, self.plan.warps, &access, &want, Scalar::I8, true)?,
            };
            let whole = Rc::new(halves_of(&bytes)?.0);
            if let Some(m) = access.mask {
                self.tile(m, &whole)?;
            }
            self.set(result, whole);
            return Ok(());
        }
        let elem = access.view.elem;
        let layout = if self.direct || self.searched() || self.assigned.kept[i] {
            want
        } else {
            access_layout_for(self.target, self.plan.warps, &access, &want, elem, true)?
        };
        if let Some(m) = access.mask {
            self.tile(m, &layout)?;
        }
        self.set(result, layout);
        Ok(())
    }

    /// What the product right behind a load takes from registers.
    fn first_for(&mut self, load: Inst) -> Walked {
        let Some(dot) = self.behind[load] else { return Ok(()) };
        let Some(plan) = self.assigned.dots[dot].clone().filter(|p| p.instr.is_some() && p.whole.rank() == 2) else { return Ok(()) };
        let args = &self.kernel.insts[dot].args;
        for (v, layout) in [(args[0], &plan.a), (args[1], &plan.b), (args[2], &plan.whole)] {
            if matches!(self.values[v], Some(At::Tile(_))) {
                self.tile(v, layout)?;
            }
        }
        Ok(())
    }

    /// A copy that lanes begin: its mask comes to the lanes that copy.
    pub fn copy(&mut self, i: Inst) -> Walked {
        let access = GlobalAccess::of(self.kernel, i);
        let Some(m) = access.mask else { return Ok(()) };
        let shape = self.kernel.ty(m).shape().ok_or(Refused)?;
        let layout = copy_layout(&access, shape, self.target, self.plan.warps)?;
        self.tile(m, &Rc::new(layout))
    }

    /// A gather that lanes begin: indices and mask come to the lanes that copy.
    pub fn gather_async(&mut self, i: Inst) -> Walked {
        let indices = self.kernel.operand(i, "indices");
        let layout = Rc::new(access_layout(self.kernel, self.target, &self.plan, i, indices[0])?);
        self.tiles(indices, &layout)?;
        self.tiles(self.kernel.operand(i, "mask"), &layout)
    }

    pub fn store(&mut self, i: Inst) -> Walked {
        let value = self.kernel.operand(i, "value")[0];
        let access = GlobalAccess::of(self.kernel, i);
        let held = match &self.values[value] {
            Some(At::Tile(l)) => l.clone(),
            Some(At::Scalar | At::Staged(_)) | None => self.layout_of(value)?,
        };
        let held = if access.packed { Rc::new(bytes_of(&held)?) } else { held };
        let layout = match self.searched() && !access.packed {
            true => self.layout_of(value)?,
            false if self.as_held => held,
            false => access_layout_for(self.target, self.plan.warps, &access, &held, access.view.elem, false)?,
        };
        if access.packed {
            return self.tile(value, &Rc::new(halves_of(&layout)?.0));
        }
        self.tile(value, &layout)?;
        match access.mask {
            Some(m) => self.tile(m, &layout),
            None => Ok(()),
        }
    }

    pub fn indexed(&mut self, i: Inst) -> Walked {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let operands = |name: &'static str| kernel.operand(i, name);
        let of = if d.op == Op::Scatter { operands("value")[0] } else { d.results[0] };
        let t = kernel.ty(of).as_tile().ok_or(Refused)?;
        let mut layout = self.layout_of(of)?;
        let updates = matches!(d.op, Op::Atomic | Op::AtomicCas);
        if updates && !plain_copies(&layout) {
            layout = Rc::new(scattered_layout(&t.shape, t.elem.bytes(), self.target, &self.plan)?);
        }
        if d.op != Op::Gather {
            self.tiles(operands("value"), &layout)?;
        }
        if d.op == Op::AtomicCas {
            self.tiles(operands("compare"), &layout)?;
        }
        self.tiles(operands("indices"), &layout)?;
        self.tiles(operands("mask"), &layout)?;
        if updates && layout.free_mask(Axis::Warp) != 0 && self.read().contains(of) {
            let firsts = first_copies(&layout).into_iter().enumerate().filter(|&(r, first)| r == first).count() as u32;
            let ty = sizes::scratch_type(LTy::holding(t.elem));
            self.take(sizes::exchange(self.target, self.plan.warps, firsts, &[ty]), "old values");
        }
        if d.op != Op::Scatter {
            self.set(of, layout);
        }
        Ok(())
    }

    pub fn dot(&mut self, i: Inst) -> Walked {
        let d = &self.kernel.insts[i];
        let plan = self.assigned.dots[i].clone().ok_or(Refused)?;
        let ([at_a, at_b], at_sums) = (plan.factors_at(), d.op.factors().ok_or(Refused)?[2]);
        self.tile(d.args[at_sums], &plan.whole)?;
        if let Some([a, b]) = &plan.scales {
            self.tile(d.args[1], a)?;
            self.tile(d.args[3], b)?;
        }
        // Operands that lie in shared memory until the product is done.
        let mut staged = Vec::new();
        let batch = plan.whole.rank() == 3;
        for (n, (v, layout)) in [(d.args[at_a], &plan.a), (d.args[at_b], &plan.b)].into_iter().enumerate() {
            match (batch, plan.instr) {
                (true, _) => self.tile(v, &Rc::new(layout.expand_dims(0).broadcast(0, plan.whole.shape()[0])?))?,
                (false, _) if matches!(self.values[v], Some(At::Staged(_))) => {
                    if let Some(At::Staged(piece)) = self.values[v] {
                        staged.extend(piece);
                    }
                }
                (false, Some(_)) => self.tile(v, layout)?,
                (false, None) => {
                    let own = self.own_tile(v)?;
                    if n == 0 || v != d.args[0] {
                        staged.push(self.staged_operand(&own, v, layout)?);
                    }
                }
            }
        }
        if batch && plan.instr.is_none() {
            for _ in 0..plan.whole.shape()[0] {
                let left = self.staged_operand(&plan.a, d.args[0], &plan.a)?;
                self.staged_operand(&plan.b, d.args[1], &plan.b)?;
                self.touch(Some(left));
            }
        }
        staged.into_iter().for_each(|n| self.touch(Some(n)));
        self.set(d.results[0], plan.whole.clone());
        Ok(())
    }

    /// A tile in registers on its way to shared memory, where lanes read it in a layout.
    fn staged_operand(&mut self, layout: &Layout, v: Value, reader: &Rc<Layout>) -> Walked<usize> {
        let bytes = self.kernel.ty(v).elem().bytes();
        let map = tile_map(self.target, self.assigned, layout, bytes, reader)?;
        Ok(self.take(u64::from(map.elements()) * u64::from(bytes), "operand"))
    }

    /// A product of the units: what it takes from registers.
    pub fn async_dot(&mut self, i: Inst) -> Walked {
        let d = &self.kernel.insts[i];
        let plan = self.assigned.dots[i].clone().ok_or(Refused)?;
        if self.is_tile(d.args[0]) {
            self.tile(d.args[0], &plan.a)?;
        }
        if !is_zero(self.kernel, d.args[2]) {
            self.tile(d.args[2], &plan.d)?;
        }
        self.set(d.results[0], plan.d.clone());
        Ok(())
    }
}
