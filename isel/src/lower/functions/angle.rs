//! The angle of a point, `atan2`, since no machine has it.
//!
//! ```text
//! m = min(|y|, |x|), n = max(|y|, |x|); where m > n tan(pi/8), the angle is taken from the diagonal:
//! q = m / n       or (m - n) / (m + n), so that |q| <= tan(pi/8)
//! r = q + q^3 P(q^2)                        the arc tangent of q; P is a fit in Chebyshev points
//! angle = k pi/4 + r or k pi/4 - r          in the quarter plane of y and x, whose sign bits decide
//! ```
//!
//! Of what `k pi/4` leaves after rounding, the rest is added to `r`. Error: 2^-58 of P for `f64` and 2^-28 for `f32`; the quotient is off
//! by 3 half units in the last place, of what is at most as large as the result, and the sum rounds once: 2^-51 and 2^-22 of the result.

use super::div;
use super::wide::{Wide, number, polynomial, signed_as, widened};
use tilelift_ir::{CmpOp, Scalar, num};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, UnOp};

/// `(atan(q) / q - 1) / q^2` in powers of `q^2`, for `f64`.
const SERIES: [f64; 12] = [
    -0.333_333_333_333_333_3,
    0.199_999_999_999_998_04,
    -0.142_857_142_856_597_29,
    0.111_111_111_051_457_25,
    -0.090_909_087_530_172_03,
    0.076_922_963_610_489_17,
    -0.066_664_246_346_118_98,
    0.058_789_261_106_725_03,
    -0.052_304_330_085_462_15,
    0.045_514_962_423_443_515,
    -0.034_568_068_139_661_52,
    0.016_282_993_377_085_17,
];

/// The same for `f32`.
const SHORT: [f64; 5] =
    [-0.333_333_313_465_118_4, 0.199_995_398_521_423_34, -0.142_639_443_278_312_68, 0.107_436_053_454_875_95, -0.064_515_098_929_405_21];

/// The angle of the point `(x, y)`; operands and result have one float type.
pub(in crate::lower) fn atan2(b: &mut LaneBuilder, y: LVal, x: LVal, elem: Scalar) -> LVal {
    widened(b, [y, x], elem, |b, [y, x], wide| angle(b, y, x, wide))
}

fn angle(b: &mut LaneBuilder, y: LVal, x: LVal, wide: Wide) -> LVal {
    let elem = wide.scalar();
    let (int, series, top): (_, &[f64], _) = match wide {
        Wide::F64 => (LTy::I64, &SERIES, 2f64.powi(1022)),
        Wide::F32 => (LTy::I32, &SHORT, 2f64.powi(126)),
    };
    let number = |b: &mut LaneBuilder, x: f64| number(b, x, elem);
    let quarter = num::round(std::f64::consts::FRAC_PI_4, elem);
    let rest = if wide == Wide::F64 { 3.061_616_997_868_383e-17 } else { std::f64::consts::FRAC_PI_4 - quarter };
    let (ay, ax) = (b.un(UnOp::Abs, y), b.un(UnOp::Abs, x));
    let (least, most) = (b.bin(BinOp::Minimum, ay, ax), b.bin(BinOp::Maximum, ay, ax));
    // Their sum must not overflow; two infinities are equal; nothing over nothing is nothing.
    let large = number(b, top);
    let large = b.cmp(CmpOp::Ge, most, large);
    let (one, part) = (number(b, 1.0), number(b, 0.25));
    let scale = b.select(large, part, one);
    let (m, n) = (b.mul(least, scale), b.mul(most, scale));
    let infinity = number(b, f64::INFINITY);
    let endless = b.cmp(CmpOp::Eq, least, infinity);
    let (m, n) = (b.select(endless, one, m), b.select(endless, one, n));
    let zero = number(b, 0.0);
    let none = b.cmp(CmpOp::Eq, most, zero);
    let n = b.select(none, one, n);
    // From the diagonal or from the axis.
    let slope = number(b, std::f64::consts::SQRT_2 - 1.0);
    let bound = b.mul(n, slope);
    let near = b.cmp(CmpOp::Gt, m, bound);
    let (less, more) = (b.bin(BinOp::Sub, m, n), b.add(m, n));
    let (top, below) = (b.select(near, less, m), b.select(near, more, n));
    let q = div(b, top, below, elem);
    let z = b.mul(q, q);
    let p = polynomial(b, z, series, elem);
    let cube = b.mul(q, z);
    let r = b.fma(cube, p, q);
    // Which quarter, and on which side of it.
    let swapped = b.cmp(CmpOp::Gt, ay, ax);
    let sign = b.bitcast(x, int);
    let no = b.constant(int, 0);
    let left = b.cmp(CmpOp::Lt, sign, no);
    let (two, four) = (number(b, 2.0), number(b, 4.0));
    let k = b.select(near, one, zero);
    let up = b.bin(BinOp::Sub, two, k);
    let k = b.select(swapped, up, k);
    let back = b.bin(BinOp::Sub, four, k);
    let k = b.select(left, back, k);
    let turned = b.bin(BinOp::Xor, swapped, left);
    let minus = b.un(UnOp::Neg, r);
    let r = b.select(turned, minus, r);
    let (high, low) = (number(b, quarter), number(b, rest));
    let whole = b.mul(k, high);
    let lost = b.un(UnOp::Neg, whole);
    let lost = b.fma(k, high, lost);
    let lost = b.fma(k, low, lost);
    let r = b.add(r, lost);
    let angle = b.add(whole, r);
    // It has the sign of y; a NaN stays one.
    signed_as(b, angle, y)
}
