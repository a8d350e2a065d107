//! Views: tile operations that move no data transform the layout exactly.
//!
//! Reshapes use row-major flattening (last dimension fastest). A reshape is exact when the digit
//! lists of both shapes have a common refinement; an odd digit may be split by an odd factor.

use super::digits::{Coord, Digit, Radices, Space, check_permutation};
use super::error::LayoutError;
use super::map::{Axis, AxisMap, Layout, OddDigit};
use smallvec::{SmallVec, smallvec};

/// Result of moving the digits of a layout to another space.
struct Remap {
    space: Space,
    /// New packed bit of each old bit; `None` when the dimension is gone.
    bits: SmallVec<[Option<u8>; 16]>,
    /// New odd index of each old odd digit.
    odd: SmallVec<[Option<u8>; 2]>,
}

impl Remap {
    /// Matches digits by a dimension renaming: old dimension `d` becomes `to(d)`.
    fn by_dims(old: &Space, space: Space, to: impl Fn(usize) -> Option<usize>) -> Self {
        let find = |digit: &Digit, list: &[Digit]| {
            let dim = to(usize::from(digit.dim))?;
            let same = |d: &Digit| usize::from(d.dim) == dim && d.weight == digit.weight;
            list.iter().position(same).map(|i| i as u8)
        };
        let bits = old.bits.iter().map(|d| find(d, &space.bits)).collect();
        let odd = old.odd.iter().map(|d| find(d, &space.odd)).collect();
        Self { space, bits, odd }
    }

    /// Applies the digit renaming. Register columns that vanish are deleted, those of other axes
    /// stay as copies.
    fn apply(self, layout: &Layout) -> Layout {
        let mut axes: [AxisMap; 5] = Default::default();
        for axis in Axis::ALL {
            let old = layout.map(axis);
            let new = &mut axes[axis as usize];
            new.pad = old.pad;
            for &c in &old.cols {
                let mut packed = 0;
                for (i, to) in self.bits.iter().enumerate() {
                    if let Some(j) = to.filter(|_| c >> i & 1 == 1) {
                        packed |= 1 << j;
                    }
                }
                if packed != 0 || c == 0 || axis != Axis::Reg {
                    new.cols.push(packed);
                }
            }
            for d in &old.odd {
                let target = d.target.and_then(|t| self.odd[usize::from(t)]);
                if target.is_some() || axis != Axis::Reg {
                    new.odd.push(OddDigit { radix: d.radix, target });
                }
            }
        }
        Layout { space: self.space, axes }
    }
}

/// The space with dimensions chosen by `from`: new dimension `i` has the digits of old dimension
/// `from[i]`, or extent 1.
fn select_dims(old: &Space, from: &[Option<usize>]) -> Space {
    let mut shape = Coord::new();
    let (mut bits, mut odd) = (SmallVec::new(), SmallVec::new());
    for d in from {
        shape.push(d.map_or(1, |d| old.shape[d]));
    }
    for (dim, d) in from.iter().enumerate().rev() {
        for digit in d.map(|d| old.digits_of(d)).into_iter().flatten() {
            let digit = Digit { dim: dim as u8, ..digit };
            if digit.radix == 2 {
                bits.push(digit);
            } else {
                odd.push(digit);
            }
        }
    }
    Space { shape, bits, odd }
}

impl Layout {
    /// Moves to the dimensions `from` (see [`select_dims`]).
    fn with_dims(&self, from: &[Option<usize>]) -> Self {
        let space = select_dims(&self.space, from);
        let to = |d: usize| from.iter().position(|&f| f == Some(d));
        Remap::by_dims(&self.space, space, to).apply(self)
    }

    /// Layout of the transposed tensor: dimension `i` of the result is dimension `perm[i]` of the
    /// operand. No data moves.
    ///
    /// # Errors
    /// [`LayoutError::NotPermutation`].
    pub fn transpose(&self, perm: &[usize]) -> Result<Self, LayoutError> {
        check_permutation("perm", perm, self.rank())?;
        let from: Vec<Option<usize>> = perm.iter().map(|&d| Some(d)).collect();
        Ok(self.with_dims(&from))
    }

    /// Layout with a new dimension of extent 1 inserted before dimension `dim` (at the end when
    /// `dim` is the rank or more).
    #[must_use]
    pub fn expand_dims(&self, dim: usize) -> Self {
        let mut from: Vec<Option<usize>> = (0..self.rank()).map(Some).collect();
        from.insert(dim.min(self.rank()), None);
        self.with_dims(&from)
    }

