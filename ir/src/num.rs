//! Exact number types: rounding to every float format and wrapping to every integer width.
//!
//! A float of any element type is kept as the `f64` of the same value (every format here is a subset of binary64); an operation is
//! computed in `f64` and rounded once to the type. For `+ - * / sqrt` on formats of up to 25 significant bits that double rounding
//! is harmless (Figueroa 1995: the wide format has at least `2p + 2` bits), so results equal the format's own arithmetic.

use crate::types::Scalar;

/// Significand bits (with the hidden one), smallest normal exponent, largest exponent of a float type.
const fn format(ty: Scalar) -> (i32, i32, i32) {
    match ty {
        Scalar::F16 => (11, -14, 15),
        Scalar::BF16 => (8, -126, 127),
        Scalar::F32 => (24, -126, 127),
        Scalar::F64 => (53, -1022, 1023),
        // Not floats: callers ask only for floats; the widest format keeps the value.
        Scalar::I1 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => (53, -1022, 1023),
    }
}

/// Rounds to the nearest value of a float type, ties to even; overflow gives infinity, NaN stays NaN.
pub fn round(x: f64, ty: Scalar) -> f64 {
    match ty {
        Scalar::F64 => x,
        Scalar::F32 => f64::from(x as f32),
        Scalar::F16 | Scalar::BF16 | Scalar::I1 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => {
            let (p, emin, emax) = format(ty);
            round_to(x, p, emin, emax)
        }
    }
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
        Scalar::I64 | Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64 => x,
    }
}

/// The bits of a float value of a type (which must represent it), in the low bits of the result. NaN gives the type's default quiet NaN.
pub fn to_bits(x: f64, ty: Scalar) -> u64 {
    match ty {
        Scalar::F64 => x.to_bits(),
        Scalar::F32 => u64::from(if x.is_nan() { 0x7fff_ffff } else { (x as f32).to_bits() }),
        Scalar::BF16 => u64::from(if x.is_nan() { 0x7fff } else { (x as f32).to_bits() >> 16 }),
        Scalar::F16 => u64::from(f16_bits(x)),
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
