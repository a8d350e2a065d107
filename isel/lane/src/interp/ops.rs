//! Arithmetic on columns: one value of every thread, as bits.
//!
//! A column holds integers sign-extended to 64 bits, `i1` as 0 or 1, floats and words in the low bits. Floats are computed in `f64`
//! and rounded once, as in the tile interpreter (see [`tilelift_ir::num`] for why that is exact).

use super::error::LaneFault;
use crate::op::{BinOp, UnOp};
use crate::value::LTy;
use tilelift_ir::{AtomicOp, CmpOp, Scalar, num};

const NOT_NUMBER: LaneFault = LaneFault::Malformed("arithmetic on a word");

/// Bits of an `f32` from an exact or wider value: rounds once; NaN becomes the default NaN.
#[inline(always)]
pub(crate) fn f32_bits(x: f64) -> u64 {
    if x.is_nan() { 0x7fff_ffff } else { u64::from((x as f32).to_bits()) }
}

/// The value of `f32` bits.
#[inline(always)]
pub(crate) fn f32_value(bits: u64) -> f64 {
    f64::from(f32::from_bits(bits as u32))
}

/// The bits that memory or another type gave, in the form of a column.
#[inline(always)]
pub(crate) fn extend(raw: u64, ty: LTy) -> u64 {
    match ty {
        LTy::Num(Scalar::I1) => u64::from(raw & 0xff != 0),
        LTy::Num(Scalar::I8) => raw as i8 as u64,
        LTy::Num(Scalar::I16) => raw as i16 as u64,
        LTy::Num(Scalar::I32) => raw as i32 as u64,
        LTy::Num(Scalar::F16 | Scalar::BF16) => raw & 0xffff,
        LTy::Num(Scalar::F32) | LTy::B32 => raw & 0xffff_ffff,
        LTy::Num(Scalar::I64 | Scalar::F64) => raw,
        // No lane value has these types (see `verify`): their codes travel as bytes.
        LTy::Num(
            Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 | Scalar::F4E2M1 | Scalar::I4,
        ) => raw & 0xff,
    }
}

/// Runs a closure generic over decoding and encoding of a float type, chosen once per column.
macro_rules! with_float {
    ($elem:expr, |$dec:ident, $enc:ident| $body:expr) => {
        match $elem {
            Scalar::F32 => {
                let ($dec, $enc) = (f32_value, f32_bits);
                $body
            }
            Scalar::F64 => {
                let ($dec, $enc) = (f64::from_bits, f64::to_bits);
                $body
            }
            elem => {
                let $dec = |b: u64| num::from_bits(b, elem);
                let $enc = |x: f64| num::to_bits(num::round(x, elem), elem);
                $body
            }
        }
    };
}

fn float1(elem: Scalar, d: &mut [u64], a: &[u64], f: impl Fn(f64) -> f64) {
    with_float!(elem, |dec, enc| d.iter_mut().zip(a).for_each(|(d, &a)| *d = enc(f(dec(a)))));
}

fn float2(elem: Scalar, d: &mut [u64], a: &[u64], b: &[u64], f: impl Fn(f64, f64) -> f64) {
    with_float!(elem, |dec, enc| d.iter_mut().zip(a).zip(b).for_each(|((d, &a), &b)| *d = enc(f(dec(a), dec(b)))));
}

fn int1(elem: Scalar, d: &mut [u64], a: &[u64], f: impl Fn(i64) -> i64) {
    d.iter_mut().zip(a).for_each(|(d, &a)| *d = num::wrap(f(a as i64), elem) as u64);
}

fn int2(elem: Scalar, d: &mut [u64], a: &[u64], b: &[u64], f: impl Fn(i64, i64) -> i64) {
    match elem {
        Scalar::I32 => d.iter_mut().zip(a).zip(b).for_each(|((d, &a), &b)| *d = f(a as i64, b as i64) as i32 as u64),
        elem => d.iter_mut().zip(a).zip(b).for_each(|((d, &a), &b)| *d = num::wrap(f(a as i64, b as i64), elem) as u64),
    }
}

