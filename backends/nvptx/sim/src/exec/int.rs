//! Integer arithmetic, logic, comparison and selection.
//!
//! [`lane`] defines every operation on one lane; the common 32-bit and 64-bit ones also have loops
//! over whole planes. Registers narrower than their plane may hold anything in the upper bits, so
//! operands are masked to the type here.

use crate::num::{low, sext};
use crate::program::op::{IntOp, PrmtMode};
use crate::program::operand::Reg;
use crate::state::warp::Warp;
use crate::types::Ty;

/// One lane of `op`. `None` where PTX leaves the result unspecified (division by zero).
pub(crate) fn lane(op: IntOp, ty: Ty, a: u64, b: u64, c: u64) -> Option<u64> {
    let bits = ty.bits();
    let signed = ty.is_signed();
    let m = low(bits);
    let (ua, ub, uc) = (a & m, b & m, c & m);
    let (sa, sb) = (sext(a, bits), sext(b, bits));
    let less = if signed { sa < sb } else { ua < ub };
    // Full product, as two's complement in 128 bits.
    let product = || if signed { i128::from(sa) * i128::from(sb) } else { (u128::from(ua) * u128::from(ub)) as i128 };
    let dp4a = |sa: bool, sb: bool| {
        let byte = |v: u64, i: u32, s: bool| {
            let x = v >> (8 * i) & 0xff;
            if s { sext(x, 8) } else { x as i64 }
        };
        (0..4).fold(sext(c, 32), |t, i| t.wrapping_add(byte(a, i, sa) * byte(b, i, sb))) as u64
    };
    let clamp = |v: i64| v.clamp(i32::MIN.into(), i32::MAX.into()) as u64;
    let top = || {
        let v = if signed && sa < 0 { !ua & m } else { ua };
        63u64.wrapping_sub(v.leading_zeros().into())
    };
    let v = match op {
        IntOp::Add => ua.wrapping_add(ub),
        IntOp::Sub => ua.wrapping_sub(ub),
        IntOp::MulLo => product() as u64,
        IntOp::MulHi => (product() >> bits) as u64,
        IntOp::MulWide => product() as u64,
        IntOp::MadLo => (product() as u64).wrapping_add(uc),
        IntOp::MadHi => ((product() >> bits) as u64).wrapping_add(uc),
        IntOp::MadWide => return Some((product() as u64).wrapping_add(c) & low(2 * bits)),
        IntOp::Mul24Lo | IntOp::Mad24Lo => {
            let p = if signed { sext(a, 24).wrapping_mul(sext(b, 24)) as u64 } else { (a & 0xff_ffff) * (b & 0xff_ffff) };
            p.wrapping_add(if op == IntOp::Mad24Lo { uc } else { 0 })
        }
        IntOp::Div if ub == 0 => return None,
        IntOp::Rem if ub == 0 => return None,
        IntOp::Div => {
            if signed {
                sa.wrapping_div(sb) as u64
            } else {
                ua / ub
            }
        }
        IntOp::Rem => {
            if signed {
                sa.wrapping_rem(sb) as u64
            } else {
                ua % ub
            }
        }
        IntOp::Abs => sa.wrapping_abs() as u64,
        IntOp::Neg => sa.wrapping_neg() as u64,
        IntOp::Min => {
            if less {
                ua
            } else {
                ub
            }
        }
        IntOp::Max => {
            if less {
                ub
            } else {
                ua
            }
        }
        IntOp::And => ua & ub,
        IntOp::Or => ua | ub,
        IntOp::Xor => ua ^ ub,
        IntOp::Not => !ua,
        IntOp::Cnot => u64::from(ua == 0),
        // Shift amounts are 32-bit whatever the type.
        IntOp::Shl => {
            let s = b as u32;
            if s >= bits { 0 } else { ua << s }
        }
        IntOp::Shr => {
            let s = b as u32;
            if signed {
                (sa >> s.min(bits - 1)) as u64
            } else if s >= bits {
                0
            } else {
                ua >> s
            }
        }
        IntOp::Popc => ua.count_ones().into(),
        IntOp::Clz => u64::from(ua.leading_zeros() - (64 - bits)),
        IntOp::Brev => ua.reverse_bits() >> (64 - bits),
        IntOp::Bfind => return Some(if top() > 63 { low(32) } else { top() }),
        IntOp::BfindShift => return Some(if top() > 63 { low(32) } else { u64::from(bits) - 1 - top() }),
        IntOp::Sad => {
            let d = if less { ub.wrapping_sub(ua) } else { ua.wrapping_sub(ub) };
            uc.wrapping_add(d)
        }
        IntOp::Bfe => {
            let (pos, len) = ((b & 0xff) as u32, (c & 0xff) as u32);
            let msb = bits - 1;
            let field = if pos > msb { 0 } else { (ua >> pos) & low(len.min(64)) };
            let avail = len.min(bits.saturating_sub(pos));
            let sign = signed && len > 0 && ua >> (pos + len - 1).min(msb) & 1 == 1;
            if sign { field | !low(avail) } else { field }
        }
        IntOp::AddSat => clamp(sa + sb),
        IntOp::SubSat => clamp(sa - sb),
        IntOp::Dp4aSS => dp4a(true, true),
        IntOp::Dp4aSU => dp4a(true, false),
        IntOp::Dp4aUS => dp4a(false, true),
        IntOp::Dp4aUU => dp4a(false, false),
    };
    Some(v & if op == IntOp::MulWide { low(2 * bits) } else { m })
}

