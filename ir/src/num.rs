//! Exact number types: rounding to every float format and wrapping to every integer width.
//!
//! A float of any element type is kept as the `f64` of the same value (every format here is a subset of binary64); an operation is
//! computed in `f64` and rounded once to the type. For `+ - * / sqrt` on formats of up to 25 significant bits that double rounding
//! is harmless (Figueroa 1995: the wide format has at least `2p + 2` bits), so results equal the format's own arithmetic.
//!
//! Formats of one byte or less (OCP 8-bit floating point specification 1.0; the `fnuz` variants as in LLVM's `APFloat`; OCP MX 1.0 for
//! `f8e8m0`). Where a format has an infinity, what is too large becomes it; where it has none, what is too large, infinities included,
//! becomes the largest number of that sign (saturation). NaN stays NaN in all of them but `f4e2m1`, which has none: it becomes 6, the
//! largest number (the OCP specification leaves this to the implementation; NVIDIA's conversions do the same).
//!
//! ```text
//!              bias  smallest normal   largest        code of NaN      code of +infinity   code 80
//! f8e4m3         7   2^-6              448   (7e)     7f (and ff)      none                -0
//! f8e5m2        15   2^-14             57344 (7b)     7f (7d to 7f …)  7c                  -0
//! f8e4m3fnuz     8   2^-7              240   (7f)     80               none                NaN
//! f8e5m2fnuz    16   2^-15             57344 (7f)     80               none                NaN
//! f8e8m0       127   2^-127            2^127 (fe)     ff               none                2
//! f4e2m1         1   1                 6     (7)      none             none                (-0 is 8)
//! ```
//!
//! `f8e8m0` has neither zero nor sign: a zero becomes the smallest number, a negative number NaN; a tie goes to the even code.

use crate::types::Scalar;

/// Significand bits (with the hidden one), smallest normal exponent, largest exponent of a float type.
const fn format(ty: Scalar) -> (i32, i32, i32) {
    match ty {
        Scalar::F16 => (11, -14, 15),
        Scalar::BF16 => (8, -126, 127),
        Scalar::F32 => (24, -126, 127),
        Scalar::F64 => (53, -1022, 1023),
        Scalar::F8E4M3 => (4, -6, 8),
        Scalar::F8E5M2 => (3, -14, 15),
        Scalar::F8E4M3Fnuz => (4, -7, 7),
        Scalar::F8E5M2Fnuz => (3, -15, 15),
        Scalar::F8E8M0 => (1, -127, 127),
        Scalar::F4E2M1 => (2, 0, 2),
        // Not floats: callers ask only for floats; the widest format keeps the value.
        Scalar::I1 | Scalar::I4 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => (53, -1022, 1023),
    }
}

/// The largest finite value of a float type.
pub const fn largest(ty: Scalar) -> f64 {
    match ty {
        Scalar::F16 => 65504.0,
        Scalar::BF16 => f32::from_bits(0x7f7f_0000) as f64,
        Scalar::F32 => f32::MAX as f64,
        Scalar::F8E4M3 => 448.0,
        Scalar::F8E5M2 | Scalar::F8E5M2Fnuz => 57344.0,
        Scalar::F8E4M3Fnuz => 240.0,
        Scalar::F8E8M0 => f32::from_bits(0x7f00_0000) as f64,
        Scalar::F4E2M1 => 6.0,
        Scalar::F64 | Scalar::I1 | Scalar::I4 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => f64::MAX,
    }
}

/// True if a float type has infinities; what is too large for one without becomes its [`largest`] number.
pub const fn has_infinity(ty: Scalar) -> bool {
    !matches!(ty, Scalar::F8E4M3 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 | Scalar::F4E2M1)
}

/// True if a float type has NaN.
pub const fn has_nan(ty: Scalar) -> bool {
    !matches!(ty, Scalar::F4E2M1)
}

/// True if a float type has a negative zero.
const fn has_negative_zero(ty: Scalar) -> bool {
    !matches!(ty, Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0)
}

