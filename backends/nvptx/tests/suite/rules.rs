//! Every operation on every type: the text computes what the lane interpreter computes, on edge cases and random numbers.

use crate::common::*;
use tilelift_ir::{CmpOp, Scalar, num};
use tilelift_isel::lane::{BinOp, Inst, LTy, UnOp, Vals};

const INTS: [Scalar; 4] = [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64];
const FLOATS: [Scalar; 4] = [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64];
const N: usize = 8192;

fn bits(elem: Scalar, values: &[u64]) -> Data {
    Data::bits(elem, values)
}

fn unary(asm: &mut Assembly, op: UnOp, elem: Scalar, values: &[u64], tolerance: Tolerance) {
    let ty = LTy::Num(elem);
    let p = elementwise(&format!("{op:?}_{elem}"), &[ty], ty, |a, v| a.un(op, v[0]));
    let n = values.len() / 32 * 32;
    agree(asm, &p, (n / 32) as u32, &[bits(elem, &values[..n]), Data::zeros(elem, n)], tolerance);
}

fn binary(asm: &mut Assembly, op: BinOp, elem: Scalar) {
    let ty = LTy::Num(elem);
    let p = elementwise(&format!("{op:?}_{elem}"), &[ty, ty], ty, |a, v| a.bin(op, v[0], v[1]));
    let (x, y) = pairs(elem, N, op as u64);
    let n = x.len() / 32 * 32;
    agree(asm, &p, (n / 32) as u32, &[bits(elem, &x[..n]), bits(elem, &y[..n]), Data::zeros(elem, n)], Tolerance::Exact);
}

#[test]
fn integer_and_bit_operations() {
    let asm = &mut Assembly::default();
    for elem in INTS {
        for op in [
            BinOp::Add,
            BinOp::Sub,
            BinOp::Mul,
            BinOp::Div,
            BinOp::Rem,
            BinOp::Minimum,
            BinOp::Maximum,
            BinOp::And,
            BinOp::Or,
            BinOp::Xor,
            BinOp::Shl,
            BinOp::ShrS,
            BinOp::ShrU,
            BinOp::DivU,
            BinOp::RemU,
            BinOp::MulHi,
            BinOp::MulHiU,
            BinOp::MinimumU,
            BinOp::MaximumU,
        ] {
            binary(asm, op, elem);
        }
        for op in [UnOp::Neg, UnOp::Abs, UnOp::Not, UnOp::Popcount, UnOp::Clz] {
            unary(asm, op, elem, &sample(elem, 1024, 1), Tolerance::Exact);
        }
    }
    for op in [BinOp::And, BinOp::Or, BinOp::Xor] {
        binary(asm, op, Scalar::I1);
    }
    unary(asm, UnOp::Not, Scalar::I1, &sample(Scalar::I1, 64, 1), Tolerance::Exact);
    unary(asm, UnOp::Own, Scalar::I32, &sample(Scalar::I32, 64, 1), Tolerance::Exact);
    asm.check("sm_80");
}

/// One operand constant takes other rules: powers of two, shift amounts, divisors, immediates.
#[test]
fn operations_with_a_constant() {
    let asm = &mut Assembly::default();
    for elem in INTS {
        let ty = LTy::Num(elem);
        for op in [
            BinOp::Add,
            BinOp::Sub,
            BinOp::Mul,
            BinOp::Div,
            BinOp::Rem,
            BinOp::Maximum,
            BinOp::And,
            BinOp::Shl,
            BinOp::ShrS,
            BinOp::ShrU,
            BinOp::DivU,
            BinOp::RemU,
            BinOp::MulHi,
            BinOp::MulHiU,
            BinOp::MinimumU,
        ] {
            for c in [0i64, 1, -1, 2, 3, -3, 8, 15, 16, 31, 32, 63, 64, 100, 127, -128, i64::MIN] {
                let c = num::wrap(c, elem) as u64;
                let x = sample(elem, 128, c);
                for left in [false, true] {
                    let p = elementwise(&format!("{op:?}_{elem}_{c:x}_{left}"), &[ty], ty, |a, v| {
                        let k = a.constant(ty, c);
                        if left { a.bin(op, k, v[0]) } else { a.bin(op, v[0], k) }
                    });
                    agree(asm, &p, 4, &[bits(elem, &x), Data::zeros(elem, 128)], Tolerance::Exact);
                }
            }
        }
    }
    asm.check("sm_80");
}

