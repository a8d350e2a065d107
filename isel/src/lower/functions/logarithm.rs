//! Logarithms.
//!
//! ```text
//! log2  f32   the machine's (absolute error 2^-22 on [0.5, 2], 2 units in the last place elsewhere)
//! log   f32   that times ln 2
//! both  f64   a = 2^k m with m in [sqrt 1/2, sqrt 2]; ln m = 2 atanh((m - 1) / (m + 1)) by its series to the 23rd power, cut where the rest
//!             is below 2^-56; ln 2 in two parts, the first of so few bits that k times it is exact
//! ```
//!
//! Errors: f32 as measured on an H200 over every fifth number at most 2^-21.9 (log) and 2^-22.0 (log2), absolute 2^-22.5 and 2^-22.1 near 1;
//! f64 below 2^-50.

use super::div;
use super::exponential::LN_2_PARTS;
use super::wide::{F64, Wide, doubled, number, own, polynomial, widened, with};
use std::f64::consts::{LN_2, LOG2_E, SQRT_2};
use tilelift_ir::{CmpOp, Scalar};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, UnOp};

/// `1 / (2 n + 3)`.
const INVERSE_ODD: [f64; 11] = [
    0.333_333_333_333_333_3,
    0.2,
    0.142_857_142_857_142_85,
    0.111_111_111_111_111_1,
    0.090_909_090_909_090_91,
    0.076_923_076_923_076_93,
    0.066_666_666_666_666_67,
    0.058_823_529_411_764_705,
    0.052_631_578_947_368_42,
    0.047_619_047_619_047_616,
    0.043_478_260_869_565_216,
];

/// The natural logarithm.
pub(in crate::lower) fn log(b: &mut LaneBuilder, a: LVal, elem: Scalar) -> LVal {
    widened(b, [a], elem, |b, [a], wide| match wide {
        Wide::F32 => {
            let l = log2(b, a, Scalar::F32);
            let ln = number(b, LN_2, Scalar::F32);
            b.mul(l, ln)
        }
        Wide::F64 => long(b, a, true),
    })
}

/// The logarithm to base 2.
pub(in crate::lower) fn log2(b: &mut LaneBuilder, a: LVal, elem: Scalar) -> LVal {
    if let Some(v) = own(b, UnOp::Log2, a, elem) {
        return v;
    }
    widened(b, [a], elem, |b, [a], wide| match wide {
        Wide::F32 => own(b, UnOp::Log2, a, Scalar::F32).unwrap_or_else(|| doubled(b, a, |b, a| long(b, a, false))),
        Wide::F64 => long(b, a, false),
    })
}

/// `k` and `m` of a positive number, as `f64`.
fn parts(b: &mut LaneBuilder, a: LVal) -> (LVal, LVal) {
    let n = |b: &mut LaneBuilder, x: f64| number(b, x, Scalar::F64);
    let (least, factor) = (n(b, f64::MIN_POSITIVE), n(b, 2f64.powi(54)));
    let small = b.cmp(CmpOp::Lt, a, least);
    let normal = b.mul(a, factor);
    let normal = b.select(small, normal, a);
    let bits = b.bitcast(normal, LTy::I64);
    let exponent = with(b, BinOp::ShrU, bits, 52);
    let exponent = b.cvt(exponent, LTy::I32);
    let exponent = with(b, BinOp::Add, exponent, -1023);
    let (more, none) = (b.i32(54), b.i32(0));
    let more = b.select(small, more, none);
    let exponent = b.bin(BinOp::Sub, exponent, more);
    let fraction = with(b, BinOp::And, bits, (1 << 52) - 1);
    let fraction = with(b, BinOp::Or, fraction, 1023 << 52);
    let m = b.bitcast(fraction, F64);
    let (limit, half) = (n(b, SQRT_2), n(b, 0.5));
    let large = b.cmp(CmpOp::Gt, m, limit);
    let halved = b.mul(m, half);
    let m = b.select(large, halved, m);
    let (one, zero) = (b.i32(1), b.i32(0));
    let up = b.select(large, one, zero);
    let exponent = b.add(exponent, up);
    (b.cvt(exponent, F64), m)
}

fn long(b: &mut LaneBuilder, a: LVal, natural: bool) -> LVal {
    let elem = Scalar::F64;
    let n = |b: &mut LaneBuilder, x: f64| number(b, x, elem);
    let (k, m) = parts(b, a);
    let (minus, one) = (n(b, -1.0), n(b, 1.0));
    let (less, more) = (b.add(m, minus), b.add(m, one));
    let s = div(b, less, more, elem);
    let z = b.mul(s, s);
    let sum = polynomial(b, z, &INVERSE_ODD, elem);
    let sum = b.mul(sum, z);
    let twice = b.add(s, s);
    let value = if natural {
        let [high, low] = LN_2_PARTS.map(|x| n(b, x));
        let rest = b.mul(twice, sum);
        let rest = b.fma(k, low, rest);
        let ln = b.add(twice, rest);
        b.fma(k, high, ln)
    } else {
        let factor = n(b, LOG2_E);
        let ln = b.fma(twice, sum, twice);
        b.fma(ln, factor, k)
    };
    // Infinity and NaN stay, zeros have none but minus infinity, and below there is none.
    let (infinity, zero) = (n(b, f64::INFINITY), n(b, 0.0));
    let (lowest, nan) = (n(b, f64::NEG_INFINITY), n(b, f64::NAN));
    let finite = b.cmp(CmpOp::Lt, a, infinity);
    let value = b.select(finite, value, a);
    let none = b.cmp(CmpOp::Eq, a, zero);
    let value = b.select(none, lowest, value);
    let negative = b.cmp(CmpOp::Lt, a, zero);
    b.select(negative, nan, value)
}
