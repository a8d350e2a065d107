//! Mbarriers, the barriers of warps and of the cluster, and what passing them teaches.

use super::super::run::{Life, State};
use super::super::site::Site;
use crate::error::ProtocolError;
use crate::problem::Problem;
use crate::run::Checker;
use crate::run::agents::ROLE;
use crate::state::facts::{Facts, Few};
use crate::state::keys::{Agents, RANK, add_agent, block_of};
use crate::state::region::{Reads, Writer};
use crate::state::rotation::Rotated;
use crate::state::shared::{Bar, Before, MBARRIERS, Meeting, REGIONS, Shared, bar_key};
use smallvec::SmallVec;

impl<'a> Checker<'a> {
    /// An agent's lanes each come to know something.
    pub(super) fn learn_one(&self, s: &mut Shared, t: usize, fact: usize) {
        s.facts.set(self.places.known(t), fact);
        if !self.agents[t].single {
            s.facts.set(self.places.unsettled(t), fact);
        }
    }

    /// True if an agent knows a fact, or if only some of its lanes do.
    pub(super) fn knows(&self, s: &Shared, t: usize, fact: usize) -> bool {
        s.facts.has(self.places.known(t), fact)
    }

    pub(super) fn unsettled(&self, s: &Shared, t: usize, fact: usize) -> bool {
        s.facts.has(self.places.unsettled(t), fact)
    }

    /// True if it knows that a block runs.
    pub(super) fn runs(&self, s: &Shared, t: usize, block: usize) -> bool {
        block < self.analysis.blocks && (block == self.agents[t].block || self.knows(s, t, self.places.runs(block)))
    }

    /// Before anything runs.
    pub(in super::super) fn shared_begin(&self, s: &mut State) {
        let s = &mut s.shared;
        s.facts.grow(self.places.rows(self.places.all_named()));
        s.named = vec![Meeting::default(); self.places.all_named()];
        s.told = vec![0; self.agents.len()];
        s.fresh = SmallVec::from_elem((false, false), self.analysis.blocks);
        for (n, a) in self.agents.iter().enumerate() {
            s.facts.set(self.places.known(n), self.places.runs(a.block));
        }
    }

    /// An agent may have done what changed a state, or not: of what it has learnt it may know nothing, what has not been met since may still
    /// not have, and what was in flight may still be.
    pub(in super::super) fn perhaps(&self, s: &mut State, t: usize, before: Before) {
        let (s, p) = (&mut s.shared, &self.places);
        s.facts.merge(p.known(t), &before.facts, false);
        s.facts.merge(p.unsettled(t), &before.facts, true);
        s.facts.merge(p.spoken(t), &before.facts, true);
        s.regions.iter_mut().zip(&before.regions).for_each(|(now, before)| now.perhaps(before));
        s.named_in[REGIONS] = u64::MAX;
    }

    /// Everything that makes it differ, as numbers, where it is not rotated.
    pub(in super::super) fn shared_key(&self, s: &Shared, out: &mut Vec<u64>, known: &mut Vec<(u64, u64)>) {
        s.facts.key(&self.places.of_some_lanes(), out, known);
        s.bars.iter().for_each(|b| bar_key(b.as_ref(), false, out));
        out.push(s.regions.len() as u64);
        s.regions.iter().for_each(|r| r.key(out, |mbarrier| mbarrier, 0));
        self.meetings_key(s, out);
    }

    /// The same of what it becomes when it is rotated; `room` is for facts that move.
    pub(in super::super) fn rotated_key(
        &self,
        s: &Shared,
        rotated: &Rotated,
        room: &mut Facts,
        (out, known): (&mut Vec<u64>, &mut Vec<(u64, u64)>),
    ) {
        let shift = &*rotated.shift;
        let some = self.places.of_some_lanes();
        match rotated.by.iter().all(|&by| by == 0) {
            true => s.facts.key(&some, out, known),
            false => {
                s.facts.moved(&shift.moved.facts, room);
                room.key(&some, out, known);
            }
        }
        shift.mbarriers.iter().for_each(|&(mbarrier, flips)| bar_key(s.bars.get(mbarrier).and_then(Option::as_ref), flips, out));
        for (there, &r) in shift.regions.iter().enumerate() {
            if let Some(region) = s.regions.get(r).filter(|region| region.is_used()) {
                out.push(there as u64);
                region.key(out, |mbarrier| shift.moved.mbarriers[mbarrier], shift.shifts[r]);
            }
        }
        out.push(u64::MAX);
        self.meetings_key(s, out);
    }

