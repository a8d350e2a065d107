//! Every computing instruction on every type it takes, against Rust's own arithmetic.

use super::*;
use crate::op::UnOp;
use tilelift_ir::{CmpOp, num};

/// Runs an instruction on columns of operands (bits) and returns the bits of its results, one list per result.
fn eval(results: &[LTy], operands: &[(LTy, &[u64])], make: impl FnOnce(&[LVal], &[LVal]) -> Inst) -> Vec<Vec<u64>> {
    let count = operands[0].1.len();
    let warps = count.div_ceil(32);
    let mut asm = Asm::new(warps as u32);
    let mut m = Memory::new();
    let mut srcs = Vec::new();
    for (view, (ty, column)) in operands.iter().enumerate() {
        let size = ty.bytes() as usize;
        let padded = (0..warps * 32).map(|i| column[i % count]);
        m.add(Buffer::from_bytes(padded.flat_map(|x| x.to_le_bytes()[..size].to_vec()).collect()));
        srcs.push(asm.load(view as u32, *ty));
    }
    let dsts: Vec<LVal> = results.iter().map(|&ty| asm.val(ty)).collect();
    asm.push(make(&dsts, &srcs));
    for (i, (&d, ty)) in dsts.iter().zip(results).enumerate() {
        m.add(Buffer::uninit(warps * 32 * ty.bytes() as usize));
        asm.store((operands.len() + i) as u32, &[d]);
    }
    asm.run(&mut m).unwrap_or_else(|e| panic!("{e}\n{}", asm.p));
    let read = |(i, ty): (usize, &LTy)| {
        let bytes = m.buffers[operands.len() + i].bytes();
        let word = |c: &[u8]| c.iter().rev().fold(0u64, |x, &b| x << 8 | u64::from(b));
        bytes.chunks_exact(ty.bytes() as usize).map(word).take(count).collect()
    };
    results.iter().enumerate().map(read).collect()
}

const FLOATS: [Scalar; 4] = [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64];
const INTS: [Scalar; 4] = [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64];

/// Edge values of a type, as bits.
fn samples(ty: Scalar) -> Vec<u64> {
    if ty.is_float() {
        let small = 2f64.powi(-20);
        let values =
            [0.0, -0.0, 1.0, -1.5, 2.75, -3.25, 7.0, 100.5, -0.375, small, 60000.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-3, 0.1];
        values.iter().map(|&x| num::to_bits(num::round(x, ty), ty)).collect()
    } else if ty == Scalar::I1 {
        vec![0, 1]
    } else {
        let high = i64::MAX >> (64 - ty.bits());
        [0, 1, -1, 2, 3, -7, 5, 31, 8, 100, high, -high - 1, high - 1, 64].iter().map(|&x: &i64| num::wrap(x, ty) as u64).collect()
    }
}

fn mask(ty: Scalar) -> u64 {
    u64::MAX >> (64 - 8 * ty.bytes())
}

/// Every pair of samples.
fn pairs(ty: Scalar) -> (Vec<u64>, Vec<u64>) {
    let s = samples(ty);
    s.iter().flat_map(|&a| s.iter().map(move |&b| (a, b))).unzip()
}

fn same(ty: Scalar, got: u64, want: u64) -> bool {
    got == want & mask(ty) || ty.is_float() && num::from_bits(got, ty).is_nan() && num::from_bits(want, ty).is_nan()
}

fn check_un(op: UnOp, ty: Scalar, want: impl Fn(u64) -> u64) {
    let a = samples(ty);
    let got = eval(&[LTy::Num(ty)], &[(LTy::Num(ty), &a)], |d, s| Inst::Un { dst: d[0], op, a: s[0] });
    for (&a, &got) in a.iter().zip(&got[0]) {
        assert!(same(ty, got, want(a)), "{op:?} {ty} {a:#x}: {got:#x}, not {:#x}", want(a));
    }
}

