//! Sine and cosine.
//!
//! ```text
//! f32   |a| below 1 as it is; else a's 24-bit significand times a 96-bit window of 2/pi (Payne and Hanek, "Radian reduction for
//!       trigonometric functions", 1983) gives the quadrant and 62 bits of the fraction, so that the reduced argument has a relative
//!       error of 2^-23 however large a is. Then x + x^3 P(x^2) or 1 + x^2 Q(x^2), fits with relative error 2^-30
//! f64   |a| from 1/2 on: a's significand times a 192-bit window of 2/pi, chosen by the exponent, modulo 4: the quadrant, and a fraction
//!       of a quadrant f, |f| <= 1/2, off by at most 2^-137. No f64 comes nearer to a multiple of pi/2 than 2^-62, so that f has a
//!       relative error of 2^-63, and r = f pi/2, kept as hi + lo, one of 2^-62. Then Taylor sums to r^17 and r^18, cut where the rest
//!       is below 2^-63. The result is below 1 unit in the last place and stated as 2^-52.
//! ```

use super::wide::{F64, Wide, number, polynomial, test, widened, with};
use tilelift_ir::num::TWO_OVER_PI;
use tilelift_ir::{CmpOp, Scalar};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, UnOp};

/// The sine, or with `cosine` the cosine.
pub(in crate::lower) fn sine(b: &mut LaneBuilder, a: LVal, elem: Scalar, cosine: bool) -> LVal {
    widened(b, [a], elem, |b, [a], wide| match wide {
        Wide::F32 => short(b, a, cosine),
        Wide::F64 => long(b, a, cosine),
    })
}

/// 2/pi behind 25 zeros, highest word first.
const SHORT_WORDS: [u32; 7] = {
    let mut words = [0; 7];
    let mut i = 0;
    while i < words.len() {
        // The table has 64 zeros in front.
        let at = 64 - 25 + 32 * i;
        let pair = (TWO_OVER_PI[at / 64] as u128) << 64 | TWO_OVER_PI[at / 64 + 1] as u128;
        words[i] = (pair >> (96 - at % 64)) as u32;
        i += 1;
    }
    words
};

/// `(sin(x) / x - 1) / x^2` in powers of `x^2`.
const SHORT_SINE: [f64; 4] =
    [-0.166_666_671_633_720_4, 0.008_333_351_463_079_453, -0.000_198_416_804_778_389_63, 2.721_993_723_753_257_7e-06];

/// `cos(x)` in powers of `x^2`.
const SHORT_COSINE: [f64; 5] =
    [1.0, -0.499_999_970_197_677_6, 0.041_666_425_764_560_7, -0.001_388_243_166_729_807_9, 2.409_379_885_648_377_2e-05];

/// pi/2 of the first of 64 bits.
const QUADRANT: f64 = 8.515_304_187_176_306e-20;

/// Quadrant and remainder of the `f32` of those bits, which is at least 1.
fn short_remainder(b: &mut LaneBuilder, magnitude: LVal) -> (LVal, LVal) {
    let exponent = with(b, BinOp::ShrU, magnitude, 23);
    let by = with(b, BinOp::Add, exponent, -127);
    let words = SHORT_WORDS.map(|w| b.i32(i64::from(w as i32)));
    let far = with(b, BinOp::And, by, 32);
    let far = test(b, CmpOp::Ne, far, 0);
    let first: [LVal; 6] = std::array::from_fn(|i| b.select(far, words[i + 1], words[i]));
    let far = with(b, BinOp::And, by, 64);
    let far = test(b, CmpOp::Ne, far, 0);
    let words: [LVal; 4] = std::array::from_fn(|i| b.select(far, first[i + 2], first[i]));
    let [high, middle, low] = std::array::from_fn(|i| b.funnel(words[i], words[i + 1], by));
    let fraction = with(b, BinOp::And, magnitude, 0x7f_ffff);
    let significand = with(b, BinOp::Or, fraction, 0x80_0000);
    let zero = b.i64(0);
    let sum = b.mad_wide_u(low, significand, zero);
    let carry = with(b, BinOp::ShrU, sum, 32);
    let sum = b.mad_wide_u(middle, significand, carry);
    let top = b.mul(high, significand);
    let top = b.cvt(top, LTy::I64);
    let top = with(b, BinOp::Shl, top, 32);
    let sum = b.add(sum, top);
    // Half quadrants above, rounded to quadrants; below, a signed fraction.
    let quadrant = with(b, BinOp::ShrU, sum, 61);
    let quadrant = b.cvt(quadrant, LTy::I32);
    let quadrant = with(b, BinOp::Add, quadrant, 1);
    let quadrant = with(b, BinOp::ShrU, quadrant, 1);
    let fraction = with(b, BinOp::Shl, sum, 2);
    let fraction = b.cvt(fraction, LTy::F32);
    let unit = number(b, QUADRANT, Scalar::F32);
    (quadrant, b.mul(fraction, unit))
}

