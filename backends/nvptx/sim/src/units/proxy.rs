//! Proxies: accesses of asynchronous units, checked against ordinary ones.
//!
//! An asynchronous access is made on behalf of the warp that issued it, but it sees ordinary writes only as far as a proxy fence
//! has covered them on some path to the issue. When the order is there and only the fence is missing, that is
//! [`ErrorKind::Proxy`]; without an order it is a race. Later accesses are ordered after it through the
//! [stream](crate::state::race::Stream) it belongs to.

use crate::error::{ErrorKind, R};
use crate::exec::track::stream_words;
use crate::memory::SHARED_BASE;
use crate::state::Simulator;
use crate::state::race::{ASYNC, Clocks, Fine, GRANULE, Rec, STREAM, byte_mask};
use crate::state::warp::{Warp, lanes};

/// An asynchronous access: who issued it, and the stream that tells when it is over.
#[derive(Clone, Copy)]
pub(crate) struct Issue<'a> {
    pub(crate) w: &'a Warp,
    pub(crate) at: u32,
    pub(crate) lane: u32,
    /// What its issuers know.
    pub(crate) eye: &'a Clocks,
    pub(crate) stream: u32,
    pub(crate) clock: u32,
    pub(crate) write: bool,
    /// A reduction.
    pub(crate) strong: bool,
    /// `st.async` and `red.async` are of the generic proxy.
    pub(crate) generic: bool,
}

impl Issue<'_> {
    fn rec(&self, mask: u32) -> Rec {
        Rec {
            agent: STREAM | self.stream,
            clock: self.clock,
            site: self.at,
            seq: self.w.seq,
            mask,
            lane: self.lane as u8,
            strong: self.strong,
            write: self.write,
        }
    }
}