    fn meetings_key(&self, s: &Shared, out: &mut Vec<u64>) {
        s.named.iter().chain([&s.cluster]).for_each(|m| m.key(out));
        out.extend(s.fresh.iter().map(|f| u64::from(f.0) << 1 | u64::from(f.1)));
    }

    /// A role goes its own way: it knows what all warps know together.
    pub(in super::super) fn shared_fork(&self, s: &mut State, whole: usize, role: usize) {
        let (s, p) = (&mut s.shared, &self.places);
        s.facts.copy(p.known(role), p.known(whole), Some(p.unsettled(whole)));
        s.told[whole] += 1;
        s.facts.reset(p.unsettled(role));
    }

    /// All lanes of an agent have met.
    pub(in super::super) fn all_lanes_met(&self, s: &mut State, t: usize) {
        let s = &mut s.shared;
        s.facts.reset(self.places.unsettled(t));
        s.facts.reset(self.places.spoken(t));
        self.stores_seen(s, t);
        if self.agents[t].whole {
            let fresh = &mut s.fresh[self.agents[t].block];
            fresh.1 = fresh.0;
        }
    }

    /// The mbarriers of an agent's block must be seen by all its warps.
    pub(in super::super) fn mbarriers_are_seen(&self, s: &State, t: usize, here: Site) -> Result<(), ProtocolError> {
        match s.shared.fresh[self.agents[t].block] {
            (true, _) => self.error(Problem::Unpublished, here, None),
            (false, true) => self.error(Problem::NotMade, here, None),
            (false, false) => Ok(()),
        }
    }

    /// An mbarrier is made.
    pub(super) fn make(&self, s: &mut State, t: usize, at: i64, count: u32, here: Site) -> Result<(), ProtocolError> {
        if !self.agents[t].whole {
            return self.error(Problem::MadeInRole, here, None);
        }
        let block = self.agents[t].block;
        let (mbarrier, s) = (self.places.new_mbarrier(at), &mut s.shared);
        if s.bars.len() <= mbarrier {
            s.bars.resize_with(mbarrier + 1, || None);
            s.facts.grow(self.places.rows(mbarrier + 1));
        }
        let passed = Agents::new();
        let bar = Bar { at, count, pending: count, bytes: 0, odd: false, passed, counted: false, owed: false, last: None };
        if s.bars[mbarrier].replace(bar).is_some() {
            return self.error(Problem::MadeTwice, here, None);
        }
        // No phase has ended, which all know; but not that the mbarrier is there.
        let (ended, before) = self.places.ended(mbarrier);
        s.facts.forget(self.places.made(block));
        for n in 0..self.agents.len() {
            s.facts.set(self.places.known(n), ended);
            s.facts.set(self.places.known(n), before);
        }
        s.fresh[block] = (true, true);
        Ok(())
    }

    /// The mbarriers of a block are shown.
    pub(super) fn publish(&self, s: &mut State, t: usize) {
        let block = self.agents[t].block;
        s.shared.fresh[block].0 = false;
        self.learn_one(&mut s.shared, t, self.places.made(block));
    }

    /// An mbarrier that is used: it has to be there. Its number.
    pub(super) fn used(&self, s: &State, t: usize, at: i64, here: Site) -> Result<usize, ProtocolError> {
        let block = block_of(at);
        let own = block == self.agents[t].block;
        let seen = own || self.knows(&s.shared, t, self.places.made(block));
        let mbarrier = self.places.mbarrier(at).filter(|&w| s.shared.bars.get(w).is_some_and(Option::is_some));
        let Some(mbarrier) = mbarrier.filter(|_| seen) else {
            return match seen {
                true => self.error(Problem::NoBarrier { at: at & ((1 << RANK) - 1) }, here, None),
                false => self.error(Problem::RemoteNotMade, here, None),
            };
        };
        if own && self.agents[t].whole {
            self.mbarriers_are_seen(s, t, here)?;
        }
        Ok(mbarrier)
    }

    /// What comes to an mbarrier must come in its phase, whatever the order.
    fn in_phase(&self, s: &State, t: usize, mbarrier: usize, here: Site) -> Result<(), ProtocolError> {
        if self.knows(&s.shared, t, self.places.ended(mbarrier).0) {
            return Ok(());
        }
        let last = s.shared.bars.get(mbarrier).and_then(|b| b.as_ref()?.last);
        self.error(Problem::EarlyArrival, here, last)
    }

