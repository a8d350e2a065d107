//! Barrier words, the barriers of warps and of the cluster, and what passing them teaches.

use super::super::ProtocolError;
use super::super::run::{Life, State};
use super::super::word::Site;
use super::Checker;
use super::knowledge::{At, Bits, Fact};
use super::regions::Region;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The lowest bit of a block's rank in the key of a place: what lies below is its address.
pub(super) const RANK: u32 = 24;

/// The block of a place.
pub(super) fn block_of(key: i64) -> usize {
    (key >> RANK) as usize
}

/// A barrier word.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(in super::super) struct Bar {
    count: u32,
    pub pending: u32,
    pub bytes: i64,
    odd: bool,
    /// Where the facts stand that passing a wait for the phase under way teaches; behind them those of the one before.
    facts: usize,
    /// Who has passed a wait for the phase before.
    passed: BTreeSet<usize>,
    /// Bytes have come in the phase under way, or in one that nobody of the block has waited for.
    counted: bool,
    owed: bool,
    pub last: Option<At>,
}

/// A barrier at which warps, or blocks, meet in rounds.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Meeting {
    /// Warps that have come in the round; whether there was one before.
    warps: u32,
    again: bool,
    came: BTreeSet<usize>,
    odd: bool,
    gathered: Bits,
    taught: Bits,
}

impl Meeting {
    fn turn(&mut self) {
        (self.warps, self.odd, self.again) = (0, !self.odd, true);
        self.came.clear();
        self.taught = std::mem::take(&mut self.gathered);
    }
}

/// What agents share.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub(in super::super) struct Shared {
    /// Per agent: what it knows, and what of it only some of its lanes do.
    pub known: Vec<Bits>,
    pub unsettled: Vec<Bits>,
    /// What others may have been told of by all its lanes, which have not met since.
    pub(super) spoken: Vec<Bits>,
    /// Of the words: what their phases teach.
    phases: Vec<Bits>,
    pub bars: BTreeMap<i64, Bar>,
    pub(super) regions: BTreeMap<i64, Rc<Region>>,
    named: BTreeMap<(usize, u32), Meeting>,
    cluster: Meeting,
    /// Per block: made words that the units, and then the other warps, may not see yet.
    fresh: Vec<(bool, bool)>,
}

impl Shared {
    /// All sets of facts.
    pub(super) fn holders(&mut self) -> impl Iterator<Item = &mut Bits> {
        let meetings = self.named.values_mut().chain([&mut self.cluster]).flat_map(|m| [&mut m.gathered, &mut m.taught]);
        self.known.iter_mut().chain(&mut self.unsettled).chain(&mut self.spoken).chain(&mut self.phases).chain(meetings)
    }
}

impl Shared {
    /// True if the phase of a word that is under way teaches something.
    pub(super) fn gathered(&self, word: i64, fact: usize) -> bool {
        self.bars.get(&word).is_some_and(|b| self.phases[b.facts].has(fact))
    }

    /// Lets the phase of a word that is under way teach something.
    pub(super) fn gather(&mut self, word: i64, fact: usize) {
        if let Some(b) = self.bars.get(&word) {
            self.phases[b.facts].set(fact);
        }
    }
}

impl<'a> Checker<'a> {
    pub(super) fn id(&self, f: Fact) -> usize {
        self.names.borrow_mut().id(f)
    }

    /// An agent's lanes each come to know something.
    pub(super) fn learn_one(&self, s: &mut Shared, t: usize, fact: usize) {
        s.known[t].set(fact);
        if !self.agents[t].single {
            s.unsettled[t].set(fact);
        }
    }

    /// Before anything runs.
    pub(in super::super) fn shared_begin(&self, s: &mut State<'a>) {
        let s = &mut s.shared;
        s.known = vec![Bits::default(); self.agents.len()];
        s.unsettled = s.known.clone();
        s.spoken = s.known.clone();
        s.fresh = vec![(false, false); self.explicit.blocks];
        for (n, a) in self.agents.iter().enumerate() {
            s.known[n].set(self.id(Fact::Runs(a.block)));
        }
    }

    /// A role goes its own way: it knows what all warps know together.
    pub(in super::super) fn shared_fork(&self, s: &mut State<'a>, whole: usize, role: usize) {
        let s = &mut s.shared;
        s.known[role] = s.known[whole].without(&s.unsettled[whole]);
        s.unsettled[role] = Bits::default();
    }

