//! Vector instructions: per active lane the sources with their modifiers, the row's function, the result with its modifiers.

use super::{Ctx, Result, dpp, inline, lanes};
use crate::decode::inst::{EXEC, File, Src, VCC, Vector};
use crate::fault::{FaultKind, Use};
use crate::isa::vector::{Kind, Ty};
use crate::num::{Env, F16, ones, sext};
use crate::state::wave::Wave;

/// A source, resolved for all lanes.
#[derive(Clone, Copy)]
enum Operand {
    /// The same in all lanes, and whether it is defined.
    Uniform(u64, bool),
    /// Registers from a slot on.
    Vector(usize, u8),
    /// A mask: bits, defined bits.
    Mask(u64, u64),
    LaneId,
}

impl Operand {
    /// The value in a lane, and whether its low and its high dword are defined.
    fn get(self, wave: &Wave, lane: usize) -> (u64, Known) {
        let known = |slot: usize| wave.v_defined[slot] >> lane & 1 != 0;
        match self {
            Operand::Uniform(v, d) => (v, (d, d)),
            Operand::Vector(slot, 1) => (u64::from(wave.v[slot][lane]), (known(slot), known(slot))),
            Operand::Vector(slot, _) => {
                let v = u64::from(wave.v[slot][lane]) | u64::from(wave.v[slot + 1][lane]) << 32;
                (v, (known(slot), known(slot + 1)))
            }
            Operand::Mask(bits, defined) => (bits >> lane & 1, (defined >> lane & 1 != 0, true)),
            Operand::LaneId => (lane as u64, (true, true)),
        }
    }
}

/// Whether the low and the high dword of a value are defined.
type Known = (bool, bool);

/// Which dwords of the result are defined, by those of the sources.
fn result_known(v: &Vector, known: [Known; 3]) -> Known {
    let all = known.iter().all(|k| k.0 && k.1);
    if all {
        return (true, true);
    }
    let pick = |k: Known, high: u8| if high & 1 != 0 { k.1 } else { k.0 };
    match v.row.kind {
        // Carries run upward: the low dword does not depend on high ones.
        Kind::Mad64 { .. } | Kind::Upward => (known.iter().all(|k| k.0), false),
        Kind::Halves => known[0],
        Kind::PkMov => (pick(known[0], v.op_sel), pick(known[1], v.op_sel >> 1)),
        Kind::Packed32 => {
            let half = |sel: u8| (0..3).all(|i| pick(known[i], sel >> i));
            (half(v.op_sel), half(v.op_sel_hi))
        }
        _ => (false, false),
    }
}

impl Ctx<'_, '_> {
    fn operand(&self, v: &Vector, i: usize) -> Operand {
        let (src, ty) = (v.src[i], v.row.src[i]);
        let dwords = ty.dwords();
        match src {
            Src::V(n) => Operand::Vector(usize::from(n), dwords),
            Src::A(n) => Operand::Vector(self.wave.accum + usize::from(n), dwords),
            Src::S(n) if ty == Ty::Mask => Operand::Mask(self.wave.s64(n), self.wave.s64_defined(n)),
            Src::Inline(c) if ty == Ty::Mask => Operand::Mask(inline(c, 64), u64::MAX),
            Src::Inline(c) => {
                let width = match ty {
                    Ty::F16 | Ty::B16 => 16,
                    _ if v.row.kind == Kind::Packed32 => 32,
                    _ => 32 * u32::from(dwords),
                };
                let x = inline(c, width);
                Operand::Uniform(if v.row.kind == Kind::Packed32 { x & ones(32) | x << 32 } else { x }, true)
            }
            // A 64-bit float's literal is its upper half.
            Src::Literal(x) if ty == Ty::F64 => Operand::Uniform(u64::from(x) << 32, true),
            Src::Literal(x) => Operand::Uniform(u64::from(x), true),
            _ if ty == Ty::Mask => Operand::Mask(self.scalar(src, 2).0, u64::MAX),
            _ => {
                let (x, d) = self.scalar(src, dwords);
                Operand::Uniform(x, d & ones(u32::from(dwords) * 32) == ones(u32::from(dwords) * 32))
            }
        }
    }