/// Flips (`flip`) or clears the sign bit of every float; NaN keeps its payload.
fn sign(elem: Scalar, d: &mut [u64], a: &[u64], flip: bool) {
    let bit = 1u64 << (elem.bits() - 1);
    d.iter_mut().zip(a).for_each(|(d, &a)| *d = if flip { a ^ bit } else { a & !bit });
}

/// The code nearest to the `f32` of some bits, saturating.
fn encode(bits: i64, to: Scalar) -> i64 {
    let (x, most) = (f32_value(bits as u64), num::largest(to));
    num::to_bits(num::round(if x.is_nan() { x } else { x.clamp(-most, most) }, to), to) as i64
}

/// The bits of the `f32` of a code.
fn decode(code: i64, from: Scalar) -> i64 {
    f32_bits(num::from_bits(code as u64 & 0xff, from)) as i64
}

/// `d = op a`.
pub(crate) fn un(op: UnOp, ty: LTy, d: &mut [u64], a: &[u64]) -> Result<(), LaneFault> {
    let LTy::Num(elem) = ty else { return Err(NOT_NUMBER) };
    match op {
        UnOp::Neg if elem.is_float() => sign(elem, d, a, true),
        UnOp::Neg => int1(elem, d, a, i64::wrapping_neg),
        UnOp::Abs if elem.is_float() => sign(elem, d, a, false),
        UnOp::Abs => int1(elem, d, a, i64::wrapping_abs),
        UnOp::Not => int1(elem, d, a, |x| !x),
        UnOp::Exp2 => float1(elem, d, a, f64::exp2),
        UnOp::Log2 => float1(elem, d, a, f64::log2),
        UnOp::Sqrt => float1(elem, d, a, f64::sqrt),
        UnOp::Rsqrt => float1(elem, d, a, |x| 1.0 / x.sqrt()),
        UnOp::Floor => float1(elem, d, a, f64::floor),
        UnOp::Ceil => float1(elem, d, a, f64::ceil),
        UnOp::Round => float1(elem, d, a, f64::round_ties_even),
        UnOp::Trunc => float1(elem, d, a, f64::trunc),
        UnOp::Rcp | UnOp::RcpNormal => float1(elem, d, a, |x| 1.0 / x),
        UnOp::Popcount => int1(elem, d, a, |x| i64::from(unsigned(x, elem).count_ones())),
        UnOp::Own => int1(elem, d, a, |x| x),
        UnOp::Clz => int1(elem, d, a, |x| i64::from(unsigned(x, elem).leading_zeros() + elem.bits()) - 64),
        UnOp::RoundBf16 => float1(elem, d, a, |x| num::round(x, Scalar::BF16)),
        UnOp::EncodeE4M3 => int1(elem, d, a, |x| encode(x, Scalar::F8E4M3)),
        UnOp::EncodeE5M2 => int1(elem, d, a, |x| encode(x, Scalar::F8E5M2)),
        UnOp::EncodeE4M3Fnuz => int1(elem, d, a, |x| encode(x, Scalar::F8E4M3Fnuz)),
        UnOp::EncodeE5M2Fnuz => int1(elem, d, a, |x| encode(x, Scalar::F8E5M2Fnuz)),
        UnOp::DecodeE4M3Fnuz => int1(elem, d, a, |x| decode(x, Scalar::F8E4M3Fnuz)),
        UnOp::DecodeE5M2Fnuz => int1(elem, d, a, |x| decode(x, Scalar::F8E5M2Fnuz)),
        UnOp::DecodeE4M3 => int1(elem, d, a, |x| decode(x, Scalar::F8E4M3)),
        UnOp::DecodeE4M3x2 => int1(elem, d, a, |x| {
            let half = |code: i64| num::to_bits(num::from_bits(code as u64 & 0xff, Scalar::F8E4M3), Scalar::F16) as i64;
            half(x) | half(x >> 8) << 16
        }),
        UnOp::DecodeE5M2 => int1(elem, d, a, |x| decode(x, Scalar::F8E5M2)),
    }
    Ok(())
}

