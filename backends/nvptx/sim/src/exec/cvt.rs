//! Conversions, comparisons and selection.

use super::float::value;
use crate::num;
use crate::num::{BF16, F16, F32, F64, NAN16, NAN32, f32_to_bf16, f32_to_f16, float8, ftz32, low, pack, round_f64, sext};
use crate::program::op::Cvt;
use crate::program::operand::{MmaTy, PSrc, Pred, Reg};
use crate::state::warp::Warp;
use crate::types::{BoolOp, Cmp, Round, Ty};
use std::cmp::Ordering;

/// Rounds to an integral value.
fn integral(x: f64, mode: Round) -> f64 {
    match mode {
        Round::Rn => x.round_ties_even(),
        Round::Rna => x.round(),
        Round::Rz => x.trunc(),
        Round::Rm => x.floor(),
        Round::Rp => x.ceil(),
    }
}

/// Range of an integer type.
fn range(ty: Ty) -> (i128, i128) {
    let b = ty.bits();
    if ty.is_signed() { (-(1 << (b - 1)), (1 << (b - 1)) - 1) } else { (0, (1 << b) - 1) }
}

fn to_float(ty: Ty, neg: bool, mant: u64, mode: Round) -> u64 {
    match ty {
        Ty::F64 => pack(neg, mant, 0, F64, mode),
        Ty::F16 => pack(neg, mant, 0, F16, mode),
        Ty::Bf16 => pack(neg, mant, 0, BF16, mode),
        _ => pack(neg, mant, 0, F32, mode),
    }
}

fn nan(ty: Ty) -> u64 {
    match ty {
        Ty::F64 => f64::NAN.to_bits(),
        Ty::F16 | Ty::Bf16 => NAN16.into(),
        _ => NAN32.into(),
    }
}

/// Converts one value; the result is sign-extended to 64 bits for signed types.
pub(crate) fn lane(c: &Cvt, raw: u64) -> u64 {
    let (to, from) = (c.to, c.from);
    let sign = |v: u64| if to.is_signed() { sext(v, to.bits()) as u64 } else { v & low(to.bits()) };
    if !from.is_float() {
        let v: i128 = if from.is_signed() { sext(raw, from.bits()).into() } else { (raw & low(from.bits())).into() };
        if to.is_float() {
            if c.sat {
                return to_float(to, false, u64::from(v > 0), c.round);
            }
            return to_float(to, v < 0, v.unsigned_abs() as u64, c.round);
        }
        let v = if c.sat {
            let (lo, hi) = range(to);
            v.clamp(lo, hi)
        } else {
            v
        };
        return sign(v as u64);
    }
    let mut x = value(from, raw);
    if c.ftz && from == Ty::F32 {
        x = ftz32(x as f32).into();
    }
    if !to.is_float() {
        if x.is_nan() {
            // PTX ISA, cvt notes: zero, or the top bit for 64-bit results and f64 sources.
            return if from != Ty::F64 && to.bits() != 64 { 0 } else { 1 << (to.bits() - 1) };
        }
        let x = integral(x, c.round);
        let (lo, hi) = range(to);
        // `as` saturates at i128, far outside every range.
        return sign((x as i128).clamp(lo, hi) as u64);
    }
    if x.is_nan() {
        return if c.sat { 0 } else { nan(to) };
    }
    if c.integral {
        x = integral(x, c.round);
    }
    if c.sat {
        x = if x > 0.0 { x.min(1.0) } else { 0.0 };
    }
    if c.relu && x < 0.0 {
        x = 0.0;
    }
    match to {
        Ty::F64 => x.to_bits(),
        Ty::F16 => round_f64(x, F16, c.round),
        Ty::Bf16 => round_f64(x, BF16, c.round),
        Ty::Tf32 => round_f64(x, num::TF32, c.round) << 13,
        _ => {
            let v = f32::from_bits(round_f64(x, F32, c.round) as u32);
            if c.ftz { ftz32(v).to_bits().into() } else { v.to_bits().into() }
        }
    }
}

