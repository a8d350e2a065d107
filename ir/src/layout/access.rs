//! Memory accesses of a register layout: offsets per hardware bit, vector width, sectors.
//!
//! A vector of `2^v` elements exists when the offset bits below `v` are spanned by registers and
//! touched by no lane, warp or block: then registers can be grouped the same way in every lane.

use super::digits::{check_permutation, log2};
use super::error::LayoutError;
use super::linear::{self, Span};
use super::map::{Axis, Layout, Pad};

/// The additive offset step of one odd digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OddWeight {
    /// The axis that owns the digit.
    pub axis: Axis,
    /// Radix of the digit; digits of one axis are listed in order, above its bits.
    pub radix: u32,
    /// Offset step per unit, 0 for a digit that makes copies.
    pub step: u32,
}

/// Offsets accessed by a register layout, in elements (or bytes after [`AccessColumns::scaled`]):
/// bit contributions combine by XOR, odd contributions are added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessColumns {
    /// Per register bit.
    pub reg: Vec<u32>,
    /// Per lane bit.
    pub lane: Vec<u32>,
    /// Per warp bit.
    pub warp: Vec<u32>,
    /// Per block bit.
    pub block: Vec<u32>,
    /// Odd digits, grouped by axis.
    pub odd: Vec<OddWeight>,
    /// Gaps between rows: where the bits' offsets lie in the end.
    pub pad: Option<Pad>,
}

impl AccessColumns {
    /// The accesses of a layout to row-major global memory, as far as vectors and sectors are
    /// concerned: offsets along `order[0]` are exact, each other dimension (slower ones above) lies
    /// beyond a gap so that nothing is assumed contiguous across rows.
    ///
    /// # Errors
    /// [`LayoutError::NotPermutation`]; [`LayoutError::Unsupported`] when the packed offsets need
    /// more than 32 bits.
    pub fn global(layout: &Layout, order: &[usize]) -> Result<Self, LayoutError> {
        check_permutation("order", order, layout.rank())?;
        let space = &layout.space;
        let mut to = vec![0u32; space.bits.len()];
        let mut odd_step = vec![0u32; space.odd.len()];
        let mut next = 0;
        for (rank, &dim) in order.iter().enumerate() {
            let mask = space.dim_mask(dim);
            for j in 0..mask.count_ones() {
                to[(mask.trailing_zeros() + j) as usize] = 1 << (next + j);
            }
            next += mask.count_ones() + u32::from(rank == 0);
        }
        let total = next + space.odd.iter().map(|d| 32 - d.radix.leading_zeros()).sum::<u32>();
        if total > 32 {
            return Err(LayoutError::Unsupported {
                what: "a global access with more than 2^31 elements after padding; use a smaller tile".into(),
            });
        }
        let mut weight = 1 << next;
        for &dim in order {
            for k in space.dim_odd(dim) {
                odd_step[k] = weight;
                weight *= space.odd[k].radix;
            }
        }
        let image = |axis: Axis| -> Vec<u32> { layout.cols(axis).iter().map(|&c| linear::mul(&to, u64::from(c))).collect() };
        let mut odd = Vec::new();
        for axis in [Axis::Reg, Axis::Warp, Axis::Block] {
            for d in &layout.map(axis).odd {
                let step = d.target.map_or(0, |t| odd_step[usize::from(t)]);
                odd.push(OddWeight { axis, radix: d.radix, step });
            }
        }
        Ok(Self { reg: image(Axis::Reg), lane: image(Axis::Lane), warp: image(Axis::Warp), block: image(Axis::Block), odd, pad: None })
    }

    /// Bit contributions of one axis.
    pub fn axis(&self, a: Axis) -> &[u32] {
        match a {
            Axis::Reg => &self.reg,
            Axis::Lane => &self.lane,
            Axis::Warp => &self.warp,
            Axis::Block => &self.block,
            Axis::Off => &[],
        }
    }

    /// All contributions multiplied by a power of two, for instance from elements to bytes.
    ///
    /// # Errors
    /// [`LayoutError::NotPowerOfTwo`].
    pub fn scaled(&self, bytes: u32) -> Result<Self, LayoutError> {
        let shift = log2("element size", bytes)?;
        let scale = |v: &[u32]| v.iter().map(|c| c << shift).collect();
        Ok(Self {
            reg: scale(&self.reg),
            lane: scale(&self.lane),
            warp: scale(&self.warp),
            block: scale(&self.block),
            odd: self.odd.iter().map(|d| OddWeight { step: d.step << shift, ..*d }).collect(),
            pad: self.pad.map(|p| Pad { shift: p.shift + shift, by: p.by << shift }),
        })
    }

    /// Number of registers of a lane.
    pub fn registers(&self) -> u32 {
        let odd = self.odd.iter().filter(|d| d.axis == Axis::Reg);
        odd.map(|d| d.radix).product::<u32>() << self.reg.len()
    }

    /// The XOR part and the additive part of the offset of index `index` on an axis.
    pub fn parts(&self, a: Axis, index: u32) -> (u32, u32) {
        let cols = self.axis(a);
        let bits = u64::from(index) & ((1 << cols.len()) - 1);
        let mut rest = (u64::from(index) >> cols.len()) as u32;
        let mut sum = 0;
        for d in self.odd.iter().filter(|d| d.axis == a) {
            sum += rest % d.radix * d.step;
            rest /= d.radix;
        }
        (linear::mul(cols, bits), sum)
    }

