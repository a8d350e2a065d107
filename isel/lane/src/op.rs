//! The operations of lanes with one and two operands, and the numbers that each takes.

use crate::LTy;
use tilelift_ir::{Class, Scalar};

/// The numbers that an operation takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
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
}

impl Takes {
    /// The classes of the numbers.
    pub const fn classes(self) -> &'static [Class] {
        match self {
            Takes::Numbers => &[Class::Int, Class::Float],
            Takes::Floats | Takes::Single => &[Class::Float],
            Takes::Ints | Takes::Words => &[Class::Int],
            Takes::Bits => &[Class::Int, Class::Bool],
        }
    }

    /// True if a value of the type is such a number.
    pub fn allows(self, ty: LTy) -> bool {
        match (self, ty) {
            (_, LTy::B32) => false,
            (Takes::Single, LTy::Num(s)) => s == Scalar::F32,
            (Takes::Words, LTy::Num(s)) => s == Scalar::I32,
            (Takes::Numbers | Takes::Floats | Takes::Ints | Takes::Bits, LTy::Num(s)) => self.classes().contains(&s.class()),
        }
    }
}

/// An enum of operations from rows of a name and what it takes.
macro_rules! operations {
    ($(#[$meta:meta])* pub enum $Name:ident { $($(#[$doc:meta])* $V:ident $takes:ident,)* }) => {
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
        }
    };
}

operations! {
    /// One-operand operations; meanings as the tile ops of the same name. The last four are for machines that convert codes, see
    /// [`crate::Target::code_casts`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
    #[allow(missing_docs)]
    pub enum UnOp {
        Neg Numbers,
        Abs Numbers,
        Not Bits,
        Exp Floats,
        Exp2 Floats,
        Log Floats,
        Log2 Floats,
        Sqrt Floats,
        Rsqrt Floats,
        Tanh Floats,
        Floor Floats,
        Ceil Floats,
        Round Floats,
        Trunc Floats,
        Rcp Floats,
        Sin Floats,
        Cos Floats,
        Erf Floats,
        Popcount Ints,
        Clz Ints,
        /// An `f32` rounded to the nearest `bf16`.
        RoundBf16 Single,
        /// The code of the `f8e4m3` nearest to the `f32` of those bits, infinities becoming the largest number; `i32` only, as the next
        /// three.
        EncodeE4M3 Words,
        /// As [`UnOp::EncodeE4M3`], for `f8e5m2`; it saturates, too.
        EncodeE5M2 Words,
        /// The bits of the `f32` that the code of an `f8e4m3` stands for; upper bits of the code do not matter.
        DecodeE4M3 Words,
        /// As [`UnOp::DecodeE4M3`], for `f8e5m2`.
        DecodeE5M2 Words,
    }
}

operations! {
    /// Two-operand operations; meanings as the tile ops of the same name (division by zero, wide shifts and NaN included).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
    #[allow(missing_docs)]
    pub enum BinOp {
        Add Numbers,
        Sub Numbers,
        Mul Numbers,
        Div Numbers,
        Rem Ints,
        Minimum Numbers,
        Maximum Numbers,
        MinNum Floats,
        MaxNum Floats,
        And Bits,
        Or Bits,
        Xor Bits,
        Shl Ints,
        ShrS Ints,
        ShrU Ints,
        DivU Ints,
        RemU Ints,
        MulHi Ints,
        MulHiU Ints,
        MinimumU Ints,
        MaximumU Ints,
    }
}
