//! The op table: every op of the tile IR, declared once.
//!
//! A row gives the name, operands, attributes, typing rule and effects; [`Op`], the parser, the printer, the verifier, the
//! builder's methods and `docs/language.md` follow from it. To add an op, add a row here, its typing rule in `typing.rs` if no
//! existing one fits, and let the exhaustive matches of the interpreter and the lowering lead you through the rest.
//!
//! ```text
//! v3 = cmp lt v1, v2                     lead attribute, operands
//! v4 = reduce add v3, axis 1             lead attribute, operand, trailing attribute
//! v5 = load v0[v1, 0], mask=v4 : tile<16x64xf16>    view operand with indices, keyword operand, explicit type
//! ```

use crate::types::Shape;
use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }
        impl $name {
            /// Every variant, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// The word in the text form.
            pub const fn word(self) -> &'static str { match self { $($name::$variant => $word,)* } }
            /// The variant written so, if there is one.
            pub fn from_word(w: &str) -> Option<$name> { match w { $($word => Some($name::$variant),)* _ => None } }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.word()) }
        }
    };
}

words! {
    /// An axis of the launch grid.
    GridAxis {
        /// The fastest axis.
        X "x",
        /// The middle axis.
        Y "y",
        /// The slowest axis.
        Z "z",
    }
}

words! {
    /// A comparison. Float comparisons with a NaN are false, except `ne`, which is true.
    CmpOp {
        /// Equal.
        Eq "eq",
        /// Not equal (true when a NaN is involved).
        Ne "ne",
        /// Less; signed for integers.
        Lt "lt",
        /// Less or equal; signed for integers.
        Le "le",
        /// Greater; signed for integers.
        Gt "gt",
        /// Greater or equal; signed for integers.
        Ge "ge",
        /// Less, unsigned; integers only.
        Ult "ult",
        /// Less or equal, unsigned; integers only.
        Ule "ule",
        /// Greater, unsigned; integers only.
        Ugt "ugt",
        /// Greater or equal, unsigned; integers only.
        Uge "uge",
    }
}

impl CmpOp {
    /// True for the comparisons that only integers have.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, CmpOp::Ult | CmpOp::Ule | CmpOp::Ugt | CmpOp::Uge)
    }
}

words! {
    /// How a reduction combines two elements.
    ReduceOp {
        /// Sum.
        Add "add",
        /// Product.
        Mul "mul",
        /// Smallest; propagates NaN; signed for integers.
        Minimum "minimum",
        /// Largest; propagates NaN; signed for integers.
        Maximum "maximum",
        /// Bitwise or logical and; integers and `i1`.
        And "and",
        /// Bitwise or logical or; integers and `i1`.
        Or "or",
        /// Bitwise or logical exclusive or; integers and `i1`.
        Xor "xor",
    }
}

words! {
    /// How a dot may round its operands.
    Precision {
        /// Products of the operands as they are.
        Exact "exact",
        /// `f32` operands become tf32 (10 fraction bits) before they are multiplied: rounded to nearest; a tie goes away from zero, or to even where a target's units do it so.
        Tf32 "tf32",
        /// `f32` operands are taken as `hi + lo`, `hi` being the operand rounded to tf32 and `lo` the rest rounded to tf32; the product is `lo * hi + hi * lo + hi * hi`.
        Tf32x3 "tf32x3",
    }
}

words! {
    /// What an atomic update does with the old value `o` and the operand `v`.
    AtomicOp {
        /// `o + v`; integers wrap, floats round to nearest even.
        Add "add",
        /// The smaller, signed; integers only.
        Min "min",
        /// The larger, signed; integers only.
        Max "max",
        /// The smaller, unsigned; integers only.
        Umin "umin",
        /// The larger, unsigned; integers only.
        Umax "umax",
        /// Bitwise and; integers only.
        And "and",
        /// Bitwise or; integers only.
        Or "or",
        /// Bitwise exclusive or; integers only.
        Xor "xor",
        /// `v`.
        Xchg "xchg",
    }
}

