//! Why a kernel is not lowered, beside what is said of specialised loops, bulk copies and matrix instructions: what was asked for, and why it
//! can't be had.
//!
//! ```text
//! Unsupported ─┬─ the target      Lacking           units, clusters, printing
//!              ├─ tasks           NoMeeting         named barriers and clusters where nobody comes
//!              │                  NoBufferLayout    uses of a buffer that want it to lie differently
//!              │                  NotAddressed      parts of a buffer that no unit reaches
//!              ├─ checks          deadlocks of channels, protocols that are not proved
//!              └─ stages          Missing, OfScalar, NoAxis, Location: what a stage in front should have refused, or made
//! ```

use super::buffer::{NoBufferLayout, NotAddressed};
use std::fmt;
use tilelift_ir::channel::ChannelError;
use tilelift_ir::layout::LayoutError;
use tilelift_ir::verify::VerifyErrors;
use tilelift_ir::{AtomicOp, Loc, Op, Scalar, TileType, Value};
use tilelift_protocol::ProtocolError;

/// Why a kernel is not lowered.
#[derive(Clone, PartialEq, Debug)]
pub enum Unsupported {
    /// The target lacks something.
    Lacking(Lacking),
    /// The number of warps is no power of two.
    Warps(u32),
    /// Lanes, warps or blocks do not meet where an op says so.
    Meeting(Op, NoMeeting),
    /// An op uses a buffer as others do not.
    Buffer(Op, NoBufferLayout),
    /// A buffer of elements that share bytes.
    PackedBuffer,
    /// A part of a buffer is not reached.
    Part(NotAddressed),
    /// Bulk copies do not combine so.
    Reduction(AtomicOp),
    /// Lanes hold single elements of a type, and asynchronous stores are of 32 bits.
    RemoteStore(Scalar),
    /// An access of elements that share bytes, whose innermost index may be odd.
    InsideByte,
    /// A channel may deadlock.
    Deadlock(Box<ChannelError>),
    /// A protocol is not proved: of what an author writes, or of what the compiler writes for a loop.
    Unproved {
        /// An author writes it.
        tasks: bool,
        /// Why not.
        why: Box<ProtocolError>,
        /// A promise of the author's that may be the cause.
        promise: Option<Box<Promise>>,
    },
    /// A stage made what is no kernel.
    Malformed(Stage, Box<VerifyErrors>),
    /// A channel without an expansion.
    Expansion,
    /// A tile without a layout.
    Layout(LayoutError),
    /// A tile is asked for, and a scalar is there.
    Scalar(OfScalar),
    /// No layout keeps the bits of an axis apart.
    Axis(NoAxis),
    /// A value is not where an op looks for it.
    Location(Value, Location),
    /// A register without a value.
    Register(NoRegister),
    /// A dot's operand has no fragment at a row and a column.
    Fragment(ProductOperand, [u32; 2]),
    /// A matrix instruction takes no operand A from registers.
    RegisterA(&'static str),
    /// Something that a stage in front should have made, or refused.
    Missing(Missing),
    /// An op without a lowering.
    Op(Op),
}

/// Bytes that a `barrier_expect` promises, where the copies behind it bring others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promise {
    /// Where it stands.
    pub at: Loc,
    /// What it promises.
    pub promised: u64,
    /// What they bring.
    pub bring: u64,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`barrier_expect` at {} expects {} bytes, and the copies behind it bring {}", self.at, self.promised, self.bring)
    }
}

