//! The layout type: columns per hardware axis, evaluation, redundancy, equality.

use super::digits::{Coord, Digit, OddValues, Space};
use super::error::LayoutError;
use super::linear::{self, Span};
use smallvec::{SmallVec, smallvec};
use std::fmt;

/// Columns of all axes together; combinations of columns are 64-bit masks.
const MAX_COLUMNS: usize = 60;

/// A hardware axis. Register layouts use `Reg`, `Lane`, `Warp` and `Block`; shared-memory layouts
/// use `Off`, the offset in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// Register of a lane.
    Reg,
    /// Lane of a warp.
    Lane,
    /// Warp of a block.
    Warp,
    /// Block of a cluster.
    Block,
    /// Offset in shared memory, in elements.
    Off,
}

impl Axis {
    /// All axes, in the order in which columns depend on earlier ones.
    pub const ALL: [Self; 5] = [Self::Reg, Self::Lane, Self::Warp, Self::Block, Self::Off];

    /// Lower-case name, as printed in layouts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reg => "reg",
            Self::Lane => "lane",
            Self::Warp => "warp",
            Self::Block => "block",
            Self::Off => "off",
        }
    }
}

/// An odd digit of a hardware axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OddDigit {
    pub radix: u32,
    /// Index of the tensor's odd digit; `None` when the digit only makes copies.
    pub target: Option<u8>,
}

/// Gaps between the rows of a memory: behind each `2^shift` places come `by` that nobody uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pad {
    /// Places of a row, as a power of two.
    pub shift: u32,
    /// Places of a gap.
    pub by: u32,
}

impl Pad {
    /// Where the place of a memory without gaps lies. Of numbers without a common bit the places add up.
    pub fn place(self, offset: u32) -> u32 {
        offset + (offset >> self.shift) * self.by
    }
}

/// Columns and odd digits of one axis. An index on the axis has the bits low and the odd digits on
/// top, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AxisMap {
    pub cols: SmallVec<[u32; 8]>,
    pub odd: SmallVec<[OddDigit; 1]>,
    /// Of offsets.
    pub pad: Option<Pad>,
}

/// A data layout; see the [module documentation](super) for the definition.
///
/// Equality, order and hash are structural: equal layouts place the same element in the same
/// register of the same lane. [`Layout::key`] is the coarser identity modulo register names.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layout {
    pub(crate) space: Space,
    pub(crate) axes: [AxisMap; 5],
}

/// Canonical identity of a layout modulo register renaming (and extent-1 dimensions): two layouts
/// with equal keys are converted into each other by naming registers anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayoutKey(Vec<u32>);

impl Layout {
    /// Checks the invariants and builds the layout.
    pub(crate) fn new(space: Space, axes: [AxisMap; 5]) -> Result<Self, LayoutError> {
        let full = (1u64 << space.nbits()) - 1;
        let mut total = 0;
        for (axis, map) in Axis::ALL.iter().zip(&axes) {
            let odd = map.odd.iter().fold(1u64, |p, d| p.saturating_mul(u64::from(d.radix)));
            total += map.cols.len();
            if map.cols.len() > 31 || odd << map.cols.len() >= 1 << 31 || total > MAX_COLUMNS {
                return Err(LayoutError::Unsupported { what: format!("a layout with 2^31 positions on the {} axis", axis.name()) });
            }
        }
        for &c in axes.iter().flat_map(|a| &a.cols) {
            if u64::from(c) & !full != 0 {
                return Err(LayoutError::BadColumn { column: vec![c] });
            }
        }
        let mut owners: OddValues = smallvec![0; space.odd.len()];
        for (axis, map) in Axis::ALL.iter().zip(&axes) {
            for digit in &map.odd {
                match digit.target {
                    Some(k) => {
                        let k = usize::from(k);
                        let fits = space.odd.get(k).is_some_and(|d| d.radix == digit.radix);
                        if !fits || *axis == Axis::Lane {
                            let dim = space.odd.get(k).map_or(0, |d| usize::from(d.dim));
                            return Err(LayoutError::OddDigitOwner { dim, radix: digit.radix });
                        }
                        owners[k] += 1;
                    }
                    None if matches!(axis, Axis::Warp | Axis::Block | Axis::Off) => {}
                    None => {
                        return Err(LayoutError::OddDigitOwner { dim: 0, radix: digit.radix });
                    }
                }
            }
        }
        if let Some(k) = owners.iter().position(|&n| n != 1) {
            let Digit { dim, radix, .. } = space.odd[k];
            return Err(LayoutError::OddDigitOwner { dim: usize::from(dim), radix });
        }
        let layout = Self { space, axes };
        let rank = linear::rank(&layout.all_columns());
        if rank != layout.space.nbits() {
            return Err(LayoutError::NotSurjective { rank, needed: layout.space.nbits() });
        }
        Ok(layout)
    }