/// Smaller, or NaN if either is; -0 below +0.
fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// Larger, or NaN if either is; +0 above -0.
fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a > b || (a == b && a.is_sign_positive()) {
        a
    } else {
        b
    }
}

/// As `f`, but a NaN gives way to the other operand.
fn number(a: f64, b: f64, f: fn(f64, f64) -> f64) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        f(a, b)
    }
}

/// The value of an integer of a type, read unsigned.
#[inline(always)]
fn unsigned(x: i64, elem: Scalar) -> u64 {
    x as u64 & (u64::MAX >> (64 - elem.bits()))
}

/// The new value of an atomic update.
pub(crate) fn update(op: AtomicOp, ty: LTy, old: u64, value: u64) -> Result<u64, LaneFault> {
    let LTy::Num(elem) = ty else { return Err(NOT_NUMBER) };
    let by = |op| {
        let mut out = [0];
        bin(op, ty, &mut out, &[old], &[value]).map(|()| out[0])
    };
    let below = unsigned(value as i64, elem) < unsigned(old as i64, elem);
    match op {
        AtomicOp::Add => by(BinOp::Add),
        AtomicOp::Min => by(BinOp::Minimum),
        AtomicOp::Max => by(BinOp::Maximum),
        AtomicOp::Umin => Ok(if below { value } else { old }),
        AtomicOp::Umax => Ok(if below { old } else { value }),
        AtomicOp::And => by(BinOp::And),
        AtomicOp::Or => by(BinOp::Or),
        AtomicOp::Xor => by(BinOp::Xor),
        AtomicOp::Xchg => Ok(value),
    }
}

/// `d = a op b`.
pub(crate) fn bin(op: BinOp, ty: LTy, d: &mut [u64], a: &[u64], b: &[u64]) -> Result<(), LaneFault> {
    let LTy::Num(elem) = ty else { return Err(NOT_NUMBER) };
    let bits = u64::from(elem.bits());
    match (op, elem.is_float()) {
        (BinOp::Add, true) => float2(elem, d, a, b, |x, y| x + y),
        (BinOp::Add, false) => int2(elem, d, a, b, i64::wrapping_add),
        (BinOp::Sub, true) => float2(elem, d, a, b, |x, y| x - y),
        (BinOp::Sub, false) => int2(elem, d, a, b, i64::wrapping_sub),
        (BinOp::Mul, true) => float2(elem, d, a, b, |x, y| x * y),
        (BinOp::Mul, false) => int2(elem, d, a, b, i64::wrapping_mul),
        (BinOp::Div, true) => float2(elem, d, a, b, |x, y| x / y),
        (BinOp::Div, false) => int2(elem, d, a, b, |x, y| if y == 0 { 0 } else { x.wrapping_div(y) }),
        (BinOp::Rem, _) => int2(elem, d, a, b, |x, y| if y == 0 { x } else { x.wrapping_rem(y) }),
        (BinOp::Minimum, true) => float2(elem, d, a, b, minimum),
        (BinOp::Minimum, false) => int2(elem, d, a, b, i64::min),
        (BinOp::Maximum, true) => float2(elem, d, a, b, maximum),
        (BinOp::Maximum, false) => int2(elem, d, a, b, i64::max),
        (BinOp::MinNum, _) => float2(elem, d, a, b, |x, y| number(x, y, minimum)),
        (BinOp::MaxNum, _) => float2(elem, d, a, b, |x, y| number(x, y, maximum)),
        (BinOp::And, _) => int2(elem, d, a, b, |x, y| x & y),
        (BinOp::Or, _) => int2(elem, d, a, b, |x, y| x | y),
        (BinOp::Xor, _) => int2(elem, d, a, b, |x, y| x ^ y),
        (BinOp::Shl, _) => int2(elem, d, a, b, |x, y| match unsigned(y, elem) {
            n if n >= bits => 0,
            n => x << n,
        }),
        (BinOp::ShrS, _) => int2(elem, d, a, b, |x, y| x >> unsigned(y, elem).min(63)),
        (BinOp::ShrU, _) => int2(elem, d, a, b, |x, y| match unsigned(y, elem) {
            n if n >= bits => 0,
            n => (unsigned(x, elem) >> n) as i64,
        }),
        (BinOp::DivU, _) => int2(elem, d, a, b, |x, y| unsigned(x, elem).checked_div(unsigned(y, elem)).unwrap_or(0) as i64),
        (BinOp::RemU, _) => int2(elem, d, a, b, |x, y| match unsigned(y, elem) {
            0 => x,
            y => (unsigned(x, elem) % y) as i64,
        }),
        (BinOp::MulHi, _) => int2(elem, d, a, b, |x, y| ((i128::from(x) * i128::from(y)) >> bits) as i64),
        (BinOp::MulHiU, _) => {
            int2(elem, d, a, b, |x, y| ((u128::from(unsigned(x, elem)) * u128::from(unsigned(y, elem))) >> bits) as i64);
        }
        // Sign extension keeps the unsigned order of the narrower type.
        (BinOp::MinimumU, _) => int2(elem, d, a, b, |x, y| (x as u64).min(y as u64) as i64),
        (BinOp::MaximumU, _) => int2(elem, d, a, b, |x, y| (x as u64).max(y as u64) as i64),
    }
    Ok(())
}