fn check_bin(op: BinOp, ty: Scalar, want: impl Fn(u64, u64) -> u64) {
    let (a, b) = pairs(ty);
    let got = eval(&[LTy::Num(ty)], &[(LTy::Num(ty), &a), (LTy::Num(ty), &b)], |d, s| Inst::Bin { dst: d[0], op, a: s[0], b: s[1] });
    for ((&a, &b), &got) in a.iter().zip(&b).zip(&got[0]) {
        assert!(same(ty, got, want(a, b)), "{op:?} {ty} {a:#x} {b:#x}: {got:#x}, not {:#x}", want(a, b));
    }
}

/// The result of native arithmetic of the type, as bits.
fn float2(ty: Scalar, a: u64, b: u64, f32s: fn(f32, f32) -> f32, f64s: fn(f64, f64) -> f64) -> u64 {
    let (x, y) = (num::from_bits(a, ty), num::from_bits(b, ty));
    match ty {
        Scalar::F32 => u64::from(f32s(x as f32, y as f32).to_bits()),
        _ => num::to_bits(num::round(f64s(x, y), ty), ty),
    }
}

#[test]
fn float_arithmetic() {
    for ty in FLOATS {
        check_bin(BinOp::Add, ty, |a, b| float2(ty, a, b, |x, y| x + y, |x, y| x + y));
        check_bin(BinOp::Sub, ty, |a, b| float2(ty, a, b, |x, y| x - y, |x, y| x - y));
        check_bin(BinOp::Mul, ty, |a, b| float2(ty, a, b, |x, y| x * y, |x, y| x * y));
        check_bin(BinOp::Div, ty, |a, b| float2(ty, a, b, |x, y| x / y, |x, y| x / y));
        check_bin(BinOp::MinNum, ty, |a, b| pick(ty, a, b, false, false));
        check_bin(BinOp::MaxNum, ty, |a, b| pick(ty, a, b, true, false));
        check_bin(BinOp::Minimum, ty, |a, b| pick(ty, a, b, false, true));
        check_bin(BinOp::Maximum, ty, |a, b| pick(ty, a, b, true, true));
    }
}

/// Minimum or maximum by `total_cmp`, which orders -0 below +0; a NaN wins or loses.
fn pick(ty: Scalar, a: u64, b: u64, largest: bool, nan_wins: bool) -> u64 {
    let (x, y) = (num::from_bits(a, ty), num::from_bits(b, ty));
    if x.is_nan() || y.is_nan() {
        return if x.is_nan() == nan_wins { a } else { b };
    }
    if (x.total_cmp(&y) == std::cmp::Ordering::Greater) == largest { a } else { b }
}

#[test]
fn float_functions() {
    type Function = (UnOp, fn(f64) -> f64);
    let functions: [Function; 9] = [
        (UnOp::Exp2, f64::exp2),
        (UnOp::Log2, f64::log2),
        (UnOp::Sqrt, f64::sqrt),
        (UnOp::Rsqrt, |x| 1.0 / x.sqrt()),
        (UnOp::Floor, f64::floor),
        (UnOp::Ceil, f64::ceil),
        (UnOp::Round, f64::round_ties_even),
        (UnOp::Trunc, f64::trunc),
        (UnOp::Rcp, |x| 1.0 / x),
    ];
    for ty in FLOATS {
        for (op, f) in functions {
            check_un(op, ty, |a| num::to_bits(num::round(f(num::from_bits(a, ty)), ty), ty));
        }
        let sign = 1 << (ty.bits() - 1);
        check_un(UnOp::Neg, ty, |a| a ^ sign);
        check_un(UnOp::Abs, ty, |a| a & !sign);
    }
}

