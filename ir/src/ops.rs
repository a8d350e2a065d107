//! The op table: every op of the tile IR, declared once.
//!
//! The rows stand in `table.rs`. A row gives the name, operands, attributes, typing rule, effects and work; [`Op`], the parser, the printer, the verifier, the
//! builder's methods and `docs/language.md` follow from it. To add an op, add a row there, its typing rule in `typing.rs` if no
//! existing one fits, and let the exhaustive matches of the interpreter and the lowering lead you through the rest.
//!
//! ```text
//! v3 = cmp lt v1, v2                     lead attribute, operands
//! v4 = reduce add v3, axis 1             lead attribute, operand, trailing attribute
//! v5 = load v0[v1, 0], mask=v4 : tile<16x64xf16>    view operand with indices, keyword operand, explicit type
//! ```

mod explicit;
mod pattern;
mod words;

pub use explicit::Task;
pub use words::{AtomicOp, CacheHint, CmpOp, GridAxis, MemoryOrder, Precision, ReduceOp, Scope, SortOrder};

use crate::require::LayoutSpec;
use crate::types::{Scalar, Shape};
use std::fmt;

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
pub struct Operand {
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

/// How types follow from operands; `typing.rs` says it exactly.
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
    pub operands: &'static [Operand],
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

macro_rules! operand {
    ($n:ident) => {
        Operand { name: stringify!($n), kind: OperandKind::Plain }
    };
    ([$n:ident]) => {
        Operand { name: stringify!($n), kind: OperandKind::Indices }
    };
    ((? $n:ident)) => {
        Operand { name: stringify!($n), kind: OperandKind::Keyword }
    };
    ((* $n:ident)) => {
        Operand { name: stringify!($n), kind: OperandKind::Variadic }
    };
}

macro_rules! attr {
    (-) => {
        None
    };
    ($k:ident) => {
        Some(AttrKind::$k)
    };
}

macro_rules! work {
    () => {
        None
    };
    ($kind:ident $(($steps:literal))?) => {
        Some(Work::$kind $(($steps))?)
    };
}

macro_rules! bound {
    () => {
        None
    };
    ($relative:literal) => {
        Some(ErrorBound { relative: $relative, absolute: None })
    };
    ($relative:literal $absolute:literal) => {
        Some(ErrorBound { relative: $relative, absolute: Some($absolute) })
    };
}

macro_rules! define_ops {
    ({ $($first:tt)* } { $($elementwise:tt)* } { $($rest:tt)* }) => {
        define_ops! { @all $($first)* $($elementwise)* $($rest)* }
        define_ops! { @elementwise $($elementwise)* }
    };
    (@all $($(#[doc = $doc:literal])+ $variant:ident $name:ident ($($operand:tt),*) $lead:tt $trail:tt $rule:ident $effects:ident $regions:literal $($work:ident $(($steps:literal))? $(within($($bound:literal),+))?)?;)*) => {
        /// An operation of the tile IR; [`Op::info`] is its row.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        pub enum Op { $($(#[doc = $doc])+ $variant,)* }

        impl Op {
            /// Every op, in table order.
            pub const ALL: &'static [Op] = &[$(Op::$variant,)*];

            /// The op's row.
            pub const fn info(self) -> &'static OpInfo {
                match self {
                    $(Op::$variant => &OpInfo {
                        name: stringify!($name),
                        operands: &[$(operand!($operand)),*],
                        lead: attr!($lead),
                        trail: attr!($trail),
                        rule: Rule::$rule,
                        effects: Effects::$effects,
                        regions: $regions,
                        work: work!($($work $(($steps))?)?),
                        error: bound!($($($($bound)+)?)?),
                        doc: concat!($($doc, "\n"),+),
                    },)*
                }
            }
        }
    };
    (@elementwise $($(#[$doc:meta])+ $variant:ident $name:ident ($($operand:tt),*) $lead:tt $trail:tt $rule:ident $effects:ident $regions:literal $work:ident $(($steps:literal))? $(within($($bound:literal),+))?;)*) => {
        /// The elementwise ops as a pattern: `elementwise_ops!() => …` keeps a match over [`Op`] exhaustive.
        #[macro_export]
        macro_rules! elementwise_ops {
            () => {
                $($crate::Op::$variant)|*
            };
        }
    };
}

#[macro_use]
mod table;

pub use table::Op;

impl Op {
    /// True for the ops of explicit control: tasks, local memory, barriers, async units, clusters and channels.
    pub fn is_explicit(self) -> bool {
        matches!(self, crate::explicit_ops!())
    }

    /// True if the op computes elements from elements. Whether each one follows from those at its own place depends on the types, too:
    /// [`Op::is_elementwise`].
    pub fn computes_elements(self) -> bool {
        use Rule::{Bitcast, Cast, Compare, SameBits, SameFloat, SameInt, SameNumber, Select};
        matches!(self.info().rule, SameNumber | SameFloat | SameInt | SameBits | Compare | Select | Cast | Bitcast)
    }

    /// True if each element of the op's result follows from the operands' elements at the same place. `operand` is the type of the first
    /// operand's elements: a `bitcast` to a narrower type makes two elements of one, one to a wider type makes one of two.
    pub fn is_elementwise(self, operand: Scalar, result: Scalar) -> bool {
        self.computes_elements() && (self != Op::Bitcast || operand.bits() == result.bits())
    }

    /// True for the ops that compute an element from elements: all that a combining region may hold.
    pub fn is_scalar(self) -> bool {
        let row = self.info();
        match row.rule {
            Rule::Explicit
            | Rule::SameNumber
            | Rule::SameFloat
            | Rule::SameInt
            | Rule::SameBits
            | Rule::Compare
            | Rule::Select
            | Rule::Cast
            | Rule::Bitcast => row.effects == Effects::Pure,
            Rule::Index
            | Rule::Iota
            | Rule::Splat
            | Rule::Broadcast
            | Rule::Reshape
            | Rule::Transpose
            | Rule::Reduce
            | Rule::Join
            | Rule::Split
            | Rule::Concat
            | Rule::Slice
            | Rule::Flip
            | Rule::Scan
            | Rule::ArgReduce
            | Rule::Assume
            | Rule::Held
            | Rule::Assert
            | Rule::Print
            | Rule::Dot
            | Rule::Load
            | Rule::Store
            | Rule::Prefetch
            | Rule::Gather
            | Rule::Scatter
            | Rule::Atomic
            | Rule::GatherTile
            | Rule::Histogram
            | Rule::Sort
            | Rule::ArgSort
            | Rule::TopK
            | Rule::ArgTopK
            | Rule::ReduceBy
            | Rule::ScanBy
            | Rule::Philox
            | Rule::Handle
            | Rule::Local
            | Rule::Act
            | Rule::Receive
            | Rule::Control => false,
        }
    }

    /// The op of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL.iter().copied().find(|o| o.info().name == name)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().name)
    }
}
