//! Comparisons, selection, casts and bitcasts.

use super::elementwise::{FLOATS, float_samples, int_samples};
use super::{Nums, assert_floats, eval, eval1, number, pairs, run, view};
use tilelift_interp::{Buffer, Memory, Options, ViewArg};
use tilelift_ir::num;
use tilelift_ir::ops::CmpOp;
use tilelift_ir::types::Scalar;
use tilelift_ir::{KernelBuilder, Value};

#[test]
pub(super) fn comparisons() {
    for ty in FLOATS {
        let (a, b) = pairs(&float_samples(ty));
        for &c in CmpOp::ALL.iter().filter(|c| !c.is_unsigned()) {
            let want: Vec<i64> = a
                .iter()
                .zip(&b)
                .map(|(x, y)| {
                    let order = x.partial_cmp(y);
                    i64::from(match c {
                        CmpOp::Eq => order.is_some_and(|o| o.is_eq()),
                        CmpOp::Ne => !order.is_some_and(|o| o.is_eq()),
                        CmpOp::Lt => order.is_some_and(|o| o.is_lt()),
                        CmpOp::Le => order.is_some_and(|o| o.is_le()),
                        CmpOp::Gt => order.is_some_and(|o| o.is_gt()),
                        CmpOp::Ge => order.is_some_and(|o| o.is_ge()),
                        CmpOp::Ult | CmpOp::Ule | CmpOp::Ugt | CmpOp::Uge => unreachable!("filtered"),
                    })
                })
                .collect();
            let got = eval1(&[&Nums::F(ty, a.clone()), &Nums::F(ty, b.clone())], Scalar::I1, |k, v| k.cmp(c, v[0], v[1]));
            assert_eq!(got.read_i64(Scalar::I1), want, "cmp {c} {ty}");
        }
    }
    macro_rules! ints {
        ($($ty:ident $native:ty, $unsigned:ty;)*) => { $(
            let (a, b) = pairs(&int_samples(Scalar::$ty));
            for &c in CmpOp::ALL {
                let want: Vec<i64> = a.iter().zip(&b).map(|(&x, &y)| {
                    let (s, u) = ((x as $native).cmp(&(y as $native)), (x as $unsigned).cmp(&(y as $unsigned)));
                    i64::from(match c {
                        CmpOp::Eq => s.is_eq(),
                        CmpOp::Ne => s.is_ne(),
                        CmpOp::Lt => s.is_lt(),
                        CmpOp::Le => s.is_le(),
                        CmpOp::Gt => s.is_gt(),
                        CmpOp::Ge => s.is_ge(),
                        CmpOp::Ult => u.is_lt(),
                        CmpOp::Ule => u.is_le(),
                        CmpOp::Ugt => u.is_gt(),
                        CmpOp::Uge => u.is_ge(),
                    })
                }).collect();
                let got = eval1(&[&Nums::I(Scalar::$ty, a.clone()), &Nums::I(Scalar::$ty, b.clone())], Scalar::I1, |k, v| k.cmp(c, v[0], v[1]));
                assert_eq!(got.read_i64(Scalar::I1), want, "cmp {c} {}", stringify!($native));
            }
        )* };
    }
    ints! { I8 i8, u8; I16 i16, u16; I32 i32, u32; I64 i64, u64; }
    let truth = |v: [i64; 4]| Nums::I(Scalar::I1, v.to_vec());
    let got = eval1(&[&truth([0, 0, 1, 1]), &truth([0, 1, 0, 1])], Scalar::I1, |k, v| k.cmp(CmpOp::Lt, v[0], v[1]));
    assert_eq!(got.read_i64(Scalar::I1), [0, 1, 0, 0], "false is less than true");
}

#[test]
pub(super) fn selections() {
    let c = Nums::I(Scalar::I1, vec![1, 0, 1, 0]);
    for ty in FLOATS {
        let (a, b) = (Nums::F(ty, vec![1.0, 2.0, f64::NAN, 4.0]), Nums::F(ty, vec![-1.0, -0.0, -3.0, f64::INFINITY]));
        let got = eval1(&[&c, &a, &b], ty, |k, v| k.select(v[0], v[1], v[2])).read_f64(ty);
        assert_floats(&got, &[1.0, -0.0, f64::NAN, f64::INFINITY], "select");
    }
    for ty in [Scalar::I1, Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64] {
        let (a, b) = (Nums::I(ty, vec![1, 1, 0, 0]), Nums::I(ty, vec![0, 1, 0, 1]));
        assert_eq!(eval1(&[&c, &a, &b], ty, |k, v| k.select(v[0], v[1], v[2])).read_i64(ty), [1, 1, 0, 1]);
    }
    // One condition for a whole tile.
    for condition in [0, 1] {
        let mut k = KernelBuilder::new("pick");
        let (flag, out) = (k.param(Scalar::I1), k.param(view(Scalar::I32, 1)));
        let (x, y) = (k.full(&[4], 7, Scalar::I32), k.full(&[4], 9, Scalar::I32));
        let v = k.select(flag, x, y);
        let zero = k.constant(0, Scalar::I32);
        k.store(out, &[zero], v);
        let kernel = k.finish().expect("valid");
        let mut m = Memory::new();
        m.add(Buffer::uninit(16));
        let args = [number(Scalar::I1, condition), ViewArg::dense(0, Scalar::I32, &[4]).into()];
        run(&kernel, [1; 3], &args, &mut m, &Options::default()).expect("runs");
        assert_eq!(m.buffers[0].read_i64(Scalar::I32), [if condition == 1 { 7 } else { 9 }; 4]);
    }
}

