//! What a row of the op table says: operands, attributes, typing rule, effects, work, error bound.

use super::explicit::Task;
use super::words::{AtomicOp, CacheHint, CmpOp, GridAxis, MemoryOrder, Precision, ReduceOp, Scope, SortOrder};
use crate::layout::LayoutSpec;
use crate::types::Shape;

/// A literal of a `const`. Floats are kept as the bits of an `f64`, so that literals compare and hash exactly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Literal {
    /// An integer or truth value (0 or 1).
    Int(i64),
    /// The bits of an `f64` that the element type represents exactly.
    Float(u64),
}

/// An attribute of an instruction.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Attr {
    /// A grid axis.
    Grid(GridAxis),
    /// A comparison.
    Cmp(CmpOp),
    /// A reduction.
    Reduce(ReduceOp),
    /// A dimension number.
    Dim(u32),
    /// A constant per dimension: an offset, or for `prefetch` an extent.
    Offsets(Shape),
    /// A positive number that divides a value.
    Divisor(u32),
    /// A permutation: result dimension `i` is operand dimension `perm[i]`.
    Perm(Shape),
    /// Precision of a dot.
    Precision(Precision),
    /// An atomic update.
    Atomic(AtomicOp),
    /// Order and scope of an atomic update.
    Sync(MemoryOrder, Scope),
    /// How caches treat an access.
    Cache(CacheHint),
    /// The direction of a sort.
    Sort(SortOrder),
    /// A number: arrivals, bytes, warps, operations in flight.
    Count(u32),
    /// The tasks of a `tasks`, one per region.
    Tasks(Vec<Task>),
    /// A layout that is required.
    Layout(Box<LayoutSpec>),
    /// A literal.
    Literal(Literal),
}

/// What kind of attribute a row asks for, and how it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttrKind {
    /// `x`, `y` or `z`.
    Grid,
    /// A comparison word.
    Cmp,
    /// A reduction word.
    Reduce,
    /// A bare number: a dimension.
    Dim,
    /// `axis n`: a dimension.
    AxisDim,
    /// `[1, 0]`.
    Perm,
    /// `[0, 16]`: a constant per dimension, an offset or an extent.
    Offsets,
    /// `multiple 16`: a divisor.
    Divisor,
    /// A precision word; `exact` is the default and not printed.
    Precision,
    /// An atomic update word.
    Atomic,
    /// `order=acquire, scope=cta`; `relaxed` and `gpu` are the defaults and not printed.
    Sync,
    /// `cache=streaming`; `normal` is the default and not printed.
    Cache,
    /// The direction of a sort.
    Sort,
    /// A bare number.
    Count,
    /// A bare number; 1 is the default and not printed.
    Few,
    /// `swizzle=64`: bytes of a swizzled row; 0, which is the default and not printed, leaves it open.
    Swizzle,
    /// Names, warps and registers, written where the regions begin; only `tasks` has them.
    Tasks,
    /// `blocked(…)`, `mma(…)` or `linear(…)`: a layout.
    Layout,
    /// A literal; only `const` has one.
    Literal,
}

/// How an operand is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperandKind {
    /// A value (or literal) in the comma-separated list.
    Plain,
    /// `[v1, v2]` behind the view: one index per dimension.
    Indices,
    /// `name=v1`, optional.
    Keyword,
    /// Any number of values.
    Variadic,
}

/// An operand of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperandInfo {
    /// Its name in the documentation, and in the text if it is a keyword.
    pub name: &'static str,
    /// How it is written.
    pub kind: OperandKind,
}

/// What an instruction does besides computing its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Effects {
    /// Nothing: may be duplicated, removed and reordered.
    Pure,
    /// Reads global memory.
    Reads,
    /// Writes global memory.
    Writes,
    /// Reads and writes global memory.
    Updates,
    /// Stops the program or reports something; keeps its place among the other effects.
    Observes,
    /// Touches what tasks, the blocks of a cluster and the async units share: local memory, barriers, what is in flight. Keeps its
    /// place among all effects.
    Shared,
    /// As `Shared`, and an async unit reads global memory.
    AsyncReads,
    /// As `Shared`, and an async unit writes global memory.
    AsyncWrites,
    /// As `Shared`, and an async unit reads and writes global memory.
    AsyncUpdates,
    /// Holds regions, whose effects it has, or ends one.
    Control,
}

