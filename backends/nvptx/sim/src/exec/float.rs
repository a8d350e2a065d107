//! Floating-point arithmetic.
//!
//! add, sub, mul, fma, div, sqrt, rcp are correctly rounded (also where PTX allows `.approx` or `.full`
//! to be less accurate). The other `.approx` functions are computed in f64 and rounded once. NaN
//! results are the canonical NaN.

use crate::num;
use crate::num::{BF16, F16, F32, NAN16, NAN32, add_odd, bf16_to_f32, f16_to_f32, fma_odd, fma32, ftz32, round_f64};
use crate::program::op::{FMode, FltOp, Testp};
use crate::program::operand::Reg;
use crate::state::warp::Warp;
use crate::types::{Round, Ty};

fn canon(x: f32) -> u32 {
    if x.is_nan() { NAN32 } else { x.to_bits() }
}

fn min32(a: f32, b: f32) -> f32 {
    // -0 < +0; one NaN gives the other operand.
    if a < b || b.is_nan() || (a == b && a.is_sign_negative()) { a } else { b }
}

fn max32(a: f32, b: f32) -> f32 {
    if a > b || b.is_nan() || (a == b && a.is_sign_positive()) { a } else { b }
}

fn min64(a: f64, b: f64) -> f64 {
    if a < b || b.is_nan() || (a == b && a.is_sign_negative()) { a } else { b }
}

fn max64(a: f64, b: f64) -> f64 {
    if a > b || b.is_nan() || (a == b && a.is_sign_positive()) { a } else { b }
}

/// Everything in f64; exact up to rounding to odd where the result is inexact and `F32` or narrower.
/// The unary `.approx` functions are only as good as f64.
fn in_f64(op: FltOp, a: f64, b: f64, c: f64) -> f64 {
    match op {
        FltOp::Add => add_odd(a, b),
        FltOp::Sub => add_odd(a, -b),
        FltOp::Mul => a * b,
        FltOp::Fma => fma_odd(a, b, c),
        FltOp::Div => a / b,
        FltOp::Abs => a.abs(),
        FltOp::Neg => -a,
        FltOp::Min => min64(a, b),
        FltOp::Max => max64(a, b),
        FltOp::MinNan | FltOp::MaxNan if a.is_nan() || b.is_nan() => f64::NAN,
        FltOp::MinNan => min64(a, b),
        FltOp::MaxNan => max64(a, b),
        FltOp::Rcp => 1.0 / a,
        FltOp::Sqrt => a.sqrt(),
        FltOp::Rsqrt => 1.0 / a.sqrt(),
        FltOp::Sin => a.sin(),
        FltOp::Cos => a.cos(),
        FltOp::Ex2 => a.exp2(),
        FltOp::Lg2 => a.log2(),
        FltOp::Tanh => a.tanh(),
        FltOp::Copysign => b.copysign(a),
    }
}

/// One f32 lane, any modifiers.
fn lane32(op: FltOp, m: FMode, a: u32, b: u32, c: u32) -> u32 {
    if op == FltOp::Copysign {
        return b & !(1 << 31) | a & 1 << 31;
    }
    let load = |x: u32| {
        let x = f32::from_bits(x);
        if m.ftz { ftz32(x) } else { x }
    };
    let (a, b, c) = (load(a), load(b), load(c));
    let v = if m.round == Round::Rn {
        match op {
            FltOp::Add => a + b,
            FltOp::Sub => a - b,
            FltOp::Mul => a * b,
            FltOp::Div => a / b,
            FltOp::Sqrt => a.sqrt(),
            FltOp::Rcp => 1.0 / a,
            FltOp::Fma => fma32(a, b, c),
            FltOp::Min => min32(a, b),
            FltOp::Max => max32(a, b),
            _ => in_f64(op, a.into(), b.into(), c.into()) as f32,
        }
    } else {
        let x = in_f64(op, a.into(), b.into(), c.into());
        // x - x is -0 when rounding down.
        if x == 0.0 && m.round == Round::Rm && exact_zero_cancels(op, a, b, c) {
            -0.0
        } else {
            f32::from_bits(round_f64(x, F32, m.round) as u32)
        }
    };
    let v = if m.ftz { ftz32(v) } else { v };
    if m.sat {
        // NaN saturates to +0.
        return if v > 0.0 { v.min(1.0).to_bits() } else { 0 };
    }
    canon(v)
}

/// Whether a zero sum came from operands of opposite sign.
fn exact_zero_cancels(op: FltOp, a: f32, b: f32, c: f32) -> bool {
    let neg = |x: f32| x.is_sign_negative();
    match op {
        FltOp::Add => neg(a) != neg(b),
        FltOp::Sub => neg(a) == neg(b),
        FltOp::Fma => (neg(a) != neg(b)) != neg(c),
        _ => false,
    }
}

fn lane64(op: FltOp, a: f64, b: f64, c: f64) -> u64 {
    let v = match op {
        FltOp::Add => a + b,
        FltOp::Sub => a - b,
        FltOp::Fma => a.mul_add(b, c),
        _ => in_f64(op, a, b, c),
    };
    // f64 NaN payloads are kept on hardware; one NaN is as good as another here.
    v.to_bits()
}