#[test]
fn codes_of_8_bit_floats() {
    let codes: Vec<u64> = (0..256).collect();
    let numbers = samples(Scalar::F32);
    let words: Vec<u64> = numbers.iter().map(|&b| b as i32 as u64).collect();
    for (encode, decode, elem) in [
        (UnOp::EncodeE4M3, UnOp::DecodeE4M3, Scalar::F8E4M3),
        (UnOp::EncodeE5M2, UnOp::DecodeE5M2, Scalar::F8E5M2),
        (UnOp::EncodeE4M3Fnuz, UnOp::DecodeE4M3Fnuz, Scalar::F8E4M3Fnuz),
        (UnOp::EncodeE5M2Fnuz, UnOp::DecodeE5M2Fnuz, Scalar::F8E5M2Fnuz),
    ] {
        let got = eval(&[LTy::I32], &[(LTy::I32, &codes)], |d, s| Inst::Un { dst: d[0], op: decode, a: s[0] });
        for (&code, &got) in codes.iter().zip(&got[0]) {
            assert!(same(Scalar::F32, got & 0xffff_ffff, num::to_bits(num::from_bits(code, elem), Scalar::F32)), "{elem} {code:#x}");
        }
        let got = eval(&[LTy::I32], &[(LTy::I32, &words)], |d, s| Inst::Un { dst: d[0], op: encode, a: s[0] });
        for (&bits, &got) in numbers.iter().zip(&got[0]) {
            let x = num::from_bits(bits, Scalar::F32);
            let x = if x.is_infinite() { num::largest(elem).copysign(x) } else { x };
            let want = num::round(x, elem);
            let want = if want.is_infinite() { num::largest(elem).copysign(want) } else { want };
            assert!(same(elem, got & 0xff, num::to_bits(want, elem)), "{elem} {x:e}: {got:#x}");
        }
    }
}

#[test]
fn int_arithmetic() {
    for ty in INTS {
        let bits = i64::from(ty.bits());
        let count = |b: u64| (b & (u64::MAX >> (64 - bits))) as i128;
        check_bin(BinOp::Add, ty, |a, b| a.wrapping_add(b));
        check_bin(BinOp::Sub, ty, |a, b| a.wrapping_sub(b));
        check_bin(BinOp::Mul, ty, |a, b| a.wrapping_mul(b));
        check_bin(BinOp::Div, ty, |a, b| if b == 0 { 0 } else { (a as i64 as i128 / b as i64 as i128) as u64 });
        check_bin(BinOp::Rem, ty, |a, b| if b == 0 { a } else { (a as i64 as i128 % b as i64 as i128) as u64 });
        check_bin(BinOp::Minimum, ty, |a, b| (a as i64).min(b as i64) as u64);
        check_bin(BinOp::Maximum, ty, |a, b| (a as i64).max(b as i64) as u64);
        check_bin(BinOp::And, ty, |a, b| a & b);
        check_bin(BinOp::Or, ty, |a, b| a | b);
        check_bin(BinOp::Xor, ty, |a, b| a ^ b);
        // Wide shifts, done by doubling or halving as often.
        let halve = |x: i128, b: u64| (0..count(b).min(70)).fold(x, |x, _| x.div_euclid(2));
        check_bin(BinOp::Shl, ty, |a, b| (0..count(b).min(70)).fold(a, |x, _| x.wrapping_mul(2)));
        check_bin(BinOp::ShrS, ty, |a, b| halve(a as i64 as i128, b) as u64);
        check_bin(BinOp::ShrU, ty, |a, b| halve(count(a), b) as u64);
        let high = |x: i128, y: i128| (0..bits).fold(x * y, |x, _| x.div_euclid(2)) as u64;
        check_bin(BinOp::MulHi, ty, |a, b| high(a as i64 as i128, b as i64 as i128));
        check_bin(BinOp::MulHiU, ty, |a, b| ((count(a) as u128 * count(b) as u128) >> bits) as u64);
        check_bin(BinOp::DivU, ty, |a, b| if count(b) == 0 { 0 } else { (count(a) / count(b)) as u64 });
        check_bin(BinOp::RemU, ty, |a, b| if count(b) == 0 { a } else { (count(a) % count(b)) as u64 });
        check_bin(BinOp::MinimumU, ty, |a, b| if count(a) < count(b) { a } else { b });
        check_bin(BinOp::MaximumU, ty, |a, b| if count(a) < count(b) { b } else { a });
        check_un(UnOp::Popcount, ty, |a| (0..bits).filter(|i| count(a) >> i & 1 == 1).count() as u64);
        check_un(UnOp::Clz, ty, |a| (0..bits).take_while(|i| count(a) >> (bits - 1 - i) & 1 == 0).count() as u64);
        check_un(UnOp::Neg, ty, u64::wrapping_neg);
        check_un(UnOp::Not, ty, |a| !a);
        check_un(UnOp::Abs, ty, |a| (a as i64).wrapping_abs() as u64);
    }
    for (op, want) in [(BinOp::And, (|a, b| a & b) as fn(u64, u64) -> u64), (BinOp::Or, |a, b| a | b), (BinOp::Xor, |a, b| a ^ b)] {
        check_bin(op, Scalar::I1, want);
    }
    check_un(UnOp::Not, Scalar::I1, |a| 1 - a);
    check_un(UnOp::Own, Scalar::I32, |a| a);
}

