//! Why a main loop is not specialised.

use super::copy::{Misplaced, NoBulkCopy, NotStaged};
use super::product::{NoProduct, NotOverlapped};
use super::refusal::Refusal;
use super::uncounted_loop::UncountedLoop;
use crate::named::{Made, Named};
use std::fmt;
use tilelift_ir::{Op, Value};

/// Why a main loop is not specialised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotSpecialised {
    /// The caller asks for the pipelined schedule.
    Asked,
    /// The caller asks for a number of warps.
    Warps {
        /// The number.
        warps: u32,
    },
    /// The target has no asynchronous units.
    NoUnits {
        /// Its name.
        target: &'static str,
    },
    /// No loop loads operands of dots, or several do that do not go through one ring.
    Loops {
        /// How many do.
        count: usize,
    },
    /// More loops than a producer goes through.
    ManyLoops {
        /// How many load operands of dots.
        count: usize,
        /// How many may.
        most: usize,
    },
    /// Of several loops not all have the same operands that a task transposes: each of their steps fills a slot of that ring.
    TransposedLoops {
        /// How many loops there are.
        count: usize,
    },
    /// The loop stands in what the producer does not go through.
    Inside {
        /// The op.
        op: Op,
    },
    /// The loop is one on a condition, or stands in one, and how often that goes round is not known where it begins.
    Uncounted {
        /// The loop on a condition.
        made: Box<Made>,
        /// Why not.
        why: Box<UncountedLoop>,
    },
    /// A load of the loop brings no tile.
    ScalarLoad,
    /// A load of the loop is none for bulk copies.
    Copy(NoBulkCopy),
    /// A load of the loop is for more than products.
    Beside {
        /// What it brings.
        load: Named,
        /// Why it is no operand.
        why: NotOperand,
    },
    /// The loop does what neither producer nor consumers do.
    Effect {
        /// The op.
        op: Op,
    },
    /// A view that is copied from is stored to.
    Stored {
        /// The view.
        view: Named,
    },
    /// A dot is none for group matrix instructions.
    Product(NoProduct),
    /// The loop carries more than the accumulators of its dots.
    Carries,
    /// Nothing that the loop carries or stores is made of its dots.
    Unseen,
    /// A dot whose result is carried adds to what no step has made, or others add to its result, too.
    Accumulates {
        /// What it adds to.
        value: Named,
    },
    /// What the loop is written as does not lower.
    Unlowered {
        /// What is said of that program.
        why: String,
    },
    /// What is copied depends on more than the producer knows.
    Address {
        /// The value that it does not know.
        value: Named,
    },
    /// Consumers do not share the rows of a result.
    Shares {
        /// Warpgroups.
        consumers: u32,
        /// Rows of the result.
        rows: u32,
        /// Rows of an instruction.
        each: u32,
    },
    /// A layout is required of values in the loop.
    RequiredInside,
    /// A layout is required over another number of warps.
    RequiredWarps {
        /// The number.
        required: u64,
        /// Warps that would compute.
        warps: u32,
    },
    /// Products do not run while lanes compute, as the caller asks for.
    Overlap {
        /// Why not.
        why: NotOverlapped,
    },
    /// Warpgroups that fetch operands by rows do not share boxes.
    Boxes {
        /// The swizzle width in bytes.
        swizzle: u32,
        /// Rows of a box.
        depth: u32,
        /// Rows that a group fetches.
        share: u32,
    },
    /// Consumer sets are for loops that do no more than multiply.
    PingPongComputes,
    /// Consumer sets are for instances that run several grid positions.
    ConsumerSetsOnce,
    /// No more than two consumer sets are known.
    ConsumerSets {
        /// How many are asked for.
        consumer_sets: u32,
    },
    /// The target runs fewer warps.
    TooManyWarps {
        /// Warps of the program.
        warps: u32,
        /// Warps that it runs.
        most: u32,
        /// The target.
        target: &'static str,
    },
    /// Accumulators do not fit the registers.
    Accumulators {
        /// Registers per lane of the accumulators and what is beside them.
        held: u32,
        /// Warpgroups.
        groups: u32,
    },
    /// The operands of one instruction do not fit the registers.
    ProductRegisters {
        /// Columns of the product.
        columns: u32,
        /// Registers that it needs per lane.
        need: u32,
        /// Registers that are there.
        have: u32,
    },
    /// A result that is required to leave in bulk does not.
    Result(NotStaged),
    /// A result that is required to leave in bulk does not fit beside the ring.
    Staging {
        /// Bytes of all results.
        bytes: u32,
        /// One of them.
        value: Named,
        /// Bytes of a slot.
        slot: u32,
    },
    /// The ring has too few slots, or more than fit.
    Ring {
        /// Slots that it would have.
        depth: u32,
        /// Slots that fit.
        room: u32,
        /// Bytes of a slot.
        slot: u32,
    },
    /// Two swizzle widths are required of one load.
    TwoSpans {
        /// What it brings.
        load: Named,
    },
    /// A swizzle is required of what is neither loaded nor stored.
    NoSwizzle {
        /// The value.
        value: Named,
    },
    /// The schedule is not written as a program.
    Unwritten {
        /// Why not.
        why: Refusal,
    },
}

