//! Local memory that roles hand to one another: who wrote each region, who still reads it, and who knows.
//!
//! ```text
//! write ── the writer knows ── arrive ─► the word's phase knows ── wait ─► the reader knows: it may read
//! read  ── done (products, stores: waited for) ── arrive ─► … ── wait ─► the next writer knows: it may write
//! ```
//!
//! A region is a slot of a buffer, or a part of it where parts are used apart. A fact about a region is void as soon as the region is
//! written, or read, again.

use super::word::Site;
use std::collections::{BTreeMap, BTreeSet};

/// What a role may know.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Fact {
    /// The last write of a region is there.
    Written(i64),
    /// The reads of a region by a role are over.
    Read(i64, usize),
}

impl Fact {
    fn region(self) -> i64 {
        match self {
            Fact::Written(r) | Fact::Read(r, _) => r,
        }
    }
}

/// The last write of a region.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Write {
    pub role: usize,
    /// The word that counts its bytes, if a unit writes.
    pub word: Option<i64>,
    /// What a unit has written of the region: addresses and ends.
    pub parts: Vec<(i64, i64)>,
    pub site: Site,
}

/// Reads of a region by a role.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Reads {
    /// Ages of the groups of multiplications, and of bulk stores, that read; 0 is open.
    pub groups: [BTreeSet<u32>; 2],
    pub site: Site,
}

#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Region {
    pub write: Option<Write>,
    pub reads: BTreeMap<usize, Reads>,
}

/// What may go wrong, and the other instruction.
pub(super) type Clash = (&'static str, Option<Site>);

/// All regions, and what is known of them.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Regions {
    pub all: BTreeMap<i64, Region>,
    /// Per role.
    pub known: Vec<BTreeSet<Fact>>,
    /// Per word: what the phase under way, and the one before, teaches.
    pub gathered: BTreeMap<i64, BTreeSet<Fact>>,
    pub taught: BTreeMap<i64, BTreeSet<Fact>>,
}

/// Units that read.
pub(super) const PRODUCTS: usize = 0;
pub(super) const STORES: usize = 1;

impl Regions {
    fn forget(&mut self, void: impl Fn(Fact) -> bool) {
        let sets = self.known.iter_mut().chain(self.gathered.values_mut()).chain(self.taught.values_mut());
        sets.for_each(|set| set.retain(|&f| !void(f)));
    }

    /// A role's lanes write a region, or a unit does for it (then `word` counts its bytes, and `part` is what it writes).
    pub fn write(&mut self, r: i64, role: usize, unit: Option<(i64, (i64, i64))>, site: Site) -> Result<(), Clash> {
        let region = self.all.entry(r).or_default();
        if let Some(w) = &mut region.write {
            let more = w.role == role && region.reads.is_empty() && w.word == unit.map(|u| u.0);
            let apart = unit.is_none_or(|(_, (from, to))| w.parts.iter().all(|&(a, b)| b <= from || to <= a));
            // Another part of what is being written.
            if more && apart && !(unit.is_some() && self.known[role].contains(&Fact::Written(r))) {
                w.parts.extend(unit.map(|u| u.1));
                return Ok(());
            }
            let known = self.known[role].contains(&Fact::Written(r)) || (w.role == role && w.word.is_none());
            let read = region.reads.keys().any(|&reader| reader != role && self.known[role].contains(&Fact::Read(r, reader)));
            if !known && !read {
                return Err(("is written while what was written before may still be under way,", Some(w.site)));
            }
        }
        for (&reader, x) in &region.reads {
            let busy = x.groups.iter().any(|g| !g.is_empty());
            if (reader == role && busy) || (reader != role && !self.known[role].contains(&Fact::Read(r, reader))) {
                return Err(("is written while it may still be read,", Some(x.site)));
            }
        }
        region.reads.clear();
        region.write = Some(Write { role, word: unit.map(|u| u.0), parts: unit.map(|u| u.1).into_iter().collect(), site });
        self.forget(|f| f.region() == r);
        match unit {
            None => {
                self.known[role].insert(Fact::Written(r));
            }
            Some((word, _)) => {
                self.gathered.entry(word).or_default().insert(Fact::Written(r));
            }
        }
        Ok(())
    }

    /// A role's lanes read a region, or a unit of a kind does for it.
    pub fn read(&mut self, r: i64, role: usize, unit: Option<usize>, site: Site) -> Result<(), Clash> {
        let region = self.all.entry(r).or_default();
        match &region.write {
            None => return Err(("is read before anybody has written it,", None)),
            Some(w) if !self.known[role].contains(&Fact::Written(r)) => {
                return Err(("is read before what was written is known to be there,", Some(w.site)));
            }
            Some(_) => {}
        }
        let reads = region.reads.entry(role).or_insert_with(|| Reads { groups: Default::default(), site });
        reads.site = site;
        if let Some(kind) = unit {
            reads.groups[kind].insert(0);
        }
        self.forget(|f| f == Fact::Read(r, role));
        Ok(())
    }

    /// A role closes its group of a kind of unit.
    pub fn close(&mut self, role: usize, kind: usize) {
        for reads in self.all.values_mut().filter_map(|x| x.reads.get_mut(&role)) {
            reads.groups[kind] = reads.groups[kind].iter().map(|age| age + 1).collect();
        }
    }

    /// A role waits until all but the newest groups of a kind are over.
    pub fn over(&mut self, role: usize, kind: usize, pending: u32) {
        for reads in self.all.values_mut().filter_map(|x| x.reads.get_mut(&role)) {
            reads.groups[kind].retain(|&age| age == 0 || age <= pending);
        }
    }

    /// A role arrives: whoever waits for that learns what it has written, and which of its reads are over; with `relay` also what others
    /// have told it.
    pub fn tell(&mut self, role: usize, word: i64, relay: bool) {
        let own = self.all.iter().filter(|(_, x)| x.reads.get(&role).is_some_and(|g| g.groups.iter().all(BTreeSet::is_empty)));
        let own: Vec<Fact> = own.map(|(&r, _)| Fact::Read(r, role)).collect();
        let written = |f: &Fact| self.all.get(&f.region()).and_then(|x| x.write.as_ref()).is_some_and(|w| w.role == role);
        let known: Vec<Fact> = self.known[role].iter().copied().filter(|f| relay || written(f)).collect();
        self.gathered.entry(word).or_default().extend(known.into_iter().chain(own));
    }

    /// The phase of a word is over.
    pub fn ended(&mut self, word: i64) {
        let now = self.gathered.remove(&word).unwrap_or_default();
        self.taught.insert(word, now);
    }

    /// A role has waited for a word.
    pub fn learn(&mut self, role: usize, word: i64) {
        if let Some(set) = self.taught.get(&word) {
            self.known[role].extend(set.iter().copied());
        }
    }

    /// The same without the instructions, which only messages name.
    pub fn without_sites(&self) -> Regions {
        let mut out = self.clone();
        let none = Site(0, std::ptr::null());
        for x in out.all.values_mut() {
            x.write.iter_mut().for_each(|w| w.site = none);
            x.reads.values_mut().for_each(|r| r.site = none);
        }
        out
    }

    /// A read that is still under way.
    pub fn busy(&self) -> Option<Site> {
        self.all.values().flat_map(|x| x.reads.values()).find(|r| r.groups.iter().any(|g| !g.is_empty())).map(|r| r.site)
    }
}
