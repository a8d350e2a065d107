//! Why bulk copies do not take an access, and why a result does not leave by one.

use crate::named::Named;
use std::fmt;
use tilelift_ir::{Kernel, Literal, Scalar, Value};

/// Why bulk copies do not take an access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoBulkCopy {
    /// The view.
    pub view: Named,
    /// What is in the way.
    pub limit: CopyLimit,
}

/// What bulk copies ask of an access, and does not find.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CopyLimit {
    /// Elements share bytes.
    Packed,
    /// Each element has an address of its own.
    Gathered,
    /// No dimension is known to be contiguous.
    NotContiguous,
    /// The view has more dimensions than copies take.
    Rank {
        /// Dimensions of the view.
        rank: usize,
        /// Dimensions that copies take.
        most: u32,
    },
    /// The access has a mask.
    Masked,
    /// The view is aligned to too few bytes.
    Align {
        /// Bytes it is aligned to.
        align: u32,
        /// Bytes that copies need.
        need: u32,
    },
    /// A stride is not known to be a multiple of so many bytes.
    Stride {
        /// The dimension.
        dim: usize,
        /// The bytes.
        need: u32,
        /// The same in elements.
        elements: u32,
    },
    /// An index is not known to be a multiple of what copies begin at.
    Start {
        /// The dimension of the index.
        dim: usize,
        /// The index.
        at: Index,
        /// Bytes at whose multiples copies begin.
        bytes: u32,
        /// The same in elements.
        elements: u32,
    },
    /// An extent of a view that is written is not known to be a multiple of what copies write.
    End {
        /// The dimension.
        dim: usize,
        /// Bytes of a unit.
        bytes: u32,
        /// The same in elements.
        elements: u32,
    },
    /// A row of the tile is no multiple of the narrowest swizzle.
    Row {
        /// Bytes of the row.
        row: u32,
        /// The swizzle width in bytes.
        least: u32,
    },
    /// A row of the tile is not cut to the swizzle width that is asked for.
    Span {
        /// Bytes of the row.
        row: u32,
        /// Bytes that are asked for.
        asked: u32,
        /// Bytes that are possible.
        possible: Vec<u32>,
    },
    /// The kernel writes the view: copies run ahead of that.
    Written,
    /// Lanes would copy it in pieces for which the target has no copy.
    Pieces {
        /// Bytes of a piece.
        bytes: u32,
        /// Bytes that the target copies at once.
        possible: &'static [u32],
    },
    /// A lane would copy more pieces in a step than it can beside the products.
    ManyPieces {
        /// Bytes of a piece.
        bytes: u32,
        /// Pieces of a lane.
        count: u32,
        /// Most pieces of a lane.
        most: u32,
    },
    /// An extent is larger than a box.
    Box {
        /// The largest extent of a box.
        most: u32,
    },
}

/// An index of an access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Index {
    /// It is a literal.
    Literal(i64),
    /// It is a value.
    Value(Named),
}

impl Index {
    /// A value as an index.
    pub(crate) fn of(kernel: &Kernel, at: Value) -> Index {
        match kernel.as_const(at) {
            Some((Literal::Int(c), _)) => Index::Literal(c),
            Some((Literal::Float(_), _)) | None => Index::Value(Named::of(kernel, at)),
        }
    }

    /// Says that it is no multiple of a number, as far as is known.
    pub(super) fn said(&self, elements: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Index::Literal(c) => write!(f, "{c}, is no multiple of {elements}")?,
            Index::Value(v) => write!(f, "{v}, is not known to be a multiple of {elements}")?,
        }
        f.write_str("; align it, or say so with `assume`")
    }
}

impl NoBulkCopy {
    /// The values that the reason names.
    pub(super) fn values(&self) -> Vec<Value> {
        let index = match &self.limit {
            CopyLimit::Start { at: Index::Value(v), .. } => Some(v.value),
            _ => None,
        };
        [Some(self.view.value), index].into_iter().flatten().collect()
    }
}