    /// Arrivals at an mbarrier, which may expect bytes.
    pub(super) fn arrive_at(&self, s: &mut State, t: usize, at: i64, (lanes, bytes): (u32, u32), here: Site) -> Result<(), ProtocolError> {
        if lanes == 0 {
            return Ok(());
        }
        let mbarrier = self.used(s, t, at, here)?;
        self.in_phase(s, t, mbarrier, here)?;
        let p = &self.places;
        p.passed_on(|filter| s.shared.facts.tell(p.phase(mbarrier), p.known(t), Some(p.unsettled(t)), filter));
        s.shared.told[t] += 1;
        // Bytes that are expected give nothing back.
        if bytes == 0 {
            self.leave_unfenced(&mut s.shared, t);
        }
        let Some(b) = s.shared.bar(mbarrier) else { return Ok(()) };
        // Who makes all arrivals of a phase that expects nothing else knows that it has ended.
        let alone = b.pending == b.count && lanes == b.count && bytes == 0 && b.bytes == 0;
        b.bytes += i64::from(bytes);
        let Some(left) = b.pending.checked_sub(lanes) else {
            let problem = Problem::Arrivals { lanes, pending: b.pending };
            let last = b.last;
            return self.error(problem, here, last);
        };
        b.pending = left;
        b.last = Some(here);
        self.end_mbarrier_phase(s, mbarrier, here)?;
        if alone {
            let (ended, before) = p.ended(mbarrier);
            s.shared.facts.set(p.known(t), ended);
            s.shared.facts.set(p.known(t), before);
        }
        Ok(())
    }

    /// Bytes come to an mbarrier: sometime, and no later than its phase ends. Those of a unit tell what came before them; those of lanes tell
    /// of reads, too, but of what their sender has written only themselves.
    pub(super) fn bytes_come(
        &self,
        s: &mut State,
        t: usize,
        (mbarrier, bytes, unit): (usize, i64, bool),
        here: Site,
    ) -> Result<(), ProtocolError> {
        self.in_phase(s, t, mbarrier, here)?;
        let p = &self.places;
        p.kinds(|written, events| {
            let told = |n: usize, w: u64| if unit { events.only(n, w) } else { written.less(n, w) };
            p.passed_on(|filter| s.shared.facts.tell(p.phase(mbarrier), p.known(t), Some(p.unsettled(t)), |n, w| filter(n, told(n, w))));
        });
        s.shared.told[t] += 1;
        if let Some(b) = s.shared.bar(mbarrier) {
            b.bytes -= bytes;
            b.counted = true;
        }
        self.end_mbarrier_phase(s, mbarrier, here)
    }

    /// An mbarrier is to count what an agent's lanes copy, in the phase that runs. Its number.
    pub(super) fn copies_come(&self, s: &mut State, t: usize, at: i64, here: Site) -> Result<usize, ProtocolError> {
        let mbarrier = self.used(s, t, at, here)?;
        self.in_phase(s, t, mbarrier, here)?;
        if let Some(b) = s.shared.bar(mbarrier) {
            b.counted = true;
        }
        Ok(mbarrier)
    }

    /// Ends a phase that has all it expects.
    fn end_mbarrier_phase(&self, s: &mut State, mbarrier: usize, here: Site) -> Result<(), ProtocolError> {
        let Shared { facts, bars, .. } = &mut s.shared;
        let Some(b) = bars.get_mut(mbarrier).and_then(Option::as_mut).filter(|b| b.pending == 0 && b.bytes == 0) else { return Ok(()) };
        let p = &self.places;
        let gathered = p.phase(mbarrier);
        let late = b.passed.iter().find(|&&t| !facts.has(gathered, p.passed(mbarrier, t as usize)));
        if let Some(&t) = late {
            let site = self.here(s, t as usize);
            return self.error(Problem::UnseenPhase, here, site);
        }
        (b.odd, b.pending) = (!b.odd, b.count);
        (b.owed, b.counted) = (b.owed || b.counted, false);
        b.passed.clear();
        facts.hand_on(gathered);
        let (ended, before) = p.ended(mbarrier);
        facts.end_phase(&p.phases(mbarrier), ended, before);
        facts.set(gathered + 1, ended);
        facts.set(gathered + 1, before);
        if self.turns {
            self.forget_names(&mut s.shared, mbarrier);
        }
        Ok(())
    }