/// One 16-bit lane.
fn lane16(op: FltOp, m: FMode, bf: bool, a: u16, b: u16, c: u16) -> u16 {
    match op {
        FltOp::Abs => return a & 0x7fff,
        FltOp::Neg => return a ^ 0x8000,
        _ => {}
    }
    let f = if bf { BF16 } else { F16 };
    let load = |h: u16| -> f64 {
        let x = if bf { bf16_to_f32(h) } else { f16_to_f32(h) };
        let tiny = m.ftz && h & 0x7fff != 0 && u64::from(h) & (((1 << f.exp_bits) - 1) << f.man_bits) == 0;
        if tiny { 0.0f64.copysign(x.into()) } else { x.into() }
    };
    let x = in_f64(op, load(a), load(b), load(c));
    if x.is_nan() {
        return if m.sat { 0 } else { NAN16 };
    }
    let x = if m.relu && x < 0.0 { 0.0 } else { x };
    let x = if m.sat { if x > 0.0 { x.min(1.0) } else { 0.0 } } else { x };
    let v = round_f64(x, f, Round::Rn) as u16;
    let tiny = u64::from(v) & (((1 << f.exp_bits) - 1) << f.man_bits) == 0;
    if m.ftz && tiny { v & 0x8000 } else { v }
}

/// Rounded sum of two 16-bit floats.
pub(crate) fn half_add(bf: bool, a: u16, b: u16) -> u16 {
    let m = FMode { round: Round::Rn, ftz: false, sat: false, relu: false };
    lane16(FltOp::Add, m, bf, a, b, 0)
}

#[inline(always)]
fn f2(w: &mut Warp, mask: u32, r: [Reg; 4], ftz: bool, f: impl Fn(f32, f32) -> f32) {
    let [d, a, b, _] = r;
    let (x, y) = (w.r32(a), w.r32(b));
    let p = w.rx[a.i()] | w.rx[b.i()];
    let mut o = [0; 32];
    if ftz {
        for l in 0..32 {
            o[l] = canon(ftz32(f(ftz32(f32::from_bits(x[l])), ftz32(f32::from_bits(y[l])))));
        }
    } else {
        for l in 0..32 {
            o[l] = canon(f(f32::from_bits(x[l]), f32::from_bits(y[l])));
        }
    }
    w.set_r(d, mask, &o, p);
}

/// Executes a [`FltOp`]; `r` = destination, a, b, c.
pub(crate) fn exec(w: &mut Warp, mask: u32, op: FltOp, ty: Ty, m: FMode, r: [Reg; 4]) {
    let [d, a, b, c] = r;
    if ty == Ty::F32 && m.round == Round::Rn && !m.sat {
        match op {
            FltOp::Add => return f2(w, mask, r, m.ftz, |a, b| a + b),
            FltOp::Sub => return f2(w, mask, r, m.ftz, |a, b| a - b),
            FltOp::Mul => return f2(w, mask, r, m.ftz, |a, b| a * b),
            FltOp::Max => return f2(w, mask, r, m.ftz, max32),
            FltOp::Min => return f2(w, mask, r, m.ftz, min32),
            _ => {}
        }
    }
    let p = w.poison(a) | w.poison(b) | w.poison(c);
    if ty == Ty::F64 {
        let (x, y, z) = (w.d64(a), w.d64(b), w.d64(c));
        let mut o = [0; 32];
        for l in 0..32 {
            o[l] = lane64(op, f64::from_bits(x[l]), f64::from_bits(y[l]), f64::from_bits(z[l]));
        }
        return w.set_d(d, mask, &o, p);
    }
    let (x, y, z) = (w.r32(a), w.r32(b), w.r32(c));
    let mut o = [0; 32];
    let bf = matches!(ty, Ty::Bf16 | Ty::Bf16x2);
    match ty {
        Ty::F32 if op == FltOp::Fma && m.round == Round::Rn && !m.sat && !m.ftz => {
            for l in 0..32 {
                o[l] = canon(fma32(f32::from_bits(x[l]), f32::from_bits(y[l]), f32::from_bits(z[l])));
            }
        }
        Ty::F32 => {
            for l in (0..32).filter(|l| mask >> l & 1 == 1) {
                o[l] = lane32(op, m, x[l], y[l], z[l]);
            }
        }
        Ty::F16x2 | Ty::Bf16x2 => {
            for l in (0..32).filter(|l| mask >> l & 1 == 1) {
                let half = |s: u32| u32::from(lane16(op, m, bf, (x[l] >> s) as u16, (y[l] >> s) as u16, (z[l] >> s) as u16));
                o[l] = half(16) << 16 | half(0);
            }
        }
        _ => {
            for l in (0..32).filter(|l| mask >> l & 1 == 1) {
                o[l] = lane16(op, m, bf, x[l] as u16, y[l] as u16, z[l] as u16).into();
            }
        }
    }
    w.set_r(d, mask, &o, p);
}

/// `testp` on one value.
pub(crate) fn testp(what: Testp, ty: Ty, v: u64) -> bool {
    use std::num::FpCategory as C;
    let c = if ty == Ty::F64 { f64::from_bits(v).classify() } else { f32::from_bits(v as u32).classify() };
    match what {
        Testp::Finite => !matches!(c, C::Nan | C::Infinite),
        Testp::Infinite => c == C::Infinite,
        Testp::Number => c != C::Nan,
        Testp::NotANumber => c == C::Nan,
        Testp::Normal => c == C::Normal,
        Testp::Subnormal => c == C::Subnormal,
    }
}

/// The f64 value of a floating-point operand.
pub(crate) fn value(ty: Ty, v: u64) -> f64 {
    match ty {
        Ty::F64 => f64::from_bits(v),
        Ty::F16 => f16_to_f32(v as u16).into(),
        Ty::Bf16 => bf16_to_f32(v as u16).into(),
        Ty::Tf32 => num::to_f64(v >> 13 & 0x7_ffff, num::TF32),
        _ => f32::from_bits(v as u32).into(),
    }
}
