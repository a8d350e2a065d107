//! Race checks around memory accesses, and the errors they give.

use crate::error::{ErrorKind, Fail, R, Site};
use crate::memory::SHARED_BASE;
use crate::state::Simulator;
use crate::state::race::{ASYNC, Clocks, Far, Fine, GRANULE, Rec, STREAM, Stream, StreamKind, byte_mask};
use crate::state::warp::Warp;

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
    /// Read-modify-write, or a relaxed access: does not race with its like.
    Strong {
        write: bool,
    },
}

impl Access {
    fn write(self) -> bool {
        matches!(self, Access::Write | Access::Strong { write: true })
    }

    fn strong(self) -> bool {
        matches!(self, Access::Strong { .. })
    }
}

/// Is `r` (a shared-memory record) ordered before the next access of `w`? `lane` is the accessing lane when
/// data goes to that lane only: a lane sees its own copies as soon as it has waited for them.
fn ordered(w: &Warp, lane: Option<u32>, streams: &[Stream], r: &Rec) -> bool {
    if r.agent & ASYNC != 0 {
        let t = r.agent & !ASYNC;
        return w.clocks.copies[t as usize] >= r.clock
            || (t / 32 == w.slot && lane == Some(t % 32) && w.waited[(t % 32) as usize] >= r.clock);
    }
    if r.agent & STREAM != 0 {
        return w.clocks.stream(streams[(r.agent & !STREAM) as usize].dense) >= r.clock;
    }
    r.agent == w.slot || w.clocks.g[r.agent as usize] >= r.clock
}

/// What the operations of a stream do, and how one waits for them.
pub(crate) fn stream_words(kind: StreamKind, wrote: bool) -> (&'static str, &'static str) {
    match (kind, wrote) {
        (StreamKind::Mbar, true) => ("an asynchronous copy writes", "wait for the phase of its mbarrier that counts its bytes"),
        (StreamKind::Mbar, false) => ("an asynchronous copy reads", "wait for the phase of its mbarrier that counts its bytes"),
        (StreamKind::BulkRead, _) => {
            ("a bulk copy reads", "the issuing thread must run cp.async.bulk.wait_group.read, others need a barrier after it")
        }
        (StreamKind::BulkWrite, _) => {
            ("a bulk copy writes", "the issuing thread must run cp.async.bulk.wait_group (without .read), others need a barrier after it")
        }
        (StreamKind::Bar, _) => ("a barrier guards", "wait at the barrier"),
        (StreamKind::Wgmma, _) => ("a wgmma reads", "its warpgroup must run a covering wgmma.wait_group, others need a barrier after it"),
    }
}