fn cast(n: &Nums, to: Scalar) -> Buffer {
    // The builder drops a cast to the same type, so an identity cast is skipped by the callers.
    eval1(&[n], to, |k: &mut KernelBuilder, v: &[Value]| k.cast(v[0], to))
}

#[test]
pub(super) fn casts() {
    for from in FLOATS {
        let s = float_samples(from);
        for to in FLOATS.into_iter().filter(|&t| t != from) {
            let want: Vec<f64> = s
                .iter()
                .map(|&x| match to {
                    Scalar::F32 => f64::from(x as f32),
                    _ => num::round(x, to),
                })
                .collect();
            assert_floats(&cast(&Nums::F(from, s.clone()), to).read_f64(to), &want, &format!("cast {from} to {to}"));
        }
        let truncated = |f: fn(f64) -> i64| s.iter().map(|&x| f(x)).collect::<Vec<_>>();
        let n = Nums::F(from, s.clone());
        assert_eq!(cast(&n, Scalar::I8).read_i64(Scalar::I8), truncated(|x| i64::from(x as i8)));
        assert_eq!(cast(&n, Scalar::I16).read_i64(Scalar::I16), truncated(|x| i64::from(x as i16)));
        assert_eq!(cast(&n, Scalar::I32).read_i64(Scalar::I32), truncated(|x| i64::from(x as i32)));
        assert_eq!(cast(&n, Scalar::I64).read_i64(Scalar::I64), truncated(|x| x as i64));
        assert_eq!(cast(&n, Scalar::I1).read_i64(Scalar::I1), truncated(|x| i64::from(x != 0.0)));
    }
    let ints = [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64];
    for from in ints {
        let s = int_samples(from);
        let n = Nums::I(from, s.clone());
        for to in ints.into_iter().filter(|&t| t != from) {
            let want: Vec<i64> = s
                .iter()
                .map(|&x| match to {
                    Scalar::I8 => i64::from(x as i8),
                    Scalar::I16 => i64::from(x as i16),
                    Scalar::I32 => i64::from(x as i32),
                    _ => x,
                })
                .collect();
            assert_eq!(cast(&n, to).read_i64(to), want, "cast {from} to {to}");
        }
        assert_eq!(cast(&n, Scalar::I1).read_i64(Scalar::I1), s.iter().map(|&x| i64::from(x != 0)).collect::<Vec<_>>());
        assert_floats(&cast(&n, Scalar::F32).read_f64(Scalar::F32), &s.iter().map(|&x| f64::from(x as f32)).collect::<Vec<_>>(), "f32");
        assert_floats(&cast(&n, Scalar::F64).read_f64(Scalar::F64), &s.iter().map(|&x| x as f64).collect::<Vec<_>>(), "f64");
    }
    // One rounding from 64 bits: this is above the middle of two bf16 neighbours, by less than f64 can tell.
    let above = (1i64 << 62) + (1 << 54) + 1;
    let want = [2f64.powi(62) + 2f64.powi(55), -(2f64.powi(62) + 2f64.powi(55)), 2f64.powi(62)];
    let got = cast(&Nums::I(Scalar::I64, vec![above, -above, above - 1]), Scalar::BF16).read_f64(Scalar::BF16);
    assert_floats(&got, &want, "i64 to bf16");
    let got = cast(&Nums::I(Scalar::I64, vec![65519, 65520, i64::MIN, 2049, -3]), Scalar::F16).read_f64(Scalar::F16);
    assert_floats(&got, &[65504.0, f64::INFINITY, f64::NEG_INFINITY, 2048.0, -3.0], "i64 to f16");
    let truth = Nums::I(Scalar::I1, vec![0, 1]);
    for to in ints {
        assert_eq!(cast(&truth, to).read_i64(to), [0, 1], "truth values extend with zeros");
    }
    for to in FLOATS {
        assert_eq!(cast(&truth, to).read_f64(to), [0.0, 1.0]);
    }
}

#[test]
pub(super) fn bitcasts() {
    let groups: [&[Scalar]; 3] = [&[Scalar::F16, Scalar::BF16, Scalar::I16], &[Scalar::F32, Scalar::I32], &[Scalar::F64, Scalar::I64]];
    for group in groups {
        for &from in group {
            for &to in group {
                let n = if from.is_float() { Nums::F(from, float_samples(from)) } else { Nums::I(from, int_samples(from)) };
                let shape = [n.len() as u32];
                let got = eval(&[(&n, &shape)], (to, &shape), |k, v| k.bitcast(v[0], to));
                let quiet = |bits: i64| if to.is_float() && num::from_bits(bits as u64, to).is_nan() { i64::MAX } else { bits };
                let mask = |v: Vec<i64>| {
                    let unsigned = v.into_iter().map(|x| if from.bits() == 64 { x } else { x & ((1 << from.bits()) - 1) });
                    unsigned.map(quiet).collect::<Vec<_>>()
                };
                assert_eq!(mask(got.read_i64(to)), mask(n.buffer().read_i64(from)), "bitcast {from} to {to}");
            }
        }
    }
    let one = eval1(&[&Nums::F(Scalar::F32, vec![1.0, -0.0])], Scalar::I32, |k, v| k.bitcast(v[0], Scalar::I32));
    assert_eq!(one.read_i64(Scalar::I32), [0x3f80_0000, i64::from(i32::MIN)]);
    let truth = eval1(&[&Nums::I(Scalar::I1, vec![0, 1])], Scalar::I1, |k, v| k.bitcast(v[0], Scalar::I1));
    assert_eq!(truth.read_i64(Scalar::I1), [0, 1]);
    let byte = eval1(&[&Nums::I(Scalar::I8, vec![-128, 5])], Scalar::I8, |k, v| k.bitcast(v[0], Scalar::I8));
    assert_eq!(byte.read_i64(Scalar::I8), [-128, 5]);
}
