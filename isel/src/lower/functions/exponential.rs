//! Exponential functions and the hyperbolic tangent.
//!
//! ```text
//! exp   f32   t near a log2 e, a between -200 and 200; c = a - t ln 2, with ln 2 in two parts; 2^t (1 + c) by the machine's exp2 (2^-22.5).
//!             The factor is below log2 e, so that c has the sign of a, and an infinite 2^t stays what it is. Results below 2^-126 are 0
//!             where the machine's are. Where extremes that keep NaN are no instruction:
//!             a log2 e = k + r with k integral and r in two parts, so that its error stays near 2^-25; 2^r by the machine's exp2;
//!             2^k exact. k stops at -126, so 2^r 2^k rounds once into the subnormal range
//!       f64   a = k ln 2 + t, |t| <= ln 2 / 2, with ln 2 in two parts, the first of so few bits that k times it is exact; e^t by its
//!             series to t^13, cut where the rest is below 2^-56; 2^k in two halves, so that the result rounds once
//! exp2  f32   the machine's
//!       f64   a = k + t, |t| <= 1/2; 2^t by its series, cut at the same power, and as above
//! tanh  f32   below 0.55: x + x^3 P(x^2), a least-maximum fit of P with relative error 2^-24; above: 1 - 2 / (e^2x + 1), where the
//!             errors of exp2 and of the reciprocal are scaled by at most 1/2
//!       f64   E / (E + 2) with E = e^2a - 1, which has a series of its own below 3/4
//! ```
//!
//! Errors: f32 as measured on an H200 over every fifth number at most 2^-22.7 for exp and 2^-22.0 for tanh, and 1.4 units of the smallest
//! number where results of exp are subnormal; f64 below 2^-50.

use super::wide::{F64, Wide, doubled, number, own, polynomial, signed_as, widened, with};
use super::{div, root};
use std::f64::consts::{LN_2, LOG2_E};
use tilelift_ir::{CmpOp, Scalar};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, UnOp};

/// `1 / n!`.
const INVERSE_FACTORIALS: [f64; 18] = [
    1.0,
    1.0,
    0.5,
    0.166_666_666_666_666_66,
    0.041_666_666_666_666_664,
    0.008_333_333_333_333_333,
    0.001_388_888_888_888_889,
    0.000_198_412_698_412_698_4,
    2.480_158_730_158_73e-05,
    2.755_731_922_398_589_3e-06,
    2.755_731_922_398_589e-07,
    2.505_210_838_544_172e-08,
    2.087_675_698_786_81e-09,
    1.605_904_383_682_161_3e-10,
    1.147_074_559_772_972_5e-11,
    7.647_163_731_819_816e-13,
    4.779_477_332_387_385e-14,
    2.811_457_254_345_520_6e-15,
];

/// `(ln 2)^n / n!`.
const POWERS: [f64; 14] = [
    1.0,
    LN_2,
    0.240_226_506_959_100_72,
    0.055_504_108_664_821_58,
    0.009_618_129_107_628_477,
    0.001_333_355_814_642_844_3,
    0.000_154_035_303_933_816_1,
    1.525_273_380_405_984_1e-05,
    1.321_548_679_014_431e-06,
    1.017_808_600_923_97e-07,
    7.054_911_620_801_123e-09,
    4.445_538_271_870_811_6e-10,
    2.567_843_599_348_820_6e-11,
    1.369_148_885_390_412_8e-12,
];

/// ln 2 to 32 bits, and what is left of it.
pub(super) const LN_2_PARTS: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];

/// log2 e to `f32`, and what is left of it.
const SHORT_LOG2_E: [f64; 2] = [1.442_695_021_629_333_5, 1.925_963_033_500_011e-08];

/// `(tanh(x) - x) / x^3` in powers of `x^2`, up to 0.55.
const SHORT_TANH: [f64; 4] = [-0.333_329_468_965_530_4, 0.133_207_246_661_186_22, -0.052_671_812_474_727_63, 0.016_437_580_808_997_154];

/// Added to a number, leaves the nearest integer in the low bits of the sum: 3/2 of what has units of 1.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// The same for `f32`, with 127 more: the low bits are an exponent's field.
const SHORT_ROUND: f64 = 12_583_039.0;