    /// A layout from explicit columns: `columns` lists, per axis, one tensor coordinate per bit.
    /// Odd factors of the extents become odd register digits (offset digits when `Off` is used),
    /// last dimension first.
    ///
    /// # Errors
    /// [`LayoutError::BadColumn`] when a coordinate uses more than the power-of-two part of an
    /// extent, [`LayoutError::NotSurjective`] when an element has no owner.
    pub fn from_columns(shape: &[u32], columns: &[(Axis, Vec<Coord>)]) -> Result<Self, LayoutError> {
        let space = Space::new(shape)?;
        let mut axes: [AxisMap; 5] = Default::default();
        for (axis, list) in columns {
            for coord in list {
                match space.pack(coord) {
                    Some((packed, odd)) if odd.iter().all(|&v| v == 0) => {
                        axes[*axis as usize].cols.push(packed);
                    }
                    Some(_) | None => {
                        return Err(LayoutError::BadColumn { column: coord.to_vec() });
                    }
                }
            }
        }
        let off = columns.iter().any(|(a, _)| *a == Axis::Off);
        let owner = if off { Axis::Off } else { Axis::Reg };
        for (k, digit) in space.odd.iter().enumerate() {
            axes[owner as usize].odd.push(OddDigit { radix: digit.radix, target: Some(k as u8) });
        }
        Self::new(space, axes)
    }

    /// Tensor extents.
    pub fn shape(&self) -> &[u32] {
        &self.space.shape
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.space.rank()
    }

    /// Number of radix-2 digits on an axis.
    pub fn bits(&self, a: Axis) -> u32 {
        self.map(a).cols.len() as u32
    }

    /// Odd radices on an axis, in order; they lie above the bits of the axis.
    pub fn odd(&self, a: Axis) -> SmallVec<[u32; 2]> {
        self.map(a).odd.iter().map(|d| d.radix).collect()
    }

    /// Product of the odd radices on an axis.
    pub fn odd_size(&self, a: Axis) -> u32 {
        self.map(a).odd.iter().map(|d| d.radix).product()
    }

    /// Number of positions on an axis, for instance registers per lane.
    pub fn size(&self, a: Axis) -> u32 {
        self.odd_size(a) << self.bits(a)
    }

    /// True for a map of shared memory, which stands for a layout where a value waits there. (That of one element has no bits at all; a layout has those of the
    /// lanes.)
    pub fn in_memory(&self) -> bool {
        self.size(Axis::Off) > 1 || [Axis::Reg, Axis::Lane, Axis::Warp].iter().all(|&axis| self.size(axis) == 1)
    }

    /// Tensor coordinate contributed by one bit of an axis; contributions combine by XOR in each
    /// dimension. Bits beyond [`Layout::bits`] contribute nothing.
    pub fn column(&self, a: Axis, bit: u32) -> Coord {
        let packed = self.map(a).cols.get(bit as usize).copied().unwrap_or(0);
        self.space.coord(packed, &[])
    }

    /// Dimension and coordinate step per unit of odd digit `k` of an axis. The step is 0 for a
    /// digit that only makes copies or does not exist.
    pub fn odd_column(&self, a: Axis, k: usize) -> (usize, u32) {
        let target = self.map(a).odd.get(k).and_then(|d| d.target);
        match target {
            Some(t) => {
                let digit = self.space.odd[usize::from(t)];
                (usize::from(digit.dim), digit.weight)
            }
            None => (0, 0),
        }
    }

    /// The element held at a hardware position. Axes left out are 0; an index has the bits low and
    /// the odd digits on top, and is taken modulo the size of the axis.
    pub fn apply(&self, at: &[(Axis, u32)]) -> Coord {
        let mut packed = 0;
        let mut odd = OddValues::new();
        odd.resize(self.space.odd.len(), 0);
        for &(axis, index) in at {
            let map = self.map(axis);
            let n = map.cols.len();
            packed ^= linear::mul(&map.cols, u64::from(index) & ((1 << n) - 1));
            if map.odd.is_empty() {
                continue;
            }
            let mut rest = (u64::from(index) >> n) as u32;
            for digit in &map.odd {
                if let Some(t) = digit.target {
                    odd[usize::from(t)] = rest % digit.radix;
                }
                rest /= digit.radix;
            }
        }
        self.space.coord(packed, &odd)
    }

