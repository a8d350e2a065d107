//! Ops that work on each element by itself: arithmetic, bits, functions, comparisons, conversions.
//!
//! Each helper runs one loop in `f64` or `i64` and then one that rounds or wraps.

use super::codec::{round_all, unsigned, wrap_all};
use super::data::{Data, map, zip};
use super::error::Fault;
use crate::codec::{float_to_int, int_to_float};
use std::rc::Rc;
use tilelift_ir::num;
use tilelift_ir::ops::CmpOp;
use tilelift_ir::types::Scalar;

const MIXED: Fault = Fault::Malformed("operands of different classes");
const NOT_FLOAT: Fault = Fault::Malformed("an integer where a float belongs");

fn rounded(mut a: Rc<Vec<f64>>, elem: Scalar) -> Data {
    round_all(Rc::make_mut(&mut a).as_mut_slice(), elem);
    Data::Float(a)
}

fn wrapped(mut a: Rc<Vec<i64>>, elem: Scalar) -> Data {
    wrap_all(Rc::make_mut(&mut a).as_mut_slice(), elem);
    Data::Int(a)
}

/// A unary op on numbers: `f` in `f64` then rounded, or `g` in `i64` then wrapped.
pub(crate) fn number1(elem: Scalar, a: Data, f: impl Fn(f64) -> f64, g: impl Fn(i64) -> i64) -> Data {
    match a {
        Data::Float(a) => rounded(map(a, f), elem),
        Data::Int(a) => wrapped(map(a, g), elem),
    }
}

/// A unary op on floats.
pub(crate) fn float1(elem: Scalar, a: Data, f: impl Fn(f64) -> f64) -> Result<Data, Fault> {
    match a {
        Data::Float(a) => Ok(rounded(map(a, f), elem)),
        Data::Int(_) => Err(NOT_FLOAT),
    }
}

/// A binary op on numbers: `f` in `f64` then rounded, or `g` in `i64` then wrapped.
pub(crate) fn number2(elem: Scalar, a: Data, b: Data, f: impl Fn(f64, f64) -> f64, g: impl Fn(i64, i64) -> i64) -> Result<Data, Fault> {
    match (a, b) {
        (Data::Float(a), Data::Float(b)) => Ok(rounded(zip(a, &b, f), elem)),
        (Data::Int(a), Data::Int(b)) => Ok(wrapped(zip(a, &b, g), elem)),
        (Data::Float(_), Data::Int(_)) | (Data::Int(_), Data::Float(_)) => Err(MIXED),
    }
}

/// A binary op on floats.
pub(crate) fn float2(elem: Scalar, a: Data, b: Data, f: impl Fn(f64, f64) -> f64) -> Result<Data, Fault> {
    match (a, b) {
        (Data::Float(a), Data::Float(b)) => Ok(rounded(zip(a, &b, f), elem)),
        (Data::Float(_) | Data::Int(_), Data::Float(_) | Data::Int(_)) => Err(NOT_FLOAT),
    }
}

/// A binary op on integers or truth values.
pub(crate) fn int2(elem: Scalar, a: Data, b: Data, g: impl Fn(i64, i64) -> i64) -> Result<Data, Fault> {
    Ok(wrapped(zip(a.into_ints()?, b.as_ints()?, g), elem))
}

/// A unary op on integers read unsigned.
pub(crate) fn unsigned1(elem: Scalar, a: Data, g: impl Fn(u64) -> u64) -> Result<Data, Fault> {
    let bits = elem.bits();
    Ok(wrapped(map(a.into_ints()?, |x| g(unsigned(x, bits)) as i64), elem))
}

/// A binary op on integers read unsigned.
pub(crate) fn unsigned2(elem: Scalar, a: Data, b: Data, g: impl Fn(u64, u64) -> u64) -> Result<Data, Fault> {
    let bits = elem.bits();
    int2(elem, a, b, |x, y| g(unsigned(x, bits), unsigned(y, bits)) as i64)
}

