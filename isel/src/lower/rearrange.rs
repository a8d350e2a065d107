//! Join, split, concat, slice, flip: elements change their coordinates.
//!
//! Where the dimension that appears or disappears lies in registers alone, registers are renamed; a flip complements the bits of its
//! axis, which renames registers and shuffles lanes. What a layout can't express goes through shared memory: every element is
//! written at its new place and read back in the layout of the result.
//!
//! ```text
//! join    [a0 a1] [b0 b1]  ─►  registers (a0 b0) (a1 b1)         a register bit for the new dimension
//! slice   [0..2n) ─► [n..2n)   the registers whose chunk number is 1, if chunk numbers are register bits
//! ```

use super::elementwise::Coords;
use super::location::{Tile, ValueLocation};
use super::shared::representative;
use super::vectors::{from_words, to_words, word_types};
use super::{Lower, sizes};
use crate::layout::{Owner, memory_type, owners};
use std::rc::Rc;
use tilelift_ir::layout::{Axis, Layout};
use tilelift_ir::{Attr, Inst, Type};
use tilelift_lane::{BinOp, LVal, LaneBuilder, ShuffleFrom, Target};
use tilelift_schedule::LowerError;
use tilelift_schedule::reason::{Missing, NoRegister};

/// Where a coordinate goes in shared memory.
#[derive(Clone, Copy)]
enum Place {
    /// To the coordinate plus this.
    Shift(u32),
    /// To this minus the coordinate.
    Mirror(u32),
}

/// A layout with one more dimension at `dim`, of an extent that lies in registers.
fn with_dim(layout: &Layout, dim: usize, extent: u32) -> Result<Layout, LowerError> {
    Ok(layout.expand_dims(dim).broadcast(dim, extent)?)
}

/// The layout in which two tiles are joined: the result's, if their new dimension lies in registers there.
pub(super) fn joined(want: Rc<Layout>, part: &Layout) -> Result<Rc<Layout>, LowerError> {
    let dim = want.rank() - 1;
    if want.in_registers(dim) { Ok(want) } else { Ok(Rc::new(with_dim(part, dim, 2)?)) }
}

/// The layout from which a tile is split: its own, if the dimension that goes lies in registers there.
pub(super) fn split_from(own: Rc<Layout>, target: &Target, warps: u32) -> Result<Rc<Layout>, LowerError> {
    let dim = own.rank() - 1;
    if own.in_registers(dim) {
        Ok(own)
    } else if dim == 0 {
        Ok(Rc::new(Layout::replicated(&[2], &[0], target.lanes, warps)?))
    } else {
        Ok(Rc::new(with_dim(&own.slice(dim), dim, 2)?))
    }
}

/// Two tiles of one layout side by side: with a dimension for which of them, and without it.
///
/// # Errors
/// No layout has them so.
pub(super) fn concatenated(one: &Layout, axis: usize) -> Result<(Layout, Layout), LowerError> {
    let both = with_dim(one, axis, 2)?;
    let mut shape = one.shape().to_vec();
    shape[axis] *= 2;
    let layout = both.reshape(&shape)?;
    Ok((both, layout))
}

/// True if a flip renames registers and shuffles lanes, and no more.
pub(super) fn flips_in_place(layout: &Layout, axis: usize) -> bool {
    owners(layout, axis).is_some_and(|list| !list.iter().any(|o| matches!(o, Owner::Warp(_))))
}

