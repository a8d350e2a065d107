//! What functions are made of: the type that one is written for, constants, polynomials, signs.

use tilelift_ir::{CmpOp, Scalar, num};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, UnOp};

pub(super) const F64: LTy = LTy::Num(Scalar::F64);

/// A type that functions are written for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wide {
    F32,
    F64,
}

impl Wide {
    pub(super) fn scalar(self) -> Scalar {
        match self {
            Wide::F32 => Scalar::F32,
            Wide::F64 => Scalar::F64,
        }
    }
}

/// A function of operands of an element type, from the same function of `f32` or `f64`.
pub(super) fn widened<const N: usize>(
    b: &mut LaneBuilder,
    args: [LVal; N],
    elem: Scalar,
    f: impl FnOnce(&mut LaneBuilder, [LVal; N], Wide) -> LVal,
) -> LVal {
    match elem {
        Scalar::F64 => f(b, args, Wide::F64),
        Scalar::F32 => f(b, args, Wide::F32),
        _ => {
            let args = args.map(|a| b.cvt(a, LTy::F32));
            let value = f(b, args, Wide::F32);
            b.cvt(value, LTy::Num(elem))
        }
    }
}

/// An optional operation, if the machine has it.
pub(super) fn own(b: &mut LaneBuilder, op: UnOp, a: LVal, elem: Scalar) -> Option<LVal> {
    b.functions.contains(&(op, elem)).then(|| b.un(op, a))
}

/// A function of `f32` by way of that of `f64`, for machines that have nothing nearer.
pub(super) fn doubled(b: &mut LaneBuilder, a: LVal, f: impl FnOnce(&mut LaneBuilder, LVal) -> LVal) -> LVal {
    let a = b.cvt(a, F64);
    let value = f(b, a);
    b.cvt(value, LTy::F32)
}

pub(super) fn number(b: &mut LaneBuilder, x: f64, elem: Scalar) -> LVal {
    b.constant(LTy::Num(elem), num::to_bits(x, elem))
}

/// An integer of the type of another value.
pub(super) fn integer(b: &mut LaneBuilder, like: LVal, c: i64) -> LVal {
    if b.ty(like) == LTy::I32 { b.i32(c) } else { b.i64(c) }
}

/// `a op c`, of integers.
pub(super) fn with(b: &mut LaneBuilder, op: BinOp, a: LVal, c: i64) -> LVal {
    let c = integer(b, a, c);
    b.bin(op, a, c)
}

/// Where `a op c`, of integers.
pub(super) fn test(b: &mut LaneBuilder, op: CmpOp, a: LVal, c: i64) -> LVal {
    let c = integer(b, a, c);
    b.cmp(op, a, c)
}

/// `c0 + x (c1 + x (…))`.
pub(super) fn polynomial(b: &mut LaneBuilder, x: LVal, coefficients: &[f64], elem: Scalar) -> LVal {
    let mut terms = coefficients.iter().rev().map(|&c| num::to_bits(c, elem));
    let ty = LTy::Num(elem);
    let last = terms.next().unwrap_or(0);
    let last = b.constant(ty, last);
    let Some(next) = terms.next() else { return last };
    // Constants stand behind, where instructions take them as they are.
    let next = b.constant(ty, next);
    let mut sum = b.fma(x, last, next);
    for c in terms {
        let c = b.constant(ty, c);
        sum = b.fma(sum, x, c);
    }
    sum
}

/// A number that is not negative, with the sign of another.
pub(super) fn signed_as(b: &mut LaneBuilder, a: LVal, sign: LVal) -> LVal {
    let ty = b.ty(a);
    let (int, bit) = if ty == F64 { (LTy::I64, i64::MIN) } else { (LTy::I32, i64::from(i32::MIN)) };
    let (a, sign) = (b.bitcast(a, int), b.bitcast(sign, int));
    let sign = with(b, BinOp::And, sign, bit);
    let a = b.bin(BinOp::Or, a, sign);
    b.bitcast(a, ty)
}
