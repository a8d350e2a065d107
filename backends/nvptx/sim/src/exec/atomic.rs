//! `atom` and `red`. Lanes act one after the other in lane order.

use super::float::half_add;
use super::track::Access;
use crate::error::{ErrorKind, R};
use crate::num::{low, sext};
use crate::program::op::{Atom, Order};
use crate::program::operand::AtomOp;
use crate::state::Simulator;
use crate::state::warp::{Warp, lanes};
use crate::types::Ty;

/// The new value.
fn apply(op: AtomOp, ty: Ty, old: u64, b: u64, c: u64) -> u64 {
    let bits = ty.bits();
    let (old, b, c) = (old & low(bits), b & low(bits), c & low(bits));
    let less = if ty.is_signed() { sext(old, bits) < sext(b, bits) } else { old < b };
    match op {
        AtomOp::Add => match ty {
            Ty::F32 => (f32::from_bits(old as u32) + f32::from_bits(b as u32)).to_bits().into(),
            Ty::F64 => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
            Ty::F16 | Ty::Bf16 => half_add(ty == Ty::Bf16, old as u16, b as u16).into(),
            Ty::F16x2 | Ty::Bf16x2 => {
                let h = |s: u32| u64::from(half_add(ty == Ty::Bf16x2, (old >> s) as u16, (b >> s) as u16)) << s;
                h(0) | h(16)
            }
            _ => old.wrapping_add(b) & low(bits),
        },
        AtomOp::Min => {
            if less {
                old
            } else {
                b
            }
        }
        AtomOp::Max => {
            if less {
                b
            } else {
                old
            }
        }
        AtomOp::And => old & b,
        AtomOp::Or => old | b,
        AtomOp::Xor => old ^ b,
        AtomOp::Exch => b,
        AtomOp::Cas => {
            if old == b {
                c
            } else {
                old
            }
        }
        AtomOp::Inc => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        AtomOp::Dec => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
    }
}

/// Applies a reduction to every element of a range.
pub(crate) fn apply_element(op: AtomOp, ty: Ty, dst: &mut [u8], src: &[u8]) {
    let n = ty.bytes() as usize;
    let word = |b: &[u8]| b.iter().rev().fold(0u64, |v, &x| v << 8 | u64::from(x));
    for (d, s) in dst.chunks_exact_mut(n).zip(src.chunks_exact(n)) {
        let (old, b) = (word(d), word(s));
        let new = match ty {
            Ty::F16 | Ty::Bf16 if matches!(op, AtomOp::Min | AtomOp::Max) => {
                let f = if ty == Ty::F16 { crate::num::f16_to_f32 } else { crate::num::bf16_to_f32 };
                let (x, y) = (f(old as u16), f(b as u16));
                let take = y.is_nan() || x.is_nan() && !y.is_nan();
                let better = if op == AtomOp::Min { y < x } else { y > x };
                if better || take && x.is_nan() { b } else { old }
            }
            _ => apply(op, ty, old, b, 0),
        };
        d.copy_from_slice(&new.to_le_bytes()[..n]);
    }
}

impl Simulator<'_> {
    /// Executes an atomic on the lanes of `mask`.
    pub(crate) fn atomic(&mut self, w: &mut Warp, at: u32, mask: u32, a: &Atom) -> R<()> {
        let size = u64::from(a.ty.bytes());
        let mut pl = self.addresses(w, at, mask, &a.addr)?;
        let (b, c) = (w.wide(a.b), w.wide(a.c));
        let px = (w.poison(a.b) | w.poison(a.c)) & mask;
        let how = Access::Strong { write: true };
        let mut old = [0u64; 32];
        let mut old_poison = 0u32;
        let release = matches!(a.order, Order::Release | Order::AcqRel).then_some(a.cta);
        let acquire = matches!(a.order, Order::Acquire | Order::AcqRel);
        for l in lanes(pl.global) {
            self.sync_write(w, false, pl.addr[l], release);
            if a.d.is_some() {
                self.sync_read(w, pl.addr[l], acquire);
            }
        }
        let homes = self.by_cta(w, at, &mut pl, a.addr.space)?;
        for &(cta, mask) in &homes {
            let home = std::mem::replace(&mut self.cur, cta);
            for l in lanes(mask).filter(|_| cta == home || !a.cta) {
                self.sync_write(w, true, pl.addr[l], release);
                if a.d.is_some() {
                    self.sync_read(w, pl.addr[l], acquire);
                }
            }
            let offs = self.shared_offsets(w, at, mask, &pl.addr, size)?;
            if self.cfg.races {
                self.track_shared(w, at, mask, &offs, size, how)?;
            }
            for l in lanes(mask) {
                let (v, p) = self.shared_read(w, at, l, offs[l], size)?;
                old[l] = v as u64;
                let poison = p != 0 || px >> l & 1 == 1;
                old_poison |= u32::from(p != 0) << l;
                let new = apply(a.op, a.ty, old[l], b[l], c[l]);
                self.shared_write(offs[l], size, new.into(), if poison { u32::MAX } else { 0 });
            }
            self.count_shared(at, mask, &offs, size as u32);
            self.cur = home;
        }
        if pl.global != 0 {
            if px & pl.global != 0 {
                let l = (px & pl.global).trailing_zeros();
                let t = "an undefined value is an operand of an atomic on global memory";
                return Err(self.fail(w, at, ErrorKind::Poison, t, Some(l), Some(pl.addr[l as usize])));
            }
            let places = self.global_places(w, at, pl.global, &pl.addr, size, true)?;
            if self.cfg.global_races {
                self.track_global(w, at, pl.global, &places, size, how, 0)?;
            }
            for l in lanes(pl.global) {
                let (v, p) = self.global_read(w, at, l, places[l], size)?;
                old[l] = v as u64;
                old_poison |= u32::from(p != 0) << l;
                self.global_write(places[l], size, apply(a.op, a.ty, old[l], b[l], c[l]).into());
            }
            self.count_global(at, pl.global, &pl.addr, size as u32);
        }
        if let Some(d) = a.d {
            w.set(d, mask, &old, old_poison);
        }
        Ok(())
    }
}
