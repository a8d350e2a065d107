//! Digit spaces of tensors: an extent is `2^v` low bits with one odd digit on top.
//!
//! Bits of all dimensions are packed into one word, minor dimension (the last) lowest. Digit lists
//! other than the canonical one arise only from reshapes; every digit carries its weight, so a
//! coordinate is always the plain sum of digit times weight.

use super::error::LayoutError;
use smallvec::SmallVec;

/// A tensor coordinate, one entry per dimension.
pub type Coord = SmallVec<[u32; 4]>;

/// Values of the odd digits of a tensor, in the order of [`Space::odd`].
pub(crate) type OddValues = SmallVec<[u32; 2]>;

/// The first coordinate of so many dimensions.
#[inline]
pub(crate) fn origin(rank: usize) -> Coord {
    let few = [0; 4];
    if rank <= few.len() { Coord::from_buf_and_len(few, rank) } else { Coord::from_elem(0, rank) }
}

/// One digit of one tensor dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Digit {
    /// Tensor dimension.
    pub dim: u8,
    /// 2, or an odd number above 1.
    pub radix: u32,
    /// Coordinate step of one unit of this digit.
    pub weight: u32,
}

/// The digits of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Space {
    /// Extents.
    pub shape: Coord,
    /// Radix-2 digits: position = bit of the packed word. Last dimension first, low weight first.
    pub bits: SmallVec<[Digit; 16]>,
    /// Odd digits in the same order.
    pub odd: SmallVec<[Digit; 2]>,
}

/// Radices of the digits of a dimension, low first.
pub type Radices = SmallVec<[u32; 16]>;

impl Space {
    /// The canonical digits of `shape`.
    pub fn new(shape: &[u32]) -> Result<Self, LayoutError> {
        check_shape(shape)?;
        let lists: SmallVec<[Radices; 4]> = shape
            .iter()
            .map(|&s| {
                let v = s.trailing_zeros();
                let mut list = Radices::from_elem(2, v as usize);
                if s >> v > 1 {
                    list.push(s >> v);
                }
                list
            })
            .collect();
        Self::with_digits(shape, &lists)
    }

    /// Digits given per dimension, low first.
    pub fn with_digits(shape: &[u32], lists: &[Radices]) -> Result<Self, LayoutError> {
        check_shape(shape)?;
        let mut space = Self { shape: Coord::from_slice(shape), bits: SmallVec::new(), odd: SmallVec::new() };
        for (dim, list) in lists.iter().enumerate().rev() {
            let mut weight = 1u32;
            for &radix in list {
                let digit = Digit { dim: dim as u8, radix, weight };
                if radix == 2 {
                    space.bits.push(digit);
                } else if radix > 2 && radix % 2 == 1 {
                    space.odd.push(digit);
                } else {
                    return Err(LayoutError::BadDigits { dim });
                }
                weight = weight.saturating_mul(radix);
            }
            if weight != shape[dim] {
                return Err(LayoutError::BadDigits { dim });
            }
        }
        Ok(space)
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of packed bits.
    pub fn nbits(&self) -> u32 {
        self.bits.len() as u32
    }

    /// Mask of the packed bits of one dimension.
    pub fn dim_mask(&self, dim: usize) -> u32 {
        let mut mask = 0;
        for (i, digit) in self.bits.iter().enumerate() {
            if usize::from(digit.dim) == dim {
                mask |= 1 << i;
            }
        }
        mask
    }

    /// Number of bits of one dimension.
    pub fn dim_bits(&self, dim: usize) -> u32 {
        self.dim_mask(dim).count_ones()
    }

    /// Packed word of bit `j` (low first) of dimension `dim`; zero when the dimension is shorter.
    pub fn dim_bit(&self, dim: usize, j: u32) -> u32 {
        let mask = self.dim_mask(dim);
        if j < mask.count_ones() { 1 << (mask.trailing_zeros() + j) } else { 0 }
    }

    /// Index in [`Space::odd`] of the odd digits of one dimension.
    pub fn dim_odd(&self, dim: usize) -> SmallVec<[usize; 2]> {
        (0..self.odd.len()).filter(|&k| usize::from(self.odd[k].dim) == dim).collect()
    }

    /// The digits of one dimension, low first.
    pub fn digits_of(&self, dim: usize) -> SmallVec<[Digit; 16]> {
        let mut list: SmallVec<[Digit; 16]> =
            self.bits.iter().chain(self.odd.iter()).filter(|d| usize::from(d.dim) == dim).copied().collect();
        list.sort_by_key(|d| d.weight);
        list
    }

    /// Coordinate of a packed word plus odd digit values.
    pub fn coord(&self, packed: u32, odd: &[u32]) -> Coord {
        let mut coord = origin(self.rank());
        let along = coord.as_mut_slice();
        let (bits, mut left) = (self.bits.as_slice(), packed);
        while let Some(digit) = bits.get(left.trailing_zeros() as usize) {
            along[usize::from(digit.dim)] += digit.weight;
            left &= left - 1;
        }
        for (digit, &value) in self.odd.iter().zip(odd) {
            along[usize::from(digit.dim)] += value * digit.weight;
        }
        coord
    }

    /// Packed word and odd digit values of a coordinate; `None` when it lies outside the tensor.
    pub fn pack(&self, coord: &[u32]) -> Option<(u32, OddValues)> {
        if coord.len() != self.rank() || coord.iter().zip(&self.shape).any(|(c, s)| c >= s) {
            return None;
        }
        let digit_value = |d: &Digit| coord[usize::from(d.dim)] / d.weight % d.radix;
        let mut packed = 0;
        for (i, digit) in self.bits.iter().enumerate() {
            packed |= digit_value(digit) << i;
        }
        Some((packed, self.odd.iter().map(digit_value).collect()))
    }

    /// A dimension with a bit above an odd digit, where coordinates do not combine by XOR.
    pub fn bit_above_odd(&self) -> Option<usize> {
        let high = self.bits.iter().find(|d| !d.weight.is_power_of_two())?;
        Some(usize::from(high.dim))
    }
}

fn check_shape(shape: &[u32]) -> Result<(), LayoutError> {
    let mut product = 1u64;
    for (dim, &extent) in shape.iter().enumerate() {
        if extent == 0 {
            return Err(LayoutError::ZeroExtent { dim });
        }
        product = product.saturating_mul(u64::from(extent));
    }
    if product >= 1 << 31 || shape.len() > 32 {
        return Err(LayoutError::TooLarge { shape: shape.to_vec() });
    }
    Ok(())
}

/// log2 of a power of two.
pub(crate) fn log2(what: &'static str, value: u32) -> Result<u32, LayoutError> {
    if value.is_power_of_two() { Ok(value.trailing_zeros()) } else { Err(LayoutError::NotPowerOfTwo { what, value }) }
}

/// Checks that `list` is a permutation of `0..rank`.
pub(crate) fn check_permutation(what: &'static str, list: &[usize], rank: usize) -> Result<(), LayoutError> {
    let mut seen = 0u64;
    for &d in list {
        if d >= rank || seen >> d & 1 == 1 {
            return Err(LayoutError::NotPermutation { what, given: list.to_vec() });
        }
        seen |= 1 << d;
    }
    if list.len() == rank { Ok(()) } else { Err(LayoutError::NotPermutation { what, given: list.to_vec() }) }
}

/// Checks that a parameter has one entry per dimension.
pub(crate) fn check_rank(what: &'static str, found: usize, expected: usize) -> Result<(), LayoutError> {
    if found == expected { Ok(()) } else { Err(LayoutError::Rank { what, expected, found }) }
}
