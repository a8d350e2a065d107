//! Sine, cosine and error function of `f64` as sequences of lane operations, since no machine has them.
//!
//! ```text
//! sin, cos   |a| from 1/2 on: a's significand times a 192-bit window of 2/pi, chosen by the exponent (Payne and Hanek, "Radian reduction
//!            for trigonometric functions", 1983), modulo 4: the quadrant, and a fraction of a quadrant f, |f| <= 1/2, off by at
//!            most 2^-137. No f64 comes nearer to a multiple of pi/2 than 2^-62, so that f has a relative error of 2^-63, and
//!            r = f pi/2, kept as hi + lo, one of 2^-62. Then Taylor sums to r^17 and r^18, cut where the rest is below 2^-63.
//! erf        below 1: x times the Taylor sum to x^40; to 6: 1 - e^(-x^2) Q(x), where Q is e^(x^2) erfc(x) as a polynomial in
//!            2 / (2 + x) with relative error 2^-53, and x^2 has its rounding error taken back; then 1.
//! ```
//!
//! Errors: sin and cos stay below 1 unit in the last place and are stated as 2^-52, erf as 2^-50.

use crate::lane::{BinOp, LTy, LVal, LaneBuilder, UnOp};
use tilelift_ir::num::TWO_OVER_PI;
use tilelift_ir::{CmpOp, Scalar, num};

const F64: LTy = LTy::Num(Scalar::F64);

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

/// `2 / sqrt(pi) * (-1)^n / (n! (2 n + 1))`.
const ERF: [f64; 21] = [
    std::f64::consts::FRAC_2_SQRT_PI,
    -0.376_126_389_031_837_54,
    0.112_837_916_709_551_26,
    -0.026_866_170_645_131_252,
    0.005_223_977_625_442_188,
    -0.000_854_832_702_345_085_3,
    0.000_120_553_329_817_896_64,
    -1.492_565_035_840_625e-05,
    1.646_211_436_588_924_8e-06,
    -1.636_584_469_123_492_4e-07,
    1.480_719_281_587_921_8e-08,
    -1.229_055_530_171_792_8e-09,
    9.422_759_064_650_411e-11,
    -6.711_366_855_164_110_5e-12,
    4.463_224_263_286_477_5e-13,
    -2.783_516_207_210_921_5e-14,
    1.634_261_409_536_715_2e-15,
    -9.063_970_842_808_673e-17,
    4.763_348_040_515_068e-18,
    -2.378_459_885_277_429_3e-19,
    1.131_218_725_924_631e-20,
];

/// `e^(x^2) erfc(x)` for x from 1 to 6, in powers of `(2 / (2 + x) - 11/24) / (5/24)`: a fit in Chebyshev points.
const ERFCX: [f64; 20] = [
    0.221_429_540_229_931_8,
    0.161_893_568_041_024_98,
    0.038_560_570_425_182_43,
    0.005_588_816_281_839_559,
    0.000_197_139_177_727_711_1,
    -8.079_220_426_206_243e-05,
    -7.340_517_934_853_432e-06,
    1.979_561_812_017_618_7e-06,
    1.634_993_523_321_315e-07,
    -7.005_316_575_245_999e-08,
    -5.885_337_928_856_09e-10,
    2.623_945_494_497_94e-09,
    -2.688_336_619_272_658_5e-10,
    -7.350_982_522_096_298e-11,
    2.228_121_102_189_222_4e-11,
    -2.346_156_379_553_977e-13,
    -1.020_058_948_732_685e-12,
    1.958_263_195_494_612_6e-13,
    1.955_553_739_346_461_8e-14,
    -1.130_011_234_817_048_7e-14,
];

/// pi/2 less its nearest `f64`.
const PIO2_LOW: f64 = 6.123_233_995_736_766e-17;

fn number(b: &mut LaneBuilder, x: f64) -> LVal {
    b.constant(F64, x.to_bits())
}

fn with(b: &mut LaneBuilder, op: BinOp, a: LVal, c: i64) -> LVal {
    let c = b.i64(c);
    b.bin(op, a, c)
}

/// Where `a op c`.
fn test(b: &mut LaneBuilder, op: CmpOp, a: LVal, c: i64) -> LVal {
    let c = b.i64(c);
    b.cmp(op, a, c)
}

/// `c0 + x (c1 + x (…))`.
fn polynomial(b: &mut LaneBuilder, x: LVal, coefficients: &[f64]) -> LVal {
    series(b, x, coefficients, Scalar::F64)
}

