//! mbarriers: phases, pending arrivals, transaction bytes, and who may wait for what.
//!
//! A phase completes when no arrival is pending and the transaction count is zero. Only its parity can be waited for, so
//! every wait is judged by what the waiting warp *knows*: of the phases it knows to be complete, the wait means the last one or the
//! next. A barrier that is further on by then has lost the wait ([`ErrorKind::Phase`]). The same fault is looked for
//! ahead of time: when a phase completes, every warp that waits or waited for the phase before must have been seen past its wait by
//! somebody who helped to complete this one.
//!
//! A phase keeps the knowledge its arrivals released. Arrivals from other CTAs hand over ordinary data only when they are
//! `.release.cluster` and the wait is `.acquire.cluster`; with the default scope they only count (which is enough to
//! order asynchronous copies behind asynchronous reads, the way ring buffers use them).

use crate::config::Policy;
use crate::error::{ErrorKind, Fail, R, Site};
use crate::memory::SHARED_BASE;
use crate::program::hop::{Arrive, MbarWait, Phase, Sem};
use crate::program::operand::{Addr, Reg};
use crate::record::What;
use crate::state::Simulator;
use crate::state::mbar::{At, Mbar, Released};
use crate::state::race::{Clocks, StreamKind};
use crate::state::warp::{Wait, Warp, lanes};
use crate::types::Space;

/// Largest expected count and largest transaction count.
const MAX_COUNT: i64 = (1 << 20) - 1;
/// Polls answered "not yet" before a warp is put to sleep until the phase completes.
const POLLS: u32 = 3;

