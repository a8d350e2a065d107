//! The op table: every op of the tile IR, declared once.
//!
//! The rows stand in `table.rs`. A row gives the name, operands, attributes, typing rule, effects and work; [`Op`], the parser, the printer, the verifier, the
//! builder's methods and `docs/language.md` follow from it. To add an op, add a row there, its typing rule in `typing/` if no
//! existing one fits, and let the exhaustive matches of the interpreter and the lowering lead you through the rest.
//!
//! ```text
//! v3 = cmp lt v1, v2                     lead attribute, operands
//! v4 = reduce add v3, axis 1             lead attribute, operand, trailing attribute
//! v5 = load v0[v1, 0], mask=v4 : tile<16x64xf16>    view operand with indices, keyword operand, explicit type
//! ```

mod explicit;
mod info;
#[macro_use]
mod pattern;
mod words;

pub use explicit::Task;
pub use info::{Attr, AttrKind, Effects, ErrorBound, Literal, OpInfo, OperandInfo, OperandKind, Rule, Work};
pub use table::Op;
pub use words::{AtomicOp, CacheHint, CmpOp, GridAxis, MemoryOrder, Precision, ReduceOp, Scope, SortOrder};

use crate::types::Scalar;
use std::fmt;

macro_rules! operand {
    ($n:ident) => {
        OperandInfo { name: stringify!($n), kind: OperandKind::Plain }
    };
    ([$n:ident]) => {
        OperandInfo { name: stringify!($n), kind: OperandKind::Indices }
    };
    ((? $n:ident)) => {
        OperandInfo { name: stringify!($n), kind: OperandKind::Keyword }
    };
    ((* $n:ident)) => {
        OperandInfo { name: stringify!($n), kind: OperandKind::Variadic }
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

impl Op {
    /// True for the ops of explicit control: tasks, local memory, barriers, async units, clusters and channels.
    pub fn is_explicit(self) -> bool {
        matches!(self, explicit_ops!())
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

    /// Where A, B and the accumulator of a matrix product stand among the operands of its op.
    pub const fn factors(self) -> Option<[usize; 3]> {
        match self {
            Op::Dot | Op::AsyncDot => Some([0, 1, 2]),
            Op::DotScaled => Some([0, 2, 4]),
            _ => None,
        }
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
            | Rule::DotScaled
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