#[test]
fn floats_with_a_constant() {
    let asm = &mut Assembly::default();
    for elem in FLOATS {
        let ty = LTy::Num(elem);
        for op in [BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::Div, BinOp::Minimum, BinOp::MaxNum] {
            for c in [0.0, -0.0, 1.0, -2.5, f64::INFINITY] {
                let c = num::to_bits(c, elem);
                let x = sample(elem, 256, c);
                for left in [false, true] {
                    let p = elementwise(&format!("{op:?}_{elem}_{c:x}_{left}"), &[ty], ty, |a, v| {
                        let k = a.constant(ty, c);
                        if left { a.bin(op, k, v[0]) } else { a.bin(op, v[0], k) }
                    });
                    agree(asm, &p, 8, &[bits(elem, &x), Data::zeros(elem, 256)], Tolerance::Exact);
                }
            }
        }
    }
    asm.check("sm_80");
}

#[test]
fn float_arithmetic_is_exact() {
    let asm = &mut Assembly::default();
    for elem in FLOATS {
        for op in [BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::Div, BinOp::Minimum, BinOp::Maximum, BinOp::MinNum, BinOp::MaxNum] {
            binary(asm, op, elem);
        }
        for op in [UnOp::Neg, UnOp::Abs, UnOp::Sqrt, UnOp::Floor, UnOp::Ceil, UnOp::Round, UnOp::Trunc] {
            unary(asm, op, elem, &sample(elem, N, 3), Tolerance::Exact);
        }
    }
    asm.check("sm_80");
}

/// Those of the machine; the others are made of them, see `functions.rs`.
#[test]
fn functions_keep_their_error_bounds() {
    let asm = &mut Assembly::default();
    for elem in [Scalar::F16, Scalar::BF16, Scalar::F32] {
        let x = sample(elem, N, 4);
        unary(asm, UnOp::Exp2, elem, &x, Tolerance::Exp2(2f64.powi(-22)));
        unary(asm, UnOp::Log2, elem, &x, Tolerance::Log(2f64.powi(-21)));
        unary(asm, UnOp::Rsqrt, elem, &x, Tolerance::Relative(2f64.powi(-22)));
        unary(asm, UnOp::Rcp, elem, &x, Tolerance::Relative(2f64.powi(-22)));
    }
    unary(asm, UnOp::Rcp, Scalar::F64, &sample(Scalar::F64, 1024, 4), Tolerance::Exact);
    let normal: Vec<u64> = sample(Scalar::F32, N, 4).into_iter().map(|x| (x & 0x807f_ffff) | ((2 + (x >> 23) % 250) << 23)).collect();
    unary(asm, UnOp::RcpNormal, Scalar::F32, &normal, Tolerance::Relative(2f64.powi(-22)));
    asm.check("sm_80");
}

