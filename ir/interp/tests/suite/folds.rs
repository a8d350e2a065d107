//! Reductions and dots.

use super::elementwise::{FLOATS, float_samples, int_samples};
use super::{Nums, Random, assert_floats, eval, eval1};
use tilelift_ir::num;
use tilelift_ir::ops::ReduceOp;
use tilelift_ir::types::Scalar;

/// The documented tree, written as a recursion from its definition: the element that remains at index `i` after the bits in
/// `later` (the last first) are folded combines index `i` and `i + 2^bit` of the step before.
fn tree(x: &[f64], f: &dyn Fn(f64, f64) -> f64) -> f64 {
    fn at(x: &[f64], pow2: usize, i: usize, folded: &[u32], f: &dyn Fn(f64, f64) -> f64) -> f64 {
        match folded.split_last() {
            None => x[i..].iter().step_by(pow2).copied().reduce(f).expect("not empty"),
            Some((&bit, before)) => f(at(x, pow2, i, before, f), at(x, pow2, i + (1 << bit), before, f)),
        }
    }
    let v = x.len().trailing_zeros();
    let t = v.min(if x.len() <= 256 { 3 } else { 11 });
    let order: Vec<u32> = (t..v).rev().chain(0..t).collect();
    at(x, 1 << v, 0, &order, f)
}

const EXTENTS: [u32; 10] = [1, 2, 7, 16, 129, 176, 256, 512, 1000, 4096];

#[test]
pub(super) fn reductions_of_floats() {
    let mut r = Random(1);
    for ty in FLOATS {
        for extent in EXTENTS {
            let n = extent as usize * 3;
            let x: Vec<f64> = (0..n).map(|_| num::round(r.unit() * if r.bits().is_multiple_of(5) { 100.0 } else { 1.0 }, ty)).collect();
            let rows = |f: &dyn Fn(f64, f64) -> f64| x.chunks(extent as usize).map(|row| tree(row, f)).collect::<Vec<_>>();
            let cases: [(ReduceOp, Vec<f64>); 4] = [
                (ReduceOp::Add, rows(&|a, b| num::round(a + b, ty))),
                (ReduceOp::Mul, rows(&|a, b| num::round(a * b, ty))),
                (ReduceOp::Minimum, rows(&f64::min)),
                (ReduceOp::Maximum, rows(&f64::max)),
            ];
            for (op, want) in cases {
                let got = eval(&[(&Nums::F(ty, x.clone()), &[3, extent])], (ty, &[3]), |k, v| k.reduce(op, v[0], 1)).read_f64(ty);
                assert_floats(&got, &want, &format!("reduce {op} {ty} of {extent}"));
                // The same along the first axis: a result depends on the extent alone.
                let got = eval(&[(&Nums::F(ty, x.clone()), &[3, extent])], (ty, &[3]), |k, v| {
                    let t = k.transpose(v[0], &[1, 0]);
                    k.reduce(op, t, 0)
                });
                assert_floats(&got.read_f64(ty), &want, &format!("reduce {op} {ty} of {extent}, axis 0"));
            }
        }
    }
    // Awkward values: a NaN wins against everything in minimum and maximum; zeros have an order.
    for (values, least, most) in [
        ([1.0, f64::NAN, -2.0], f64::NAN, f64::NAN),
        ([0.0, -0.0, 0.0], -0.0, 0.0),
        ([f64::INFINITY, 1.0, f64::NEG_INFINITY], f64::NEG_INFINITY, f64::INFINITY),
    ] {
        for (op, want) in [(ReduceOp::Minimum, least), (ReduceOp::Maximum, most)] {
            let got = eval(&[(&Nums::F(Scalar::F32, values.to_vec()), &[3, 1])], (Scalar::F32, &[1]), |k, v| k.reduce(op, v[0], 0));
            assert_floats(&got.read_f64(Scalar::F32), &[want], "reduce of awkward values");
        }
    }
    assert!(float_samples(Scalar::F16).len() > 8, "samples are shared with the element tests");
}