/// `d = a * b + c`, fused; `f16` and `bf16` fuse in `f32` and round that; integers wrap.
pub(crate) fn fma(ty: LTy, d: &mut [u64], a: &[u64], b: &[u64], c: &[u64]) -> Result<(), LaneFault> {
    let LTy::Num(elem) = ty else { return Err(NOT_NUMBER) };
    let abc = d.iter_mut().zip(a).zip(b).zip(c);
    if !elem.is_float() {
        abc.for_each(|(((d, &a), &b), &c)| *d = num::wrap((a as i64).wrapping_mul(b as i64).wrapping_add(c as i64), elem) as u64);
    } else if elem == Scalar::F64 {
        abc.for_each(|(((d, &a), &b), &c)| *d = f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits());
    } else {
        with_float!(elem, |dec, enc| abc.for_each(|(((d, &a), &b), &c)| {
            *d = enc(f64::from((dec(a) as f32).mul_add(dec(b) as f32, dec(c) as f32)));
        }));
    }
    Ok(())
}

/// `d = a * b + c` of each half of the words, rounded once.
pub(crate) fn fma_pair(elem: Scalar, d: &mut [u64], a: &[u64], b: &[u64], c: &[u64]) -> Result<(), LaneFault> {
    let half = |x: u64, n: u64| x >> (16 * n) & 0xffff;
    let abc = d.iter_mut().zip(a).zip(b).zip(c);
    with_float!(elem, |dec, enc| abc.for_each(|(((d, &a), &b), &c)| {
        // Products of halves are exact.
        let one = |n: u64| enc(sum_to_odd(dec(half(a, n)) * dec(half(b, n)), dec(half(c, n)))) & 0xffff;
        *d = extend(one(0) | one(1) << 16, LTy::I32);
    }));
    Ok(())
}

