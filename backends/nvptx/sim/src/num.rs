//! Number formats, written from the definitions: f16, bf16, tf32 and correctly rounded conversions
//! in every rounding mode.
//!
//! Everything goes through [`pack`]: an exact value `mant * 2^exp` is rounded once. Inexact
//! intermediate results carry their lost bits by *rounding to odd* in f64 (the lowest mantissa bit is
//! set when anything was lost), which makes the second rounding correct because f64 has more than
//! two bits over every target here (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums").

use crate::types::Round;

/// A binary floating-point format no wider than 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) exp_bits: u32,
    pub(crate) man_bits: u32,
}

pub(crate) const F16: Format = Format { exp_bits: 5, man_bits: 10 };
pub(crate) const BF16: Format = Format { exp_bits: 8, man_bits: 7 };
/// tf32 has the range of f32 and the mantissa of f16; it is stored in the top 19 bits of 32.
pub(crate) const TF32: Format = Format { exp_bits: 8, man_bits: 10 };
pub(crate) const F32: Format = Format { exp_bits: 8, man_bits: 23 };
pub(crate) const F64: Format = Format { exp_bits: 11, man_bits: 52 };

/// The NaN that f32 arithmetic produces.
pub(crate) const NAN32: u32 = 0x7fff_ffff;
/// The NaN that 16-bit arithmetic produces.
pub(crate) const NAN16: u16 = 0x7fff;

impl Format {
    fn inf(self) -> u64 {
        ((1u64 << self.exp_bits) - 1) << self.man_bits
    }

    fn sign_bit(self) -> u64 {
        1u64 << (self.exp_bits + self.man_bits)
    }

    fn nan(self) -> u64 {
        self.sign_bit() - 1
    }
}

/// Rounds `(-1)^neg * mant * 2^exp` to `f`, returning the encoding.
pub(crate) fn pack(neg: bool, mant: u64, exp: i32, f: Format, mode: Round) -> u64 {
    let sign = if neg { f.sign_bit() } else { 0 };
    if mant == 0 {
        return sign;
    }
    let top = exp + 63 - mant.leading_zeros() as i32;
    let emin = 2 - (1i32 << (f.exp_bits - 1));
    let ulp = top.max(emin) - f.man_bits as i32;
    let shift = ulp - exp;
    // `keep` units of 2^ulp, and what is below as (half bit, anything under it).
    let (keep, half, rest) = if shift <= 0 {
        (mant << (-shift), false, false)
    } else if shift > 64 {
        (0, false, true)
    } else {
        let half = mant >> (shift - 1) & 1 == 1;
        let below = mant & ((1u64 << (shift - 1)) - 1) != 0;
        (if shift == 64 { 0 } else { mant >> shift }, half, below)
    };
    let inexact = half || rest;
    let up = match mode {
        Round::Rn => half && (rest || keep & 1 == 1),
        Round::Rna => half,
        Round::Rz => false,
        Round::Rm => neg && inexact,
        Round::Rp => !neg && inexact,
    };
    let keep = keep + u64::from(up);
    // For a normal number `keep` includes the hidden bit, which adds one to the exponent field.
    let field = (top.max(emin) - emin) as u64;
    let bits = (field << f.man_bits) + keep;
    if bits >= f.inf() {
        let to_inf = match mode {
            Round::Rn | Round::Rna => true,
            Round::Rz => false,
            Round::Rm => neg,
            Round::Rp => !neg,
        };
        return sign | if to_inf { f.inf() } else { f.inf() - 1 };
    }
    sign | bits
}

/// Rounds an f64 (possibly rounded to odd) to `f`.
pub(crate) fn round_f64(x: f64, f: Format, mode: Round) -> u64 {
    let b = x.to_bits();
    let neg = b >> 63 == 1;
    let (e, m) = ((b >> 52 & 0x7ff) as i32, b & ((1 << 52) - 1));
    if e == 0x7ff {
        return if m != 0 {
            f.nan()
        } else if neg {
            f.sign_bit() | f.inf()
        } else {
            f.inf()
        };
    }
    if e == 0 { pack(neg, m, -1074, f, mode) } else { pack(neg, m | 1 << 52, e - 1075, f, mode) }
}