impl NotSpecialised {
    /// True if the target lacks the units.
    pub fn needs_units(&self) -> bool {
        matches!(self, NotSpecialised::NoUnits { .. })
    }

    /// The values that the reason names.
    pub fn values(&self) -> Vec<Value> {
        match self {
            NotSpecialised::Copy(why) => why.values(),
            NotSpecialised::Product(why) => why.value().into_iter().collect(),
            NotSpecialised::Overlap { why } => why.value().into_iter().collect(),
            NotSpecialised::Result(NotStaged { value, why }) => match why {
                Misplaced::Copy(why) => why.values(),
                _ => vec![value.value],
            },
            NotSpecialised::Beside { load: v, .. }
            | NotSpecialised::Stored { view: v }
            | NotSpecialised::Address { value: v }
            | NotSpecialised::Staging { value: v, .. }
            | NotSpecialised::TwoSpans { load: v }
            | NotSpecialised::Accumulates { value: v }
            | NotSpecialised::NoSwizzle { value: v } => vec![v.value],
            NotSpecialised::Asked
            | NotSpecialised::Warps { .. }
            | NotSpecialised::NoUnits { .. }
            | NotSpecialised::Loops { .. }
            | NotSpecialised::ManyLoops { .. }
            | NotSpecialised::TransposedLoops { .. }
            | NotSpecialised::Inside { .. }
            | NotSpecialised::Uncounted { .. }
            | NotSpecialised::ScalarLoad
            | NotSpecialised::Effect { .. }
            | NotSpecialised::Carries
            | NotSpecialised::Unseen
            | NotSpecialised::Unlowered { .. }
            | NotSpecialised::Shares { .. }
            | NotSpecialised::RequiredInside
            | NotSpecialised::RequiredWarps { .. }
            | NotSpecialised::Boxes { .. }
            | NotSpecialised::PingPongComputes
            | NotSpecialised::ConsumerSetsOnce
            | NotSpecialised::ConsumerSets { .. }
            | NotSpecialised::TooManyWarps { .. }
            | NotSpecialised::Accumulators { .. }
            | NotSpecialised::ProductRegisters { .. }
            | NotSpecialised::Ring { .. }
            | NotSpecialised::Unwritten { .. } => Vec::new(),
        }
    }
}

impl From<Refusal> for NotSpecialised {
    fn from(why: Refusal) -> NotSpecialised {
        NotSpecialised::Unwritten { why }
    }
}

impl From<NoBulkCopy> for NotSpecialised {
    fn from(why: NoBulkCopy) -> NotSpecialised {
        NotSpecialised::Copy(why)
    }
}

impl From<NoProduct> for NotSpecialised {
    fn from(why: NoProduct) -> NotSpecialised {
        NotSpecialised::Product(why)
    }
}

impl From<NotStaged> for NotSpecialised {
    fn from(why: NotStaged) -> NotSpecialised {
        NotSpecialised::Result(why)
    }
}

