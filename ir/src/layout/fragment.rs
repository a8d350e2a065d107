//! Instruction fragments as data, and their tiling over a tensor.
//!
//! A fragment table lists where each register and lane bit of one matrix instruction points. The
//! tiling puts warps directly above the fragment and repeats the instruction in registers:
//!
//! ```text
//!   dim d:  [ fragment bits | warp bits | repetition (registers) ] odd digit (registers)
//! ```
//!
//! A dimension shorter than the fragment wraps: the columns that would leave it become zero, so the
//! surplus lanes hold copies and the surplus registers are dropped.

use super::construct::Builder;
use super::digits::{Coord, check_permutation, check_rank, log2};
use super::error::LayoutError;
use super::linear;
use super::map::{Axis, Layout};

/// Where the bits of one instruction operand point, as plain data for target tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FragmentMap {
    /// Extents of the fragment, powers of two, for instance `[16, 8]`.
    pub shape: Coord,
    /// Columns of the register bits, low bit first.
    pub reg: Vec<Coord>,
    /// Columns of the lane bits, low bit first; a zero column means that lanes hold copies.
    pub lane: Vec<Coord>,
    /// Columns of the lowest warp bits when the instruction spans several warps, else empty.
    pub warp: Vec<Coord>,
    /// Dimensions in the order in which repetitions take register bits, first lowest.
    pub rep_order: Vec<usize>,
}

impl FragmentMap {
    /// Builds and checks a table from plain slices; the repetition order is last dimension first.
    ///
    /// # Errors
    /// As [`FragmentMap::check`].
    pub fn new(shape: &[u32], reg: &[&[u32]], lane: &[&[u32]], warp: &[&[u32]]) -> Result<Self, LayoutError> {
        let coords = |list: &[&[u32]]| list.iter().map(|c| Coord::from_slice(c)).collect();
        let map = Self {
            shape: Coord::from_slice(shape),
            reg: coords(reg),
            lane: coords(lane),
            warp: coords(warp),
            rep_order: (0..shape.len()).rev().collect(),
        };
        map.check()?;
        Ok(map)
    }

    /// Checks that the nonzero columns reach every element of the fragment exactly once.
    ///
    /// # Errors
    /// [`LayoutError::NotPowerOfTwo`], [`LayoutError::BadColumn`],
    /// [`LayoutError::FragmentNotBijective`] or [`LayoutError::NotPermutation`].
    pub fn check(&self) -> Result<(), LayoutError> {
        check_permutation("rep_order", &self.rep_order, self.shape.len())?;
        for &extent in &self.shape {
            log2("fragment shape", extent)?;
        }
        let b = Builder::new(&self.shape)?;
        let mut columns = Vec::new();
        for coord in self.reg.iter().chain(&self.lane).chain(&self.warp) {
            match b.space().pack(coord) {
                Some((packed, _)) => columns.push(packed),
                None => {
                    return Err(LayoutError::BadColumn { column: coord.to_vec() });
                }
            }
        }
        columns.retain(|&c| c != 0);
        let full = b.space().nbits();
        if columns.len() as u32 == full && linear::rank(&columns) == full {
            Ok(())
        } else {
            Err(LayoutError::FragmentNotBijective { shape: self.shape.to_vec() })
        }
    }

    /// The same fragment with `extra` leading dimensions of extent 1 (batch dimensions), which
    /// repeat last.
    #[must_use]
    pub fn lifted(&self, extra: usize) -> Self {
        let lift = |c: &Coord| {
            let mut out = Coord::from_elem(0, extra);
            out.extend_from_slice(c);
            out
        };
        let mut shape = Coord::from_elem(1, extra);
        shape.extend_from_slice(&self.shape);
        let mut rep_order: Vec<usize> = self.rep_order.iter().map(|d| d + extra).collect();
        rep_order.extend((0..extra).rev());
        Self {
            shape,
            reg: self.reg.iter().map(lift).collect(),
            lane: self.lane.iter().map(lift).collect(),
            warp: self.warp.iter().map(lift).collect(),
            rep_order,
        }
    }

