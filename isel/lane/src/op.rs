//! The operations of lanes with one and two operands: the numbers that each takes, what each counts for in the size of a program, and
//! which of them a machine may lack.

use crate::value::LTy;
use std::fmt;
use tilelift_ir::{Class, Scalar};

/// The types that an instruction is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    /// All of them.
    Any,
    /// Integers, floats and truth values.
    Scalars,
    /// Integers and floats.
    Numbers,
    /// Floats.
    Floats,
    /// Integers.
    Ints,
    /// Integers and truth values.
    Bits,
    /// `f32`.
    Single,
    /// `i32`, that stands for codes.
    Words,
    /// Floats, `i32` and `i64`.
    Fused,
    /// Numbers of 8 or 16 bits, of which a word holds several.
    Parts,
    /// What has 32 bits.
    Lane,
    /// Floats, `i32` and `i64`, to which memory adds at once.
    Added,
    /// Numbers of 32 or 64 bits.
    Wide,
    /// `i32` and `i64`.
    WideInts,
}

impl Takes {
    /// True if a value of the type is taken.
    pub fn allows(self, ty: LTy) -> bool {
        let LTy::Num(s) = ty else { return matches!(self, Takes::Any | Takes::Lane) };
        match self {
            Takes::Any => true,
            Takes::Scalars => matches!(s.class(), Class::Int | Class::Float | Class::Bool),
            Takes::Numbers => matches!(s.class(), Class::Int | Class::Float),
            Takes::Floats => s.class() == Class::Float,
            Takes::Ints => s.class() == Class::Int,
            Takes::Bits => matches!(s.class(), Class::Int | Class::Bool),
            Takes::Single => s == Scalar::F32,
            Takes::Words => s == Scalar::I32,
            Takes::Fused => s.class() == Class::Float || matches!(s, Scalar::I32 | Scalar::I64),
            Takes::Parts => matches!(s.bits(), 8 | 16),
            Takes::Lane => matches!(s, Scalar::I32 | Scalar::F32),
            Takes::Added => matches!(s, Scalar::I32 | Scalar::I64) || (s.is_float() && s.bits() >= 16),
            Takes::Wide => s.bits() >= 32,
            Takes::WideInts => s.is_int() && s.bits() >= 32,
        }
    }

    /// What is taken, for messages.
    pub const fn wanted(self) -> &'static str {
        match self {
            Takes::Any => "any type",
            Takes::Scalars => "bool or int or float",
            Takes::Numbers => "int or float",
            Takes::Floats => "float",
            Takes::Ints => "int",
            Takes::Bits => "int or bool",
            Takes::Single => "f32",
            Takes::Words => "i32",
            Takes::Fused => "a float, i32 or i64",
            Takes::Parts => "a number of 8 or 16 bits",
            Takes::Lane => "a type of 32 bits",
            Takes::Added => "i32, i64 or a float of 16 bits or more",
            Takes::Wide => "a number of 32 or 64 bits",
            Takes::WideInts => "i32 or i64",
        }
    }
}