/// True if every value of `from`, infinities, NaN and the negative zero included, is a value of `to`, so that a `cast` loses nothing.
/// A truth value counts as 0 or 1.
pub const fn embeds(from: Scalar, to: Scalar) -> bool {
    match (!from.is_float(), !to.is_float()) {
        (true, true) => from.bits() <= to.bits(),
        (false, true) => false,
        (true, false) => {
            let (p, _, emax) = format(to);
            // The most negative number is a power of two; f8e8m0 has no zero.
            !matches!(to, Scalar::F8E8M0) && from.bits() as i32 - 1 <= p && from.bits() as i32 - 1 <= emax
        }
        (false, false) => {
            let ((p, emin, emax), (q, fmin, fmax)) = (format(from), format(to));
            let same = from as u32 == to as u32;
            let zero = !matches!(to, Scalar::F8E8M0);
            let special = (has_infinity(to) || !has_infinity(from)) && (has_negative_zero(to) || !has_negative_zero(from));
            same || (zero && special && p <= q && emax <= fmax && emin - p >= fmin - q)
        }
    }
}

/// Rounds to the nearest value of a float type, ties to even; overflow gives infinity (the [`largest`] number where there is none), NaN
/// stays NaN (the largest number where there is none).
pub fn round(x: f64, ty: Scalar) -> f64 {
    match ty {
        Scalar::F64 => x,
        Scalar::F32 => f64::from(x as f32),
        Scalar::F16 | Scalar::BF16 | Scalar::I1 | Scalar::I4 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => {
            let (p, emin, emax) = format(ty);
            round_to(x, p, emin, emax)
        }
        Scalar::F4E2M1 if x.is_nan() => largest(ty),
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F4E2M1 => {
            let (p, emin, emax) = format(ty);
            let r = round_to(x, p, emin, emax);
            let top = largest(ty);
            if r.abs() > top {
                if has_infinity(ty) { r } else { top.copysign(r) }
            } else if r == 0.0 && !has_negative_zero(ty) {
                0.0
            } else {
                r
            }
        }
        Scalar::F8E8M0 => round_scale(x),
    }
}

/// Rounds to a power of two from 2^-127 to 2^127, ties to the even code.
fn round_scale(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let fraction = x.to_bits() & ((1 << 52) - 1);
    let half = 1u64 << 51;
    // The code of 2^e is e + 127, even where e is odd.
    let up = fraction > half || (fraction == half && exponent.rem_euclid(2) == 0);
    f64::from_bits((((exponent + i32::from(up)).clamp(-127, 127) + 1023) as u64) << 52)
}

fn round_to(x: f64, p: i32, emin: i32, emax: i32) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    if exponent >= emin && exponent < emax {
        // Normal, and not beyond the largest number even if rounded up: half a unit, less a bit if the last place is even, carries.
        let drop = 53 - p;
        let last = x.to_bits() >> drop & 1;
        let up = (1u64 << drop >> 1).saturating_sub(1) + last;
        return f64::from_bits((x.to_bits() + if drop > 0 { up } else { 0 }) >> drop << drop);
    }
    let e = exponent.max(emin);
    // The unit in the last place is a power of two well inside f64's range, so scaling by it is exact.
    let ulp = f64::from_bits(((e - p + 1 + 1023) as u64) << 52);
    let r = (x / ulp).round_ties_even() * ulp;
    let max_plus = f64::from_bits(((emax + 1 + 1023) as u64) << 52);
    if r.abs() >= max_plus { f64::INFINITY.copysign(x) } else { r }
}

/// Rounds an `f32` value to tf32 (10 fraction bits, nearest, ties away from zero), as `cvt.rna.tf32.f32` does.
pub fn round_tf32(x: f64) -> f64 {
    let bits = (x as f32).to_bits();
    if !x.is_finite() {
        return x;
    }
    f64::from(f32::from_bits((bits + 0x1000) & !0x1fff))
}

/// Wraps an integer to a type's width and sign-extends it (`i1` keeps bit 0 as 0 or 1).
pub fn wrap(x: i64, ty: Scalar) -> i64 {
    match ty {
        Scalar::I1 => x & 1,
        Scalar::I4 => x << 60 >> 60,
        Scalar::I8 => i64::from(x as i8),
        Scalar::I16 => i64::from(x as i16),
        Scalar::I32 => i64::from(x as i32),
        Scalar::I64
        | Scalar::F16
        | Scalar::BF16
        | Scalar::F32
        | Scalar::F64
        | Scalar::F8E4M3
        | Scalar::F8E5M2
        | Scalar::F8E4M3Fnuz
        | Scalar::F8E5M2Fnuz
        | Scalar::F8E8M0
        | Scalar::F4E2M1 => x,
    }
}