    /// The fragment of the transposed operand: dimension `i` of the result is `perm[i]` of this.
    ///
    /// # Errors
    /// [`LayoutError::NotPermutation`].
    pub fn transposed(&self, perm: &[usize]) -> Result<Self, LayoutError> {
        check_permutation("perm", perm, self.shape.len())?;
        let pick = |c: &Coord| perm.iter().map(|&d| c[d]).collect::<Coord>();
        let place = |d: usize| perm.iter().position(|&p| p == d).unwrap_or(d);
        Ok(Self {
            shape: pick(&self.shape),
            reg: self.reg.iter().map(pick).collect(),
            lane: self.lane.iter().map(pick).collect(),
            warp: self.warp.iter().map(pick).collect(),
            rep_order: self.rep_order.iter().map(|&d| place(d)).collect(),
        })
    }
}

impl Layout {
    /// Tiles a fragment over a tensor: `warps[d]` warps (a power of two) split dimension `d`
    /// directly above the fragment, warp bits of the dimensions in `warp_order` (first lowest),
    /// repetitions in registers in the fragment's `rep_order`.
    ///
    /// # Errors
    /// The fragment's own errors, [`LayoutError::Rank`], [`LayoutError::NotPowerOfTwo`],
    /// [`LayoutError::NotPermutation`].
    pub fn fragment(shape: &[u32], frag: &FragmentMap, warps: &[u32], warp_order: &[usize]) -> Result<Self, LayoutError> {
        let same: Vec<Option<usize>> = (0..shape.len()).map(Some).collect();
        Self::operand_of(shape, frag, warps, warp_order, &same)
    }

    /// Tiles an operand fragment whose warps are arranged over another tensor, the accumulator:
    /// `acc_warps` and `acc_warp_order` are those of the accumulator and `acc_dim_to_operand[d]`
    /// names the operand dimension that accumulator dimension `d` runs along. Warps that split a
    /// dimension the operand lacks (`None`) hold copies.
    ///
    /// With the accumulator as (M, N), the A operand (M, K) has `[Some(0), None]` and the B operand
    /// (K, N) has `[None, Some(1)]`.
    ///
    /// # Errors
    /// As [`Layout::fragment`], and [`LayoutError::NoSuchDim`].
    pub fn operand_of(
        shape: &[u32],
        frag: &FragmentMap,
        acc_warps: &[u32],
        acc_warp_order: &[usize],
        acc_dim_to_operand: &[Option<usize>],
    ) -> Result<Self, LayoutError> {
        let rank = shape.len();
        check_rank("fragment", frag.shape.len(), rank)?;
        check_permutation("warp_order", acc_warp_order, acc_warps.len())?;
        check_rank("acc_dim_to_operand", acc_dim_to_operand.len(), acc_warps.len())?;
        frag.check()?;
        let mut b = Builder::new(shape)?;
        for (axis, list) in [(Axis::Reg, &frag.reg), (Axis::Lane, &frag.lane), (Axis::Warp, &frag.warp)] {
            for coord in list {
                // Wrap: bits that leave the power-of-two part of the dimension vanish.
                let mut packed = 0;
                for (dim, &c) in coord.iter().enumerate() {
                    for j in 0..32 - c.leading_zeros() {
                        if c >> j & 1 == 1 {
                            packed |= b.space().dim_bit(dim, j);
                        }
                    }
                }
                b.push(axis, packed);
            }
        }
        for (dim, &extent) in frag.shape.iter().enumerate() {
            b.skip(dim, extent.trailing_zeros());
        }
        for &dim in acc_warp_order {
            let bits = log2("warps", acc_warps[dim])?;
            match acc_dim_to_operand[dim] {
                Some(d) if d < rank => b.take(Axis::Warp, d, bits),
                Some(d) => return Err(LayoutError::NoSuchDim { dim: d, rank }),
                None => (0..bits).for_each(|_| b.push(Axis::Warp, 0)),
            }
        }
        b.finish(&frag.rep_order)
    }
}