words! {
    /// What an atomic update orders besides itself.
    MemoryOrder {
        /// Nothing.
        Relaxed "relaxed",
        /// Accesses of the program behind it come after it.
        Acquire "acquire",
        /// Accesses of the program in front of it come before it.
        Release "release",
        /// Both.
        AcqRel "acq_rel",
    }
}

impl MemoryOrder {
    /// True if later accesses stay behind the update.
    pub const fn acquires(self) -> bool {
        matches!(self, MemoryOrder::Acquire | MemoryOrder::AcqRel)
    }
    /// True if earlier accesses stay in front of the update.
    pub const fn releases(self) -> bool {
        matches!(self, MemoryOrder::Release | MemoryOrder::AcqRel)
    }
}

words! {
    /// Among whom an update is atomic.
    Scope {
        /// The program instance itself.
        Cta "cta",
        /// All program instances on the device.
        Gpu "gpu",
        /// All devices and the host.
        Sys "sys",
    }
}

words! {
    /// How the caches should treat an access; never changes what is read or written.
    CacheHint {
        /// As the machine does it.
        Normal "normal",
        /// Used once: likely not again.
        Streaming "streaming",
        /// First to leave the near cache.
        EvictFirst "evict_first",
        /// Last to leave the near cache.
        EvictLast "evict_last",
        /// Not kept in the near cache.
        Bypass "bypass",
    }
}

words! {
    /// Which way a sort runs. A NaN comes last either way.
    SortOrder {
        /// Smallest first.
        Ascending "ascending",
        /// Largest first.
        Descending "descending",
    }
}

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
    /// A constant offset per dimension.
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
    /// A layout that is required.
    Layout(Box<crate::require::LayoutSpec>),
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
    /// `[0, 16]`: a constant offset per dimension.
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
    /// Holds regions, whose effects it has, or ends one.
    Control,
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
    /// Results from the regions' yields.
    Control,
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
    /// Documentation, as in `docs/language.md`.
    pub doc: &'static str,
}

impl OpInfo {
    /// Number of results of an op without regions; several results have one type. An op with regions has as many results as values
    /// travel through it.
    pub fn results(&self) -> usize {
        match self.rule {
            Rule::Split => 2,
            Rule::Philox => 4,
            Rule::Store | Rule::Scatter | Rule::Assert | Rule::Print | Rule::Control | Rule::ReduceBy | Rule::ScanBy => 0,
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
            | Rule::ArgTopK => 1,
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

macro_rules! define_ops {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal ($($operand:tt),*) $lead:tt $trail:tt $rule:ident $effects:ident $regions:literal;)*) => {
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
                        name: $name,
                        operands: &[$(operand!($operand)),*],
                        lead: attr!($lead),
                        trail: attr!($trail),
                        rule: Rule::$rule,
                        effects: Effects::$effects,
                        regions: $regions,
                        doc: concat!($($doc, "\n"),+),
                    },)*
                }
            }
        }
    };
}