/// `e^a`.
pub(in crate::lower) fn exp(b: &mut LaneBuilder, a: LVal, elem: Scalar) -> LVal {
    widened(b, [a], elem, |b, [a], wide| match wide {
        Wide::F32 => short_exp(b, a),
        Wide::F64 => long_exp(b, a),
    })
}

/// `2^a`.
pub(in crate::lower) fn exp2(b: &mut LaneBuilder, a: LVal, elem: Scalar) -> LVal {
    if let Some(v) = own(b, UnOp::Exp2, a, elem) {
        return v;
    }
    widened(b, [a], elem, |b, [a], wide| match wide {
        Wide::F32 => own(b, UnOp::Exp2, a, Scalar::F32).unwrap_or_else(|| doubled(b, a, long_exp2)),
        Wide::F64 => long_exp2(b, a),
    })
}

/// The hyperbolic tangent.
pub(in crate::lower) fn tanh(b: &mut LaneBuilder, a: LVal, elem: Scalar) -> LVal {
    widened(b, [a], elem, |b, [a], wide| match wide {
        Wide::F32 => short_tanh(b, a),
        Wide::F64 => long_tanh(b, a),
    })
}

/// The float below log2 e, and ln 2 to `f32` with what is left of it.
const BELOW_LOG2_E: f64 = 1.442_694_902_420_044;
const SHORT_LN_2: [f64; 2] = [0.693_147_182_464_599_6, -1.904_654_323_148_236e-9];

/// Bounds between which an argument is kept: powers beyond are 0 and infinite.
const FAR: f64 = 200.0;

fn short_exp(b: &mut LaneBuilder, a: LVal) -> LVal {
    if b.extremes {
        let n = |b: &mut LaneBuilder, x: f64| number(b, x, Scalar::F32);
        let (least, most, factor) = (n(b, -FAR), n(b, FAR), n(b, BELOW_LOG2_E));
        let x = b.bin(BinOp::Maximum, a, least);
        let x = b.bin(BinOp::Minimum, x, most);
        let t = b.mul(x, factor);
        let power = exp2(b, t, Scalar::F32);
        let [high, low] = SHORT_LN_2.map(|x| n(b, -x));
        let c = b.fma(t, high, x);
        let c = b.fma(t, low, c);
        return b.fma(power, c, power);
    }
    let n = |b: &mut LaneBuilder, x: f64| number(b, x, Scalar::F32);
    let (least, most) = (n(b, -87.3), n(b, 88.0));
    let x = b.bin(BinOp::MaxNum, a, least);
    let x = b.bin(BinOp::MinNum, x, most);
    let ([high, low], round) = (SHORT_LOG2_E.map(|x| n(b, x)), n(b, SHORT_ROUND));
    let k = b.fma(x, high, round);
    let minus = b.bin(BinOp::Sub, round, k);
    let r = b.fma(a, high, minus);
    let r = b.fma(a, low, r);
    let power = exp2(b, r, Scalar::F32);
    let k = b.bitcast(k, LTy::I32);
    let scale = with(b, BinOp::Shl, k, 23);
    let scale = b.bitcast(scale, LTy::F32);
    b.mul(power, scale)
}

/// The integer nearest to `x factor`, as `f64` and as `i32`.
fn nearest(b: &mut LaneBuilder, x: LVal, factor: Option<f64>) -> (LVal, LVal) {
    let round = number(b, ROUND, Scalar::F64);
    let sum = match factor {
        Some(f) => {
            let f = number(b, f, Scalar::F64);
            b.fma(x, f, round)
        }
        None => b.add(x, round),
    };
    let k = b.bin(BinOp::Sub, sum, round);
    let bits = b.bitcast(sum, LTy::I64);
    (k, b.cvt(bits, LTy::I32))
}

/// `x - k ln 2`.
fn reduced(b: &mut LaneBuilder, x: LVal, k: LVal) -> LVal {
    let minus = b.un(UnOp::Neg, k);
    let [high, low] = LN_2_PARTS.map(|x| number(b, x, Scalar::F64));
    let t = b.fma(minus, high, x);
    b.fma(minus, low, t)
}