    /// The element held in a register of lane 0 of warp 0.
    pub fn reg_coord(&self, reg: u32) -> Coord {
        self.apply(&[(Axis::Reg, reg)])
    }

    /// The coordinate along a dimension of the element in each register of lane 0 of warp 0.
    pub fn registers_along(&self, dim: usize) -> Vec<u32> {
        let map = self.map(Axis::Reg);
        if !map.odd.is_empty() {
            return (0..self.size(Axis::Reg)).map(|reg| self.reg_coord(reg)[dim]).collect();
        }
        // Each bit of a register's number moves the half of them that have it; what it moves by is told apart by dimensions last.
        let mut all = Vec::with_capacity(1 << map.cols.len());
        all.push(0);
        for &column in &map.cols {
            let half = all.len();
            all.extend_from_within(..);
            all[half..].iter_mut().for_each(|packed| *packed ^= column);
        }
        let (mask, bits) = (self.space.dim_mask(dim), self.space.bits.as_slice());
        all.iter_mut().for_each(|packed| {
            let (mut left, mut at) = (*packed & mask, 0);
            while let Some(digit) = bits.get(left.trailing_zeros() as usize) {
                at += digit.weight;
                left &= left - 1;
            }
            *packed = at;
        });
        all
    }

    /// Bits of an axis whose column depends on earlier columns (registers before lanes before
    /// warps before blocks). Positions in which all these bits are 0 hold every element exactly
    /// once, which makes them the representative writers.
    pub fn free_mask(&self, a: Axis) -> u32 {
        let mut span = Span::new();
        let mut mask = 0;
        for axis in Axis::ALL {
            for (i, &c) in self.map(axis).cols.iter().enumerate() {
                if !span.insert(c) && axis == a {
                    mask |= 1 << i;
                }
            }
        }
        mask
    }

    /// For each odd digit of an axis, whether it only makes copies; its representative value is 0.
    pub fn free_odd(&self, a: Axis) -> SmallVec<[bool; 2]> {
        self.map(a).odd.iter().map(|d| d.target.is_none()).collect()
    }

    /// Whether every tensor element has an owner. Holds for every layout that could be built.
    pub fn is_surjective(&self) -> bool {
        linear::rank(&self.all_columns()) == self.space.nbits()
    }

    /// Whether no element has two owners.
    pub fn is_injective(&self) -> bool {
        let columns = self.all_columns();
        linear::rank(&columns) as usize == columns.len() && self.axes.iter().flat_map(|a| &a.odd).all(|d| d.target.is_some())
    }

    /// Same element for every hardware position, on the same axes sizes. Factors of odd digits may
    /// be written differently (9, or 3 times 3).
    pub fn equivalent(&self, other: &Self) -> bool {
        aligned(self, other).is_ok_and(|(a, b)| a == b)
    }

    /// Identity modulo register renaming. The lowest `packing_bits` register bits share one 32-bit
    /// register and keep their order.
    pub fn key(&self, packing_bits: u32) -> LayoutKey {
        let mut out = vec![packing_bits];
        for dim in 0..self.rank() {
            if self.space.shape[dim] > 1 {
                let digits = self.space.digits_of(dim);
                out.push(self.space.shape[dim]);
                out.push(digits.len() as u32);
                out.extend(digits.iter().map(|d| d.radix));
            }
        }
        let reg = &self.map(Axis::Reg).cols;
        let (packing, words) = reg.split_at((packing_bits as usize).min(reg.len()));
        out.push(packing.len() as u32);
        out.extend(packing);
        let low = Span::of(packing);
        let reduced: Vec<u32> = words.iter().map(|&c| low.reduce(c).0).collect();
        let basis = Span::of(&reduced).canonical_basis();
        out.push(basis.len() as u32);
        out.extend(&basis);
        for axis in [Axis::Lane, Axis::Warp, Axis::Block, Axis::Off] {
            let map = self.map(axis);
            out.push(map.cols.len() as u32);
            out.extend(&map.cols);
            out.push(map.odd.len() as u32);
            for digit in &map.odd {
                out.extend([digit.radix, digit.target.map_or(0, |t| u32::from(t) + 1)]);
            }
        }
        // Odd register digits are names: whatever no other axis owns is here.
        LayoutKey(out)
    }

    pub(crate) fn map(&self, a: Axis) -> &AxisMap {
        &self.axes[a as usize]
    }

    pub(crate) fn cols(&self, a: Axis) -> &[u32] {
        &self.map(a).cols
    }