#[test]
fn fused_multiply_add() {
    for ty in FLOATS.into_iter().chain([Scalar::I32, Scalar::I64]) {
        let (a, b) = pairs(ty);
        let c: Vec<u64> = a.iter().rev().copied().collect();
        let t = LTy::Num(ty);
        let got = eval(&[t], &[(t, &a), (t, &b), (t, &c)], |d, s| Inst::Fma { dst: d[0], a: s[0], b: s[1], c: s[2] });
        for (i, &got) in got[0].iter().enumerate() {
            let [x, y, z] = [a[i], b[i], c[i]].map(|v| num::from_bits(v, ty));
            let want = match ty {
                Scalar::F64 => x.mul_add(y, z).to_bits(),
                Scalar::I32 | Scalar::I64 => a[i].wrapping_mul(b[i]).wrapping_add(c[i]),
                _ => num::to_bits(num::round(f64::from((x as f32).mul_add(y as f32, z as f32)), ty), ty),
            };
            assert!(same(ty, got, want), "{ty} {x} {y} {z}");
        }
    }
    // One rounding: (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24, which two roundings would lose.
    let one = f32::to_bits(1.0 + 2f32.powi(-12)).into();
    let c = f32::to_bits(-(1.0 + 2f32.powi(-11))).into();
    let got = eval(&[LTy::F32], &[(LTy::F32, &[one]), (LTy::F32, &[c])], |d, s| Inst::Fma { dst: d[0], a: s[0], b: s[0], c: s[1] });
    assert_eq!(f32::from_bits(got[0][0] as u32), 2f32.powi(-24));
}

#[test]
fn wide_multiply_add() {
    let (a, b) = pairs(Scalar::I32);
    let c: Vec<u64> = a.iter().map(|&x| x.wrapping_mul(0x1_0000_0001)).collect();
    let got =
        eval(&[LTy::I64], &[(LTy::I32, &a), (LTy::I32, &b), (LTy::I64, &c)], |d, s| Inst::MadWide { dst: d[0], a: s[0], b: s[1], c: s[2] });
    for (i, &got) in got[0].iter().enumerate() {
        assert_eq!(got, (i64::from(a[i] as i32) * i64::from(b[i] as i32)).wrapping_add(c[i] as i64) as u64);
    }
}