#[inline(always)]
fn r3(w: &mut Warp, mask: u32, r: [Reg; 4], f: impl Fn(u32, u32, u32) -> u32) {
    let [d, a, b, c] = r;
    let (x, y, z) = (w.r32(a), w.r32(b), w.r32(c));
    let p = w.rx[a.i()] | w.rx[b.i()] | w.rx[c.i()];
    let mut o = [0; 32];
    for l in 0..32 {
        o[l] = f(x[l], y[l], z[l]);
    }
    w.set_r(d, mask, &o, p);
}

#[inline(always)]
fn r2(w: &mut Warp, mask: u32, r: [Reg; 4], f: impl Fn(u32, u32) -> u32) {
    let [d, a, b, _] = r;
    let (x, y) = (w.r32(a), w.r32(b));
    let p = w.rx[a.i()] | w.rx[b.i()];
    let mut o = [0; 32];
    for l in 0..32 {
        o[l] = f(x[l], y[l]);
    }
    w.set_r(d, mask, &o, p);
}

#[inline(always)]
fn d2(w: &mut Warp, mask: u32, r: [Reg; 4], f: impl Fn(u64, u64) -> u64) {
    let [d, a, b, _] = r;
    let (x, y) = (w.d64(a), w.d64(b));
    let p = w.dx[a.i()] | w.dx[b.i()];
    let mut o = [0; 32];
    for l in 0..32 {
        o[l] = f(x[l], y[l]);
    }
    w.set_d(d, mask, &o, p);
}

/// Wide multiply: 32-bit sources, 64-bit result and addend.
#[inline(always)]
fn widen(w: &mut Warp, mask: u32, r: [Reg; 4], add: bool, f: impl Fn(u32, u32) -> u64) {
    let [d, a, b, c] = r;
    let (x, y) = (w.r32(a), w.r32(b));
    let mut p = w.rx[a.i()] | w.rx[b.i()];
    let mut o = [0; 32];
    for l in 0..32 {
        o[l] = f(x[l], y[l]);
    }
    if add {
        p |= w.dx[c.i()];
        let z = &w.d[c.i()];
        for l in 0..32 {
            o[l] = o[l].wrapping_add(z[l]);
        }
    }
    w.set_d(d, mask, &o, p);
}

