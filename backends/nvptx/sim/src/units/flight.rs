//! Asynchronous operations in flight, and how they land.
//!
//! A copy is cut into segments that land at moments, and in an order, of the seed's choosing; its bytes are counted on its mbarrier
//! after the last one. A copy out of shared memory first reads all its source, later writes its destination. Until it
//! lands, the destination is undefined; that nobody looks, or overwrites a source, is checked by order when the access
//! is made, so a fault is found whenever the bytes really move.

use crate::config::Landing;
use crate::error::{ErrorKind, R, SimError};
use crate::exec::atomic::apply_element;
use crate::num::f32_to_tf32;
use crate::record::{Transfer, What};
use crate::state::Simulator;
use crate::state::flight::Flight;
use crate::state::flight::{Mem, Run, Way};
use crate::types::Round;

impl Simulator<'_> {
    /// Cuts runs into up to four segments.
    pub(crate) fn segments(&mut self, runs: Vec<Run>) -> Vec<Vec<Run>> {
        let n = if self.cfg.landing == Landing::Random { 1 + self.rng.below(4) as usize } else { 1 };
        let step = runs.len().div_ceil(n).max(1);
        runs.chunks(step).map(<[Run]>::to_vec).collect()
    }

    /// Sends an operation off.
    pub(crate) fn take_off(&mut self, f: Flight) -> R<()> {
        if let Some(r) = &mut self.record {
            let transfer = match f.way {
                Way::In => Transfer::In,
                Way::Out => Transfer::Out,
                Way::Arrive(..) => Transfer::Arrival,
            };
            let bytes = f.segments.iter().flatten().map(|run| u64::from(run.len)).sum();
            r.took_off((f.issuer.0, f.issuer.1), self.prog.code[f.at as usize].line, transfer, bytes);
        }
        self.flights.push(f);
        if self.cfg.landing == Landing::Eager {
            self.land_fully(self.flights.len() - 1)?;
        }
        Ok(())
    }

    /// Makes some operation progress. Returns whether there was one.
    pub(crate) fn land_one(&mut self) -> R<bool> {
        if self.flights.is_empty() {
            return Ok(false);
        }
        let i = self.rng.below(self.flights.len() as u64) as usize;
        if self.cfg.landing == Landing::Random {
            self.progress(i)?;
        } else {
            self.land_fully(i)?;
        }
        // Nobody runs now: wake sleepers directly.
        let mut nobody = crate::state::warp::Warp::default();
        self.wake_waiters(&mut nobody);
        Ok(true)
    }

    fn land_fully(&mut self, i: usize) -> R<()> {
        while !self.progress(i)? {}
        Ok(())
    }

    /// Lands the operations of a bulk group stream up to an ordinal: their reads, and all of them when `write`.
    pub(crate) fn land_groups(&mut self, stream: u32, upto: u32, write: bool) -> R<()> {
        let mut i = 0;
        while i < self.flights.len() {
            let f = &self.flights[i];
            if f.group.is_none_or(|g| g.0 != stream || g.1 > upto) {
                i += 1;
            } else if write {
                self.land_fully(i)?;
            } else {
                if !f.read {
                    self.progress(i)?;
                }
                i += 1;
            }
        }
        Ok(())
    }

    /// One step of one operation. `true`: it is finished and removed.
    fn progress(&mut self, i: usize) -> R<bool> {
        match self.flights[i].way {
            Way::In => {
                let n = self.flights[i].segments.len();
                if n > 0 {
                    let k = self.rng.below(n as u64) as usize;
                    let seg = self.flights[i].segments.swap_remove(k);
                    self.land_segment(i, &seg);
                    if n > 1 {
                        return Ok(false);
                    }
                }
            }
            Way::Out if !self.flights[i].read => {
                self.read_source(i);
                return Ok(false);
            }
            Way::Out => self.write_global(i),
            Way::Arrive(..) => {}
        }
        let f = self.flights.swap_remove(i);
        if let Some(r) = &mut self.record {
            r.landed(i);
        }
        self.complete(&f)?;
        Ok(true)
    }

    fn land_segment(&mut self, i: usize, seg: &[Run]) {
        let f = &self.flights[i];
        // CTAs stay until nothing is in flight to them (checked when they exit).
        let (Some(c), reduce) = (self.position(f.cta), f.reduce) else { return };
        let from = self.position(f.from);
        let mut buf = Vec::new();
        for r in seg {
            let n = r.len as usize;
            buf.clear();
            let mut poison = false;
            match r.mem {
                Mem::Global(b, off) => {
                    buf.extend_from_slice(&self.mem.buffers[b as usize].bytes[off as usize..off as usize + n]);
                    if f.tf32 {
                        round_to_tf32(&mut buf);
                    }
                }
                Mem::Fill => buf.extend(f.fill.iter().cycle().take(n)),
                Mem::Data(o) => buf.extend_from_slice(&f.data[o as usize..o as usize + n]),
                Mem::Shared(o) => {
                    let Some(p) = from else { continue };
                    let s = &self.ctas[p].shared;
                    buf.extend_from_slice(&s.bytes[o as usize..o as usize + n]);
                    poison = (0..n).any(|k| s.poison.get(o as usize + k, 1) != 0);
                }
            }
            let s = &mut self.ctas[c].shared;
            let at = r.shared as usize;
            match reduce {
                None => s.bytes[at..at + n].copy_from_slice(&buf),
                Some((op, ty)) => apply_element(op, ty, &mut s.bytes[at..at + n], &buf),
            }
            let mut k = 0;
            while k < n {
                let step = (n - k).min(32);
                s.poison.set(at + k, step as u32, poison);
                k += step;
            }
        }
    }

    fn read_source(&mut self, i: usize) {
        let p = self.position(self.flights[i].cta);
        let f = &mut self.flights[i];
        f.read = true;
        let Some(p) = p else { return };
        let s = &self.ctas[p].shared;
        for seg in &f.segments {
            for r in seg {
                f.data.extend_from_slice(&s.bytes[r.shared as usize..r.shared as usize + r.len as usize]);
            }
        }
    }

    fn write_global(&mut self, i: usize) {
        let f = &self.flights[i];
        let mut from = 0;
        for r in f.segments.iter().flatten() {
            let n = r.len as usize;
            let Mem::Global(b, off) = r.mem else { continue };
            let b = &mut self.mem.buffers[b as usize];
            let dst = &mut b.bytes[off as usize..off as usize + n];
            let src = &f.data[from..from + n];
            match f.reduce {
                None => dst.copy_from_slice(src),
                Some((op, ty)) => apply_element(op, ty, dst, src),
            }
            b.written.fill(off as usize, n);
            from += n;
        }
    }

    /// Everything has landed: count it.
    fn complete(&mut self, f: &Flight) -> R<()> {
        let Some((cta, off)) = f.mbar else { return Ok(()) };
        let arrivals = if let Way::Arrive(lane, upto, arrivals) = f.way {
            self.land_lane(f, lane, upto);
            arrivals
        } else {
            0
        };
        let mb = self.position(cta).and_then(|c| Some((c, self.ctas[c].mbars.iter().position(|b| b.off == off)?)));
        let Some(mb) = mb else {
            if matches!(f.way, Way::Arrive(..)) {
                // The CTA has exited; nobody waited for these copies, or somebody would have been found.
                return Ok(());
            }
            let mut e = SimError::new(ErrorKind::Mbarrier, "an asynchronous operation completes on an mbarrier that is gone");
            e.site = Some(Box::new(self.issue_site(f)));
            return Err(e);
        };
        if let Way::Arrive(lane, upto, _) = f.way {
            let t = (f.issuer.2 * 32 + u32::from(lane)) as usize;
            let n = self.copy_threads;
            let c = &mut self.mbar_now(mb).copies;
            c.resize(n, 0);
            c[t] = c[t].max(upto);
        }
        if let Some(tells) = &f.tells {
            self.mbar_now(mb).join_count(tells);
        }
        self.ctas[mb.0].mbars[mb.1].in_flight -= 1;
        let r = self.mbar_async(mb, f.bytes as i64, arrivals.into(), (f.issuer.2, f.at));
        r.map_err(|(kind, m, other)| {
            let mut e = SimError::new(kind, m);
            e.site = Some(Box::new(self.issue_site(f)));
            e.other = other.map(Box::new);
            e
        })
    }

    /// Lands the cp.async operations of a lane up to an ordinal.
    fn land_lane(&mut self, f: &Flight, lane: u8, upto: u32) {
        let Some(c) = self.position(f.issuer.0) else { return };
        let was = std::mem::replace(&mut self.cur, c);
        let wi = f.issuer.1 as usize;
        self.note(f.issuer.0, f.at, What::CopiesDone { warp: f.issuer.1, group: upto });
        let mut flights = std::mem::take(&mut self.ctas[c].warps[wi].flights);
        self.finish_copies(&mut flights, lane, upto);
        self.ctas[c].warps[wi].flights = flights;
        self.cur = was;
    }
}

/// Makes every `f32` of some bytes one of tf32: to nearest, ties to even, as an H200 does (its products differ from those of operands
/// rounded with ties away by a relative 8e-6, which is what the ties account for).
fn round_to_tf32(bytes: &mut [u8]) {
    for word in bytes.chunks_exact_mut(4) {
        if let Ok(raw) = <[u8; 4]>::try_from(&*word) {
            word.copy_from_slice(&f32_to_tf32(f32::from_le_bytes(raw), Round::Rn).to_le_bytes());
        }
    }
}
