//! Exact number types: rounding to every float format and wrapping to every integer width.
//!
//! A float of any element type is kept as the `f64` of the same value (every format here is a subset of binary64); an operation is
//! computed in `f64` and rounded once to the type. For `+ - * / sqrt` on formats of up to 25 significant bits that double rounding
//! is harmless (Figueroa 1995: the wide format has at least `2p + 2` bits), so results equal the format's own arithmetic.
//!
//! Formats of one byte (OCP 8-bit floating point specification 1.0; the `fnuz` variants as in LLVM's `APFloat`; OCP MX 1.0 for
//! `f8e8m0`). Where a format has an infinity, what is too large becomes it; where it has none, what is too large, infinities included,
//! becomes the largest number of that sign (saturation). NaN stays NaN in all of them.
//!
//! ```text
//!              bias  smallest normal   largest        code of NaN      code of +infinity   code 80
//! f8e4m3         7   2^-6              448   (7e)     7f (and ff)      none                -0
//! f8e5m2        15   2^-14             57344 (7b)     7f (7d to 7f …)  7c                  -0
//! f8e4m3fnuz     8   2^-7              240   (7f)     80               none                NaN
//! f8e5m2fnuz    16   2^-15             57344 (7f)     80               none                NaN
//! f8e8m0       127   2^-127            2^127 (fe)     ff               none                2
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
        // Not floats: callers ask only for floats; the widest format keeps the value.
        Scalar::I1 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => (53, -1022, 1023),
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
        Scalar::F64 | Scalar::I1 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => f64::MAX,
    }
}

/// True if a float type has infinities; what is too large for one without becomes its [`largest`] number.
pub const fn has_infinity(ty: Scalar) -> bool {
    !matches!(ty, Scalar::F8E4M3 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0)
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
/// stays NaN.
pub fn round(x: f64, ty: Scalar) -> f64 {
    match ty {
        Scalar::F64 => x,
        Scalar::F32 => f64::from(x as f32),
        Scalar::F16 | Scalar::BF16 | Scalar::I1 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => {
            let (p, emin, emax) = format(ty);
            round_to(x, p, emin, emax)
        }
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz => {
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
    let e = (((x.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(emin);
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
        | Scalar::F8E8M0 => x,
    }
}

/// The bits of a float value of a type (which must represent it), in the low bits of the result. NaN gives the type's default quiet NaN.
pub fn to_bits(x: f64, ty: Scalar) -> u64 {
    match ty {
        Scalar::F64 => x.to_bits(),
        Scalar::F32 => u64::from(if x.is_nan() { 0x7fff_ffff } else { (x as f32).to_bits() }),
        Scalar::BF16 => u64::from(if x.is_nan() { 0x7fff } else { (x as f32).to_bits() >> 16 }),
        Scalar::F16 => u64::from(f16_bits(x)),
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz => byte_bits(x, ty),
        // A value that the type lacks is rounded first.
        Scalar::F8E8M0 => {
            let r = round_scale(x);
            if r.is_nan() { 0xff } else { (r.to_bits() >> 52) - (1023 - 127) }
        }
        Scalar::I1 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => x as i64 as u64,
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

/// Codes of the formats with a sign, exponent and fraction in one byte; a value that the type lacks is rounded first.
fn byte_bits(x: f64, ty: Scalar) -> u64 {
    if x.is_nan() {
        return if has_negative_zero(ty) { 0x7f } else { 0x80 };
    }
    let (p, emin, _) = format(ty);
    let x = round(x, ty);
    let a = x.abs();
    let sign = u64::from(x.is_sign_negative()) << 7;
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
    let (sign, code) = (bits >> 7 & 1, bits & 0x7f);
    let (e, fraction) = ((code >> (p - 1)) as i32, (code & ((1 << (p - 1)) - 1)) as f64);
    let power = |e: i32| f64::from_bits(((e + 1023) as u64) << 52);
    let special = match ty {
        Scalar::F8E4M3 => code == 0x7f,
        Scalar::F8E5M2 => code >= 0x7c,
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
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz => byte_value(bits, ty),
        Scalar::F8E8M0 => match bits & 0xff {
            0xff => f64::NAN,
            code => f64::from_bits((code + 1023 - 127) << 52),
        },
        Scalar::I1 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => bits as i64 as f64,
    }
}

/// The error function to within a few units of the last place of an `f64`: the all-positive series
/// `2 / sqrt(pi) e^(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + …)` (Abramowitz and Stegun 7.1.6). From 6 on it is 1 in `f64`.
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    // `!(a < 6)` would send a NaN here.
    if a >= 6.0 {
        return 1f64.copysign(x);
    }
    let (mut term, mut sum, mut n) = (a, a, 0.0);
    while term > sum * 1e-18 {
        n += 1.0;
        term *= 2.0 * a * a / (2.0 * n + 1.0);
        sum += term;
    }
    let y = sum * std::f64::consts::FRAC_2_SQRT_PI * (-a * a).exp();
    if x.is_nan() { x } else { y.min(1.0).copysign(x) }
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

    const BYTES: [Scalar; 5] = [Scalar::F8E4M3, Scalar::F8E5M2, Scalar::F8E4M3Fnuz, Scalar::F8E5M2Fnuz, Scalar::F8E8M0];

    #[test]
    fn every_code_of_a_byte_survives_the_round_trip() {
        for ty in BYTES {
            let mut nans = 0;
            for bits in 0..256 {
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
        ];
        for (ty, bits, x) in known {
            assert_eq!(from_bits(bits, ty), x, "{ty} {bits:#x}");
        }
        for ty in BYTES {
            assert_eq!(round(f64::MAX, ty), if has_infinity(ty) { f64::INFINITY } else { largest(ty) });
            assert_eq!(round(f64::INFINITY, ty), if has_infinity(ty) { f64::INFINITY } else { largest(ty) });
            assert!(round(f64::NAN, ty).is_nan());
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
            let mut codes: Vec<u64> = (0..256).filter(|&b| from_bits(b, ty).is_finite()).collect();
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
    fn tf32_rounds_ties_away() {
        let ulp = 2f64.powi(-10);
        assert_eq!(round_tf32(1.0 + ulp / 2.0), 1.0 + ulp);
        assert_eq!(round_tf32(-1.0 - ulp / 2.0), -1.0 - ulp);
        assert_eq!(round_tf32(1.0 + ulp * 0.49), 1.0);
    }
}