fn short(b: &mut LaneBuilder, a: LVal, cosine: bool) -> LVal {
    let bits = b.bitcast(a, LTy::I32);
    let magnitude = with(b, BinOp::And, bits, 0x7fff_ffff);
    let (quadrant, x) = short_remainder(b, magnitude);
    let small = test(b, CmpOp::Lt, magnitude, 0x3f80_0000);
    let own = b.bitcast(magnitude, LTy::F32);
    let x = b.select(small, own, x);
    let zero = b.i32(0);
    let quadrant = b.select(small, zero, quadrant);
    let quadrant = if cosine { with(b, BinOp::Add, quadrant, 1) } else { quadrant };
    let z = b.mul(x, x);
    let odd = polynomial(b, z, &SHORT_SINE, Scalar::F32);
    let odd = b.mul(odd, z);
    let odd = b.fma(odd, x, x);
    let even = polynomial(b, z, &SHORT_COSINE, Scalar::F32);
    let which = with(b, BinOp::And, quadrant, 1);
    let which = test(b, CmpOp::Ne, which, 0);
    let value = b.select(which, even, odd);
    let sign = with(b, BinOp::And, quadrant, 2);
    let mut sign = with(b, BinOp::Shl, sign, 30);
    if !cosine {
        let own = with(b, BinOp::And, bits, i64::from(i32::MIN));
        sign = b.bin(BinOp::Xor, sign, own);
    }
    let value = b.bitcast(value, LTy::I32);
    let value = b.bin(BinOp::Xor, value, sign);
    let value = b.bitcast(value, LTy::F32);
    // Infinities and NaN give NaN.
    let zero = number(b, 0.0, Scalar::F32);
    b.fma(a, zero, value)
}

/// `-1/3!`, `1/5!`, ….
const SINE: [f64; 8] = [
    -0.166_666_666_666_666_66,
    0.008_333_333_333_333_333,
    -0.000_198_412_698_412_698_4,
    2.755_731_922_398_589_3e-06,
    -2.505_210_838_544_172e-08,
    1.605_904_383_682_161_3e-10,
    -7.647_163_731_819_816e-13,
    2.811_457_254_345_520_6e-15,
];

/// `1/4!`, `-1/6!`, ….
const COSINE: [f64; 8] = [
    0.041_666_666_666_666_664,
    -0.001_388_888_888_888_889,
    2.480_158_730_158_73e-05,
    -2.755_731_922_398_589e-07,
    2.087_675_698_786_81e-09,
    -1.147_074_559_772_972_5e-11,
    4.779_477_332_387_385e-14,
    -1.561_920_696_858_622_5e-16,
];

/// pi/2 less its nearest `f64`.
const PIO2_LOW: f64 = 6.123_233_995_736_766e-17;