    /// All lanes of an agent have met.
    pub(in super::super) fn all_lanes_met(&self, s: &mut State<'a>, t: usize) {
        let s = &mut s.shared;
        s.unsettled[t] = Bits::default();
        s.spoken[t] = Bits::default();
        if self.agents[t].whole {
            let fresh = &mut s.fresh[self.agents[t].block];
            fresh.1 = fresh.0;
        }
    }

    /// The words of an agent's block must be seen by all its warps.
    pub(in super::super) fn words_are_seen(&self, s: &State<'a>, t: usize, here: Site) -> Result<(), ProtocolError> {
        match s.shared.fresh[self.agents[t].block] {
            (true, _) => self.error("barrier words are not published to the units", here, None),
            (false, true) => self.error("warps do not wait until barrier words are made", here, None),
            (false, false) => Ok(()),
        }
    }

    /// A word is made.
    pub(super) fn make(&self, s: &mut State<'a>, t: usize, at: i64, count: u32, here: Site) -> Result<(), ProtocolError> {
        if !self.agents[t].whole {
            return self.error("a barrier word is made in a role", here, None);
        }
        let block = self.agents[t].block;
        let bar = Bar {
            count,
            pending: count,
            bytes: 0,
            odd: false,
            facts: s.shared.phases.len(),
            passed: BTreeSet::new(),
            counted: false,
            owed: false,
            last: None,
        };
        if s.shared.bars.insert(at, bar).is_some() {
            return self.error("a barrier word is made twice", here, None);
        }
        s.shared.phases.extend([Bits::default(), Bits::default()]);
        // No phase has ended, which all know; but not that the word is there.
        let (ended, before, made) = (self.id(Fact::Ended(at)), self.id(Fact::Before(at)), self.id(Fact::Made(block)));
        s.shared.holders().for_each(|h| h.clear(made));
        for k in &mut s.shared.known {
            k.set(ended);
            k.set(before);
        }
        s.shared.fresh[block] = (true, true);
        Ok(())
    }

    /// The words of a block are shown.
    pub(super) fn publish(&self, s: &mut State<'a>, t: usize) {
        let block = self.agents[t].block;
        s.shared.fresh[block].0 = false;
        let made = self.id(Fact::Made(block));
        self.learn_one(&mut s.shared, t, made);
    }

    /// A word that is used: it has to be there.
    pub(super) fn used(&self, s: &State<'a>, t: usize, at: i64, here: Site) -> Result<(), ProtocolError> {
        let block = block_of(at);
        if !s.shared.bars.contains_key(&at) {
            if block == self.agents[t].block || s.shared.known[t].has(self.id(Fact::Made(block))) {
                return self.error(format!("no barrier word is made at {:#x}, used", at & ((1 << RANK) - 1)), here, None);
            }
            return self.error("a barrier word of another block is used that may not be made yet,", here, None);
        }
        if block != self.agents[t].block {
            return if s.shared.known[t].has(self.id(Fact::Made(block))) {
                Ok(())
            } else {
                self.error("a barrier word of another block is used that may not be made yet,", here, None)
            };
        }
        if self.agents[t].whole { self.words_are_seen(s, t, here) } else { Ok(()) }
    }

    /// What comes to a word must come in its phase, whatever the order.
    fn in_phase(&self, s: &State<'a>, t: usize, at: i64, here: Site) -> Result<(), ProtocolError> {
        if s.shared.known[t].has(self.id(Fact::Ended(at))) {
            return Ok(());
        }
        let last = s.shared.bars.get(&at).and_then(|b| b.last).map(|l| l.0);
        self.error("an arrival may come before the phase in front of its own has ended,", here, last)
    }