#[test]
fn fused_and_wide() {
    let asm = &mut Assembly::default();
    for elem in [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64, Scalar::I32, Scalar::I64] {
        let ty = LTy::Num(elem);
        let p = elementwise(&format!("fma_{elem}"), &[ty; 3], ty, |a, v| a.def(ty, |dst| Inst::Fma { dst, a: v[0], b: v[1], c: v[2] }));
        let (x, y) = pairs(elem, N, 5);
        let n = x.len() / 32 * 32;
        let z: Vec<u64> = { sample(elem, n, 6).into_iter().rev().collect() };
        agree(
            asm,
            &p,
            (n / 32) as u32,
            &[bits(elem, &x[..n]), bits(elem, &y[..n]), bits(elem, &z), Data::zeros(elem, n)],
            Tolerance::Exact,
        );
    }
    let p = elementwise("mad_wide", &[I32, I32, I64], I64, |a, v| a.def(I64, |dst| Inst::MadWide { dst, a: v[0], b: v[1], c: v[2] }));
    let (x, y) = pairs(Scalar::I32, N, 5);
    let n = x.len() / 32 * 32;
    let z = sample(Scalar::I64, n, 6);
    let data = [bits(Scalar::I32, &x[..n]), bits(Scalar::I32, &y[..n]), bits(Scalar::I64, &z), Data::zeros(Scalar::I64, n)];
    agree(asm, &p, (n / 32) as u32, &data, Tolerance::Exact);
    let p = elementwise("mad_wide_u", &[I32, I32, I64], I64, |a, v| a.def(I64, |dst| Inst::MadWideU { dst, a: v[0], b: v[1], c: v[2] }));
    agree(asm, &p, (n / 32) as u32, &data, Tolerance::Exact);
    let p = elementwise("funnel", &[I32, I32, I32], I32, |a, v| a.def(I32, |dst| Inst::Funnel { dst, high: v[0], low: v[1], by: v[2] }));
    let by: Vec<u64> = (0..n as u64).map(|i| i % 67).collect();
    let z32 = sample(Scalar::I32, n, 30);
    let data = [bits(Scalar::I32, &x[..n]), bits(Scalar::I32, &y[..n]), bits(Scalar::I32, &by), Data::zeros(Scalar::I32, n)];
    agree(asm, &p, (n / 32) as u32, &data, Tolerance::Exact);
    let p =
        elementwise("permute", &[I32, I32, I32], I32, |a, v| a.def(I32, |dst| Inst::Permute { dst, low: v[0], high: v[1], picks: v[2] }));
    // Without the digits' fourth bits.
    let picks: Vec<u64> = sample(Scalar::I32, n, 31).into_iter().map(|x| x & 0x7777).collect();
    let data = [bits(Scalar::I32, &x[..n]), bits(Scalar::I32, &y[..n]), bits(Scalar::I32, &picks), Data::zeros(Scalar::I32, n)];
    agree(asm, &p, (n / 32) as u32, &data, Tolerance::Exact);
    let data = [bits(Scalar::I32, &x[..n]), bits(Scalar::I32, &y[..n]), bits(Scalar::I32, &z32), Data::zeros(Scalar::I32, n)];
    let p =
        elementwise("mask_flip", &[I32, I32, I32], I32, |a, v| a.def(I32, |dst| Inst::MaskFlip { dst, a: v[0], mask: v[1], flip: v[2] }));
    agree(asm, &p, (n / 32) as u32, &data, Tolerance::Exact);
    let p = elementwise("fma_f16x2", &[I32, I32, I32], I32, |a, v| a.def(I32, |dst| Inst::FmaF16x2 { dst, a: v[0], b: v[1], c: v[2] }));
    agree(asm, &p, (n / 32) as u32, &data, Tolerance::Exact);
    let p = elementwise("fma_bf16x2", &[I32, I32, I32], I32, |a, v| a.def(I32, |dst| Inst::FmaBf16x2 { dst, a: v[0], b: v[1], c: v[2] }));
    agree(asm, &p, (n / 32) as u32, &data, Tolerance::Exact);
    for (elem, name) in [(Scalar::F16, "cvt_f16x2"), (Scalar::BF16, "cvt_bf16x2")] {
        let p = elementwise(name, &[F32, F32], I32, |a, v| {
            let (low, high) = (v[0], v[1]);
            let pair = match elem {
                Scalar::F16 => a.def(LTy::B32, |dst| Inst::CvtF16x2 { dst, low, high }),
                _ => a.def(LTy::B32, |dst| Inst::CvtBf16x2 { dst, low, high }),
            };
            a.def(I32, |dst| Inst::Bitcast { dst, a: pair })
        });
        let (x, y) = pairs(Scalar::F32, N, 32);
        let n = x.len() / 32 * 32;
        let data = [bits(Scalar::F32, &x[..n]), bits(Scalar::F32, &y[..n]), Data::zeros(Scalar::I32, n)];
        agree(asm, &p, (n / 32) as u32, &data, Tolerance::Exact);
    }
    let p = elementwise("tf32", &[F32], F32, |a, v| a.def(F32, |dst| Inst::RoundTf32 { dst, a: v[0] }));
    agree(asm, &p, 32, &[bits(Scalar::F32, &sample(Scalar::F32, 1024, 7)), Data::zeros(Scalar::F32, 1024)], Tolerance::Exact);
    asm.check("sm_80");
}