    /// Where the offset of some bits lies.
    pub fn place(&self, bits: u32) -> u32 {
        self.pad.map_or(bits, |p| p.place(bits))
    }

    /// The offset accessed from a position.
    pub fn offset(&self, at: &[(Axis, u32)]) -> u32 {
        let (mut bits, mut sum) = (0, 0);
        for &(axis, index) in at {
            let (x, s) = self.parts(axis, index);
            bits ^= x;
            sum += s;
        }
        self.place(bits) + sum
    }

    /// Offset bits that depend on the lane, warp or block: a register's XOR contribution outside
    /// this mask is an immediate displacement of the address.
    pub fn dynamic_mask(&self) -> u32 {
        self.lane.iter().chain(&self.warp).chain(&self.block).fold(0, |m, c| m | c)
    }
}

/// Vector instructions of an access.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Vectors {
    /// Elements per instruction.
    pub width: u32,
    /// Registers of each instruction in vector order (ascending offset); the same in all lanes.
    pub groups: Vec<Vec<u32>>,
}

/// The widest vectors of at most `max_bytes` that serve every register of an access. For global
/// memory use [`AccessColumns::global`] and cap `max_bytes` by alignment and contiguity facts.
pub fn vector_width(p: &AccessColumns, elem_bytes: u32, max_bytes: u32) -> Vectors {
    vectors_without(p, elem_bytes, max_bytes, 0)
}

/// As [`vector_width`] for the registers whose number has no bit of `skip`: the representative
/// writers of a layout with `skip = free_mask(Reg)`.
pub fn vectors_without(p: &AccessColumns, elem_bytes: u32, max_bytes: u32, skip: u32) -> Vectors {
    let combos = vector_bits(p, elem_bytes, max_bytes, skip);
    let width = 1u32 << combos.len();
    let registers = p.registers();
    let mut seen = vec![false; registers as usize];
    let mut groups = Vec::new();
    for reg in (0..registers).filter(|r| r & skip & ((1 << p.reg.len()) - 1) == 0) {
        if seen[reg as usize] {
            continue;
        }
        let low = p.parts(Axis::Reg, reg).0 & (width - 1);
        let base = reg ^ linear::mul(&combos, u64::from(low));
        let group: Vec<u32> = (0..width).map(|k| base ^ linear::mul(&combos, u64::from(k))).collect();
        group.iter().for_each(|&r| seen[r as usize] = true);
        groups.push(group);
    }
    Vectors { width, groups }
}

/// Registers that stand one element apart, two, four, and so on: as many as make the widest vector.
pub(super) fn vector_bits(p: &AccessColumns, elem_bytes: u32, max_bytes: u32, skip: u32) -> Vec<u32> {
    let keep = |i: usize| skip >> i & 1 == 0;
    let columns: Vec<u32> = p.reg.iter().enumerate().map(|(i, &c)| if keep(i) { c } else { 0 }).collect();
    let mut busy = p.dynamic_mask();
    for d in &p.odd {
        busy |= d.step;
    }
    let span = Span::of(&columns);
    let mut combos: Vec<u32> = Vec::new();
    loop {
        let v = combos.len() as u32;
        let wide = (u64::from(elem_bytes) << (v + 1)) <= u64::from(max_bytes);
        let torn = p.pad.is_some_and(|x| v >= x.shift || x.by & ((2 << v) - 1) != 0);
        if !wide || v >= 31 || torn || busy >> v & 1 == 1 {
            break;
        }
        // A single register bit where there is one, so that vectors are plain runs.
        let single = columns.iter().position(|&c| c == 1 << v);
        let (rest, used) = span.reduce(1 << v);
        match single {
            Some(i) => combos.push(1 << i),
            None if rest == 0 => combos.push(used as u32),
            None => break,
        }
    }
    combos
}

/// Elements of a vector, and vectors, that [`vectors_without`] finds.
pub fn vector_count(p: &AccessColumns, elem_bytes: u32, max_bytes: u32, skip: u32) -> [u32; 2] {
    let width = 1u32 << vector_bits(p, elem_bytes, max_bytes, skip).len();
    let copies = (skip & ((1 << p.reg.len()) - 1)).count_ones();
    [width, (p.registers() >> copies) / width]
}

/// Distinct memory sectors that one vector instruction of a warp touches, for `width` elements per
/// lane. Exact when rows start on sector boundaries and do not overlap; a misaligned pitch adds up
/// to one sector per contiguous run.
pub fn sectors(p: &AccessColumns, elem_bytes: u32, width: u32, sector_bytes: u32) -> u32 {
    let shift = (sector_bytes / elem_bytes.max(1)).max(1).ilog2();
    let lanes: Vec<u32> = p.lane.iter().map(|c| c >> shift).collect();
    let per_lane = width.div_ceil(1 << shift);
    per_lane << linear::rank(&lanes)
}

/// Fraction of the fetched sectors that the lanes of one instruction use, in percent (at most 100).
pub fn sector_efficiency(p: &AccessColumns, elem_bytes: u32, width: u32, sector_bytes: u32) -> u32 {
    let distinct = linear::rank(&p.lane);
    let used = u64::from(width * elem_bytes) << distinct;
    let fetched = u64::from(sectors(p, elem_bytes, width, sector_bytes) * sector_bytes);
    (used * 100 / fetched.max(1)).min(100) as u32
}
