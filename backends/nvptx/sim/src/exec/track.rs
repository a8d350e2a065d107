//! Race checks around memory accesses, and the errors they give.

use super::{Fail, R};
use crate::error::{ErrorKind, SimError, Site};
use crate::machine::Machine;
use crate::memory::SHARED_BASE;
use crate::race::{ASYNC, Clocks, Far, Fine, GRANULE, Rec, byte_mask, join_far};
use crate::warp::Warp;

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
fn ordered(w: &Warp, lane: Option<u32>, r: &Rec) -> bool {
    if r.agent & ASYNC == 0 {
        return r.agent == w.id || w.clocks.g[r.agent as usize] >= r.clock;
    }
    let t = r.agent & !ASYNC;
    w.clocks.copies[t as usize] >= r.clock || (t / 32 == w.id && lane == Some(t % 32) && w.waited[(t % 32) as usize] >= r.clock)
}

impl Machine<'_> {
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
            agent: w.id,
            clock: w.clocks.g[w.id as usize],
            site: at,
            seq: w.seq,
            mask,
            lane: lane.unwrap_or(0) as u8,
            strong: how.strong(),
        };
        self.shared_rec(w, at, lane, granule, me, how.write())
    }

    /// Checks and records one prepared record.
    pub(crate) fn shared_rec(&mut self, w: &Warp, at: u32, lane: Option<u32>, granule: u64, me: Rec, write: bool) -> R<bool> {
        let cell = self.ctas[self.cur].shadow.cell(granule);
        let order = |r: &Rec| ordered(w, lane, r);
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
        let (ow, ol) = if copy { ((old.agent & !ASYNC) / 32, old.agent % 32) } else { (old.agent, old.lane.into()) };
        let what = if copy {
            format!("{} shared memory that a cp.async writes, not ordered after it", verb(write))
        } else {
            format!("{} shared memory that another warp {}, without an order between them", verb(write), verb(old_write))
        };
        let mut e = self.fail(w, at, ErrorKind::Race, what, lane, Some(addr));
        let mut other = self.site(w, old.site, Some(ol), Some(addr));
        other.warp = ow;
        e.other = Some(Box::new(other));
        if copy {
            let newest = if ow == w.id { w.waited[ol as usize] } else { w.clocks.copies[(ow * 32 + ol) as usize] };
            e.notes.push(if newest >= old.clock {
                "the copying lane has waited for it; other lanes and warps need a barrier after that wait".to_string()
            } else if ow == w.id {
                "the copying lane has not waited for the group of this copy (cp.async.wait_group)".to_string()
            } else {
                "no wait of the copying lane followed by a barrier is known to this warp".to_string()
            });
        }
        e
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
        let base = self.ctas[self.cur].linear * self.n_warps;
        let (n_warps, me_cta) = (self.n_warps, self.ctas[self.cur].linear);
        let order = |r: &Rec| {
            let (cta, warp) = (r.agent / n_warps, r.agent % n_warps);
            if cta == me_cta {
                warp == w.id || w.clocks.g[warp as usize] >= r.clock
            } else {
                w.clocks.far.get(&r.agent).is_some_and(|c| *c >= r.clock)
            }
        };
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
            let mut equal = unchanged >> l & 1 == 1;
            l += 1;
            while l < 32 && (mask >> l & 1 == 0 || (places[l].0 == buf && places[l].1 / GRANULE == g)) {
                if mask >> l & 1 == 1 {
                    let m = byte_mask(places[l].1, size);
                    same |= bytes & m != 0;
                    bytes |= m;
                    equal &= unchanged >> l & 1 == 1;
                }
                l += 1;
            }
            if self.mem.buffers[buf as usize].read_only {
                continue;
            }
            let me = Rec {
                agent: base + w.id,
                clock: w.clocks.g[w.id as usize],
                site: at,
                seq: w.seq,
                mask: bytes,
                lane: lane as u8,
                strong: how.strong(),
            };
            let cell = self.gshadow[buf as usize].cell(g);
            let r = if how.write() {
                cell.write(me, equal, order)
            } else {
                cell.read(me, true, order).map(|()| Fine::Yes).map_err(|r| (r, true))
            };
            match r {
                Ok(f) => same |= f == Fine::SameInstr,
                Err((old, old_write)) => {
                    let addr = self.mem.buffers[buf as usize].base + g * GRANULE + u64::from((old.mask & bytes).trailing_zeros());
                    let verb = |w: bool| if w { "writes" } else { "reads" };
                    let far = old.agent / n_warps != me_cta;
                    let m = format!(
                        "{} buffer `{}` where {} {}, without an order between them",
                        verb(how.write()),
                        self.mem.buffers[buf as usize].name,
                        if far { "another CTA" } else { "another warp" },
                        verb(old_write)
                    );
                    let mut e = self.fail(w, at, ErrorKind::Race, m, Some(lane as u32), Some(addr));
                    let mut o: Site = self.site(w, old.site, Some(old.lane.into()), Some(addr));
                    o.warp = old.agent % n_warps;
                    o.cta = self.coords(old.agent / n_warps);
                    e.other = Some(Box::new(o));
                    return Err(e);
                }
            }
        }
        Ok(same && how == Access::Write)
    }

    /// Everything `c` knows, by global warp number.
    fn publish(&self, c: &Clocks) -> Far {
        let base = self.ctas[self.cur].linear * self.n_warps;
        let mut far = c.far.clone();
        for (i, v) in c.g.iter().enumerate().filter(|x| *x.1 > 0) {
            far.insert(base + i as u32, *v);
        }
        far
    }

    /// Adds `far` to what the warp knows.
    fn learn(&self, w: &mut Warp, far: &Far) {
        let me = self.ctas[self.cur].linear;
        for (k, v) in far {
            if k / self.n_warps == me {
                let e = &mut w.clocks.g[(k % self.n_warps) as usize];
                *e = (*e).max(*v);
            } else {
                let e = w.clocks.far.entry(*k).or_insert(0);
                *e = (*e).max(*v);
            }
        }
    }

    /// Ends the warp's current epoch: later accesses are not covered by what was published before.
    pub(crate) fn tick(w: &mut Warp) {
        w.clocks.g[w.id as usize] += 1;
    }

    /// `fence`: what happened so far is published by later relaxed writes; what relaxed reads have seen is now
    /// known. With `cta` the publication reaches the own CTA only.
    pub(crate) fn fence(&mut self, w: &mut Warp, cta: bool) {
        let got = std::mem::take(&mut w.acquired);
        self.learn(w, &got);
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
        join_far(self.edges.entry((table, addr)).or_default(), &far);
    }

    /// Acquire side of a strong read (`full`: the operation itself acquires).
    pub(crate) fn sync_read(&mut self, w: &mut Warp, addr: u64, full: bool) {
        for table in [0, self.own_table()] {
            if let Some(far) = self.edges.get(&(table, addr)) {
                let far = far.clone();
                if full {
                    self.learn(w, &far);
                } else {
                    join_far(&mut w.acquired, &far);
                }
            }
        }
    }

    /// A place in the text and the execution.
    pub(crate) fn site(&self, w: &Warp, at: u32, lane: Option<u32>, address: Option<u64>) -> Site {
        let i = &self.prog.code[at as usize];
        let text = self.src.get(i.start as usize..i.end as usize).unwrap_or("");
        Site {
            text: text.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches(';').to_string(),
            line: i.line,
            cta: self.ctas[self.cur].id,
            warp: w.id,
            lane,
            address,
        }
    }

    /// An error at instruction `at`.
    pub(crate) fn fail(
        &self,
        w: &Warp,
        at: u32,
        kind: ErrorKind,
        message: impl Into<String>,
        lane: Option<u32>,
        address: Option<u64>,
    ) -> Fail {
        let mut e = SimError::new(kind, message);
        e.site = Some(Box::new(self.site(w, at, lane, address)));
        e
    }
}
