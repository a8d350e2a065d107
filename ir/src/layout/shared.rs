//! Shared-memory maps: invertible maps from tensor elements to element offsets.
//!
//! Offsets are `bits + 2^nbits * odd`: all bits of the tensor first, combined by XOR, and the odd
//! digits as a mixed-radix number on top, combined by addition. So swizzles are matrices and odd
//! extents never disturb banks.

use super::access::{AccessColumns, OddWeight};
use super::digits::{Coord, Space, check_permutation, log2};
use super::error::LayoutError;
use super::linear;
use super::map::{Axis, AxisMap, Layout, OddDigit, Pad, aligned};
use smallvec::SmallVec;

/// An invertible map from the elements of a tensor to offsets in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedMap {
    /// Offset to element.
    off: Layout,
    /// Tensor bit to offset.
    cols: SmallVec<[u32; 16]>,
}

impl SharedMap {
    /// From packed offset columns (offset bit to tensor bits); odd digits in `odd_order`.
    pub(crate) fn from_packed(space: Space, columns: &[u32], odd_order: &[usize]) -> Result<Self, LayoutError> {
        let cols: SmallVec<[u32; 16]> = linear::inverse(columns).ok_or(LayoutError::NotInvertible)?.into();
        let mut axes: [AxisMap; 5] = Default::default();
        let map = &mut axes[Axis::Off as usize];
        map.cols = columns.into();
        for &k in odd_order {
            map.odd.push(OddDigit { radix: space.odd[k].radix, target: Some(k as u8) });
        }
        Ok(Self { off: Layout::new(space, axes)?, cols })
    }

    /// From explicit columns: the tensor coordinate of each offset bit, low bit first.
    ///
    /// # Errors
    /// [`LayoutError::BadColumn`], [`LayoutError::NotInvertible`], or the errors of a bad shape.
    pub fn from_offset_columns(shape: &[u32], columns: &[Coord]) -> Result<Self, LayoutError> {
        Self::from_layout(Layout::from_columns(shape, &[(Axis::Off, columns.to_vec())])?)
    }

    /// From a layout on [`Axis::Off`].
    ///
    /// # Errors
    /// [`LayoutError::NotInvertible`] when offsets hold copies or other axes are used.
    pub fn from_layout(layout: Layout) -> Result<Self, LayoutError> {
        let odd: Vec<usize> = layout.map(Axis::Off).odd.iter().filter_map(|d| d.target.map(usize::from)).collect();
        if odd.len() != layout.space.odd.len() {
            return Err(LayoutError::NotInvertible);
        }
        let cols: Vec<u32> = layout.cols(Axis::Off).to_vec();
        if cols.len() as u32 != layout.space.nbits() {
            return Err(LayoutError::NotInvertible);
        }
        let pad = layout.map(Axis::Off).pad;
        let mut out = Self::from_packed(layout.space, &cols, &odd)?;
        out.off.axes[Axis::Off as usize].pad = pad;
        Ok(out)
    }

    /// Dimensions in `order` (fastest first), no swizzle. Dense row-major memory when no extent
    /// but that of the slowest dimension has an odd factor; otherwise odd factors move to the top.
    ///
    /// # Errors
    /// [`LayoutError::NotPermutation`] or the errors of a bad shape.
    pub fn row_major(shape: &[u32], order: &[usize]) -> Result<Self, LayoutError> {
        Self::swizzled(shape, order, 1, 1, 1)
    }

    /// The XOR swizzle: in row `i` (dimension `order[1]`) groups of `vec` elements along
    /// `order[0]` are permuted by XOR with `(i / per_phase) % max_phase`. All three parameters are
    /// powers of two; XORs that leave the row vanish.
    ///
    /// # Errors
    /// [`LayoutError::NotPowerOfTwo`], [`LayoutError::NotPermutation`] or a bad shape.
    pub fn swizzled(shape: &[u32], order: &[usize], vec: u32, per_phase: u32, max_phase: u32) -> Result<Self, LayoutError> {
        let space = Space::new(shape)?;
        check_permutation("order", order, shape.len())?;
        let vec = log2("vec", vec)?;
        let per_phase = log2("per_phase", per_phase)?;
        let max_phase = log2("max_phase", max_phase)?;
        let mut columns = Vec::new();
        let mut odd_order = Vec::new();
        for (rank, &dim) in order.iter().enumerate() {
            for j in 0..space.dim_bits(dim) {
                let mut column = space.dim_bit(dim, j);
                if rank == 1 && (per_phase..per_phase + max_phase).contains(&j) {
                    column |= space.dim_bit(order[0], vec + j - per_phase);
                }
                columns.push(column);
            }
            odd_order.extend(space.dim_odd(dim));
        }
        Self::from_packed(space, &columns, &odd_order)
    }

