//! Functions of one lane that take more than a line.

use crate::num::{BF16, Env, bf8, fp8, ones, r16, r32, r64, sext, x16, x32, x64};

pub(super) fn lo(v: u64) -> u64 {
    v & 0xffff_ffff
}

pub(super) fn s(v: u64) -> i64 {
    i64::from(v as i32)
}

pub(super) fn h(v: u64) -> i64 {
    i64::from(v as i16)
}

/// Saturates a sum to 32 bits if the instruction clamps.
pub(super) fn sat_u32(e: &Env, v: i128) -> u64 {
    if e.clamp { v.clamp(0, i128::from(u32::MAX)) as u64 } else { lo(v as u64) }
}

pub(super) fn sat_i32(e: &Env, v: i64) -> u64 {
    lo(if e.clamp { v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) } else { v } as u64)
}

pub(super) fn sat_u16(e: &Env, v: i64) -> u64 {
    (if e.clamp { v.clamp(0, 0xffff) } else { v } as u64) & 0xffff
}

pub(super) fn sat_i16(e: &Env, v: i64) -> u64 {
    (if e.clamp { v.clamp(-0x8000, 0x7fff) } else { v } as u64) & 0xffff
}

/// The smaller number; a NaN loses.
pub(super) fn min(a: f64, b: f64) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => {
            if a.is_sign_negative() {
                a
            } else {
                b
            }
        }
        _ => {
            if a < b {
                a
            } else {
                b
            }
        }
    }
}

pub(super) fn max(a: f64, b: f64) -> f64 {
    -min(-a, -b)
}

/// The middle one of three; with a NaN the smallest.
pub(super) fn med3(a: f64, b: f64, c: f64) -> f64 {
    if a.is_nan() || b.is_nan() || c.is_nan() {
        return min(min(a, b), c);
    }
    max(min(a, b), min(max(a, b), c))
}

pub(super) fn f32_of(x: f32) -> f64 {
    f64::from(x)
}

pub(super) fn frexp_exp(x: f64) -> i64 {
    if x == 0.0 || !x.is_finite() {
        return 0;
    }
    let scaled = if x.is_subnormal() { x * 2f64.powi(64) } else { x };
    let e = (scaled.to_bits() >> 52 & 0x7ff) as i64 - 1022;
    if x.is_subnormal() { e - 64 } else { e }
}

pub(super) fn frexp_mant(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() { x } else { ldexp(x, -frexp_exp(x)) }
}

/// `x * 2^n`, rounded once.
pub(super) fn ldexp(mut x: f64, n: i64) -> f64 {
    let mut n = n.clamp(-2300, 2300);
    while n > 1000 {
        x *= 2f64.powi(1000);
        n -= 1000;
    }
    // Large steps first, while the number is normal: only the last step rounds.
    let e = frexp_exp(x);
    if n < 0 && e + n < -1000 {
        let first = (-960 - e).max(n).min(0);
        x = scale(x, first);
        n -= first;
        while n < -1000 {
            x *= 2f64.powi(-1000);
            n += 1000;
        }
    }
    scale(x, n)
}

fn scale(x: f64, n: i64) -> f64 {
    if n < -1000 { x * 2f64.powi(-1000) * 2f64.powi((n + 1000) as i32) } else { x * 2f64.powi(n as i32) }
}

/// The fraction, below one also after rounding.
pub(super) fn fract32(x: f32) -> f32 {
    (x - x.floor()).min(f32::from_bits(0x3f7f_ffff))
}

pub(super) fn to_int(x: f64, lowest: f64, highest: f64) -> i64 {
    if x.is_nan() { 0 } else { x.trunc().clamp(lowest, highest) as i64 }
}