impl Effects {
    /// What happens to global memory, at once or by an async unit: `Reads`, `Writes`, `Updates`, or `Pure` for nothing.
    pub const fn global(self) -> Effects {
        match self {
            Effects::Reads | Effects::AsyncReads => Effects::Reads,
            Effects::Writes | Effects::AsyncWrites => Effects::Writes,
            Effects::Updates | Effects::AsyncUpdates => Effects::Updates,
            Effects::Pure | Effects::Observes | Effects::Shared | Effects::Control => Effects::Pure,
        }
    }
    /// True for the effects that nothing may be reordered across.
    pub const fn is_shared(self) -> bool {
        matches!(self, Effects::Shared | Effects::AsyncReads | Effects::AsyncWrites | Effects::AsyncUpdates)
    }
}

/// How types follow from operands; `typing/` says it exactly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// The type is written.
    Explicit,
    /// Operands and result have one type, integer or float.
    SameNumber,
    /// Operands and result have one float type.
    SameFloat,
    /// Operands and result have one integer type.
    SameInt,
    /// Operands and result have one integer type or `i1`.
    SameBits,
    /// Two operands of one type; result `i1` of that shape.
    Compare,
    /// Condition `i1` (scalar or of the shape), two operands of one type.
    Select,
    /// Result `i32`.
    Index,
    /// Written tile type with an integer element.
    Iota,
    /// Scalar operand, written tile type of that element.
    Splat,
    /// Written type of the operand's shape; any number to any number.
    Cast,
    /// Written type of the operand's shape and element width.
    Bitcast,
    /// Written tile type of the operand's rank; extents equal or 1 in the operand.
    Broadcast,
    /// Written type with the operand's element count.
    Reshape,
    /// Shape permuted.
    Transpose,
    /// Axis removed; a one-dimensional tile becomes a scalar.
    Reduce,
    /// Two tiles of one type; result with a new innermost dimension of extent 2.
    Join,
    /// Innermost extent 2; two results without that dimension.
    Split,
    /// Two tiles that agree but along the axis; the extents there add up.
    Concat,
    /// Written tile type that lies inside the operand at the offsets.
    Slice,
    /// A tile with that axis; result as the operand.
    Flip,
    /// A tile with that axis, of a class that the combining op takes; result as the operand.
    Scan,
    /// Axis removed; result `i32`.
    ArgReduce,
    /// A scalar integer; result as the operand.
    Assume,
    /// A tile; result as the operand.
    Held,
    /// `i1`, scalar or tile; no result.
    Assert,
    /// Scalars and tiles; no result.
    Print,
    /// `MxK`, `KxN`, `MxN` accumulator.
    Dot,
    /// `MxK`, scales `MxK/32`, `KxN`, scales `K/32xN`, `MxN` accumulator.
    DotScaled,
    /// Written tile type of the view's element and rank.
    Load,
    /// No result.
    Store,
    /// Written extents, one per dimension of the view; no result.
    Prefetch,
    /// Index tiles of one shape; the result has that shape and the view's element.
    Gather,
    /// Index tiles and a value of one shape; no result.
    Scatter,
    /// Index tiles and operands of one shape; the result is the old values.
    Atomic,
    /// A tile and indices into one of its axes; the result has the indices' shape.
    GatherTile,
    /// Written tile type of one dimension of `i32`.
    Histogram,
    /// The operand's type.
    Sort,
    /// `i32` of the operand's shape.
    ArgSort,
    /// Written type: the operand's with a smaller extent along the axis.
    TopK,
    /// Written type: `i32` of the operand's shape with a smaller extent along the axis.
    ArgTopK,
    /// Tiles of one shape with that axis; results as the operands without the axis.
    ReduceBy,
    /// Tiles of one shape with that axis; results as the operands.
    ScanBy,
    /// `i32`, scalars or tiles of one shape; four results of that type.
    Philox,
    /// Written handle type: local memory, barriers or a channel.
    Handle,
    /// Operands with handles among them; the result follows.
    Local,
    /// Operands with handles among them; no result.
    Act,
    /// A channel and a step; a result per tile of the channel.
    Receive,
    /// Results from the regions' yields.
    Control,
}