    /// Of what the phase that has ended tells to be over nobody asks any more who did it: where roles take turns, states would differ by whose was the
    /// last in each slot. Reads, and waits, have numbers then instead of an agent's, as many as there are.
    fn forget_names(&self, s: &mut Shared, mbarrier: usize) {
        let (p, names) = (&self.places, self.agents.len());
        let told = p.phase(mbarrier) + 1;
        let Shared { facts, regions, bars, named_in, .. } = s;
        let was = std::mem::take(named_in);
        for (r, region) in regions.iter_mut().enumerate().filter(|x| was[REGIONS] >> (x.0 % 64) & 1 == 1) {
            // Nobody brings another part of what one phase counts once it has ended.
            if let Some(w) = region.write.as_mut().filter(|w| w.mbarrier == Some(mbarrier) && !w.copied) {
                let again = |x: &u32| region.reads.iter().any(|read| read.agent == *x as usize);
                let mut over = Few::default();
                w.readers.iter().filter(|x| !again(x)).for_each(|&x| over.set(p.read(r, x as usize)));
                facts.forget_all(&over);
                w.readers.clear();
            }
            let over = |x: &Reads| x.agent >= names || x.is_over() && facts.has(told, p.read(r, x.agent));
            if region.reads.iter().any(|x| x.agent < names) && region.reads.iter().all(over) {
                for n in 0..region.reads.len() {
                    let agent = region.reads[n].agent;
                    let free = |name: &usize| region.reads.iter().all(|x| x.agent != *name);
                    if let Some(name) = (names..).find(free).filter(|_| agent < names) {
                        facts.rename(p.read(r, agent), p.read(r, name));
                        region.reads[n].agent = name;
                    }
                }
                region.reads.sort_unstable_by_key(|x| x.agent);
            }
            let readers = region.write.as_ref().is_some_and(|w| !w.readers.is_empty());
            if readers || region.reads.iter().any(|x| x.agent < names) {
                named_in[REGIONS] |= 1 << (r % 64);
            }
        }
        let bars = bars.iter_mut().enumerate().filter(|x| was[MBARRIERS] >> (x.0 % 64) & 1 == 1);
        for (n, b) in bars.filter_map(|(n, b)| Some((n, b.as_mut()?))) {
            let over = |&t: &u32| t as usize >= names || facts.has(told, p.passed(n, t as usize));
            if b.passed.iter().any(|&t| (t as usize) < names) && b.passed.iter().all(over) {
                for k in 0..b.passed.len() {
                    let agent = b.passed[k] as usize;
                    let free = |name: &usize| b.passed.iter().all(|&t| t as usize != *name);
                    if let Some(name) = (names..).find(free).filter(|_| agent < names) {
                        facts.rename(p.passed(n, agent), p.passed(n, name));
                        b.passed[k] = name as u32;
                    }
                }
                b.passed.sort_unstable();
            }
            if b.passed.iter().any(|&t| (t as usize) < names) {
                named_in[MBARRIERS] |= 1 << (n % 64);
            }
        }
    }

    /// Waits for the phase of a parity; false while it is in flight.
    pub(super) fn wait_at(&self, s: &mut State, t: usize, at: i64, odd: bool, here: Site) -> Result<bool, ProtocolError> {
        let mbarrier = self.used(s, t, at, here)?;
        let (s, p) = (&mut s.shared, &self.places);
        let Some(b) = s.bars.get_mut(mbarrier).and_then(Option::as_mut) else { return Ok(false) };
        if b.odd == odd {
            return Ok(false);
        }
        let (ended, before) = p.ended(mbarrier);
        if !s.facts.has(p.known(t), before) {
            let last = b.last;
            return self.error(Problem::EarlyWait, here, last);
        }
        let again = !add_agent(&mut b.passed, t);
        b.owed = false;
        s.name_in_mbarrier(mbarrier);
        s.facts.tell(p.known(t), p.phase(mbarrier) + 1, None, |_, w| w);
        let passed = p.passed(mbarrier, t);
        s.facts.set(p.known(t), ended);
        if again {
            // What others have been told is of an earlier wait; this one must not miss the phase, either.
            s.facts.forget(passed);
        }
        self.learn_one(s, t, passed);
        Ok(true)
    }