    pub(crate) fn all_columns(&self) -> Vec<u32> {
        self.axes.iter().flat_map(|a| a.cols.iter().copied()).collect()
    }

    /// Splits odd tensor digit `k` into `low` (below) and the rest, on both sides of the map.
    fn split_odd(&mut self, k: usize, low: u32) {
        let digit = self.space.odd[k];
        self.space.odd[k].radix = low;
        self.space.odd.insert(k + 1, Digit { radix: digit.radix / low, weight: digit.weight * low, ..digit });
        for map in &mut self.axes {
            for d in &mut map.odd {
                d.target = d.target.map(|t| if usize::from(t) > k { t + 1 } else { t });
            }
            if let Some(i) = map.odd.iter().position(|d| d.target == Some(k as u8)) {
                let high = OddDigit { radix: map.odd[i].radix / low, target: Some(k as u8 + 1) };
                map.odd[i].radix = low;
                map.odd.insert(i + 1, high);
            }
        }
    }

    /// Joins odd digits that are adjacent both in a dimension and on their hardware axis.
    pub(crate) fn join_odd(&mut self) {
        let mut k = 0;
        while k + 1 < self.space.odd.len() {
            let (a, b) = (self.space.odd[k], self.space.odd[k + 1]);
            let adjacent = a.dim == b.dim && b.weight == a.weight * a.radix;
            let place = self.axes.iter().enumerate().find_map(|(axis, map)| {
                map.odd.windows(2).position(|w| w[0].target == Some(k as u8) && w[1].target == Some(k as u8 + 1)).map(|i| (axis, i))
            });
            match place {
                Some((axis, i)) if adjacent => {
                    self.space.odd[k].radix *= b.radix;
                    self.space.odd.remove(k + 1);
                    let odd = &mut self.axes[axis].odd;
                    odd[i].radix *= b.radix;
                    odd.remove(i + 1);
                    for d in self.axes.iter_mut().flat_map(|m| m.odd.iter_mut()) {
                        d.target = d.target.map(|t| if usize::from(t) > k { t - 1 } else { t });
                    }
                }
                Some(_) | None => k += 1,
            }
        }
    }
}

/// Rewrites two layouts of one tensor over common digits: odd digits are split until both lists
/// agree.
pub(crate) fn aligned(a: &Layout, b: &Layout) -> Result<(Layout, Layout), LayoutError> {
    let mismatch = || LayoutError::TensorMismatch { left: a.shape().to_vec(), right: b.shape().to_vec() };
    if a.shape() != b.shape() || a.space.bits != b.space.bits {
        return Err(mismatch());
    }
    let (mut x, mut y) = (a.clone(), b.clone());
    let mut k = 0;
    while k < x.space.odd.len().max(y.space.odd.len()) {
        let (Some(&p), Some(&q)) = (x.space.odd.get(k), y.space.odd.get(k)) else {
            return Err(mismatch());
        };
        if p.dim != q.dim || p.weight != q.weight {
            return Err(mismatch());
        }
        if p.radix > q.radix && p.radix % q.radix == 0 {
            x.split_odd(k, q.radix);
        } else if q.radix > p.radix && q.radix % p.radix == 0 {
            y.split_odd(k, p.radix);
        } else if p.radix != q.radix {
            return Err(mismatch());
        }
        k += 1;
    }
    Ok((x, y))
}

impl fmt::Display for Layout {
    /// `[128, 64]{reg: (0,1) (8,0) *3@1; lane: ..}`: columns per axis, low bit first; `*3@1` is an
    /// odd digit of radix 3 stepping dimension 1.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{{", self.shape())?;
        let mut first = true;
        for axis in Axis::ALL {
            let map = self.map(axis);
            if map.cols.is_empty() && map.odd.is_empty() {
                continue;
            }
            write!(f, "{}{}:", if first { "" } else { "; " }, axis.name())?;
            first = false;
            for bit in 0..self.bits(axis) {
                let column = self.column(axis, bit);
                let text: Vec<String> = column.iter().map(u32::to_string).collect();
                write!(f, " ({})", text.join(","))?;
            }
            for (k, digit) in map.odd.iter().enumerate() {
                match digit.target {
                    Some(_) => write!(f, " *{}@{}", digit.radix, self.odd_column(axis, k).0)?,
                    None => write!(f, " *{}", digit.radix)?,
                }
            }
        }
        if let Some(p) = self.map(Axis::Off).pad {
            write!(f, "; {} unused behind {}", p.by, 1u64 << p.shift)?;
        }
        write!(f, "}}")
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
