//! What the checker keeps of mbarriers, of what waits for them teach, of slots and of staged results.

use std::collections::{BTreeMap, BTreeSet};
use tilelift_lane::Inst;

/// An mbarrier.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Mbarrier {
    pub count: u32,
    pub pending: u32,
    pub bytes: i64,
    pub parity: bool,
    /// Phases that ended since each role last passed a wait for one, less those that it passed over: a wait must be for the one under
    /// way or the one before.
    pub since: Vec<i32>,
    /// What passing a wait for this phase, and for the one before, teaches: slots that are full, and slots whose reads are done.
    pub gathered: Lesson,
    pub taught: Lesson,
    /// The last arrival, for messages.
    pub last: Option<Site>,
}

/// Facts about slots that a role may rely on, because it has waited for them.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Lesson {
    pub full: BTreeSet<i64>,
    pub free: BTreeSet<i64>,
    /// Of each mbarrier that counts bytes, how many of the phases that have ended are not known to have; mbarriers of which two or more are
    /// not there. Kept for roles that pass over phases only: others know of the phases that they have waited for.
    pub behind: BTreeMap<i64, i32>,
}

impl Lesson {
    /// Takes what another knows of phases.
    pub fn learn(&mut self, behind: &BTreeMap<i64, i32>) {
        for (&at, &n) in behind {
            let own = self.behind.entry(at).or_insert(n);
            *own = n.min(*own);
        }
    }

    /// Another phase of an mbarrier has ended.
    pub fn ended(&mut self, at: i64) {
        if let Some(n) = self.behind.get_mut(&at) {
            *n += 1;
            if *n > 1 {
                self.behind.remove(&at);
            }
        }
    }
}

/// An instruction of a role, by address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Site(pub usize, pub *const Inst);

/// A range that a bulk copy fills.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    pub bytes: u32,
    pub writer: Site,
    /// The last read, if there was one.
    pub read: Option<Site>,
    /// Groups of multiplications that read it, by age: 0 is open.
    pub readers: Vec<(u32, Site)>,
    /// Roles whose lanes read it, each its part, and have not met since: one lane can't say for the others that it has been read. True once they
    /// have fenced that against what units do.
    pub lanes: Vec<(usize, bool)>,
    /// The reads are done, and an arrival has said so.
    pub given: bool,
}

impl Slot {
    /// The same without the instructions, which only messages name.
    pub fn without_sites(&self) -> Slot {
        let none = Site(0, std::ptr::null());
        let mut readers: Vec<(u32, Site)> = self.readers.iter().map(|r| (r.0, Site(r.1.0, none.1))).collect();
        readers.sort_unstable_by_key(|r| (r.0, r.1.0));
        readers.dedup();
        // Who read it matters until that is said.
        let read = self.read.map(|r| Site(if self.given { 0 } else { r.0 }, none.1));
        Slot { bytes: self.bytes, writer: none, read, readers, lanes: self.lanes.clone(), given: self.given }
    }
}

/// What staged results are up to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Staging {
    Free,
    Written,
    Fenced,
    Shown,
    Leaving,
    Committed,
    Left,
}

impl Staging {
    /// How far from free, where nothing more has to be done for what was written to leave: whatever goes on right from a later one goes on
    /// right from those before it.
    pub(super) fn settled(self) -> Option<u32> {
        match self {
            Staging::Free => Some(0),
            Staging::Left => Some(1),
            Staging::Committed => Some(2),
            Staging::Written | Staging::Fenced | Staging::Shown | Staging::Leaving => None,
        }
    }
}