    /// Rows along `contiguous_dim`, slower dimensions with the last fastest, and a gap of `bytes` behind each row. Rows of one chunk then fall
    /// into different banks, and an address is that of the row plus a constant.
    ///
    /// # Errors
    /// [`LayoutError::Unsupported`] for extents with odd factors, rows that are no multiple of 16 bytes, gaps that break up elements.
    pub fn padded(shape: &[u32], elem_bytes: u32, contiguous_dim: usize, bytes: u32) -> Result<Self, LayoutError> {
        let elem = elem_bytes.max(1);
        let row = shape.get(contiguous_dim).copied().unwrap_or(0).saturating_mul(elem);
        if !shape.iter().all(|e| e.is_power_of_two()) || !row.is_multiple_of(16) || !bytes.is_multiple_of(elem) || !elem.is_power_of_two() {
            return Err(LayoutError::Unsupported { what: format!("rows of {shape:?} with gaps of {bytes} bytes") });
        }
        let order: Vec<usize> = std::iter::once(contiguous_dim).chain((0..shape.len()).rev().filter(|&d| d != contiguous_dim)).collect();
        let mut out = Self::row_major(shape, &order)?;
        out.off.axes[Axis::Off as usize].pad = Some(Pad { shift: (row / elem).ilog2(), by: bytes / elem });
        Ok(out)
    }

    /// Tensor extents.
    pub fn shape(&self) -> &[u32] {
        self.off.shape()
    }

    /// Number of elements of storage.
    pub fn elements(&self) -> u32 {
        let places = self.off.size(Axis::Off);
        self.pad().map_or(places, |p| p.place(places - 1) + 1)
    }

    fn pad(&self) -> Option<Pad> {
        self.off.map(Axis::Off).pad
    }

    /// Offset to element, as a layout on [`Axis::Off`].
    pub fn layout(&self) -> &Layout {
        &self.off
    }

    /// Offset contributed by bit `j` (low first) of dimension `dim`; zero when it has no such bit.
    pub fn column(&self, dim: usize, j: u32) -> u32 {
        linear::mul(&self.cols, u64::from(self.off.space.dim_bit(dim, j)))
    }

    /// Offset step per unit of the odd digits of a dimension, low digit first: (radix, step).
    pub fn odd_steps(&self, dim: usize) -> SmallVec<[(u32, u32); 2]> {
        let space = &self.off.space;
        space.dim_odd(dim).iter().map(|&k| (space.odd[k].radix, odd_weight(&self.off, k))).collect()
    }

    /// Offset of an element; `None` outside the tensor.
    pub fn offset(&self, coord: &[u32]) -> Option<u32> {
        let (packed, odd) = self.off.space.pack(coord)?;
        let high: u32 = odd.iter().enumerate().map(|(k, v)| v * odd_weight(&self.off, k)).sum();
        let bits = linear::mul(&self.cols, u64::from(packed));
        Some(self.pad().map_or(bits, |p| p.place(bits)) + high)
    }

    /// The offsets that a register layout accesses: per axis and bit the XOR contribution, per odd
    /// digit the additive step.
    ///
    /// # Errors
    /// [`LayoutError::TensorMismatch`] when the layout describes another tensor.
    pub fn columns_from(&self, layout: &Layout) -> Result<AccessColumns, LayoutError> {
        let (layout, off) = aligned(layout, &self.off)?;
        let image = |axis| layout.cols(axis).iter().map(|&c| linear::mul(&self.cols, u64::from(c))).collect();
        let mut odd = Vec::new();
        for axis in [Axis::Reg, Axis::Warp, Axis::Block] {
            for d in &layout.map(axis).odd {
                let step = d.target.map_or(0, |t| odd_weight(&off, usize::from(t)));
                odd.push(OddWeight { axis, radix: d.radix, step });
            }
        }
        Ok(AccessColumns {
            reg: image(Axis::Reg),
            lane: image(Axis::Lane),
            warp: image(Axis::Warp),
            block: image(Axis::Block),
            odd,
            pad: self.pad(),
        })
    }