/// Quotient toward zero; 0 for a zero divisor.
pub(crate) fn div_int(a: i64, b: i64) -> i64 {
    if b == 0 { 0 } else { a.wrapping_div(b) }
}

/// Remainder with the sign of the dividend; the dividend for a zero divisor.
pub(crate) fn rem_int(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { a.wrapping_rem(b) }
}

/// Smaller, or NaN if either is; -0 below +0.
pub(crate) fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// Larger, or NaN if either is; +0 above -0.
pub(crate) fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a > b || (a == b && a.is_sign_positive()) {
        a
    } else {
        b
    }
}

/// Smaller number; a NaN gives way.
pub(crate) fn minnum(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        minimum(a, b)
    }
}

/// Larger number; a NaN gives way.
pub(crate) fn maxnum(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        maximum(a, b)
    }
}

/// `a * b + c`, fused. `f16` and `bf16` fuse in `f32` and round that.
pub(crate) fn fma(elem: Scalar, a: Data, b: Data, c: Data) -> Result<Data, Fault> {
    let (Data::Float(a), Data::Float(b), Data::Float(mut c)) = (a, b, c) else { return Err(NOT_FLOAT) };
    let out = Rc::make_mut(&mut c);
    let ab = a.iter().zip(b.iter());
    if elem == Scalar::F64 {
        out.iter_mut().zip(ab).for_each(|(z, (&x, &y))| *z = x.mul_add(y, *z));
    } else {
        out.iter_mut().zip(ab).for_each(|(z, (&x, &y))| *z = f64::from((x as f32).mul_add(y as f32, *z as f32)));
        round_all(out, elem);
    }
    Ok(Data::Float(c))
}

/// Shift left; 0 from the width on.
pub(crate) fn shl(elem: Scalar, a: Data, b: Data) -> Result<Data, Fault> {
    let bits = elem.bits();
    int2(elem, a, b, |x, n| if unsigned(n, bits) >= u64::from(bits) { 0 } else { x << n })
}

/// Arithmetic shift right; the sign from the width on.
pub(crate) fn shr_s(elem: Scalar, a: Data, b: Data) -> Result<Data, Fault> {
    let bits = elem.bits();
    int2(elem, a, b, |x, n| x >> unsigned(n, bits).min(63))
}

/// Logical shift right; 0 from the width on.
pub(crate) fn shr_u(elem: Scalar, a: Data, b: Data) -> Result<Data, Fault> {
    let bits = elem.bits();
    int2(elem, a, b, |x, n| if unsigned(n, bits) >= u64::from(bits) { 0 } else { (unsigned(x, bits) >> n) as i64 })
}

/// A comparison; truth values order as 0 before 1.
pub(crate) fn cmp(c: CmpOp, a: &Data, b: &Data) -> Result<Data, Fault> {
    fn each<T: Copy>(a: &[T], b: &[T], f: impl Fn(T, T) -> bool) -> Data {
        Data::ints(a.iter().zip(b).map(|(&x, &y)| i64::from(f(x, y))).collect())
    }
    match (a, b) {
        (Data::Float(a), Data::Float(b)) => Ok(match c {
            CmpOp::Eq => each(a, b, |x, y| x == y),
            CmpOp::Ne => each(a, b, |x, y| x != y),
            CmpOp::Lt => each(a, b, |x, y| x < y),
            CmpOp::Le => each(a, b, |x, y| x <= y),
            CmpOp::Gt => each(a, b, |x, y| x > y),
            CmpOp::Ge => each(a, b, |x, y| x >= y),
            CmpOp::Ult | CmpOp::Ule | CmpOp::Ugt | CmpOp::Uge => return Err(Fault::Malformed("an unsigned comparison of floats")),
        }),
        // Sign extension keeps the unsigned order of the narrower type.
        (Data::Int(a), Data::Int(b)) => Ok(match c {
            CmpOp::Eq => each(a, b, |x, y| x == y),
            CmpOp::Ne => each(a, b, |x, y| x != y),
            CmpOp::Lt => each(a, b, |x, y| x < y),
            CmpOp::Le => each(a, b, |x, y| x <= y),
            CmpOp::Gt => each(a, b, |x, y| x > y),
            CmpOp::Ge => each(a, b, |x, y| x >= y),
            CmpOp::Ult => each(a, b, |x, y| (x as u64) < y as u64),
            CmpOp::Ule => each(a, b, |x, y| x as u64 <= y as u64),
            CmpOp::Ugt => each(a, b, |x, y| x as u64 > y as u64),
            CmpOp::Uge => each(a, b, |x, y| x as u64 >= y as u64),
        }),
        (Data::Float(_), Data::Int(_)) | (Data::Int(_), Data::Float(_)) => Err(MIXED),
    }
}

