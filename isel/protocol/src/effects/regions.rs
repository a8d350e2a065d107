//! Local memory that agents hand to one another: who wrote each region, and who still reads it.
//!
//! ```text
//! write ── the writer knows ── arrive ─► the mbarrier's phase knows ── wait ─► the reader knows: it may read
//! read  ── done (products, stores: waited for) ── arrive ─► … ── wait ─► the next writer knows: it may write
//! ```
//!
//! A region is a slot of a buffer, or a part of it where parts are used apart. One lane of an agent speaks for all: of what the others
//! have read and written it knows once all have met. What lanes have written units read only behind a fence of the writer, which is
//! known in the same way. What lanes have read units overwrite only behind a fence of the reader, which stands in front of its arrivals, or of
//! one who knows of the read.
//!
//! Several agents may bring parts of one write, whose bytes one phase of an mbarrier counts. The first of them in the order that is followed
//! need not be the first in every order, so each has to know that what was read before is over.
//!
//! Groups of a role may write a region together, each its share: what one of them has written nobody knows any more when the next one begins, and all
//! know it when all that wrote have met.
//!
//! A *coarse* region is a whole slot although parts of it are used apart: an access of a part counts as one of all of it, and what is read
//! has to be among the bytes of the last write. So it allows no more than its parts would, and there are fewer of them. Only units, and
//! lanes that do not wait, write to it: of these one phase of an mbarrier tells all. What needs more is followed part by part.

use super::super::site::Site;
use crate::problem::Problem;
use crate::run::Checker;
use crate::state::facts::{Bits, Few};
use crate::state::keys::{Agents, Part, add_agent};
use crate::state::region::{Clash, Fence, OLDEST, Reads, Region, STORES, Write, join};
use crate::state::shared::Shared;
use smallvec::SmallVec;

// States are copied often, and these lists are copied as a whole where `clone` takes one element after the other.
/// What reads change of what is known.
#[derive(Default)]
struct News {
    /// Nobody knows it any more; then
    void: Few,
    /// the reader learns it.
    learnt: SmallVec<[usize; 8]>,
}

fn region(s: &mut Shared, r: usize) -> &mut Region {
    if s.regions.len() <= r {
        s.regions.resize_with(r + 1, Region::default);
    }
    &mut s.regions[r]
}