/// An enum of operations from rows of a name, what it takes, what it counts for in the size of a program, and `optional` if a machine may
/// lack it.
macro_rules! operations {
    ($(#[$meta:meta])* pub enum $Name:ident { $($(#[$doc:meta])* $V:ident $takes:ident $size:literal $($optional:ident)?,)* }) => {
        $(#[$meta])*
        pub enum $Name { $($(#[$doc])* $V,)* }

        impl $Name {
            /// All of them, in order.
            pub const ALL: &'static [$Name] = &[$($Name::$V),*];

            /// The numbers that it takes.
            pub const fn takes(self) -> Takes {
                match self {
                    $($Name::$V => Takes::$takes,)*
                }
            }

            /// What it counts for in the size of a program: 1 for itself, and 1 for about eight machine instructions that it becomes.
            pub const fn size(self) -> u64 {
                match self {
                    $($Name::$V => $size,)*
                }
            }

            /// True if only some machines have it, for some types: those that a target's table names.
            pub const fn is_optional(self) -> bool {
                match self {
                    $($Name::$V => operations!(@optional $($optional)?),)*
                }
            }
        }
    };
    (@optional) => { false };
    (@optional optional) => { true };
}

operations! {
    /// One-operand operations; meanings as the tile ops of the same name. What is optional exists for the types in
    /// [`crate::machine::Target::functions`]; the last nine are for machines that convert codes, see [`crate::machine::Target::code_casts`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
    #[allow(missing_docs)]
    pub enum UnOp {
        Neg Numbers 1,
        Abs Numbers 1,
        Not Bits 1,
        Exp2 Floats 1 optional,
        Log2 Floats 1 optional,
        Sqrt Floats 1 optional,
        Rsqrt Floats 1 optional,
        Floor Floats 1,
        Ceil Floats 1,
        Round Floats 1,
        Trunc Floats 1,
        Rcp Floats 1 optional,
        /// As [`UnOp::Rcp`], but subnormal operands and results may count as zeros.
        RcpNormal Single 1 optional,
        Popcount Ints 1,
        Clz Ints 1,
        /// The same bits in registers of their own, which others may not read: those of a word of operand A that is still being multiplied.
        Own Words 1,
        /// An `f32` rounded to the nearest `bf16`.
        RoundBf16 Single 1,
        /// The code of the `f8e4m3` nearest to the `f32` of those bits, infinities becoming the largest number; `i32` only, as the next
        /// three.
        EncodeE4M3 Words 2,
        /// As [`UnOp::EncodeE4M3`], for `f8e5m2`; it saturates, too.
        EncodeE5M2 Words 2,
        /// The bits of the `f32` that the code of an `f8e4m3` stands for; upper bits of the code do not matter.
        DecodeE4M3 Words 2,
        /// As [`UnOp::DecodeE4M3`], for `f8e5m2`.
        DecodeE5M2 Words 2,
        /// As [`UnOp::EncodeE4M3`], for `f8e4m3fnuz`; exists where [`crate::machine::Target::functions`] says so, as the next three.
        EncodeE4M3Fnuz Words 2 optional,
        /// As [`UnOp::EncodeE4M3`], for `f8e5m2fnuz`.
        EncodeE5M2Fnuz Words 2 optional,
        /// As [`UnOp::DecodeE4M3`], for `f8e4m3fnuz`.
        DecodeE4M3Fnuz Words 2 optional,
        /// As [`UnOp::DecodeE4M3`], for `f8e5m2fnuz`.
        DecodeE5M2Fnuz Words 2 optional,
        /// The two `f16` that the codes of `f8e4m3` in the lower bytes stand for; the upper bytes do not matter.
        DecodeE4M3x2 Words 1,
    }
}

operations! {
    /// Two-operand operations; meanings as the tile ops of the same name (division by zero, wide shifts and NaN included).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
    #[allow(missing_docs)]
    pub enum BinOp {
        Add Numbers 1,
        Sub Numbers 1,
        Mul Numbers 1,
        Div Numbers 3,
        Rem Ints 3,
        Minimum Numbers 1,
        Maximum Numbers 1,
        MinNum Floats 1,
        MaxNum Floats 1,
        And Bits 1,
        Or Bits 1,
        Xor Bits 1,
        Shl Ints 1,
        ShrS Ints 1,
        ShrU Ints 1,
        DivU Ints 3,
        RemU Ints 3,
        MulHi Ints 1,
        MulHiU Ints 1,
        MinimumU Ints 1,
        MaximumU Ints 1,
    }
}

/// What a bulk store does to the elements that are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs)]
pub enum Reduction {
    Add,
    Minimum,
    Maximum,
    And,
    Or,
    Xor,
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reduction::Add => "add",
            Reduction::Minimum => "min",
            Reduction::Maximum => "max",
            Reduction::And => "and",
            Reduction::Or => "or",
            Reduction::Xor => "xor",
        })
    }
}
