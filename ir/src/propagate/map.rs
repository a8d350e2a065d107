//! Where elements go between the two sides of an op, as maps of layouts.
//!
//! Beside renamed and regrouped dimensions there is one map: of a *wide* tile, cut into dimensions, some of these are gone in the *narrow*
//! one. To shrink is to leave them out; to grow is to put them into registers of the lane.
//!
//! ```text
//!            wide              cut                gone            what they are
//!   reduce   [16, 176]         [16, 176]          1               a line that is combined
//!   split    [16, 8, 2]        [16, 8, 2]         2               parts, of which each result is one
//!   slice    [16, 32] to 8x16  [2, 8, 2, 16]      0, 2            parts, of which the result is one
//!   bytes    [16, 32]          [16, 16, 2]        2               parts: halves of bytes
//!   widened  [16, 32] of 16x1  [16, 32]           1, stays as 1   copies
//! ```

use crate::layout::Layout;
use crate::types::Shape;
use smallvec::{SmallVec, smallvec};

/// What the dimensions are that the wide side has and the narrow one has not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extra {
    /// Copies of one element.
    Copies,
    /// Elements that are combined to one, at their own price in any layout.
    Line,
    /// Parts, of which the narrow side is one.
    Parts,
    /// As `Parts`, but the narrow side begins inside one of them.
    Astride,
}

/// The relation of a wide tile to a narrow one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Extents of the wide tile.
    pub wide: Shape,
    /// The same elements in the same order, cut so that what is gone are whole dimensions.
    pub cut: Shape,
    /// The dimensions that are gone, of those that it is cut into.
    pub dims: SmallVec<[usize; 2]>,
    /// What they are; copies leave an extent of 1 behind.
    pub extra: Extra,
}

impl Part {
    /// A tile whose extents of 1 are widened.
    pub(super) fn copies(narrow: &[u32], wide: &[u32]) -> Part {
        let dims = (0..wide.len()).filter(|&k| narrow.get(k) != wide.get(k)).collect();
        Part { wide: wide.into(), cut: wide.into(), dims, extra: Extra::Copies }
    }

    /// A tile of whose lines each becomes an element.
    pub(super) fn line(wide: &[u32], axis: usize) -> Part {
        Part { wide: wide.into(), cut: wide.into(), dims: smallvec![axis], extra: Extra::Line }
    }

    /// A tile whose last dimension numbers parts.
    pub(super) fn minor(wide: &[u32]) -> Option<Part> {
        let last = wide.len().checked_sub(1)?;
        Some(Part { wide: wide.into(), cut: wide.into(), dims: smallvec![last], extra: Extra::Parts })
    }

    /// A tile of two equal ones, the second behind the first along an axis.
    pub(super) fn halves(first: &[u32], second: &[u32], wide: &[u32], axis: usize) -> Option<Part> {
        let equal = first == second && axis < first.len();
        equal.then(|| Part { wide: wide.into(), cut: with_extent(first, axis, 2), dims: smallvec![axis], extra: Extra::Parts })
    }

    /// A tile of which a chunk is taken; `None` unless each extent is a number of chunks.
    pub(super) fn chunk(wide: &[u32], narrow: &[u32], at: &[u32]) -> Option<Part> {
        let mut part = Part { wide: wide.into(), cut: Shape::new(), dims: SmallVec::new(), extra: Extra::Parts };
        for (k, (&all, &some)) in wide.iter().zip(narrow).enumerate() {
            if some == 0 || !all.is_multiple_of(some) {
                return None;
            }
            if all != some {
                part.dims.push(part.cut.len());
                part.cut.push(all / some);
            }
            part.cut.push(some);
            if at.get(k).is_none_or(|o| !o.is_multiple_of(some)) {
                part.extra = Extra::Astride;
            }
        }
        Some(part)
    }

    /// A tile whose neighbours along the last dimension are the halves of a byte.
    pub(super) fn bytes(wide: &[u32]) -> Option<Part> {
        let mut cut: Shape = wide.into();
        *cut.last_mut()? /= 2;
        cut.push(2);
        Some(Part { wide: wide.into(), dims: smallvec![wide.len()], cut, extra: Extra::Parts })
    }

    fn cut(&self, wide: &Layout) -> Option<Layout> {
        if self.cut == self.wide { Some(wide.clone()) } else { wide.reshape(&self.cut).ok() }
    }

    /// The narrow tile's layout: where a lane holds an element of the wide one, it holds what this belongs to.
    pub fn shrink(&self, wide: &Layout) -> Option<Layout> {
        let copies = self.extra == Extra::Copies;
        let without = |l: Layout, &d: &usize| if copies { l.with_dim_broadcast(d) } else { l.slice(d) };
        Some(self.dims.iter().rev().fold(self.cut(wide)?, without))
    }

    /// A layout of the wide tile: the lane that holds an element holds all that belongs to it.
    pub fn grow(&self, narrow: &Layout) -> Option<Layout> {
        let copies = self.extra == Extra::Copies;
        let cut = self.dims.iter().try_fold(narrow.clone(), |l, &d| {
            let l = if copies { l } else { l.expand_dims(d) };
            l.broadcast(d, *self.cut.get(d)?).ok()
        })?;
        if self.cut == self.wide { Some(cut) } else { cut.reshape(&self.wide).ok() }
    }