/// The words of 2/pi from number `index` on, as many as `need`.
fn window(b: &mut LaneBuilder, index: LVal, need: usize) -> Vec<LVal> {
    let mut words: Vec<LVal> = TWO_OVER_PI.iter().map(|&w| b.i64(w as i64)).collect();
    let zero = b.i64(0);
    for bit in [16usize, 8, 4, 2, 1] {
        let set = with(b, BinOp::And, index, bit as i64);
        let set = test(b, CmpOp::Ne, set, 0);
        words = (0..need + bit - 1)
            .map(|i| {
                let (near, far) = (words.get(i).copied().unwrap_or(zero), words.get(i + bit).copied().unwrap_or(zero));
                b.select(set, far, near)
            })
            .collect();
    }
    words
}

/// Quadrant and remainder, as `hi + lo`, of a number that is not negative; its bits are given, too.
fn reduce(b: &mut LaneBuilder, x: LVal, bits: LVal) -> (LVal, LVal, LVal) {
    let exponent = with(b, BinOp::ShrU, bits, 52);
    // The first bit of the window is worth 2 when multiplied by the significand as an integer: what is above is a multiple of 4.
    let first = with(b, BinOp::Add, exponent, -1013);
    let first = with(b, BinOp::Maximum, first, 0);
    let (index, shift) = (with(b, BinOp::ShrU, first, 6), with(b, BinOp::And, first, 63));
    let words = window(b, index, 4);
    let sixty_four = b.i64(64);
    let rest = b.bin(BinOp::Sub, sixty_four, shift);
    let w: Vec<LVal> = (0..3)
        .map(|k| {
            // A shift by 64 gives 0.
            let (high, low) = (b.bin(BinOp::Shl, words[k], shift), b.bin(BinOp::ShrU, words[k + 1], rest));
            b.bin(BinOp::Or, high, low)
        })
        .collect();
    let fraction = with(b, BinOp::And, bits, (1 << 52) - 1);
    let significand = with(b, BinOp::Or, fraction, 1 << 52);
    // The product modulo 2^192, lowest word first.
    let p0 = b.mul(significand, w[2]);
    let carry = b.bin(BinOp::MulHiU, significand, w[2]);
    let low = b.mul(significand, w[1]);
    let p1 = b.add(low, carry);
    let wrapped = b.cmp(CmpOp::Ult, p1, carry);
    let carry = b.cvt(wrapped, LTy::I64);
    let high = b.bin(BinOp::MulHiU, significand, w[1]);
    let carry = b.add(high, carry);
    let low = b.mul(significand, w[0]);
    let p2 = b.add(low, carry);
    // Quadrants above, and below them a signed fraction of 128 bits.
    let join = |b: &mut LaneBuilder, high: LVal, low: LVal| {
        let (high, low) = (with(b, BinOp::Shl, high, 2), with(b, BinOp::ShrU, low, 62));
        b.bin(BinOp::Or, high, low)
    };
    let (f1, f0) = (join(b, p2, p1), join(b, p1, p0));
    let (whole, up) = (with(b, BinOp::ShrU, p2, 62), with(b, BinOp::ShrU, f1, 63));
    let quadrant = b.add(whole, up);
    let negative = test(b, CmpOp::Lt, f1, 0);
    let zero = b.i64(0);
    let n0 = b.bin(BinOp::Sub, zero, f0);
    let borrow = test(b, CmpOp::Eq, f0, 0);
    let borrow = b.cvt(borrow, LTy::I64);
    let n1 = b.un(UnOp::Not, f1);
    let n1 = b.add(n1, borrow);
    let (g1, g0) = (b.select(negative, n1, f1), b.select(negative, n0, f0));
    // Its upper 64 bits from the first one on, in 53 and 11.
    let zeros = b.un(UnOp::Clz, g1);
    let rest = b.bin(BinOp::Sub, sixty_four, zeros);
    let (high, low) = (b.bin(BinOp::Shl, g1, zeros), b.bin(BinOp::ShrU, g0, rest));
    let top = b.bin(BinOp::Or, high, low);
    let (upper, lower) = (with(b, BinOp::ShrU, top, 11), with(b, BinOp::And, top, 0x7ff));
    let (upper, lower) = (b.cvt(upper, F64), b.cvt(lower, F64));
    let biased = b.i64(1023 - 64);
    let scale = b.bin(BinOp::Sub, biased, zeros);
    let scale = with(b, BinOp::Shl, scale, 52);
    let scale = b.bitcast(scale, F64);
    let minus = b.un(UnOp::Neg, scale);
    let scale = b.select(negative, minus, scale);
    let two = number(b, 2048.0, Scalar::F64);
    let upper = b.mul(upper, two);
    let (fh, fl) = (b.mul(upper, scale), b.mul(lower, scale));
    let (pi_high, pi_low) = (number(b, std::f64::consts::FRAC_PI_2, Scalar::F64), number(b, PIO2_LOW, Scalar::F64));
    let rh = b.mul(fh, pi_high);
    let minus = b.un(UnOp::Neg, rh);
    let rl = b.fma(fh, pi_high, minus);
    let rl = b.fma(fh, pi_low, rl);
    let rl = b.fma(fl, pi_high, rl);
    // Below 1/2 there is nothing to reduce.
    let small = test(b, CmpOp::Lt, exponent, 1022);
    let none = number(b, 0.0, Scalar::F64);
    (b.select(small, zero, quadrant), b.select(small, x, rh), b.select(small, none, rl))
}

