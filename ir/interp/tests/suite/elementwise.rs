//! Arithmetic, bits, shifts and functions against Rust's own types.

use super::{Nums, assert_floats, eval1, pairs};
use tilelift_ir::num;
use tilelift_ir::types::Scalar;
use tilelift_ir::{KernelBuilder, Value};

pub(super) const FLOATS: [Scalar; 4] = [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64];

/// Values of a float type, the awkward ones first.
pub(super) fn float_samples(ty: Scalar) -> Vec<f64> {
    let (largest, least) = match ty {
        Scalar::F16 => (65504.0, 2f64.powi(-24)),
        Scalar::BF16 => (num::from_bits(0x7f7f, ty), 2f64.powi(-133)),
        Scalar::F32 => (f64::from(f32::MAX), f64::from(f32::from_bits(1))),
        _ => (f64::MAX, f64::from_bits(1)),
    };
    let mut v = vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, largest, -largest, least, -least];
    v.extend([1.0, -1.0, 0.5, 1.5, -2.5, 3.0, 7.0, 100.25, -0.1, 1.0 / 3.0, 1e-3, 12345.678, 2f64.powi(-14), 1.0 + 2f64.powi(-7)]);
    v.into_iter().map(|x| num::round(x, ty)).collect()
}

/// Values of an integer type, the bounds first.
pub(super) fn int_samples(ty: Scalar) -> Vec<i64> {
    let (min, max) = match ty {
        Scalar::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        Scalar::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        Scalar::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    vec![min, max, 0, 1, -1, 2, -2, 3, 7, -7, 8, 15, 16, 31, 32, 63, 64, 100, -100, min + 1, max - 1, max / 2, min / 3]
}

type Binary = fn(&mut KernelBuilder, Value, Value) -> Value;
type Unary = fn(&mut KernelBuilder, Value) -> Value;
/// What an op should give, for one or two `f64` operands.
type Want1 = fn(f64) -> f64;
type Want2 = fn(f64, f64) -> f64;

/// Runs a binary op of every float type on all pairs of samples. `f32` computes what `f16`, `bf16` (rounded again, which is
/// harmless for one op of `+ - * /`) and `f32` should give, `f64` the rest.
fn check_floats(name: &str, op: Binary, want32: fn(f32, f32) -> f32, want64: fn(f64, f64) -> f64) {
    for ty in FLOATS {
        let (a, b) = pairs(&float_samples(ty));
        let want: Vec<f64> = a
            .iter()
            .zip(&b)
            .map(|(&x, &y)| if ty == Scalar::F64 { want64(x, y) } else { num::round(f64::from(want32(x as f32, y as f32)), ty) })
            .collect();
        let got = eval1(&[&Nums::F(ty, a), &Nums::F(ty, b)], ty, |k, v| op(k, v[0], v[1])).read_f64(ty);
        assert_floats(&got, &want, &format!("{name} {ty}"));
    }
}

/// Runs a binary op of every integer type on all pairs of samples, against a closure for each native type.
macro_rules! check_ints {
    ($name:literal, $op:expr, |$x:ident, $y:ident| $want:expr) => {{
        check_ints!(@ $name, $op, I8 i8, |$x, $y| $want);
        check_ints!(@ $name, $op, I16 i16, |$x, $y| $want);
        check_ints!(@ $name, $op, I32 i32, |$x, $y| $want);
        check_ints!(@ $name, $op, I64 i64, |$x, $y| $want);
    }};
    (@ $name:literal, $op:expr, $ty:ident $native:ty, |$x:ident, $y:ident| $want:expr) => {{
        let (a, b) = pairs(&int_samples(Scalar::$ty));
        let want: Vec<i64> = a
            .iter()
            .zip(&b)
            .map(|(&x, &y)| {
                let ($x, $y) = (x as $native, y as $native);
                let r: $native = $want;
                r as i64
            })
            .collect();
        let op: Binary = $op;
        let got = eval1(&[&Nums::I(Scalar::$ty, a), &Nums::I(Scalar::$ty, b)], Scalar::$ty, |k, v| op(k, v[0], v[1]));
        assert_eq!(got.read_i64(Scalar::$ty), want, "{} {}", $name, stringify!($native));
    }};
}

#[test]
pub(super) fn arithmetic() {
    check_floats("add", |k, a, b| k.add(a, b), |x, y| x + y, |x, y| x + y);
    check_floats("sub", |k, a, b| k.sub(a, b), |x, y| x - y, |x, y| x - y);
    check_floats("mul", |k, a, b| k.mul(a, b), |x, y| x * y, |x, y| x * y);
    check_floats("div", |k, a, b| k.div(a, b), |x, y| x / y, |x, y| x / y);
    check_ints!("add", |k, a, b| k.add(a, b), |x, y| x.wrapping_add(y));
    check_ints!("sub", |k, a, b| k.sub(a, b), |x, y| x.wrapping_sub(y));
    check_ints!("mul", |k, a, b| k.mul(a, b), |x, y| x.wrapping_mul(y));
    check_ints!("div", |k, a, b| k.div(a, b), |x, y| if y == 0 { 0 } else { x.wrapping_div(y) });
}

#[test]
pub(super) fn integer_arithmetic() {
    check_ints!("rem", |k, a, b| k.rem(a, b), |x, y| if y == 0 { x } else { x.wrapping_rem(y) });
    // The documented identity, computed by the kernel itself.
    check_ints!(
        "rem identity",
        |k, a, b| {
            let (q, r) = (k.div(a, b), k.rem(a, b));
            let p = k.mul(q, b);
            k.add(p, r)
        },
        |x, _y| x
    );
}

#[test]
pub(super) fn fused() {
    for ty in FLOATS {
        let s = float_samples(ty);
        let (a, b) = pairs(&s);
        // The addend cancels most of the product, so that a second rounding would show.
        let c: Vec<f64> =
            a.iter().zip(&b).enumerate().map(|(i, (&x, &y))| if i % 3 == 0 { s[i % s.len()] } else { num::round(-x * y, ty) }).collect();
        let want: Vec<f64> = (0..a.len())
            .map(|i| match ty {
                Scalar::F64 => a[i].mul_add(b[i], c[i]),
                _ => num::round(f64::from((a[i] as f32).mul_add(b[i] as f32, c[i] as f32)), ty),
            })
            .collect();
        let got = eval1(&[&Nums::F(ty, a), &Nums::F(ty, b), &Nums::F(ty, c)], ty, |k, v| k.fma(v[0], v[1], v[2])).read_f64(ty);
        assert_floats(&got, &want, &format!("fma {ty}"));
    }
    let x = 1.0 + 2f64.powi(-12);
    let n = |v: f64| Nums::F(Scalar::F32, vec![v]);
    let got = eval1(&[&n(x), &n(x), &n(-1.0 - 2f64.powi(-11))], Scalar::F32, |k, v| k.fma(v[0], v[1], v[2]));
    assert_eq!(got.read_f64(Scalar::F32), [2f64.powi(-24)], "one rounding keeps the low bit of the square");
}

#[test]
pub(super) fn extremes() {
    fn pick(x: f64, y: f64, larger: bool) -> f64 {
        // IEEE 754-2019: compare by value, then by sign.
        let order = x.total_cmp(&y);
        if (order == std::cmp::Ordering::Greater) == larger { x } else { y }
    }
    for ty in FLOATS {
        let (a, b) = pairs(&float_samples(ty));
        let cases: [(&str, Binary, Want2); 4] = [
            ("minimum", |k, a, b| k.minimum(a, b), |x, y| if x.is_nan() || y.is_nan() { f64::NAN } else { pick(x, y, false) }),
            ("maximum", |k, a, b| k.maximum(a, b), |x, y| if x.is_nan() || y.is_nan() { f64::NAN } else { pick(x, y, true) }),
            (
                "minnum",
                |k, a, b| k.minnum(a, b),
                |x, y| match (x.is_nan(), y.is_nan()) {
                    (true, _) => y,
                    (_, true) => x,
                    _ => pick(x, y, false),
                },
            ),
            (
                "maxnum",
                |k, a, b| k.maxnum(a, b),
                |x, y| match (x.is_nan(), y.is_nan()) {
                    (true, _) => y,
                    (_, true) => x,
                    _ => pick(x, y, true),
                },
            ),
        ];
        for (name, op, want) in cases {
            let want: Vec<f64> = a.iter().zip(&b).map(|(&x, &y)| want(x, y)).collect();
            let got = eval1(&[&Nums::F(ty, a.clone()), &Nums::F(ty, b.clone())], ty, |k, v| op(k, v[0], v[1])).read_f64(ty);
            assert_floats(&got, &want, &format!("{name} {ty}"));
        }
    }
    check_ints!("minimum", |k, a, b| k.minimum(a, b), |x, y| x.min(y));
    check_ints!("maximum", |k, a, b| k.maximum(a, b), |x, y| x.max(y));
}

#[test]
pub(super) fn signs() {
    for ty in FLOATS {
        let s = float_samples(ty);
        let got = eval1(&[&Nums::F(ty, s.clone())], ty, |k, v| k.neg(v[0])).read_f64(ty);
        assert_floats(&got, &s.iter().map(|x| -x).collect::<Vec<_>>(), "neg");
        let got = eval1(&[&Nums::F(ty, s.clone())], ty, |k, v| k.abs(v[0])).read_f64(ty);
        assert_floats(&got, &s.iter().map(|x| x.abs()).collect::<Vec<_>>(), "abs");
    }
    check_ints!("neg", |k, a, _b| k.neg(a), |x, _y| x.wrapping_neg());
    check_ints!("abs", |k, a, _b| k.abs(a), |x, _y| x.wrapping_abs());
}

#[test]
pub(super) fn bits() {
    check_ints!("and", |k, a, b| k.and(a, b), |x, y| x & y);
    check_ints!("or", |k, a, b| k.or(a, b), |x, y| x | y);
    check_ints!("xor", |k, a, b| k.xor(a, b), |x, y| x ^ y);
    check_ints!("not", |k, a, _b| k.not(a), |x, _y| !x);
    let truth = |v: [i64; 4]| Nums::I(Scalar::I1, v.to_vec());
    let (a, b) = (truth([0, 0, 1, 1]), truth([0, 1, 0, 1]));
    let cases: [(Binary, [i64; 4]); 4] = [
        (|k, a, b| k.and(a, b), [0, 0, 0, 1]),
        (|k, a, b| k.or(a, b), [0, 1, 1, 1]),
        (|k, a, b| k.xor(a, b), [0, 1, 1, 0]),
        (|k, a, _| k.not(a), [1, 1, 0, 0]),
    ];
    for (op, want) in cases {
        let got = eval1(&[&a, &b], Scalar::I1, |k, v| op(k, v[0], v[1]));
        assert_eq!(got.read_i64(Scalar::I1), want);
        assert_eq!(got.bytes(), want.map(|x| x as u8), "a truth value is one byte, 0 or 1");
    }
}

#[test]
pub(super) fn shifts() {
    macro_rules! each {
        ($($ty:ident $native:ty, $unsigned:ty;)*) => { $(
            let (a, b) = pairs(&int_samples(Scalar::$ty));
            let bits = <$native>::BITS as u64;
            let cases: [(&str, Binary, fn($native, u64) -> $native); 3] = [
                ("shl", |k, a, b| k.shl(a, b), |x, n| x.checked_shl(n.min(99) as u32).unwrap_or(0)),
                ("shr_s", |k, a, b| k.shr_s(a, b), |x, n| x.checked_shr(n.min(99) as u32).unwrap_or(if x < 0 { -1 } else { 0 })),
                ("shr_u", |k, a, b| k.shr_u(a, b), |x, n| (x as $unsigned).checked_shr(n.min(99) as u32).unwrap_or(0) as $native),
            ];
            for (name, op, want) in cases {
                let want: Vec<i64> = a.iter().zip(&b).map(|(&x, &n)| {
                    want(x as $native, (n as $unsigned) as u64) as i64
                }).collect();
                let got = eval1(&[&Nums::I(Scalar::$ty, a.clone()), &Nums::I(Scalar::$ty, b.clone())], Scalar::$ty, |k, v| op(k, v[0], v[1]));
                assert_eq!(got.read_i64(Scalar::$ty), want, "{name} of {bits} bits");
            }
        )* };
    }
    each! { I8 i8, u8; I16 i16, u16; I32 i32, u32; I64 i64, u64; }
}

#[test]
pub(super) fn unsigned() {
    macro_rules! each {
        ($($ty:ident $native:ty, $unsigned:ty, $wide:ty, $uwide:ty;)*) => { $(
            {
            let (a, b) = pairs(&int_samples(Scalar::$ty));
            type U = $unsigned;
            let bits = <U>::BITS;
            let cases: [(&str, Binary, fn(U, U) -> U); 8] = [
                ("div_u", |k, a, b| k.div_u(a, b), |x, y| if y == 0 { 0 } else { x / y }),
                ("rem_u", |k, a, b| k.rem_u(a, b), |x, y| if y == 0 { x } else { x % y }),
                ("mulhi_u", |k, a, b| k.mulhi_u(a, b), |x, y| ((x as $uwide * y as $uwide) >> U::BITS) as U),
                ("mulhi", |k, a, b| k.mulhi(a, b), |x, y| ((x as $native as $wide * y as $native as $wide) >> U::BITS) as U),
                ("minimum_u", |k, a, b| k.minimum_u(a, b), |x, y| x.min(y)),
                ("maximum_u", |k, a, b| k.maximum_u(a, b), |x, y| x.max(y)),
                ("popcount", |k, a, _| k.popcount(a), |x, _| x.count_ones() as U),
                ("clz", |k, a, _| k.clz(a), |x, _| x.leading_zeros() as U),
            ];
            for (name, op, want) in cases {
                let want: Vec<i64> = a.iter().zip(&b).map(|(&x, &y)| want(x as U, y as U) as $native as i64).collect();
                let got = eval1(&[&Nums::I(Scalar::$ty, a.clone()), &Nums::I(Scalar::$ty, b.clone())], Scalar::$ty, |k, v| op(k, v[0], v[1]));
                assert_eq!(got.read_i64(Scalar::$ty), want, "{name} of {bits} bits");
            }
            }
        )* };
    }
    each! { I8 i8, u8, i16, u16; I16 i16, u16, i32, u32; I32 i32, u32, i64, u64; I64 i64, u64, i128, u128; }
}

pub(super) fn angles() {
    for ty in FLOATS {
        let (y, x) = pairs(&float_samples(ty));
        let want: Vec<f64> = y.iter().zip(&x).map(|(y, x)| num::round(y.atan2(*x), ty)).collect();
        let got = eval1(&[&Nums::F(ty, y), &Nums::F(ty, x)], ty, |k, v| k.atan2(v[0], v[1])).read_f64(ty);
        assert_floats(&got, &want, &format!("atan2 {ty}"));
    }
    // Points known without a library.
    let number = |x: f64| Nums::F(Scalar::F64, vec![x]);
    let at = |y: f64, x: f64| eval1(&[&number(y), &number(x)], Scalar::F64, |k, v| k.atan2(v[0], v[1])).read_f64(Scalar::F64)[0];
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
    let inf = f64::INFINITY;
    assert_eq!(at(0.0, 1.0).to_bits(), 0);
    assert_eq!(at(-0.0, 1.0).to_bits(), (-0.0f64).to_bits());
    assert_eq!([at(0.0, -0.0), at(-0.0, -0.0), at(0.0, -inf)], [PI, -PI, PI]);
    assert_eq!([at(1.0, 0.0), at(-1.0, -0.0), at(-inf, 5.0)], [FRAC_PI_2, -FRAC_PI_2, -FRAC_PI_2]);
    assert_eq!([at(inf, inf), at(-inf, -inf)], [FRAC_PI_4, -3.0 * FRAC_PI_4]);
    assert!(at(f64::NAN, 1.0).is_nan() && at(0.0, f64::NAN).is_nan());
}

#[test]
pub(super) fn functions() {
    let cases: [(&str, Unary, Want1); 15] = [
        ("exp", |k, a| k.exp(a), f64::exp),
        ("exp2", |k, a| k.exp2(a), f64::exp2),
        ("log", |k, a| k.log(a), f64::ln),
        ("log2", |k, a| k.log2(a), f64::log2),
        ("sqrt", |k, a| k.sqrt(a), f64::sqrt),
        ("rsqrt", |k, a| k.rsqrt(a), |x| 1.0 / x.sqrt()),
        ("tanh", |k, a| k.tanh(a), f64::tanh),
        ("floor", |k, a| k.floor(a), f64::floor),
        ("ceil", |k, a| k.ceil(a), f64::ceil),
        ("round", |k, a| k.round(a), f64::round_ties_even),
        ("trunc", |k, a| k.trunc(a), f64::trunc),
        ("rcp", |k, a| k.rcp(a), |x| 1.0 / x),
        ("sin", |k, a| k.sin(a), num::sin),
        ("cos", |k, a| k.cos(a), num::cos),
        ("erf", |k, a| k.erf(a), num::erf),
    ];
    for ty in FLOATS {
        let s = float_samples(ty);
        for (name, op, want) in cases {
            let got = eval1(&[&Nums::F(ty, s.clone())], ty, |k, v| op(k, v[0])).read_f64(ty);
            let want: Vec<f64> = s.iter().map(|&x| num::round(want(x), ty)).collect();
            assert_floats(&got, &want, &format!("{name} {ty}"));
        }
    }
    // Points known without a library.
    let at = |op: Unary, x: f64| eval1(&[&Nums::F(Scalar::F32, vec![x])], Scalar::F32, |k, v| op(k, v[0])).read_f64(Scalar::F32)[0];
    assert_eq!(at(|k, a| k.exp(a), 0.0), 1.0);
    assert_eq!(at(|k, a| k.exp(a), f64::NEG_INFINITY), 0.0);
    assert_eq!(at(|k, a| k.exp2(a), -126.0), 2f64.powi(-126));
    assert_eq!(at(|k, a| k.exp2(a), -150.0), 0.0);
    assert_eq!(at(|k, a| k.exp2(a), 128.0), f64::INFINITY);
    assert_eq!(at(|k, a| k.log(a), 0.0), f64::NEG_INFINITY);
    assert!(at(|k, a| k.log2(a), -1.0).is_nan());
    assert_eq!(at(|k, a| k.log2(a), 8.0), 3.0);
    assert_eq!(at(|k, a| k.rsqrt(a), 4.0), 0.5);
    assert!(at(|k, a| k.sqrt(a), -1.0).is_nan());
    assert_eq!(at(|k, a| k.tanh(a), 100.0), 1.0);
    assert_eq!(at(|k, a| k.round(a), 2.5), 2.0);
    assert_eq!(at(|k, a| k.round(a), -1.5), -2.0);
    assert!(at(|k, a| k.trunc(a), -0.5).is_sign_negative());
    assert_eq!(at(|k, a| k.rcp(a), -0.0), f64::NEG_INFINITY);
    assert!(at(|k, a| k.sin(a), f64::INFINITY).is_nan());
    assert_eq!(at(|k, a| k.cos(a), 0.0), 1.0);
    assert_eq!(at(|k, a| k.erf(a), -30.0), -1.0);
    assert_eq!(at(|k, a| k.floor(a), -0.5), -1.0);
    assert!(at(|k, a| k.ceil(a), -0.5).is_sign_negative());
}