/// Decodes `f` exactly.
pub(crate) fn to_f64(bits: u64, f: Format) -> f64 {
    let neg = bits & f.sign_bit() != 0;
    let mag = bits & (f.sign_bit() - 1);
    if mag > f.inf() {
        return f64::NAN;
    }
    if mag == f.inf() {
        return if neg { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    let man = mag & ((1u64 << f.man_bits) - 1);
    let e = (mag >> f.man_bits) as i32;
    let emin = 2 - (1i32 << (f.exp_bits - 1));
    let (m, x) = if e == 0 { (man, emin) } else { (man | 1 << f.man_bits, emin + e - 1) };
    let b = pack(neg, m, x - f.man_bits as i32, F64, Round::Rn);
    f64::from_bits(b)
}

pub(crate) fn f16_to_f32(h: u16) -> f32 {
    let sign = u32::from(h >> 15) << 31;
    let (e, m) = (u32::from(h >> 10 & 31), u32::from(h & 1023));
    match (e, m) {
        (0, _) => {
            // m * 2^-24 is exact in f32.
            let v = m as f32 * f32::from_bits(0x3380_0000);
            f32::from_bits(v.to_bits() | sign)
        }
        (31, 0) => f32::from_bits(sign | 0x7f80_0000),
        (31, _) => f32::from_bits(NAN32),
        _ => f32::from_bits(sign | (e + 112) << 23 | m << 13),
    }
}

pub(crate) fn bf16_to_f32(h: u16) -> f32 {
    f32::from_bits(u32::from(h) << 16)
}

pub(crate) fn f32_to_f16(x: f32, mode: Round) -> u16 {
    round_f64(f64::from(x), F16, mode) as u16
}

pub(crate) fn f32_to_bf16(x: f32, mode: Round) -> u16 {
    if x.is_nan() {
        return NAN16;
    }
    if mode == Round::Rn {
        let b = x.to_bits();
        return ((b + 0x7fff + (b >> 16 & 1)) >> 16) as u16;
    }
    round_f64(f64::from(x), BF16, mode) as u16
}

/// tf32 as its 32-bit pattern.
pub(crate) fn f32_to_tf32(x: f32, mode: Round) -> u32 {
    if x.is_nan() {
        return NAN32;
    }
    (round_f64(f64::from(x), TF32, mode) as u32) << 13
}

/// Makes an f64 round-to-nearest result `s` with error `err` round-to-odd.
fn to_odd(s: f64, err: f64) -> f64 {
    let b = s.to_bits();
    // A NaN error comes from infinities: then nothing was lost. Odd results stay.
    if err == 0.0 || err.is_nan() || !s.is_finite() || b & 1 == 1 {
        return s;
    }
    f64::from_bits(if (err > 0.0) == (s > 0.0) { b + 1 } else { b - 1 })
}

/// `a + b` rounded to odd.
pub(crate) fn add_odd(a: f64, b: f64) -> f64 {
    let s = a + b;
    let bb = s - a;
    to_odd(s, (a - (s - bb)) + (b - bb))
}

/// `a * b + c` rounded to odd; `a * b` must be exact in f64 (operands of at most 26 bits).
pub(crate) fn fma_odd(a: f64, b: f64, c: f64) -> f64 {
    add_odd(a * b, c)
}

/// Correctly rounded f32 fused multiply-add.
pub(crate) fn fma32(a: f32, b: f32, c: f32) -> f32 {
    fma_odd(a.into(), b.into(), c.into()) as f32
}

/// Flushes subnormals to a zero of the same sign.
pub(crate) fn ftz32(x: f32) -> f32 {
    if x.is_subnormal() { f32::from_bits(x.to_bits() & 1 << 31) } else { x }
}

/// Sign-extends the low `bits`.
pub(crate) fn sext(v: u64, bits: u32) -> i64 {
    ((v << (64 - bits)) as i64) >> (64 - bits)
}

/// Mask of the low `bits`.
pub(crate) fn low(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// The value of an 8-bit float with that many exponent bits; OCP 8-bit floating point specification 1.0. With 4 the only NaN has all
/// bits set below the sign and there is no infinity; with 5 they are as in IEEE formats.
pub(crate) fn float8(code: u8, exponent_bits: u32) -> f64 {
    let fraction_bits = 7 - exponent_bits;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let fraction = f64::from(code & ((1 << fraction_bits) - 1)) / f64::from(1u32 << fraction_bits);
    let exponent = i32::from(code >> fraction_bits) & ((1 << exponent_bits) - 1);
    let value = match (exponent_bits, exponent) {
        (4, 15) if code & 7 == 7 => f64::NAN,
        (5, 31) if fraction == 0.0 => f64::INFINITY,
        (5, 31) => f64::NAN,
        (_, 0) => fraction * 2f64.powi(1 - bias),
        (_, e) => (1.0 + fraction) * 2f64.powi(e - bias),
    };
    if code & 0x80 != 0 { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every f16 survives a trip through f64 in every rounding mode.
    #[test]
    fn halves_round_trip() {
        for h in 0..=u16::MAX {
            for (f, wide) in [(F16, f64::from(f16_to_f32(h))), (BF16, f64::from(bf16_to_f32(h)))] {
                let x = to_f64(h.into(), f);
                assert!(x == wide || (x.is_nan() && wide.is_nan()), "{h:#x}");
                if !x.is_nan() {
                    for m in [Round::Rn, Round::Rna, Round::Rz, Round::Rm, Round::Rp] {
                        assert_eq!(round_f64(x, f, m), h.into(), "{h:#x} {m:?}");
                    }
                }
            }
        }
    }

    /// The nearest f16 found by searching all of them.
    #[test]
    fn f16_nearest_by_search() {
        let finite: Vec<(f64, u16)> = (0..0x7c00u16).map(|h| (f64::from(f16_to_f32(h)), h)).collect();
        let mut s = 1u64;
        for _ in 0..3000 {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let x = f32::from_bits((0x3300_0000 + (s >> 33) as u32 % 0x1480_0000) & 0x7fff_ffff);
            if f64::from(x) >= 65520.0 {
                assert_eq!(f32_to_f16(x, Round::Rn), 0x7c00);
                continue;
            }
            let best = finite
                .iter()
                .min_by(|a, b| {
                    let (da, db) = ((a.0 - f64::from(x)).abs(), (b.0 - f64::from(x)).abs());
                    da.total_cmp(&db).then((a.1 & 1).cmp(&(b.1 & 1)))
                })
                .map(|p| p.1);
            assert_eq!(Some(f32_to_f16(x, Round::Rn)), best, "{x:e}");
        }
    }

    #[test]
    fn fma_matches_hardware_fma() {
        let mut s = 7u64;
        let mut next = || {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            f32::from_bits((s >> 32) as u32)
        };
        for _ in 0..200_000 {
            let (a, b, c) = (next(), next(), next());
            let (x, y) = (fma32(a, b, c), a.mul_add(b, c));
            assert!(x == y || (x.is_nan() && y.is_nan()), "{a:e} {b:e} {c:e}: {x:e} {y:e}");
            // Force cancellation, where double rounding would show.
            let c = -(a * b);
            let (x, y) = (fma32(a, b, c), a.mul_add(b, c));
            assert!(x == y || (x.is_nan() && y.is_nan()), "{a:e} {b:e} {c:e}: {x:e} {y:e}");
        }
    }

    #[test]
    fn directed_rounding_brackets() {
        for (x, down, up) in [(1.0 + 2f64.powi(-30), 0x3f80_0000u64, 0x3f80_0001u64), (2f64.powi(-160), 0, 1)] {
            assert_eq!(round_f64(x, F32, Round::Rm), down);
            assert_eq!(round_f64(x, F32, Round::Rz), down);
            assert_eq!(round_f64(x, F32, Round::Rp), up);
            assert_eq!(round_f64(-x, F32, Round::Rm), up | 1 << 31);
        }
        assert_eq!(round_f64(1e300, F32, Round::Rz), 0x7f7f_ffff);
        assert_eq!(round_f64(1e300, F32, Round::Rn), 0x7f80_0000);
    }

    #[test]
    fn tf32_ties_away() {
        assert_eq!(f32_to_tf32(f32::from_bits(0x3f80_1000), Round::Rna), 0x3f80_2000);
        assert_eq!(f32_to_tf32(f32::from_bits(0x3f80_0fff), Round::Rna), 0x3f80_0000);
        assert_eq!(f32_to_tf32(f32::from_bits(0x3f80_1000), Round::Rn), 0x3f80_0000);
        assert_eq!(f32_to_tf32(f32::from_bits(0x3f80_1000), Round::Rz), 0x3f80_0000);
    }
}