impl Unsupported {
    /// True for what a proof refuses.
    pub fn is_protocol(&self) -> bool {
        matches!(self, Unsupported::Unproved { .. } | Unsupported::Deadlock(_))
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::Lacking(what) => what.fmt(f),
            Unsupported::Warps(n) => write!(f, "{n} warps: the number of warps must be a power of two"),
            Unsupported::Meeting(op, why) => write!(f, "`{op}` here: {why}"),
            Unsupported::Buffer(op, why @ NoBufferLayout::Rounded) => write!(f, "`{op}`: {why}"),
            Unsupported::Buffer(op, why) => write!(f, "`{op}` of this buffer: {why}"),
            Unsupported::PackedBuffer => f.write_str("a buffer of elements that share bytes: use bytes"),
            Unsupported::Part(why) => why.fmt(f),
            Unsupported::Reduction(op) => write!(f, "`async_reduce {op}`: copies update by add, min, max, and, or, xor"),
            Unsupported::RemoteStore(elem) => {
                write!(f, "`remote_store_async`: lanes hold single elements of {elem}; asynchronous stores are of 32 bits")
            }
            Unsupported::InsideByte => f.write_str(
                "an access that may begin inside a byte: the innermost index is not known to be even: make it a multiple of an even number, or promise that it is (`assume …, multiple 2`)",
            ),
            Unsupported::Deadlock(why) => write!(f, "a channel that may deadlock: {why}"),
            Unsupported::Unproved { tasks: true, why, promise } => {
                write!(f, "tasks that are not proved to work together: {why}; ")?;
                promise.iter().try_for_each(|promise| write!(f, "{promise}; "))?;
                f.write_str("mend it, or compile with `--unproven`")
            }
            Unsupported::Unproved { tasks: false, why, .. } if why.problem.is_limit() => {
                write!(f, "the schedule that the compiler wrote is not proved: {why}; pin `schedule`, or `stages` down to 1, or do not ask for its proof")
            }
            Unsupported::Unproved { tasks: false, why, .. } => write!(f, "the schedule that the compiler wrote is not proved: {why}; this is a fault of the compiler: report it, or pin `schedule`, `stages` or `consumers`"),
            Unsupported::Malformed(what, why) => write!(f, "{what}: {why}"),
            Unsupported::Expansion => f.write_str("a channel: it has no expansion"),
            Unsupported::Layout(why) => write!(f, "the layout of a tile: {why}"),
            Unsupported::Scalar(what) => what.fmt(f),
            Unsupported::Axis(what) => write!(f, "{what}: no layout keeps the bits of its axis apart"),
            Unsupported::Location(v, want) => write!(f, "{v} {want}"),
            Unsupported::Register(what) => what.fmt(f),
            Unsupported::Fragment(what, [row, column]) => write!(f, "{what} has no fragment at {:?}", (row, column)),
            Unsupported::RegisterA(name) => write!(f, "an operand A in registers: {name} takes no such operand"),
            Unsupported::Missing(what) => what.fmt(f),
            Unsupported::Op(op) => write!(f, "`{op}`: it has no lowering; run the kernel in the interpreter"),
        }
    }
}

/// What a target lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lacking {
    /// Mbarriers and asynchronous units, for an op.
    Units(Op, &'static str),
    /// Clusters of so many blocks.
    Cluster {
        /// Blocks of the kernel's.
        size: u32,
        /// Blocks of the largest one that the target has; 1 if it has none.
        most: u32,
        /// The target.
        target: &'static str,
    },
    /// A way to print.
    Print(&'static str),
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lacking::Units(op, target) => write!(f, "`{op}` on {target}: it has no mbarriers and asynchronous units"),
            Lacking::Cluster { size, most: 1, target } => write!(f, "a cluster of {size}: {target} has no clusters"),
            Lacking::Cluster { size, most, target } => write!(f, "a cluster of {size}: {target} has clusters of up to {most}"),
            Lacking::Print(target) => {
                write!(f, "`print` on {target}: no target table offers printing; run the kernel in the interpreter, or store the values")
            }
        }
    }
}

/// Why nobody meets where an op says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoMeeting {
    /// The kernel has no clusters.
    Cluster,
    /// A named barrier outside of tasks.
    NoTask,
    /// A named barrier of warps that are not there.
    Warps {
        /// Warps that are to meet.
        meet: u32,
        /// Warps of the task that comes.
        own: u32,
        /// Warps of all tasks.
        all: u32,
    },
    /// Turns outside of tasks.
    TurnsOutside,
    /// Turns of a task that is not made of whole warpgroups, or of several alike.
    Turns {
        /// Warps of the task.
        warps: u32,
        /// Warps of a warpgroup.
        group: u32,
        /// Replicas of the task.
        replicas: u32,
    },
}

impl fmt::Display for NoMeeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoMeeting::Cluster => f.write_str("the kernel has no clusters; write `cluster 2` or more behind its parameters"),
            NoMeeting::NoTask => f.write_str("how many warps come is known of tasks only; use `task_barrier`, or move it into a task"),
            NoMeeting::Warps { meet, own, all } => {
                write!(f, "{meet} warps can't meet: the task that comes has {own}, all tasks have {all}; say how many warps come")
            }
            NoMeeting::TurnsOutside => f.write_str("the warpgroups of a task take turns; move it into a task"),
            NoMeeting::Turns { replicas, .. } if *replicas > 1 => {
                write!(f, "the warpgroups of one task take turns, and there are {replicas} of it; give each a task of its own")
            }
            NoMeeting::Turns { warps, group, .. } => {
                write!(f, "warpgroups of {group} warps take turns, and the task has {warps}; give it a multiple")
            }
        }
    }
}

/// A stage of the compiler that makes a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It expands channels.
    Expansion,
    /// It writes a schedule as a program.
    Schedule,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Expansion => "a kernel whose channels expand to a malformed one",
            Stage::Schedule => "a schedule that is no kernel",
        })
    }
}

/// What is asked of a scalar, and tiles have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfScalar {
    /// A product.
    Dot,
    /// A place in global memory.
    Access,
    /// A load that goes through shared memory.
    Load,
    /// A layout.
    Layout,
    /// A broadcast.
    Broadcast,
    /// A fold by an op.
    Combine(Op),
}