impl Checker<'_> {
    /// An agent's lanes write a region, or a unit does for it (then an mbarrier counts its bytes, and a part is what it writes).
    pub(super) fn write_region(
        &self,
        s: &mut Shared,
        r: usize,
        t: usize,
        unit: Option<(usize, (i64, i64))>,
        here: Site,
    ) -> Result<(), Clash> {
        let p = &self.places;
        if unit.is_none() && p.coarse(r) {
            return Err((Problem::LanesWhereUnits, None));
        }
        let (written, shown) = p.written(r);
        region(s, r);
        let Shared { facts, regions, .. } = s;
        let region = &mut regions[r];
        let own = p.known(t);
        if let Some(w) = &mut region.write {
            if unit.is_none() && region.reads.is_empty() && w.is_shared_with(t) {
                return Ok(());
            }
            // Another group of the role has begun to write it: this one writes its share, if it knows what the other had to know.
            let apart = unit.is_none() && w.mbarrier.is_none() && !w.copied && region.reads.is_empty() && !facts.has(own, written);
            let seen = || w.counted_by.is_some_and(|n| facts.has(own, p.ended(n).0) && !facts.has(p.unsettled(t), p.ended(n).0));
            if apart && self.same_role(w.agent, t) && (!w.unread || w.knew.contains(&(t as u32)) || seen()) {
                let over = |&reader: &u32| reader as usize == t || facts.has(own, p.read(r, reader as usize));
                if !w.readers.iter().all(over) {
                    return Err((Problem::StillRead, Some(w.site)));
                }
                let fenced = facts.has(p.known(w.agent), shown);
                w.share(t, fenced);
                facts.forget_all(&p.about_write(r));
                return Ok(());
            }
            // Whoever reads it behind a meeting tells that the meeting has been.
            if !w.amended.is_empty() && region.reads.is_empty() {
                return Err((Problem::UnderWay, Some(w.site)));
            }
            let same = w.mbarrier == unit.map(|u| u.0) && region.reads.is_empty();
            let more = match unit {
                // The phase in flight counts other parts of the same write.
                Some((mbarrier, (from, to))) => facts.has(p.phase(mbarrier), written) && w.parts.iter().all(|&(a, b)| b <= from || to <= a),
                None => w.agent == t && facts.has(p.unsettled(t), written) && !facts.has(p.spoken(t), written),
            };
            if same && more {
                if w.agent != t {
                    // In another order it might have come first.
                    if w.unread {
                        return Err((Problem::UnderWay, Some(w.site)));
                    }
                    let read = |&reader: &u32| reader as usize == t || facts.has(own, p.read(r, reader as usize));
                    if !w.readers.iter().all(read) {
                        return Err((Problem::StillRead, Some(w.site)));
                    }
                }
                if let Some((_, part)) = unit {
                    join(&mut w.parts, part);
                } else {
                    facts.clear(p.known(t), shown);
                    facts.clear(p.unsettled(t), shown);
                }
                return Ok(());
            }
            let known = facts.has(own, written) || (w.agent == t && w.mbarrier.is_none() && !w.copied);
            if !known && !region.reads.iter().any(|x| x.agent != t && facts.has(own, p.read(r, x.agent))) {
                return Err((Problem::UnderWay, Some(w.site)));
            }
            if unit.is_some() && facts.has(p.unsettled(t), written) {
                return Err((Problem::UnitOverLanes, Some(w.site)));
            }
        }
        for x in &region.reads {
            // Another agent has waited for lanes that had met, or for the one that stores.
            let over = if x.agent == t { !(x.busy() || x.alone && unit.is_none()) } else { facts.has(own, p.read(r, x.agent)) };
            let met = x.agent != t || unit.is_none() || !facts.has(p.unsettled(t), p.read(r, t));
            if !over || !met {
                return Err((Problem::StillRead, Some(x.site)));
            }
        }
        let readers: Agents = region.reads.iter().map(|x| x.agent as u32).collect();
        let unread = readers.is_empty() && region.write.is_some();
        let knows = |&n: &usize| unread && unit.is_none() && self.same_role(n, t) && facts.has(p.known(n), written);
        let knew: Agents = (0..self.agents.len()).filter(knows).map(|n| n as u32).collect();
        let counted_by = region.write.as_ref().filter(|_| unread && unit.is_none()).and_then(|w| w.mbarrier);
        let old = region.write.take().map(|w| w.readers).unwrap_or_default();
        region.reads.clear();
        let parts = unit.map(|u| u.1).into_iter().collect();
        // What is known of reads stays, for others who write parts; it is void with the next read, or write.
        let mut void = p.about_write(r);
        old.iter().filter(|&&x| !readers.contains(&x)).for_each(|&x| void.set(p.read(r, x as usize)));
        region.write = Some(Write {
            agent: t,
            mbarrier: unit.map(|u| u.0),
            parts,
            readers,
            unread,
            knew,
            counted_by,
            amended: SmallVec::new(),
            copied: false,
            copies: 0,
            counted: false,
            shares: SmallVec::new(),
            site: here,
        });
        facts.forget_all(&void);
        s.name_in_region(r);
        match unit {
            None => self.learn_one(s, t, written),
            Some((mbarrier, _)) => s.facts.set(p.phase(mbarrier), written),
        }
        Ok(())
    }

    /// An agent's lanes may put something else in some places of a region that a unit has filled, and all groups of its role meet behind that: who of
    /// them reads it afterwards finds it as if the unit had brought that.
    pub(super) fn amend_region(&self, s: &mut Shared, r: usize, t: usize) -> Result<(), Clash> {
        let p = &self.places;
        let (written, own) = (p.written(r).0, p.known(t));
        region(s, r);
        let Shared { facts, regions, .. } = s;
        let region = &mut regions[r];
        let Some(w) = &mut region.write else { return Err((Problem::Unwritten, None)) };
        if w.mbarrier.is_none() || w.copied || !facts.has(own, written) || facts.has(p.unsettled(t), written) {
            return Err((Problem::UnderWay, Some(w.site)));
        }
        // Another group that reads it has been here, or this one has when it reads.
        let passed = |x: &Reads| x.agent != t && w.amended.contains(&(x.agent as u32)) && self.same_role(x.agent, t);
        if let Some(x) = region.reads.iter().find(|x| !passed(x)) {
            return Err((Problem::StillRead, Some(x.site)));
        }
        add_agent(&mut w.amended, t);
        s.name_in_region(r);
        Ok(())
    }

    /// True for two agents that are groups of one role.
    fn same_role(&self, a: usize, b: usize) -> bool {
        let role = |n: usize| self.agents.get(n).map(|x| (x.block, x.role, x.whole));
        a != b && role(a).is_some_and(|x| !x.2 && role(b) == Some(x))
    }

    /// An agent's lanes begin copies to a region, each of its own share.
    pub(super) fn copy_region(&self, s: &mut Shared, r: usize, t: usize, here: Site) -> Result<(), Clash> {
        let p = &self.places;
        if p.coarse(r) {
            return Err((Problem::LanesWhereUnits, None));
        }
        let (written, own) = (p.written(r).0, p.known(t));
        region(s, r);
        let Shared { facts, regions, .. } = s;
        let region = &mut regions[r];
        if let Some(w) = &region.write {
            // More of what the open group brings.
            if w.agent == t && w.copies == 1 && region.reads.is_empty() {
                return Ok(());
            }
            let read = || region.reads.iter().any(|x| x.agent != t && facts.has(own, p.read(r, x.agent)));
            if w.copies != 0 || !facts.has(own, written) && !read() {
                return Err((Problem::UnderWay, Some(w.site)));
            }
            if facts.has(p.unsettled(t), written) {
                return Err((Problem::CopyOverLanes, Some(w.site)));
            }
        }
        for x in &region.reads {
            let fact = p.read(r, x.agent);
            let over = if x.agent == t { !x.busy() } else { facts.has(own, fact) };
            if !over || x.agent == t && facts.has(p.unsettled(t), fact) {
                return Err((Problem::StillRead, Some(x.site)));
            }
        }
        let readers: Agents = region.reads.iter().map(|x| x.agent as u32).collect();
        let unread = readers.is_empty() && region.write.is_some();
        let old = region.write.take().map(|w| w.readers).unwrap_or_default();
        region.reads.clear();
        let mut void = p.about_write(r);
        old.iter().chain(&readers).for_each(|&x| void.set(p.read(r, x as usize)));
        region.write = Some(Write {
            agent: t,
            mbarrier: None,
            parts: SmallVec::new(),
            readers,
            unread,
            knew: SmallVec::new(),
            counted_by: None,
            amended: SmallVec::new(),
            copied: true,
            copies: 1,
            counted: false,
            shares: SmallVec::new(),
            site: here,
        });
        facts.forget_all(&void);
        s.name_in_region(r);
        Ok(())
    }

    /// An agent's lanes close their group of copies.
    pub(super) fn close_copies(&self, s: &mut Shared, t: usize) {
        for w in s.regions.iter_mut().filter_map(|x| x.write.as_mut()).filter(|w| w.agent == t) {
            w.copies = w.copies << 1 | w.copies & OLDEST;
        }
    }

    /// Each of an agent's lanes waits until all but its newest groups of copies are over.
    pub(super) fn copies_over(&self, s: &mut Shared, t: usize, pending: u32) {
        // The open group, and so many closed ones.
        let stay = if pending >= 63 { u64::MAX } else { (1 << (pending + 1)) - 1 };
        for r in 0..s.regions.len() {
            let Some(w) = s.regions[r].write.as_mut().filter(|w| w.agent == t && w.copies != 0) else { continue };
            w.copies &= stay;
            if w.copies == 0 {
                self.learn_one(s, t, self.places.written(r).0);
            }
        }
    }

    /// An mbarrier counts what an agent's lanes have begun to copy. One that arrives for all of them speaks for what others copy once they have met.
    pub(super) fn copies_counted(&self, s: &mut Shared, t: usize, mbarrier: usize) {
        for x in s.regions.iter_mut() {
            if let Some(w) = x.write.as_mut().filter(|w| w.agent == t && w.copies != 0) {
                (w.copies, w.mbarrier, w.counted) = (0, Some(mbarrier), true);
            }
        }
        match self.agents[t].single {
            true => self.copies_told(s, t),
            false => s.alone |= 1 << (t % 64),
        }
    }

    /// All lanes of an agent have said to mbarriers what they copy: the ends of their phases tell of it.
    fn copies_told(&self, s: &mut Shared, t: usize) {
        let Shared { facts, regions, .. } = s;
        for (r, w) in regions.iter_mut().enumerate().filter_map(|(r, x)| Some((r, x.write.as_mut()?))) {
            if let (true, true, Some(mbarrier)) = (w.counted, w.agent == t, w.mbarrier) {
                w.counted = false;
                facts.set(self.places.phase(mbarrier), self.places.written(r).0);
            }
        }
    }

    /// A copy that is in flight.
    pub(super) fn copying_region(&self, s: &Shared) -> Option<Site> {
        s.regions.iter().filter_map(|x| x.write.as_ref()).find(|w| w.copies != 0).map(|w| w.site)
    }

    /// An agent's lanes read parts of regions, or a unit of a kind does for it: an access after the other, each with where it stands.
    pub(super) fn read_regions(
        &self,
        s: &mut Shared,
        t: usize,
        unit: Option<usize>,
        parts: impl Iterator<Item = (Part, Site)>,
    ) -> Result<(), Clash> {
        let mut news = News::default();
        let mut parts = parts;
        let done = parts.try_for_each(|(part, here)| self.read_region(s, part, t, (unit, &mut news), here));
        // Facts of regions that are read together lie together.
        s.facts.forget_all(&news.void);
        news.learnt.iter().for_each(|&fact| self.learn_one(s, t, fact));
        done
    }

    /// The same of one region.
    fn read_region(
        &self,
        s: &mut Shared,
        (r, bytes): Part,
        t: usize,
        (unit, news): (Option<usize>, &mut News),
        here: Site,
    ) -> Result<(), Clash> {
        let p = &self.places;
        let count = s.told[t];
        let now = region(s, r);
        if p.coarse(r)
            && let Some(w) = &now.write
            && !w.parts.iter().any(|&(from, to)| from <= bytes.0 && bytes.1 <= to)
        {
            return Err((Problem::Missed, Some(w.site)));
        }
        // As the read in front of it, in the same open group: nobody has been told, and nothing was written.
        if let (Some(kind), Ok(n)) = (unit, now.reader(t)) {
            let reads = &mut now.reads[n];
            if reads.groups[kind] & 1 == 1 && reads.told == count {
                reads.site = here;
                return Ok(());
            }
        }
        let ((written, shown), read) = (p.written(r), p.read(r, t));
        let knows = |s: &Shared, fact: usize| self.knows(s, t, fact);
        let unsettled = |s: &Shared, fact: usize| self.unsettled(s, t, fact);
        // As the read in front of it: nobody has been told.
        if unit.is_none()
            && unsettled(s, read)
            && !s.facts.has(p.spoken(t), read)
            && knows(s, read)
            && knows(s, written)
            && let now = region(s, r)
            && let Ok(n) = now.reader(t)
        {
            now.reads[n].fence = Fence::Open;
            return Ok(());
        }
        match &region(s, r).write {
            None => return Err((Problem::Unwritten, None)),
            // Others have not met those who amend it.
            Some(w) if w.amended.first().is_some_and(|&x| x as usize != t && !self.same_role(x as usize, t)) => {
                return Err((Problem::UnderWay, Some(w.site)));
            }
            Some(w) => {
                let site = Some(w.site);
                let lanes = w.mbarrier.is_none() || w.copied;
                if w.copies != 0 && w.agent == t {
                    return Err((Problem::CopyNotWaited, site));
                }
                if w.copied && unsettled(s, written) {
                    return Err((Problem::CopiesNotWaited, site));
                }
                if !knows(s, written) {
                    return Err((Problem::NotThere, site));
                }
                if unit.is_some() && unsettled(s, written) {
                    return Err((Problem::UnitBeforeLanes, site));
                }
                if unit.is_some() && lanes {
                    if !knows(s, shown) {
                        return Err((Problem::UnitWithoutFence, site));
                    }
                    if unsettled(s, shown) {
                        return Err((Problem::UnitBeforeFences, site));
                    }
                }
            }
        }
        // Of a first read behind a write nobody knows anything; what is known of an earlier one is void.
        let region = region(s, r);
        let earlier = region.write.as_ref().is_some_and(|w| w.readers.contains(&(t as u32)));
        let (again, n) = match region.reader(t) {
            Ok(n) => (true, n),
            Err(n) => {
                region
                    .reads
                    .insert(n, Reads { agent: t, groups: [0; 2], alone: false, lanes: false, fence: Fence::Done, told: 0, site: here });
                (false, n)
            }
        };
        let reads = &mut region.reads[n];
        reads.site = here;
        match unit {
            Some(kind) => reads.groups[kind] |= 1,
            None => (reads.fence, reads.lanes) = (Fence::Open, true),
        }
        let busy = reads.busy();
        let by_lanes = unit.is_none();
        let told = std::mem::replace(&mut reads.told, count);
        if again && told == count {
            // Nobody else knows.
            s.facts.clear(p.known(t), read);
            s.facts.clear(p.unsettled(t), read);
        } else if again || earlier {
            news.void.set(read);
        }
        if !busy {
            news.learnt.push(read);
        }
        if by_lanes {
            s.alone |= 1 << (t % 64);
        }
        s.name_in_region(r);
        Ok(())
    }

    /// A unit is about to write a region: whoever has read it by lanes has fenced that.
    pub(super) fn reads_are_fenced(&self, s: &Shared, r: usize) -> Result<(), Clash> {
        let open = s.regions.get(r).and_then(|x| x.reads.iter().find(|x| x.fence != Fence::Done));
        open.map_or(Ok(()), |x| Err((Problem::UnitOverUnfenced, Some(x.site))))
    }

    /// An agent arrives at an mbarrier: what its lanes have read without a fence stays so.
    pub(super) fn leave_unfenced(&self, s: &mut Shared, t: usize) {
        for x in &mut s.regions {
            if let Ok(n) = x.reader(t)
                && x.reads[n].fence == Fence::Open
            {
                x.reads[n].fence = Fence::Late;
            }
        }
    }

    /// An agent's lanes show the units what they have written, and order what they have read, and what they know that others have read. Where
    /// they know of one another's writes, each speaks for all.
    pub(super) fn show_regions(&self, s: &mut Shared, t: usize) {
        let Shared { facts, regions, .. } = s;
        let (known, unsettled) = (self.places.known(t), self.places.unsettled(t));
        for (r, x) in regions.iter_mut().enumerate() {
            for reads in x.reads.iter_mut().filter(|x| x.fence != Fence::Done) {
                let fact = self.places.read(r, reads.agent);
                let own = reads.agent == t && reads.fence == Fence::Open;
                if own || reads.agent != t && facts.has(known, fact) && !facts.has(unsettled, fact) {
                    reads.fence = Fence::Done;
                }
            }
        }
        let shares = regions.iter_mut().filter_map(|x| x.write.as_mut()).flat_map(|w| &mut w.shares);
        shares.filter(|x| x.agent as usize == t).for_each(|x| x.fenced = true);
        let own = |w: &Write| w.agent == t && w.mbarrier.is_none() && w.copies == 0 && w.shares.is_empty();
        for (r, w) in regions.iter().enumerate().filter_map(|(r, x)| Some((r, x.write.as_ref()?))) {
            let (written, shown) = self.places.written(r);
            // What lanes copy, and an mbarrier counts, is shown by those who have waited for that.
            if !(own(w) || w.copied && w.mbarrier.is_some() && facts.has(known, written)) {
                continue;
            }
            if facts.has(known, shown) && !facts.has(unsettled, shown) {
                continue;
            }
            facts.set(known, shown);
            if facts.has(unsettled, written) {
                facts.set(unsettled, shown);
            } else {
                facts.clear(unsettled, shown);
            }
        }
    }

    /// An agent closes its group of a kind of unit.
    pub(super) fn close_group(&self, s: &mut Shared, t: usize, kind: usize) {
        for x in &mut s.regions {
            if let Ok(n) = x.reader(t) {
                let groups = &mut x.reads[n].groups[kind];
                *groups = *groups << 1 | *groups & OLDEST;
            }
        }
    }

    /// An agent waits until all but the newest groups of a kind are over.
    pub(super) fn groups_over(&self, s: &mut Shared, t: usize, kind: usize, pending: u32) {
        // The open group, and so many closed ones.
        let stay = if pending >= 63 { u64::MAX } else { (1 << (pending + 1)) - 1 };
        for r in 0..s.regions.len() {
            let x = &mut s.regions[r];
            let Ok(n) = x.reader(t) else { continue };
            let reads = &mut x.reads[n];
            if reads.groups[kind] == 0 {
                continue;
            }
            reads.groups[kind] &= stay;
            if reads.busy() {
                continue;
            }
            let read = self.places.read(r, t);
            // The lane that stores waits for its stores, and tells others for all; its agent's lanes have to meet before they write.
            // Products belong to all lanes.
            if kind == STORES {
                reads.alone = !self.agents[t].single;
                s.alone |= 1 << (t % 64);
                s.facts.set(self.places.known(t), read);
            } else {
                self.learn_one(s, t, read);
            }
        }
    }

    /// The lanes of a group have waited for products: what one of its warps knows is known to all, but what lanes have written or read themselves.
    pub(super) fn products_speak(&self, s: &mut Shared, t: usize) {
        let unsettled = self.places.unsettled(t);
        let open = |(r, x): (usize, &Region)| {
            let n = x.reader(t).ok().filter(|&n| x.reads[n].lanes)?;
            let read = self.places.read(r, x.reads[n].agent);
            s.facts.has(unsettled, read).then_some(read)
        };
        let own: SmallVec<[usize; 8]> = s.regions.iter().enumerate().filter_map(open).collect();
        self.places.kinds(|written, _| s.facts.keep(unsettled, written));
        own.into_iter().for_each(|read| s.facts.set(unsettled, read));
    }

    /// All lanes of an agent have met: they know of the stores that one of them has waited for, and all have said what they copy.
    pub(super) fn stores_seen(&self, s: &mut Shared, t: usize) {
        if s.alone >> (t % 64) & 1 == 0 {
            return;
        }
        if self.agents.len() <= 64 {
            s.alone &= !(1 << (t % 64));
        }
        self.copies_told(s, t);
        for x in &mut s.regions {
            if let Ok(n) = x.reader(t) {
                (x.reads[n].alone, x.reads[n].lanes) = (false, false);
            }
        }
    }

    /// Nobody touches memory at some addresses any more: of what is not in flight there nothing more is known. True if that is all of it.
    pub(in super::super) fn bury(&self, s: &mut Shared, dead: &dyn Fn(i64) -> bool) -> bool {
        let p = &self.places;
        let (mut void, mut all) = (Bits::default(), true);
        p.each_region(|r, at| {
            if dead(at) {
                let region = region(s, r);
                if region.is_busy() {
                    all = false;
                } else if !region.is_dead() {
                    region.end();
                    p.about_region(r, |fact| void.set(fact));
                }
            }
        });
        p.each_mbarrier(|w, at| {
            if dead(at)
                && let Some(bar) = s.bars.get_mut(w)
                && let Some(b) = bar
            {
                if b.is_idle() {
                    *bar = None;
                    p.phases(w).each(|fact| void.set(fact));
                    s.facts.reset(p.phase(w));
                    s.facts.reset(p.phase(w) + 1);
                } else {
                    all = false;
                }
            }
        });
        s.facts.forget_bits(&void);
        all
    }

    /// A read that is still in flight.
    pub(in super::super) fn busy_region(&self, s: &Shared) -> Option<Site> {
        let busy = |r: &usize| s.regions.get(*r)?.reads.iter().find(|r| r.busy()).map(|r| r.site);
        if s.regions.iter().all(|x| x.reads.iter().all(|r| !r.busy())) {
            return None;
        }
        self.places.regions_in_order().iter().find_map(busy)
    }
}