/// How far a function of `f32` may be from the exact number: the larger of two bounds, as powers of two. The row's text has those of `f64`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorBound {
    /// Of the result's size.
    pub relative: i32,
    /// Of a number near zero.
    pub absolute: Option<i32>,
}

/// What machines do for an elementwise op. The number of a function is how many steps its code has each of which needs the one before,
/// on the machine that was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// An instruction.
    Simple,
    /// None: other registers, or the same ones under another name.
    Rename,
    /// Of a float none, for signs are part of the instruction that takes the operand.
    Sign,
    /// A product, of integers a long one.
    Product,
    /// A quotient of integers.
    Quotient,
    /// A quotient, of floats or integers.
    Division,
    /// A function that the special unit has nearly as it is.
    Special(u32),
    /// A function made of several instructions around one of the special unit, or of a series.
    Composite(u32),
}

/// A row of the op table.
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// Name in the text form.
    pub name: &'static str,
    /// Operands in order.
    pub operands: &'static [OperandInfo],
    /// Attribute written before the operands.
    pub lead: Option<AttrKind>,
    /// Attribute written after the operands.
    pub trail: Option<AttrKind>,
    /// Typing rule.
    pub rule: Rule,
    /// Effects.
    pub effects: Effects,
    /// Number of regions.
    pub regions: usize,
    /// The work of an elementwise op on one element; other ops have none that their row could say.
    pub work: Option<Work>,
    /// How far results may be off; absent where every device gives the interpreter's bits.
    pub error: Option<ErrorBound>,
    /// Documentation, as in `docs/language.md`.
    pub doc: &'static str,
}

impl OpInfo {
    /// Number of results of an op without regions; several results have one type. An op with regions has as many results as values
    /// travel through it, and `channel_get` as many as its channel has tiles: [`crate::typing::result_types`] has the types.
    pub fn results(&self) -> usize {
        match self.rule {
            Rule::Split => 2,
            Rule::Philox => 4,
            Rule::Store
            | Rule::Prefetch
            | Rule::Scatter
            | Rule::Assert
            | Rule::Print
            | Rule::Control
            | Rule::ReduceBy
            | Rule::ScanBy
            | Rule::Act
            | Rule::Receive => 0,
            Rule::Explicit
            | Rule::SameNumber
            | Rule::SameFloat
            | Rule::SameInt
            | Rule::SameBits
            | Rule::Compare
            | Rule::Select
            | Rule::Index
            | Rule::Iota
            | Rule::Splat
            | Rule::Cast
            | Rule::Bitcast
            | Rule::Broadcast
            | Rule::Reshape
            | Rule::Transpose
            | Rule::Join
            | Rule::Concat
            | Rule::Slice
            | Rule::Flip
            | Rule::Reduce
            | Rule::Scan
            | Rule::ArgReduce
            | Rule::Assume
            | Rule::Held
            | Rule::Dot
            | Rule::DotScaled
            | Rule::Load
            | Rule::Gather
            | Rule::Atomic
            | Rule::GatherTile
            | Rule::Histogram
            | Rule::Sort
            | Rule::ArgSort
            | Rule::TopK
            | Rule::ArgTopK
            | Rule::Handle
            | Rule::Local => 1,
        }
    }

    /// True if the text form carries `: type`.
    pub fn typed(&self) -> bool {
        matches!(
            self.rule,
            Rule::Explicit
                | Rule::Iota
                | Rule::Splat
                | Rule::Cast
                | Rule::Bitcast
                | Rule::Broadcast
                | Rule::Reshape
                | Rule::Slice
                | Rule::Load
                | Rule::Histogram
                | Rule::TopK
                | Rule::ArgTopK
                | Rule::Handle
        )
    }
}