impl Simulator<'_> {
    /// `fence.proxy.async`: what the warp knows becomes known to asynchronous operations it issues or signals from now on.
    pub(crate) fn fence_proxy(&mut self, w: &mut Warp, mask: u32, shared: bool, global: bool) {
        w.clocks.cover(shared, global);
        if shared && !w.clocks.a_copies.is_empty() {
            for l in lanes(mask) {
                let c = &mut w.clocks.a_copies[w.slot as usize * 32 + l];
                *c = (*c).max(w.waited[l]);
            }
        }
        if shared {
            self.mbar_fence(w);
        }
        Self::tick(w);
    }

    /// Checks and records an asynchronous access to bytes `off .. off + len` of the shared memory of the CTA at a position.
    pub(crate) fn async_shared(&mut self, i: &Issue<'_>, cta: usize, off: u64, len: u64) -> R<()> {
        if i.write
            && let Some(b) = self.ctas[cta].mbars.iter().find(|b| b.off + 8 > off && b.off < off + len)
        {
            let m = "an asynchronous copy writes over a live mbarrier";
            return Err(self.fail(i.w, i.at, ErrorKind::Mbarrier, m, Some(i.lane), Some(SHARED_BASE + b.off)));
        }
        if !self.cfg.races {
            return Ok(());
        }
        let mut o = off;
        while o < off + len {
            let end = (o / GRANULE + 1) * GRANULE;
            let n = end.min(off + len) - o;
            self.async_granule(i, cta, o / GRANULE, byte_mask(o, n))?;
            o += n;
        }
        Ok(())
    }

    fn async_granule(&mut self, i: &Issue<'_>, cta: usize, granule: u64, mask: u32) -> R<()> {
        let (eye, streams, strict, generic) = (i.eye, &self.streams, self.cfg.strict_proxy_reads, i.generic);
        let plain = |r: &Rec| {
            if r.agent & ASYNC != 0 {
                eye.copies[(r.agent & !ASYNC) as usize] >= r.clock
            } else if r.agent & STREAM != 0 {
                eye.stream(streams[(r.agent & !STREAM) as usize].dense) >= r.clock
            } else {
                let over = if generic && i.write && !r.write { eye.over[r.agent as usize] } else { 0 };
                eye.g[r.agent as usize].max(over) >= r.clock
            }
        };
        let order = |r: &Rec| {
            if generic || (!strict && !r.write) || r.agent & (ASYNC | STREAM) == STREAM {
                plain(r)
            } else if r.agent & ASYNC != 0 {
                eye.a_copies[(r.agent & !ASYNC) as usize] >= r.clock
            } else {
                eye.a_shared[r.agent as usize] >= r.clock
            }
        };
        let me = i.rec(mask);
        let cell = self.ctas[cta].shadow.cell(granule);
        let r = if i.write { cell.write(me, false, order) } else { cell.read(me, false, order).map(|()| Fine::Yes).map_err(|r| (r, true)) };
        let Err((old, old_write)) = r else { return Ok(()) };
        let only_fence = plain(&old);
        let addr = Some(SHARED_BASE + granule * GRANULE + u64::from((old.mask & mask).trailing_zeros()));
        let does = if i.write { "writes" } else { "reads" };
        let m;
        let mut note = None;
        let kind = if only_fence {
            m = format!(
                "this asynchronous operation {does} shared memory that ordinary code {}, ordered before it but without a proxy fence",
                if old_write { "wrote" } else { "read" }
            );
            note = Some(
                "fence.proxy.async is needed between the two, best right after the ordinary access and before the barrier".to_string(),
            );
            ErrorKind::Proxy
        } else {
            let what = if old.agent & (ASYNC | STREAM) == STREAM {
                let (does, wait) = stream_words(self.streams[(old.agent & !STREAM) as usize].kind, old_write);
                note = Some(wait.to_string());
                does.to_string()
            } else if old.agent & ASYNC != 0 {
                "a cp.async writes".to_string()
            } else {
                format!("ordinary code {}", if old_write { "writes" } else { "reads" })
            };
            m = format!("this asynchronous operation {does} shared memory that {what}, without an order between them");
            ErrorKind::Race
        };
        let mut e = self.fail(i.w, i.at, kind, m, Some(i.lane), addr);
        e.other = Some(Box::new(self.record_site(&old, addr)));
        e.notes.extend(note);
        Err(e)
    }

    /// Checks and records an asynchronous access to global bytes.
    pub(crate) fn async_global(&mut self, i: &Issue<'_>, buf: u32, off: u64, len: u64) -> R<()> {
        if !self.cfg.global_races || self.mem.buffers[buf as usize].read_only {
            return Ok(());
        }
        let base = self.agent_base();
        let (cluster, per) = (self.ctas[self.cur].cluster, self.n_warps * self.cluster_size);
        let mut o = off;
        while o < off + len {
            let end = (o / GRANULE + 1) * GRANULE;
            let n = end.min(off + len) - o;
            let (g, mask) = (o / GRANULE, byte_mask(o, n));
            o += n;
            let (eye, streams, strict) = (i.eye, &self.streams, self.cfg.strict_proxy_reads);
            let plain = |r: &Rec| crate::exec::track::known_global(eye, streams, cluster, base, per, r);
            let order = |r: &Rec| {
                if r.agent & STREAM != 0 || (!strict && !r.write) {
                    plain(r)
                } else if (base..base + per).contains(&r.agent) {
                    eye.a_global[(r.agent - base) as usize] >= r.clock
                } else {
                    eye.far.a.get(&r.agent).is_some_and(|c| *c >= r.clock)
                }
            };
            let me = i.rec(mask);
            let cell = self.gshadow[buf as usize].cell(g);
            let r =
                if i.write { cell.write(me, false, order) } else { cell.read(me, true, order).map(|()| Fine::Yes).map_err(|r| (r, true)) };
            let Err((old, old_write)) = r else { continue };
            let addr = self.mem.buffers[buf as usize].base + g * GRANULE + u64::from((old.mask & mask).trailing_zeros());
            let only_fence = plain(&old);
            let mut e = self.global_conflict(i.w, i.at, Some(i.lane), addr, i.write, &old, old_write);
            if only_fence {
                e.kind = ErrorKind::Proxy;
                e.message = format!(
                    "this asynchronous operation {} global memory that ordinary code {}, ordered before it but without a proxy fence",
                    if i.write { "writes" } else { "reads" },
                    if old_write { "wrote" } else { "read" }
                );
                e.notes.push("fence.proxy.async (or .global) is needed between the two".to_string());
            }
            return Err(e);
        }
        Ok(())
    }
}
