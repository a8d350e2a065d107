//! Why a load of a loop is done where its tile is used, and not some iterations ahead.

use super::copy::Index;
use super::not_specialised::{NotOperand, NotSpecialised};
use crate::named::Named;
use std::fmt;
use tilelift_ir::Op;

/// Why a load of a loop does not run ahead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotAhead {
    /// The kernel's author says which warps load what, and when.
    Tasks,
    /// Another loop of the kernel is specialised.
    Elsewhere,
    /// One stage is asked for.
    Stages,
    /// How often the loop runs is not known when it begins.
    While,
    /// The loop goes round once, or not at all.
    Once,
    /// The loop writes memory, and copies would overtake that.
    Writes {
        /// The op.
        op: Op,
    },
    /// Each element has an address of its own.
    Gathered,
    /// It stands in a choice, and is not done in every iteration.
    Choice,
    /// What it brings is for more than products.
    Beside {
        /// Why it is no operand.
        why: NotOperand,
    },
    /// Where it stands follows from more than the loop's index.
    Address {
        /// The value that the index does not give.
        value: Named,
    },
    /// Lanes have no asynchronous copies for how its elements lie.
    Width,
    /// It begins anywhere in a row, whose elements lie so that lanes would copy them.
    Start {
        /// The view.
        view: Named,
        /// The dimension of the index.
        dim: usize,
        /// The index.
        at: Index,
        /// At whose multiples rows may be copied.
        elements: u32,
    },
    /// A loop in this one is specialised, and its consumers load for themselves what stands beside it.
    Outside,
    /// The loop holds a loop: what is for no product is held in registers ahead by innermost loops alone.
    Around,
    /// A lane has so many bytes of what a step loads for no product, that memory is busy.
    Enough {
        /// The bytes.
        bytes: u64,
    },
    /// A lane would hold so many registers of what a step loads for no product, beside the sums of products.
    Held {
        /// The registers.
        registers: u64,
    },
    /// The powers of two in its extents are fewer than lanes: several would copy the same.
    Shares,
    /// The producer of a specialised loop does not copy it.
    Consumers {
        /// Why not.
        why: Box<NotSpecialised>,
    },
    /// Consumers of a specialised loop begin another load a step ahead, and wait for this one, which says where that stands.
    Place {
        /// The view of the other load.
        of: Named,
    },
    /// A mask leaves out a part of what the producer of a specialised loop would copy.
    Masked,
    /// The consumers of a specialised loop load it.
    AtUse,
    /// The loop was not written as a program with copies that run ahead: they do not fit the machine.
    Unwritten,
}

impl fmt::Display for NotAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAhead::Tasks => {
                f.write_str("lanes of the author's tasks load it where it is used; `async_copy`, or a channel whose tiles are copied in bulk, runs ahead")
            }
            NotAhead::Elsewhere => f.write_str("another loop of the kernel is specialised, and this one is left as it is"),
            NotAhead::Stages => f.write_str("one stage is asked for; two or more copy ahead"),
            NotAhead::While => f.write_str("it is in a `while`, whose iterations are not known ahead; a `for` can run ahead"),
            NotAhead::Once => f.write_str("the loop goes round once at most: there is nothing to begin ahead"),
            NotAhead::Writes { op } => write!(f, "the loop writes memory (`{op}`), and copies ahead of it would read what is older"),
            NotAhead::Gathered => f.write_str("each of its elements has an address of its own"),
            NotAhead::Choice => f.write_str("it stands in an `if`, and not every iteration does it"),
            NotAhead::Beside { why } => why.said_of(&"it", f),
            NotAhead::Address { value } => {
                write!(f, "{value} decides what it brings, and does not follow from the loop's index by scalars alone")
            }
            NotAhead::Width => {
                f.write_str(
                    "the lanes have no asynchronous copies for how its elements lie: rows, or what their strides are known to be multiples of, are too \
                     narrow; say more in the view's type (`?%8`), or compile for a launch's arguments (`--launch`, `Divisors`)",
                )
            }
            NotAhead::Start { view, dim, at, elements } => {
                write!(f, "lanes copy whole pieces of rows: index {dim} of {view}, ")?;
                at.said(*elements, f)
            }
            NotAhead::Outside => {
                f.write_str("a loop in this one is specialised, and its consumers load this for themselves, where they use it")
            }
            NotAhead::Shares => f.write_str(
                "lanes share the powers of two in a tile's extents, which are too few for each lane to copy something of its own; use such extents, larger \
                 tiles, or fewer warps",
            ),
            NotAhead::Around => f.write_str("it is for no product, and the loop holds a loop: only innermost loops hold in registers what is loaded ahead"),
            NotAhead::Enough { bytes } => {
                write!(f, "a step brings {bytes} bytes a lane, which keeps memory busy: nothing is begun ahead; smaller tiles, or more warps, run ahead")
            }
            NotAhead::Held { registers } => {
                write!(f, "a step takes {registers} registers of a lane, too many to hold ahead; smaller tiles, or more warps, run ahead")
            }
            NotAhead::Consumers { why } => write!(f, "the producer does not copy it, and consumers load it where they use it: {why}"),
            NotAhead::Place { of } => write!(f, "it says where {of} is loaded from, which consumers begin a step ahead: they wait for it then"),
            NotAhead::Masked => f.write_str("a mask leaves out a part of it, and consumers load it where they use it"),
            NotAhead::AtUse => f.write_str("consumers load it where they use it, beside what the ring brings"),
            NotAhead::Unwritten => f.write_str("slots for copies that run ahead do not fit the machine; use smaller tiles"),
        }
    }
}