    /// True if the parts lie along one dimension. Along several there are many, of which a lane would hold all; nobody searches these.
    fn is_one(&self) -> bool {
        self.dims.len() == 1
    }

    /// True if every lane that holds an element of the narrow tile so laid out holds it of the wide one, too.
    fn within_lanes(&self, wide: &Layout) -> bool {
        match self.extra {
            Extra::Copies | Extra::Line => true,
            Extra::Parts => self.is_one() && self.cut(wide).is_some_and(|l| self.dims.iter().all(|&d| l.in_registers(d))),
            Extra::Astride => false,
        }
    }

    /// How many elements of the wide tile belong to one of the narrow.
    fn ratio(&self) -> u64 {
        self.dims.iter().filter_map(|&d| self.cut.get(d)).fold(1, |n, &e| n.saturating_mul(u64::from(e)))
    }
}

/// Where the elements of the near side go on the far side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Map {
    /// They stay: there is one side only.
    Same,
    /// Dimension `i` behind it is dimension `p[i]` in front.
    Transpose(SmallVec<[usize; 4]>),
    /// Their order stays.
    Reshape {
        /// Extents in front.
        from: Shape,
        /// Extents behind.
        to: Shape,
    },
    /// The far side is the wide one.
    Grow(Part),
    /// The near side is the wide one.
    Shrink(Part),
}

impl Map {
    /// The far side's layout that the near side's says.
    pub fn forward(&self, near: &Layout) -> Option<Layout> {
        match self {
            Map::Same => Some(near.clone()),
            Map::Transpose(p) => near.transpose(p).ok(),
            Map::Reshape { to, .. } => near.reshape(to).ok(),
            Map::Grow(p) => p.grow(near),
            Map::Shrink(p) => p.shrink(near),
        }
    }

    /// The near side's layout that the far side's says.
    pub fn backward(&self, far: &Layout) -> Option<Layout> {
        match self {
            Map::Same => Some(far.clone()),
            Map::Transpose(p) => {
                let mut inverse: SmallVec<[usize; 4]> = smallvec![0; p.len()];
                for (at, &x) in p.iter().enumerate() {
                    *inverse.get_mut(x)? = at;
                }
                far.transpose(&inverse).ok()
            }
            Map::Reshape { from, .. } => far.reshape(from).ok(),
            Map::Grow(p) => p.shrink(far),
            Map::Shrink(p) => p.grow(far),
        }
    }

    /// If a layout of the near side is worth proposing to the far one, and the other way round: one that puts all copies, a whole line, or
    /// parts along several dimensions into one lane is not.
    pub fn proposes(&self) -> [bool; 2] {
        let grows = |p: &Part| matches!(p.extra, Extra::Parts | Extra::Astride) && p.is_one();
        match self {
            Map::Same | Map::Transpose(_) | Map::Reshape { .. } => [true; 2],
            Map::Grow(p) => [grows(p), true],
            Map::Shrink(p) => [true, grows(p)],
        }
    }

    /// How many elements of one side belong to one of the other.
    pub fn ratio(&self) -> u64 {
        match self {
            Map::Same | Map::Transpose(_) | Map::Reshape { .. } => 1,
            Map::Grow(p) | Map::Shrink(p) => p.ratio(),
        }
    }

    /// Both sides' layouts, from the near side's, where nothing moves between lanes.
    pub(super) fn by_near(&self, near: &Layout) -> Option<[Layout; 2]> {
        match self {
            Map::Same => Some([near.clone(), near.clone()]),
            Map::Transpose(_) | Map::Reshape { .. } => Some([near.clone(), self.forward(near)?]),
            Map::Grow(p) => from_narrow(p, near).map(|[wide, narrow]| [narrow, wide]),
            Map::Shrink(p) => from_wide(p, near),
        }
    }

    /// Both sides' layouts, from the far side's.
    pub(super) fn by_far(&self, far: &Layout) -> Option<[Layout; 2]> {
        match self {
            Map::Same => Some([far.clone(), far.clone()]),
            Map::Transpose(_) | Map::Reshape { .. } => {
                let near = self.backward(far)?;
                let far = self.forward(&near)?;
                Some([near, far])
            }
            Map::Grow(p) => from_wide(p, far).map(|[wide, narrow]| [narrow, wide]),
            Map::Shrink(p) => from_narrow(p, far),
        }
    }
}

/// The layouts of the wide and the narrow tile, from that of the wide one.
fn from_wide(p: &Part, wide: &Layout) -> Option<[Layout; 2]> {
    if !p.within_lanes(wide) {
        return None;
    }
    Some([wide.clone(), p.shrink(wide)?])
}

/// The layouts of the wide and the narrow tile, from that of the narrow one: the wide tile's parts are in registers. A line is none of
/// the narrow tile's affair, and parts along several dimensions are many.
fn from_narrow(p: &Part, narrow: &Layout) -> Option<[Layout; 2]> {
    if matches!(p.extra, Extra::Line | Extra::Astride) || p.extra == Extra::Parts && !p.is_one() {
        return None;
    }
    let wide = p.grow(narrow)?;
    let narrow = p.shrink(&wide)?;
    Some([wide, narrow])
}

/// Extents with another one put in at a place.
pub(super) fn with_extent(shape: &[u32], at: usize, extent: u32) -> Shape {
    let mut out: Shape = shape.into();
    out.insert(at.min(shape.len()), extent);
    out
}
