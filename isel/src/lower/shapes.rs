//! Broadcast, reshape, transpose: registers are renamed, nothing moves.

use super::{Held, Lower, Tile};
use crate::error::LowerError;
use crate::lane::LaneBuilder;
use std::rc::Rc;
use tilelift_ir::layout::Axis;
use tilelift_ir::{Attr, Inst, Type};

impl Lower<'_> {
    pub(super) fn broadcast(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let layout = self.layout_of(d.results[0])?;
        let (Type::Tile(from), Type::Tile(to)) = (self.kernel.ty(d.args[0]), self.kernel.ty(d.results[0])) else {
            return Err(LowerError::unsupported("a broadcast of a scalar", "use splat"));
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
        if let (Some(Held::Staged(s)), Type::Tile(to)) = (&self.values[d.args[0]], self.kernel.ty(result)) {
            let s = s.reshape(&to.shape)?;
            self.values[result] = Some(Held::Staged(Rc::new(s)));
            return Ok(());
        }
        match (self.kernel.ty(d.args[0]), self.kernel.ty(result)) {
            (Type::Tile(_), Type::Tile(to)) => {
                let tile = self.own_tile(b, d.args[0])?;
                let layout = Rc::new(tile.layout.reshape(&to.shape).map_err(|e| {
                    LowerError::unsupported(format!("this reshape to {to}"), format!("it cuts through an odd factor of an extent ({e})"))
                })?);
                let tile = Tile { layout: layout.clone(), regs: tile.regs.clone() };
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
                self.values[result] = Some(Held::Scalar(tile.regs[0]));
            }
            (Type::Scalar(_), Type::Scalar(_)) => {
                let v = self.scalar(d.args[0])?;
                self.values[result] = Some(Held::Scalar(v));
            }
            (Type::View(_), _) | (_, Type::View(_)) => {
                return Err(LowerError::unsupported("a reshape of a view", "views keep their shape"));
            }
        }
        Ok(())
    }

    pub(super) fn transpose(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let Some(Attr::Perm(p)) = d.attrs.first() else {
            return Err(LowerError::unsupported("a transpose", "it has no permutation"));
        };
        let perm: Vec<usize> = p.iter().map(|&x| x as usize).collect();
        if let Some(Held::Staged(s)) = &self.values[d.args[0]] {
            let s = s.transpose(&perm)?;
            self.values[d.results[0]] = Some(Held::Staged(Rc::new(s)));
            return Ok(());
        }
        let tile = self.own_tile(b, d.args[0])?;
        let layout = Rc::new(tile.layout.transpose(&perm)?);
        self.set_tile(d.results[0], Tile { layout, regs: tile.regs.clone() });
        Ok(())
    }
}