#[test]
pub(super) fn reductions_of_integers() {
    let mut r = Random(2);
    for ty in [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64] {
        for extent in EXTENTS {
            let mut x: Vec<i64> = (0..extent).map(|_| num::wrap(r.bits() as i64, ty)).collect();
            for (a, b) in x.iter_mut().zip(int_samples(ty)) {
                *a = b;
            }
            let wide = |f: fn(i128, i128) -> i128| num::wrap(x.iter().map(|&v| i128::from(v)).reduce(f).expect("some") as i64, ty);
            let cases: [(ReduceOp, i64); 7] = [
                (ReduceOp::Add, wide(|a, b| a + b)),
                (ReduceOp::Mul, wide(|a, b| i128::from((a as i64).wrapping_mul(b as i64)))),
                (ReduceOp::Minimum, wide(i128::min)),
                (ReduceOp::Maximum, wide(i128::max)),
                (ReduceOp::And, wide(|a, b| a & b)),
                (ReduceOp::Or, wide(|a, b| a | b)),
                (ReduceOp::Xor, wide(|a, b| a ^ b)),
            ];
            for (op, want) in cases {
                let got = eval1(&[&Nums::I(ty, x.clone())], ty, |k, v| {
                    let s = k.reduce(op, v[0], 0);
                    k.splat(s, &[extent])
                });
                assert_eq!(got.read_i64(ty), vec![want; extent as usize], "reduce {op} {ty} of {extent}");
            }
        }
    }
    for (bits, and, or, xor) in [([1, 1, 1], 1, 1, 1), ([1, 0, 1], 0, 1, 0), ([0, 0, 0], 0, 0, 0)] {
        for (op, want) in [(ReduceOp::And, and), (ReduceOp::Or, or), (ReduceOp::Xor, xor)] {
            let got = eval(&[(&Nums::I(Scalar::I1, bits.to_vec()), &[3, 1])], (Scalar::I1, &[1]), |k, v| k.reduce(op, v[0], 0));
            assert_eq!(got.read_i64(Scalar::I1), [want]);
        }
    }
}

#[test]
fn a_middle_axis_reduces_by_itself() {
    let x: Vec<f64> = (0..3 * 6 * 4).map(f64::from).collect();
    let n = Nums::F(Scalar::F64, x.clone());
    let got = eval(&[(&n, &[3, 6, 4])], (Scalar::F64, &[3, 4]), |k, v| k.reduce(ReduceOp::Add, v[0], 1)).read_f64(Scalar::F64);
    let want: Vec<f64> = (0..12).map(|o| (0..6).map(|j| x[o / 4 * 24 + j * 4 + o % 4]).sum()).collect();
    assert_floats(&got, &want, "reduce of the middle axis");
    let got = eval(&[(&n, &[3, 6, 4])], (Scalar::F64, &[3, 1, 4]), |k, v| k.reduce_keep(ReduceOp::Add, v[0], 1)).read_f64(Scalar::F64);
    assert_floats(&got, &want, "reduce that keeps the axis");
}

/// `c[i][j] + Σ a[i][k] b[k][j]`, exactly: the samples are multiples of 2^-10 below 16, so every partial sum fits in an i64.
fn exact_dot([m, k, n]: [usize; 3], a: &[f64], b: &[f64], c: &[f64]) -> Vec<f64> {
    let fixed = |x: f64, bits: i32| (x * 2f64.powi(bits)) as i64;
    (0..m * n)
        .map(|o| {
            let sum: i64 = (0..k).map(|p| fixed(a[o / n * k + p], 10) * fixed(b[p * n + o % n], 10)).sum();
            (sum + fixed(c[o], 20)) as f64 * 2f64.powi(-20)
        })
        .collect()
}