define_ops! {
    /// A scalar literal. Written in place of an operand: `7`, `-1i64`, `0.5`, `1.5bf16`, `inf`, `nan`, `true`; without a suffix it takes the type that its place asks for, else `i32` or `f32`.
    Const "const" () Literal - Explicit Pure 0;
    /// This program instance's position on a grid axis, from 0.
    ProgramId "program_id" () Grid - Index Pure 0;
    /// The grid's extent along an axis.
    NumPrograms "num_programs" () Grid - Index Pure 0;
    /// A view's extent along a dimension.
    Dim "dim" (view) - Dim Index Pure 0;
    /// The index of each element along a dimension: 0, 1, 2, ….
    Iota "iota" () Dim - Iota Pure 0;
    /// A tile whose elements all equal a scalar.
    Splat "splat" (value) - - Splat Pure 0;

    /// Sum; integers wrap, floats round to nearest even.
    Add "add" (a, b) - - SameNumber Pure 0;
    /// Difference; integers wrap.
    Sub "sub" (a, b) - - SameNumber Pure 0;
    /// Product; integers wrap.
    Mul "mul" (a, b) - - SameNumber Pure 0;
    /// Quotient. Signed integers truncate toward zero; division by zero gives 0 and the most negative number divided by -1 wraps. Floats round to nearest even.
    Div "div" (a, b) - - SameNumber Pure 0;
    /// Signed integer remainder with the sign of the dividend: `a - div(a, b) * b`, so a zero divisor gives the dividend.
    Rem "rem" (a, b) - - SameInt Pure 0;
    /// Unsigned integer quotient; division by zero gives 0.
    DivU "div_u" (a, b) - - SameInt Pure 0;
    /// Unsigned integer remainder; a zero divisor gives the dividend.
    RemU "rem_u" (a, b) - - SameInt Pure 0;
    /// Upper half of the signed product of twice the width.
    MulHi "mulhi" (a, b) - - SameInt Pure 0;
    /// Upper half of the unsigned product of twice the width.
    MulHiU "mulhi_u" (a, b) - - SameInt Pure 0;
    /// Fused multiply-add `a * b + c` with one rounding; `f16` and `bf16` round the `f32` result of a fused `f32` operation.
    Fma "fma" (a, b, c) - - SameFloat Pure 0;
    /// Smaller operand; a NaN operand gives NaN; -0 is smaller than +0. Signed for integers.
    Minimum "minimum" (a, b) - - SameNumber Pure 0;
    /// Larger operand; a NaN operand gives NaN; +0 is larger than -0. Signed for integers.
    Maximum "maximum" (a, b) - - SameNumber Pure 0;
    /// Smaller operand, read unsigned.
    MinimumU "minimum_u" (a, b) - - SameInt Pure 0;
    /// Larger operand, read unsigned.
    MaximumU "maximum_u" (a, b) - - SameInt Pure 0;
    /// Smaller operand; of a number and a NaN, the number.
    MinNum "minnum" (a, b) - - SameFloat Pure 0;
    /// Larger operand; of a number and a NaN, the number.
    MaxNum "maxnum" (a, b) - - SameFloat Pure 0;
    /// Negation; integers wrap, floats flip the sign bit.
    Neg "neg" (a) - - SameNumber Pure 0;
    /// Absolute value; the most negative integer stays itself.
    Abs "abs" (a) - - SameNumber Pure 0;

    /// Bitwise (logical for `i1`) and.
    And "and" (a, b) - - SameBits Pure 0;
    /// Bitwise (logical for `i1`) or.
    Or "or" (a, b) - - SameBits Pure 0;
    /// Bitwise (logical for `i1`) exclusive or.
    Xor "xor" (a, b) - - SameBits Pure 0;
    /// Bitwise (logical for `i1`) complement.
    Not "not" (a) - - SameBits Pure 0;
    /// Shift left; a shift by the width or more (read unsigned) gives 0.
    Shl "shl" (a, b) - - SameInt Pure 0;
    /// Arithmetic shift right; a shift by the width or more gives the sign in every bit.
    ShrS "shr_s" (a, b) - - SameInt Pure 0;
    /// Logical shift right; a shift by the width or more gives 0.
    ShrU "shr_u" (a, b) - - SameInt Pure 0;

    /// Number of bits that are 1.
    Popcount "popcount" (a) - - SameInt Pure 0;
    /// Number of zero bits above the highest bit that is 1; the width for 0.
    Clz "clz" (a) - - SameInt Pure 0;

    /// `e^a`; error at most 2^-21 of the result for `f32`, 2^-50 for `f64`, or 2^-126 (2^-1022 for `f64`) if that is more: a subnormal result may be 0.
    Exp "exp" (a) - - SameFloat Pure 0;
    /// `2^a`; error at most 2^-22 of the result for `f32`, 2^-50 for `f64`, or 2^-126 (2^-1022 for `f64`) if that is more: a subnormal result may be 0.
    Exp2 "exp2" (a) - - SameFloat Pure 0;
    /// Natural logarithm; for `f32` the absolute error is at most 2^-21 on [0.5, 2], relative 2^-21 elsewhere; for `f64` relative 2^-50; NaN below 0, -inf at 0.
    Log "log" (a) - - SameFloat Pure 0;
    /// Base 2 logarithm; errors as `log`.
    Log2 "log2" (a) - - SameFloat Pure 0;
    /// Square root, rounded to nearest even; NaN below 0.
    Sqrt "sqrt" (a) - - SameFloat Pure 0;
    /// `1 / sqrt(a)`; relative error at most 2^-22 for `f32`.
    Rsqrt "rsqrt" (a) - - SameFloat Pure 0;
    /// Hyperbolic tangent; relative error at most 2^-20 for `f32`, 2^-50 for `f64`.
    Tanh "tanh" (a) - - SameFloat Pure 0;
    /// `1 / a`; relative error at most 2^-22 for `f32`, rounded to nearest even for `f64`.
    Rcp "rcp" (a) - - SameFloat Pure 0;
    /// Sine of `a` radians, of any size; relative error at most 2^-21 for `f32`, 2^-51 for `f64`; NaN for infinities.
    Sin "sin" (a) - - SameFloat Pure 0;
    /// Cosine of `a` radians, of any size; relative error at most 2^-21 for `f32`, 2^-51 for `f64`; NaN for infinities.
    Cos "cos" (a) - - SameFloat Pure 0;
    /// Error function; relative error at most 2^-21 for `f32`, 2^-50 for `f64`.
    Erf "erf" (a) - - SameFloat Pure 0;
    /// Largest integral value not above.
    Floor "floor" (a) - - SameFloat Pure 0;
    /// Smallest integral value not below.
    Ceil "ceil" (a) - - SameFloat Pure 0;
    /// Nearest integral value, ties to even.
    Round "round" (a) - - SameFloat Pure 0;
    /// Integral value toward zero.
    Trunc "trunc" (a) - - SameFloat Pure 0;

    /// Comparison of two values of one type.
    Cmp "cmp" (a, b) Cmp - Compare Pure 0;
    /// The second operand where the condition holds, else the third; the condition is a scalar or a tile of the shape.
    Select "select" (condition, a, b) - - Select Pure 0;
    /// Conversion by value. To a float: round to nearest even, overflow to infinity; where the type has none (`f8e4m3`, `f8e4m3fnuz`, `f8e5m2fnuz`, `f8e8m0`, `f4e2m1`), overflow and infinity to the largest number of the sign. To `f8e8m0`, which has only powers of two: a tie to the even code, zero to 2^-127, negative numbers to NaN. To `f4e2m1`, which has no NaN: NaN to 6. Float to integer: truncate, saturate, NaN gives 0. Integer to integer: wrap or sign-extend (`i1` extends with zeros; to `i1` means `!= 0`).
    Cast "cast" (a) - - Cast Pure 0;
    /// The same bits read as another type of the same width. Between elements of 8 and of 4 bits the last extent of a tile doubles or halves; the element with the even index is the low half.
    Bitcast "bitcast" (a) - - Bitcast Pure 0;

    /// Repeats the extents that are 1.
    Broadcast "broadcast" (a) - - Broadcast Pure 0;
    /// The same elements in row-major order under other extents.
    Reshape "reshape" (a) - - Reshape Pure 0;
    /// Permutes the dimensions: result dimension `i` is operand dimension `perm[i]`.
    Transpose "transpose" (a) - Perm Transpose Pure 0;
    /// Two tiles interleaved: element `[…, 0]` is of the first, `[…, 1]` of the second.
    Join "join" (a, b) - - Join Pure 0;
    /// The inverse of `join`: the elements `[…, 0]` and the elements `[…, 1]`.
    Split "split" (a) - - Split Pure 0;
    /// The second tile behind the first along an axis.
    Concat "concat" (a, b) - AxisDim Concat Pure 0;
    /// The elements at constant offsets: result element `i` is operand element `offset + i`.
    Slice "slice" (a) - Offsets Slice Pure 0;
    /// Reverses the order along an axis.
    Flip "flip" (a) - AxisDim Flip Pure 0;
    /// Combines the elements along an axis in a fixed tree (see `docs/language.md`), so that a result never depends on the schedule.
    Reduce "reduce" (a) Reduce AxisDim Reduce Pure 0;
    /// Inclusive scan: each element becomes the combination of the elements up to it along an axis, in a fixed tree (see `docs/language.md`), so that a result never depends on the schedule.
    Scan "scan" (a) Reduce AxisDim Scan Pure 0;
    /// As `scan` from the last element backward: `flip` of `scan` of `flip`.
    ScanReverse "scan_reverse" (a) Reduce AxisDim Scan Pure 0;
    /// `v1, v2 = reduce_by a, b, axis 0 combine v3, v4 with v5, v6 { … yield c, d }`: as `reduce`, of one or more tiles at a time, with an op of the author's: the region gets an element of each tile, then another of each, and yields what they combine to. The tree is that of `reduce` and takes elements out of their order: the op should be associative and commutative (for one that is not commutative, take the last element of `scan_by`). The result is that of this tree, whatever the op is.
    ReduceBy "reduce_by" ((*tiles)) - AxisDim ReduceBy Pure 1;
    /// `v1, v2 = scan_by a, b, axis 0 combine v3, v4 with v5, v6 { … yield c, d }`: as `scan`, of one or more tiles at a time, with an op of the author's, which should be associative; it gets what comes earlier along the axis first.
    ScanBy "scan_by" ((*tiles)) - AxisDim ScanBy Pure 1;
    /// As `scan_by` from the last element backward: `flip` of `scan_by` of `flip`.
    ScanReverseBy "scan_reverse_by" ((*tiles)) - AxisDim ScanBy Pure 1;
    /// Position of the smallest element along an axis: the lowest of equal ones (-0 and +0 are equal); of the first NaN if there is one. Signed for integers.
    ArgMin "argmin" (a) - AxisDim ArgReduce Pure 0;
    /// Position of the largest element along an axis; ties and NaN as for `argmin`.
    ArgMax "argmax" (a) - AxisDim ArgReduce Pure 0;
    /// Matrix product `a * b + c`: `MxK` by `KxN` plus `MxN`, or for each index of a leading dimension that all three have. Floats: products are exact, the sum may run in any order and round to the accumulator type at any step; with operands of 8 bits, parts of it over a depth of up to 128 may keep only 13 bits below the highest bit of their largest addend.
    Dot "dot" (a, b, c) - Precision Dot Pure 0;

    /// Reads a tile of a view at an offset per dimension. Elements outside the view, or whose mask is false, are `other` (0 if absent).
    Load "load" (view, [indices], (?mask), (?other)) - Cache Load Reads 0;
    /// Writes a tile to a view at an offset per dimension. Elements outside the view, or whose mask is false, are not written.
    Store "store" (view, [indices], value, (?mask)) - Cache Store Writes 0;
    /// Reads the elements of a view that tiles of indices name, one tile per dimension. Elements outside the view, or whose mask is false, are `other` (0 if absent).
    Gather "gather" (view, [indices], (?mask), (?other)) - Cache Gather Reads 0;
    /// Writes a tile to the elements of a view that tiles of indices name. Elements outside the view, or whose mask is false, are not written. Two elements of the tile that meet in one place must have the same bits; which of different ones would stay is not defined, and the interpreter refuses them.
    Scatter "scatter" (view, [indices], value, (?mask)) - Cache Scatter Writes 0;
    /// Updates the elements of a view that tiles of indices name, each in one indivisible step, and gives the values from before. Where the index is outside the view or the mask is false nothing happens and the result is 0. Updates that meet in one place happen one after the other in an order that is not defined (the interpreter takes the programs in its order and the elements in row-major order): integer results in memory do not depend on it; a float `add` of `n` values rounds after each step, so it is within `n * u * (sum of magnitudes)` of the exact sum, `u` being half a unit in the last place of 1, and `f32` may take a subnormal operand or sum for 0. Of floats only `add` and `xchg` exist.
    Atomic "atomic" (view, [indices], value, (?mask)) Atomic Sync Atomic Updates 0;
    /// Compare and swap, as `atomic`: where the element equals `compare` it becomes `value`; integers only. The result is the values from before.
    AtomicCas "atomic_cas" (view, [indices], compare, value, (?mask)) - Sync Atomic Updates 0;

    /// Reads elements of a tile along an axis: `result[…, i, …] = a[…, indices[…, i, …], …]`. An index below 0 or beyond the axis gives 0.
    GatherTile "gather_tile" (a, indices) - AxisDim GatherTile Pure 0;
    /// Counts how often each of the numbers 0, 1, 2, … appears among the elements of an integer tile; the written type says how many numbers. Other numbers, and elements whose mask is false, are not counted.
    Histogram "histogram" (a, (?mask)) - - Histogram Pure 0;
    /// The elements of each line along an axis in order. Integers are signed, `false` comes before `true`, -0 before +0, and NaN (of which the result has the default one) last in either direction.
    Sort "sort" (a) Sort AxisDim Sort Pure 0;
    /// Where the elements of `sort` came from: positions along the axis. Equal elements keep their order in either direction, so the result is unique.
    ArgSort "argsort" (a) Sort AxisDim ArgSort Pure 0;
    /// The first elements of `sort`, as many as the written type has along the axis: `descending` gives the largest.
    TopK "top_k" (a) Sort AxisDim TopK Pure 0;
    /// The first elements of `argsort`: of equal elements the one at the lowest position comes first.
    ArgTopK "arg_top_k" (a) Sort AxisDim ArgTopK Pure 0;
    /// Philox4x32-10 of Salmon, Moraes, Dror and Shaw (2011): four random words from a counter of four words and a key of two. Ten rounds of `(c0, c1, c2, c3) = (mulhi_u(0xcd9e8d57, c2) ^ c1 ^ k0, 0xcd9e8d57 * c2, mulhi_u(0xd2511f53, c0) ^ c3 ^ k1, 0xd2511f53 * c0)`, with `k0 += 0x9e3779b9` and `k1 += 0xbb67ae85` in between.
    Philox "philox" (c0, c1, c2, c3, k0, k1) - - Philox Pure 0;
    /// The operand, which the author promises to be a multiple of a number; wider accesses follow from it. The interpreter checks the promise, no device does.
    Assume "assume" (a) - Divisor Assume Pure 0;
    /// The operand, which from here on lies in registers in the layout given, and so does what is computed from it element by element, accumulated into it, or carried by loops and choices, up to a `release_layout`. Two requirements that are written differently must not meet in one value. Numbers do not change.
    RequireLayout "require_layout" (a) - Layout Held Pure 0;
    /// The operand, whose layout is free again.
    ReleaseLayout "release_layout" (a) - - Held Pure 0;
    /// Stops the launch with an error unless every element holds.
    Assert "assert" (condition) - - Assert Observes 0;
    /// Reports values: the interpreter keeps a line per program instance; no device has a way to print.
    Print "print" ((*values)) - - Print Observes 0;

    /// `for v1 in lo..hi step s carry v2 = init { … yield next }`: runs while the index is below `hi` (signed); the results are the carried values. The step must be positive; one that is not stops the launch.
    For "for" (lo, hi, step, (*init)) - - Control Control 1;
    /// `while carry v2 = init { … yield condition } do carry v3 { … yield next }`: repeats while the first region yields true.
    While "while" ((*init)) - - Control Control 2;
    /// `if c { … yield a } else { … yield b }` on a scalar `i1`.
    If "if" (condition) - - Control Control 2;
    /// Ends a region with its results.
    Yield "yield" ((*values)) - - Control Control 0;
}

impl Op {
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