/// A sum whose last bit is set if it is not exact: who rounds it to fewer bits rounds the exact sum (Boldo and Melquiond, 2005).
fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let part = sum - a;
    let lost = (a - (sum - part)) + (b - part);
    if !sum.is_finite() || lost == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    let outwards = (lost > 0.0) == (sum > 0.0);
    f64::from_bits(if outwards { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

/// `d = a op b` as `i1`.
pub(crate) fn cmp(op: CmpOp, ty: LTy, d: &mut [u64], a: &[u64], b: &[u64]) -> Result<(), LaneFault> {
    fn each<T>(d: &mut [u64], a: &[u64], b: &[u64], dec: impl Fn(u64) -> T, f: impl Fn(&T, &T) -> bool) {
        d.iter_mut().zip(a).zip(b).for_each(|((d, &a), &b)| *d = u64::from(f(&dec(a), &dec(b))));
    }
    fn ordered<T: PartialOrd>(op: CmpOp, d: &mut [u64], a: &[u64], b: &[u64], dec: impl Fn(u64) -> T) {
        match op {
            CmpOp::Eq => each(d, a, b, dec, T::eq),
            CmpOp::Ne => each(d, a, b, dec, T::ne),
            CmpOp::Lt | CmpOp::Ult => each(d, a, b, dec, T::lt),
            CmpOp::Le | CmpOp::Ule => each(d, a, b, dec, T::le),
            CmpOp::Gt | CmpOp::Ugt => each(d, a, b, dec, T::gt),
            CmpOp::Ge | CmpOp::Uge => each(d, a, b, dec, T::ge),
        }
    }
    let LTy::Num(elem) = ty else { return Err(NOT_NUMBER) };
    if elem.is_float() {
        ordered(op, d, a, b, |x| num::from_bits(x, elem));
    } else if op.is_unsigned() {
        // Sign extension keeps the unsigned order of the narrower type.
        ordered(op, d, a, b, |x| x);
    } else {
        ordered(op, d, a, b, |x| x as i64);
    }
    Ok(())
}

/// An integer rounded once to a float type, as bits.
fn int_to_float(x: i64, to: Scalar) -> u64 {
    match to {
        Scalar::F32 => u64::from((x as f32).to_bits()),
        Scalar::F64 => (x as f64).to_bits(),
        to => {
            // Round to odd first: a sticky bit keeps a value between two halves off the tie, so that the second rounding is the only one.
            let m = x.unsigned_abs();
            let exact = if m >> 53 == 0 { m as f64 } else { ((m >> 11) | u64::from(m & 0x7ff != 0)) as f64 * 2048.0 };
            num::to_bits(num::round(if x < 0 { -exact } else { exact }, to), to)
        }
    }
}

/// A float truncated and saturated to an integer type, NaN as 0; for `i1`, whether it differs from 0 (a NaN does).
fn float_to_int(x: f64, to: Scalar) -> i64 {
    if to == Scalar::I1 {
        return i64::from(x != 0.0);
    }
    let high = i64::MAX >> (64 - to.bits());
    (x as i64).clamp(-high - 1, high)
}

/// Conversion by value.
pub(crate) fn cvt(from: LTy, to: LTy, d: &mut [u64], a: &[u64]) -> Result<(), LaneFault> {
    let (LTy::Num(from), LTy::Num(to)) = (from, to) else { return Err(NOT_NUMBER) };
    let da = d.iter_mut().zip(a);
    match (from.is_float(), to.is_float()) {
        (true, true) => da.for_each(|(d, &a)| *d = num::to_bits(num::round(num::from_bits(a, from), to), to)),
        (true, false) => da.for_each(|(d, &a)| *d = float_to_int(num::from_bits(a, from), to) as u64),
        (false, true) => da.for_each(|(d, &a)| *d = int_to_float(a as i64, to)),
        (false, false) if to == Scalar::I1 => da.for_each(|(d, &a)| *d = u64::from(a != 0)),
        (false, false) => da.for_each(|(d, &a)| *d = num::wrap(a as i64, to) as u64),
    }
    Ok(())
}

/// Two `f32` in a word, each rounded to a 16-bit float.
pub(crate) fn cvt_pair(elem: Scalar, d: &mut [u64], low: &[u64], high: &[u64]) -> Result<(), LaneFault> {
    let half = |x: u64| num::to_bits(num::round(num::from_bits(x, Scalar::F32), elem), elem) & 0xffff;
    d.iter_mut().zip(low).zip(high).for_each(|((d, &low), &high)| *d = half(low) | half(high) << 16);
    Ok(())
}

/// Codes of two `f32`, side by side.
pub(crate) fn code_pair(elem: Scalar, d: &mut [u64], low: &[u64], high: &[u64]) -> Result<(), LaneFault> {
    let code = |x: u64| encode(x as i64, elem) & 0xff;
    d.iter_mut().zip(low).zip(high).for_each(|((d, &low), &high)| *d = num::wrap(code(low) | code(high) << 8, Scalar::I16) as u64);
    Ok(())
}

/// Rounding to tf32.
pub(crate) fn round_tf32(d: &mut [u64], a: &[u64]) {
    d.iter_mut().zip(a).for_each(|(d, &a)| *d = f32_bits(num::round_tf32(f32_value(a))));
}
