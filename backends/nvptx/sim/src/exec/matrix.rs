//! Whole-warp matrix moves: ldmatrix, stmatrix, movmatrix.

use crate::banks;
use crate::error::{ErrorKind, R};
use crate::memory::SHARED_BASE;
use crate::program::operand::{Addr, Reg};
use crate::state::Simulator;
use crate::state::race::{GRANULE, byte_mask};
use crate::state::warp::{FULL, Warp, lanes};

impl Simulator<'_> {
    /// Offsets of the 8n rows, checked; lane i addresses row i.
    fn rows(&mut self, w: &Warp, at: u32, n: usize, addr: &Addr, write: bool) -> R<[u64; 32]> {
        let mask = if n == 4 { FULL } else { (1u32 << (8 * n)) - 1 };
        let pl = self.addresses(w, at, mask, addr)?;
        let offs = self.shared_offsets(w, at, mask, &pl.addr, 16)?;
        if self.cfg.races {
            use super::track::Access;
            let how = if write { Access::Write } else { Access::Read };
            for (l, &o) in offs.iter().enumerate().take(8 * n) {
                // Data goes to other lanes: no lane may rely on its own copies here.
                let overlap = self.shared_one(w, at, None, o / GRANULE, byte_mask(o, 16), how)?;
                if overlap && write && offs[..l].contains(&o) {
                    let m = "two rows of one stmatrix are at one address";
                    return Err(self.fail(w, at, ErrorKind::Race, m, Some(l as u32), Some(SHARED_BASE + o)));
                }
            }
        }
        if self.cfg.counters {
            let s = &mut self.stats[at as usize];
            for q in 0..n {
                s.wavefronts += u64::from(banks::matrix(&offs[8 * q..8 * q + 8]));
                s.ideal_wavefronts += 1;
            }
        }
        Ok(offs)
    }

    /// `ldmatrix`.
    pub(crate) fn ldmatrix(&mut self, w: &mut Warp, at: u32, addr: &Addr, trans: bool, d: &[Reg]) -> R<()> {
        let offs = self.rows(w, at, d.len(), addr, false)?;
        for (q, &reg) in d.iter().enumerate() {
            let mut rows = [0u128; 8];
            // Poison per 16-bit element.
            let mut bad = [0u32; 8];
            for r in 0..8 {
                let l = 8 * q + r;
                let p;
                (rows[r], p) = self.shared_read(w, at, l, offs[l], 16)?;
                if p != 0 {
                    bad[r] = (0..8).fold(0, |m, e| m | u32::from(p >> (2 * e) & 3 != 0) << e);
                }
            }
            let (mut v, mut px) = ([0u32; 32], 0u32);
            let half = |row: usize, e: usize| (rows[row] >> (16 * e)) as u32 & 0xffff;
            for (l, v) in v.iter_mut().enumerate() {
                let (g, t) = (l >> 2, l & 3);
                let (lo, hi) = if trans { ((2 * t, g), (2 * t + 1, g)) } else { ((g, 2 * t), (g, 2 * t + 1)) };
                *v = half(lo.0, lo.1) | half(hi.0, hi.1) << 16;
                px |= ((bad[lo.0] >> lo.1 | bad[hi.0] >> hi.1) & 1) << l;
            }
            w.set_r(reg, FULL, &v, px);
        }
        Ok(())
    }

    /// `stmatrix`.
    pub(crate) fn stmatrix(&mut self, w: &mut Warp, at: u32, addr: &Addr, trans: bool, s: &[Reg]) -> R<()> {
        let offs = self.rows(w, at, s.len(), addr, true)?;
        for (q, &reg) in s.iter().enumerate() {
            let (v, px) = (w.r32(reg), w.poison(reg));
            let (mut rows, mut bad) = ([0u128; 8], [0u32; 8]);
            for l in lanes(FULL) {
                let (g, t) = (l >> 2, l & 3);
                for h in 0..2 {
                    let (row, e) = if trans { (2 * t + h, g) } else { (g, 2 * t + h) };
                    rows[row] |= u128::from(v[l] >> (16 * h) & 0xffff) << (16 * e);
                    if px >> l & 1 == 1 {
                        bad[row] |= 3 << (2 * e);
                    }
                }
            }
            for r in 0..8 {
                self.shared_write(offs[8 * q + r], 16, rows[r], bad[r]);
            }
        }
        Ok(())
    }

    /// `movmatrix.trans`: transposes an 8x8 matrix of 16-bit elements held in one register per lane.
    pub(crate) fn movmatrix(w: &mut Warp, d: Reg, s: Reg) {
        let (v, px) = (w.r32(s), w.poison(s));
        let (mut o, mut p) = ([0u32; 32], 0);
        for (l, o) in o.iter_mut().enumerate() {
            let (g, t) = (l >> 2, l & 3);
            for h in 0..2 {
                // Element (row g, column 2t + h) of the result is (2t + h, g) of the source.
                let from = (2 * t + h) * 4 + g / 2;
                *o |= (v[from] >> (16 * (g & 1)) & 0xffff) << (16 * h);
                p |= (px >> from & 1) << l;
            }
        }
        w.set_r(d, FULL, &o, p);
    }
}