/// The classes of a float that a mask asks about.
pub(super) fn class(bits: u64, exp: u32, man: u32, mask: u64) -> u64 {
    let negative = bits >> (exp + man) & 1 != 0;
    let (e, m) = (bits >> man & ones(exp), bits & ones(man));
    let index = match (e, m) {
        (e, m) if e == ones(exp) && m != 0 => u32::from(m >> (man - 1) & 1 != 0),
        (e, _) if e == ones(exp) => {
            if negative {
                2
            } else {
                9
            }
        }
        (0, 0) => {
            if negative {
                5
            } else {
                6
            }
        }
        (0, _) => {
            if negative {
                4
            } else {
                7
            }
        }
        _ => {
            if negative {
                3
            } else {
                8
            }
        }
    };
    mask >> index & 1
}

pub(super) fn perm(a: u64, b: u64, select: u64) -> u64 {
    // Byte 0 is the lowest of the second source.
    let bytes = lo(a) << 32 | lo(b);
    let pick = |sel: u64| match sel {
        0..=7 => bytes >> (8 * sel) & 0xff,
        8 => (bytes >> 15 & 1) * 0xff,
        9 => (bytes >> 31 & 1) * 0xff,
        10 => (bytes >> 47 & 1) * 0xff,
        11 => (bytes >> 63 & 1) * 0xff,
        12 => 0,
        _ => 0xff,
    };
    (0..4).fold(0, |r, i| r | pick(select >> (8 * i) & 0xff) << (8 * i))
}

pub(super) fn bfe_u(a: u64, at: u64, n: u64) -> u64 {
    lo(a) >> (at & 31) & ones((n & 31) as u32)
}

pub(super) fn bfe_i(a: u64, at: u64, n: u64) -> u64 {
    let (at, n) = ((at & 31) as u32, (n & 31) as u32);
    let v = if n == 0 {
        0
    } else if at + n < 32 {
        sext(lo(a) >> at, n)
    } else {
        s(a) >> at
    };
    lo(v as u64)
}

pub(super) fn sad_u8(a: u64, b: u64) -> u64 {
    (0..4).map(|i| (a >> (8 * i) & 0xff).abs_diff(b >> (8 * i) & 0xff)).sum()
}

pub(super) fn ffbh_i32(v: u64) -> u64 {
    let x = v as i32;
    let y = if x < 0 { !x } else { x } as u32;
    if y == 0 { 0xffff_ffff } else { u64::from(y.leading_zeros()) }
}

/// Sum of products of bytes, halves or nibbles, and a third.
pub(super) fn dot_int(e: &Env, a: u64, b: u64, c: u64, bits: u32, signed: bool) -> u64 {
    let mut sum = if signed { s(c) } else { lo(c) as i64 };
    for i in 0..32 / bits {
        let (x, y) = (a >> (i * bits) & ones(bits), b >> (i * bits) & ones(bits));
        sum += if signed { sext(x, bits) * sext(y, bits) } else { (x * y) as i64 };
    }
    if signed { sat_i32(e, sum) } else { sat_u32(e, i128::from(sum)) }
}

pub(super) fn dot2_f16(e: &Env, a: u64, b: u64, c: u64) -> u64 {
    let sum = x16(e, a) * x16(e, b) + x16(e, a >> 16) * x16(e, b >> 16) + f64::from(x32(e, c));
    r32(e, sum as f32)
}

pub(super) fn dot2_bf16(e: &Env, a: u64, b: u64, c: u64) -> u64 {
    let x = |v: u64| BF16.decode(v as u32 & 0xffff);
    r32(e, (x(a) * x(b) + x(a >> 16) * x(b >> 16) + f64::from(x32(e, c))) as f32)
}

/// Converts to an 8-bit float; with the clamp of the mode what is too large becomes the largest.
pub(super) fn to_fp8(e: &Env, v: u64) -> u64 {
    u64::from(fp8(e.fnuz).encode(f64::from(f32::from_bits(v as u32))))
}

pub(super) fn to_bf8(e: &Env, v: u64) -> u64 {
    u64::from(bf8(e.fnuz).encode(f64::from(f32::from_bits(v as u32))))
}