    /// Layout without a dimension of extent 1.
    ///
    /// # Errors
    /// [`LayoutError::NoSuchDim`], [`LayoutError::NotUnit`].
    pub fn squeeze(&self, dim: usize) -> Result<Self, LayoutError> {
        match self.shape().get(dim) {
            Some(1) => Ok(self.slice(dim)),
            Some(&extent) => Err(LayoutError::NotUnit { dim, extent }),
            None => Err(LayoutError::NoSuchDim { dim, rank: self.rank() }),
        }
    }

    /// Layout of a reduction result over `dim` (or of an operand that will be broadcast along it):
    /// the dimension disappears, registers that only ran along it are deleted, lanes and warps
    /// that ran along it hold copies. A dimension that does not exist leaves the layout as it is.
    #[must_use]
    pub fn slice(&self, dim: usize) -> Self {
        let from: Vec<Option<usize>> = (0..self.rank()).filter(|&d| d != dim).map(Some).collect();
        self.with_dims(&from)
    }

    /// Layout of an operand of extent 1 along `dim` whose broadcast has this layout: slice, then
    /// expand.
    #[must_use]
    pub fn with_dim_broadcast(&self, dim: usize) -> Self {
        if dim < self.rank() { self.slice(dim).expand_dims(dim) } else { self.clone() }
    }

    /// Layout of the result of broadcasting dimension `dim` of extent 1 to `extent`: each lane
    /// repeats its elements in new registers (bits above the present ones, odd factor on top).
    ///
    /// # Errors
    /// [`LayoutError::NoSuchDim`], [`LayoutError::NotUnit`] or the errors of a bad shape.
    pub fn broadcast(&self, dim: usize, extent: u32) -> Result<Self, LayoutError> {
        match self.shape().get(dim) {
            Some(1) => {}
            Some(&extent) => return Err(LayoutError::NotUnit { dim, extent }),
            None => {
                return Err(LayoutError::NoSuchDim { dim, rank: self.rank() });
            }
        }
        let mut shape = Coord::from_slice(self.shape());
        shape[dim] = extent;
        let mut lists: Vec<Radices> = (0..self.rank()).map(|d| self.space.digits_of(d).iter().map(|g| g.radix).collect()).collect();
        lists[dim] = Space::new(&[extent])?.digits_of(0).iter().map(|g| g.radix).collect();
        let space = Space::with_digits(&shape, &lists)?;
        let mut axes = Remap::by_dims(&self.space, space.clone(), Some).apply(self).axes;
        let reg = &mut axes[Axis::Reg as usize];
        for j in 0..space.dim_bits(dim) {
            reg.cols.push(space.dim_bit(dim, j));
        }
        for k in space.dim_odd(dim) {
            reg.odd.push(OddDigit { radix: space.odd[k].radix, target: Some(k as u8) });
        }
        Self::new(space, axes)
    }

    /// True if a dimension lies in register bits and digits that run along no other dimension: the
    /// registers alone say the coordinate.
    pub fn in_registers(&self, dim: usize) -> bool {
        let elsewhere = [Axis::Lane, Axis::Warp, Axis::Block];
        let none = elsewhere.iter().all(|&a| (0..self.bits(a)).all(|i| self.column(a, i)[dim] == 0));
        let alone = (0..self.bits(Axis::Reg)).all(|i| {
            let c = self.column(Axis::Reg, i);
            c[dim] == 0 || c.iter().enumerate().all(|(k, &x)| k == dim || x == 0)
        });
        let odd = |a: Axis| self.map(a).odd.iter().filter_map(|d| d.target).any(|t| usize::from(self.space.odd[usize::from(t)].dim) == dim);
        none && alone && !elsewhere.iter().any(|&a| odd(a))
    }

