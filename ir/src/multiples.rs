//! Multiples: of an integer, how many low bits are known to be zero, so that a power of two divides it.
//!
//! [`low_zeros`] is the rule for one op. What follows uses from definitions (loops, equalities) is the caller's affair: the optimizer asks
//! it for classes of equal values, the lowering for the values of a kernel.

use crate::ops::{Attr, Op};
use crate::types::{Scalar, Type};

/// All bits that are counted: what 0 has.
pub const ALL_ZEROS: u8 = 63;

/// What is known of an operand.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Its type.
    pub ty: &'a Type,
    /// Its low bits that are zero, at most [`ALL_ZEROS`].
    pub zeros: u8,
    /// Its value.
    pub value: Option<i64>,
}

/// The low bits of a number that are zero.
pub fn zeros_of(x: i64) -> u8 {
    if x == 0 { ALL_ZEROS } else { x.trailing_zeros().min(63) as u8 }
}

/// The power of two that a constant is.
fn exponent(x: Option<i64>) -> Option<u8> {
    x.filter(|&x| x > 0 && x & (x - 1) == 0).map(zeros_of)
}

/// Low bits that are zero in every element of what a pure op makes, from those of its operands: never more than there are. What the
/// operands lose, the result may lose, but it gains nothing.
pub fn low_zeros(op: Op, attrs: &[Attr], to: &Type, args: &[Known<'_>]) -> u8 {
    let zeros = |i: usize| args.get(i).map_or(0, |k| k.zeros);
    let value = |i: usize| args.get(i).and_then(|k| k.value);
    // Quotients of what the divisor divides have no remainder.
    let without = |by: Option<u8>| by.map_or(0, |by| zeros(0).saturating_sub(by));
    match op {
        Op::Const => match attrs.first() {
            Some(Attr::Literal(crate::ops::Literal::Int(x))) => zeros_of(*x),
            _ => 0,
        },
        Op::Add
        | Op::Sub
        | Op::Minimum
        | Op::Maximum
        | Op::MinimumU
        | Op::MaximumU
        | Op::Rem
        | Op::RemU
        | Op::Or
        | Op::Xor
        | Op::Concat
        | Op::Join => zeros(0).min(zeros(1)),
        Op::Select => zeros(1).min(zeros(2)),
        Op::Mul => (zeros(0) + zeros(1)).min(ALL_ZEROS),
        Op::Shl => match value(1) {
            Some(s @ 0..=63) => (zeros(0) + s as u8).min(ALL_ZEROS),
            _ => zeros(0),
        },
        Op::ShrS | Op::ShrU => without(value(1).filter(|s| (0..=62).contains(s)).map(|s| s as u8)),
        Op::Div | Op::DivU => without(exponent(value(1))),
        Op::And => zeros(0).max(zeros(1)),
        // A cast to `i1` asks whether there is any bit.
        Op::Cast if args.first().is_some_and(|k| k.ty.elem().is_int()) && to.elem().is_int() && to.elem() != Scalar::I1 => zeros(0),
        Op::Assume => match attrs.first() {
            Some(Attr::Divisor(n)) => zeros(0).max(zeros_of(i64::from(*n))),
            _ => zeros(0),
        },
        Op::Dim => match (args.first().and_then(|k| k.ty.as_view()), attrs.first()) {
            (Some(view), Some(Attr::Dim(d))) => view.dims.get(*d as usize).map_or(0, |e| zeros_of(i64::from(e.divisor()))),
            _ => 0,
        },
        Op::Neg
        | Op::Abs
        | Op::Splat
        | Op::Broadcast
        | Op::Reshape
        | Op::Transpose
        | Op::Slice
        | Op::Flip
        | Op::Split
        | Op::RequireLayout
        | Op::ReleaseLayout => zeros(0),
        _ => 0,
    }
}
