//! Barriers: those that count arrivals and bytes, the numbered ones, and the cluster's.

use super::local::{Clock, Mark, Site};
use crate::protocol::Protocol;

/// A barrier that counts arrivals and bytes.
pub(super) struct Mbarrier {
    /// Arrivals of a phase.
    count: u32,
    /// Arrivals that the running phase lacks.
    missing: u32,
    /// Bytes that the running phase lacks.
    pub(super) bytes: i64,
    /// The phase that is running.
    pub(super) phase: u32,
    /// What comes before the next end of a phase.
    coming: Clock,
    /// What comes before the last end of a phase.
    done: Clock,
    /// Copies whose bytes the running phase has counted: the block that they went to, and their numbers.
    pub(super) landed: Vec<(usize, u64)>,
    /// The agent that speaks for them.
    pub(super) agent: usize,
    /// Who waited for which phase: the newest wait of each task.
    waits: Vec<(Mark, u32)>,
}

impl Mbarrier {
    pub(super) fn new(count: u32, agent: usize) -> Mbarrier {
        Mbarrier {
            count,
            missing: count,
            bytes: 0,
            phase: 0,
            coming: Clock::default(),
            done: Clock::default(),
            landed: Vec::new(),
            agent,
            waits: Vec::new(),
        }
    }

    /// An arrival that brings what comes before it; false if the phase has all its arrivals.
    pub(super) fn arrive(&mut self, clock: &Clock) -> bool {
        self.coming.join(clock);
        let room = self.missing > 0;
        self.missing = self.missing.saturating_sub(1);
        room
    }

    /// What the bytes of a remote store tell of what came before it; the first `copies` agents speak for copies.
    pub(super) fn told(&mut self, before: &Clock, copies: usize) {
        self.coming.join_over(before, copies);
    }

    /// What the bytes of another copy tell of what came before it.
    pub(super) fn begun(&mut self, before: &Clock) {
        self.coming.join_came(before);
    }

    /// Ends the phase if nothing is missing; the copies that it counted.
    pub(super) fn end_phase(&mut self) -> Option<Vec<(usize, u64)>> {
        if self.missing > 0 || self.bytes != 0 {
            return None;
        }
        self.phase += 1;
        self.missing = self.count;
        self.coming.set(self.agent, self.phase);
        self.done = self.coming.clone();
        Some(std::mem::take(&mut self.landed))
    }

    /// What comes before a wait that passes; `None` while the phase of that parity is running.
    pub(super) fn passed(&self, parity: i64) -> Option<&Clock> {
        (i64::from(self.phase & 1) != parity & 1).then_some(&self.done)
    }

    /// Checks that the phase which a task means by a parity is the running one or the one before, if it knows of `known` ends of phases.
    pub(super) fn in_time(&self, parity: i64, known: u32) -> Result<(), Protocol> {
        let meant = meant(parity, known);
        if self.phase > next(meant) { Err(Protocol::Late { meant, running: self.phase }) } else { Ok(()) }
    }

    /// Notes a wait that passes, of a task that knew of `known` ends of phases.
    pub(super) fn waited(&mut self, parity: i64, known: u32, mark: Mark) {
        self.waits.retain(|w| w.0.agent != mark.agent);
        self.waits.push((mark, next(meant(parity, known))));
    }

    /// A wait that might as well come behind the end of the phase that has just ended, and would then take the next one for its own: nothing that
    /// the end had to wait for comes behind it.
    pub(super) fn too_late(&self) -> Option<(Site, Protocol)> {
        let ended = self.phase.checked_sub(1)?;
        let late = self.waits.iter().find(|(m, next)| *next == ended && self.done.reached(m.agent) < m.time)?;
        Some((late.0.site, Protocol::Late { meant: late.1.checked_sub(1), running: self.phase }))
    }

    /// What is missing, in words.
    pub(super) fn lacks(&self) -> String {
        match (self.missing, self.bytes) {
            (0, b) if b < 0 => format!("got {} bytes too many", -b),
            (0, b) => format!("lacks {b} bytes"),
            (n, b) if b > 0 => format!("lacks {n} of {} arrivals and {b} bytes", self.count),
            (n, _) => format!("lacks {n} of {} arrivals", self.count),
        }
    }
}

/// The phase that a task means by a parity, if it knows of `known` ends of phases; `None` is the one before the first.
fn meant(parity: i64, known: u32) -> Option<u32> {
    if i64::from(known & 1) == parity & 1 { Some(known) } else { known.checked_sub(1) }
}

/// The phase behind it.
fn next(phase: Option<u32>) -> u32 {
    phase.map_or(0, |p| p + 1)
}

/// A barrier at which a number of shares meet, again and again.
#[derive(Default)]
pub(super) struct Meeting {
    /// Shares that it takes; 0 if nobody came yet.
    pub(super) wants: u32,
    /// Shares that came.
    pub(super) got: u32,
    /// How often it was complete.
    pub(super) round: u64,
    /// Fibers that came, where each may come only once.
    pub(super) here: Vec<usize>,
    coming: Clock,
    done: Clock,
}

impl Meeting {
    /// Comes with some shares; false if there are too many.
    pub(super) fn come(&mut self, shares: u32, clock: &Clock) -> bool {
        self.coming.join(clock);
        self.got += shares;
        self.end_round();
        self.got < self.wants || self.got == 0
    }

    /// Shares end, some of them behind an arrival at a round: they count as come to the one in flight, and to all behind it.
    pub(super) fn leave(&mut self, shares: u32, met: Option<u64>, clock: &Clock) {
        self.coming.join(clock);
        self.wants -= shares.min(self.wants);
        if met == Some(self.round) {
            self.got -= shares.min(self.got);
        }
        if self.got > 0 {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        if self.got == self.wants {
            self.round += 1;
            self.here.clear();
            (self.got, self.done) = (0, self.coming.clone());
        }
    }

    /// What comes before the end of a round, if it has ended.
    pub(super) fn passed(&self, round: u64) -> Option<&Clock> {
        (self.round > round).then_some(&self.done)
    }
}
