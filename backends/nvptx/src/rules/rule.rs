//! A row of the tables: what it is for, when it holds, what it prints.

use tilelift_ir::{CmpOp, Scalar};
use tilelift_isel::lane::{BinOp, LTy, Opcode, UnOp};

/// What a rule is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    /// One operand.
    Un(UnOp),
    /// Two operands.
    Bin(BinOp),
    /// Another computation of one value; the type is that of the result.
    Plain(Opcode),
    /// A comparison; the type is that of the operands.
    Cmp(CmpOp),
    /// A conversion to the row's type from this one.
    Cvt(Scalar),
    /// The same bits from another register class.
    Bits(LTy),
}

/// When a rule holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    /// Always.
    Always,
    /// Operand b is a power of two; `$k` is its logarithm.
    Power,
    /// Operand b is a power of two, and not the lowest number, as signed ones are read; `$k` is its logarithm.
    PositivePower,
    /// Operand b is a constant; `$k` is it, read unsigned, at most 64: a shift amount.
    Amount,
    /// Operand b is a constant other than 0 and -1.
    Divisor,
}

/// What a rule prints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    /// These lines.
    Lines(&'static [&'static str]),
    /// The `f32` rule of the same key, between conversions.
    ViaF32,
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// Its name, for tests and error messages.
    #[cfg_attr(not(test), allow(dead_code))]
    pub(crate) name: &'static str,
    pub(crate) key: Key,
    pub(crate) ty: LTy,
    pub(crate) when: When,
    pub(crate) body: Body,
}

/// Rows from `"name" key, type, condition => lines;`.
macro_rules! rows {
    ($($name:literal $key:expr, $ty:expr, $when:ident => $body:expr;)*) => {
        &[$($crate::rules::rule::Rule { name: $name, key: $key, ty: $ty, when: $crate::rules::rule::When::$when, body: $body },)*]
    };
}
pub(super) use rows;

/// Lines of a row.
pub(super) const fn lines(lines: &'static [&'static str]) -> Body {
    Body::Lines(lines)
}
