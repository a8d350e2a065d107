//! `wgmma`: issue by the four warps of a warpgroup, groups, waits, and the registers in between.
//!
//! An operation exists when all four warps have issued it; it reads its shared operands and computes at some moment
//! between then and the first wait that covers it. Until a warp's own wait, its accumulators and register operands are
//! locked: any other instruction that names them is an error. The other way round, a register named by an ordinary instruction
//! may be used by a wgmma only after another `wgmma.fence`. Shared operands are read with the knowledge the four warps
//! *all* had at their last `wgmma.fence`.

use crate::config::Landing;
use crate::error::{ErrorKind, R};
use crate::program::hop::{Hop, WgA, Wgmma};
use crate::program::op::Op;
use crate::program::operand::Reg;
use crate::record::What;
use crate::state::Simulator;
use crate::state::race::{Clocks, StreamKind};
use crate::state::warp::{FULL, Wait, Warp};
use crate::state::wgmma::{Hold, Lock, Pending};
use crate::units::proxy::Issue;
use crate::units::wgmma_math;
use crate::units::wgmma_math::Desc;

impl Simulator<'_> {
    /// An ordinary instruction names 32-bit planes.
    pub(crate) fn touch(&self, w: &mut Warp, at: u32) -> R<()> {
        let f = &mut w.frag;
        if f.touch.is_empty() {
            f.touch = vec![(0, 0); self.prog.r.len()];
            f.locks = vec![Lock::default(); self.prog.r.len()];
        }
        for &r in &self.prog.touched[at as usize] {
            let l = f.locks[r as usize];
            if l.hold != Hold::Free {
                let m = format!(
                    "a register is used that {} of a wgmma whose completion has not been waited for",
                    if l.hold == Hold::A { "holds the A operand" } else { "is an accumulator" }
                );
                let mut e = self.fail(w, at, ErrorKind::InFlight, m, None, None);
                e.other = Some(Box::new(self.site(w, l.at, None, None)));
                e.notes.push("a wgmma.wait_group that covers it must come first".to_string());
                return Err(e);
            }
            f.touch[r as usize] = (w.seq, at);
        }
        Ok(())
    }

    /// All 32 lanes of a warp of a whole warpgroup.
    fn in_group(&self, w: &Warp, at: u32, mask: u32) -> R<usize> {
        self.whole_warp(w, at, mask)?;
        let g = w.id / 4;
        if 4 * g + 4 > self.n_warps {
            let m = "wgmma needs a whole warpgroup: four warps from a multiple of four on";
            return Err(self.fail(w, at, ErrorKind::Divergence, m, None, None));
        }
        Ok(g as usize)
    }

    /// `wgmma.fence`.
    pub(crate) fn wg_fence(&mut self, w: &mut Warp, at: u32, mask: u32) -> R<()> {
        self.in_group(w, at, mask)?;
        w.frag.fence = Some((w.seq, Box::new(w.clocks.clone())));
        Ok(())
    }

    /// `wgmma.commit_group`.
    pub(crate) fn wg_commit(&mut self, w: &mut Warp, at: u32, mask: u32) -> R<()> {
        self.in_group(w, at, mask)?;
        w.frag.committed += 1;
        Ok(())
    }

    fn one(&self, w: &Warp, at: u32, r: Reg, what: &str) -> R<u64> {
        let p = w.poison(r);
        if p != 0 {
            let m = format!("the {what} is an undefined value");
            return Err(self.fail(w, at, ErrorKind::Poison, m, Some(p.trailing_zeros()), None));
        }
        let v = w.d64(r);
        if let Some(l) = v.iter().position(|x| *x != v[0]) {
            let m = format!("the {what} is not the same in all lanes");
            return Err(self.fail(w, at, ErrorKind::Divergence, m, Some(l as u32), None));
        }
        Ok(v[0])
    }

    fn hold(&self, w: &mut Warp, at: u32, r: Reg, hold: Hold) -> R<()> {
        let ordinal = w.frag.committed + 1;
        let fence_seq = w.frag.fence.as_ref().map_or(0, |f| f.0);
        let l = w.frag.locks[r.i()];
        if l.hold == Hold::Free {
            let (seq, site) = w.frag.touch[r.i()];
            if seq > fence_seq {
                let m = "a register of this wgmma was used by ordinary code since the last wgmma.fence";
                let mut e = self.fail(w, at, ErrorKind::InFlight, m, None, None);
                e.other = Some(Box::new(self.site(w, site, None, None)));
                return Err(e);
            }
            w.frag.locked += 1;
        } else if l.hold != hold {
            let m = "a register of this wgmma is in use by an earlier one of another shape or role that has not been waited for";
            let mut e = self.fail(w, at, ErrorKind::InFlight, m, None, None);
            e.other = Some(Box::new(self.site(w, l.at, None, None)));
            return Err(e);
        }
        w.frag.locks[r.i()] = Lock { hold, ordinal, at };
        Ok(())
    }

    /// `wgmma.mma_async`.
    pub(crate) fn wgmma(&mut self, w: &mut Warp, at: u32, mask: u32, o: &Wgmma) -> R<()> {
        let g = self.in_group(w, at, mask)?;
        if w.frag.fence.is_none() {
            let m = "no wgmma.fence comes before the first wgmma";
            return Err(self.fail(w, at, ErrorKind::InFlight, m, None, None));
        }
        if w.frag.touch.is_empty() {
            w.frag.touch = vec![(0, 0); self.prog.r.len()];
            w.frag.locks = vec![Lock::default(); self.prog.r.len()];
        }
        let b = self.one(w, at, o.b, "descriptor of B")?;
        let a = match &o.a {
            WgA::Desc(r) => Some(self.one(w, at, *r, "descriptor of A")?),
            WgA::Regs(_) => None,
        };
        let px = w.px[o.scale_d.p.0 as usize];
        if px != 0 {
            let m = "the scale-d predicate is undefined";
            return Err(self.fail(w, at, ErrorKind::Poison, m, Some(px.trailing_zeros()), None));
        }
        let p = w.pred(o.scale_d);
        if p != 0 && p != FULL {
            let m = "the scale-d predicate is not the same in all lanes";
            return Err(self.fail(w, at, ErrorKind::Divergence, m, Some(p.trailing_zeros()), None));
        }
        let shape = Hold::Acc(o.n, o.acc.bytes());
        for &r in &o.d {
            self.hold(w, at, r, shape)?;
        }
        if let WgA::Regs(regs) = &o.a {
            for &r in regs {
                self.hold(w, at, r, Hold::A)?;
            }
        }
        let mine =
            Pending { at, warps: 0, a, b, scale_d: p != 0, ordinal: w.frag.committed + 1, eye: None, hb: Vec::new(), computed: false };
        let k = w.frag.issued;
        w.frag.issued += 1;
        let group = &mut self.ctas[self.cur].groups[g];
        let i = (k - group.base) as usize;
        if i == group.queue.len() {
            group.queue.push_back(mine.clone());
        }
        let q = &mut group.queue[i];
        if (q.at, q.a, q.b, q.scale_d, q.ordinal) != (mine.at, mine.a, mine.b, mine.scale_d, mine.ordinal) {
            let m = "the warps of a warpgroup disagree about a wgmma: instruction, descriptors, scale-d or group differ";
            let other = q.at;
            let first = 4 * g as u32 + q.warps.trailing_zeros();
            let mut e = self.fail(w, at, ErrorKind::Divergence, m, None, None);
            e.other = Some(Box::new(self.place(other, w.home, first, None, None)));
            return Err(e);
        }
        q.warps |= 1 << (w.id % 4);
        if let Some((_, c)) = &w.frag.fence {
            match &mut q.eye {
                None => q.eye = Some(c.clone()),
                Some(e) => e.meet(c),
            }
        }
        let mut hb = Clocks { hb: std::mem::take(&mut q.hb), ..Clocks::default() };
        hb.join_cause(&w.clocks.hb);
        q.hb = hb.hb;
        Self::tick(w);
        if q.warps != 15 {
            return Ok(());
        }
        self.wg_start(w, g, i, o)?;
        self.note(w.linear, at, What::Product { warpgroup: g as u32, group: mine.ordinal });
        let eager = match self.cfg.landing {
            Landing::Eager => true,
            Landing::Lazy => false,
            Landing::Random => self.rng.below(2) == 0,
        };
        if eager {
            self.wg_compute(w, g, i);
        }
        for x in &mut self.ctas[self.cur].warps[4 * g..4 * g + 4] {
            x.wake(Wait::Wgmma);
        }
        Ok(())
    }

    /// All four warps have issued operation `i` of the queue: checks its shared operands.
    fn wg_start(&mut self, w: &Warp, g: usize, i: usize, o: &Wgmma) -> R<()> {
        let stream = match self.ctas[self.cur].groups[g].stream {
            Some(s) => s,
            None => {
                let s = self.new_stream(StreamKind::Wgmma, w.linear, 4 * g as u32);
                self.ctas[self.cur].groups[g].stream = Some(s);
                s
            }
        };
        let q = &mut self.ctas[self.cur].groups[g].queue[i];
        let (a, b, ordinal) = (q.a, q.b, q.ordinal);
        let Some(eye) = q.eye.take() else { return Ok(()) };
        let issue = Issue { w, at: q.at, lane: 0, eye: &eye, stream, clock: ordinal, write: false, strong: false, generic: false };
        let dense = self.streams[stream as usize].dense;
        let owed = &mut self.ctas[self.cur].owed.streams;
        match owed.iter_mut().find(|x| x.0 == dense) {
            Some(x) => (x.1, x.2) = (ordinal, issue.at),
            None => owed.push((dense, ordinal, issue.at)),
        }
        let per = 16 / wgmma_math::element_bytes(o.a_ty);
        for (d, mn, mn_major) in [(a, 64, o.mn_major[0]), (Some(b), o.n, o.mn_major[1])] {
            let Some(d) = d else { continue };
            let chunks = Desc::decode(d).map(|d| d.chunks(mn, o.k, per, mn_major));
            let len = self.ctas[self.cur].shared.bytes.len() as u64;
            let chunks = match chunks {
                Ok(c) => c,
                Err(m) => return Err(self.fail(w, issue.at, ErrorKind::Undefined, m, None, None)),
            };
            if let Some(bad) = chunks.iter().find(|&&c| c < crate::memory::SHARED_BASE || c - crate::memory::SHARED_BASE + 16 > len) {
                let m =
                    format!("the matrix descriptor {d:#018x} reaches shared address {bad:#x}, outside the {len} bytes of shared memory");
                return Err(self.fail(w, issue.at, ErrorKind::OutOfBounds, m, None, Some(*bad)));
            }
            let mut k = 0;
            while k < chunks.len() {
                let off = chunks[k] - crate::memory::SHARED_BASE;
                // Neighbouring chunks of one granule go together.
                let pair = chunks.get(k + 1).is_some_and(|c| c / 32 == chunks[k] / 32);
                let (from, n) = if pair { (off / 32 * 32, 32) } else { (off, 16) };
                self.async_shared(&issue, self.cur, from, n)?;
                let s = &self.ctas[self.cur].shared;
                let missing = !s.written.get(from as usize, n as u32) & ((1u64 << n) - 1) as u32;
                if missing != 0 && self.cfg.strict_uninit {
                    let at = crate::memory::SHARED_BASE + from + u64::from(missing.trailing_zeros());
                    let m = "an operand of this wgmma was never written";
                    return Err(self.fail(w, issue.at, ErrorKind::Uninitialised, m, None, Some(at)));
                }
                k += 1 + usize::from(pair);
            }
        }
        Ok(())
    }

    /// Computes the queue up to operation `i`.
    fn wg_compute(&mut self, w: &mut Warp, g: usize, i: usize) {
        for k in 0..=i {
            let q = &mut self.ctas[self.cur].groups[g].queue[k];
            if std::mem::replace(&mut q.computed, true) {
                continue;
            }
            let (at, a, b, scale_d) = (q.at, q.a, q.b, q.scale_d);
            let Op::Hop(h) = &self.prog.code[at as usize].op else { continue };
            let Hop::Wgmma(o) = h.as_ref() else { continue };
            let cta = &mut self.ctas[self.cur];
            let (shared, warps) = (&cta.shared, &mut cta.warps[4 * g..4 * g + 4]);
            // The running warp is not in its place.
            let me = w.id as usize % 4;
            std::mem::swap(&mut warps[me], w);
            wgmma_math::compute(shared, warps, o, a, b, scale_d);
            std::mem::swap(&mut warps[me], w);
        }
    }

    /// `wgmma.wait_group`.
    pub(crate) fn wg_wait(&mut self, w: &mut Warp, at: u32, mask: u32, n: u32) -> R<()> {
        let g = self.in_group(w, at, mask)?;
        let upto = w.frag.committed.saturating_sub(n);
        let group = &self.ctas[self.cur].groups[g];
        let me = 1 << (w.id % 4);
        let covered = group.queue.iter().take_while(|q| q.ordinal <= upto && q.warps & me != 0).count();
        if group.queue.iter().take(covered).any(|q| q.warps != 15) {
            self.stats[at as usize].executed -= 1;
            w.park(at, Wait::Wgmma);
            return Ok(());
        }
        if covered > 0 {
            self.wg_compute(w, g, covered - 1);
            self.note(w.linear, at, What::ProductsDone { warpgroup: g as u32, group: upto });
        }
        let group = &self.ctas[self.cur].groups[g];
        for q in group.queue.iter().take(covered) {
            w.clocks.join_cause(&q.hb);
        }
        if let Some(s) = group.stream {
            w.clocks.raise(self.streams[s as usize].dense, upto);
        }
        w.frag.waited = w.frag.waited.max(upto);
        if w.frag.locked > 0 {
            let mut left = 0;
            for l in &mut w.frag.locks {
                if l.hold != Hold::Free {
                    if l.ordinal <= upto {
                        l.hold = Hold::Free;
                    } else {
                        left += 1;
                    }
                }
            }
            w.frag.locked = left;
        }
        // Operations that all four warps have waited for are forgotten.
        let cta = &mut self.ctas[self.cur];
        let all = (0..4).map(|k| if k == w.id as usize % 4 { w.frag.waited } else { cta.warps[4 * g + k].frag.waited }).min().unwrap_or(0);
        let group = &mut cta.groups[g];
        while group.queue.front().is_some_and(|q| q.ordinal <= all && q.warps == 15) {
            group.queue.pop_front();
            group.base += 1;
        }
        Ok(())
    }

    /// What a warp that waits for its warpgroup misses.
    pub(crate) fn group_words(&self, c: usize, w: &Warp) -> String {
        let g = w.id as usize / 4;
        let q = self.ctas[c].groups[g].queue.iter().find(|q| q.warps >> (w.id % 4) & 1 == 1 && q.warps != 15);
        match q {
            None => "for its warpgroup".to_string(),
            Some(q) => {
                let missing: Vec<String> = (0..4).filter(|k| q.warps >> k & 1 == 0).map(|k| (4 * g + k).to_string()).collect();
                format!("for warps {} to issue {}", missing.join(", "), self.site(w, q.at, None, None))
            }
        }
    }
}
