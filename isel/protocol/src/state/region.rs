//! A region of shared memory: its last write, and who reads it.

use crate::problem::Problem;
use crate::site::Site;
use crate::state::keys::{Agents, list_key};
use smallvec::SmallVec;

/// The last write of a region.
pub(crate) struct Write {
    pub(crate) agent: usize,
    /// The mbarrier that counts its bytes, if a unit writes, or lanes copy it and have said so.
    pub(crate) mbarrier: Option<usize>,
    /// What units have written of the region: addresses and ends, in order, those that touch one another joined.
    pub(crate) parts: SmallVec<[(i64, i64); 2]>,
    /// Who has read what was written before.
    pub(crate) readers: Agents,
    /// Nobody has, though something was.
    pub(crate) unread: bool,
    /// Of that, the groups of the writer's role that knew it was there: nothing keeps them from writing their shares.
    pub(crate) knew: Agents,
    /// And the mbarrier that counted it: who has seen that phase end knows it, too.
    pub(crate) counted_by: Option<usize>,
    /// Lanes copy it: nobody looks before all have waited and met.
    pub(crate) copied: bool,
    /// Ages of the groups of copies that are in flight, a bit each; bit 0 is open. The oldest grow no older.
    pub(crate) copies: u64,
    /// Each lane has said to the mbarrier what it copies, and they have not met since.
    pub(crate) counted: bool,
    /// The groups of a role that may have put something else in some of its places since, and have met behind that.
    pub(crate) amended: Agents,
    /// The warpgroups of a role that write it together, each its share, until they meet; empty if one agent writes it.
    pub(crate) shares: SmallVec<[Writer; 2]>,
    pub(crate) site: Site,
}

/// A warpgroup that writes its share of a region.
#[derive(Clone, Copy)]
pub(crate) struct Writer {
    pub(crate) agent: u32,
    /// It has fenced what it has written.
    pub(crate) fenced: bool,
}

impl Write {
    /// True if a group is one of those that write together; it goes on with its share then.
    pub(crate) fn is_shared_with(&mut self, t: usize) -> bool {
        let own = self.shares.iter_mut().find(|x| x.agent as usize == t);
        own.is_some_and(|x| {
            x.fenced = false;
            true
        })
    }

    /// Another group writes its share; what the first one has written is fenced or not.
    pub(crate) fn share(&mut self, t: usize, fenced: bool) {
        if self.shares.is_empty() {
            self.shares.push(Writer { agent: self.agent as u32, fenced });
        }
        self.shares.push(Writer { agent: t as u32, fenced: false });
        self.shares.sort_unstable_by_key(|x| x.agent);
    }
}

/// Reads of a region by an agent.
#[derive(Clone, Copy)]
pub(crate) struct Reads {
    pub(crate) agent: usize,
    /// Ages of the groups of multiplications, and of bulk stores, that read, a bit each; bit 0 is open. The oldest grow no older.
    pub(crate) groups: [u64; 2],
    /// Bulk stores have been waited for by the lane that began them, and its agent's lanes have not met since.
    pub(crate) alone: bool,
    /// Lanes have read, and have not met since.
    pub(crate) lanes: bool,
    /// What lanes have read, and units may overwrite next.
    pub(crate) fence: Fence,
    /// How often the agent had told others what it knows when that of the read was last forgotten; no part of the state.
    pub(crate) told: u32,
    pub(crate) site: Site,
}

/// Whether reads of lanes are ordered in front of what units do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fence {
    /// They are, or units read.
    Done,
    /// They are not.
    Open,
    /// They were not when the agent arrived at an mbarrier.
    Late,
}

/// The age that does not grow.
pub(crate) const OLDEST: u64 = 1 << 63;

impl Reads {
    /// True if nothing of them is in flight, or has yet to be ordered.
    pub(crate) fn is_over(&self) -> bool {
        !self.busy() && !self.alone && !self.lanes && self.fence == Fence::Done
    }

    pub(crate) fn busy(&self) -> bool {
        self.groups != [0; 2]
    }
}

/// A region.
#[derive(Default)]
pub(crate) struct Region {
    pub(crate) write: Option<Write>,
    /// By agent.
    pub(crate) reads: SmallVec<[Reads; 2]>,
}