/// Executes an [`IntOp`] on the lanes of `mask`; `r` = destination, a, b, c.
pub(crate) fn exec(w: &mut Warp, mask: u32, op: IntOp, ty: Ty, r: [Reg; 4]) {
    use IntOp as I;
    let (b32, b64, s) = (ty.bits() == 32, ty.bits() == 64, ty.is_signed());
    match op {
        I::Add if b32 => r2(w, mask, r, u32::wrapping_add),
        I::Sub if b32 => r2(w, mask, r, u32::wrapping_sub),
        I::MulLo if b32 => r2(w, mask, r, u32::wrapping_mul),
        I::MadLo if b32 => r3(w, mask, r, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        I::And if !b64 => r2(w, mask, r, |a, b| a & b),
        I::Or if !b64 => r2(w, mask, r, |a, b| a | b),
        I::Xor if !b64 => r2(w, mask, r, |a, b| a ^ b),
        I::Not if !b64 => r2(w, mask, r, |a, _| !a),
        I::Shl if b32 => r2(w, mask, r, |a, b| if b > 31 { 0 } else { a << b }),
        I::Shr if b32 && s => r2(w, mask, r, |a, b| ((a as i32) >> b.min(31)) as u32),
        I::Shr if b32 => r2(w, mask, r, |a, b| if b > 31 { 0 } else { a >> b }),
        I::Min if b32 && s => r2(w, mask, r, |a, b| (a as i32).min(b as i32) as u32),
        I::Max if b32 && s => r2(w, mask, r, |a, b| (a as i32).max(b as i32) as u32),
        I::Min if b32 => r2(w, mask, r, u32::min),
        I::Max if b32 => r2(w, mask, r, u32::max),
        I::MulWide | I::MadWide if b32 && s => {
            widen(w, mask, r, op == I::MadWide, |a, b| (i64::from(a as i32) * i64::from(b as i32)) as u64);
        }
        I::MulWide | I::MadWide if b32 => {
            widen(w, mask, r, op == I::MadWide, |a, b| u64::from(a) * u64::from(b));
        }
        I::Add if b64 => d2(w, mask, r, u64::wrapping_add),
        I::Sub if b64 => d2(w, mask, r, u64::wrapping_sub),
        I::And if b64 => d2(w, mask, r, |a, b| a & b),
        I::Or if b64 => d2(w, mask, r, |a, b| a | b),
        I::Xor if b64 => d2(w, mask, r, |a, b| a ^ b),
        I::MulLo if b64 => d2(w, mask, r, u64::wrapping_mul),
        _ => general(w, mask, op, ty, r),
    }
}

fn general(w: &mut Warp, mask: u32, op: IntOp, ty: Ty, r: [Reg; 4]) {
    let [d, a, b, c] = r;
    let (x, y, z) = (w.wide(a), w.wide(b), w.wide(c));
    let mut p = w.poison(a) | w.poison(b) | w.poison(c);
    let mut o = [0u64; 32];
    for l in 0..32 {
        match lane(op, ty, x[l], y[l], z[l]) {
            Some(v) => o[l] = v,
            None => p |= 1 << l,
        }
    }
    w.set(d, mask, &o, p);
}

/// `lop3`: any function of three bits, from its truth table.
pub(crate) fn lop3(w: &mut Warp, mask: u32, lut: u8, r: [Reg; 4]) {
    r3(w, mask, r, |a, b, c| {
        let mut v = 0;
        for k in 0..8u32 {
            let t = 0u32.wrapping_sub(u32::from(lut >> k & 1));
            let pick = |x: u32, bit: u32| if k >> bit & 1 == 1 { x } else { !x };
            v |= t & pick(a, 2) & pick(b, 1) & pick(c, 0);
        }
        v
    });
}

/// `shf`: 32 bits out of the 64-bit value {b:a}.
pub(crate) fn shf(w: &mut Warp, mask: u32, left: bool, wrap: bool, r: [Reg; 4]) {
    r3(w, mask, r, |a, b, c| {
        let n = if wrap { c & 31 } else { c.min(32) };
        let v = u64::from(b) << 32 | u64::from(a);
        if left { (v << n >> 32) as u32 } else { (v >> n) as u32 }
    });
}

/// `prmt`: four bytes picked out of {b:a}.
pub(crate) fn prmt(w: &mut Warp, mask: u32, mode: PrmtMode, r: [Reg; 4]) {
    r3(w, mask, r, |a, b, c| {
        let v = u64::from(b) << 32 | u64::from(a);
        let k = c & 3;
        let sel = |i: u32| -> u32 {
            match mode {
                PrmtMode::Generic => c >> (4 * i) & 15,
                PrmtMode::F4e => k + i,
                PrmtMode::B4e => k.wrapping_sub(i) & 7,
                PrmtMode::Rc8 => k,
                PrmtMode::Ecl => k.max(i),
                PrmtMode::Ecr => k.min(i),
                PrmtMode::Rc16 => (k & 1) * 2 + (i & 1),
            }
        };
        (0..4).fold(0, |o, i| {
            let s = sel(i);
            let byte = (v >> (8 * (s & 7)) & 0xff) as u32;
            let byte = if s & 8 == 0 {
                byte
            } else if byte & 0x80 != 0 {
                0xff
            } else {
                0
            };
            o | byte << (8 * i)
        })
    });
}

/// `bfi`: inserts the low `len` bits of a into b at `pos`.
pub(crate) fn bfi(w: &mut Warp, mask: u32, wide: bool, d: Reg, src: [Reg; 4]) {
    let [a, b, pos, len] = src;
    let (x, y, ps, ls) = (w.wide(a), w.wide(b), w.r32(pos), w.r32(len));
    let p = w.poison(a) | w.poison(b) | w.poison(pos) | w.poison(len);
    let bits = if wide { 64 } else { 32 };
    let mut o = [0u64; 32];
    for l in 0..32 {
        let (pos, len) = (ps[l] & 0xff, ls[l] & 0xff);
        let m = if pos >= bits { 0 } else { low(len.min(64)) << pos & low(bits) };
        o[l] = y[l] & !m | if pos >= bits { 0 } else { x[l] << pos & m };
    }
    w.set(d, mask, &o, p);
}
