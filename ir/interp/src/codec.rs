//! Rounding, wrapping and memory formats for whole tiles: the element type is picked once, outside the loop.
//!
//! [`tilelift_ir::num`] is the definition; what stands here is the same functions made fast (the tests compare them on every pattern or
//! on a dense sample). An op computes in `f64` or `i64` first and rounds or wraps the tile in a second pass, so that its loop is
//! compiled once and not once per type.

use tilelift_ir::num;
use tilelift_ir::types::Scalar;

/// A float type as a type.
pub(crate) trait Float: Copy {
    /// Nearest value of the type, ties to even.
    fn round(x: f64) -> f64;
}

#[derive(Clone, Copy)]
pub(crate) struct F16;
#[derive(Clone, Copy)]
pub(crate) struct BF16;
#[derive(Clone, Copy)]
pub(crate) struct F32;
#[derive(Clone, Copy)]
pub(crate) struct F64;

/// Rounds the fraction of a normal number on its bits; everything unusual goes to the definition.
#[inline(always)]
fn round_bits<const P: u32, const EMIN: i32, const EMAX: i32>(x: f64, ty: Scalar) -> f64 {
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    // One below EMAX, so that rounding up can't overflow here.
    if exponent >= EMIN && exponent < EMAX {
        let drop = 53 - P;
        let odd = (bits >> drop) & 1;
        f64::from_bits((bits + (1 << (drop - 1)) - 1 + odd) >> drop << drop)
    } else {
        num::round(x, ty)
    }
}

impl Float for F16 {
    #[inline(always)]
    fn round(x: f64) -> f64 {
        round_bits::<11, -14, 15>(x, Scalar::F16)
    }
}
impl Float for BF16 {
    #[inline(always)]
    fn round(x: f64) -> f64 {
        round_bits::<8, -126, 127>(x, Scalar::BF16)
    }
}
impl Float for F32 {
    #[inline(always)]
    fn round(x: f64) -> f64 {
        f64::from(x as f32)
    }
}
impl Float for F64 {
    #[inline(always)]
    fn round(x: f64) -> f64 {
        x
    }
}

/// Evaluates an expression with `$r` naming the float type of `$elem`. The data decides first whether a value is a float, so the
/// integer arms are never taken; like [`num::round`] they keep the value.
macro_rules! float {
    ($elem:expr, $r:ident => $e:expr) => {
        match $elem {
            Scalar::F16 => {
                type $r = $crate::codec::F16;
                $e
            }
            Scalar::BF16 => {
                type $r = $crate::codec::BF16;
                $e
            }
            Scalar::F32 => {
                type $r = $crate::codec::F32;
                $e
            }
            Scalar::F64
            | Scalar::I1
            | Scalar::I4
            | Scalar::I8
            | Scalar::I16
            | Scalar::I32
            | Scalar::I64
            // No arithmetic is typed on them; `round_all` looks after their casts.
            | Scalar::F8E4M3
            | Scalar::F8E5M2
            | Scalar::F8E4M3Fnuz
            | Scalar::F8E5M2Fnuz
            | Scalar::F8E8M0
            | Scalar::F4E2M1 => {
                type $r = $crate::codec::F64;
                $e
            }
        }
    };
}

pub(crate) use float;

/// Rounds every element to a float type.
pub(crate) fn round_all(x: &mut [f64], elem: Scalar) {
    if elem.is_narrow() {
        x.iter_mut().for_each(|x| *x = num::round(*x, elem));
        return;
    }
    float!(elem, R => x.iter_mut().for_each(|x| *x = R::round(*x)));
}

/// Wraps every element to an integer type, `i4` and `i1` among them.
pub(crate) fn wrap_all(x: &mut [i64], elem: Scalar) {
    if elem == Scalar::I1 {
        x.iter_mut().for_each(|x| *x &= 1);
    } else if !elem.is_float() {
        let free = 64 - elem.bits();
        x.iter_mut().for_each(|x| *x = *x << free >> free);
    }
}

/// An integer read unsigned in its width.
#[inline(always)]
pub(crate) fn unsigned(x: i64, bits: u32) -> u64 {
    x as u64 & (u64::MAX >> (64 - bits))
}

/// The value of `f16` bits.
#[inline(always)]
pub(crate) fn f16_value(bits: u16) -> f64 {
    let exponent = bits >> 10 & 31;
    if exponent == 0 || exponent == 31 {
        return num::from_bits(u64::from(bits), Scalar::F16);
    }
    let sign = u64::from(bits >> 15) << 63;
    f64::from_bits(sign | (u64::from(exponent) + 1008) << 52 | u64::from(bits & 0x3ff) << 42)
}