impl Lower<'_> {
    fn axis_attr(&self, i: Inst) -> usize {
        self.dim_attr(i)
    }

    pub(super) fn join(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let layout = joined(self.layout_of(d.results[0])?, &*self.layout_of(d.args[0])?)?;
        let dim = layout.rank() - 1;
        let source = Rc::new(layout.slice(dim));
        let parts = [self.tile(b, d.args[0], &source)?, self.tile(b, d.args[1], &source)?];
        let from = layout.slice_registers(dim);
        let regs = pick(&layout, dim, &from, &parts);
        self.set_tile(d.results[0], Tile { layout, regs });
        Ok(())
    }

    pub(super) fn split(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let layout = split_from(self.layout_of(d.args[0])?, self.target, self.plan.warps)?;
        let dim = layout.rank() - 1;
        let tile = self.tile(b, d.args[0], &layout)?;
        for (which, &result) in d.results.iter().enumerate() {
            let (layout, regs) = chunk(&layout, dim, which as u32, &tile.regs)?;
            match self.kernel.ty(result) {
                Type::Tile(_) => self.set_tile(result, Tile { layout: Rc::new(layout), regs }),
                Type::Scalar(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => {
                    self.values[result] = Some(ValueLocation::Scalar(regs[0]))
                }
            }
        }
        Ok(())
    }

    pub(super) fn concat(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let (axis, result) = (self.axis_attr(i), d.results[0]);
        let (x, y) = (self.own_tile(b, d.args[0])?, self.layout_of(d.args[1])?);
        if x.layout.shape() == y.shape() {
            let y = self.tile(b, d.args[1], &x.layout)?;
            if let Ok((both, layout)) = concatenated(&x.layout, axis) {
                let from = both.slice_registers(axis);
                let regs = pick(&both, axis, &from, &[x, y]);
                self.set_tile(result, Tile { layout: Rc::new(layout), regs });
                return Ok(());
            }
        }
        let y = self.own_tile(b, d.args[1])?;
        let rank = x.layout.rank();
        let mut behind = vec![Place::Shift(0); rank];
        behind[axis] = Place::Shift(x.layout.shape()[axis]);
        let shape = self.layout_of(result)?.shape().to_vec();
        self.through_memory(b, i, &[(x, vec![Place::Shift(0); rank]), (y, behind)], &shape, &vec![0; rank])
    }

    pub(super) fn slice(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let Some(Attr::Offsets(offsets)) = d.attrs.first() else {
            return Err(Missing::Offsets.into());
        };
        let tile = self.own_tile(b, d.args[0])?;
        let to = self.layout_of(d.results[0])?.shape().to_vec();
        if let Some((layout, regs)) = chunks(&tile, offsets, &to) {
            self.set_tile(d.results[0], Tile { layout: Rc::new(layout), regs });
            return Ok(());
        }
        let shape = tile.layout.shape().to_vec();
        let stay = vec![Place::Shift(0); shape.len()];
        self.through_memory(b, i, &[(tile, stay)], &shape, offsets)
    }

    pub(super) fn flip(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let axis = self.axis_attr(i);
        let tile = self.own_tile(b, d.args[0])?;
        let layout = tile.layout.clone();
        if !flips_in_place(&layout, axis) {
            let shape = layout.shape().to_vec();
            let mut places = vec![Place::Shift(0); shape.len()];
            places[axis] = Place::Mirror(shape[axis] - 1);
            let zero = vec![0; shape.len()];
            return self.through_memory(b, i, &[(tile, places)], &shape, &zero);
        }
        let (mut reg_xor, mut lane_xor) = (0u32, 0u32);
        for owner in owners(&layout, axis).iter().flatten() {
            match owner {
                Owner::Reg(bit) => reg_xor |= 1 << bit,
                Owner::Lane(bit) => lane_xor |= 1 << bit,
                Owner::Warp(_) => {}
            }
        }
        let regs = (0..tile.regs.len() as u32)
            .map(|r| {
                let v = tile.regs[mirrored(&layout, axis, r ^ reg_xor) as usize];
                if lane_xor == 0 { v } else { b.shuffle(v, ShuffleFrom::Xor(lane_xor)) }
            })
            .collect();
        self.set_tile(d.results[0], Tile { layout, regs });
        Ok(())
    }

    /// Writes tiles into a row-major array of `shape` in shared memory and reads the result of `i` from it at `offsets`.
    fn through_memory(
        &mut self,
        b: &mut LaneBuilder,
        i: Inst,
        parts: &[(Rc<Tile>, Vec<Place>)],
        shape: &[u32],
        offsets: &[u32],
    ) -> Result<(), LowerError> {
        let result = self.kernel.insts[i].results[0];
        let elem = self.kernel.ty(result).elem();
        let size = memory_type(elem).bytes();
        let mut steps = vec![size; shape.len()];
        for d in (1..shape.len()).rev() {
            steps[d - 1] = steps[d].saturating_mul(shape[d]);
        }
        let alloc = self.alloc(b, sizes::array(shape, size), "rearrangement")?;
        let base = b.shared_addr(alloc);
        b.before_shared_writes();
        for (tile, places) in parts {
            let coords = Coords::new(b, &tile.layout);
            let guard = representative(b, tile.layout.free_mask(Axis::Lane), tile.layout.free_mask(Axis::Warp));
            let copies = tile.layout.free_mask(Axis::Reg);
            for (r, &v) in tile.regs.iter().enumerate().filter(|(r, _)| *r as u32 & copies == 0) {
                let at = tile.layout.reg_coord(r as u32);
                let addr = address(b, base, &coords, &at, places, &steps);
                let words = to_words(b, &[v], elem);
                b.store_shared(words, alloc, addr, 0, guard);
            }
        }
        let layout = self.layout_of(result)?;
        let coords = Coords::new(b, &layout);
        let places: Vec<Place> = offsets.iter().map(|&o| Place::Shift(o)).collect();
        let regs = (0..layout.size(Axis::Reg))
            .map(|r| {
                let addr = address(b, base, &coords, &layout.reg_coord(r), &places, &steps);
                let words = b.load_shared(&word_types(1, elem), alloc, addr, 0);
                from_words(b, &words, elem, 1)[0]
            })
            .collect();
        self.set_tile(result, Tile { layout, regs });
        Ok(())
    }
}