    pub(super) fn valu(&mut self, v: &Vector) -> Result<()> {
        let exec = match v.row.kind {
            Kind::ReadLane | Kind::WriteLane => 0,
            _ => self.active()?,
        };
        match v.row.kind {
            Kind::Nop => return Ok(()),
            Kind::Refused => return Err(FaultKind::Unsupported { words: self.inst.words.to_vec() }),
            Kind::ReadLane | Kind::ReadFirst | Kind::WriteLane => return self.one_lane(v, exec),
            Kind::Swap => return self.swap(v, exec),
            Kind::SwapRows(n) => return self.swap_rows(v, usize::from(n)),
            _ => {}
        }
        let env = Env::of_mode(self.wave.mode, v.clamp, self.device.chip.fnuz());
        let mut sources = [0, 1, 2].map(|i| self.operand(v, i));
        if v.row.kind == Kind::LaneId {
            sources[2] = Operand::LaneId;
        }
        if matches!(v.row.kind, Kind::Cmp { .. }) {
            return self.compare(v, &env, sources, exec);
        }
        let vcc = (self.wave.vcc(), self.wave.s64_defined(VCC));
        let (mut carry, mut carry_defined) = (0u64, u64::MAX);
        let permuted = v.dpp.map(|_| self.permuted(v, exec)).transpose()?;
        let file = if matches!(v.row.kind, Kind::AccWrite | Kind::AccMov) { File::A } else { File::V };
        let slot = self.wave.slot(file, u16::from(v.dst));
        let wide = v.row.dst.dwords() == 2;
        // Results are written after all lanes have read: DPP reads other lanes.
        let mut out = ([0u64; 64], 0u64, [0u64; 2]);
        for lane in lanes(exec) {
            let mut a = [0u64; 3];
            let mut known = [(true, true); 3];
            let mut skip = false;
            for i in 0..3 {
                if v.row.src[i] == Ty::No && v.row.kind != Kind::LaneId {
                    continue;
                }
                let (x, d) = match (&permuted, i) {
                    (Some(p), 0) => match p[lane] {
                        Permuted::Keep => {
                            skip = true;
                            break;
                        }
                        Permuted::Zero => (0, (true, true)),
                        Permuted::From(l) => sources[0].get(self.wave, usize::from(l)),
                    },
                    _ => sources[i].get(self.wave, lane),
                };
                (a[i], known[i]) = (x, d);
            }
            if skip {
                continue;
            }
            let mut defined = result_known(v, known);
            if v.row.src[2] == Ty::Mask && v.row.kind == Kind::Lane {
                // A select depends on the source that it takes only.
                let taken = known[2].0 && known[if a[2] != 0 { 1 } else { 0 }].0;
                defined = (taken, taken);
            }
            let old = u64::from(self.wave.v[slot][lane]);
            let (value, c) = self.lane(v, &env, a, old, vcc.0 >> lane & 1 != 0);
            if v.row.kind == Kind::DivFmas {
                let d = defined.0 && defined.1 && vcc.1 >> lane & 1 != 0;
                defined = (d, d);
            }
            carry |= u64::from(c) << lane;
            if !(defined.0 && defined.1) {
                carry_defined &= !(1 << lane);
            }
            out.0[lane] = value;
            out.1 |= 1 << lane;
            out.2[0] |= u64::from(defined.0) << lane;
            out.2[1] |= u64::from(defined.1) << lane;
        }
        for lane in lanes(out.1) {
            self.wave.v[slot][lane] = out.0[lane] as u32;
            if wide {
                self.wave.v[slot + 1][lane] = (out.0[lane] >> 32) as u32;
            }
        }
        for (i, defined) in out.2.into_iter().enumerate().take(1 + usize::from(wide)) {
            let d = &mut self.wave.v_defined[slot + i];
            *d = *d & !out.1 | defined;
        }
        if matches!(v.row.kind, Kind::Carry | Kind::Mad64 { .. } | Kind::DivScale) {
            self.wave.set_s64(v.mask_dst, carry, carry_defined);
        }
        Ok(())
    }