/// The `f16` bits of a value that `f16` represents.
#[inline(always)]
pub(crate) fn f16_bits(x: f64) -> u16 {
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
    if !(-14..16).contains(&exponent) {
        return num::to_bits(x, Scalar::F16) as u16;
    }
    ((bits >> 63) as u16) << 15 | ((exponent + 15) as u16) << 10 | (bits >> 42 & 0x3ff) as u16
}

/// The value of `bf16` bits.
#[inline(always)]
pub(crate) fn bf16_value(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

/// The `bf16` bits of a value that `bf16` represents.
#[inline(always)]
pub(crate) fn bf16_bits(x: f64) -> u16 {
    if x.is_nan() { 0x7fff } else { ((x as f32).to_bits() >> 16) as u16 }
}

/// The `f32` bits of a value that `f32` represents; NaN gives the default NaN.
#[inline(always)]
pub(crate) fn f32_bits(x: f64) -> u32 {
    if x.is_nan() { 0x7fff_ffff } else { (x as f32).to_bits() }
}

/// An integer rounded once to a float type.
pub(crate) fn int_to_float(x: i64, to: Scalar) -> f64 {
    match to {
        Scalar::F32 => f64::from(x as f32),
        Scalar::F16
        | Scalar::BF16
        | Scalar::F8E4M3
        | Scalar::F8E5M2
        | Scalar::F8E4M3Fnuz
        | Scalar::F8E5M2Fnuz
        | Scalar::F8E8M0
        | Scalar::F4E2M1 => {
            // Round to odd first: the sticky bit keeps a value between two halves off the tie, so the second rounding is the only one.
            let m = x.unsigned_abs();
            let exact = if m >> 53 == 0 { m as f64 } else { ((m >> 11) | u64::from(m & 0x7ff != 0)) as f64 * 2048.0 };
            num::round(if x < 0 { -exact } else { exact }, to)
        }
        Scalar::F64 | Scalar::I1 | Scalar::I4 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => x as f64,
    }
}

/// A float truncated and saturated to an integer type, NaN as 0; for `i1`, whether it differs from 0 (a NaN does).
pub(crate) fn float_to_int(x: f64, to: Scalar) -> i64 {
    if to == Scalar::I1 {
        return i64::from(x != 0.0);
    }
    let most = i64::MAX >> (64 - to.bits());
    (x as i64).clamp(-most - 1, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    #[test]
    fn the_fast_formats_equal_the_definition() {
        for bits in 0..=u16::MAX {
            let (h, b) = (num::from_bits(u64::from(bits), Scalar::F16), num::from_bits(u64::from(bits), Scalar::BF16));
            assert!(same(f16_value(bits), h), "{bits:#x}");
            assert!(same(bf16_value(bits), b), "{bits:#x}");
            assert_eq!(u64::from(f16_bits(h)), num::to_bits(h, Scalar::F16));
            assert_eq!(u64::from(bf16_bits(b)), num::to_bits(b, Scalar::BF16));
        }
    }

    #[test]
    fn the_fast_rounding_equals_the_definition() {
        let mut seed = 1u64;
        for n in 0..400_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Exponents around the f16 range, then around the bf16 range; every tenth with a short fraction, to meet ties.
            let exponent =
                1023 - 30 + (seed >> 52) % 60 + if n % 2 == 0 { 0 } else { (seed >> 40) % 240 } - if n % 2 == 0 { 0 } else { 120 };
            let fraction = if n % 10 == 0 { (seed & 0xfff) << 40 } else { seed & ((1 << 52) - 1) };
            let x = f64::from_bits((seed >> 63) << 63 | exponent << 52 | fraction);
            for (fast, ty) in [(F16::round(x), Scalar::F16), (BF16::round(x), Scalar::BF16), (F32::round(x), Scalar::F32)] {
                assert!(same(fast, num::round(x, ty)), "{ty} {x:e}");
            }
        }
        for x in [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 65504.0, 65519.99, 65520.0, 3.3e38, -3.4e38, 1e300, 1e-300] {
            assert!(same(F16::round(x), num::round(x, Scalar::F16)));
            assert!(same(BF16::round(x), num::round(x, Scalar::BF16)));
        }
    }
}