/// The registers of a layout whose bit along `dim` chooses between two tiles of the sliced layout.
fn pick(layout: &Layout, dim: usize, from: &[u32], parts: &[Rc<Tile>; 2]) -> Vec<LVal> {
    (0..layout.size(Axis::Reg)).map(|r| parts[layout.reg_coord(r)[dim] as usize & 1].regs[from[r as usize] as usize]).collect()
}

/// The registers whose coordinate along a dimension that lies in registers is `at`, in the layout without it.
fn chunk(layout: &Layout, dim: usize, at: u32, regs: &[LVal]) -> Result<(Layout, Vec<LVal>), LowerError> {
    let sliced = layout.slice(dim);
    let to = layout.slice_registers(dim);
    let mut out = vec![None; sliced.size(Axis::Reg) as usize];
    for ((&v, to), _) in regs.iter().zip(to).zip(layout.registers_along(dim)).filter(|(_, along)| *along == at) {
        out[to as usize] = Some(v);
    }
    let out: Option<Vec<LVal>> = out.into_iter().collect();
    Ok((sliced, out.ok_or(NoRegister::Part)?))
}

/// How a tile is cut into chunks, and the number of the wanted one along each cut dimension, from the first; see [`chunks`].
fn cut(layout: &Layout, offsets: &[u32], to: &[u32]) -> Option<(Layout, Vec<(usize, u32)>)> {
    let from = layout.shape();
    let mut shape = Vec::new();
    // Where the chunk numbers stand, and which is wanted.
    let mut cuts = Vec::new();
    for d in 0..from.len() {
        if from[d] != to[d] {
            if !from[d].is_multiple_of(to[d]) || !offsets[d].is_multiple_of(to[d]) {
                return None;
            }
            cuts.push((shape.len(), offsets[d] / to[d]));
            shape.push(from[d] / to[d]);
        }
        shape.push(to[d]);
    }
    Some((layout.reshape(&shape).ok()?, cuts))
}

/// The layout of a slice by renaming, if it is one.
pub(super) fn chunk_layout(from: &Layout, offsets: &[u32], to: &[u32]) -> Option<Layout> {
    let (mut layout, cuts) = cut(from, offsets, to)?;
    for &(dim, _) in cuts.iter().rev() {
        layout = layout.in_registers(dim).then(|| layout.slice(dim))?;
    }
    Some(layout)
}

/// A slice by renaming, if every cut dimension is cut into whole chunks whose numbers lie in registers.
fn chunks(tile: &Tile, offsets: &[u32], to: &[u32]) -> Option<(Layout, Vec<LVal>)> {
    let (mut layout, cuts) = cut(&tile.layout, offsets, to)?;
    let mut regs = tile.regs.clone();
    for (dim, at) in cuts.into_iter().rev() {
        if !layout.in_registers(dim) {
            return None;
        }
        (layout, regs) = chunk(&layout, dim, at, &regs).ok()?;
    }
    Some((layout, regs))
}

/// A register with the odd digits of an axis mirrored.
fn mirrored(layout: &Layout, axis: usize, r: u32) -> u32 {
    let mut weight = 1u32 << layout.bits(Axis::Reg);
    let mut out = r;
    for (k, &radix) in layout.odd(Axis::Reg).iter().enumerate() {
        let (to, step) = layout.odd_column(Axis::Reg, k);
        if to == axis && step != 0 {
            let digit = r / weight % radix;
            out = out - digit * weight + (radix - 1 - digit) * weight;
        }
        weight *= radix;
    }
    out
}

/// The shared address of the element of a register at `at` (of lane 0), its coordinates placed, `steps` bytes apart.
fn address(b: &mut LaneBuilder, base: LVal, coords: &Coords, at: &[u32], places: &[Place], steps: &[u32]) -> LVal {
    let mut sum = base;
    for (d, (&place, &step)) in places.iter().zip(steps).enumerate() {
        let c = coords.at(b, d, at[d]);
        let c = match place {
            Place::Shift(by) => b.add_const(c, i64::from(by)),
            Place::Mirror(last) => {
                let last = b.i32(i64::from(last));
                b.bin(BinOp::Sub, last, c)
            }
        };
        let step = b.i32(i64::from(step));
        let bytes = b.mul(c, step);
        sum = b.add(sum, bytes);
    }
    sum
}
