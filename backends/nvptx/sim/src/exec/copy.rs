//! `cp.async`, its groups and waits.
//!
//! The destination is undefined (poison) from issue until the issuing lane waits for the group. When
//! the bytes really land in between is the [`Landing`](crate::Landing) policy's choice.

use crate::config::Landing;
use crate::error::{ErrorKind, R};
use crate::program::op::CpAsync;
use crate::record::What;
use crate::state::Simulator;
use crate::state::race::{ASYNC, GRANULE, Rec, byte_mask};
use crate::state::warp::{Flight, Warp, lanes};

/// The newest ordinal that `wait_group n` of a lane covers. Ordinals closed by an mbarrier arrival belong to the next group.
fn newest_complete(w: &Warp, l: usize, n: u32) -> u32 {
    let hole = |e: u32| w.holes.contains(&(l as u8, e));
    let (mut e, mut left) = (w.committed[l], n);
    while e > 0 && (left > 0 || hole(e)) {
        left -= u32::from(!hole(e));
        e -= 1;
    }
    e
}

impl Simulator<'_> {
    /// Issues a copy for the lanes of `mask`.
    pub(crate) fn cp_async(&mut self, w: &mut Warp, at: u32, mask: u32, c: &CpAsync) -> R<()> {
        let size = u64::from(c.size);
        let dst = self.addresses(w, at, mask, &c.dst)?;
        let mut src_bytes = [c.size as u8; 32];
        if let Some(r) = c.src_size {
            let bad = w.poison(r) & mask;
            if bad != 0 {
                let m = "the source size is an undefined value";
                return Err(self.fail(w, at, ErrorKind::Poison, m, Some(bad.trailing_zeros()), None));
            }
            for l in lanes(mask) {
                let n = w.r[r.i()][l];
                if n > c.size {
                    let m = format!("source size {n} is larger than the copy size {}", c.size);
                    return Err(self.fail(w, at, ErrorKind::Undefined, m, Some(l as u32), None));
                }
                src_bytes[l] = n as u8;
            }
        }
        if let Some(p) = c.ignore {
            let bad = w.px[p.p.0 as usize] & mask;
            if bad != 0 {
                let m = "the ignore-src predicate is undefined";
                return Err(self.fail(w, at, ErrorKind::Poison, m, Some(bad.trailing_zeros()), None));
            }
            for l in lanes(mask & w.pred(p)) {
                src_bytes[l] = 0;
            }
        }
        let offs = self.shared_offsets(w, at, mask, &dst.addr, size)?;
        let reads = lanes(mask).filter(|&l| src_bytes[l] > 0).fold(0u32, |m, l| m | 1 << l);
        let mut places = [(0, 0); 32];
        let mut src = [0; 32];
        if reads != 0 {
            self.behind_launches(w, at, reads)?;
            let s = self.addresses(w, at, reads, &c.src)?;
            src = s.addr;
            places = self.copy_source(w, at, reads, &src, &src_bytes, size)?;
        }
        let mut ordinal = [0; 32];
        for l in lanes(mask) {
            ordinal[l] = w.committed[l] + 1;
        }
        if self.cfg.races {
            for l in lanes(mask) {
                let me = Rec {
                    agent: ASYNC | (w.slot * 32 + l as u32),
                    clock: ordinal[l],
                    site: at,
                    seq: w.seq,
                    mask: byte_mask(offs[l], size),
                    lane: l as u8,
                    strong: false,
                    write: true,
                };
                self.shared_rec(w, at, Some(l as u32), offs[l] / GRANULE, me, true)?;
            }
        }
        if reads != 0 && self.cfg.global_races {
            for l in lanes(reads) {
                let n = u64::from(src_bytes[l]);
                self.track_global(w, at, 1 << l, &places, n, super::track::Access::Read, 0)?;
            }
        }
        let s = &mut self.ctas[self.cur].shared;
        for l in lanes(mask) {
            s.written.set(offs[l] as usize, c.size, true);
            s.poison.set(offs[l] as usize, c.size, true);
        }
        self.count_shared(at, mask, &offs, c.size);
        if reads != 0 {
            self.count_global(at, reads, &src, c.size);
        }
        let mut f = Flight { mask, pending: mask, ordinal, dst: offs.map(|o| o as u32), src, src_bytes, size: c.size as u8 };
        let eager = match self.cfg.landing {
            Landing::Eager => true,
            Landing::Lazy => false,
            Landing::Random => self.rng.below(2) == 0,
        };
        if eager {
            self.land(&mut f, mask);
        }
        w.flights.push(f);
        if self.record.is_some() {
            let bytes = lanes(mask).map(|l| u64::from(src_bytes[l])).sum();
            let group = ordinal[mask.trailing_zeros() as usize % 32];
            self.note(w.linear, at, What::Copy { warp: w.id, group, bytes });
        }
        Ok(())
    }

    /// Bounds and initialisation of the source bytes.
    fn copy_source(&self, w: &Warp, at: u32, reads: u32, src: &[u64; 32], n: &[u8; 32], size: u64) -> R<[(u32, u64); 32]> {
        let mut places = [(0, 0); 32];
        for l in lanes(reads) {
            let a = src[l];
            if a & (size - 1) != 0 {
                let m = format!("a {size}-byte copy from an address that is {} past a multiple of {size}", a & (size - 1));
                return Err(self.fail(w, at, ErrorKind::Misaligned, m, Some(l as u32), Some(a)));
            }
            let len = u64::from(n[l]);
            let found = self.mem.find(a).filter(|&(i, o)| o as u64 + len <= self.mem.buffers[i].bytes.len() as u64);
            let Some((i, o)) = found else {
                let m = format!("{len} bytes at {a:#x}: {}", self.mem.nearest(a, len));
                return Err(self.fail(w, at, ErrorKind::OutOfBounds, m, Some(l as u32), Some(a)));
            };
            places[l] = (i as u32, o as u64);
            // Sources are checked at issue whenever they land: the value itself is taken on landing.
            self.global_read(w, at, l, places[l], len)?;
        }
        Ok(places)
    }

    /// Writes the bytes of some lanes.
    pub(crate) fn land(&mut self, f: &mut Flight, which: u32) {
        let size = usize::from(f.size);
        for l in lanes(f.pending & which) {
            let mut b = [0u8; 16];
            let n = usize::from(f.src_bytes[l]);
            if n > 0
                && let Some((i, o)) = self.mem.find(f.src[l])
            {
                b[..n].copy_from_slice(&self.mem.buffers[i].bytes[o..o + n]);
            }
            let d = f.dst[l] as usize;
            self.ctas[self.cur].shared.bytes[d..d + size].copy_from_slice(&b[..size]);
        }
        f.pending &= !which;
    }

    /// Lands the copies of one lane up to an ordinal, for the mbarrier that counts them.
    pub(crate) fn finish_copies(&mut self, flights: &mut Vec<Flight>, lane: u8, upto: u32) {
        let l = usize::from(lane);
        flights.retain_mut(|f| {
            if f.mask >> l & 1 == 1 && f.ordinal[l] <= upto {
                self.land(f, 1 << l);
                self.ctas[self.cur].shared.poison.set(f.dst[l] as usize, f.size.into(), false);
                f.mask &= !(1 << l);
            }
            f.mask != 0
        });
    }

    /// Lands some copies in flight: called between turns under the random policy.
    pub(crate) fn land_some(&mut self, w: &mut Warp) {
        let mut flights = std::mem::take(&mut w.flights);
        for f in &mut flights {
            if f.pending != 0 && self.rng.below(4) == 0 {
                let lanes = self.rng.next() as u32;
                self.land(f, lanes);
            }
        }
        w.flights = flights;
    }

    /// `cp.async.commit_group`.
    pub(crate) fn cp_commit(w: &mut Warp, mask: u32) {
        for l in lanes(mask) {
            w.committed[l] += 1;
        }
    }

    /// `cp.async.wait_group n`.
    pub(crate) fn cp_wait(&mut self, w: &mut Warp, at: u32, mask: u32, n: u32) {
        for l in lanes(mask) {
            w.waited[l] = w.waited[l].max(newest_complete(w, l, n));
        }
        let group = w.waited[mask.trailing_zeros() as usize % 32];
        self.note(w.linear, at, What::CopiesDone { warp: w.id, group });
        let mut flights = std::mem::take(&mut w.flights);
        flights.retain_mut(|f| {
            let ready = lanes(f.mask & mask).filter(|&l| f.ordinal[l] <= w.waited[l]).fold(0u32, |m, l| m | 1 << l);
            if ready != 0 {
                self.land(f, ready);
                let s = &mut self.ctas[self.cur].shared;
                for l in lanes(ready) {
                    s.poison.set(f.dst[l] as usize, f.size.into(), false);
                }
                f.mask &= !ready;
            }
            f.mask != 0
        });
        w.flights = flights;
    }

    /// What lanes waited for becomes known to the whole warp.
    pub(crate) fn publish_copies(w: &mut Warp, mask: u32) {
        if w.clocks.copies.is_empty() {
            return;
        }
        for l in lanes(mask) {
            let c = &mut w.clocks.copies[w.slot as usize * 32 + l];
            *c = (*c).max(w.waited[l]);
        }
    }
}