    /// The result of a lane, and its carry.
    fn lane(&self, v: &Vector, env: &Env, mut a: [u64; 3], old: u64, vcc: bool) -> (u64, bool) {
        let row = v.row;
        match row.kind {
            Kind::Packed16 => return (packed16(v, env, a), false),
            Kind::Packed32 => return (packed32(v, env, a), false),
            Kind::PkMov => {
                let dword = |x: u64, high: u8| if high != 0 { x >> 32 } else { x & ones(32) };
                return (dword(a[0], v.op_sel & 1) | dword(a[1], v.op_sel >> 1 & 1) << 32, false);
            }
            Kind::Mix(part) => return (mix(v, env, a, old, part), false),
            Kind::BitOp3 => {
                let table = u32::from(v.omod) << 6 | u32::from(v.abs) << 3 | u32::from(v.neg);
                return (crate::isa::bitop3(a[0], a[1], a[2], table) & ones(32), false);
            }
            _ => {}
        }
        for (i, x) in a.iter_mut().enumerate() {
            *x = source(v, i, *x);
        }
        let (value, carry) = match row.kind {
            Kind::Mad64 { signed } => mad64(a, signed),
            Kind::DivScale => div_scale(a, row.dst == Ty::F64),
            Kind::DivFmas => {
                let r = (row.eval)(env, a);
                (if vcc { scaled_back(a, r, row.dst == Ty::F64) } else { r }, false)
            }
            Kind::FromByte => ((row.eval)(env, [a[0] >> (8 * (v.op_sel & 3)), 0, 0]), false),
            Kind::FromHalf => ((row.eval)(env, [a[0] >> (16 * (v.op_sel & 1)), 0, 0]), false),
            Kind::Carry => {
                let r = (row.eval)(env, a);
                (r & ones(32), r >> 32 & 1 != 0)
            }
            _ => ((row.eval)(env, a), false),
        };
        let value = modified(v, env, value);
        (merged(v, value, old), carry)
    }

    fn compare(&mut self, v: &Vector, env: &Env, sources: [Operand; 3], exec: u64) -> Result<()> {
        let Kind::Cmp { exec: to_exec } = v.row.kind else { return Ok(()) };
        let permuted = v.dpp.map(|_| self.permuted(v, exec)).transpose()?;
        let (mut mask, mut defined) = (0u64, u64::MAX);
        for lane in lanes(exec) {
            let from = match permuted.as_ref().map(|p| p[lane]) {
                None => Some(lane),
                Some(Permuted::From(l)) => Some(usize::from(l)),
                Some(_) => None,
            };
            let (x, dx) = from.map_or((0, (true, true)), |l| sources[0].get(self.wave, l));
            let (y, dy) = sources[1].get(self.wave, lane);
            let a = [source(v, 0, x), source(v, 1, y), 0];
            mask |= (v.row.eval)(env, a) << lane;
            if !(dx.0 && dx.1 && dy.0 && dy.1) {
                defined &= !(1 << lane);
            }
        }
        self.wave.set_s64(v.mask_dst, mask, defined);
        if to_exec {
            self.wave.set_s64(EXEC, mask, defined);
        }
        Ok(())
    }

    fn one_lane(&mut self, v: &Vector, exec: u64) -> Result<()> {
        let lane = if v.row.kind == Kind::ReadFirst {
            if exec == 0 { 0 } else { exec.trailing_zeros() as usize }
        } else {
            let (n, d) = self.scalar(v.src[1], 1);
            if d != u64::MAX {
                return Err(FaultKind::Undefined { used_as: Use::Lane, lane: None });
            }
            (n & 63) as usize
        };
        if v.row.kind == Kind::WriteLane {
            let (x, d) = self.scalar(v.src[0], 1);
            self.wave.set_v(usize::from(v.dst), lane, x as u32, d == u64::MAX);
            return Ok(());
        }
        let (x, d) = self.operand(v, 0).get(self.wave, lane);
        self.wave.set_s(v.dst, x as u32, if d.0 { u32::MAX } else { 0 });
        Ok(())
    }

    fn swap(&mut self, v: &Vector, exec: u64) -> Result<()> {
        let Src::V(n) = v.src[0] else { return Err(FaultKind::UnsupportedField("a swap with no register")) };
        let (p, q) = (usize::from(n), usize::from(v.dst));
        for lane in lanes(exec) {
            let (x, y) = (self.wave.v[p][lane], self.wave.v[q][lane]);
            let (dx, dy) = (self.wave.v_defined[p] >> lane & 1 != 0, self.wave.v_defined[q] >> lane & 1 != 0);
            self.wave.set_v(p, lane, y, dy);
            self.wave.set_v(q, lane, x, dx);
        }
        Ok(())
    }

