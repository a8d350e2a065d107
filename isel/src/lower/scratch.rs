//! Shared memory as an array of numbers: for ops whose lanes look up elements by position.
//!
//! Truth values are kept as words. Positions are counted in elements.

use super::Lower;
use super::elementwise::Coords;
use super::location::Tile;
use super::shared::representative;
use super::sizes::scratch_type;
use tilelift_ir::CmpOp;
use tilelift_ir::layout::{Axis, Layout};
use tilelift_lane::{AllocId, LTy, LVal, LaneBuilder, Vals};
use tilelift_schedule::LowerError;

/// An array in shared memory.
pub(super) struct Scratch {
    pub alloc: AllocId,
    base: LVal,
    /// Type of the numbers that go in and out.
    ty: LTy,
}

impl Scratch {
    pub fn new(cx: &Lower<'_>, b: &mut LaneBuilder, elements: u64, ty: LTy, purpose: &'static str) -> Result<Scratch, LowerError> {
        let alloc = cx.alloc(b, elements * u64::from(scratch_type(ty).bytes()), purpose)?;
        let base = b.shared_addr(alloc);
        Ok(Scratch { alloc, base, ty })
    }

    /// The byte address of a position.
    pub fn address(&self, b: &mut LaneBuilder, position: LVal) -> LVal {
        let size = b.i32(i64::from(scratch_type(self.ty).bytes()));
        let at = b.mul(position, size);
        b.add(self.base, at)
    }

    fn offset(&self, ahead: u32) -> i32 {
        (ahead * scratch_type(self.ty).bytes()) as i32
    }

    /// Writes the number `ahead` positions behind an address.
    pub fn store(&self, b: &mut LaneBuilder, address: LVal, ahead: u32, value: LVal, guard: Option<LVal>) {
        let value = if self.ty == LTy::I1 {
            let (one, zero) = (b.i32(1), b.i32(0));
            b.select(value, one, zero)
        } else {
            value
        };
        b.store_shared(Vals::from_slice(&[value]), self.alloc, address, self.offset(ahead), guard);
    }

    /// Reads the number `ahead` positions behind an address.
    pub fn load(&self, b: &mut LaneBuilder, address: LVal, ahead: u32) -> LVal {
        let v = b.load_shared(&[scratch_type(self.ty)], self.alloc, address, self.offset(ahead))[0];
        if self.ty == LTy::I1 {
            let zero = b.i32(0);
            b.cmp(CmpOp::Ne, v, zero)
        } else {
            v
        }
    }

    /// Writes a tile, each element at its position under the given strides (in elements); copies are written once.
    pub fn store_tile(&self, b: &mut LaneBuilder, tile: &Tile, strides: &[u32]) {
        let layout = &tile.layout;
        let guard = representative(b, layout.free_mask(Axis::Lane), layout.free_mask(Axis::Warp));
        let coords = Coords::new(b, layout);
        b.before_shared_writes();
        for (r, first) in first_copies(layout).into_iter().enumerate() {
            if first == r {
                let at = position(b, &coords, layout, r as u32, strides);
                let at = self.address(b, at);
                self.store(b, at, 0, tile.regs[r], guard);
            }
        }
    }

    /// Reads a tile in a layout, as [`Scratch::store_tile`] wrote it.
    pub fn load_tile(&self, b: &mut LaneBuilder, layout: &Layout, strides: &[u32]) -> Vec<LVal> {
        let coords = Coords::new(b, layout);
        let mut regs: Vec<LVal> = Vec::new();
        for (r, first) in first_copies(layout).into_iter().enumerate() {
            if first < r {
                regs.push(regs[first]);
                continue;
            }
            let at = position(b, &coords, layout, r as u32, strides);
            let at = self.address(b, at);
            regs.push(self.load(b, at, 0));
        }
        regs
    }
}

/// Row-major strides of a shape.
pub(super) fn row_major(shape: &[u32]) -> Vec<u32> {
    let mut s = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        s[d - 1] = s[d] * shape[d];
    }
    s
}

/// The position of the element in a register.
pub(super) fn position(b: &mut LaneBuilder, coords: &Coords, layout: &Layout, reg: u32, strides: &[u32]) -> LVal {
    let c = layout.reg_coord(reg);
    let mut sum = b.i32(0);
    for (d, &s) in strides.iter().enumerate() {
        let at = coords.at(b, d, c[d]);
        let s = b.i32(i64::from(s));
        let term = b.mul(at, s);
        sum = b.add(sum, term);
    }
    sum
}

/// For each register the first one that holds the same element.
pub(super) fn first_copies(layout: &Layout) -> Vec<usize> {
    let mut seen = std::collections::BTreeMap::new();
    (0..layout.size(Axis::Reg)).map(|r| *seen.entry(layout.reg_coord(r).to_vec()).or_insert(r as usize)).collect()
}

/// True if the copies of an element lie in lanes and warps that differ in bits of no meaning, and in registers.
pub(super) fn plain_copies(layout: &Layout) -> bool {
    [Axis::Lane, Axis::Warp].into_iter().all(|axis| {
        let free = layout.free_mask(axis);
        (0..layout.bits(axis)).all(|i| free >> i & 1 == 0 || layout.column(axis, i).iter().all(|&c| c == 0))
    })
}