/// `a` where the condition (one for all, or one per element) holds, else `b`.
pub(crate) fn select(condition: &Data, a: Data, b: Data, scalar_condition: bool) -> Result<Data, Fault> {
    fn pick<T: Copy>(c: &[i64], mut a: Rc<Vec<T>>, b: &[T]) -> Rc<Vec<T>> {
        Rc::make_mut(&mut a).iter_mut().zip(b).zip(c).for_each(|((x, &y), &c)| *x = if c != 0 { *x } else { y });
        a
    }
    if scalar_condition {
        return Ok(if condition.as_int()? != 0 { a } else { b });
    }
    let c = condition.as_ints()?;
    match (a, b) {
        (Data::Float(a), Data::Float(b)) => Ok(Data::Float(pick(c, a, &b))),
        (Data::Int(a), Data::Int(b)) => Ok(Data::Int(pick(c, a, &b))),
        (Data::Float(_), Data::Int(_)) | (Data::Int(_), Data::Float(_)) => Err(MIXED),
    }
}

/// Conversion by value.
pub(crate) fn cast(a: Data, to: Scalar) -> Data {
    match (a, to.is_float()) {
        (Data::Float(a), true) => rounded(a, to),
        (Data::Float(a), false) => Data::ints(a.iter().map(|&x| float_to_int(x, to)).collect()),
        (Data::Int(a), true) => Data::floats(a.iter().map(|&x| int_to_float(x, to)).collect()),
        (Data::Int(a), false) if to == Scalar::I1 => Data::Int(map(a, |x| i64::from(x != 0))),
        (Data::Int(a), false) => wrapped(a, to),
    }
}

/// The same bits as another type. NaN passes through as the default NaN. Between 4 and 8 bits, two elements become one or one two.
pub(crate) fn bitcast(a: Data, from: Scalar, to: Scalar) -> Data {
    if from.is_packed() != to.is_packed() {
        let bits: Vec<u64> = match &a {
            Data::Float(a) => a.iter().map(|&x| num::to_bits(x, from)).collect(),
            Data::Int(a) => a.iter().map(|&x| x as u64).collect(),
        };
        let bits: Vec<u64> = if to.is_packed() {
            bits.iter().flat_map(|b| [b & 15, b >> 4 & 15]).collect()
        } else {
            bits.chunks(2).map(|p| (p[0] & 15) | (p.get(1).unwrap_or(&0) & 15) << 4).collect()
        };
        return if to.is_float() {
            Data::floats(bits.iter().map(|&b| num::from_bits(b, to)).collect())
        } else {
            Data::ints(bits.iter().map(|&b| num::wrap(b as i64, to)).collect())
        };
    }
    match (a, to.is_float()) {
        (Data::Float(a), true) => Data::Float(map(a, |x| num::from_bits(num::to_bits(x, from), to))),
        (Data::Float(a), false) => Data::ints(a.iter().map(|&x| num::wrap(num::to_bits(x, from) as i64, to)).collect()),
        (Data::Int(a), true) => Data::floats(a.iter().map(|&x| num::from_bits(x as u64, to)).collect()),
        (Data::Int(a), false) => Data::Int(map(a, |x| num::wrap(x, to))),
    }
}
