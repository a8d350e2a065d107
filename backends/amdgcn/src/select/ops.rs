//! Operations of lanes by the numbers that they take, as patterns: whoever refuses those of other numbers names them by these, so that the
//! compiler asks for a new one wherever it could be meant.

use tilelift_ir::{Class, Scalar};
use tilelift_lane::LTy;

/// Numbers by how they are computed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// Integers of so many bits, in a register.
    Int(u32),
    /// Integers in two registers.
    Wide,
    /// Floats.
    Float(Scalar),
    /// Truth values.
    Truth,
    /// Nothing is computed: words of parts, numbers for storage alone.
    None,
}

impl Numbers {
    /// How values of a type are computed.
    pub(super) fn of(ty: LTy) -> Numbers {
        let LTy::Num(s) = ty else { return Numbers::None };
        match s.class() {
            Class::Int if s.bits() > 32 => Numbers::Wide,
            Class::Int => Numbers::Int(s.bits()),
            Class::Float => Numbers::Float(s),
            Class::Bool => Numbers::Truth,
            Class::Narrow | Class::NarrowInt => Numbers::None,
        }
    }
}

/// Numbers for storage and matrix products alone.
macro_rules! narrow {
    () => {
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 | Scalar::F4E2M1 | Scalar::I4
    };
}

/// Of one operand, for floats alone.
macro_rules! float_un {
    () => {
        UnOp::Exp2
            | UnOp::Log2
            | UnOp::Sqrt
            | UnOp::Rsqrt
            | UnOp::Floor
            | UnOp::Ceil
            | UnOp::Round
            | UnOp::Trunc
            | UnOp::Rcp
            | UnOp::RcpNormal
            | UnOp::RoundBf16
    };
}

/// Of one operand, on words alone: the same in other registers, and the codes of 8-bit floats.
macro_rules! word_un {
    () => {
        UnOp::Own
            | UnOp::EncodeE4M3
            | UnOp::EncodeE5M2
            | UnOp::EncodeE4M3Fnuz
            | UnOp::EncodeE5M2Fnuz
            | UnOp::DecodeE4M3
            | UnOp::DecodeE5M2
            | UnOp::DecodeE4M3Fnuz
            | UnOp::DecodeE5M2Fnuz
            | UnOp::DecodeE4M3x2
    };
}

/// Of two operands, for all numbers but truth values.
macro_rules! number_bin {
    () => {
        BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Minimum | BinOp::Maximum
    };
}

/// Of two operands, for floats alone.
macro_rules! float_bin {
    () => {
        BinOp::MinNum | BinOp::MaxNum
    };
}

/// Of two operands, on bits.
macro_rules! bit_bin {
    () => {
        BinOp::And | BinOp::Or | BinOp::Xor
    };
}

/// Of two operands, for integers alone.
macro_rules! int_bin {
    () => {
        BinOp::Rem
            | BinOp::Shl
            | BinOp::ShrS
            | BinOp::ShrU
            | BinOp::DivU
            | BinOp::RemU
            | BinOp::MulHi
            | BinOp::MulHiU
            | BinOp::MinimumU
            | BinOp::MaximumU
    };
}

pub(super) use {bit_bin, float_bin, float_un, int_bin, narrow, number_bin, word_un};