    /// For each register of this layout, the register of [`Layout::slice`] (equally of
    /// [`Layout::with_dim_broadcast`]) that holds the element with coordinate `dim` removed.
    pub fn slice_registers(&self, dim: usize) -> Vec<u32> {
        let map = self.map(Axis::Reg);
        let gone = self.space.dim_mask(dim);
        let dead_odd = self.space.dim_odd(dim);
        // Where each bit and odd digit of a register number goes in the sliced number.
        let mut bits: SmallVec<[Option<u32>; 8]> = SmallVec::new();
        let mut kept = 0;
        for &c in &map.cols {
            let keep = c == 0 || c & !gone != 0;
            bits.push(keep.then_some(kept));
            kept += u32::from(keep);
        }
        (0..self.size(Axis::Reg))
            .map(|reg| {
                let mut out = 0;
                for (i, to) in bits.iter().enumerate() {
                    out |= to.map_or(0, |j| (reg >> i & 1) << j);
                }
                let mut rest = reg >> map.cols.len();
                let mut weight = 1 << kept;
                for d in &map.odd {
                    let value = rest % d.radix;
                    rest /= d.radix;
                    if d.target.is_some_and(|t| !dead_odd.contains(&usize::from(t))) {
                        out += value * weight;
                        weight *= d.radix;
                    }
                }
                out
            })
            .collect()
    }

    /// Layout of the reshaped tensor (row-major order of elements is kept). No data moves.
    ///
    /// # Errors
    /// [`LayoutError::ElementCount`]; [`LayoutError::DigitsStraddle`] when a cut goes through an
    /// odd factor, or when the result would have bits above an odd digit so that coordinates no
    /// longer combine by XOR (such as `[16, 176]` to `[2816]`; see
    /// [`Layout::reshape_mixed`]).
    pub fn reshape(&self, shape: &[u32]) -> Result<Self, LayoutError> {
        let out = self.reshape_mixed(shape)?;
        match out.space.bit_above_odd() {
            None => Ok(out),
            Some(dim) => Err(LayoutError::DigitsStraddle { from: self.shape().to_vec(), to: shape.to_vec(), dim }),
        }
    }

    /// As [`Layout::reshape`], but odd digits may end up below bits. [`Layout::apply`] is exact on
    /// the result; columns of independent bits add instead of combining by XOR, and the layout
    /// only compares with others that came from the same digits.
    ///
    /// # Errors
    /// [`LayoutError::ElementCount`], [`LayoutError::DigitsStraddle`].
    pub fn reshape_mixed(&self, shape: &[u32]) -> Result<Self, LayoutError> {
        let fail = |dim| LayoutError::DigitsStraddle { from: self.shape().to_vec(), to: shape.to_vec(), dim };
        let product = |s: &[u32]| s.iter().fold(1u64, |p, &e| p.saturating_mul(u64::from(e)));
        if product(shape) != product(self.shape()) {
            return Err(LayoutError::ElementCount { from: self.shape().to_vec(), to: shape.to_vec() });
        }
        // Old digits, minor to major. `part` of an odd digit: (old odd index, factor so far).
        let mut flat: Vec<(Digit, Option<usize>)> = Vec::new();
        for dim in (0..self.rank()).rev() {
            for digit in self.space.digits_of(dim) {
                let odd = self.space.odd.iter().position(|d| *d == digit);
                flat.push((digit, odd));
            }
        }
        flat.reverse();
        let mut lists: SmallVec<[Radices; 4]> = smallvec![Radices::new(); shape.len()];
        // For each old odd digit, the factors it is cut into.
        let mut cuts: SmallVec<[SmallVec<[u32; 2]>; 2]> = smallvec![SmallVec::new(); self.space.odd.len()];
        for dim in (0..shape.len()).rev() {
            let mut need = shape[dim];
            while need > 1 {
                let (digit, odd) = flat.pop().ok_or_else(|| fail(dim))?;
                let take = if need.is_multiple_of(digit.radix) {
                    digit.radix
                } else if odd.is_some() && digit.radix.is_multiple_of(need) {
                    need
                } else {
                    return Err(fail(dim));
                };
                if take < digit.radix {
                    flat.push((Digit { radix: digit.radix / take, ..digit }, odd));
                }
                if let Some(k) = odd {
                    cuts[k].push(take);
                }
                lists[dim].push(take);
                need /= take;
            }
        }
        let space = Space::with_digits(shape, &lists)?;
        // Bits and odd digits keep their flat order, so only the cuts need renumbering.
        let mut axes = self.axes.clone();
        for map in &mut axes {
            let old = std::mem::take(&mut map.odd);
            for d in old {
                match d.target {
                    None => map.odd.push(d),
                    Some(t) => {
                        let k = usize::from(t);
                        let first: usize = cuts[..k].iter().map(|c| c.len()).sum();
                        for (i, &radix) in cuts[k].iter().enumerate() {
                            map.odd.push(OddDigit { radix, target: Some((first + i) as u8) });
                        }
                    }
                }
            }
        }
        let mut out = Self { space, axes };
        out.join_odd();
        Ok(out)
    }
}
