//! Matrix descriptors and the arithmetic of wgmma.
//!
//! Operands are gathered in 16-byte chunks, swizzled by absolute address bits, into small f64 matrices; products are exact, sums
//! run in f64, the accumulator is added and the result rounded once. Hardware sums with less precision (8-bit
//! floats with about 14 bits), so compare floating-point results with a bound. Integers are exact.

use crate::exec::mma::{element, per_reg};
use crate::memory::{SHARED_BASE, Shared};
use crate::num::{F16, NAN32, f16_to_f32, round_f64};
use crate::program::hop::{WgA, Wgmma};
use crate::program::operand::MmaTy;
use crate::state::warp::{FULL, Warp};
use crate::tensor_map::MapSwizzle;
use crate::types::{Round, Ty};

/// Bytes of an operand element.
pub(crate) fn element_bytes(t: MmaTy) -> u32 {
    4 / per_reg(t) as u32
}

/// A 64-bit matrix descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Desc {
    start: u64,
    lbo: u64,
    sbo: u64,
    base: u64,
    swizzle: MapSwizzle,
}

impl Desc {
    /// Decodes; bits that must be zero are checked.
    pub(crate) fn decode(d: u64) -> Result<Desc, String> {
        let field = |at: u32| (d >> at & 0x3fff) << 4;
        let reserved = 0x3ff1_c000_c000_c000u64;
        if d & reserved != 0 {
            return Err(format!("bits {:#018x} of the matrix descriptor {d:#018x} must be zero", d & reserved));
        }
        let swizzle = match d >> 62 {
            0 => MapSwizzle::None,
            1 => MapSwizzle::B128,
            2 => MapSwizzle::B64,
            _ => MapSwizzle::B32,
        };
        Ok(Desc { start: field(0), lbo: field(16), sbo: field(32), base: d >> 49 & 7, swizzle })
    }

    /// The physical address of a logical one: the pattern repeats from rows of number `base` on.
    fn physical(&self, a: u64) -> u64 {
        let shift = self.base << 7;
        a ^ (self.swizzle.apply(a.wrapping_sub(shift)) ^ a.wrapping_sub(shift))
    }

    /// Addresses of the 16-byte chunks of an operand of `mn` rows (columns) and `k` elements, `per` elements in a chunk:
    /// by row and then along k, or for MN-major by k and then along the rows.
    pub(crate) fn chunks(&self, mn: u32, k: u32, per: u32, mn_major: bool) -> Vec<u64> {
        let (mn, k, per) = (u64::from(mn), u64::from(k), u64::from(per));
        let mut out = Vec::with_capacity((mn * k / per) as usize);
        if mn_major {
            for kk in 0..k {
                for c in 0..mn / per {
                    let a = match self.swizzle.width() {
                        None => self.start + c * self.sbo + (kk / 8) * self.lbo + (kk % 8) * 16,
                        Some(s) => {
                            let s = u64::from(s);
                            let byte = 16 * c;
                            self.start + byte / s * self.lbo + (kk / 8) * self.sbo + (kk % 8) * s + byte % s
                        }
                    };
                    out.push(self.physical(a));
                }
            }
        } else {
            for r in 0..mn {
                for c in 0..k / per {
                    let a = match self.swizzle.width() {
                        None => self.start + (r / 8) * self.sbo + c * self.lbo + (r % 8) * 16,
                        Some(s) => self.start + (r / 8) * self.sbo + (r % 8) * u64::from(s) + 16 * c,
                    };
                    out.push(self.physical(a));
                }
            }
        }
        out
    }
}

/// A matrix from shared memory, `[mn][k]`, and which of its rows hold undefined values.
fn gather(shared: &Shared, d: u64, ty: MmaTy, mn: u32, k: u32, mn_major: bool) -> (Vec<f64>, Vec<bool>) {
    let per = 16 / element_bytes(ty);
    let (n, kk, p) = (mn as usize, k as usize, per as usize);
    let (mut out, mut bad) = (vec![0.0; n * kk], vec![false; n]);
    // Checked when the operation started.
    let Ok(desc) = Desc::decode(d) else { return (out, bad) };
    let (in_word, words) = (per_reg(ty), 4);
    for (i, a) in desc.chunks(mn, k, per, mn_major).into_iter().enumerate() {
        let off = (a - SHARED_BASE) as usize;
        let poison = shared.poison.get(off, 16) != 0;
        for wd in 0..words {
            let at = off + 4 * wd;
            let v = u32::from_le_bytes([shared.bytes[at], shared.bytes[at + 1], shared.bytes[at + 2], shared.bytes[at + 3]]);
            for e in 0..in_word {
                let x = element(ty, v.into(), e);
                let j = wd * in_word + e;
                let (row, col) = if mn_major { (i % (n / p) * p + j, i / (n / p)) } else { (i / (kk / p), i % (kk / p) * p + j) };
                out[row * kk + col] = x;
                bad[row] |= poison;
            }
        }
    }
    (out, bad)
}

