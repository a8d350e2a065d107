//! Why a buffer does not lie as its uses ask, and why a part of one is not reached.

use std::fmt;

/// Why no layout of a buffer suits a use of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoBufferLayout {
    /// Its elements are rounded to tf32 where it is filled, and something else reads it, or fills it as it is.
    Rounded,
    /// A swizzle width is asked for where nothing is swizzled.
    NoUnit,
    /// Other asynchronous units see it in rows of another length.
    RowLength,
    /// Other asynchronous units see another of its dimensions as the contiguous one.
    Contiguous,
    /// Asynchronous units see it in rows of other bytes than this type has.
    RowBytes {
        /// Bytes of a row as units see it.
        units: u32,
        /// Bytes of a row of this type.
        own: u32,
    },
    /// Its rows run along a dimension that is not the last.
    LastDimension,
    /// The swizzle width that is asked for does not divide its rows.
    Swizzle {
        /// The width.
        asked: u32,
        /// Widths that do.
        possible: Vec<u32>,
    },
    /// No swizzle width divides its rows.
    NoSwizzle {
        /// The narrowest width.
        least: u32,
    },
    /// It does not hold a whole number of the boxes that are copied.
    Boxes,
}

impl fmt::Display for NoBufferLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoBufferLayout::Rounded => {
                f.write_str("the buffer of a tf32 product is rounded where it is filled, so that nothing else may read it")
            }
            NoBufferLayout::NoUnit => f.write_str("no asynchronous unit uses it, so that nothing is swizzled; leave `swizzle=` out"),
            NoBufferLayout::RowLength => f.write_str("other asynchronous units see it in rows of another length"),
            NoBufferLayout::Contiguous => f.write_str("other asynchronous units see another of its dimensions as the contiguous one"),
            NoBufferLayout::RowBytes { units, own } => {
                write!(f, "asynchronous units see it in rows of {units} bytes, this type has rows of {own}")
            }
            NoBufferLayout::LastDimension => f.write_str("its rows run along a dimension that is not the last"),
            NoBufferLayout::Swizzle { asked, possible } => {
                let possible: Vec<String> = possible.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "its rows, or the parts that are used, are not made up of {asked} swizzled bytes; possible are: {}",
                    possible.join(", ")
                )
            }
            NoBufferLayout::NoSwizzle { least } => {
                write!(f, "its rows, or the parts that are used, are no multiples of {least} bytes")
            }
            NoBufferLayout::Boxes => f.write_str("it does not hold a whole number of the boxes that are copied"),
        }
    }
}

/// Why a part of a buffer is not reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotAddressed {
    /// It begins at no multiple of its extent.
    Extent,
    /// Its rows do not lie in one block.
    Rows,
    /// An index leaves what begins at no multiple of eight rows.
    Index,
    /// A copy of it begins at no swizzle atom.
    Copy,
    /// Products fetch from swizzled slots alone.
    Slot,
    /// A product does not take it.
    Operand(NoOperand),
}

impl fmt::Display for NotAddressed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAddressed::Extent => f.write_str("a part of a buffer: it begins at no multiple of its extent"),
            NotAddressed::Rows => f.write_str("a part of a swizzled buffer: its rows do not lie in one block from a multiple of eight on"),
            NotAddressed::Index => f.write_str("an index into a swizzled buffer: what it leaves begins at no multiple of eight rows"),
            NotAddressed::Copy => f.write_str("a copy of a part of a buffer: it begins at no swizzle atom"),
            NotAddressed::Slot => f.write_str("a product that fetches from local memory: the buffer is no swizzled slot"),
            NotAddressed::Operand(why) => write!(f, "an operand of `async_dot`: {why}"),
        }
    }
}

/// Why a part of a buffer is no operand of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoOperand {
    /// It is no swizzled matrix.
    NotSwizzled,
    /// It has no contiguous dimension.
    Contiguous,
    /// Its rows do not lie one behind the other.
    Rows,
    /// Operands of this type must be contiguous along the dimension that is summed up.
    AlongK,
    /// It begins inside of a swizzle atom.
    Start,
}

impl fmt::Display for NoOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoOperand::NotSwizzled => "it is no swizzled matrix",
            NoOperand::Contiguous => "it has no contiguous dimension",
            NoOperand::Rows => "its rows do not lie one behind the other",
            NoOperand::AlongK => "operands of this type must be contiguous along the dimension that is summed up",
            NoOperand::Start => "it begins inside of a swizzle atom, which is eight rows of the swizzle's width",
        })
    }
}