impl Clone for Region {
    fn clone(&self) -> Region {
        let copy = |w: &Write| Write {
            parts: SmallVec::from_slice(&w.parts),
            readers: SmallVec::from_slice(&w.readers),
            knew: SmallVec::from_slice(&w.knew),
            amended: SmallVec::from_slice(&w.amended),
            shares: SmallVec::from_slice(&w.shares),
            ..*w
        };
        Region { write: self.write.as_ref().map(copy), reads: SmallVec::from_slice(&self.reads) }
    }
}

impl Region {
    /// Everything that makes it differ, as numbers; mbarriers have other numbers, and addresses are moved.
    pub fn key(&self, out: &mut Vec<u64>, mbarrier: impl Fn(usize) -> usize, shift: i64) {
        match &self.write {
            None => out.push(0),
            Some(w) => {
                let flags =
                    1 | u64::from(w.unread) << 1 | u64::from(w.copied) << 2 | u64::from(w.counted) << 3 | (w.parts.len() as u64) << 4;
                out.extend([flags, w.copies, w.agent as u64, w.mbarrier.map_or(0, |n| mbarrier(n) as u64 + 1)]);
                w.parts.iter().for_each(|p| out.extend([(p.0 + shift) as u64, (p.1 + shift) as u64]));
                list_key(&w.readers, out);
                list_key(&w.knew, out);
                list_key(&w.amended, out);
                out.push(w.counted_by.map_or(0, |n| mbarrier(n) as u64 + 1));
                out.push(w.shares.len() as u64);
                out.extend(w.shares.iter().map(|x| u64::from(x.agent) << 1 | u64::from(x.fenced)));
            }
        }
        out.push(self.reads.len() as u64);
        self.reads.iter().for_each(|r| {
            out.extend([
                (r.agent as u64) << 4 | u64::from(r.lanes) << 3 | (r.fence as u64) << 1 | u64::from(r.alone),
                r.groups[0],
                r.groups[1],
            ])
        });
    }

    /// True if anybody has touched it.
    pub fn is_used(&self) -> bool {
        self.write.is_some() || !self.reads.is_empty()
    }

    pub(crate) fn reader(&self, t: usize) -> Result<usize, usize> {
        self.reads.binary_search_by_key(&t, |r| r.agent)
    }
}

/// Who has written what is dead.
const NOBODY: usize = usize::MAX;

impl Region {
    /// True if copies to it, or reads of units, are in flight.
    pub fn is_busy(&self) -> bool {
        self.reads.iter().any(Reads::busy) || self.write.as_ref().is_some_and(|w| w.copies != 0)
    }

    pub fn is_dead(&self) -> bool {
        self.write.as_ref().is_some_and(|w| w.agent == NOBODY)
    }

    /// It is dead: as if somebody had written it of whom nobody hears.
    pub fn end(&mut self) {
        let site = self.write.as_ref().map_or(Site(NOBODY, std::ptr::null()), |w| w.site);
        let write = Write {
            agent: NOBODY,
            mbarrier: None,
            parts: SmallVec::new(),
            readers: SmallVec::new(),
            unread: false,
            knew: SmallVec::new(),
            counted_by: None,
            amended: SmallVec::new(),
            copied: false,
            copies: 0,
            counted: false,
            shares: SmallVec::new(),
            site,
        };
        *self = Region { write: Some(write), reads: SmallVec::new() };
    }

    /// Reads that were in flight before, and may still be.
    pub fn perhaps(&mut self, before: &Region) {
        for x in &before.reads {
            match self.reader(x.agent) {
                Ok(n) => (0..2).for_each(|k| self.reads[n].groups[k] |= x.groups[k]),
                Err(n) => self.reads.insert(n, *x),
            }
        }
    }
}

/// Adds a part to those that are there.
pub(crate) fn join(parts: &mut SmallVec<[(i64, i64); 2]>, (from, to): (i64, i64)) {
    let at = parts.partition_point(|p| p.0 < from);
    parts.insert(at, (from, to));
    let mut n = at.saturating_sub(1);
    while n + 1 < parts.len() {
        if parts[n].1 >= parts[n + 1].0 {
            parts[n].1 = parts[n].1.max(parts[n + 1].1);
            parts.remove(n + 1);
        } else if n > at {
            break;
        } else {
            n += 1;
        }
    }
}

/// What may go wrong, and the other instruction.
pub(crate) type Clash = (Problem, Option<Site>);

/// Units that read.
pub(crate) const PRODUCTS: usize = 0;

pub(crate) const STORES: usize = 1;