/// The bits of a float value of a type (which must represent it), in the low bits of the result. NaN gives the type's default quiet NaN.
pub fn to_bits(x: f64, ty: Scalar) -> u64 {
    match ty {
        Scalar::F64 => x.to_bits(),
        Scalar::F32 => u64::from(if x.is_nan() { 0x7fff_ffff } else { (x as f32).to_bits() }),
        Scalar::BF16 => u64::from(if x.is_nan() { 0x7fff } else { (x as f32).to_bits() >> 16 }),
        Scalar::F16 => u64::from(f16_bits(x)),
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F4E2M1 => byte_bits(x, ty),
        // A value that the type lacks is rounded first.
        Scalar::F8E8M0 => {
            let r = round_scale(x);
            if r.is_nan() { 0xff } else { (r.to_bits() >> 52) - (1023 - 127) }
        }
        Scalar::I1 | Scalar::I4 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => x as i64 as u64,
    }
}

fn f16_bits(x: f64) -> u16 {
    let sign = ((x.to_bits() >> 63) as u16) << 15;
    let a = x.abs();
    if x.is_nan() {
        0x7fff
    } else if a.is_infinite() {
        sign | 0x7c00
    } else if a < 2f64.powi(-14) {
        sign | (a * 2f64.powi(24)) as u16
    } else {
        let e = ((a.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        let fraction = ((a.to_bits() >> 42) & 0x3ff) as u16;
        sign | (((e + 15) as u16) << 10) | fraction
    }
}

/// Codes of the formats with a sign, exponent and fraction in one byte or less; a value that the type lacks is rounded first.
fn byte_bits(x: f64, ty: Scalar) -> u64 {
    if x.is_nan() && has_nan(ty) {
        return if has_negative_zero(ty) { 0x7f } else { 0x80 };
    }
    let (p, emin, _) = format(ty);
    let x = round(x, ty);
    let a = x.abs();
    let sign = u64::from(x.is_sign_negative()) << (ty.bits() - 1);
    if a.is_infinite() {
        return sign | 0x7c;
    }
    let power = |e: i32| f64::from_bits(((e + 1023) as u64) << 52);
    let code = if a < power(emin) {
        (a / power(emin - p + 1)) as u64
    } else {
        let e = ((a.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        let fraction = a.to_bits() >> (53 - p) & ((1 << (p - 1)) - 1);
        ((e - emin + 1) as u64) << (p - 1) | fraction
    };
    sign | code
}

/// The value of a code; see [`byte_bits`].
fn byte_value(bits: u64, ty: Scalar) -> f64 {
    let (p, emin, _) = format(ty);
    let top = ty.bits() - 1;
    let (sign, code) = (bits >> top & 1, bits & ((1 << top) - 1));
    let (e, fraction) = ((code >> (p - 1)) as i32, (code & ((1 << (p - 1)) - 1)) as f64);
    let power = |e: i32| f64::from_bits(((e + 1023) as u64) << 52);
    let special = match ty {
        Scalar::F8E4M3 => code == 0x7f,
        Scalar::F8E5M2 => code >= 0x7c,
        Scalar::F4E2M1 => false,
        _ => bits & 0xff == 0x80,
    };
    let a = if special {
        if ty == Scalar::F8E5M2 && code == 0x7c { f64::INFINITY } else { f64::NAN }
    } else if e == 0 {
        fraction * power(emin - p + 1)
    } else {
        (1.0 + fraction / power(p - 1)) * power(emin + e - 1)
    };
    if sign == 1 { -a } else { a }
}

/// The value of a float type's bits.
pub fn from_bits(bits: u64, ty: Scalar) -> f64 {
    match ty {
        Scalar::F64 => f64::from_bits(bits),
        Scalar::F32 => f64::from(f32::from_bits(bits as u32)),
        Scalar::BF16 => f64::from(f32::from_bits((bits as u32 & 0xffff) << 16)),
        // A normal number: other bias, more places.
        Scalar::F16 if !matches!(bits >> 10 & 31, 0 | 31) => {
            f64::from_bits((bits & 0x8000) << 48 | ((bits >> 10 & 31) + 1023 - 15) << 52 | (bits & 0x3ff) << 42)
        }
        Scalar::F16 => {
            let (sign, e, fraction) = (bits >> 15 & 1, (bits >> 10 & 31) as i32, (bits & 0x3ff) as f64);
            let a = match e {
                0 => fraction * 2f64.powi(-24),
                31 if fraction == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                _ => (1.0 + fraction / 1024.0) * 2f64.powi(e - 15),
            };
            if sign == 1 { -a } else { a }
        }
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F4E2M1 => byte_value(bits, ty),
        Scalar::F8E8M0 => match bits & 0xff {
            0xff => f64::NAN,
            code => f64::from_bits((code + 1023 - 127) << 52),
        },
        Scalar::I1 | Scalar::I4 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => bits as i64 as f64,
    }
}

/// Zeros of 64 bits, then the bits of 2/pi behind the point, from the top.
pub const TWO_OVER_PI: [u64; 20] = [
    0x0000_0000_0000_0000,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];

/// Sine and cosine to within two units of the last place of an `f64` for every argument: from 1 on, the argument's significand times the
/// bits of 2/pi that matter gives the quadrant and the rest exactly enough (Payne and Hanek 1983), on which the host's functions are good.
fn sin_cos(x: f64) -> (f64, f64) {
    let a = x.abs();
    if a < 1.0 || !a.is_finite() {
        return x.sin_cos();
    }
    let bits = a.to_bits();
    // From this bit on the table's bits, times the significand as an integer, are worth less than 4 quadrants.
    let first = (bits >> 52) as usize - 1013;
    let (word, shift) = (first / 64, first % 64);
    let at = |k: usize| (u128::from(TWO_OVER_PI[word + k]) << 64 | u128::from(TWO_OVER_PI[word + k + 1])) << shift >> 64;
    let significand = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
    let low = significand * (at(2) & u128::from(u64::MAX));
    let middle = significand * (at(1) & u128::from(u64::MAX)) + (low >> 64);
    let high = (significand * (at(0) & u128::from(u64::MAX)) + (middle >> 64)) as u64;
    let upper = u128::from(high) << 64 | (middle & u128::from(u64::MAX));
    let quadrant = (upper >> 126) + (upper >> 125 & 1);
    // The rest of a quadrant, signed, as a fraction of 2^128.
    let rest = (upper << 2 | (low >> 62 & 3)) as i128;
    let head = rest as f64;
    let tail = (rest - head as i128) as f64;
    let (unit, pi_low) = (2f64.powi(-128), 6.123_233_995_736_766e-17);
    let pi = std::f64::consts::FRAC_PI_2;
    let (head, tail) = (head * unit, tail * unit);
    let r = head * pi;
    let lost = head.mul_add(pi, -r) + head * pi_low + tail * pi;
    let (s, c) = r.sin_cos();
    let (s, c) = (s + lost * c, c - lost * s);
    let (s, c) = match quadrant & 3 {
        0 => (s, c),
        1 => (c, -s),
        2 => (-s, -c),
        _ => (-c, s),
    };
    (if x < 0.0 { -s } else { s }, c)
}

/// The sine of an argument of any size.
pub fn sin(x: f64) -> f64 {
    sin_cos(x).0
}

/// The cosine of an argument of any size.
pub fn cos(x: f64) -> f64 {
    sin_cos(x).1
}

/// The error function to within two units of the last place of an `f64`: below 1 the Taylor sum `2 / sqrt(pi) Σ (-1)^n x^(2n+1) / (n! (2n+1))`
/// (Abramowitz and Stegun 7.1.5); above `1 - erfc`, by the continued fraction of `erfc` (7.1.14) from its term `221 / x^2` up, behind which nothing is left of
/// 2^-60. From 6 on it is 1 in `f64`.
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    // A NaN is not below 1 either.
    if a.is_nan() {
        return x;
    }
    if a < 1.0 {
        // Term n is `-z (2n - 1) / (n (2n + 1))` times the one before.
        let z = a * a;
        let sum = (1..=20).rev().fold(1.0, |sum, n| {
            let n = f64::from(n);
            1.0 - z * (2.0 * n - 1.0) / (n * (2.0 * n + 1.0)) * sum
        });
        return std::f64::consts::FRAC_2_SQRT_PI * x * sum;
    }
    if a >= 6.0 {
        return 1f64.copysign(x);
    }
    let square = a * a;
    // The fraction as a quotient that is divided once: `a + n/2 / (p / q)` is `(a p + n/2 q) / p`. Both are below 1e200.
    let terms = (221.0 / square) as u32 + 1;
    let [p, q] = (1..=terms).rev().fold([a, 1.0], |[p, q], n| [a * p + f64::from(n) * 0.5 * q, p]);
    let fraction = p / q;
    let lost = a.mul_add(a, -square);
    let e = (-square).exp();
    let erfc = (e - e * lost) * std::f64::consts::FRAC_2_SQRT_PI / 2.0 / fraction;
    (1.0 - erfc).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_and_bf16_survives_the_round_trip() {
        for ty in [Scalar::F16, Scalar::BF16] {
            for bits in 0..=u64::from(u16::MAX) {
                let x = from_bits(bits, ty);
                if x.is_nan() {
                    assert!(from_bits(to_bits(x, ty), ty).is_nan());
                } else {
                    assert_eq!(to_bits(x, ty), bits, "{ty} {bits:#x}");
                    assert_eq!(round(x, ty).to_bits(), x.to_bits());
                }
            }
        }
    }

    #[test]
    fn embedded_types_lose_nothing_and_others_something() {
        for &from in Scalar::ALL.iter().filter(|s| s.bits() <= 16) {
            for &to in Scalar::ALL.iter().filter(|s| s.is_float()) {
                let codes = 0..1u64 << from.bits();
                let kept = codes.clone().all(|code| {
                    let x = if from.is_float() { from_bits(code, from) } else { wrap(code as i64, from) as f64 };
                    let y = round(x, to);
                    if x.is_nan() { y.is_nan() } else { x.to_bits() == y.to_bits() }
                });
                assert_eq!(embeds(from, to), kept, "{from} to {to}");
            }
        }
        assert!(embeds(Scalar::I1, Scalar::I8) && embeds(Scalar::I8, Scalar::I64) && !embeds(Scalar::I64, Scalar::F64));
        assert!(embeds(Scalar::I32, Scalar::F64) && !embeds(Scalar::I32, Scalar::F32) && !embeds(Scalar::F16, Scalar::I64));
    }

    #[test]
    fn rounding_is_to_nearest_even_between_neighbours() {
        for ty in [Scalar::F16, Scalar::BF16] {
            let last = if ty == Scalar::F16 { 0x7bff } else { 0x7f7f };
            for bits in 0..last {
                let (a, b) = (from_bits(bits, ty), from_bits(bits + 1, ty));
                let middle = (a + b) / 2.0;
                let even = if bits & 1 == 0 { a } else { b };
                assert_eq!(round(middle, ty), even);
                assert_eq!(round(middle + (b - a) / 8.0, ty), b);
                assert_eq!(round(middle - (b - a) / 8.0, ty), a);
            }
        }
        assert_eq!(round(65520.0, Scalar::F16), f64::INFINITY);
        assert_eq!(round(65519.9, Scalar::F16), 65504.0);
    }

    const BYTES: [Scalar; 6] = [Scalar::F8E4M3, Scalar::F8E5M2, Scalar::F8E4M3Fnuz, Scalar::F8E5M2Fnuz, Scalar::F8E8M0, Scalar::F4E2M1];

    #[test]
    fn every_code_of_a_byte_survives_the_round_trip() {
        for ty in BYTES {
            let mut nans = 0;
            for bits in 0..1 << ty.bits() {
                let x = from_bits(bits, ty);
                if x.is_nan() {
                    nans += 1;
                    assert!(from_bits(to_bits(x, ty), ty).is_nan());
                } else {
                    assert_eq!(to_bits(x, ty), bits, "{ty} {bits:#x}");
                    assert_eq!(round(x, ty).to_bits(), x.to_bits(), "{ty} {bits:#x}");
                }
            }
            let want = match ty {
                Scalar::F8E4M3 => 2,
                Scalar::F8E5M2 => 6,
                Scalar::F4E2M1 => 0,
                _ => 1,
            };
            assert_eq!(nans, want, "{ty}");
        }
    }

    #[test]
    fn bytes_have_the_published_values() {
        let known = [
            (Scalar::F8E4M3, 0x7e, 448.0),
            (Scalar::F8E4M3, 0x08, 2f64.powi(-6)),
            (Scalar::F8E4M3, 0x01, 2f64.powi(-9)),
            (Scalar::F8E4M3, 0xb8, -1.0),
            (Scalar::F8E5M2, 0x7b, 57344.0),
            (Scalar::F8E5M2, 0x7c, f64::INFINITY),
            (Scalar::F8E5M2, 0x04, 2f64.powi(-14)),
            (Scalar::F8E5M2, 0x01, 2f64.powi(-16)),
            (Scalar::F8E4M3Fnuz, 0x7f, 240.0),
            (Scalar::F8E4M3Fnuz, 0x08, 2f64.powi(-7)),
            (Scalar::F8E4M3Fnuz, 0x01, 2f64.powi(-10)),
            (Scalar::F8E5M2Fnuz, 0x7f, 57344.0),
            (Scalar::F8E5M2Fnuz, 0x04, 2f64.powi(-15)),
            (Scalar::F8E5M2Fnuz, 0x01, 2f64.powi(-17)),
            (Scalar::F8E8M0, 0x00, 2f64.powi(-127)),
            (Scalar::F8E8M0, 0x7f, 1.0),
            (Scalar::F8E8M0, 0xfe, 2f64.powi(127)),
            (Scalar::F4E2M1, 0x1, 0.5),
            (Scalar::F4E2M1, 0x2, 1.0),
            (Scalar::F4E2M1, 0x3, 1.5),
            (Scalar::F4E2M1, 0x5, 3.0),
            (Scalar::F4E2M1, 0x7, 6.0),
            (Scalar::F4E2M1, 0xe, -4.0),
        ];
        for (ty, bits, x) in known {
            assert_eq!(from_bits(bits, ty), x, "{ty} {bits:#x}");
        }
        for ty in BYTES {
            assert_eq!(round(f64::MAX, ty), if has_infinity(ty) { f64::INFINITY } else { largest(ty) });
            assert_eq!(round(f64::INFINITY, ty), if has_infinity(ty) { f64::INFINITY } else { largest(ty) });
            assert!(if has_nan(ty) { round(f64::NAN, ty).is_nan() } else { round(f64::NAN, ty) == 6.0 });
            if ty == Scalar::F8E8M0 {
                assert!(round(-1.0, ty).is_nan());
                assert_eq!((round(0.0, ty), round(-0.0, ty)), (2f64.powi(-127), 2f64.powi(-127)));
            } else {
                assert_eq!(round(-0.0, ty).is_sign_negative(), has_negative_zero(ty), "{ty}");
                assert_eq!(round(-1e-30, ty).is_sign_negative(), has_negative_zero(ty), "{ty}");
            }
        }
    }

    #[test]
    fn bytes_round_to_nearest_even_at_every_midpoint() {
        for ty in BYTES {
            let mut codes: Vec<u64> = (0..1 << ty.bits()).filter(|&b| from_bits(b, ty).is_finite()).collect();
            codes.sort_by(|&a, &b| from_bits(a, ty).total_cmp(&from_bits(b, ty)));
            for pair in codes.windows(2) {
                let (a, b) = (from_bits(pair[0], ty), from_bits(pair[1], ty));
                let middle = (a + b) / 2.0;
                if a == b {
                    continue;
                }
                let even = if pair[0] & 1 == 0 { a } else { b };
                assert_eq!(round(middle, ty), even, "{ty} {a} {b}");
                assert_eq!(round(f64::from_bits(middle.to_bits() + 1), ty), if middle > 0.0 { b } else { a }, "{ty}");
                if middle != 0.0 {
                    assert_eq!(round(f64::from_bits(middle.to_bits() - 1), ty), if middle > 0.0 { a } else { b }, "{ty}");
                }
            }
        }
        // Beyond the largest number: half a unit further the formats with infinity reach it.
        assert_eq!(round(61439.9, Scalar::F8E5M2), 57344.0);
        assert_eq!(round(61440.0, Scalar::F8E5M2), f64::INFINITY);
        assert_eq!(round(-1000.0, Scalar::F8E4M3), -448.0);
    }

    #[test]
    fn the_error_function_at_tabulated_points() {
        // Abramowitz and Stegun, table 7.1, and two points from the series in exact arithmetic.
        let points = [
            (0.5, 0.520_499_877_8),
            (1.0, 0.842_700_792_9),
            (2.0, 0.995_322_265_0),
            (0.02, 0.022_564_574_7),
            (3.0, 0.999_977_909_503_001_4),
        ];
        for (x, y) in points {
            assert!((erf(x) - y).abs() < 6e-11, "{x}");
            assert_eq!(erf(-x), -erf(x));
        }
        assert_eq!(erf(6.0), 1.0);
        assert_eq!(erf(f64::NEG_INFINITY), -1.0);
        assert!(erf(f64::NAN).is_nan());
        assert_eq!(erf(-0.0).to_bits(), (-0.0f64).to_bits());
        assert!((erf(1e-300) / 1e-300 - std::f64::consts::FRAC_2_SQRT_PI).abs() < 1e-15);
    }

    #[test]
    fn sine_and_cosine_of_every_size() {
        // From 3000 bits; the ninth argument is the f64 nearest to a multiple of pi/2.
        let points: [(f64, f64, f64); 12] = [
            (0.5, 0.479425538604203, 0.8775825618903728),
            (1.0, 0.8414709848078965, 0.5403023058681398),
            (std::f64::consts::FRAC_PI_2, 1.0, 6.123233995736766e-17),
            (-std::f64::consts::PI, -1.2246467991473532e-16, -1.0),
            (355.0, -3.014435335948845e-05, -0.999999999545659),
            (-100000.0, -0.03574879797201651, -0.9993608074382124),
            (1e+16, 0.7796880066069788, -0.6261681981330862),
            (1e+22, -0.8522008497671888, 0.523214785395139),
            (5.319372648326541e+255, 1.0, -4.687165924254628e-19),
            (1.7976931348623157e+308, 0.004961954789184062, -0.9999876894265599),
            (-1e+300, 0.8178819121159085, -0.5753861119575491),
            (9007199254740992.0, -0.848925964814655, -0.5285117844130887),
        ];
        for (x, s, c) in points {
            assert!((sin(x) - s).abs() <= 2f64.powi(-52) * s.abs(), "sin {x:e}: {:e}", sin(x));
            assert!((cos(x) - c).abs() <= 2f64.powi(-52) * c.abs(), "cos {x:e}: {:e}", cos(x));
            assert_eq!((sin(-x), cos(-x)), (-sin(x), cos(x)));
        }
        assert!(sin(f64::INFINITY).is_nan() && cos(f64::NAN).is_nan());
        assert_eq!(sin(-0.0).to_bits(), (-0.0f64).to_bits());
        let errors: [(f64, f64); 9] = [
            (1e-09, 1.1283791670955127e-09),
            (0.5, 0.5204998778130465),
            (0.9999, 0.8426592780487595),
            (1.0, 0.8427007929497149),
            (1.5, 0.9661051464753108),
            (-2.0, -0.9953222650189527),
            (2.5, 0.999593047982555),
            (4.0, 0.9999999845827421),
            (-5.9, -0.9999999999999999),
        ];
        for (x, y) in errors {
            assert!((erf(x) - y).abs() <= 2f64.powi(-51) * y.abs(), "erf {x}");
        }
    }

    #[test]
    fn tf32_rounds_ties_away() {
        let ulp = 2f64.powi(-10);
        assert_eq!(round_tf32(1.0 + ulp / 2.0), 1.0 + ulp);
        assert_eq!(round_tf32(-1.0 - ulp / 2.0), -1.0 - ulp);
        assert_eq!(round_tf32(1.0 + ulp * 0.49), 1.0);
    }
}