    /// The odd digits of a register layout with their additive offset steps; see
    /// [`SharedMap::columns_from`].
    ///
    /// # Errors
    /// As [`SharedMap::columns_from`].
    pub fn odd_from(&self, layout: &Layout) -> Result<Vec<OddWeight>, LayoutError> {
        Ok(self.columns_from(layout)?.odd)
    }

    /// The same storage seen as the transposed tensor: dimension `i` of the result is `perm[i]`.
    ///
    /// # Errors
    /// [`LayoutError::NotPermutation`].
    pub fn transpose(&self, perm: &[usize]) -> Result<Self, LayoutError> {
        Self::from_layout(self.off.transpose(perm)?)
    }

    /// The same storage seen in another shape.
    ///
    /// # Errors
    /// As [`Layout::reshape`].
    pub fn reshape(&self, shape: &[u32]) -> Result<Self, LayoutError> {
        Self::from_layout(self.off.reshape(shape)?)
    }
}

/// Offset step of tensor odd digit `k` in an offset layout.
fn odd_weight(off: &Layout, k: usize) -> u32 {
    let map = off.map(Axis::Off);
    let mut weight = 1 << map.cols.len();
    for d in &map.odd {
        if d.target == Some(k as u8) {
            break;
        }
        weight *= d.radix;
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{BankModel, FragmentMap, SharedOp, ldmatrix_applies, wavefronts};
    use std::collections::HashSet;

    #[test]
    fn rows_with_gaps_have_a_place_for_each_element_and_no_conflicts() {
        let (shape, elem) = ([64, 64], 2);
        let (dense, padded) = (SharedMap::row_major(&shape, &[1, 0]).unwrap(), SharedMap::padded(&shape, elem, 1, 16).unwrap());
        let places: HashSet<u32> = (0..64).flat_map(|i| (0..64).map(move |j| [i, j])).map(|c| padded.offset(&c).unwrap()).collect();
        assert_eq!(places.len(), 64 * 64);
        assert_eq!(padded.offset(&[3, 5]), Some(3 * 72 + 5));
        assert_eq!(padded.elements(), 63 * 72 + 64);
        assert!(places.iter().all(|&p| p < padded.elements()));
        // Seen transposed and through its layout, it is the same memory.
        let transposed = padded.transpose(&[1, 0]).unwrap();
        assert_eq!(transposed.offset(&[5, 3]), Some(3 * 72 + 5));
        assert_eq!(SharedMap::from_layout(padded.layout().clone()).unwrap(), padded);
        // Eight rows of one chunk meet in one bank, unless there are gaps.
        let a = FragmentMap::new(&[16, 16], &[&[0, 1], &[8, 0], &[0, 8]], &[&[0, 2], &[0, 4], &[1, 0], &[2, 0], &[4, 0]], &[]).unwrap();
        let layout = Layout::fragment(&shape, &a, &[4, 1], &[0, 1]).unwrap();
        let fetched = |m: &SharedMap| ldmatrix_applies(&m.columns_from(&layout).unwrap(), elem).unwrap().wavefronts();
        assert_eq!([fetched(&dense), fetched(&padded)], [8, 1]);
        // A column, each lane a row.
        let column = Layout::blocked(&shape, &[1, 1], &[32, 1], &[1, 1], &[0, 1]).unwrap();
        let w = |m: &SharedMap| wavefronts(&m.columns_from(&column).unwrap(), elem, 1, SharedOp::Load, &BankModel::nvidia(), 0).per_phase;
        assert_eq!([w(&dense), w(&padded)], [32, 4]);
        for (bad, gap) in [([48, 64], 16), ([64, 64], 3), ([64, 4], 16)] {
            assert!(matches!(SharedMap::padded(&bad, elem, 1, gap), Err(LayoutError::Unsupported { .. })), "{bad:?} {gap}");
        }
    }
}