pub(super) fn from_fp8(e: &Env, v: u64) -> f32 {
    fp8(e.fnuz).decode(v as u32 & 0xff) as f32
}

pub(super) fn from_bf8(e: &Env, v: u64) -> f32 {
    bf8(e.fnuz).decode(v as u32 & 0xff) as f32
}

/// Rounds stochastically: a random number is added below the mantissa, and the rest is cut.
pub(super) fn to_8_stochastic(v: u64, random: u64, format: crate::num::Small, man: u32) -> u64 {
    let x = f32::from_bits(v as u32);
    if !x.is_finite() {
        return u64::from(format.encode(f64::from(x)));
    }
    let bumped = f32::from_bits((v as u32 & 0x7fff_ffff).wrapping_add((random as u32) >> (32 - (23 - man))) | v as u32 & 0x8000_0000);
    u64::from(format.encode_directed(f64::from(bumped), 3))
}

/// The quotient's last correction: specials, and the sign.
pub(super) fn div_fixup(q: f64, den: f64, num: f64) -> f64 {
    let negative = den.is_sign_negative() != num.is_sign_negative();
    let signed = |v: f64| if negative { -v } else { v };
    if den.is_nan() || num.is_nan() {
        return if num.is_nan() { num } else { den };
    }
    if den == 0.0 && num == 0.0 || den.is_infinite() && num.is_infinite() {
        return f64::NAN;
    }
    if den == 0.0 || num.is_infinite() {
        return signed(f64::INFINITY);
    }
    if den.is_infinite() || num == 0.0 {
        return signed(0.0);
    }
    // A quotient that is far beyond either end of the range has become NaN on the way.
    signed(match q.is_nan() {
        true if num.abs() > den.abs() => f64::INFINITY,
        true => 0.0,
        false => q.abs(),
    })
}

pub(super) fn cvt_pk_u8(a: u64, at: u64, old: u64) -> u64 {
    let x = f32::from_bits(a as u32);
    let byte = if x.is_nan() { 0 } else { x.round_ties_even().clamp(0.0, 255.0) as u64 };
    let shift = 8 * (at & 3);
    lo(old) & !(0xff << shift) | byte << shift
}

pub(super) fn norm16(x: f64, signed: bool) -> u64 {
    if x.is_nan() {
        return 0;
    }
    let v = if signed {
        (x.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i64
    } else {
        (x.clamp(0.0, 1.0) * 65535.0).round_ties_even() as i64
    };
    v as u64 & 0xffff
}

/// Any function of three bits, by its truth table: bit `4a + 2b + c` of the table is the result.
pub(crate) fn bitop3(a: u64, b: u64, c: u64, table: u32) -> u64 {
    (0..8).filter(|i| table >> i & 1 != 0).fold(0, |r, i| {
        let pick = |v: u64, bit: u32| if i >> bit & 1 != 0 { v } else { !v };
        r | pick(a, 2) & pick(b, 1) & pick(c, 0)
    })
}

pub(super) fn sin_turns(x: f64) -> f64 {
    if x.is_infinite() { f64::NAN } else { ((x - x.floor()) * std::f64::consts::TAU).sin() }
}

pub(super) fn cos_turns(x: f64) -> f64 {
    if x.is_infinite() { f64::NAN } else { ((x - x.floor()) * std::f64::consts::TAU).cos() }
}

pub(super) fn r32_of(e: &Env, x: f64) -> u64 {
    r32(e, x as f32)
}

pub(super) fn rcp64(e: &Env, v: u64) -> u64 {
    r64(e, 1.0 / x64(e, v))
}

pub(super) fn pkrtz(a: u64, b: u64) -> u64 {
    let one = |v: u64| u64::from(crate::num::F16.encode_directed(f64::from(f32::from_bits(v as u32)), 3));
    one(a) | one(b) << 16
}

pub(super) fn fma16(e: &Env, a: f64, b: f64, c: f64) -> u64 {
    r16(e, a.mul_add(b, c))
}