impl Simulator<'_> {
    /// Checks and records shared accesses at offsets `offs` (from the window base). Returns whether lanes of
    /// this very instruction overlap in a write.
    pub(crate) fn track_shared(&mut self, w: &Warp, at: u32, mask: u32, offs: &[u64; 32], size: u64, how: Access) -> R<bool> {
        let mut same = false;
        let mut l = 0;
        let merge_lanes = !self.prog.uses_cp_async;
        while l < 32 {
            if mask >> l & 1 == 0 {
                l += 1;
                continue;
            }
            let lane = l;
            let g = offs[l] / GRANULE;
            let mut bytes = byte_mask(offs[l], size);
            l += 1;
            while merge_lanes && l < 32 && (mask >> l & 1 == 0 || offs[l] / GRANULE == g) {
                if mask >> l & 1 == 1 {
                    let m = byte_mask(offs[l], size);
                    same |= bytes & m != 0;
                    bytes |= m;
                }
                l += 1;
            }
            same |= self.shared_one(w, at, Some(lane as u32), g, bytes, how)?;
        }
        Ok(same && how == Access::Write)
    }

    /// One granule. `lane` is `None` when the data goes to other lanes (ldmatrix).
    pub(crate) fn shared_one(&mut self, w: &Warp, at: u32, lane: Option<u32>, granule: u64, mask: u32, how: Access) -> R<bool> {
        let me = Rec {
            agent: w.slot,
            clock: w.clocks.g[w.slot as usize],
            site: at,
            seq: w.seq,
            mask,
            lane: lane.unwrap_or(0) as u8,
            strong: how.strong(),
            write: how.write(),
        };
        self.shared_rec(w, at, lane, granule, me, how.write())
    }

    /// Checks and records one prepared record.
    pub(crate) fn shared_rec(&mut self, w: &Warp, at: u32, lane: Option<u32>, granule: u64, me: Rec, write: bool) -> R<bool> {
        let cell = self.ctas[self.cur].shadow.cell(granule);
        let streams = &self.streams;
        let order = |r: &Rec| ordered(w, lane, streams, r);
        let r = if write { cell.write(me, false, order) } else { cell.read(me, false, order).map(|()| Fine::Yes).map_err(|r| (r, true)) };
        match r {
            Ok(f) => Ok(f == Fine::SameInstr),
            Err((old, old_write)) => {
                let both = old.mask & me.mask;
                let addr = SHARED_BASE + granule * GRANULE + u64::from(both.trailing_zeros());
                Err(self.shared_conflict(w, at, lane, addr, write, &old, old_write))
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call site; every value goes into the report")]
    fn shared_conflict(&self, w: &Warp, at: u32, lane: Option<u32>, addr: u64, write: bool, old: &Rec, old_write: bool) -> Fail {
        let verb = |w: bool| if w { "writes" } else { "reads" };
        let copy = old.agent & ASYNC != 0;
        let stream = old.agent & (ASYNC | STREAM) == STREAM;
        let mut note = None;
        let what = if copy {
            format!("{} shared memory that a cp.async writes, not ordered after it", verb(write))
        } else if stream {
            let (does, wait) = stream_words(self.streams[(old.agent & !STREAM) as usize].kind, old_write);
            note = Some(wait.to_string());
            format!("{} shared memory that {does}, not ordered after its completion", verb(write))
        } else {
            format!("{} shared memory that another warp {}, without an order between them", verb(write), verb(old_write))
        };
        let mut e = self.fail(w, at, ErrorKind::Race, what, lane, Some(addr));
        e.other = Some(Box::new(self.record_site(old, Some(addr))));
        e.notes.extend(note);
        if copy {
            let (ow, ol) = ((old.agent & !ASYNC) / 32, old.agent % 32);
            let newest = if ow == w.slot { w.waited[ol as usize] } else { w.clocks.copies[(ow * 32 + ol) as usize] };
            e.notes.push(if newest >= old.clock {
                "the copying lane has waited for it; other lanes and warps need a barrier after that wait".to_string()
            } else if ow == w.slot {
                "the copying lane has not waited for the group of this copy (cp.async.wait_group)".to_string()
            } else {
                "no wait of the copying lane followed by a barrier is known to this warp".to_string()
            });
        }
        e
    }

    /// Where a record of the current cluster's shared memory was made.
    pub(crate) fn record_site(&self, r: &Rec, address: Option<u64>) -> Site {
        let cluster = self.ctas[self.cur].cluster;
        let (cta, warp, lane) = if r.agent & ASYNC != 0 {
            let t = r.agent & !ASYNC;
            (self.cta_of(cluster, t / 32 / self.n_warps), t / 32 % self.n_warps, Some(t % 32))
        } else if r.agent & STREAM != 0 {
            let s = &self.streams[(r.agent & !STREAM) as usize];
            (self.coords(s.cta), s.warp, None)
        } else {
            (self.cta_of(cluster, r.agent / self.n_warps), r.agent % self.n_warps, Some(r.lane.into()))
        };
        self.place(r.site, cta, warp, lane, address)
    }

    /// Two lanes of one store hit the same bytes: an error unless they store the same values.
    pub(crate) fn check_same_instr(&self, w: &Warp, at: u32, mask: u32, addrs: &[u64; 32], size: u64, vals: &[u128; 32]) -> R<()> {
        for i in (0..32).filter(|i| mask >> i & 1 == 1) {
            for j in (0..i).filter(|j| mask >> j & 1 == 1) {
                // Equal sizes and natural alignment: overlap means equality.
                if addrs[i] == addrs[j] && vals[i] != vals[j] {
                    let m = format!("lanes {j} and {i} of one store write different {size}-byte values to one address");
                    return Err(self.fail(w, at, ErrorKind::Race, m, Some(i as u32), Some(addrs[i])));
                }
            }
        }
        Ok(())
    }

    /// Checks and records global accesses; `places` are (buffer, offset) per lane.
    ///
    /// `unchanged` are the lanes whose store finds the bytes that it writes: programs may agree about an element without an order.
    #[expect(clippy::too_many_arguments, reason = "an access and its place")]
    pub(crate) fn track_global(
        &mut self,
        w: &Warp,
        at: u32,
        mask: u32,
        places: &[(u32, u64); 32],
        size: u64,
        how: Access,
        unchanged: u32,
    ) -> R<bool> {
        let mut same = false;
        let base = self.agent_base();
        let (cluster, per_cluster) = (self.ctas[self.cur].cluster, self.n_warps * self.cluster_size);
        let mut l = 0;
        while l < 32 {
            if mask >> l & 1 == 0 {
                l += 1;
                continue;
            }
            let lane = l;
            let (buf, off) = places[l];
            let g = off / GRANULE;
            let mut bytes = byte_mask(off, size);
            // Bytes of lanes that change what is there, and of those that do not.
            let mut parts = [0u32; 2];
            parts[(unchanged >> l & 1) as usize] = bytes;
            l += 1;
            while l < 32 && (mask >> l & 1 == 0 || (places[l].0 == buf && places[l].1 / GRANULE == g)) {
                if mask >> l & 1 == 1 {
                    let m = byte_mask(places[l].1, size);
                    same |= bytes & m != 0;
                    bytes |= m;
                    parts[(unchanged >> l & 1) as usize] |= m;
                }
                l += 1;
            }
            if self.mem.buffers[buf as usize].read_only {
                continue;
            }
            for (part, equal) in parts.into_iter().zip([false, true]).filter(|p| p.0 != 0) {
                let me = Rec {
                    agent: base + w.slot,
                    clock: w.clocks.g[w.slot as usize],
                    site: at,
                    seq: w.seq,
                    mask: part,
                    lane: lane as u8,
                    strong: how.strong(),
                    write: how.write(),
                };
                let streams = &self.streams;
                let order = |r: &Rec| known_global(&w.clocks, streams, cluster, base, per_cluster, r);
                let cell = self.gshadow[buf as usize].cell(g);
                let r = if how.write() {
                    cell.write(me, equal, order)
                } else {
                    cell.read(me, true, order).map(|()| Fine::Yes).map_err(|r| (r, true))
                };
                match r {
                    Ok(f) => same |= f == Fine::SameInstr,
                    Err((old, old_write)) => {
                        let addr = self.mem.buffers[buf as usize].base + g * GRANULE + u64::from((old.mask & part).trailing_zeros());
                        return Err(self.global_conflict(w, at, Some(lane as u32), addr, how.write(), &old, old_write));
                    }
                }
            }
        }
        Ok(same && how == Access::Write)
    }

    /// The report of a race on global memory.
    #[expect(clippy::too_many_arguments, reason = "every value goes into the report")]
    pub(crate) fn global_conflict(&self, w: &Warp, at: u32, lane: Option<u32>, addr: u64, write: bool, old: &Rec, old_write: bool) -> Fail {
        let verb = |w: bool| if w { "writes" } else { "reads" };
        let per_cluster = self.n_warps * self.cluster_size;
        let name = self.mem.find(addr).map_or("?", |(i, _)| self.mem.buffers[i].name.as_str());
        let mut note = None;
        let (who, site) = if old.agent & STREAM != 0 {
            let s = &self.streams[(old.agent & !STREAM) as usize];
            let (does, wait) = stream_words(s.kind, old_write);
            note = Some(wait.to_string());
            (does.to_string(), self.place(old.site, self.coords(s.cta), s.warp, None, Some(addr)))
        } else {
            let id = self.cta_of(old.agent / per_cluster, old.agent % per_cluster / self.n_warps);
            let who = if id == w.home { "another warp" } else { "another CTA" };
            (format!("{who} {}", verb(old_write)), self.record_site_global(old, Some(addr)))
        };
        let m = format!("{} buffer `{name}` where {who}, without an order between them", verb(write));
        let mut e = self.fail(w, at, ErrorKind::Race, m, lane, Some(addr));
        e.other = Some(Box::new(site));
        e.notes.extend(note);
        e
    }

    /// Where a warp's record of global memory was made.
    pub(crate) fn record_site_global(&self, r: &Rec, address: Option<u64>) -> Site {
        let per = self.n_warps * self.cluster_size;
        let id = self.cta_of(r.agent / per, r.agent % per / self.n_warps);
        self.place(r.site, id, r.agent % self.n_warps, Some(r.lane.into()), address)
    }

    /// Everything `c` knows, by global agent number.
    fn publish(&self, c: &Clocks) -> Far {
        let base = self.agent_base();
        let mut far = c.far.clone();
        far.launched |= c.launched;
        let put = |m: &mut std::collections::BTreeMap<u32, u32>, v: &[u32]| {
            for (i, v) in v.iter().enumerate().filter(|x| *x.1 > 0) {
                m.insert(base + i as u32, *v);
            }
        };
        put(&mut far.g, &c.g);
        put(&mut far.a, &c.a_global);
        let cluster = self.ctas[self.cur].cluster;
        for (i, s) in self.streams.iter().enumerate().filter(|s| s.1.cluster == cluster && s.1.kind == StreamKind::BulkWrite) {
            far.g.insert(STREAM | i as u32, c.stream(s.dense));
        }
        far
    }

    /// Adds `far` to what the warp knows.
    fn learn(&self, w: &mut Warp, far: &Far) {
        let base = self.agent_base();
        let own = base..base + self.n_warps * self.cluster_size;
        let cluster = self.ctas[self.cur].cluster;
        if far.launched {
            w.awaited = crate::state::warp::FULL;
        }
        let c = &mut w.clocks;
        c.launched |= far.launched;
        for (&k, &v) in &far.g {
            if k & STREAM != 0 {
                let s = &self.streams[(k & !STREAM) as usize];
                if s.cluster == cluster {
                    c.raise(s.dense, v);
                    continue;
                }
            } else if own.contains(&k) {
                let i = (k - base) as usize;
                c.g[i] = c.g[i].max(v);
                c.hb[i] = c.hb[i].max(v);
                continue;
            }
            let e = c.far.g.entry(k).or_insert(0);
            *e = (*e).max(v);
        }
        for (&k, &v) in &far.a {
            if own.contains(&k) {
                let i = (k - base) as usize;
                c.a_global[i] = c.a_global[i].max(v);
            } else {
                let e = c.far.a.entry(k).or_insert(0);
                *e = (*e).max(v);
            }
        }
    }

    /// Ends the warp's current epoch: later accesses are not covered by what was published before.
    pub(crate) fn tick(w: &mut Warp) {
        let i = w.slot as usize;
        w.clocks.g[i] += 1;
        w.clocks.hb[i] = w.clocks.g[i];
    }

    /// `fence`: what happened so far is published by later relaxed writes; what relaxed reads have seen is now
    /// known. With `cta` the publication reaches the own CTA only.
    pub(crate) fn fence(&mut self, w: &mut Warp, cta: bool) {
        let got = std::mem::take(&mut w.acquired);
        self.learn(w, &got);
        if let Some(c) = w.seen.take() {
            w.learn(&c);
        }
        w.released = Some((Box::new(w.clocks.clone()), cta));
        Self::tick(w);
    }

    /// The CTA's own table of published locations; table 0 is for everybody.
    fn own_table(&self) -> u32 {
        self.ctas[self.cur].linear + 1
    }

    /// Release side of a strong write; `full` (with its scope being the CTA or not): it releases by itself.
    pub(crate) fn sync_write(&mut self, w: &mut Warp, shared: bool, addr: u64, full: Option<bool>) {
        let (far, cta) = match (full, &w.released) {
            (Some(cta), _) => {
                let f = self.publish(&w.clocks);
                Self::tick(w);
                (f, cta)
            }
            (None, Some((c, cta))) => (self.publish(c), *cta),
            (None, None) => return,
        };
        let table = if shared || cta { self.own_table() } else { 0 };
        self.edges.entry((table, addr)).or_default().join(&far);
    }

    /// Acquire side of a strong read (`full`: the operation itself acquires).
    pub(crate) fn sync_read(&mut self, w: &mut Warp, addr: u64, full: bool) {
        for table in [0, self.own_table()] {
            if let Some(far) = self.edges.get(&(table, addr)) {
                let far = far.clone();
                if full {
                    self.learn(w, &far);
                } else {
                    w.acquired.join(&far);
                }
            }
        }
    }
}

/// Is a record on global memory ordered before the next ordinary access of somebody who knows `c`?
pub(crate) fn known_global(c: &Clocks, streams: &[Stream], cluster: u32, base: u32, per_cluster: u32, r: &Rec) -> bool {
    if r.agent & STREAM != 0 {
        let s = &streams[(r.agent & !STREAM) as usize];
        if s.cluster == cluster {
            return c.stream(s.dense) >= r.clock;
        }
    } else if (base..base + per_cluster).contains(&r.agent) {
        return c.g[(r.agent - base) as usize] >= r.clock;
    }
    c.far.g.get(&r.agent).is_some_and(|k| *k >= r.clock)
}
