//! Random numbers that depend on a seed and an index only, so that any element can be made alone, in any order, on any machine.
//!
//! The bits come from SplitMix64's finaliser (Steele, Lea and Flood 2014); normal numbers from the Box-Muller transform, with a
//! logarithm and a cosine of our own, because the platform's differ in the last bit between machines.

use std::f64::consts::{LN_2, TAU};

/// 64 random bits for an index.
pub fn bits(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(index).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number in `(0, 1]` from the upper 53 bits.
fn unit(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// A number of the standard normal distribution for an index.
pub fn normal(seed: u64, index: u64) -> f64 {
    normal_pair(seed, index / 2)[index as usize & 1]
}

/// The numbers of the indices `2 pair` and `2 pair + 1`, which share their radius.
pub fn normal_pair(seed: u64, pair: u64) -> [f64; 2] {
    let radius = (-2.0 * ln(unit(bits(seed, 2 * pair)))).sqrt();
    let turn = unit(bits(seed, 2 * pair + 1));
    [radius * cos_turn(turn), radius * cos_turn(turn + 0.75)]
}

/// Coefficients of `atanh(t) / t` in `t^2`: `1 / (2k + 1)`.
const ATANH: [f64; 10] = {
    let mut c = [0.0; 10];
    let mut k = 0;
    while k < c.len() {
        c[k] = 1.0 / (2 * k + 1) as f64;
        k += 1;
    }
    c
};

/// Coefficients of `cos x` in `x^2`: `(-1)^k / (2k)!`.
const COS: [f64; 13] = {
    let mut c = [1.0; 13];
    let mut k = 1;
    while k < c.len() {
        c[k] = -c[k - 1] / ((2 * k - 1) * (2 * k)) as f64;
        k += 1;
    }
    c
};

/// A polynomial by Horner's rule.
fn horner(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |s, c| s * x + c)
}

/// Natural logarithm of a normal positive number: `2 atanh((m-1)/(m+1)) + e ln 2` with `m` in `[1/√2, √2)`.
fn ln(x: f64) -> f64 {
    let raw = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let mantissa = f64::from_bits(x.to_bits() & ((1 << 52) - 1) | 1023 << 52);
    let (m, e) = if mantissa >= std::f64::consts::SQRT_2 { (mantissa / 2.0, raw + 1) } else { (mantissa, raw) };
    let t = (m - 1.0) / (m + 1.0);
    // |t| < 0.172, so ten terms leave less than 1e-17.
    2.0 * t * horner(&ATANH, t * t) + f64::from(e) * LN_2
}

/// `cos(2π t)`, for `t` in `[0, 2]`, by Taylor series around the nearest half turn.
fn cos_turn(t: f64) -> f64 {
    let halves = (2.0 * t + 0.5) as i64;
    let x = (t - halves as f64 / 2.0) * TAU;
    // |x| <= π/2, so thirteen terms leave less than 1e-16.
    let series = horner(&COS, x * x);
    if halves & 1 == 0 { series } else { -series }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_and_cosine_agree_with_the_library() {
        for i in 0..10_000 {
            let u = unit(bits(1, i));
            assert!((ln(u) - u.ln()).abs() < 1e-14 * (1.0 + u.ln().abs()), "{u}");
            let t = 2.0 * u;
            assert!((cos_turn(t) - (TAU * t).cos()).abs() < 1e-14, "{t}");
        }
    }

    #[test]
    fn moments_are_those_of_the_normal_distribution() {
        let n = 1_000_000;
        let mut m = [0.0f64; 5];
        for i in 0..n {
            let x = normal(7, i);
            for (p, s) in m.iter_mut().enumerate() {
                *s += x.powi(p as i32) / n as f64;
            }
        }
        // Five standard deviations of the moments' estimates: sqrt(var/n) with var = 1, 2, 15, 96.
        for (p, want, var) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0f64)] {
            assert!((m[p] - want).abs() < 5.0 * (var / n as f64).sqrt(), "moment {p} is {}", m[p]);
        }
    }

    #[test]
    fn seeds_and_indices_give_different_numbers() {
        let mut seen: Vec<u64> = (0..64).flat_map(|s| (0..1000).map(move |i| bits(s, i))).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 64_000);
    }

    #[test]
    fn the_stream_is_pinned() {
        // The reference stream of SplitMix64 from state 0.
        assert_eq!(bits(0, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(bits(0, 1), 0x6e78_9e6a_a1b9_65f4);
    }
}