#[test]
fn comparisons() {
    for &ty in Scalar::ALL.iter().filter(|s| !s.is_narrow()) {
        for &op in CmpOp::ALL {
            if op.is_unsigned() && !ty.is_int() {
                continue;
            }
            let (a, b) = pairs(ty);
            let t = LTy::Num(ty);
            let got = eval(&[LTy::I1], &[(t, &a), (t, &b)], |d, s| Inst::Cmp { dst: d[0], op, a: s[0], b: s[1] });
            for (i, &got) in got[0].iter().enumerate() {
                let order = if ty.is_float() {
                    num::from_bits(a[i], ty).partial_cmp(&num::from_bits(b[i], ty))
                } else if op.is_unsigned() {
                    Some((a[i] & mask(ty)).cmp(&(b[i] & mask(ty))))
                } else {
                    Some((a[i] as i64).cmp(&(b[i] as i64)))
                };
                let want = match op {
                    CmpOp::Eq => order.is_some_and(|o| o.is_eq()),
                    CmpOp::Ne => !order.is_some_and(|o| o.is_eq()),
                    CmpOp::Lt | CmpOp::Ult => order.is_some_and(|o| o.is_lt()),
                    CmpOp::Le | CmpOp::Ule => order.is_some_and(|o| o.is_le()),
                    CmpOp::Gt | CmpOp::Ugt => order.is_some_and(|o| o.is_gt()),
                    CmpOp::Ge | CmpOp::Uge => order.is_some_and(|o| o.is_ge()),
                };
                assert_eq!(got, u64::from(want), "{ty} {op} {:#x} {:#x}", a[i], b[i]);
            }
        }
    }
}

#[test]
fn selection_keeps_bits() {
    let (a, b) = pairs(Scalar::F32);
    let c: Vec<u64> = (0..a.len() as u64).map(|i| i % 3 % 2).collect();
    let got =
        eval(&[LTy::F32], &[(LTy::I1, &c), (LTy::F32, &a), (LTy::F32, &b)], |d, s| Inst::Select { dst: d[0], c: s[0], a: s[1], b: s[2] });
    for (i, &got) in got[0].iter().enumerate() {
        assert_eq!(got, if c[i] == 1 { a[i] } else { b[i] });
    }
}

#[test]
fn conversions() {
    for &from in Scalar::ALL.iter().filter(|s| !s.is_narrow()) {
        for &to in Scalar::ALL.iter().filter(|s| !s.is_narrow()) {
            let a = samples(from);
            let got = eval(&[LTy::Num(to)], &[(LTy::Num(from), &a)], |d, s| Inst::Cvt { dst: d[0], a: s[0] });
            for (&a, &got) in a.iter().zip(&got[0]) {
                let x = num::from_bits(a, from);
                let want = match (from.is_float(), to) {
                    (true, Scalar::F32) => u64::from((x as f32).to_bits()),
                    (true, Scalar::F64) => x.to_bits(),
                    (true, Scalar::F16 | Scalar::BF16) => num::to_bits(num::round(x, to), to),
                    (true, Scalar::I1) => u64::from(x != 0.0),
                    (true, Scalar::I8) => x as i8 as u64,
                    (true, Scalar::I16) => x as i16 as u64,
                    (true, Scalar::I32) => x as i32 as u64,
                    (true, Scalar::I64) => x as i64 as u64,
                    (false, Scalar::F32) => u64::from((a as i64 as f32).to_bits()),
                    (false, Scalar::F64) => (a as i64 as f64).to_bits(),
                    (false, Scalar::F16 | Scalar::BF16) => num::to_bits(num::round(a as i64 as f64, to), to),
                    (false, Scalar::I1) => u64::from(a != 0),
                    (false, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64) => a,
                    (
                        _,
                        Scalar::F8E4M3
                        | Scalar::F8E5M2
                        | Scalar::F8E4M3Fnuz
                        | Scalar::F8E5M2Fnuz
                        | Scalar::F8E8M0
                        | Scalar::F4E2M1
                        | Scalar::I4,
                    ) => {
                        unreachable!("lanes hold codes of 8-bit floats as i8")
                    }
                };
                assert!(same(to, got, want), "{from} {a:#x} to {to}: {got:#x}, not {want:#x}");
            }
        }
    }
    // An i64 one above a tie of bf16 that f64 can't hold: rounding through f64 would go to even, downwards.
    let a = [(0x101 << 54) + 1];
    let got = eval(&[LTy::Num(Scalar::BF16)], &[(LTy::I64, &a)], |d, s| Inst::Cvt { dst: d[0], a: s[0] });
    assert_eq!(num::from_bits(got[0][0], Scalar::BF16), 2f64.powi(54) * 258.0);
}

