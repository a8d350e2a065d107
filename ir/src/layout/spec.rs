//! Layouts as an author writes them.

use crate::layout::{Layout, LayoutError};
use crate::types::Shape;
use std::fmt;

/// The part of a matrix product whose layout is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum DotPart {
    /// The operand A.
    A,
    /// The right operand.
    B,
    /// The accumulator.
    Acc,
}

impl DotPart {
    /// Every part.
    pub const ALL: &'static [DotPart] = &[DotPart::A, DotPart::B, DotPart::Acc];
    /// The word in the text form.
    pub const fn word(self) -> &'static str {
        match self {
            DotPart::A => "a",
            DotPart::B => "b",
            DotPart::Acc => "acc",
        }
    }
    /// The part written so, if there is one.
    pub fn from_word(w: &str) -> Option<DotPart> {
        DotPart::ALL.iter().copied().find(|p| p.word() == w)
    }
}

/// A layout of a tile as an author writes it.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum LayoutSpec {
    /// Per dimension so many neighbouring elements of a lane, then lanes, then warps, dimensions in `order`, fastest first; what is left of an
    /// extent repeats in registers, lanes and warps that are left over hold copies.
    Blocked {
        /// Elements of a lane, per dimension.
        size: Shape,
        /// Lanes, per dimension.
        lanes: Shape,
        /// Warps, per dimension.
        warps: Shape,
        /// Dimensions, fastest first.
        order: Shape,
    },
    /// That of a part of the kernel's first dot whose part has the tile's shape.
    Mma(DotPart),
    /// The coordinate that each bit of a register's, lane's or warp's number adds, low bit first.
    Linear {
        /// Of registers.
        registers: Vec<Shape>,
        /// Of lanes.
        lanes: Vec<Shape>,
        /// Of warps.
        warps: Vec<Shape>,
    },
    /// In shared memory, where bulk copies bring it or take it from: swizzled, with a swizzle width of so many bytes.
    Swizzle(u32),
}

impl LayoutSpec {
    /// The registers' layout of a tile of a shape; `None` where a target's matrix instruction decides, and for what lies in shared memory.
    ///
    /// # Errors
    /// What the shape has no room for.
    pub fn layout(&self, shape: &[u32]) -> Result<Option<Layout>, LayoutError> {
        fn all(list: &[Shape]) -> Vec<&[u32]> {
            list.iter().map(|s| s.as_slice()).collect()
        }
        match self {
            LayoutSpec::Blocked { size, lanes, warps, order } => {
                let order: Vec<usize> = order.iter().map(|&d| d as usize).collect();
                Layout::blocked(shape, size, lanes, warps, &order).map(Some)
            }
            LayoutSpec::Mma(_) | LayoutSpec::Swizzle(_) => Ok(None),
            LayoutSpec::Linear { registers, lanes, warps } => Layout::of_bases(shape, &all(registers), &all(lanes), &all(warps)).map(Some),
        }
    }

    /// Lanes and warps that the layout is spread over, where it says so.
    pub fn spread(&self) -> Option<[u64; 2]> {
        let product = |s: &Shape| s.iter().fold(1u64, |n, &e| n.saturating_mul(u64::from(e)));
        match self {
            LayoutSpec::Blocked { lanes, warps, .. } => Some([product(lanes), product(warps)]),
            LayoutSpec::Mma(_) | LayoutSpec::Swizzle(_) => None,
            LayoutSpec::Linear { lanes, warps, .. } => Some([lanes, warps].map(|l| 1u64 << l.len().min(63))),
        }
    }
}

impl fmt::Display for LayoutSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutSpec::Blocked { size, lanes, warps, order } => {
                write!(f, "blocked(size={size:?}, lanes={lanes:?}, warps={warps:?}, order={order:?})")
            }
            LayoutSpec::Mma(p) => write!(f, "mma({})", p.word()),
            LayoutSpec::Swizzle(swizzle) => write!(f, "swizzle({swizzle})"),
            LayoutSpec::Linear { registers, lanes, warps } => {
                write!(f, "linear(registers={registers:?}, lanes={lanes:?}, warps={warps:?})")
            }
        }
    }
}