/// Several at once, by the short way where all exponents are moderate, in full elsewhere; in both every bit is that of the quotient.
#[test]
fn quotients_at_once_are_those_of_one_at_a_time() {
    let asm = &mut Assembly::default();
    let all = pairs(Scalar::F32, N, 17);
    // Exponents around that of 1, one pair in a thousand a little outside of what the short way takes.
    let (mut x, mut y) = (sample(Scalar::I32, N, 18), sample(Scalar::I32, N, 19));
    for (n, (x, y)) in x.iter_mut().zip(&mut y).enumerate() {
        let moderate = |v: u64, at: u64| (v & 0x807f_ffff) | ((at + (v >> 23) % 60) << 23);
        (*x, *y) = (moderate(*x, 97), moderate(*y, 97));
        match n % 1000 {
            17 => *x = (*x & 0x807f_ffff) | (20 << 23),
            417 => *y = (*y & 0x807f_ffff) | (230 << 23),
            _ => {}
        }
    }
    for (x, y) in [all, (x, y)] {
        let n = x.len() / 32 * 32;
        for which in 0..3 {
            let p = elementwise(&format!("divide_{which}"), &[F32, F32], F32, |a, v| {
                let (one, dsts) = (a.f32(1.0), a.vals(F32, 3));
                let (a_, b_) = (Vals::from_slice(&[v[0], v[1], one]), Vals::from_slice(&[v[1], v[0], v[1]]));
                a.push(Inst::Divide { dsts: dsts.clone(), a: a_, b: b_ });
                dsts[which]
            });
            let data = [bits(Scalar::F32, &x[..n]), bits(Scalar::F32, &y[..n]), Data::zeros(Scalar::F32, n)];
            agree(asm, &p, (n / 32) as u32, &data, Tolerance::Exact);
        }
    }
    let p = elementwise("round_bf16", &[F32], F32, |a, v| a.un(UnOp::RoundBf16, v[0]));
    agree(asm, &p, 128, &[bits(Scalar::F32, &sample(Scalar::F32, 4096, 20)), Data::zeros(Scalar::F32, 4096)], Tolerance::Exact);
    asm.check("sm_80");
}

#[test]
fn comparisons_and_selections() {
    let asm = &mut Assembly::default();
    for &elem in Scalar::ALL.iter().filter(|s| !s.is_narrow()) {
        let ty = LTy::Num(elem);
        let (x, y) = pairs(elem, 2048, 8);
        let n = x.len() / 32 * 32;
        let grid = (n / 32) as u32;
        for &op in CmpOp::ALL {
            if op.is_unsigned() && !elem.is_int() {
                continue;
            }
            let p =
                elementwise(&format!("cmp_{op}_{elem}"), &[ty, ty], I1, |a, v| a.def(I1, |dst| Inst::Cmp { dst, op, a: v[0], b: v[1] }));
            agree(asm, &p, grid, &[bits(elem, &x[..n]), bits(elem, &y[..n]), Data::zeros(Scalar::I1, n)], Tolerance::Exact);
        }
        let c = sample(Scalar::I1, n, 9);
        let p = elementwise(&format!("select_{elem}"), &[I1, ty, ty], ty, |a, v| {
            a.def(ty, |dst| Inst::Select { dst, c: v[0], a: v[1], b: v[2] })
        });
        agree(asm, &p, grid, &[bits(Scalar::I1, &c), bits(elem, &x[..n]), bits(elem, &y[..n]), Data::zeros(elem, n)], Tolerance::Exact);
        let p = elementwise(&format!("select_const_{elem}"), &[I1], ty, |a, v| {
            let (x, y) = (a.constant(ty, num::wrap(1, elem) as u64), a.constant(ty, 0));
            a.def(ty, |dst| Inst::Select { dst, c: v[0], a: x, b: y })
        });
        agree(asm, &p, grid, &[bits(Scalar::I1, &c), Data::zeros(elem, n)], Tolerance::Exact);
    }
    asm.check("sm_80");
}

#[test]
fn conversions() {
    let asm = &mut Assembly::default();
    for &from in Scalar::ALL.iter().filter(|s| !s.is_narrow()) {
        for &to in Scalar::ALL.iter().filter(|s| !s.is_narrow()) {
            let (ft, tt) = (LTy::Num(from), LTy::Num(to));
            let p = elementwise(&format!("cvt_{from}_{to}"), &[ft], tt, |a, v| a.def(tt, |dst| Inst::Cvt { dst, a: v[0] }));
            agree(asm, &p, 128, &[bits(from, &sample(from, 4096, 10)), Data::zeros(to, 4096)], Tolerance::Exact);
        }
    }
    asm.check("sm_80");
}

#[test]
fn bit_casts() {
    let asm = &mut Assembly::default();
    for (from, to) in [
        (Scalar::I32, Scalar::F32),
        (Scalar::F32, Scalar::I32),
        (Scalar::I64, Scalar::F64),
        (Scalar::F64, Scalar::I64),
        (Scalar::I16, Scalar::F16),
        (Scalar::BF16, Scalar::I16),
        (Scalar::F16, Scalar::BF16),
    ] {
        let (ft, tt) = (LTy::Num(from), LTy::Num(to));
        let p = elementwise(&format!("bits_{from}_{to}"), &[ft], tt, |a, v| a.def(tt, |dst| Inst::Bitcast { dst, a: v[0] }));
        agree(asm, &p, 8, &[bits(from, &sample(from, 256, 11)), Data::zeros(to, 256)], Tolerance::Exact);
    }
    asm.check("sm_80");
}
