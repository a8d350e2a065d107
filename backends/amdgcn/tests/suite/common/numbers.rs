//! Numbers where types are likely to go wrong, and random ones.

use tilelift_ir::{Scalar, num};

/// A small generator of numbers (splitmix).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Bits of the numbers at the edges of a type.
pub fn edges(elem: Scalar) -> Vec<u64> {
    let mask = u64::MAX >> (64 - elem.bits().max(8));
    if elem == Scalar::I1 {
        return vec![0, 1];
    }
    if !elem.is_float() {
        let top = 1u64 << (elem.bits() - 1);
        let near = [0u64, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, 127, 128, 255];
        return near
            .iter()
            .flat_map(|&x| [x, x.wrapping_neg(), top.wrapping_add(x), top.wrapping_sub(x), x << 31, (x << 32).wrapping_sub(1)])
            .map(|x| x & mask)
            .collect();
    }
    let near = [
        0.0,
        1.0,
        0.5,
        1.5,
        2.5,
        0.1,
        3.7,
        10.0,
        88.7,
        127.5,
        128.4,
        255.9,
        1000.0,
        32767.5,
        32768.0,
        65504.0,
        65520.0,
        16777217.0,
        2147483520.0,
        2147483648.0,
        4294967296.5,
        9.2e18,
        1e19,
        1e30,
        3.4e38,
        1e-6,
        6e-8,
        1e-20,
        6e-39,
        1e-44,
        1e300,
        1e-310,
    ];
    let mut out: Vec<u64> = near.iter().flat_map(|&x: &f64| [x, -x]).map(|x| num::to_bits(num::round(x, elem), elem)).collect();
    out.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(|x| num::to_bits(x, elem)));
    let fraction = match elem {
        Scalar::F16 => 10,
        Scalar::BF16 => 7,
        Scalar::F32 => 23,
        _ => 52,
    };
    let inf = num::to_bits(f64::INFINITY, elem);
    // The smallest number, the largest below the normal ones, the smallest normal ones, the largest, and a signalling NaN.
    out.extend([1, (1 << fraction) - 1, 1 << fraction, (1 << fraction) + 1, inf - 1, inf + 1]);
    out
}

/// Bits of a random number, about half of them of ordinary size.
pub fn random(elem: Scalar, r: &mut Random) -> u64 {
    let x = r.next();
    let mask = u64::MAX >> (64 - elem.bits().max(8));
    match elem {
        Scalar::I1 => x & 1,
        e if !e.is_float() => (x >> (r.next() % u64::from(elem.bits()))) & mask,
        _ if x & 1 == 0 => r.next() & mask,
        _ => {
            let f = (r.next() as i64 as f64) / 2f64.powi(63 - (r.next() % 12) as i32);
            num::to_bits(num::round(f, elem), elem)
        }
    }
}

/// The edges, then random numbers: `n` in all, at least.
pub fn sample(elem: Scalar, n: usize, seed: u64) -> Vec<u64> {
    let mut r = Random(seed);
    let mut out = edges(elem);
    while out.len() < n {
        out.push(random(elem, &mut r));
    }
    out.truncate(n);
    out
}

/// All pairs of edges, thinned out if they are too many, then random pairs: `n` in all.
pub fn pairs(elem: Scalar, n: usize, seed: u64) -> (Vec<u64>, Vec<u64>) {
    let (mut r, e) = (Random(seed), edges(elem));
    let all = e.len() * e.len();
    let step = (all / (n * 3 / 4)).max(1);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for i in (0..all).step_by(step) {
        a.push(e[i / e.len()]);
        b.push(e[i % e.len()]);
    }
    a.truncate(n * 3 / 4);
    b.truncate(n * 3 / 4);
    while a.len() < n {
        a.push(random(elem, &mut r));
        b.push(random(elem, &mut r));
    }
    (a, b)
}