#[test]
fn tf32_rounds_ties_away() {
    let ulp = 2f32.powi(-10);
    let cases = [(1.0 + ulp / 2.0, 1.0 + ulp), (-1.0 - ulp / 2.0, -1.0 - ulp), (1.0 + ulp * 0.49, 1.0), (f32::INFINITY, f32::INFINITY)];
    let a = cases.map(|c| u64::from(c.0.to_bits()));
    let got = eval(&[LTy::F32], &[(LTy::F32, &a)], |d, s| Inst::RoundTf32 { dst: d[0], a: s[0] });
    assert_eq!(got[0], cases.map(|c| u64::from(c.1.to_bits())));
}

#[test]
fn bits_under_another_type() {
    let types = [LTy::Num(Scalar::I16), LTy::Num(Scalar::F16), LTy::Num(Scalar::BF16)];
    let wide = [LTy::I32, LTy::F32, LTy::B32];
    let widest = [LTy::I64, LTy::Num(Scalar::F64)];
    let words = [0u64, 1, 0x8000, 0xffff, 0x7c01, 0x3f80_0000, 0xffff_ffff, 0x7fc1_2345, 0x8000_0000, u64::MAX, 1 << 63];
    for group in [&types[..], &wide[..], &widest[..]] {
        for &from in group {
            for &to in group {
                let size = from.bits();
                let column = words.map(|w| w & (u64::MAX >> (64 - size)));
                let got = eval(&[to], &[(from, &column)], |d, s| Inst::Bitcast { dst: d[0], a: s[0] });
                assert_eq!(got[0], column, "{from} to {to}");
            }
        }
    }
    // A negative integer stays sign-extended behind a word.
    let mut asm = Asm::new(1);
    let word = asm.constant(LTy::B32, 0xffff_fffe);
    let x = asm.def(LTy::I32, |dst| Inst::Bitcast { dst, a: word });
    let x = asm.def(LTy::I64, |dst| Inst::Cvt { dst, a: x });
    asm.store(0, &[x]);
    let mut m = memory([Buffer::uninit(256)]);
    asm.run(&mut m).unwrap();
    assert_eq!(m.buffers[0].read_i64(Scalar::I64), [-2; 32]);
}

#[test]
fn words_and_their_parts() {
    for (ty, n) in [(Scalar::F16, 2), (Scalar::BF16, 2), (Scalar::I16, 2), (Scalar::I8, 4)] {
        let part = LTy::Num(ty);
        let words: Vec<u64> = (0..40u64).map(|i| i.wrapping_mul(0x9e37_79b9) & 0xffff_ffff).collect();
        let parts = eval(&vec![part; n], &[(LTy::B32, &words)], |d, s| Inst::Unpack { dsts: d.iter().copied().collect(), a: s[0] });
        for (i, column) in parts.iter().enumerate() {
            for (&word, &got) in words.iter().zip(column) {
                assert_eq!(got, word >> (i as u32 * ty.bits()) & mask(ty));
            }
        }
        let operands: Vec<(LTy, &[u64])> = parts.iter().map(|c| (part, &c[..])).collect();
        let back = eval(&[LTy::B32], &operands, |d, s| Inst::Pack { dst: d[0], parts: s.iter().copied().collect() });
        assert_eq!(back[0], words);
    }
}
