//! Products of block-scaled operands.

use super::{Nums, Random, assert_floats, eval};
use tilelift_ir::num;
use tilelift_ir::types::Scalar;

const FORMATS: [Scalar; 3] = [Scalar::F8E4M3, Scalar::F8E5M2, Scalar::F4E2M1];

/// The definition, block by block: the sum of a block's products times the power of two that both scales make.
fn by_blocks([m, k, n]: [usize; 3], a: &[f64], sa: &[i32], b: &[f64], sb: &[i32], c: &[f64]) -> Vec<f64> {
    let blocks = k / 32;
    let sum = |i: usize, j: usize, q: usize| (32 * q..32 * q + 32).map(|p| a[i * k + p] * b[p * n + j]).sum::<f64>();
    let scale = |i: usize, j: usize, q: usize| 2f64.powi(sa[i * blocks + q] + sb[q * n + j]);
    (0..m * n).map(|o| (0..blocks).fold(c[o], |x, q| x + scale(o / n, o % n, q) * sum(o / n, o % n, q))).collect()
}

fn powers(exponents: &[i32]) -> Nums {
    Nums::F(Scalar::F8E8M0, exponents.iter().map(|&e| 2f64.powi(e)).collect())
}

#[test]
pub(super) fn scales_belong_to_blocks_of_rows_and_columns() {
    let mut r = Random(7);
    for a_type in FORMATS {
        for b_type in FORMATS {
            for [m, k, n] in [[1, 32, 2], [3, 64, 4], [16, 128, 6], [5, 96, 2]] {
                // Few bits, so that every sum is exact.
                let mut some = |n: usize, ty| -> Vec<f64> { (0..n).map(|_| num::round((r.bits() % 33) as f64 / 4.0 - 4.0, ty)).collect() };
                let (a, b, c) = (some(m * k, a_type), some(k * n, b_type), some(m * n, Scalar::F32));
                let mut exponents = |n: usize| -> Vec<i32> { (0..n).map(|_| (r.bits() % 7) as i32 - 3).collect() };
                let (sa, sb) = (exponents(m * k / 32), exponents(k / 32 * n));
                let want: Vec<f64> = by_blocks([m, k, n], &a, &sa, &b, &sb, &c).into_iter().map(|x| f64::from(x as f32)).collect();
                let [mm, kk, nn] = [m as u32, k as u32, n as u32];
                let inputs: [(&Nums, &[u32]); 5] = [
                    (&Nums::F(a_type, a), &[mm, kk]),
                    (&powers(&sa), &[mm, kk / 32]),
                    (&Nums::F(b_type, b), &[kk, nn]),
                    (&powers(&sb), &[kk / 32, nn]),
                    (&Nums::F(Scalar::F32, c), &[mm, nn]),
                ];
                let got = eval(&inputs, (Scalar::F32, &[mm, nn]), |k, v| k.dot_scaled([v[0], v[1]], [v[2], v[3]], v[4]));
                assert_floats(&got.read_f64(Scalar::F32), &want, &format!("{a_type} by {b_type}, {m}x{k}x{n}"));
            }
        }
    }
}

#[test]
fn scales_at_the_ends_of_their_range() {
    let one = |scale_a: f64, scale_b: f64, x: f64| {
        let all = |ty, x: f64| Nums::F(ty, vec![x; 32]);
        let inputs: [(&Nums, &[u32]); 5] = [
            (&all(Scalar::F8E4M3, x), &[1, 32]),
            (&Nums::F(Scalar::F8E8M0, vec![scale_a]), &[1, 1]),
            (&all(Scalar::F8E5M2, 1.0), &[32, 1]),
            (&Nums::F(Scalar::F8E8M0, vec![scale_b]), &[1, 1]),
            (&Nums::F(Scalar::F32, vec![0.0]), &[1, 1]),
        ];
        eval(&inputs, (Scalar::F32, &[1, 1]), |k, v| k.dot_scaled([v[0], v[1]], [v[2], v[3]], v[4])).read_f64(Scalar::F32)[0]
    };
    let (least, most) = (2f64.powi(-127), 2f64.powi(127));
    assert_eq!(one(least, most, 1.0), 32.0);
    assert_eq!(one(most, least, -0.5), -16.0);
    assert_eq!(one(least, least, 448.0), 0.0);
    assert_eq!(one(most, most, 1.0), f64::INFINITY);
    assert_eq!(one(most, most, 0.0), 0.0);
    assert_eq!(one(2f64.powi(-100), 2f64.powi(-40), 1.0), 2f64.powi(-135));
    assert!(one(f64::NAN, 1.0, 0.0).is_nan() && one(1.0, f64::NAN, 1.0).is_nan());
}

#[test]
fn batches_have_scales_of_their_own() {
    let (a, b) = (Nums::F(Scalar::F4E2M1, vec![1.0; 2 * 2 * 64]), Nums::F(Scalar::F4E2M1, vec![0.5; 2 * 64 * 2]));
    let (sa, sb) = (powers(&[0, 1, 2, 3, 4, 5, 6, 7]), powers(&[0, 0, 0, 0, 1, 1, 2, 2]));
    let inputs: [(&Nums, &[u32]); 5] =
        [(&a, &[2, 2, 64]), (&sa, &[2, 2, 2]), (&b, &[2, 64, 2]), (&sb, &[2, 2, 2]), (&Nums::F(Scalar::F32, vec![0.0; 8]), &[2, 2, 2])];
    let got = eval(&inputs, (Scalar::F32, &[2, 2, 2]), |k, v| k.dot_scaled([v[0], v[1]], [v[2], v[3]], v[4])).read_f64(Scalar::F32);
    let row = |x: f64, y: f64| 16.0 * (x + y);
    let want = [row(1.0, 2.0), row(4.0, 8.0), row(2.0 * 16.0, 4.0 * 32.0), row(2.0 * 64.0, 4.0 * 128.0)];
    assert_eq!(got, want.into_iter().flat_map(|x| [x, x]).collect::<Vec<_>>());
}