    /// Arrivals at a word, which may expect bytes.
    pub(super) fn arrive_at(
        &self,
        s: &mut State<'a>,
        t: usize,
        at: i64,
        (lanes, bytes): (u32, u32),
        here: Site,
    ) -> Result<(), ProtocolError> {
        if lanes == 0 {
            return Ok(());
        }
        self.used(s, t, at, here)?;
        self.in_phase(s, t, at, here)?;
        let told = s.shared.known[t].without(&s.shared.unsettled[t]);
        let Some(b) = s.shared.bars.get_mut(&at) else { return Ok(()) };
        // Who makes all arrivals of a phase that expects nothing else knows that it has ended.
        let alone = b.pending == b.count && lanes == b.count && bytes == 0 && b.bytes == 0;
        s.shared.phases[b.facts].add(&told);
        b.bytes += i64::from(bytes);
        let Some(left) = b.pending.checked_sub(lanes) else {
            let problem = format!("{lanes} arrivals where a phase expects {} more", b.pending);
            let last = b.last.map(|l| l.0);
            return self.error(problem, here, last);
        };
        b.pending = left;
        b.last = Some(At(here));
        self.turn_word(s, at, here)?;
        if alone {
            let (ended, before) = (self.id(Fact::Ended(at)), self.id(Fact::Before(at)));
            s.shared.known[t].set(ended);
            s.shared.known[t].set(before);
        }
        Ok(())
    }

    /// Bytes come to a word: sometime, and no later than its phase ends. Those of a unit tell what came before them; those of lanes tell
    /// of reads, too, but of what their sender has written only themselves.
    pub(super) fn bytes_come(
        &self,
        s: &mut State<'a>,
        t: usize,
        (at, bytes, unit): (i64, i64, bool),
        here: Site,
    ) -> Result<(), ProtocolError> {
        self.in_phase(s, t, at, here)?;
        let mut told = s.shared.known[t].without(&s.shared.unsettled[t]).without(&self.names.borrow().written);
        if unit {
            told = told.common(&self.names.borrow().events);
        }
        if let Some(b) = s.shared.bars.get_mut(&at) {
            s.shared.phases[b.facts].add(&told);
            b.bytes -= bytes;
            b.counted = true;
        }
        self.turn_word(s, at, here)
    }

    /// Ends a phase that has all it expects.
    fn turn_word(&self, s: &mut State<'a>, at: i64, here: Site) -> Result<(), ProtocolError> {
        let Some(b) = s.shared.bars.get_mut(&at).filter(|b| b.pending == 0 && b.bytes == 0) else { return Ok(()) };
        let gathered = b.facts;
        let late = b.passed.iter().find(|&&t| !s.shared.phases[gathered].has(self.id(Fact::Passed(at, t))));
        if let Some(&t) = late {
            let site = self.here(s, t);
            return self.error("a phase may end before the one in front of it has been seen by all that wait for it,", here, site);
        }
        (b.odd, b.pending) = (!b.odd, b.count);
        (b.owed, b.counted) = (b.owed || b.counted, false);
        b.passed.clear();
        s.shared.phases[gathered + 1] = std::mem::take(&mut s.shared.phases[gathered]);
        let (ended, before) = (self.id(Fact::Ended(at)), self.id(Fact::Before(at)));
        let mut over = self.names.borrow().passed(at);
        over.set(ended);
        over.set(before);
        for h in s.shared.holders() {
            let known = h.has(ended);
            h.forget(&over);
            if known {
                h.set(before);
            }
        }
        s.shared.phases[gathered + 1].set(ended);
        s.shared.phases[gathered + 1].set(before);
        Ok(())
    }

    /// Waits for the phase of a parity; false while it is under way.
    pub(super) fn wait_at(&self, s: &mut State<'a>, t: usize, at: i64, odd: bool, here: Site) -> Result<bool, ProtocolError> {
        self.used(s, t, at, here)?;
        let Some(b) = s.shared.bars.get_mut(&at) else { return Ok(false) };
        if b.odd == odd {
            return Ok(false);
        }
        if !s.shared.known[t].has(self.id(Fact::Before(at))) {
            let last = b.last.map(|l| l.0);
            return self.error("a wait may come before the phase in front of the one it is for, and can't tell them apart,", here, last);
        }
        let again = !b.passed.insert(t);
        b.owed = false;
        s.shared.known[t].add(&s.shared.phases[b.facts + 1]);
        let (ended, passed) = (self.id(Fact::Ended(at)), self.id(Fact::Passed(at, t)));
        s.shared.known[t].set(ended);
        if again {
            // What others have been told is of an earlier wait; this one must not miss the phase, either.
            s.shared.holders().for_each(|h| h.clear(passed));
        }
        self.learn_one(&mut s.shared, t, passed);
        Ok(true)
    }