#[test]
pub(super) fn dots_of_every_type() {
    let mut r = Random(3);
    let pairs = [
        (Scalar::F16, Scalar::F32),
        (Scalar::F16, Scalar::F16),
        (Scalar::BF16, Scalar::F32),
        (Scalar::F32, Scalar::F32),
        (Scalar::F64, Scalar::F64),
    ];
    for (elem, acc) in pairs {
        for [m, k, n] in [[1, 1, 1], [4, 8, 4], [5, 7, 3], [13, 33, 300], [16, 176, 20]] {
            let mut some = |n: usize, ty| -> Vec<f64> {
                (0..n).map(|_| num::round((r.bits() % 4096) as f64 / 1024.0 - 2.0, ty)).map(|x| (x * 1024.0).round() / 1024.0).collect()
            };
            let (a, b, c) = (some(m * k, elem), some(k * n, elem), some(m * n, acc));
            let want: Vec<f64> = exact_dot([m, k, n], &a, &b, &c).into_iter().map(|x| num::round(x, acc)).collect();
            let [mm, kk, nn] = [m as u32, k as u32, n as u32];
            let inputs: [(&Nums, &[u32]); 3] =
                [(&Nums::F(elem, a), &[mm, kk]), (&Nums::F(elem, b), &[kk, nn]), (&Nums::F(acc, c), &[mm, nn])];
            let got = eval(&inputs, (acc, &[mm, nn]), |k, v| k.dot(v[0], v[1], v[2])).read_f64(acc);
            assert_floats(&got, &want, &format!("dot of {elem} in {acc}, {m}x{k}x{n}"));
        }
    }
    let (m, k, n) = (6usize, 40usize, 9usize);
    let mut bytes = |n: usize| (0..n).map(|_| i64::from(r.bits() as i8)).collect::<Vec<_>>();
    let (a, b) = (bytes(m * k), bytes(k * n));
    let c: Vec<i64> = (0..m * n).map(|i| if i % 2 == 0 { i64::from(i32::MAX) } else { i64::from(i32::MIN) }).collect();
    let want: Vec<i64> = (0..m * n)
        .map(|o| (0..k).fold(c[o] as i32, |s, p| s.wrapping_add(a[o / n * k + p] as i32 * b[p * n + o % n] as i32)).into())
        .collect();
    let inputs: [(&Nums, &[u32]); 3] =
        [(&Nums::I(Scalar::I8, a), &[6, 40]), (&Nums::I(Scalar::I8, b), &[40, 9]), (&Nums::I(Scalar::I32, c), &[6, 9])];
    assert_eq!(eval(&inputs, (Scalar::I32, &[6, 9]), |k, v| k.dot(v[0], v[1], v[2])).read_i64(Scalar::I32), want);
}

#[test]
fn dots_round_tf32_operands_and_carry_nan() {
    let ulp = 2f64.powi(-10);
    let one = |x: f64| Nums::F(Scalar::F32, vec![x]);
    let dot = |x: f64, tf32: bool| {
        let shape: &[u32] = &[1, 1];
        let inputs = [(&one(x), shape), (&one(1.0), shape), (&one(0.0), shape)];
        eval(&inputs, (Scalar::F32, shape), |k, v| if tf32 { k.dot_tf32(v[0], v[1], v[2]) } else { k.dot(v[0], v[1], v[2]) })
            .read_f64(Scalar::F32)[0]
    };
    let x = 1.0 + ulp / 2.0;
    assert_eq!(dot(x, false), x);
    assert_eq!(dot(x, true), 1.0 + ulp, "ties go away from zero");
    assert_eq!(dot(-x, true), -1.0 - ulp);
    assert_eq!(dot(1.0 + ulp / 4.0, true), 1.0);
    assert!(dot(f64::NAN, true).is_nan() && dot(f64::NAN, false).is_nan());
    assert_eq!(dot(f64::INFINITY, true), f64::INFINITY);
}

/// The documented scan, as a recursion over blocks of 2^b elements: the upper half of a block gets the lower half's total in front.
fn scan_block(x: &mut [f64], f: &dyn Fn(f64, f64) -> f64) -> f64 {
    if let [only] = x {
        return *only;
    }
    let (low, high) = x.split_at_mut(x.len() / 2);
    let (a, b) = (scan_block(low, f), scan_block(high, f));
    high.iter_mut().for_each(|p| *p = f(a, *p));
    f(a, b)
}

fn scan_line(x: &mut [f64], f: &dyn Fn(f64, f64) -> f64) {
    let block = 1 << x.len().trailing_zeros();
    let mut carry = None;
    for part in x.chunks_mut(block) {
        let total = scan_block(part, f);
        if let Some(c) = carry {
            part.iter_mut().for_each(|p| *p = f(c, *p));
        }
        carry = Some(carry.map_or(total, |c| f(c, total)));
    }
}