impl fmt::Display for NoBulkCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let view = &self.view;
        match &self.limit {
            CopyLimit::Packed => write!(f, "two elements of {view} share a byte"),
            CopyLimit::Gathered => write!(f, "each element of {view} that is read has an address of its own, and boxes begin at one place"),
            CopyLimit::NotContiguous => write!(f, "no dimension of {view} is known to be contiguous"),
            CopyLimit::Rank { rank, most } => write!(f, "{view} has {rank} dimensions, bulk copies take {most}"),
            CopyLimit::Masked => write!(f, "the access of {view} has a mask"),
            CopyLimit::Align { align, need } => write!(f, "{view} is aligned to {align} bytes, bulk copies need {need}"),
            CopyLimit::Stride { dim, need, elements } => write!(
                f,
                "the stride of dimension {dim} of {view} is not known to be a multiple of {need} bytes; write `?%{elements}` for it, or for the extents \
                 behind it where they are dense, or compile for a launch's arguments (`--launch`, `Divisors`)"
            ),
            CopyLimit::Start { dim, at, bytes, elements } => {
                write!(f, "bulk copies begin at multiples of {bytes} bytes of a row: index {dim} of {view}, ")?;
                at.said(*elements, f)
            }
            CopyLimit::End { dim, bytes, elements } => write!(
                f,
                "bulk copies write whole units of {bytes} bytes: extent {dim} of {view} is not known to be a multiple of {elements}; say so in its type"
            ),
            CopyLimit::Row { row, least } => write!(
                f,
                "a row of {row} bytes of {view} is no multiple of {least} bytes, to which copies are cut; outside of a view a longer row is zero"
            ),
            CopyLimit::Span { row, asked, possible } => {
                write!(f, "a row of {row} bytes of {view} is not cut to a swizzle of {asked} bytes; possible are ")?;
                list(f, possible)
            }
            CopyLimit::Written => write!(f, "the kernel writes {view}, and copies run ahead"),
            CopyLimit::Pieces { bytes, possible } => {
                write!(f, "rows of {view} come in pieces of {bytes} bytes; lanes copy ")?;
                list(f, possible)
            }
            CopyLimit::ManyPieces { bytes, count, most } => {
                write!(f, "each lane would copy {count} pieces of {bytes} bytes of {view} in a step; most are {most}")
            }
            CopyLimit::Box { most } => write!(f, "a tile of {view} has an extent above {most}"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, numbers: &[u32]) -> fmt::Result {
    for (n, x) in numbers.iter().enumerate() {
        write!(f, "{}{x}", if n > 0 { ", " } else { "" })?;
    }
    Ok(())
}

/// Why a result does not leave in bulk, through a swizzled tile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotStaged {
    /// What is stored.
    pub value: Named,
    /// What is in the way.
    pub why: Misplaced,
}

/// What a swizzle of results asks of a store, and does not find.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Misplaced {
    /// No tile is stored.
    NoTile,
    /// It is not as large as an accumulator.
    Shape,
    /// Its elements have other than 16 or 32 bits.
    Elem(Scalar),
    /// Its rows are not contiguous in memory.
    Rows,
    /// Bulk copies do not take the store.
    Copy(NoBulkCopy),
    /// Its rows are not the view's.
    View,
    /// Lanes may read behind the store what it has not written yet.
    ReadBehind,
    /// Another store, or the same in another round of a loop, may write an element of it.
    WrittenTwice,
}

impl fmt::Display for NotStaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = &self.value;
        match &self.why {
            Misplaced::NoTile => write!(f, "{value} is no tile"),
            Misplaced::Shape => write!(f, "{value} is not as large as an accumulator of the loop"),
            Misplaced::Elem(elem) => write!(f, "elements of {elem} do not leave in bulk, those of 16 and 32 bits do"),
            Misplaced::Rows => write!(f, "rows of {value} are not contiguous in memory"),
            Misplaced::Copy(why) => why.fmt(f),
            Misplaced::View => write!(f, "rows of {value} are not the view's"),
            Misplaced::ReadBehind => write!(f, "what {value} is stored to is read behind that"),
            Misplaced::WrittenTwice => {
                write!(
                    f,
                    "where {value} is stored, another store or another round of a loop may store, too, and nothing orders bulk copies"
                )
            }
        }
    }
}