    /// A named barrier: false while the agent waits at it.
    pub(in super::super) fn named(
        &self,
        s: &mut State,
        t: usize,
        here: Site,
        (id, warps, wait): (u32, u32, bool),
    ) -> Result<bool, ProtocolError> {
        let (own, p) = (self.agents[t].warps, &self.places);
        let n = p.named(self.agents[t].block, id);
        let row = p.phase(n);
        let (ended, _) = p.ended(n);
        let Shared { facts, named, told, regions, .. } = &mut s.shared;
        told[t] += 1;
        let m = &mut named[n];
        let round = match s.tasks[t].joined {
            Some(round) => round,
            None => {
                let round = m.odd;
                if m.again && !facts.has(p.known(t), ended) {
                    return self.error(Problem::EarlyRound, here, None);
                }
                m.warps += own;
                if m.warps > warps || !add_agent(&mut m.came, t) {
                    return self.error(Problem::TooManyWarps, here, None);
                }
                // All lanes come.
                facts.tell(row, p.known(t), None, |_, w| w);
                facts.copy(p.spoken(t), p.unsettled(t), None);
                if m.warps == warps {
                    // What groups of a role have written together all know, now that all wait.
                    let role = if id >= ROLE { &mut regions[..] } else { &mut [] };
                    for (r, w) in role.iter_mut().enumerate().filter_map(|(r, x)| Some((r, x.write.as_mut()?))) {
                        let all = |x: &Writer| m.came.contains(&x.agent);
                        if !w.shares.is_empty() && w.shares.iter().all(all) {
                            let (written, shown) = p.written(r);
                            facts.set(row, written);
                            if w.shares.iter().all(|x| x.fenced) {
                                facts.set(row, shown);
                            }
                            w.shares.clear();
                        }
                    }
                    m.end_phase(facts, row);
                    facts.forget(ended);
                    facts.set(row + 1, ended);
                }
                round
            }
        };
        let over = m.odd != round;
        s.tasks[t].joined = (wait && !over).then_some(round);
        if over && wait {
            facts.tell(p.known(t), row + 1, None, |_, w| w);
            self.all_lanes_met(s, t);
        }
        Ok(over || !wait)
    }

    /// An arrival at the cluster's barrier.
    pub(super) fn cluster_arrive(&self, s: &mut State, t: usize, relaxed: bool, here: Site) -> Result<(), ProtocolError> {
        if s.tasks[t].met.is_some() {
            return self.error(Problem::ClusterArrivalTwice, here, None);
        }
        let (p, facts) = (&self.places, &mut s.shared.facts);
        // All lanes come, but what they have done to memory is only ordered if they ask for it.
        p.kinds(|_, events| facts.tell(p.cluster(), p.known(t), None, |n, w| if relaxed { events.only(n, w) } else { w }));
        facts.copy(p.spoken(t), p.unsettled(t), None);
        s.shared.told[t] += 1;
        let m = &mut s.shared.cluster;
        s.tasks[t].met = Some(m.odd);
        add_agent(&mut m.came, t);
        self.end_cluster_phase(s);
        Ok(())
    }

    /// Ends a round of the cluster's barrier if all have come that run; whoever has ended has come.
    pub(in super::super) fn end_cluster_phase(&self, s: &mut State) {
        let Shared { facts, cluster, .. } = &mut s.shared;
        let all = |m: &Meeting| s.tasks.iter().enumerate().all(|(n, t)| t.life != Life::Awake || m.came.contains(&(n as u32)));
        if !cluster.came.is_empty() && all(cluster) {
            cluster.end_phase(facts, self.places.cluster());
        }
    }

    /// Waits for the others at the cluster's barrier; false while some have not come.
    pub(super) fn cluster_wait(&self, s: &mut State, t: usize, here: Site) -> Result<bool, ProtocolError> {
        let Some(round) = s.tasks[t].met else {
            return self.error(Problem::ClusterWaitFirst, here, None);
        };
        if s.shared.cluster.odd == round {
            return Ok(false);
        }
        s.tasks[t].met = None;
        s.shared.facts.tell(self.places.known(t), self.places.cluster() + 1, None, |_, w| w);
        self.all_lanes_met(s, t);
        Ok(true)
    }

    /// Arrivals and bytes that an mbarrier lacks for which an agent waits, its last arrival, and whether a phase has one arrival only.
    pub(in super::super) fn lacks(&self, s: &State, t: usize, at: i64) -> (u32, i64, Option<Site>, bool) {
        let mbarrier = self.places.mbarrier(at | (self.agents[t].block as i64) << RANK);
        let bar = mbarrier.and_then(|w| s.shared.bars.get(w)?.as_ref());
        bar.map_or((0, 0, None, false), |b| (b.pending, b.bytes, b.last, b.count == 1))
    }

    /// What must not be left in flight at the end.
    pub(in super::super) fn shared_finish(&self, s: &State) -> Result<(), ProtocolError> {
        if let Some(site) = self.busy_region(&s.shared) {
            return self.error(Problem::InUseAtEnd, site, None);
        }
        if let Some(site) = self.copying_region(&s.shared) {
            return self.error(Problem::CopiesAtEnd, site, None);
        }
        if let Some(b) = s.shared.bars.iter().flatten().filter(|b| !b.is_idle()).min_by_key(|b| b.at) {
            let last = b.last.unwrap_or(Site(usize::MAX, std::ptr::null()));
            return self.error(Problem::BytesAtEnd, last, None);
        }
        Ok(())
    }
}
