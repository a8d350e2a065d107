//! Local memory that agents hand to one another: who wrote each region, and who still reads it.
//!
//! ```text
//! write ── the writer knows ── arrive ─► the word's phase knows ── wait ─► the reader knows: it may read
//! read  ── done (products, stores: waited for) ── arrive ─► … ── wait ─► the next writer knows: it may write
//! ```
//!
//! A region is a slot of a buffer, or a part of it where parts are used apart. One lane of an agent speaks for all: of what the others
//! have read and written it knows once all have met. What lanes have written units read only behind a fence of the writer, which is
//! known in the same way.

use super::super::word::Site;
use super::knowledge::{At, Fact};
use super::{Checker, Shared};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The last write of a region.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Write {
    agent: usize,
    /// The word that counts its bytes, if a unit writes.
    word: Option<i64>,
    /// What units have written of the region: addresses and ends.
    parts: Vec<(i64, i64)>,
    site: At,
}

/// Reads of a region by an agent.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Reads {
    /// Ages of the groups of multiplications, and of bulk stores, that read; 0 is open.
    groups: [BTreeSet<u32>; 2],
    site: At,
}

impl Reads {
    fn busy(&self) -> bool {
        self.groups.iter().any(|g| !g.is_empty())
    }
}

/// A region.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Region {
    write: Option<Write>,
    reads: BTreeMap<usize, Reads>,
}