/// A from registers.
fn fragments(warps: &[Warp], regs: &[crate::program::operand::Reg], ty: MmaTy, k: usize) -> (Vec<f64>, Vec<bool>) {
    let (mut out, mut bad) = (vec![0.0; 64 * k], vec![false; 64]);
    let per = per_reg(ty);
    for (wi, w) in warps.iter().enumerate() {
        for (i, &r) in regs.iter().enumerate() {
            let (v, p) = (w.r32(r), w.poison(r));
            for (l, &v) in v.iter().enumerate() {
                let (g, t) = (l >> 2, l & 3);
                let row = 16 * wi + g + 8 * (i & 1);
                for e in 0..per {
                    out[row * k + per * t + 4 * per * (i >> 1) + e] = element(ty, v.into(), e);
                }
                bad[row] |= p >> l & 1 == 1;
            }
        }
    }
    (out, bad)
}

/// Computes one operation on the four warps.
pub(crate) fn compute(shared: &Shared, warps: &mut [Warp], o: &Wgmma, a: Option<u64>, b: u64, scale_d: bool) {
    let (n, k) = (o.n as usize, o.k as usize);
    let (am, bad_row) = match (&o.a, a) {
        (WgA::Desc(_), Some(d)) => gather(shared, d, o.a_ty, 64, o.k, o.mn_major[0]),
        (WgA::Regs(r), _) => fragments(warps, r, o.a_ty, k),
        // The descriptor is always there when the operand is one.
        (WgA::Desc(_), None) => return,
    };
    let (bm, bad_col) = gather(shared, b, o.b_ty, o.n, o.k, o.mn_major[1]);
    // B by k, so that the inner loop is contiguous.
    let mut bt = vec![0.0; k * n];
    for c in 0..n {
        for kk in 0..k {
            bt[kk * n + c] = bm[c * k + kk];
        }
    }
    let sign = if o.neg[0] == o.neg[1] { 1.0 } else { -1.0 };
    let mut acc = vec![0.0; 64 * n];
    for row in 0..64 {
        let out = &mut acc[row * n..(row + 1) * n];
        for kk in 0..k {
            let x = am[row * k + kk] * sign;
            for (o, y) in out.iter_mut().zip(&bt[kk * n..(kk + 1) * n]) {
                *o += x * y;
            }
        }
    }
    for (wi, w) in warps.iter_mut().enumerate() {
        for (i, &d) in o.d.iter().enumerate() {
            let (old, px) = (w.r32(d), if scale_d { w.poison(d) } else { 0 });
            let (mut v, mut p) = ([0u32; 32], px);
            for l in 0..32 {
                let (g, t) = (l >> 2, l & 3);
                match o.acc {
                    Ty::F16 => {
                        let row = 16 * wi + g + 8 * (i & 1);
                        for e in 0..2 {
                            let col = 8 * (i >> 1) + 2 * t + e;
                            let was = if scale_d { f16_to_f32((old[l] >> (16 * e)) as u16).into() } else { 0.0 };
                            v[l] |= (round_f64(acc[row * n + col] + was, F16, Round::Rn) as u32) << (16 * e);
                            p |= u32::from(bad_row[row] || bad_col[col]) << l;
                        }
                    }
                    _ => {
                        let (row, col) = (16 * wi + g + 8 * (i >> 1 & 1), 8 * (i >> 2) + 2 * t + (i & 1));
                        let x = acc[row * n + col];
                        v[l] = if o.acc == Ty::S32 {
                            let s = x as i64 + if scale_d { i64::from(old[l] as i32) } else { 0 };
                            if o.sat { s.clamp(i32::MIN.into(), i32::MAX.into()) as u32 } else { s as u32 }
                        } else {
                            let x = (x + if scale_d { f64::from(f32::from_bits(old[l])) } else { 0.0 }) as f32;
                            if x.is_nan() { NAN32 } else { x.to_bits() }
                        };
                        p |= u32::from(bad_row[row] || bad_col[col]) << l;
                    }
                }
            }
            w.set_r(d, FULL, &v, p);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::units::wgmma_math::*;

    /// The constants that real kernels use.
    #[test]
    fn descriptor_fields() {
        let d = Desc::decode(0x4000_0040_0001_0040).expect("valid");
        assert_eq!((d.start, d.lbo, d.sbo, d.base, d.swizzle), (1024, 16, 1024, 0, MapSwizzle::B128));
        assert_eq!(Desc::decode(0x8000_0020_0001_0040).map(|d| (d.sbo, d.swizzle)), Ok((512, MapSwizzle::B64)));
        assert_eq!(Desc::decode(0xC000_0010_0001_0040).map(|d| (d.sbo, d.swizzle)), Ok((256, MapSwizzle::B32)));
        for bit in [14, 15, 30, 31, 46, 47, 48, 52, 61] {
            assert!(Desc::decode(1 << bit).is_err(), "bit {bit}");
        }
        for bit in [13, 29, 45, 49, 51, 62, 63] {
            assert!(Desc::decode(1 << bit).is_ok(), "bit {bit}");
        }
    }

    /// A K-major tile as a tensor copy with that swizzle writes it.
    #[test]
    fn chunks_meet_the_copy() {
        for (code, span) in [(1u64, 128u64), (2, 64), (3, 32)] {
            let start = 4096u64;
            let sbo = 8 * span;
            for step in 0..span / 32 {
                let d = Desc::decode(code << 62 | (sbo >> 4) << 32 | 1 << 16 | (start + 32 * step) >> 4).expect("valid");
                for (i, c) in d.chunks(64, 16, 8, false).into_iter().enumerate() {
                    let (row, chunk) = (i as u64 / 2, i as u64 % 2);
                    assert_eq!(c, d.swizzle.apply(start + row * span + 32 * step + 16 * chunk));
                }
            }
        }
    }
}
