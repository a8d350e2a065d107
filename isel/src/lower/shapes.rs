//! Broadcast, reshape, transpose: registers are renamed, nothing moves; but a reshape that cuts an odd factor of an extent goes
//! through shared memory.

use super::elementwise::Coords;
use super::location::{Tile, ValueLocation};
use super::shared::representative;
use super::vectors::{from_words, to_words, word_types};
use super::{Lower, sizes};
use crate::layout::memory_type;
use std::rc::Rc;
use tilelift_ir::layout::{Axis, Layout};
use tilelift_ir::{Attr, Inst, Scalar, Type};
use tilelift_lane::{LVal, LaneBuilder};
use tilelift_schedule::LowerError;
use tilelift_schedule::reason::{Missing, OfScalar};

impl Lower<'_> {
    pub(super) fn broadcast(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let layout = self.layout_of(d.results[0])?;
        let (Type::Tile(from), Type::Tile(to)) = (self.kernel.ty(d.args[0]), self.kernel.ty(d.results[0])) else {
            return Err(OfScalar::Broadcast.into());
        };
        let mut source = (*layout).clone();
        let mut map: Vec<u32> = (0..layout.size(Axis::Reg)).collect();
        for k in (0..to.shape.len()).filter(|&k| from.shape[k] != to.shape[k]) {
            let step = source.slice_registers(k);
            map.iter_mut().for_each(|r| *r = step[*r as usize]);
            source = source.with_dim_broadcast(k);
        }
        let tile = self.tile(b, d.args[0], &Rc::new(source))?;
        let regs = map.iter().map(|&r| tile.regs[r as usize]).collect();
        self.set_tile(d.results[0], Tile { layout, regs });
        Ok(())
    }

    pub(super) fn reshape(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let result = d.results[0];
        if let (Some(ValueLocation::Staged(s)), Type::Tile(to)) = (&self.values[d.args[0]], self.kernel.ty(result)) {
            let s = s.reshape(&to.shape)?;
            self.values[result] = Some(ValueLocation::Staged(Rc::new(s)));
            return Ok(());
        }
        match (self.kernel.ty(d.args[0]), self.kernel.ty(result)) {
            (Type::Tile(_), Type::Tile(to)) => {
                let tile = self.own_tile(b, d.args[0])?;
                let tile = match tile.layout.reshape(&to.shape) {
                    Ok(layout) => Tile { layout: Rc::new(layout), regs: tile.regs.clone() },
                    // An odd factor of an extent is cut.
                    Err(_) => {
                        let want = self.layout_of(result)?;
                        self.reshape_through_memory(b, &tile, &want, to.elem)?
                    }
                };
                // The value's own layout may be another; whoever uses it converts from this one.
                self.set_tile(result, tile);
            }
            (Type::Scalar(_), Type::Tile(_)) => {
                let v = self.scalar(d.args[0])?;
                let layout = self.layout_of(result)?;
                let regs = vec![v; layout.size(Axis::Reg) as usize];
                self.set_tile(result, Tile { layout, regs });
            }
            (Type::Tile(_), Type::Scalar(_)) => {
                // One element: every lane holds it.
                let tile = self.own_tile(b, d.args[0])?;
                self.values[result] = Some(ValueLocation::Scalar(tile.regs[0]));
            }
            (Type::Scalar(_), Type::Scalar(_)) => {
                let v = self.scalar(d.args[0])?;
                self.values[result] = Some(ValueLocation::Scalar(v));
            }
            (Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_), _)
            | (_, Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_)) => {
                return Err(Missing::Reshape.into());
            }
        }
        Ok(())
    }

    /// Element by element to shared memory in row-major order, and back in the layout of the new shape.
    fn reshape_through_memory(&mut self, b: &mut LaneBuilder, tile: &Tile, want: &Rc<Layout>, elem: Scalar) -> Result<Tile, LowerError> {
        let bytes = memory_type(elem).bytes();
        let alloc = self.alloc(b, sizes::array(want.shape(), bytes), "reshape")?;
        let base = b.shared_addr(alloc);
        b.before_shared_writes();
        let writer = representative(b, tile.layout.free_mask(Axis::Lane), tile.layout.free_mask(Axis::Warp));
        let coords = Coords::new(b, &tile.layout);
        for (r, &v) in tile.regs.iter().enumerate() {
            let (addr, offset) = row_major(b, &coords, &tile.layout, r as u32, base, bytes);
            let words = to_words(b, &[v], elem);
            b.store_shared(words, alloc, addr, offset, writer);
        }
        let coords = Coords::new(b, want);
        let mut regs = Vec::new();
        for r in 0..want.size(Axis::Reg) {
            let (addr, offset) = row_major(b, &coords, want, r, base, bytes);
            let words = b.load_shared(&word_types(1, elem), alloc, addr, offset);
            regs.extend(from_words(b, &words, elem, 1));
        }
        Ok(Tile { layout: want.clone(), regs })
    }

    pub(super) fn transpose(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let Some(Attr::Perm(p)) = d.attrs.first() else {
            return Err(Missing::Permutation.into());
        };
        let perm: Vec<usize> = p.iter().map(|&x| x as usize).collect();
        if let Some(ValueLocation::Staged(s)) = &self.values[d.args[0]] {
            let s = s.transpose(&perm)?;
            self.values[d.results[0]] = Some(ValueLocation::Staged(Rc::new(s)));
            return Ok(());
        }
        let tile = self.own_tile(b, d.args[0])?;
        let layout = Rc::new(tile.layout.transpose(&perm)?);
        self.set_tile(d.results[0], Tile { layout, regs: tile.regs.clone() });
        Ok(())
    }
}

/// Address and constant offset, in bytes, of a register's element in row-major memory.
fn row_major(b: &mut LaneBuilder, coords: &Coords, layout: &Layout, reg: u32, base: LVal, bytes: u32) -> (LVal, i32) {
    let c = layout.reg_coord(reg);
    let (mut addr, mut offset, mut step) = (base, 0, bytes);
    for (d, &extent) in layout.shape().iter().enumerate().rev() {
        let (part, rest) = coords.split(b, d, c[d]);
        offset += rest * step;
        if let Some(v) = part {
            let by = b.i32(i64::from(step));
            let v = b.mul(v, by);
            addr = b.add(addr, v);
        }
        step *= extent;
    }
    (addr, offset as i32)
}