/// Executes a conversion.
pub(crate) fn exec(w: &mut Warp, mask: u32, c: &Cvt) {
    let p = w.poison(c.s);
    let plain = !(c.sat || c.ftz || c.relu || c.integral);
    match (c.to, c.from, c.s.is_wide(), c.d.is_wide()) {
        (Ty::U64, Ty::U32, false, true) if plain => {
            let v = w.r32(c.s).map(u64::from);
            return w.set_d(c.d, mask, &v, p);
        }
        (Ty::S64, Ty::S32, false, true) if plain => {
            let v = w.r32(c.s).map(|x| i64::from(x as i32) as u64);
            return w.set_d(c.d, mask, &v, p);
        }
        (Ty::U32 | Ty::S32, Ty::U64 | Ty::S64, true, false) if plain => {
            let v = w.d64(c.s).map(|x| x as u32);
            return w.set_r(c.d, mask, &v, p);
        }
        (Ty::F32, Ty::F16, false, false) if plain => {
            let v = w.r32(c.s).map(|x| num::f16_to_f32(x as u16).to_bits());
            return w.set_r(c.d, mask, &v, p);
        }
        (Ty::Bf16, Ty::F32, false, false) if plain => {
            let v = w.r32(c.s).map(|x| f32_to_bf16(f32::from_bits(x), c.round).into());
            return w.set_r(c.d, mask, &v, p);
        }
        _ => {}
    }
    let s = w.wide(c.s);
    let mut o = [0; 32];
    for l in (0..32).filter(|l| mask >> l & 1 == 1) {
        o[l] = lane(c, s[l]);
    }
    w.set(c.d, mask, &o, p);
}

/// Two f32 to a packed pair; `hi` goes to the upper half.
pub(crate) fn pack2(w: &mut Warp, mask: u32, to: Ty, round: Round, relu: bool, r: [Reg; 3]) {
    let [d, hi, lo] = r;
    let (h, l_) = (w.r32(hi), w.r32(lo));
    let p = w.poison(hi) | w.poison(lo);
    let one = |x: u32| -> u32 {
        let x = f32::from_bits(x);
        let x = if relu && x < 0.0 { 0.0 } else { x };
        u32::from(if to == Ty::Bf16x2 {
            f32_to_bf16(x, round)
        } else if x.is_nan() {
            NAN16
        } else {
            f32_to_f16(x, round)
        })
    };
    let mut o = [0; 32];
    for l in 0..32 {
        o[l] = one(h[l]) << 16 | one(l_[l]);
    }
    w.set_r(d, mask, &o, p);
}

/// The code of an 8-bit float nearest to a number: found among all codes, ties to the even one; what is too large is the largest.
fn code(ty: MmaTy, x: f32) -> u32 {
    let (bits, most) = if ty == MmaTy::E4m3 { (4, 0x7e) } else { (5, 0x7b) };
    let sign = u32::from(x.is_sign_negative()) << 7;
    if x.is_nan() {
        return 0x7f;
    }
    let a = f64::from(x.abs());
    let value = |c: u32| float8(c as u8, bits);
    // The codes of positive numbers are in order.
    let above = (0..=most).find(|&c| value(c) >= a).unwrap_or(most);
    if above == 0 || value(above) <= a {
        return sign | above;
    }
    let (down, up) = (a - value(above - 1), value(above) - a);
    sign | if down < up || (down == up && above % 2 == 1) { above - 1 } else { above }
}

/// Two f32 to two codes; `hi` goes to the upper byte.
pub(crate) fn to_codes(w: &mut Warp, mask: u32, ty: MmaTy, [d, hi, lo]: [Reg; 3]) {
    let (h, l_) = (w.r32(hi), w.r32(lo));
    let p = w.poison(hi) | w.poison(lo);
    let mut o = [0; 32];
    for l in 0..32 {
        o[l] = code(ty, f32::from_bits(h[l])) << 8 | code(ty, f32::from_bits(l_[l]));
    }
    w.set_r(d, mask, &o, p);
}

/// Two codes to two f16.
pub(crate) fn from_codes(w: &mut Warp, mask: u32, ty: MmaTy, d: Reg, s: Reg) {
    let (codes, p) = (w.r32(s), w.poison(s));
    let bits = if ty == MmaTy::E4m3 { 4 } else { 5 };
    let half = |c: u32| {
        let x = float8(c as u8, bits) as f32;
        u32::from(if x.is_nan() { NAN16 } else { f32_to_f16(x, Round::Rn) })
    };
    let mut o = [0; 32];
    for l in 0..32 {
        o[l] = half(codes[l] >> 8) << 16 | half(codes[l]);
    }
    w.set_r(d, mask, &o, p);
}