/// What may go wrong, and the other instruction.
pub(super) type Clash = (&'static str, Option<Site>);

/// Units that read.
pub(super) const PRODUCTS: usize = 0;
pub(super) const STORES: usize = 1;

impl Checker<'_> {
    /// An agent's lanes write a region, or a unit does for it (then a word counts its bytes, and a part is what it writes).
    pub(super) fn write_region(&self, s: &mut Shared, r: i64, t: usize, unit: Option<(i64, (i64, i64))>, here: Site) -> Result<(), Clash> {
        let written = self.id(Fact::Written(r));
        let counted = unit.is_some_and(|(word, _)| s.gathered(word, written));
        let region = Rc::make_mut(s.regions.entry(r).or_default());
        let read = |reader: usize| self.id(Fact::Read(r, reader));
        if let Some(w) = &mut region.write {
            let same = w.word == unit.map(|u| u.0) && region.reads.is_empty();
            let more = match unit {
                // The phase under way counts other parts of the same write.
                Some((_, (from, to))) => counted && w.parts.iter().all(|&(a, b)| b <= from || to <= a),
                None => w.agent == t && s.unsettled[t].has(written) && !s.spoken[t].has(written),
            };
            if same && more {
                w.parts.extend(unit.map(|u| u.1));
                if unit.is_none() {
                    let shown = self.id(Fact::Shown(r));
                    s.known[t].clear(shown);
                    s.unsettled[t].clear(shown);
                }
                return Ok(());
            }
            let known = s.known[t].has(written) || (w.agent == t && w.word.is_none());
            if !known && !region.reads.keys().any(|&reader| reader != t && s.known[t].has(read(reader))) {
                return Err(("is written while what was written before may still be under way,", Some(w.site.0)));
            }
            if unit.is_some() && s.unsettled[t].has(written) {
                return Err(("is written by a unit while lanes may still write it,", Some(w.site.0)));
            }
        }
        for (&reader, x) in &region.reads {
            let over = if reader == t { !x.busy() } else { s.known[t].has(read(reader)) };
            let met = reader != t || unit.is_none() || !s.unsettled[t].has(read(t));
            if !over || !met {
                return Err(("is written while it may still be read,", Some(x.site.0)));
            }
        }
        region.reads.clear();
        let parts = unit.map(|u| u.1).into_iter().collect();
        region.write = Some(Write { agent: t, word: unit.map(|u| u.0), parts, site: At(here) });
        let void = self.names.borrow().region(r);
        s.holders().for_each(|h| h.forget(&void));
        match unit {
            None => self.learn_one(s, t, written),
            Some((word, _)) => s.gather(word, written),
        }
        Ok(())
    }

    /// An agent's lanes read a region, or a unit of a kind does for it.
    pub(super) fn read_region(&self, s: &mut Shared, r: i64, t: usize, unit: Option<usize>, here: Site) -> Result<(), Clash> {
        let (written, read) = (self.id(Fact::Written(r)), self.id(Fact::Read(r, t)));
        // As the read in front of it: nobody has been told.
        let untold = s.unsettled[t].has(read) && !s.spoken[t].has(read);
        if unit.is_none() && untold && s.known[t].has(read) && s.known[t].has(written) {
            return Ok(());
        }
        let region = Rc::make_mut(s.regions.entry(r).or_default());
        match &region.write {
            None => return Err(("is read before anybody has written it,", None)),
            Some(w) if !s.known[t].has(written) => {
                return Err(("is read before what was written is known to be there,", Some(w.site.0)));
            }
            Some(w) if unit.is_some() && s.unsettled[t].has(written) => {
                return Err(("is read by a unit before all lanes are known to have written it,", Some(w.site.0)));
            }
            Some(w) if unit.is_some() && w.word.is_none() => {
                let shown = self.id(Fact::Shown(r));
                if !s.known[t].has(shown) {
                    return Err(("is read by a unit, and `fence_async` of the writer does not come between,", Some(w.site.0)));
                }
                if s.unsettled[t].has(shown) {
                    return Err(("is read by a unit before the fences of all lanes that wrote it are known to be done,", Some(w.site.0)));
                }
            }
            Some(_) => {}
        }
        // Of a first read behind a write nobody knows anything.
        let again = region.reads.contains_key(&t);
        let reads = region.reads.entry(t).or_insert_with(|| Reads { groups: Default::default(), site: At(here) });
        reads.site = At(here);
        if let Some(kind) = unit {
            reads.groups[kind].insert(0);
        }
        let busy = reads.busy();
        if again {
            s.holders().for_each(|h| h.clear(read));
        }
        if !busy {
            self.learn_one(s, t, read);
        }
        Ok(())
    }

    /// An agent's lanes show the units what they have written. Where they know of one another's writes, each speaks for all.
    pub(super) fn show_regions(&self, s: &mut Shared, t: usize) {
        let own = |x: &Region| x.write.as_ref().is_some_and(|w| w.agent == t && w.word.is_none());
        let shown: Vec<i64> = s.regions.iter().filter(|(_, x)| own(x)).map(|(&r, _)| r).collect();
        for r in shown {
            let (written, shown) = (self.id(Fact::Written(r)), self.id(Fact::Shown(r)));
            if s.known[t].has(shown) && !s.unsettled[t].has(shown) {
                continue;
            }
            s.known[t].set(shown);
            if s.unsettled[t].has(written) {
                s.unsettled[t].set(shown);
            } else {
                s.unsettled[t].clear(shown);
            }
        }
    }

    /// An agent closes its group of a kind of unit.
    pub(super) fn close_group(&self, s: &mut Shared, t: usize, kind: usize) {
        for x in s.regions.values_mut().filter(|x| x.reads.get(&t).is_some_and(|r| !r.groups[kind].is_empty())) {
            if let Some(reads) = Rc::make_mut(x).reads.get_mut(&t) {
                reads.groups[kind] = reads.groups[kind].iter().map(|age| age + 1).collect();
            }
        }
    }

    /// An agent waits until all but the newest groups of a kind are over.
    pub(super) fn groups_over(&self, s: &mut Shared, t: usize, kind: usize, pending: u32) {
        let mut over = Vec::new();
        for (&r, x) in s.regions.iter_mut().filter(|(_, x)| x.reads.get(&t).is_some_and(|r| !r.groups[kind].is_empty())) {
            if let Some(reads) = Rc::make_mut(x).reads.get_mut(&t) {
                reads.groups[kind].retain(|&age| age == 0 || age <= pending);
                over.extend((!reads.busy()).then_some(r));
            }
        }
        for r in over {
            let read = self.id(Fact::Read(r, t));
            // The lane that stores waits for its stores, and speaks for all; products belong to all lanes.
            if kind == STORES {
                s.known[t].set(read);
            } else {
                self.learn_one(s, t, read);
            }
        }
    }

    /// A read that is still under way.
    pub(super) fn busy_region(s: &Shared) -> Option<Site> {
        s.regions.values().flat_map(|x| x.reads.values()).find(|r| r.busy()).map(|r| r.site.0)
    }
}