/// `2^n` for an exponent of normal numbers.
fn power(b: &mut LaneBuilder, n: LVal) -> LVal {
    let field = with(b, BinOp::Add, n, 1023);
    let field = b.cvt(field, LTy::I64);
    let bits = with(b, BinOp::Shl, field, 52);
    b.bitcast(bits, F64)
}

/// `sum 2^n`, and 0 where `a` is below a limit.
fn scaled(b: &mut LaneBuilder, sum: LVal, n: LVal, a: LVal, limit: f64) -> LVal {
    let half = with(b, BinOp::ShrS, n, 1);
    let rest = b.bin(BinOp::Sub, n, half);
    let (half, rest) = (power(b, half), power(b, rest));
    let value = b.mul(sum, half);
    let value = b.mul(value, rest);
    let (zero, limit) = (number(b, 0.0, Scalar::F64), number(b, limit, Scalar::F64));
    let below = b.cmp(CmpOp::Lt, a, limit);
    b.select(below, zero, value)
}

/// `a` between bounds; what is no number becomes the lower one.
fn clamped(b: &mut LaneBuilder, a: LVal, least: f64, most: f64) -> LVal {
    let (least, most) = (number(b, least, Scalar::F64), number(b, most, Scalar::F64));
    let x = b.bin(BinOp::MaxNum, a, least);
    b.bin(BinOp::MinNum, x, most)
}

fn long_exp(b: &mut LaneBuilder, a: LVal) -> LVal {
    let x = clamped(b, a, -760.0, 720.0);
    let (k, n) = nearest(b, x, Some(LOG2_E));
    let t = reduced(b, a, k);
    let sum = polynomial(b, t, &INVERSE_FACTORIALS[..14], Scalar::F64);
    scaled(b, sum, n, a, -750.0)
}

fn long_exp2(b: &mut LaneBuilder, a: LVal) -> LVal {
    let x = clamped(b, a, -1080.0, 1030.0);
    let (k, n) = nearest(b, x, None);
    let t = b.bin(BinOp::Sub, a, k);
    let sum = polynomial(b, t, &POWERS, Scalar::F64);
    scaled(b, sum, n, a, -1076.0)
}

fn short_tanh(b: &mut LaneBuilder, a: LVal) -> LVal {
    let elem = Scalar::F32;
    let n = |b: &mut LaneBuilder, x: f64| number(b, x, elem);
    let x = b.un(UnOp::Abs, a);
    let (factor, one, two) = (n(b, 2.0 * LOG2_E), n(b, 1.0), n(b, -2.0));
    let t = b.mul(x, factor);
    let e = exp2(b, t, elem);
    let e = b.add(e, one);
    let e = root::rcp_normal(b, e);
    let far = b.fma(e, two, one);
    let z = b.mul(x, x);
    let p = polynomial(b, z, &SHORT_TANH, elem);
    let p = b.mul(p, z);
    let near = b.fma(p, x, x);
    let limit = n(b, 0.55);
    let above = b.cmp(CmpOp::Ge, x, limit);
    let value = b.select(above, far, near);
    signed_as(b, value, a)
}

fn long_tanh(b: &mut LaneBuilder, a: LVal) -> LVal {
    let elem = Scalar::F64;
    let n = |b: &mut LaneBuilder, x: f64| number(b, x, elem);
    let x = b.un(UnOp::Abs, a);
    let most = n(b, 22.0);
    let x = b.bin(BinOp::MinNum, x, most);
    let x = b.add(x, x);
    let (k, whole) = nearest(b, x, Some(LOG2_E));
    let t = reduced(b, x, k);
    let sum = polynomial(b, t, &INVERSE_FACTORIALS[..14], elem);
    let scale = power(b, whole);
    let (minus, two, limit) = (n(b, -1.0), n(b, 2.0), n(b, 0.75));
    let far = b.fma(sum, scale, minus);
    let near = polynomial(b, x, &INVERSE_FACTORIALS[1..], elem);
    let near = b.mul(near, x);
    let small = b.cmp(CmpOp::Lt, x, limit);
    let e = b.select(small, near, far);
    let below = b.add(e, two);
    let value = div(b, e, below, elem);
    let value = signed_as(b, value, a);
    let nan = b.cmp(CmpOp::Ne, a, a);
    b.select(nan, a, value)
}