    /// Odd rows of the destination change places with even rows of the source.
    fn swap_rows(&mut self, v: &Vector, rows: usize) -> Result<()> {
        let Src::V(n) = v.src[0] else { return Err(FaultKind::UnsupportedField("a swap with no register")) };
        let (p, q) = (usize::from(n), usize::from(v.dst));
        for lane in (0..64).filter(|l| (l / rows).is_multiple_of(2)) {
            let other = lane + rows;
            let (x, y) = (self.wave.v[p][lane], self.wave.v[q][other]);
            let (dx, dy) = (self.wave.v_defined[p] >> lane & 1 != 0, self.wave.v_defined[q] >> other & 1 != 0);
            self.wave.set_v(p, lane, y, dy);
            self.wave.set_v(q, other, x, dx);
        }
        Ok(())
    }

    fn permuted(&self, v: &Vector, exec: u64) -> Result<[Permuted; 64]> {
        let Some(d) = v.dpp else { return Ok([Permuted::Keep; 64]) };
        let mut all = [Permuted::Keep; 64];
        for (lane, p) in all.iter_mut().enumerate() {
            let from = dpp::source(d.control, lane).ok_or(FaultKind::UnsupportedField("a DPP control"))?;
            let enabled = d.row_mask >> (lane / 16) & 1 != 0 && d.bank_mask >> (lane / 4 % 4) & 1 != 0;
            let from = from.filter(|&l| exec >> l & 1 != 0);
            *p = match (enabled, from) {
                (false, _) => Permuted::Keep,
                (true, Some(l)) => Permuted::From(l as u8),
                (true, None) if d.bound_zero => Permuted::Zero,
                (true, None) => Permuted::Keep,
            };
        }
        Ok(all)
    }
}

/// What a lane reads by DPP.
#[derive(Clone, Copy)]
enum Permuted {
    /// It is not written.
    Keep,
    Zero,
    From(u8),
}

/// A part of a dword, by SDWA's number.
fn part(x: u64, sel: u8, signed: bool) -> u64 {
    let (at, bits) = match sel {
        0..=3 => (8 * u32::from(sel), 8),
        4 | 5 => (16 * u32::from(sel - 4), 16),
        _ => return x,
    };
    let x = x >> at & ones(bits);
    if signed { sext(x, bits) as u64 & ones(32) } else { x }
}

/// A source with its modifiers.
fn source(v: &Vector, i: usize, mut x: u64) -> u64 {
    let ty = v.row.src[i];
    if let (Some(s), 0 | 1) = (&v.sdwa, i) {
        x = part(x, s.src[i], s.sext[i]);
    } else if v.long && matches!(ty, Ty::F16 | Ty::B16) && v.op_sel >> i & 1 != 0 {
        x >>= 16;
    }
    if let Some(sign) = ty.sign() {
        if v.abs >> i & 1 != 0 {
            x &= !(1 << sign);
        }
        if v.neg >> i & 1 != 0 {
            x ^= 1 << sign;
        }
    }
    x
}

fn output(x: f64, omod: u8, clamp: bool) -> f64 {
    let x = x * [1.0, 2.0, 4.0, 0.5][usize::from(omod & 3)];
    match clamp {
        true if x.is_nan() => 0.0,
        true => x.clamp(0.0, 1.0),
        false => x,
    }
}

/// A result with its modifiers.
fn modified(v: &Vector, env: &Env, value: u64) -> u64 {
    if v.omod == 0 && !v.clamp {
        return value;
    }
    match v.row.dst {
        Ty::F32 => u64::from((output(f64::from(f32::from_bits(value as u32)), v.omod, v.clamp) as f32).to_bits()),
        Ty::F64 => output(f64::from_bits(value), v.omod, v.clamp).to_bits(),
        Ty::F16 => crate::num::r16(env, output(F16.decode(value as u32 & 0xffff), v.omod, v.clamp)),
        _ => value,
    }
}