impl fmt::Display for OfScalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OfScalar::Dot => f.write_str("a dot of scalars: use tiles"),
            OfScalar::Access => f.write_str("a global access of a scalar: load or store a tile"),
            OfScalar::Load => f.write_str("a load of a scalar: load a tile"),
            OfScalar::Layout => f.write_str("the layout of a scalar: scalars have none"),
            OfScalar::Broadcast => f.write_str("a broadcast of a scalar: use splat"),
            OfScalar::Combine(op) => write!(f, "`{op}` of a scalar: it combines tiles"),
        }
    }
}

/// What goes along an axis whose bits no layout keeps apart.
#[derive(Clone, PartialEq, Debug)]
pub enum NoAxis {
    /// A reduction of a tile.
    Reduce(TileType),
    /// An op on a tile.
    Of(Op, TileType),
    /// An op along an axis of a shape.
    Along(Op, usize, Vec<u32>),
    /// A sort.
    Sort,
}

impl fmt::Display for NoAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAxis::Reduce(t) => write!(f, "a reduction of {t}"),
            NoAxis::Of(op, t) => write!(f, "`{op}` of {t}"),
            NoAxis::Along(op, dim, shape) => write!(f, "`{op}` along axis {dim} of {shape:?}"),
            NoAxis::Sort => f.write_str("a sort"),
        }
    }
}

/// Where an op looks for a value, and does not find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Location {
    /// A scalar.
    Scalar,
    /// A tile with a layout.
    Tile,
    /// A tile in registers.
    Registers,
    /// A buffer.
    Buffer,
    /// A barrier.
    Barrier,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Location::Scalar => "as a scalar: it is no scalar value here",
            Location::Tile => "as a tile: it has no layout",
            Location::Registers => "as a tile in registers: it is no tile value here",
            Location::Buffer => "as a buffer: it is none here",
            Location::Barrier => "as a barrier: it is none here",
        })
    }
}

/// What leaves a register without a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoRegister {
    /// The layout of a load.
    Load,
    /// The layout of a load of local memory.
    LocalLoad,
    /// The layout of a reduction's result.
    Reduce,
    /// The layout of a part of a tile.
    Part,
    /// The plan of a conversion.
    Conversion,
}

impl fmt::Display for NoRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoRegister::Load => "a load: a register has no value in its layout",
            NoRegister::LocalLoad => "a load of local memory: a register has no value in its layout",
            NoRegister::Reduce => "a reduction: its result layout has a register without a value",
            NoRegister::Part => "a part of a tile: its layout has a register without a value",
            NoRegister::Conversion => "a conversion: its plan leaves a register without a value",
        })
    }
}

/// An operand of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProductOperand {
    /// Of a dot.
    Dot,
    /// The operand A of an `async_dot`.
    AsyncDot,
}

impl fmt::Display for ProductOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProductOperand::Dot => "a dot: its operand layout",
            ProductOperand::AsyncDot => "`async_dot`: the layout of its operand A",
        })
    }
}

/// What the verifier, or a stage in front, should have seen to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// A reduction's op, or its tile.
    Reduce,
    /// A scan's op, or its tile.
    Scan,
    /// The tile of which a position is asked.
    Extreme,
    /// A slice's offsets.
    Offsets,
    /// A transpose's permutation.
    Permutation,
    /// A prefetch's extents.
    Extents,
    /// The tile that an update makes.
    UpdateTile,
    /// What an update does.
    UpdateOp,
    /// The shape of a view, or a handle, which can't be another one.
    Reshape,
    /// A dot's plan.
    DotPlan,
    /// A whole word of a matrix load.
    Word,
    /// The plan of an `async_dot`.
    AsyncDotPlan,
    /// The instruction of an `async_dot`.
    AsyncDotInstruction,
    /// The plan of a bulk copy.
    CopyPlan,
    /// The plan of tasks.
    Tasks,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Missing::Reduce => "a reduction: it has no op or no tile",
            Missing::Scan => "a scan: it has no op or no tile",
            Missing::Extreme => "a position of an extreme: its operand is no tile",
            Missing::Offsets => "a slice: it has no offsets",
            Missing::Permutation => "a transpose: it has no permutation",
            Missing::Extents => "a prefetch: it has no extents",
            Missing::UpdateTile => "an update: it makes no tile",
            Missing::UpdateOp => "an update: it does not say what to do",
            Missing::Reshape => "a reshape of a view or handle: they keep their shape",
            Missing::DotPlan => "a dot: it has no plan",
            Missing::Word => "a dot: a matrix load does not fill whole words",
            Missing::AsyncDotPlan => "`async_dot`: it was not planned",
            Missing::AsyncDotInstruction => "`async_dot`: the target has no such group matrix instruction",
            Missing::CopyPlan => "a bulk copy: it was not planned",
            Missing::Tasks => "explicit control: the kernel is not planned so",
        })
    }
}
