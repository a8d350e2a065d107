//! Clusters: their barrier, addresses of other CTAs, what must be over before a CTA exits; and the register pool of a CTA.

use crate::error::{ErrorKind, R};
use crate::memory::{RANK_SHIFT, SHARED_WINDOW};
use crate::program::operand::Reg;
use crate::state::Simulator;
use crate::state::race::StreamKind;
use crate::state::warp::{Wait, Warp, lanes};

impl Simulator<'_> {
    /// All live lanes must be here for `.aligned`; `true` when the group was put aside to wait for them.
    fn gather(&mut self, w: &mut Warp, at: u32, mask: u32, aligned: bool) -> R<bool> {
        if !aligned || mask == w.live {
            return Ok(false);
        }
        let missing = w.live & !mask;
        if missing & w.active != 0 || w.others.iter().all(|g| g.pc > at) {
            let m = format!("an aligned barrier is executed by lanes {mask:#010x} while lanes {missing:#010x} of the warp are elsewhere");
            return Err(self.fail(w, at, ErrorKind::Divergence, m, Some(missing.trailing_zeros()), None));
        }
        self.await_lanes(w, at, missing)?;
        Ok(true)
    }

    /// `barrier.cluster.arrive`.
    pub(crate) fn cluster_arrive(&mut self, w: &mut Warp, at: u32, mask: u32, relaxed: bool, aligned: bool) -> R<()> {
        if self.gather(w, at, mask, aligned)? {
            return Ok(());
        }
        Self::publish_copies(w, mask);
        let lead = self.lead();
        let b = &mut self.ctas[lead].barrier;
        let s = w.slot as usize;
        let twice = b.unwaited[s] & mask;
        if twice != 0 {
            let m = "a thread arrives at the cluster barrier again before it has waited";
            return Err(self.fail(w, at, ErrorKind::Cluster, m, Some(twice.trailing_zeros()), None));
        }
        b.arrived[s] |= mask;
        b.unwaited[s] |= mask;
        if relaxed {
            b.now.join_cause(&w.clocks.hb);
        } else {
            b.now.join(&w.clocks);
        }
        Self::tick(w);
        self.cluster_check(Some(w));
        Ok(())
    }

    /// Completes the cluster barrier when every live thread has arrived.
    fn cluster_check(&mut self, running: Option<&mut Warp>) {
        let lead = self.lead();
        let size = self.cluster_size as usize;
        let n = self.n_warps as usize;
        let live = |s: usize| match &running {
            Some(w) if w.slot as usize == s => w.live,
            _ => self.ctas[lead + s / n].warps[s % n].live,
        };
        let b = &self.ctas[lead].barrier;
        if b.arrived.iter().all(|&m| m == 0) || !(0..size * n).all(|s| live(s) & !b.arrived[s] == 0) {
            return;
        }
        let b = &mut self.ctas[lead].barrier;
        b.arrived.fill(0);
        b.last = std::mem::take(&mut b.now);
        for x in self.ctas[lead..lead + size].iter_mut().flat_map(|c| c.warps.iter_mut()).chain(running) {
            x.wake(Wait::Cluster);
        }
    }

    /// `barrier.cluster.wait`.
    pub(crate) fn cluster_wait(&mut self, w: &mut Warp, at: u32, mask: u32, aligned: bool) -> R<()> {
        if self.gather(w, at, mask, aligned)? {
            return Ok(());
        }
        let lead = self.lead();
        let b = &mut self.ctas[lead].barrier;
        let s = w.slot as usize;
        let never = mask & !b.unwaited[s];
        if never != 0 {
            let m = "a thread waits at the cluster barrier without having arrived";
            return Err(self.fail(w, at, ErrorKind::Cluster, m, Some(never.trailing_zeros()), None));
        }
        if b.arrived[s] & mask != 0 {
            self.stats[at as usize].executed -= 1;
            w.park(at, Wait::Cluster);
            return Ok(());
        }
        b.unwaited[s] &= !mask;
        w.learn(&b.last);
        Ok(())
    }

    /// `mapa`: the address of the same shared variable in another CTA.
    pub(crate) fn mapa(&self, w: &mut Warp, at: u32, mask: u32, regs: [Reg; 3], generic: bool) -> R<()> {
        let [d, a, rank] = regs;
        let bad = (w.poison(a) | w.poison(rank)) & mask;
        if bad != 0 {
            let m = "an operand of mapa is an undefined value";
            return Err(self.fail(w, at, ErrorKind::Poison, m, Some(bad.trailing_zeros()), None));
        }
        let (mut v, r) = (w.wide(a), w.r32(rank));
        let window = if generic { SHARED_WINDOW } else { 0 };
        for l in lanes(mask) {
            if r[l] >= self.cluster_size {
                let m = format!("CTA rank {} in a cluster of {}", r[l], self.cluster_size);
                return Err(self.fail(w, at, ErrorKind::Cluster, m, Some(l as u32), None));
            }
            let off = v[l].wrapping_sub(window) & ((1 << RANK_SHIFT) - 1);
            v[l] = window + (off | u64::from(r[l] + 1) << RANK_SHIFT);
        }
        w.set(d, mask, &v, 0);
        Ok(())
    }

    /// `getctarank`.
    pub(crate) fn get_cta_rank(&self, w: &mut Warp, mask: u32, d: Reg, a: Reg, generic: bool) {
        let p = w.poison(a);
        let own = self.ctas[self.cur].rank;
        let window = if generic { SHARED_WINDOW } else { 0 };
        let v = w.wide(a).map(|x| match x.wrapping_sub(window) >> RANK_SHIFT {
            0 => own,
            r => r as u32 - 1,
        });
        w.set_r(d, mask, &v, p);
    }

    /// `setmaxnreg`.
    pub(crate) fn set_max_nreg(&mut self, w: &mut Warp, at: u32, mask: u32, inc: bool, n: u32) -> R<()> {
        self.whole_warp(w, at, mask)?;
        if self.entry_regs.is_none() {
            let m = "setmaxnreg has no effect: the text does not fix the registers at entry (.minnctapersm with .maxntid, or .maxnreg)";
            return Err(self.fail(w, at, ErrorKind::Undefined, m, None, None));
        }
        let have = w.nreg;
        if inc && n < have || !inc && n > have {
            let m = format!("the warp has {have} registers per thread: {} to {n} is not allowed", if inc { "inc" } else { "dec" });
            return Err(self.fail(w, at, ErrorKind::Undefined, m, None, None));
        }
        let cta = &mut self.ctas[self.cur];
        if inc {
            let need = u64::from(n - have) * 32;
            if cta.free_regs < need {
                self.stats[at as usize].executed -= 1;
                w.park(at, Wait::Regs);
                return Ok(());
            }
            cta.free_regs -= need;
        } else {
            cta.free_regs += u64::from(have - n) * 32;
            for x in &mut cta.warps {
                x.wake(Wait::Regs);
            }
        }
        w.nreg = n;
        w.nreg_changes += 1;
        Ok(())
    }

    /// Lanes of a warp have exited (the warp is back in its place).
    pub(crate) fn lanes_left(&mut self, c: usize, wi: usize) -> R<()> {
        self.cur = c;
        self.cluster_check(None);
        let cta = &mut self.ctas[c];
        if cta.warps[wi].done() {
            let known = std::mem::take(&mut cta.warps[wi].clocks);
            cta.owed.known.join(&known);
            cta.warps[wi].clocks = known;
        }
        if cta.done() { self.cta_left(c, wi) } else { Ok(()) }
    }

    /// The CTA has exited: nothing may use its shared memory any more.
    fn cta_left(&mut self, c: usize, wi: usize) -> R<()> {
        let cta = &self.ctas[c];
        let last = self.prog.code.len() as u32 - 1;
        let w = &cta.warps[wi];
        let at = w.pc.saturating_sub(1).min(last);
        for &(dense, clock, site) in &cta.owed.streams {
            if cta.owed.known.stream(dense) >= clock {
                continue;
            }
            let Some(s) = self.streams.iter().find(|s| s.cluster == cta.cluster && s.dense == dense) else { continue };
            let what = match s.kind {
                StreamKind::Mbar => "an asynchronous copy into its shared memory has not been waited for (mbarrier)",
                StreamKind::BulkRead | StreamKind::BulkWrite => {
                    "a bulk copy may still read its shared memory (the issuing thread needs cp.async.bulk.wait_group.read 0)"
                }
                StreamKind::Bar => "a barrier is in use",
                StreamKind::Wgmma => "a wgmma has not been waited for (wgmma.wait_group 0)",
            };
            let mut e = self.fail(w, at, ErrorKind::InFlight, format!("the CTA exits while {what}"), None, None);
            e.other = Some(Box::new(self.place(site, self.coords(s.cta), s.warp, None, None)));
            return Err(e);
        }
        for (slot, (clock, site)) in cta.owed.remote.iter().enumerate() {
            let Some((op, linear, warp)) = *site else { continue };
            if cta.owed.known.hb.get(slot).is_none_or(|k| k < clock) {
                let m = "the CTA exits without an order after another CTA's access to its shared memory";
                let mut e = self.fail(w, at, ErrorKind::Cluster, m, None, None);
                e.other = Some(Box::new(self.place(op, self.coords(linear), warp, None, None)));
                e.notes.push("all CTAs of a cluster should meet at barrier.cluster before they exit".to_string());
                return Err(e);
            }
        }
        for group in cta.warps.chunks(4) {
            if let Some(x) = group.iter().find(|x| x.nreg_changes != group[0].nreg_changes) {
                let m = format!("setmaxnreg was executed by warp {} but not as often by warp {} of its warpgroup", group[0].id, x.id);
                return Err(self.fail(w, at, ErrorKind::Divergence, m, None, None));
            }
            if let Some(x) = group.iter().find(|x| x.nreg != group[0].nreg) {
                let [a, b] = [&group[0], x].map(|w| format!("warp {} to {} registers per thread", w.id, w.nreg));
                let m = format!("setmaxnreg brought {a}, but {b} of its warpgroup");
                return Err(self.fail(w, at, ErrorKind::Divergence, m, None, None));
            }
        }
        Ok(())
    }
}
