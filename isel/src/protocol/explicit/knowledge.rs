//! What an agent may know of what others have done, as sets of numbered facts.
//!
//! ```text
//! known by an agent ── arrives, or sends bytes ─► gathered by the word's phase ── it ends ─► taught to whoever waits for it
//! ```
//!
//! Events that come before others in every order of steps come before them by such a chain, so a fact that an agent knows holds whatever
//! the order. A fact is forgotten by everybody as soon as it is about an older write, read or phase.

use super::super::hash::Map;
use super::super::word::Site;
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// What may be known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in super::super) enum Fact {
    /// A block runs.
    Runs(usize),
    /// All barrier words of a block are made, and seen by all.
    Made(usize),
    /// The last write of a region is there.
    Written(i64),
    /// Units see the last write of a region, if lanes made it: its writer has fenced behind it.
    Shown(i64),
    /// The reads of a region by an agent are over.
    Read(i64, usize),
    /// The phase of a word in front of the one under way has ended.
    Ended(i64),
    /// The one in front of that has ended.
    Before(i64),
    /// An agent has passed its newest wait for the phase in front of the one under way.
    Passed(i64, usize),
}

/// A set of numbers.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub(in super::super) struct Bits(SmallVec<[u64; 4]>);

impl Bits {
    pub fn has(&self, n: usize) -> bool {
        self.0.get(n / 64).is_some_and(|w| w >> (n % 64) & 1 == 1)
    }

    pub fn set(&mut self, n: usize) {
        if self.0.len() <= n / 64 {
            self.0.resize(n / 64 + 1, 0);
        }
        self.0[n / 64] |= 1 << (n % 64);
    }

    pub fn clear(&mut self, n: usize) {
        if let Some(w) = self.0.get_mut(n / 64)
            && *w >> (n % 64) & 1 == 1
        {
            *w &= !(1 << (n % 64));
            self.trim();
        }
    }

    pub fn add(&mut self, other: &Bits) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }

    pub fn take_away(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= !b);
        self.trim();
    }

    /// Takes away a few.
    pub fn forget(&mut self, few: &Few) {
        let mut any = false;
        for &(n, mask) in &few.0 {
            if let Some(w) = self.0.get_mut(n).filter(|w| **w & mask != 0) {
                *w &= !mask;
                any = true;
            }
        }
        if any {
            self.trim();
        }
    }

    pub fn without(&self, other: &Bits) -> Bits {
        let mut out = self.clone();
        out.take_away(other);
        out
    }

    pub fn common(&self, other: &Bits) -> Bits {
        let mut out = Bits(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect());
        out.trim();
        out
    }

    /// Equal sets are equal lists.
    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

/// A few numbers: which words of a set they are in, and where.
#[derive(Clone, Default)]
pub(in super::super) struct Few(SmallVec<[(usize, u64); 4]>);

impl Few {
    pub fn set(&mut self, n: usize) {
        let (word, bit) = (n / 64, 1 << (n % 64));
        match self.0.iter_mut().find(|x| x.0 == word) {
            Some(x) => x.1 |= bit,
            None => self.0.push((word, bit)),
        }
    }
}

/// The numbers of the facts, the same in all states.
#[derive(Default)]
pub(in super::super) struct Names {
    ids: Map<Fact, usize>,
    /// The facts about a region, and those about who has passed its wait for a word.
    regions: Map<i64, Few>,
    passed: Map<i64, Few>,
    /// What is written, and who sees it.
    pub written: Bits,
    /// What is no fact about memory.
    pub events: Bits,
}

impl Names {
    pub fn id(&mut self, f: Fact) -> usize {
        let next = self.ids.len();
        let n = *self.ids.entry(f).or_insert(next);
        if n == next {
            match f {
                Fact::Written(r) | Fact::Shown(r) => {
                    self.regions.entry(r).or_default().set(n);
                    self.written.set(n);
                }
                Fact::Read(r, _) => self.regions.entry(r).or_default().set(n),
                Fact::Passed(w, _) => {
                    self.passed.entry(w).or_default().set(n);
                    self.events.set(n);
                }
                Fact::Runs(_) | Fact::Made(_) | Fact::Ended(_) | Fact::Before(_) => self.events.set(n),
            }
        }
        n
    }

    /// All facts about a region.
    pub fn region(&self, r: i64) -> Few {
        self.regions.get(&r).cloned().unwrap_or_default()
    }

    /// Who has passed its wait for a word.
    pub fn passed(&self, word: i64) -> Few {
        self.passed.get(&word).cloned().unwrap_or_default()
    }
}

/// An instruction that only messages name: it makes no states differ.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct At(pub Site);

impl PartialEq for At {
    fn eq(&self, _: &At) -> bool {
        true
    }
}

impl Eq for At {}

impl Hash for At {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