impl Simulator<'_> {
    /// CTA positions and window offsets of 8-byte mbarrier addresses.
    fn mbar_places(&self, w: &Warp, at: u32, mask: u32, addr: &Addr) -> R<[(usize, u64); 32]> {
        let pl = self.addresses(w, at, mask, addr)?;
        let mut out = [(self.cur, 0); 32];
        for l in lanes(mask) {
            if pl.shared >> l & 1 == 0 {
                let m = "an mbarrier is in shared memory, this address is not";
                return Err(self.fail(w, at, ErrorKind::OutOfBounds, m, Some(l as u32), Some(pl.addr[l])));
            }
            let (cta, a) = if addr.space == Space::Shared { (self.cur, pl.addr[l]) } else { self.cluster_address(w, at, l, pl.addr[l])? };
            if a & 7 != 0 {
                let m = "an mbarrier at an address that is not a multiple of 8";
                return Err(self.fail(w, at, ErrorKind::Misaligned, m, Some(l as u32), Some(a)));
            }
            let off = a.wrapping_sub(SHARED_BASE);
            if off.saturating_add(8) > self.ctas[cta].shared.bytes.len() as u64 {
                let m = format!("an mbarrier outside the {} bytes of shared memory", self.ctas[cta].shared.bytes.len());
                return Err(self.fail(w, at, ErrorKind::OutOfBounds, m, Some(l as u32), Some(a)));
            }
            out[l] = (cta, off);
        }
        Ok(out)
    }

    /// The live mbarrier at an offset, whose initialisation `w` must know. `remote`: the operation comes from another CTA or from an
    /// asynchronous unit.
    pub(crate) fn mbar_at(&self, w: &Warp, at: u32, lane: usize, cta: usize, off: u64, remote: bool) -> R<At> {
        let addr = Some(SHARED_BASE + off);
        let Some(i) = self.ctas[cta].mbars.iter().position(|b| b.off == off) else {
            let near = self.ctas[cta].mbars.iter().any(|b| b.off.abs_diff(off) < 8);
            let m = if near { "the address is inside a live mbarrier" } else { "the mbarrier is not initialised (or was invalidated)" };
            return Err(self.fail(w, at, ErrorKind::Mbarrier, m, Some(lane as u32), addr));
        };
        let b = &self.ctas[cta].mbars[i];
        let (slot, clock, site) = b.init;
        let known = slot == w.slot || w.clocks.g[slot as usize] >= clock;
        let caused = slot == w.slot || w.clocks.hb[slot as usize] >= clock;
        let ready = known || (caused && b.fenced);
        if !ready {
            let m = "the mbarrier is used without an order after its initialisation";
            let mut e = self.fail(w, at, ErrorKind::Mbarrier, m, Some(lane as u32), addr);
            e.other = Some(Box::new(self.slot_site(w, site, slot)));
            e.notes.push("a CTA (or cluster) barrier is needed between mbarrier.init and the first use".to_string());
            return Err(e);
        }
        if remote && !b.fenced {
            let m = "the initialisation of the mbarrier is not fenced for other CTAs and asynchronous copies";
            let mut e = self.fail(w, at, ErrorKind::Mbarrier, m, Some(lane as u32), addr);
            e.other = Some(Box::new(self.slot_site(w, site, slot)));
            e.notes.push("fence.mbarrier_init.release.cluster is needed after mbarrier.init".to_string());
            return Err(e);
        }
        Ok((cta, i))
    }

    /// A place of some warp of the same cluster.
    pub(crate) fn slot_site(&self, _w: &Warp, at: u32, slot: u32) -> Site {
        let cluster = self.ctas[self.cur].cluster;
        self.place(at, self.cta_of(cluster, slot / self.n_warps), slot % self.n_warps, None, None)
    }

    fn value(&self, w: &Warp, at: u32, mask: u32, r: Reg, what: &str) -> R<[u64; 32]> {
        let bad = w.poison(r) & mask;
        if bad != 0 {
            let m = format!("the {what} is an undefined value");
            return Err(self.fail(w, at, ErrorKind::Poison, m, Some(bad.trailing_zeros()), None));
        }
        Ok(w.wide(r))
    }

    /// `mbarrier.init`.
    pub(crate) fn mbar_init(&mut self, w: &mut Warp, at: u32, mask: u32, addr: &Addr, count: Reg) -> R<()> {
        let places = self.mbar_places(w, at, mask, addr)?;
        let counts = self.value(w, at, mask, count, "count")?;
        for l in lanes(mask) {
            let (cta, off) = places[l];
            let n = counts[l] as i64;
            let here = Some(SHARED_BASE + off);
            if !(1..=MAX_COUNT).contains(&n) {
                let m = format!("count {n} is not from 1 to {MAX_COUNT}");
                return Err(self.fail(w, at, ErrorKind::Mbarrier, m, Some(l as u32), here));
            }
            if let Some(b) = self.ctas[cta].mbars.iter().find(|b| b.off.abs_diff(off) < 8) {
                let m = "an mbarrier is initialised where one is live: mbarrier.inval must come first";
                let (slot, _, site) = b.init;
                let mut e = self.fail(w, at, ErrorKind::Mbarrier, m, Some(l as u32), here);
                e.other = Some(Box::new(self.slot_site(w, site, slot)));
                return Err(e);
            }
            if self.cfg.races {
                let g = off / crate::state::race::GRANULE;
                self.shared_one(w, at, Some(l as u32), g, crate::state::race::byte_mask(off, 8), crate::exec::track::Access::Write)?;
            }
            let s = &mut self.ctas[cta].shared;
            s.written.set(off as usize, 8, true);
            s.poison.set(off as usize, 8, false);
            let stream = self.new_stream(StreamKind::Mbar, w.linear, w.id);
            let dense = self.streams[stream as usize].dense;
            let init = (w.slot, w.clocks.g[w.slot as usize], at);
            let b = Mbar {
                off,
                stream,
                dense,
                count: n,
                pending: n,
                tx: 0,
                phase: 0,
                fenced: false,
                init,
                now: Released::default(),
                last: Released::default(),
                waiters: Vec::new(),
                log: Vec::new(),
                in_flight: 0,
            };
            self.ctas[cta].mbars.push(b);
            self.note(self.ctas[cta].linear, at, What::Mbarrier { offset: off });
        }
        Self::tick(w);
        Ok(())
    }

    /// `fence.mbarrier_init` or another fence that covers initialisations of this warp.
    pub(crate) fn mbar_fence(&mut self, w: &Warp) {
        for b in &mut self.ctas[self.cur].mbars {
            b.fenced |= b.init.0 == w.slot;
        }
    }

    /// `mbarrier.inval`.
    pub(crate) fn mbar_inval(&mut self, w: &mut Warp, at: u32, mask: u32, addr: &Addr) -> R<()> {
        let places = self.mbar_places(w, at, mask, addr)?;
        for l in lanes(mask) {
            let (cta, off) = places[l];
            let (_, i) = self.mbar_at(w, at, l, cta, off, false)?;
            let b = &self.ctas[cta].mbars[i];
            let sleeping = b.waiters.iter().any(|x| x.2.is_none());
            if b.in_flight > 0 || sleeping {
                let m = format!(
                    "the mbarrier is invalidated while {}",
                    if sleeping { "a warp waits on it" } else { "copies that complete on it are in flight" }
                );
                return Err(self.fail(w, at, ErrorKind::Mbarrier, m, Some(l as u32), Some(SHARED_BASE + off)));
            }
            // Everybody who passed a wait must be known to have done so.
            if let Some(x) = b.waiters.iter().find(|x| x.2.is_some_and(|e| w.slot != x.0 && w.clocks.hb[x.0 as usize] < e)) {
                let m = format!("the mbarrier is invalidated without an order after the wait of warp {}", x.0 % self.n_warps);
                return Err(self.fail(w, at, ErrorKind::Mbarrier, m, Some(l as u32), Some(SHARED_BASE + off)));
            }
            self.ctas[cta].mbars.swap_remove(i);
            self.ctas[cta].shared.written.set(off as usize, 8, false);
        }
        Ok(())
    }

    /// Adds to the transaction count.
    pub(crate) fn mbar_tx(&mut self, (cta, i): At, delta: i64) -> Result<(), String> {
        let b = &mut self.ctas[cta].mbars[i];
        b.tx += delta;
        if b.tx.abs() > MAX_COUNT {
            return Err(format!("the transaction count becomes {}, beyond {MAX_COUNT}", b.tx));
        }
        Ok(())
    }

    /// Takes `n` arrivals off the pending count.
    fn take_arrivals(&mut self, (cta, i): At, n: i64, who: (u32, u32)) -> Result<(), String> {
        let b = &mut self.ctas[cta].mbars[i];
        if n > b.pending {
            let done: u32 = b.log.iter().map(|x| x.2).sum();
            return Err(format!(
                "{n} arrivals when {} of {} are pending in phase {} ({done} have arrived, transaction count {})",
                b.pending, b.count, b.phase, b.tx
            ));
        }
        b.pending -= n;
        b.log.push((who.0, who.1, n as u32));
        Ok(())
    }

    /// Completes the phase if nothing is missing. An error tells why it must not complete.
    pub(crate) fn mbar_check(&mut self, (cta, i): At) -> Result<(), (String, Option<Site>)> {
        let rank0 = cta - self.ctas[cta].rank as usize;
        let per = self.n_warps as usize;
        let linear = self.ctas[cta].linear;
        let b = &self.ctas[cta].mbars[i];
        if b.pending != 0 || b.tx != 0 {
            return Ok(());
        }
        if b.in_flight > 0 {
            let f = self.flights.iter().find(|f| f.mbar.is_some_and(|m| m.0 == linear && m.1 == b.off));
            let site = f.map(|f| self.issue_site(f));
            let m = format!(
                "phase {} of the mbarrier at {:#x} completes although {} copies that count on it are still in flight: \
                 their bytes were not expected",
                b.phase,
                SHARED_BASE + b.off,
                b.in_flight
            );
            return Err((m, site));
        }
        // Whoever waited for the phase before must be known to be past it.
        for &(slot, phase, passed) in &b.waiters {
            if phase + 1 != b.phase {
                continue;
            }
            let hb = b.now.near.hb.get(slot as usize).copied().unwrap_or(0).max(b.now.far.hb.get(slot as usize).copied().unwrap_or(0));
            if passed.is_none_or(|e| hb < e) {
                let other = &self.ctas[rank0 + slot as usize / per];
                let m = format!(
                    "phase {} of the mbarrier at {:#x} completes without an order after warp {} of CTA {:?} has seen phase {phase}: \
                     that warp can miss it and wait for ever",
                    b.phase,
                    SHARED_BASE + b.off,
                    slot as usize % per,
                    other.id
                );
                return Err((m, None));
            }
        }
        let b = &mut self.ctas[cta].mbars[i];
        let phase = b.phase;
        b.waiters.retain(|x| x.1 >= phase);
        b.last = std::mem::take(&mut b.now);
        b.phase += 1;
        b.pending = b.count;
        b.log.clear();
        self.wakes.push(b.stream);
        let offset = b.off;
        if let Some(r) = &mut self.record {
            r.push(linear, 0, What::Phase { offset, phase });
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "every value goes into the report")]
    fn mbar_fail(&self, w: &Warp, at: u32, lane: usize, kind: ErrorKind, m: String, addr: u64, other: Option<Site>) -> Fail {
        let mut e = self.fail(w, at, kind, m, Some(lane as u32), Some(addr));
        e.other = other.map(Box::new);
        e
    }

    /// Gives the knowledge of `w` to the current phase.
    fn release_to(&mut self, w: &Warp, (cta, i): At, sem: Sem) {
        let local = cta == self.cur;
        let b = &mut self.ctas[cta].mbars[i];
        b.now.near.join_cause(&w.clocks.hb);
        if sem.relaxed {
            return;
        }
        if local {
            b.now.near.join(&w.clocks);
        } else {
            b.now.near.join_count(&w.clocks);
            if sem.cluster {
                b.now.far.join(&w.clocks);
            }
        }
    }

    /// `mbarrier.arrive`, `arrive_drop`, with or without `expect_tx`.
    pub(crate) fn mbar_arrive(&mut self, w: &mut Warp, at: u32, mask: u32, a: &Arrive) -> R<()> {
        let places = self.mbar_places(w, at, mask, &a.addr)?;
        let counts = match a.count {
            Some(r) => self.value(w, at, mask, r, "count")?,
            None => [1; 32],
        };
        let tx = match a.tx {
            Some(r) => self.value(w, at, mask, r, "transaction count")?,
            None => [0; 32],
        };
        Self::publish_copies(w, mask);
        let mut state = [0u64; 32];
        for l in lanes(mask) {
            let (cta, off) = places[l];
            let addr = SHARED_BASE + off;
            let mb = self.mbar_at(w, at, l, cta, off, cta != self.cur)?;
            self.touch_remote(w, at, cta);
            let n = counts[l] as i64;
            if !(1..=MAX_COUNT).contains(&n) {
                let m = format!("arrival count {n} is not from 1 to {MAX_COUNT}");
                return Err(self.fail(w, at, ErrorKind::Mbarrier, m, Some(l as u32), Some(addr)));
            }
            let b = &self.ctas[cta].mbars[mb.1];
            state[l] = b.phase << 20 | b.pending as u64;
            self.release_to(w, mb, a.sem);
            let slot = w.slot;
            let r = self.mbar_tx(mb, tx[l] as i64).and_then(|()| self.take_arrivals(mb, n, (slot, at)));
            if let Err(m) = r {
                let b = &self.ctas[cta].mbars[mb.1];
                let other = b.log.first().map(|x| self.slot_site(w, x.1, x.0));
                return Err(self.mbar_fail(w, at, l, ErrorKind::Mbarrier, m, addr, other));
            }
            let b = &mut self.ctas[cta].mbars[mb.1];
            if a.drop {
                b.count -= n;
                if b.count < 0 {
                    let m = "more participants are dropped than the mbarrier expects".to_string();
                    return Err(self.mbar_fail(w, at, l, ErrorKind::Mbarrier, m, addr, None));
                }
            }
            if a.no_complete && b.pending == 0 {
                let m = "an arrival marked .noComplete completes the phase".to_string();
                return Err(self.mbar_fail(w, at, l, ErrorKind::Mbarrier, m, addr, None));
            }
            if let Err((m, o)) = self.mbar_check(mb) {
                return Err(self.mbar_fail(w, at, l, ErrorKind::Phase, m, addr, o));
            }
        }
        if let Some(d) = a.state {
            w.set_d(d, mask, &state, 0);
        }
        Self::tick(w);
        Ok(())
    }

    /// `mbarrier.expect_tx` and `complete_tx`.
    pub(crate) fn mbar_count_tx(&mut self, w: &mut Warp, at: u32, mask: u32, addr: &Addr, bytes: Reg, expect: bool) -> R<()> {
        let places = self.mbar_places(w, at, mask, addr)?;
        let bytes = self.value(w, at, mask, bytes, "transaction count")?;
        for l in lanes(mask) {
            let (cta, off) = places[l];
            let mb = self.mbar_at(w, at, l, cta, off, cta != self.cur)?;
            self.touch_remote(w, at, cta);
            let n = bytes[l] as i64;
            let addr = SHARED_BASE + off;
            if let Err(m) = self.mbar_tx(mb, if expect { n } else { -n }) {
                return Err(self.mbar_fail(w, at, l, ErrorKind::Mbarrier, m, addr, None));
            }
            if let Err((m, o)) = self.mbar_check(mb) {
                return Err(self.mbar_fail(w, at, l, ErrorKind::Phase, m, addr, o));
            }
        }
        Ok(())
    }

    /// An asynchronous operation arrives or completes transactions for somebody who is not running.
    pub(crate) fn mbar_async(&mut self, mb: At, tx: i64, arrivals: i64, who: (u32, u32)) -> Result<(), (ErrorKind, String, Option<Site>)> {
        self.mbar_tx(mb, -tx).map_err(|m| (ErrorKind::Mbarrier, m, None))?;
        if arrivals > 0 {
            self.take_arrivals(mb, arrivals, who).map_err(|m| (ErrorKind::Mbarrier, m, None))?;
        }
        self.mbar_check(mb).map_err(|(m, s)| (ErrorKind::Phase, m, s))
    }

    /// Knowledge an asynchronous operation adds to the current phase.
    pub(crate) fn mbar_now(&mut self, (cta, i): At) -> &mut Clocks {
        &mut self.ctas[cta].mbars[i].now.near
    }

    /// `mbarrier.test_wait` and `try_wait`.
    pub(crate) fn mbar_wait(&mut self, w: &mut Warp, at: u32, mask: u32, m: &MbarWait) -> R<()> {
        let places = self.mbar_places(w, at, mask, &m.addr)?;
        let want = match m.phase {
            Phase::State(r) | Phase::Parity(r) => self.value(w, at, mask, r, "phase")?,
        };
        let mut yes = 0u32;
        let mut sleep = None;
        for l in lanes(mask) {
            let (cta, off) = places[l];
            let addr = SHARED_BASE + off;
            if cta != self.cur {
                let e = "an mbarrier of another CTA cannot be waited for".to_string();
                return Err(self.mbar_fail(w, at, l, ErrorKind::Mbarrier, e, addr, None));
            }
            let (_, i) = self.mbar_at(w, at, l, cta, off, false)?;
            let b = &self.ctas[cta].mbars[i];
            let known = u64::from(w.clocks.stream(b.dense)).max(w.seen.as_ref().map_or(0, |c| c.stream(b.dense).into()));
            // The phase that is meant: `None` is the one before the first.
            let phase = match m.phase {
                Phase::State(_) => Some(want[l] >> 20),
                Phase::Parity(_) if want[l] > 1 => {
                    let e = format!("phase parity {} is not 0 or 1", want[l]);
                    return Err(self.mbar_fail(w, at, l, ErrorKind::Mbarrier, e, addr, None));
                }
                Phase::Parity(_) => {
                    if known & 1 == want[l] {
                        Some(known)
                    } else {
                        known.checked_sub(1)
                    }
                }
            };
            let next = phase.map_or(0, |p| p + 1);
            if b.phase > next || b.phase + 1 < next {
                let e = format!(
                    "this waits for phase {} but the mbarrier is in phase {} already: the wait came too late",
                    phase.map_or("before the first".to_string(), |p| p.to_string()),
                    b.phase
                );
                return Err(self.mbar_fail(w, at, l, ErrorKind::Phase, e, addr, None));
            }
            // A wait may fail for no reason: programs must loop.
            let spurious = matches!(self.cfg.policy, Policy::Random) && m.suspend && self.rng.below(8) == 0;
            let b = &self.ctas[cta].mbars[i];
            if b.phase == next && spurious {
                w.since_poll = 0;
            } else if b.phase == next {
                yes |= 1 << l;
                self.mbar_pass(w, (cta, i), phase, m.sem);
            } else {
                let b = &mut self.ctas[cta].mbars[i];
                // A single test is no promise to look again.
                let waits = m.suspend || w.polls >= POLLS;
                if waits && !b.waiters.iter().any(|x| x.0 == w.slot && x.1 + 1 == next && x.2.is_none()) {
                    b.waiters.push((w.slot, next - 1, None));
                }
                sleep = Some(b.stream);
            }
        }
        match sleep {
            Some(stream) if yes == 0 && w.polls != u32::MAX => {
                if w.polls >= if m.suspend { 1 } else { POLLS } {
                    self.stats[at as usize].executed -= 1;
                    w.polls = 0;
                    w.park(at, Wait::Mbar(stream));
                    return Ok(());
                }
                w.polls += 1;
                w.since_poll = 0;
            }
            Some(_) => {
                w.polls = 0;
                w.since_poll = 0;
            }
            None => w.polls = 0,
        }
        w.set_p(m.p, mask, yes, 0);
        Ok(())
    }

    /// A wait of `w` for `phase` has succeeded.
    fn mbar_pass(&mut self, w: &mut Warp, (cta, i): At, phase: Option<u64>, sem: Sem) {
        let Some(p) = phase else { return };
        let me = w.clocks.g[w.slot as usize];
        let b = &mut self.ctas[cta].mbars[i];
        match b.waiters.iter_mut().find(|x| x.0 == w.slot && x.1 == p) {
            Some(x) => x.2 = Some(x.2.unwrap_or(me)),
            None => b.waiters.push((w.slot, p, Some(me))),
        }
        if sem.relaxed {
            let c = w.seen.get_or_insert_default();
            c.join(&b.last.near);
            if sem.cluster {
                c.join(&b.last.far);
            }
            c.raise(b.dense, p as u32 + 1);
            w.clocks.join_cause(&b.last.near.hb);
            return;
        }
        w.learn(&b.last.near);
        if sem.cluster {
            w.learn(&b.last.far);
        }
        w.clocks.raise(b.dense, p as u32 + 1);
    }

    /// Wakes the warps that wait for the phases completed since the last call.
    pub(crate) fn wake_waiters(&mut self, w: &mut Warp) {
        for stream in std::mem::take(&mut self.wakes) {
            self.futile = 0;
            for x in self.ctas.iter_mut().flat_map(|c| c.warps.iter_mut()).chain(std::iter::once(&mut *w)) {
                let mut woken = false;
                for g in x.others.iter_mut().filter(|g| g.wait == Wait::Mbar(stream)) {
                    g.wait = Wait::No;
                    woken = true;
                }
                if woken {
                    x.polls = 0;
                    x.pick();
                }
            }
        }
    }

    /// Lets every sleeping poll answer "not yet" once. Returns whether there was one.
    pub(crate) fn wake_polls(&mut self) -> bool {
        let mut any = false;
        for x in self.ctas.iter_mut().flat_map(|c| c.warps.iter_mut()) {
            let mut woken = false;
            for g in x.others.iter_mut().filter(|g| matches!(g.wait, Wait::Mbar(_))) {
                g.wait = Wait::No;
                woken = true;
            }
            if woken {
                // The next poll gives its answer instead of sleeping.
                x.polls = u32::MAX;
                x.pick();
            }
            any |= woken;
        }
        any
    }

    /// State of an mbarrier for a deadlock report.
    pub(crate) fn mbar_words(&self, stream: u32, slot: u32) -> String {
        let Some((c, b)) = self.ctas.iter().find_map(|c| Some((c, c.mbars.iter().find(|b| b.stream == stream)?))) else {
            return "an mbarrier that is gone".to_string();
        };
        let phase = b.waiters.iter().find(|x| x.0 == slot && x.2.is_none()).map_or(b.phase, |x| x.1);
        let who: Vec<String> = b
            .log
            .iter()
            .map(|x| {
                let s = self.place(x.1, self.cta_of(c.cluster, x.0 / self.n_warps), x.0 % self.n_warps, None, None);
                format!("{} x {s}", x.2)
            })
            .collect();
        format!(
            "phase {phase} (parity {}) of the mbarrier at shared address {:#x}: {} of {} arrivals are pending, transaction count {}{}",
            phase & 1,
            SHARED_BASE + b.off,
            b.pending,
            b.count,
            b.tx,
            if who.is_empty() { String::new() } else { format!("; arrived: {}", who.join(", ")) }
        )
    }
}