#[test]
pub(super) fn scans() {
    let mut r = Random(2);
    for ty in FLOATS {
        for extent in [1u32, 2, 7, 12, 16, 129, 256] {
            let x: Vec<f64> = (0..extent * 3).map(|_| num::round(r.unit() * 3.0, ty)).collect();
            for (op, f) in [
                (ReduceOp::Add, (|a, b| a + b) as fn(f64, f64) -> f64),
                (ReduceOp::Mul, |a, b| a * b),
                (ReduceOp::Minimum, f64::min),
                (ReduceOp::Maximum, f64::max),
            ] {
                let f = |a, b| num::round(f(a, b), ty);
                for reverse in [false, true] {
                    let mut want = x.clone();
                    for line in want.chunks_mut(extent as usize) {
                        if reverse {
                            line.reverse();
                        }
                        scan_line(line, &f);
                        if reverse {
                            line.reverse();
                        }
                    }
                    let run = |k: &mut tilelift_ir::KernelBuilder, v, axis| {
                        if reverse { k.scan_reverse(op, v, axis) } else { k.scan(op, v, axis) }
                    };
                    let shape = [3, extent];
                    let got = eval(&[(&Nums::F(ty, x.clone()), &shape)], (ty, &shape), |k, v| run(k, v[0], 1)).read_f64(ty);
                    assert_floats(&got, &want, &format!("scan {op} {ty} of {extent}"));
                    let got = eval(&[(&Nums::F(ty, x.clone()), &shape)], (ty, &shape), |k, v| {
                        let t = k.transpose(v[0], &[1, 0]);
                        let s = run(k, t, 0);
                        k.transpose(s, &[1, 0])
                    });
                    assert_floats(&got.read_f64(ty), &want, &format!("scan {op} {ty} of {extent}, axis 0"));
                }
            }
        }
    }
    let x = Nums::I(Scalar::I8, vec![100, 27, 1, -128, 6]);
    let got = |op| eval1(&[&x], Scalar::I8, |k, v| k.scan(op, v[0], 0)).read_i64(Scalar::I8);
    assert_eq!(got(ReduceOp::Add), [100, 127, -128, 0, 6]);
    assert_eq!(got(ReduceOp::Minimum), [100, 27, 1, -128, -128]);
    assert_eq!(got(ReduceOp::Or), [100, 127, 127, -1, -1]);
    let t = Nums::I(Scalar::I1, vec![1, 1, 0, 1]);
    let got = |op| eval1(&[&t], Scalar::I1, |k, v| k.scan_reverse(op, v[0], 0)).read_i64(Scalar::I1);
    assert_eq!(got(ReduceOp::Xor), [1, 0, 1, 1]);
    assert_eq!(got(ReduceOp::And), [0, 0, 0, 1]);
}

#[test]
pub(super) fn positions_of_extremes() {
    let at = |x: &Nums, shape: &[u32], axis, out: &[u32], largest: bool| {
        eval(&[(x, shape)], (Scalar::I32, out), |k, v| if largest { k.argmax(v[0], axis) } else { k.argmin(v[0], axis) })
            .read_i64(Scalar::I32)
    };
    let x = Nums::I(Scalar::I16, vec![3, 9, -4, 9, 0, -4, 7, 7]);
    assert_eq!(at(&x, &[2, 4], 1, &[2], true), [1, 2]);
    assert_eq!(at(&x, &[2, 4], 1, &[2], false), [2, 1]);
    assert_eq!(at(&x, &[2, 4], 0, &[4], true), [0, 0, 1, 0]);
    for ty in FLOATS {
        let x = Nums::F(ty, vec![-0.0, 0.0, f64::NEG_INFINITY, 1.0, f64::NAN, f64::INFINITY, f64::NAN, 2.0]);
        assert_eq!(at(&x, &[2, 4], 1, &[2], true), [3, 0]);
        assert_eq!(at(&x, &[2, 4], 1, &[2], false), [2, 0]);
        assert_eq!(at(&Nums::F(ty, vec![-0.0, 0.0]), &[1, 2], 1, &[1], true), [0]);
        assert_eq!(at(&Nums::F(ty, vec![0.0, -0.0]), &[1, 2], 1, &[1], false), [0]);
    }
}