impl fmt::Display for NotSpecialised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotSpecialised::Asked => f.write_str("asked for so"),
            NotSpecialised::Warps { warps } => write!(f, "{warps} warps are asked for"),
            NotSpecialised::NoUnits { target } => write!(f, "{target} has no bulk copies and group matrix instructions"),
            NotSpecialised::Loops { count: 0 } => f.write_str("no loop loads operands of dots"),
            NotSpecialised::Loops { count } => {
                write!(f, "{count} loops load operands of dots, and do not all find them in the slots of one ring")
            }
            NotSpecialised::ManyLoops { count, most } => {
                write!(f, "{count} loops load operands of dots, and a producer goes through {most} at most")
            }
            NotSpecialised::TransposedLoops { count } => {
                write!(f, "of {count} loops not all multiply the same tiles that a task transposes, of which each step fills a slot")
            }
            NotSpecialised::Inside { op } => {
                write!(f, "the loop that loads operands of dots stands in a `{op}`, whose rounds the producer does not know")
            }
            NotSpecialised::Uncounted { made, why } => write!(f, "how often {made} goes round is not known where it begins: {why}"),
            NotSpecialised::ScalarLoad => f.write_str("a load of a scalar"),
            NotSpecialised::Copy(why) => why.fmt(f),
            NotSpecialised::Beside { load, why } => why.said_of(load, f),
            NotSpecialised::Effect { op } => write!(f, "the loop does more than load and compute: `{op}`"),
            NotSpecialised::Stored { view } => write!(f, "{view} is stored to, and copies of it would run ahead"),
            NotSpecialised::Product(why) => why.fmt(f),
            NotSpecialised::Carries => f.write_str("the loop carries more than the accumulators of its dots"),
            NotSpecialised::Unseen => f.write_str("nothing that the loop carries or stores is made of its dots"),
            NotSpecialised::Accumulates { value } => {
                write!(
                    f,
                    "a dot whose result is carried adds to {value}, which is not what the step before has carried, or is added to twice"
                )
            }
            NotSpecialised::Unlowered { why } => write!(f, "what the loop is written as does not lower: {why}"),
            NotSpecialised::Address { value } => {
                write!(f, "{value} decides what is copied, and does not follow from parameters and indices alone")
            }
            NotSpecialised::Shares { consumers, rows, each } => {
                write!(f, "{consumers} warpgroups do not share {rows} rows of results by {each}")
            }
            NotSpecialised::RequiredInside => f.write_str("a layout is required of values in the loop"),
            NotSpecialised::RequiredWarps { required, warps } => {
                write!(f, "a layout is required over {required} warps, and {warps} would compute")
            }
            NotSpecialised::Overlap { why } => write!(f, "products cannot run while lanes compute: {why}"),
            NotSpecialised::Boxes { swizzle, depth, share } => {
                write!(f, "boxes of {swizzle} bytes and a depth of {depth} are not shared by groups that fetch {share} rows")
            }
            NotSpecialised::PingPongComputes => {
                f.write_str("ping-pong consumer sets are used only where the loop does no more than multiply")
            }
            NotSpecialised::ConsumerSetsOnce => {
                f.write_str("ping-pong consumer sets are used only where an instance runs several grid positions")
            }
            NotSpecialised::ConsumerSets { consumer_sets } => {
                write!(f, "{consumer_sets} consumer sets; one set, or two in ping-pong, are known")
            }
            NotSpecialised::TooManyWarps { warps, most, target } => write!(f, "{warps} warps are more than the {most} that {target} runs"),
            NotSpecialised::Accumulators { held, groups } => {
                write!(f, "{held} registers of accumulators per lane do not fit the registers of {groups} warpgroups; use a smaller tile")
            }
            NotSpecialised::ProductRegisters { columns, need, have } => write!(
                f,
                "a product of {columns} columns needs {need} registers per lane, and {have} are there; use a smaller tile, or fewer warpgroups"
            ),
            NotSpecialised::Result(why) => why.fmt(f),
            NotSpecialised::Staging { bytes, value, slot } => {
                write!(f, "the {bytes} bytes through which {value} would leave do not fit beside 2 slots of {slot} bytes")
            }
            NotSpecialised::Ring { depth, room, slot } => write!(
                f,
                "its ring would have {depth} of the {room} slots of {slot} bytes that fit beside the results, and 2 are the least; use smaller tiles, or other `stages=`"
            ),
            NotSpecialised::TwoSpans { load } => write!(f, "two swizzle widths are required of {load}"),
            NotSpecialised::NoSwizzle { value } => {
                write!(f, "{value} is neither loaded for a dot nor stored; require its swizzle behind its load or in front of its store")
            }
            NotSpecialised::Unwritten { why } => why.fmt(f),
        }
    }
}

/// Why a load in a loop is not one that fills a ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotOperand {
    /// It has a mask, or says what stands outside of the view.
    Masked,
    /// Its elements share bytes.
    Packed,
    /// No dot reads it, and nothing else.
    Unread,
    /// Products of a batch read it, and copies bring matrices.
    Batch,
    /// Something else than a dot reads it.
    Read {
        /// What does.
        by: Made,
    },
}

impl NotOperand {
    /// Says it of a load, by what it is called.
    pub(super) fn said_of(&self, load: &dyn fmt::Display, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotOperand::Masked => write!(f, "{load} has a mask, or says what stands outside of the view"),
            NotOperand::Packed => write!(f, "elements of {load} share bytes"),
            NotOperand::Unread => write!(f, "nobody multiplies what {load} brings"),
            NotOperand::Batch => {
                write!(
                    f,
                    "{load} brings matrices of a batch, and copies ahead bring those of single products; slice it, or have fewer in a batch"
                )
            }
            NotOperand::Read { by } => {
                write!(f, "{load} is not for products alone: {by} takes what it brings")?;
                match by.op {
                    Op::ReleaseLayout => f.write_str("; what waits swizzled is not held, and needs no release"),
                    _ => Ok(()),
                }
            }
        }
    }
}
