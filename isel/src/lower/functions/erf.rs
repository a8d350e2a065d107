//! The error function.
//!
//! ```text
//! f32   below 15/16: x + x P(x^2) with relative error 2^-26; above: 1 - 2^(-x Q(x)), where 2^… is erfc and its error small beside 1
//! f64   below 1: x times the Taylor sum to x^40; to 6: 1 - e^(-x^2) Q(x), where Q is e^(x^2) erfc(x) as a polynomial in
//!       2 / (2 + x) with relative error 2^-53, and x^2 has its rounding error taken back; then 1. Stated as 2^-50.
//! ```

use super::div;
use super::exponential::{exp, exp2};
use super::wide::{Wide, number, polynomial, signed_as, widened};
use tilelift_ir::{CmpOp, Scalar};
use tilelift_lane::{BinOp, LVal, LaneBuilder, UnOp};

/// The error function.
pub(in crate::lower) fn erf(b: &mut LaneBuilder, a: LVal, elem: Scalar) -> LVal {
    widened(b, [a], elem, |b, [a], wide| match wide {
        Wide::F32 => short(b, a),
        Wide::F64 => long(b, a),
    })
}

/// `P`.
const SHORT_NEAR: [f64; 6] = [
    0.128_379_151_225_090_03,
    -0.376_124_978_065_490_7,
    0.112_818_025_052_547_45,
    -0.026_764_674_112_200_737,
    0.004_988_768_603_652_716,
    -0.000_596_229_743_678_122_8,
];

/// `Q`, from 15/16 to 4.
const SHORT_FAR: [f64; 8] = [
    1.628_168_821_334_838_9,
    0.916_952_908_039_093,
    0.151_981_920_003_891,
    -0.032_841_037_958_860_4,
    0.004_308_895_207_941_532,
    -0.000_101_724_945_125_170_05,
    -5.970_176_425_762_474_5e-05,
    6.615_930_033_149_198e-06,
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

fn short(b: &mut LaneBuilder, a: LVal) -> LVal {
    let elem = Scalar::F32;
    let magnitude = b.un(UnOp::Abs, a);
    let four = number(b, 4.0, elem);
    let x = b.bin(BinOp::MinNum, magnitude, four);
    let q = polynomial(b, x, &SHORT_FAR, elem);
    let q = b.mul(q, x);
    let q = b.un(UnOp::Neg, q);
    let rest = exp2(b, q, elem);
    let one = number(b, 1.0, elem);
    let outer = b.bin(BinOp::Sub, one, rest);
    let outer = signed_as(b, outer, a);
    let z = b.mul(a, a);
    let p = polynomial(b, z, &SHORT_NEAR, elem);
    let inner = b.fma(p, a, a);
    let limit = number(b, 0.9375, elem);
    let far = b.cmp(CmpOp::Ge, magnitude, limit);
    b.select(far, outer, inner)
}

fn long(b: &mut LaneBuilder, a: LVal) -> LVal {
    let z = b.mul(a, a);
    let series = polynomial(b, z, &ERF, Scalar::F64);
    let inner = b.mul(a, series);
    // Where 1 is the result the formulas must not overflow.
    let x = b.un(UnOp::Abs, a);
    let six = number(b, 6.0, Scalar::F64);
    let x = b.bin(BinOp::MinNum, x, six);
    let square = b.mul(x, x);
    let minus = b.un(UnOp::Neg, square);
    let lost = b.fma(x, x, minus);
    let e = exp(b, minus, Scalar::F64);
    let less = b.un(UnOp::Neg, lost);
    let e = b.fma(e, less, e);
    let (one, two) = (number(b, 1.0, Scalar::F64), number(b, 2.0, Scalar::F64));
    let below = b.add(x, two);
    let t = div(b, two, below, Scalar::F64);
    let (middle, half) = (number(b, -11.0 / 24.0, Scalar::F64), number(b, 24.0 / 5.0, Scalar::F64));
    let u = b.add(t, middle);
    let u = b.mul(u, half);
    let q = polynomial(b, u, &ERFCX, Scalar::F64);
    let minus = b.un(UnOp::Neg, e);
    let outer = b.fma(minus, q, one);
    let outer = signed_as(b, outer, a);
    // `a` may be NaN: then neither holds, and the inner form keeps it.
    let magnitude = b.un(UnOp::Abs, a);
    let far = b.cmp(CmpOp::Ge, magnitude, one);
    b.select(far, outer, inner)
}