/// The result within the old register, where only a part is written.
fn merged(v: &Vector, value: u64, old: u64) -> u64 {
    if let Some(s) = v.sdwa {
        let (at, bits) = match s.dst {
            0..=3 => (8 * u32::from(s.dst), 8),
            4 | 5 => (16 * u32::from(s.dst - 4), 16),
            _ => return value,
        };
        let mask = ones(bits) << at;
        let placed = (value & ones(bits)) << at;
        return match s.unused {
            0 => placed,
            1 => (sext(value, bits) << at) as u64 & ones(32),
            _ => old & !mask | placed,
        };
    }
    let high = v.op_sel >> 3 & 1 != 0;
    match v.row.kind {
        Kind::Half if high => old & 0xffff | value << 16,
        Kind::Half => old & 0xffff_0000 | value & 0xffff,
        Kind::Byte => {
            let at = 8 * u32::from(v.op_sel >> 2 & 3);
            old & !(0xff << at) | (value & 0xff) << at
        }
        _ if v.long && matches!(v.row.dst, Ty::F16 | Ty::B16) && high => old & 0xffff | (value & 0xffff) << 16,
        Kind::KeepHigh => old & 0xffff_0000 | value & 0xffff,
        _ => value,
    }
}

fn packed16(v: &Vector, env: &Env, a: [u64; 3]) -> u64 {
    let half = |sel: u8, neg: u8| {
        let mut x = [0; 3];
        for (i, x) in x.iter_mut().enumerate() {
            *x = a[i] >> (16 * (sel >> i & 1)) & 0xffff;
            if v.row.src[i] == Ty::F16 && neg >> i & 1 != 0 {
                *x ^= 0x8000;
            }
        }
        let r = (v.row.eval)(env, x) & 0xffff;
        if v.clamp && v.row.dst == Ty::F16 { crate::num::r16(env, output(F16.decode(r as u32), 0, true)) } else { r }
    };
    half(v.op_sel, v.neg) | half(v.op_sel_hi, v.neg_hi) << 16
}

fn packed32(v: &Vector, env: &Env, a: [u64; 3]) -> u64 {
    let half = |sel: u8, neg: u8| {
        let mut x = [0; 3];
        for (i, x) in x.iter_mut().enumerate() {
            *x = a[i] >> (32 * (sel >> i & 1)) & ones(32);
            if neg >> i & 1 != 0 {
                *x ^= 1 << 31;
            }
        }
        let r = (v.row.eval)(env, x) & ones(32);
        if v.clamp { u64::from((output(f64::from(f32::from_bits(r as u32)), 0, true) as f32).to_bits()) } else { r }
    };
    half(v.op_sel, v.neg) | half(v.op_sel_hi, v.neg_hi) << 32
}

fn mix(v: &Vector, env: &Env, a: [u64; 3], old: u64, part: u8) -> u64 {
    let mut x = [0; 3];
    for (i, x) in x.iter_mut().enumerate() {
        let half = v.op_sel_hi >> i & 1 != 0;
        let value = if half { crate::num::x16(env, a[i] >> (16 * (v.op_sel >> i & 1))) as f32 } else { f32::from_bits(a[i] as u32) };
        let value = if v.neg_hi >> i & 1 != 0 { value.abs() } else { value };
        *x = u64::from(if v.neg >> i & 1 != 0 { -value } else { value }.to_bits());
    }
    let r = f64::from(f32::from_bits((v.row.eval)(env, x) as u32));
    let r = output(r, 0, v.clamp);
    match part {
        0 => u64::from((r as f32).to_bits()),
        1 => old & 0xffff_0000 | crate::num::r16(env, r),
        _ => old & 0xffff | crate::num::r16(env, r) << 16,
    }
}

fn mad64(a: [u64; 3], signed: bool) -> (u64, bool) {
    if signed {
        let product = i128::from(a[0] as i32) * i128::from(a[1] as i32);
        let sum = product + i128::from(a[2] as i64);
        return (sum as u64, i64::try_from(sum).is_err());
    }
    let sum = u128::from(a[0] & ones(32)) * u128::from(a[1] & ones(32)) + u128::from(a[2]);
    (sum as u64, sum >> 64 != 0)
}