/// The same, of a float type.
pub(super) fn series(b: &mut LaneBuilder, x: LVal, coefficients: &[f64], elem: Scalar) -> LVal {
    let mut terms = coefficients.iter().rev().map(|&c| num::to_bits(c, elem));
    let last = terms.next().unwrap_or(0);
    let mut sum = b.constant(LTy::Num(elem), last);
    for c in terms {
        let c = b.constant(LTy::Num(elem), c);
        sum = b.fma(sum, x, c);
    }
    sum
}

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
    let two = number(b, 2048.0);
    let upper = b.mul(upper, two);
    let (fh, fl) = (b.mul(upper, scale), b.mul(lower, scale));
    let (pi_high, pi_low) = (number(b, std::f64::consts::FRAC_PI_2), number(b, PIO2_LOW));
    let rh = b.mul(fh, pi_high);
    let minus = b.un(UnOp::Neg, rh);
    let rl = b.fma(fh, pi_high, minus);
    let rl = b.fma(fh, pi_low, rl);
    let rl = b.fma(fl, pi_high, rl);
    // Below 1/2 there is nothing to reduce.
    let small = test(b, CmpOp::Lt, exponent, 1022);
    let none = number(b, 0.0);
    (b.select(small, zero, quadrant), b.select(small, x, rh), b.select(small, none, rl))
}

/// The sine, or with `cosine` the cosine.
pub(super) fn sine(b: &mut LaneBuilder, a: LVal, cosine: bool) -> LVal {
    let x = b.un(UnOp::Abs, a);
    let bits = b.bitcast(x, LTy::I64);
    let (quadrant, rh, rl) = reduce(b, x, bits);
    let quadrant = if cosine { with(b, BinOp::Add, quadrant, 1) } else { quadrant };
    let z = b.mul(rh, rh);
    let (half, one) = (number(b, -0.5), number(b, 1.0));
    // sin (h + l) = h + (h z S(z) + l (1 - z / 2))
    let slope = b.fma(z, half, one);
    let slope = b.mul(rl, slope);
    let cube = b.mul(rh, z);
    let series = polynomial(b, z, &SINE);
    let tail = b.fma(cube, series, slope);
    let odd = b.add(rh, tail);
    // cos (h + l) = w + ((1 - w - z / 2) + (z^2 C(z) - h l)) with w = 1 - z / 2 rounded
    let w = b.fma(z, half, one);
    let lost = b.bin(BinOp::Sub, one, w);
    let lost = b.fma(z, half, lost);
    let series = polynomial(b, z, &COSINE);
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
    let zero = number(b, 0.0);
    b.fma(a, zero, value)
}

/// The error function.
pub(super) fn erf(b: &mut LaneBuilder, a: LVal) -> LVal {
    let z = b.mul(a, a);
    let series = polynomial(b, z, &ERF);
    let inner = b.mul(a, series);
    // Where 1 is the result the formulas must not overflow.
    let x = b.un(UnOp::Abs, a);
    let six = number(b, 6.0);
    let x = b.bin(BinOp::MinNum, x, six);
    let square = b.mul(x, x);
    let minus = b.un(UnOp::Neg, square);
    let lost = b.fma(x, x, minus);
    let e = b.un(UnOp::Exp, minus);
    let less = b.un(UnOp::Neg, lost);
    let e = b.fma(e, less, e);
    let (one, two) = (number(b, 1.0), number(b, 2.0));
    let below = b.add(x, two);
    let t = b.bin(BinOp::Div, two, below);
    let (middle, half) = (number(b, -11.0 / 24.0), number(b, 24.0 / 5.0));
    let u = b.add(t, middle);
    let u = b.mul(u, half);
    let q = polynomial(b, u, &ERFCX);
    let minus = b.un(UnOp::Neg, e);
    let outer = b.fma(minus, q, one);
    let outer = b.bitcast(outer, LTy::I64);
    let own = b.bitcast(a, LTy::I64);
    let sign = with(b, BinOp::And, own, i64::MIN);
    let outer = b.bin(BinOp::Or, outer, sign);
    let outer = b.bitcast(outer, F64);
    // `a` may be NaN: then neither holds, and the inner form keeps it.
    let magnitude = b.un(UnOp::Abs, a);
    let far = b.cmp(CmpOp::Ge, magnitude, one);
    b.select(far, outer, inner)
}