    /// A named barrier: false while the agent waits at it.
    pub(super) fn named(
        &self,
        s: &mut State<'a>,
        t: usize,
        here: Site,
        (id, warps, wait): (u32, u32, bool),
    ) -> Result<bool, ProtocolError> {
        let key = (self.agents[t].block, id);
        let own = self.agents[t].warps;
        // All lanes come.
        let told = s.shared.known[t].clone();
        // Named barriers stand beside the words, below all addresses.
        let ended = self.id(Fact::Ended(-1 - i64::from(id) - ((key.0 as i64) << RANK)));
        let m = s.shared.named.entry(key).or_default();
        let round = match s.tasks[t].joined {
            Some(round) => round,
            None => {
                let round = m.odd;
                if m.again && !told.has(ended) {
                    return self.error("warps may come to a named barrier before all have come to its round before,", here, None);
                }
                m.warps += own;
                if m.warps > warps || !m.came.insert(t) {
                    return self.error("more warps come to a named barrier than it has,", here, None);
                }
                m.gathered.add(&told);
                s.shared.spoken[t] = s.shared.unsettled[t].clone();
                if m.warps == warps {
                    m.turn();
                    s.shared.holders().for_each(|h| h.clear(ended));
                    s.shared.named.entry(key).or_default().taught.set(ended);
                }
                round
            }
        };
        let m = s.shared.named.entry(key).or_default();
        let over = m.odd != round;
        s.tasks[t].joined = (wait && !over).then_some(round);
        if over && wait {
            let taught = m.taught.clone();
            s.shared.known[t].add(&taught);
            self.all_lanes_met(s, t);
        }
        Ok(over || !wait)
    }

    /// An arrival at the cluster's barrier.
    pub(super) fn cluster_arrive(&self, s: &mut State<'a>, t: usize, relaxed: bool, here: Site) -> Result<(), ProtocolError> {
        if s.tasks[t].met.is_some() {
            return self.error("lanes arrive at the cluster's barrier and have not waited for its last round,", here, None);
        }
        // All lanes come, but what they have done to memory is only ordered if they ask for it.
        let mut told = s.shared.known[t].clone();
        if relaxed {
            told = told.common(&self.names.borrow().events);
        }
        let m = &mut s.shared.cluster;
        s.tasks[t].met = Some(m.odd);
        m.came.insert(t);
        m.gathered.add(&told);
        s.shared.spoken[t] = s.shared.unsettled[t].clone();
        self.cluster_turn(s);
        Ok(())
    }

    /// Ends a round of the cluster's barrier if all have come that run; whoever has ended has come.
    pub(in super::super) fn cluster_turn(&self, s: &mut State<'a>) {
        let m = &s.shared.cluster;
        let all = s.tasks.iter().enumerate().all(|(n, t)| t.life != Life::Awake || m.came.contains(&n));
        if !m.came.is_empty() && all {
            s.shared.cluster.turn();
        }
    }

    /// Waits for the others at the cluster's barrier; false while some have not come.
    pub(super) fn cluster_wait(&self, s: &mut State<'a>, t: usize, here: Site) -> Result<bool, ProtocolError> {
        let Some(round) = s.tasks[t].met else {
            return self.error("lanes wait at the cluster's barrier and have not arrived,", here, None);
        };
        if s.shared.cluster.odd == round {
            return Ok(false);
        }
        s.tasks[t].met = None;
        let taught = s.shared.cluster.taught.clone();
        s.shared.known[t].add(&taught);
        self.all_lanes_met(s, t);
        Ok(true)
    }

    /// Arrivals and bytes that a word lacks for which an agent waits, and its last arrival.
    pub(in super::super) fn lacks(&self, s: &State<'a>, t: usize, at: i64) -> (u32, i64, Option<Site>) {
        let bar = s.shared.bars.get(&(at | (self.agents[t].block as i64) << RANK));
        bar.map_or((0, 0, None), |b| (b.pending, b.bytes, b.last.map(|l| l.0)))
    }

    /// What must not be left under way at the end.
    pub(in super::super) fn shared_finish(&self, s: &State<'a>) -> Result<(), ProtocolError> {
        if let Some(site) = Checker::busy_region(&s.shared) {
            return self.error("local memory is in use at the end", site, None);
        }
        let owed = |b: &&Bar| b.owed || b.counted || b.bytes != 0;
        if let Some(b) = s.shared.bars.values().find(owed) {
            let last = b.last.map_or(Site(usize::MAX, std::ptr::null()), |l| l.0);
            return self.error("bytes may still be on their way at the end: nobody waits for the phase that counts them,", last, None);
        }
        Ok(())
    }
}
