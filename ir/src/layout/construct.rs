//! Constructors of register layouts by per-dimension digit consumption.
//!
//! Every dimension hands out its bits from the lowest up: first to registers (contiguous elements
//! of one lane), then to lanes, then to warps, and what is left repeats in registers. The odd digit
//! always ends up in registers. A lane or warp bit that finds no tensor bit left becomes a zero
//! column: those lanes or warps hold copies.

use super::digits::{Space, check_permutation, check_rank, log2};
use super::error::LayoutError;
use super::map::{Axis, AxisMap, Layout, OddDigit};
use smallvec::SmallVec;

/// Hands out tensor bits per dimension, low first, to hardware axes.
pub(crate) struct Builder {
    space: Space,
    axes: [AxisMap; 5],
    used: SmallVec<[u32; 4]>,
}

impl Builder {
    pub fn new(shape: &[u32]) -> Result<Self, LayoutError> {
        let space = Space::new(shape)?;
        let used = SmallVec::from_elem(0, space.rank());
        Ok(Self { space, axes: Default::default(), used })
    }

    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Bits of a dimension that nobody has taken yet.
    pub fn left(&self, dim: usize) -> u32 {
        self.space.dim_bits(dim).saturating_sub(self.used[dim])
    }

    /// Marks the low `bits` of a dimension as taken by columns pushed by hand.
    pub fn skip(&mut self, dim: usize, bits: u32) {
        self.used[dim] += bits;
    }

    /// Pushes a column; zero register columns are dropped.
    pub fn push(&mut self, axis: Axis, packed: u32) {
        if packed != 0 || axis != Axis::Reg {
            self.axes[axis as usize].cols.push(packed);
        }
    }

    /// Gives the next `count` bits of a dimension to an axis; missing ones become copies.
    pub fn take(&mut self, axis: Axis, dim: usize, count: u32) {
        for _ in 0..count {
            let packed = self.space.dim_bit(dim, self.used[dim]);
            self.used[dim] += 1;
            self.push(axis, packed);
        }
    }

    /// Repeats in registers over whatever is left, dimensions in `order`, odd digits on top.
    pub fn finish(mut self, order: &[usize]) -> Result<Layout, LayoutError> {
        for &dim in order {
            let left = self.left(dim);
            self.take(Axis::Reg, dim, left);
        }
        for &dim in order {
            for k in self.space.dim_odd(dim) {
                let radix = self.space.odd[k].radix;
                self.axes[Axis::Reg as usize].odd.push(OddDigit { radix, target: Some(k as u8) });
            }
        }
        Layout::new(self.space, self.axes)
    }
}

impl Layout {
    /// The blocked layout: `per_lane` contiguous elements, then `lanes`, then `warps`, each per
    /// dimension and dimensions in `order` (fastest first); repetition and odd factors in
    /// registers. Surplus lanes and warps hold copies.
    ///
    /// # Errors
    /// [`LayoutError::Rank`], [`LayoutError::NotPowerOfTwo`], [`LayoutError::NotPermutation`] on
    /// malformed parameters.
    pub fn blocked(shape: &[u32], per_lane: &[u32], lanes: &[u32], warps: &[u32], order: &[usize]) -> Result<Self, LayoutError> {
        let mut b = Builder::new(shape)?;
        check_permutation("order", order, shape.len())?;
        let groups = [(Axis::Reg, "per_lane", per_lane), (Axis::Lane, "lanes", lanes), (Axis::Warp, "warps", warps)];
        for (axis, what, counts) in groups {
            check_rank(what, counts.len(), shape.len())?;
            for &dim in order {
                let count = log2(what, counts[dim])?;
                b.take(axis, dim, count);
            }
        }
        b.finish(order)
    }

    /// Every lane of every warp holds the whole tensor, elements in `order` in its registers.
    ///
    /// # Errors
    /// As [`Layout::blocked`].
    pub fn replicated(shape: &[u32], order: &[usize], lanes: u32, warps: u32) -> Result<Self, LayoutError> {
        let mut b = Builder::new(shape)?;
        check_permutation("order", order, shape.len())?;
        for (axis, bits) in [(Axis::Lane, log2("lanes", lanes)?), (Axis::Warp, log2("warps", warps)?)] {
            for _ in 0..bits {
                b.push(axis, 0);
            }
        }
        b.finish(order)
    }
}