/// Orders two operands of type `ty`.
fn order(ty: Ty, ftz: bool, a: u64, b: u64) -> Option<Ordering> {
    if ty.is_float() {
        let flush = |v: u64| {
            let x = value(ty, v);
            if ftz && ty == Ty::F32 { f64::from(ftz32(x as f32)) } else { x }
        };
        return flush(a).partial_cmp(&flush(b));
    }
    let bits = ty.bits();
    Some(if ty.is_signed() { sext(a, bits).cmp(&sext(b, bits)) } else { (a & low(bits)).cmp(&(b & low(bits))) })
}

/// Comparison results and poison of all lanes.
pub(crate) fn compare(w: &Warp, cmp: Cmp, ty: Ty, ftz: bool, a: Reg, b: Reg) -> (u32, u32) {
    let p = w.poison(a) | w.poison(b);
    let mut v = 0;
    if !a.is_wide() && !ty.is_float() && ty.bits() == 32 {
        let (x, y) = (&w.r[a.i()], &w.r[b.i()]);
        for l in 0..32 {
            let o = if ty.is_signed() { (x[l] as i32).cmp(&(y[l] as i32)) } else { x[l].cmp(&y[l]) };
            v |= u32::from(cmp.holds(Some(o))) << l;
        }
        return (v, p);
    }
    let (x, y) = (w.wide(a), w.wide(b));
    for l in 0..32 {
        v |= u32::from(cmp.holds(order(ty, ftz, x[l], y[l]))) << l;
    }
    (v, p)
}

/// Comparison of one half (bit offset `s`) of packed operands.
pub(crate) fn compare_half(w: &Warp, cmp: Cmp, ty: Ty, ftz: bool, r: [Reg; 2], s: u32) -> (u32, u32) {
    let (x, y) = (w.r32(r[0]), w.r32(r[1]));
    let mut v = 0;
    for l in 0..32 {
        let o = order(ty, ftz, (x[l] >> s & 0xffff).into(), (y[l] >> s & 0xffff).into());
        v |= u32::from(cmp.holds(o)) << l;
    }
    (v, w.poison(r[0]) | w.poison(r[1]))
}

/// Combines with a third predicate: (value, complement value, poison).
pub(crate) fn combine(w: &Warp, v: u32, p: u32, comb: Option<(BoolOp, PSrc)>) -> (u32, u32, u32) {
    match comb {
        None => (v, !v, p),
        Some((op, c)) => {
            let k = w.pred(c);
            (op.apply(v, k), op.apply(!v, k), p | w.px[c.p.0 as usize])
        }
    }
}

/// Writes the destinations of `setp`.
pub(crate) fn write_pair(w: &mut Warp, mask: u32, d: Option<Pred>, q: Option<Pred>, v: (u32, u32, u32)) {
    if let Some(d) = d {
        w.set_p(d, mask, v.0, v.2);
    }
    if let Some(q) = q {
        w.set_p(q, mask, v.1, v.2);
    }
}

/// `selp`: the poison of the side not taken does not count.
pub(crate) fn selp(w: &mut Warp, mask: u32, d: Reg, a: Reg, b: Reg, p: PSrc) {
    let sel = w.pred(p);
    let poison = w.px[p.p.0 as usize] | w.poison(a) & sel | w.poison(b) & !sel;
    pick(w, mask, d, a, b, sel, poison);
}

/// Lane-wise choice.
pub(crate) fn pick(w: &mut Warp, mask: u32, d: Reg, a: Reg, b: Reg, sel: u32, poison: u32) {
    if d.is_wide() {
        let (x, y) = (w.d64(a), w.d64(b));
        let mut o = y;
        for l in 0..32 {
            if sel >> l & 1 == 1 {
                o[l] = x[l];
            }
        }
        w.set_d(d, mask, &o, poison);
    } else {
        let (x, y) = (w.r32(a), w.r32(b));
        let mut o = y;
        for l in 0..32 {
            if sel >> l & 1 == 1 {
                o[l] = x[l];
            }
        }
        w.set_r(d, mask, &o, poison);
    }
}
