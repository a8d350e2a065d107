//! Square roots, and reciprocals, where a machine has none of its own. The reciprocals are quotients.
//!
//! ```text
//! sqrt   a = 4^k m with m in [1, 4); y near 1 / sqrt(m): the machine's rsqrt of f32, else a cubic with relative error 2^-6.7, and as many
//!        steps y + y / 2 (1 - m y^2) of Newton's method as bring it below 2^-48 (f64) and 2^-22 (f32)
//!        s = m y + (m - (m y)^2) y / 2 is then off by less than a unit u in the last place, and the remainder m - s^2, which fma has in
//!        full, says whether a neighbour is nearer: (s + u/2)^2 = s^2 + s u + u^2 / 4, and all of them but u^2 / 4 are multiples of u^2
//! ```

use super::div;
use super::wide::{F64, Wide, number, own, polynomial, widened, with};
use tilelift_ir::{CmpOp, Scalar, num};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, UnOp};

/// `1 / sqrt(m)` on [1, 4].
const GUESS: [f64; 4] = [1.534_515, -0.708_003, 0.181_69, -0.017_375];

/// `1 / a`.
pub(in crate::lower) fn rcp(b: &mut LaneBuilder, a: LVal, elem: Scalar) -> LVal {
    if let Some(v) = own(b, UnOp::Rcp, a, elem) {
        return v;
    }
    widened(b, [a], elem, |b, [a], wide| own(b, UnOp::Rcp, a, wide.scalar()).unwrap_or_else(|| inverse(b, a, wide)))
}

/// `1 / a` of an `f32`, where subnormal numbers do not matter.
pub(super) fn rcp_normal(b: &mut LaneBuilder, a: LVal) -> LVal {
    own(b, UnOp::RcpNormal, a, Scalar::F32).unwrap_or_else(|| rcp(b, a, Scalar::F32))
}

/// `1 / sqrt(a)`.
pub(in crate::lower) fn rsqrt(b: &mut LaneBuilder, a: LVal, elem: Scalar) -> LVal {
    if let Some(v) = own(b, UnOp::Rsqrt, a, elem) {
        return v;
    }
    widened(b, [a], elem, |b, [a], wide| {
        own(b, UnOp::Rsqrt, a, wide.scalar()).unwrap_or_else(|| {
            let root = sqrt(b, a, wide.scalar());
            inverse(b, root, wide)
        })
    })
}

fn inverse(b: &mut LaneBuilder, a: LVal, wide: Wide) -> LVal {
    let one = number(b, 1.0, wide.scalar());
    div(b, one, a, wide.scalar())
}

/// The square root, rounded to nearest even.
pub(in crate::lower) fn sqrt(b: &mut LaneBuilder, a: LVal, elem: Scalar) -> LVal {
    if let Some(v) = own(b, UnOp::Sqrt, a, elem) {
        return v;
    }
    widened(b, [a], elem, |b, [a], wide| own(b, UnOp::Sqrt, a, wide.scalar()).unwrap_or_else(|| root(b, a, wide)))
}

/// `1 / sqrt(m)` for m in [1, 4), and how many steps of Newton's method it lacks.
fn guess(b: &mut LaneBuilder, m: LVal, wide: Wide) -> (LVal, usize) {
    let elem = wide.scalar();
    let short = b.cvt(m, LTy::F32);
    match (own(b, UnOp::Rsqrt, short, Scalar::F32), wide) {
        (Some(y), Wide::F32) => (y, 0),
        (Some(y), Wide::F64) => (b.cvt(y, F64), 2),
        (None, Wide::F32) => (polynomial(b, m, &GUESS, elem), 3),
        (None, Wide::F64) => (polynomial(b, m, &GUESS, elem), 4),
    }
}

fn root(b: &mut LaneBuilder, a: LVal, wide: Wide) -> LVal {
    let elem = wide.scalar();
    let n = |b: &mut LaneBuilder, x: f64| number(b, x, elem);
    let (int, fraction, bias, up) = match wide {
        Wide::F32 => (LTy::I32, 23, 127i64, 24),
        Wide::F64 => (LTy::I64, 52, 1023, 54),
    };
    let constant = |b: &mut LaneBuilder, x: i64| b.constant(int, x as u64);
    // Subnormal numbers are scaled by an even power of 2.
    let (least, factor) = (n(b, 2f64.powi(1 - bias as i32)), n(b, 2f64.powi(up)));
    let small = b.cmp(CmpOp::Lt, a, least);
    let normal = b.mul(a, factor);
    let normal = b.select(small, normal, a);
    let bits = b.bitcast(normal, int);
    let exponent = with(b, BinOp::ShrU, bits, fraction);
    let exponent = with(b, BinOp::Add, exponent, -bias);
    let odd = with(b, BinOp::And, exponent, 1);
    let odd = with(b, BinOp::Shl, odd, fraction);
    let m = with(b, BinOp::And, bits, (1 << fraction) - 1);
    let m = with(b, BinOp::Or, m, bias << fraction);
    let m = b.add(m, odd);
    let m = b.bitcast(m, LTy::Num(elem));
    let half = with(b, BinOp::ShrS, exponent, 1);
    let (less, none) = (constant(b, i64::from(up) / 2), constant(b, 0));
    let less = b.select(small, less, none);
    let half = b.bin(BinOp::Sub, half, less);
    let (mut y, steps) = guess(b, m, wide);
    let (one, middle, unit) = (n(b, 1.0), n(b, 0.5), n(b, 2f64.powi(-(fraction as i32))));
    for _ in 0..steps {
        let s = b.mul(m, y);
        let minus = b.un(UnOp::Neg, s);
        let e = b.fma(minus, y, one);
        let h = b.mul(y, middle);
        y = b.fma(h, e, y);
    }
    let rest = |b: &mut LaneBuilder, s: LVal| {
        let minus = b.un(UnOp::Neg, s);
        b.fma(minus, s, m)
    };
    let s = b.mul(m, y);
    let r = rest(b, s);
    let h = b.mul(y, middle);
    let s = b.fma(r, h, s);
    let r = rest(b, s);
    let t = b.mul(s, unit);
    let minus = b.un(UnOp::Neg, t);
    let (above, below) = (b.cmp(CmpOp::Gt, r, t), b.cmp(CmpOp::Le, r, minus));
    let (next, before) = (b.add(s, unit), b.bin(BinOp::Sub, s, unit));
    let s = b.select(above, next, s);
    let s = b.select(below, before, s);
    let s = b.bitcast(s, int);
    let scale = with(b, BinOp::Shl, half, fraction);
    let s = b.add(s, scale);
    let s = b.bitcast(s, LTy::Num(elem));
    // Zeros of both signs and infinity are their own roots; below, and of what is no number, there is none.
    let (zero, infinity) = (n(b, 0.0), n(b, f64::INFINITY));
    let nan = b.constant(LTy::Num(elem), num::to_bits(f64::NAN, elem));
    let (positive, finite) = (b.cmp(CmpOp::Gt, a, zero), b.cmp(CmpOp::Lt, a, infinity));
    let plain = b.bin(BinOp::And, positive, finite);
    let allowed = b.cmp(CmpOp::Ge, a, zero);
    let other = b.select(allowed, a, nan);
    b.select(plain, s, other)
}