/// `v_div_fmas` where the quotient is scaled: the sum is scaled up if the quotient is large, else down, and rounded once, after that.
fn scaled_back(a: [u64; 3], r: u64, wide: bool) -> u64 {
    if wide {
        let up = (a[2] >> 52 & 0x7ff) > 1023;
        let r = f64::from_bits(r);
        if up {
            return (r * 2f64.powi(128)).to_bits();
        }
        let [x, y, z] = a.map(f64::from_bits);
        scaled_down(r, lost(x, y, z, r), 128).to_bits()
    } else {
        let up = (a[2] >> 23 & 0xff) > 127;
        let [x, y, z] = a.map(|v| f64::from(f32::from_bits(v as u32)));
        // The product is exact; the sum's last bit says if it is.
        let (product, sum) = (x * y, x * y + z);
        let part = sum - product;
        let rest = (product - (sum - part)) + (z - part);
        let odd = if rest == 0.0 || !sum.is_finite() || sum.to_bits() & 1 == 1 {
            sum
        } else {
            f64::from_bits(if (rest > 0.0) == (sum > 0.0) { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
        };
        u64::from(((odd * 2f64.powi(if up { 64 } else { -64 })) as f32).to_bits())
    }
}

/// The sign of what rounding took from `x * y + z`.
fn lost(x: f64, y: f64, z: f64, r: f64) -> f64 {
    let two_sum = |a: f64, b: f64| {
        let s = a + b;
        let t = s - a;
        (s, (a - (s - t)) + (b - t))
    };
    let product = x * y;
    let below = x.mul_add(y, -product);
    let (sum, rest) = two_sum(product, z);
    let (t, u) = two_sum(rest, below);
    let (v, w) = two_sum(sum - r, t);
    if v != 0.0 { v } else { w + u }
}

/// `(r + a bit of the sign of lost) / 2^by`, rounded once, to nearest even.
fn scaled_down(r: f64, lost: f64, by: i64) -> f64 {
    let exponent = (r.to_bits() >> 52 & 0x7ff) as i64;
    let left = exponent - by;
    if !r.is_finite() || r == 0.0 || left > 0 {
        return r * 2f64.powi(-by as i32);
    }
    // Subnormal: the significand with two more bits, the last one a sticky one, moved right.
    let significand = (r.to_bits() & ((1 << 52) - 1)) | u64::from(exponent > 0) << 52;
    let towards = (lost > 0.0) == (r > 0.0);
    let exact = (significand << 2) as i64
        + if lost == 0.0 {
            0
        } else if towards {
            1
        } else {
            -1
        };
    let shift = (3 - left).min(62) as u32;
    let (kept, rest, half) = (exact >> shift, exact & ((1 << shift) - 1), 1i64 << (shift - 1));
    let up = rest > half || (rest == half && kept & 1 == 1);
    f64::from_bits((kept + i64::from(up)) as u64 | r.to_bits() & 1 << 63)
}

/// Scales numerator or denominator of a division out of the way of denormals: the first source, scaled, and whether the quotient
/// is to be scaled back.
fn div_scale(a: [u64; 3], wide: bool) -> (u64, bool) {
    let value = |v: u64| if wide { f64::from_bits(v) } else { f64::from(f32::from_bits(v as u32)) };
    let (man, most, step, tiny) = if wide { (52, 768, 128, 53) } else { (23, 96, 64, 23) };
    let exponent = |v: u64| (v >> man & ones(if wide { 11 } else { 8 })) as i64;
    let denormal = |x: f64| if wide { x.is_subnormal() } else { x != 0.0 && x.abs() < f64::from(f32::MIN_POSITIVE) };
    let (x, den, num) = (value(a[0]), value(a[1]), value(a[2]));
    let encode = |x: f64| if wide { x.to_bits() } else { u64::from((x as f32).to_bits()) };
    let scale = |up: bool| encode(x * 2f64.powi(if up { step } else { -step }));
    let (is_den, is_num) = (a[0] == a[1], a[0] == a[2]);
    if num == 0.0 || den == 0.0 {
        return (encode(f64::NAN), false);
    }
    if exponent(a[2]) - exponent(a[1]) >= most {
        return (if is_den { scale(true) } else { a[0] }, true);
    }
    if denormal(den) {
        return (scale(true), false);
    }
    let (small_inverse, small_quotient) = (denormal(1.0 / den), denormal(num / den));
    match (small_inverse, small_quotient) {
        // The documents scale up here, which overflows; what gives right quotients is down.
        (true, true) => (if is_den { scale(false) } else { a[0] }, true),
        (true, false) => (scale(false), false),
        (false, true) => (if is_num { scale(true) } else { a[0] }, true),
        (false, false) if exponent(a[2]) <= tiny => (scale(true), false),
        (false, false) => (a[0], false),
    }
}