fn long(b: &mut LaneBuilder, a: LVal, cosine: bool) -> LVal {
    let x = b.un(UnOp::Abs, a);
    let bits = b.bitcast(x, LTy::I64);
    let (quadrant, rh, rl) = reduce(b, x, bits);
    let quadrant = if cosine { with(b, BinOp::Add, quadrant, 1) } else { quadrant };
    let z = b.mul(rh, rh);
    let (half, one) = (number(b, -0.5, Scalar::F64), number(b, 1.0, Scalar::F64));
    // sin (h + l) = h + (h z S(z) + l (1 - z / 2))
    let slope = b.fma(z, half, one);
    let slope = b.mul(rl, slope);
    let cube = b.mul(rh, z);
    let series = polynomial(b, z, &SINE, Scalar::F64);
    let tail = b.fma(cube, series, slope);
    let odd = b.add(rh, tail);
    // cos (h + l) = w + ((1 - w - z / 2) + (z^2 C(z) - h l)) with w = 1 - z / 2 rounded
    let w = b.fma(z, half, one);
    let lost = b.bin(BinOp::Sub, one, w);
    let lost = b.fma(z, half, lost);
    let series = polynomial(b, z, &COSINE, Scalar::F64);
    let square = b.mul(z, z);
    let minus = b.un(UnOp::Neg, rh);
    let tail = b.fma(minus, rl, lost);
    let tail = b.fma(square, series, tail);
    let even = b.add(w, tail);
    let which = with(b, BinOp::And, quadrant, 1);
    let which = test(b, CmpOp::Ne, which, 0);
    let value = b.select(which, even, odd);
    let sign = with(b, BinOp::And, quadrant, 2);
    let sign = with(b, BinOp::Shl, sign, 62);
    let value = b.bitcast(value, LTy::I64);
    let mut value = b.bin(BinOp::Xor, value, sign);
    if !cosine {
        let own = b.bitcast(a, LTy::I64);
        let own = with(b, BinOp::And, own, i64::MIN);
        value = b.bin(BinOp::Xor, value, own);
    }
    let mut value = b.bitcast(value, F64);
    if !cosine {
        // Below 2^-27 the sine is its argument, -0 included.
        let tiny = test(b, CmpOp::Lt, bits, (1023 - 27) << 52);
        value = b.select(tiny, a, value);
    }
    // Infinities and NaN give NaN.
    let zero = number(b, 0.0, Scalar::F64);
    b.fma(a, zero, value)
}
