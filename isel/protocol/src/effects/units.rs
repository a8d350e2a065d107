//! What units, and lanes that touch local memory, do to the state.

use super::super::site::Site;
use super::super::value::Abs;
use crate::error::ProtocolError;
use crate::problem::{Doing, Outside, Problem};
use crate::run::code::AccessKind;
use crate::run::{Checker, State, place};
use crate::state::found::{LaneAccess, Spans, Touched};
use crate::state::keys::{ADDRESS, MBARRIER_BYTES, Part, RANK, block_of, joined};
use crate::state::region::{Clash, PRODUCTS, STORES};
use smallvec::SmallVec;
use std::cell::OnceCell;
use std::rc::Rc;
use tilelift_lane::{Alloc, LVal, ParamSource, Place, Unit};

/// What is said of a parity that is not followed, and what is.
impl<'a> Checker<'a> {
    /// The parts of regions that a range touches: the region, and what of it.
    pub(super) fn parts(&self, range: (i64, i64)) -> Rc<[Part]> {
        self.found.parts.borrow_mut().entry(range).or_insert_with(|| self.parts_of(range).into()).clone()
    }

    fn parts_of(&self, (from, to): (i64, i64)) -> Vec<Part> {
        let (block, at) = (from & !ADDRESS, from & ADDRESS);
        let allocs = &self.program.allocs;
        let found = allocs.iter().find(|(_, a)| a.region_bytes > 0 && (i64::from(a.offset)..i64::from(a.offset + a.bytes)).contains(&at));
        let Some((id, a)) = found else { return Vec::new() };
        let (region_bytes, coarse) = self.analysis.region_bytes(id, a);
        let start = block | i64::from(a.offset);
        let region = |n: i64| start + n * region_bytes;
        let part = |n: i64| (self.places.region(region(n), coarse), (from.max(region(n)), to.min(region(n + 1))));
        ((from - start) / region_bytes..=(to - 1 - start) / region_bytes).map(part).collect()
    }

    /// The addresses that the lanes of an agent give where a guard holds; `None` if they are not known.
    fn addresses(&self, addr: Abs, guard: Abs, offset: i32) -> Option<Vec<i64>> {
        let offset = i64::from(offset);
        match (addr, guard) {
            (_, Abs::All(0)) => Some(Vec::new()),
            (Abs::All(x), Abs::All(_) | Abs::Lanes(_)) => Some(vec![x + offset]),
            (Abs::Lanes(l), Abs::All(_)) => Some(self.lists.get(l).iter().map(|x| x + offset).collect()),
            (Abs::Lanes(l), Abs::Lanes(g)) => {
                let (all, guards) = (self.lists.get(l), self.lists.get(g));
                Some(all.iter().zip(&*guards).filter(|x| *x.1 != 0).map(|x| x.0 + offset).collect())
            }
            _ => None,
        }
    }

    /// The regions that accesses of so many bytes touch, in a block.
    fn regions(&self, keys: &[i64], bytes: i64) -> Vec<(i64, bool, (i64, i64))> {
        let places = || keys.iter().map(|k| k & ADDRESS);
        let (Some(first), Some(last)) = (places().min(), places().max()) else { return Vec::new() };
        let found = self
            .program
            .allocs
            .iter()
            .find(|(_, a)| a.region_bytes > 0 && (i64::from(a.offset)..i64::from(a.offset + a.bytes)).contains(&first));
        let Some((id, a)) = found else { return Vec::new() };
        let ((region_bytes, coarse), start) = (self.analysis.region_bytes(id, a), i64::from(a.offset));
        let number = |at: i64| (at - start) / region_bytes;
        let (low, high) = (number(first), number(last + bytes - 1));
        // All in one, as a rule.
        if low == high {
            return vec![(start + low * region_bytes, coarse, (first, last + bytes))];
        }
        let mut touched = vec![(i64::MAX, i64::MIN); (high - low + 1) as usize];
        for at in places() {
            for n in number(at)..=number(at + bytes - 1) {
                let part = &mut touched[(n - low) as usize];
                *part = (part.0.min(at), part.1.max(at + bytes));
            }
        }
        let all = touched.into_iter().zip(low..).filter(|x| x.0.0 != i64::MAX);
        all.map(|((from, to), n)| {
            let at = start + n * region_bytes;
            (at, coarse, (from.max(at), to.min(at + region_bytes)))
        })
        .collect()
    }

    fn spans(&self, lanes: LaneAccess) -> Option<Rc<Spans>> {
        if let Some(known) = self.found.spans.borrow().get(&lanes) {
            return known.clone();
        }
        let made = self.addresses(lanes.0, lanes.1, lanes.2).map(|keys| {
            let regions = self.regions(&keys, i64::from(lanes.3));
            let places = || keys.iter().map(|k| k & ADDRESS);
            let reach = (places().min().unwrap_or(0), places().max().map_or(0, |at| at + i64::from(lanes.3.max(1))));
            Rc::new(Spans { keys, reach, regions })
        });
        self.found.spans.borrow_mut().insert(lanes, made.clone());
        made
    }

    /// What an agent's lanes touch with so many bytes each, where a guard holds: in the own block, or remote, where addresses have the
    /// rank plus one above them. `None` if that is not known.
    pub(super) fn touched(&self, s: &State, t: usize, (p, guard, bytes): (&Place, Abs, u32), remote: bool) -> Option<Rc<Touched>> {
        let lanes = (s.tasks[t].env.get(&p.addr)?, guard, p.offset, bytes);
        let own = self.agents[t].block;
        let key = (lanes, if remote { u32::MAX } else { own as u32 });
        if let Some(known) = self.found.touched.borrow().get(&key) {
            return known.clone();
        }
        let good = |x: &i64| if remote { x >> RANK > 0 } else { (0..=ADDRESS).contains(x) };
        let made = self.spans(lanes).filter(|spans| spans.keys.iter().all(good)).map(|spans| {
            let mut blocks: SmallVec<[usize; 2]> = SmallVec::new();
            match remote {
                true => blocks.extend(spans.keys.iter().map(|&x| block_of(x) - 1)),
                false => blocks.push(own),
            }
            blocks.dedup();
            let of = |block: usize| {
                let base = (block as i64) << RANK;
                spans.regions.iter().map(move |&(at, coarse, (from, to))| (self.places.region(at | base, coarse), (from | base, to | base)))
            };
            let regions = blocks.iter().flat_map(|&b| of(b)).collect();
            Rc::new(Touched { spans: spans.clone(), blocks, regions, parts: OnceCell::new() })
        });
        self.found.touched.borrow_mut().insert(key, made.clone());
        made
    }

    /// All of the buffer that an address is one of.
    pub(super) fn anywhere(&self, t: usize, addr: LVal) -> Rc<Touched> {
        let block = self.agents[t].block;
        let all = self.analysis.of(addr).and_then(|id| self.program.allocs.get(id));
        let range = |a: &Alloc| (i64::from(a.offset) | (block as i64) << RANK, i64::from(a.offset + a.bytes) | (block as i64) << RANK);
        let regions = all.map_or(Vec::new(), |a| self.parts(range(a)).to_vec());
        let spans = Rc::new(Spans { keys: Vec::new(), reach: (0, 0), regions: Vec::new() });
        Rc::new(Touched { spans, blocks: SmallVec::from_elem(block, 1), regions, parts: OnceCell::new() })
    }

    pub(super) fn clash<T>(&self, (what, other): Clash, here: Site) -> Result<T, ProtocolError> {
        self.error(what, here, other)
    }

    /// Where a guard of an agent's holds.
    fn guarded(&self, s: &State, t: usize, guard: Option<LVal>) -> Abs {
        guard.map_or(Abs::All(1), |g| s.tasks[t].env.get(&g).unwrap_or(Abs::Any))
    }

    /// What lanes touch in the agent's own block.
    pub(super) fn own(&self, s: &State, t: usize, what: (&Place, Abs, u32), here: Site) -> Result<Rc<Touched>, ProtocolError> {
        match self.touched(s, t, what, false) {
            Some(found) => {
                self.inside(what.0.addr, found.spans.reach, here)?;
                self.all_stay(s, t, what.0.addr, found.regions.iter().map(|r| r.1));
                Ok(found)
            }
            None if self.analysis.alone => Ok(self.anywhere(t, what.0.addr)),
            None => self.error(Problem::Address, here, None),
        }
    }

    /// What lanes touch in other blocks.
    fn remote(&self, s: &State, t: usize, what: (&Place, Option<LVal>, u32), here: Site) -> Result<Rc<Touched>, ProtocolError> {
        let guard = self.guarded(s, t, what.1);
        let Some(found) = self.touched(s, t, (what.0, guard, what.2), true) else {
            return self.error(Problem::RemoteAddress, here, None);
        };
        self.inside(what.0.addr, found.spans.reach, here)?;
        if !found.blocks.iter().all(|&b| self.runs(&s.shared, t, b)) {
            return self.error(Problem::RemoteNotRunning, here, None);
        }
        self.all_stay(s, t, what.0.addr, found.regions.iter().map(|r| r.1));
        // An mbarrier is no region.
        if what.2 == 0 {
            self.all_stay(s, t, what.0.addr, found.spans.keys.iter().map(|&at| (at, at + MBARRIER_BYTES)));
        }
        Ok(found)
    }

    /// The key of an mbarrier of the own block.
    fn mbarrier(&self, s: &State, t: usize, p: &Place, here: Site) -> Result<i64, ProtocolError> {
        match place(&s.tasks[t].env, p) {
            Some(at) if (0..=ADDRESS).contains(&at) => {
                self.all_stay(s, t, p.addr, [(at, at + MBARRIER_BYTES)].into_iter());
                self.inside(p.addr, (at, at + 1), here)?;
                Ok(at | (self.agents[t].block as i64) << RANK)
            }
            _ => self.error(Problem::BarrierAddress, here, None),
        }
    }

    /// Refuses what lies outside of the buffer, or the barriers, that an address was made from: other ones may lie there. Empty ranges
    /// lie anywhere.
    pub(super) fn inside(&self, addr: LVal, (from, to): (i64, i64), here: Site) -> Result<(), ProtocolError> {
        let Some(a) = self.analysis.of(addr).and_then(|id| self.program.allocs.get(id)) else { return Ok(()) };
        let Some(name) = &a.name else { return Ok(()) };
        let (start, size) = (i64::from(a.offset), i64::from(a.bytes));
        if from >= to || start <= from && to <= start + size {
            return Ok(());
        }
        let (from, to) = (from - start, to - start);
        let name = name.to_string();
        let outside = if a.region_bytes == 0 {
            Outside::Barrier { name, index: from.div_euclid(MBARRIER_BYTES), all: size / MBARRIER_BYTES }
        } else {
            let (slot, n) = (i64::from(a.slot), size / i64::from(a.slot.max(1)));
            Outside::Bytes { name, range: [from, to], size, slot: (n > 1).then(|| [from.div_euclid(slot), n]) }
        };
        self.error(Problem::Outside(outside), here, None)
    }

    /// In how many lanes something happens.
    fn lanes(&self, s: &State, t: usize, guard: Option<LVal>, what: Doing, here: Site) -> Result<u32, ProtocolError> {
        let count = self.agents[t].lanes;
        match guard.map_or(Some(count as u32), |g| s.tasks[t].env.get(&g).and_then(|a| self.lists.count(a, count))) {
            Some(n) => Ok(n),
            None => self.error(Problem::Lanes(what), here, None),
        }
    }

    /// A unit, or lanes that do not wait, write parts of regions whose bytes an mbarrier counts.
    fn unit_writes(
        &self,
        s: &mut State,
        t: usize,
        here: Site,
        (at, bytes, unit): (i64, i64, bool),
        parts: &[Part],
    ) -> Result<(), ProtocolError> {
        let mbarrier = self.used(s, t, at, here)?;
        for &(r, part) in parts {
            if unit {
                self.reads_are_fenced(&s.shared, r).or_else(|c| self.clash(c, here))?;
            }
            self.write_region(&mut s.shared, r, t, Some((mbarrier, part)), here).or_else(|c| self.clash(c, here))?;
        }
        // They may land at once; who reads them must have waited for the mbarrier in any case.
        self.bytes_come(s, t, (mbarrier, bytes, unit), here)
    }

    fn unit_reads(&self, s: &mut State, t: usize, here: Site, regions: &[Part], kind: usize) -> Result<(), ProtocolError> {
        let parts = regions.iter().map(|&part| (part, here));
        self.read_regions(&mut s.shared, t, Some(kind), parts).or_else(|c| self.clash(c, here))
    }

    /// What lanes write of regions with so many bytes each, and whether no two of them write the same; found out once.
    fn stored<'t>(&self, to: &'t Touched, bytes: u32) -> &'t (Vec<Part>, bool) {
        to.parts.get_or_init(|| {
            let range = |&at: &i64| (at - (1 << RANK), at - (1 << RANK) + i64::from(bytes));
            let ranges: Vec<(i64, i64)> = to.spans.keys.iter().map(range).collect();
            let apart = apart(&ranges);
            (joined(ranges).into_iter().flat_map(|r| self.parts_of(r)).collect(), apart)
        })
    }

    /// The bytes of a box.
    fn box_bytes(&self, map: u32) -> u32 {
        match self.program.params.get(map as usize).map(|p| p.source) {
            Some(ParamSource::Tensor(b)) => b.bytes(),
            Some(_) | None => 0,
        }
    }

    /// The bytes of values.
    fn bytes(&self, list: &[LVal]) -> u32 {
        list.iter().map(|&v| self.program.vals[v].bytes()).sum()
    }

    /// What a unit does; false if it waits.
    pub(in super::super) fn unit(&self, s: &mut State, t: usize, here: Site, u: &Unit) -> Result<bool, ProtocolError> {
        match u {
            Unit::InitBarrier { barrier, count, guard } => {
                let at = self.mbarrier(s, t, barrier, here)?;
                if self.lanes(s, t, *guard, Doing::Make, here)? != 1 {
                    return self.error(Problem::MadeByLanes, here, None);
                }
                self.make(s, t, at, *count, here)?;
            }
            Unit::PublishBarriers => self.publish(s, t),
            Unit::Wait { barrier, parity } => {
                let at = self.mbarrier(s, t, barrier, here)?;
                let Some(Abs::All(parity)) = s.tasks[t].env.get(parity) else {
                    return self.error(Problem::Parity, here, None);
                };
                return self.wait_at(s, t, at, parity & 1 == 1, here);
            }
            Unit::Arrive { barrier, guard } => {
                // Where nobody arrives the address means nothing.
                let lanes = self.lanes(s, t, *guard, Doing::Arrive, here)?;
                if lanes > 0 {
                    let at = self.mbarrier(s, t, barrier, here)?;
                    self.arrive_at(s, t, at, (lanes, 0), here)?;
                }
            }
            Unit::ArriveExpect { barrier, bytes, guard } => {
                let at = self.mbarrier(s, t, barrier, here)?;
                match self.lanes(s, t, *guard, Doing::Expect, here)? {
                    lanes @ 0..=1 => self.arrive_at(s, t, at, (lanes, *bytes), here)?,
                    _ => return self.error(Problem::ManyExpect, here, None),
                }
            }
            Unit::ArriveCopies { barrier } => {
                let at = self.mbarrier(s, t, barrier, here)?;
                let mbarrier = self.copies_come(s, t, at, here)?;
                self.copies_counted(&mut s.shared, t, mbarrier);
            }
            Unit::RemoteArrive { barrier, guard } => {
                let lanes = self.lanes(s, t, *guard, Doing::Arrive, here)?;
                let found = self.remote(s, t, (barrier, *guard, 0), here)?;
                match found.spans.keys[..] {
                    [] => {}
                    [at, ref more @ ..] if more.iter().all(|&k| k == at) => {
                        self.arrive_at(s, t, at - (1 << RANK), (lanes, 0), here)?;
                    }
                    _ => return self.error(Problem::DifferentBarriers, here, None),
                }
            }
            Unit::BulkLoad { map, to, barrier, ranks, guard, .. } => {
                if guard.is_none() || self.lanes(s, t, *guard, Doing::Copy, here)? == 1 {
                    self.bulk_load(s, t, here, (self.box_bytes(*map), to, barrier, *ranks))?;
                }
            }
            Unit::BulkStore { map, from, guard, .. } => {
                if guard.is_none() || self.lanes(s, t, *guard, Doing::Copy, here)? > 0 {
                    let found = self.own(s, t, (from, self.guarded(s, t, *guard), self.box_bytes(*map)), here)?;
                    self.unit_reads(s, t, here, &found.regions, STORES)?;
                }
            }
            Unit::FenceUnits => self.show_regions(&mut s.shared, t),
            Unit::CommitStores { .. } => self.close_group(&mut s.shared, t, STORES),
            Unit::WaitStoresRead { pending, .. } => self.groups_over(&mut s.shared, t, STORES, *pending),
            Unit::CommitMatrices => self.close_group(&mut s.shared, t, PRODUCTS),
            Unit::WaitMatrices { pending } => {
                self.groups_over(&mut s.shared, t, PRODUCTS, *pending);
                // A group multiplies together: what one of its warps knows to be over is over for all. That others see what it has
                // written is another matter.
                // What lanes have read, too.
                if self.agents[t].warps == self.units.group_warps {
                    self.products_speak(&mut s.shared, t);
                }
            }
            Unit::GroupBarrier { warps } if *warps == self.agents[t].warps => self.all_lanes_met(s, t),
            Unit::NamedBarrier { id, warps, wait } => return self.named(s, t, here, (*id, *warps, *wait)),
            Unit::Turn { id, groups, end } => {
                let (own, group) = (&self.agents[t], self.units.group_warps);
                if own.warps != group {
                    return self.error(Problem::TurnsOfOne, here, None);
                }
                return match end.barrier((own.first - own.base) / group, *groups) {
                    Some((of, wait)) => self.named(s, t, here, (id + of, 2 * group, wait)),
                    None => Ok(true),
                };
            }
            Unit::ClusterArrive { relaxed } => self.cluster_arrive(s, t, *relaxed, here)?,
            Unit::ClusterWait => return self.cluster_wait(s, t, here),
            Unit::Remote { dst, place, rank } => self.remote_address(s, t, here, *dst, place, *rank)?,
            Unit::RemoteLoad { dsts, from } => {
                let found = self.remote(s, t, (from, None, self.bytes(dsts)), here)?;
                self.touch(s, t, here, &found.regions, AccessKind::Read)?;
            }
            Unit::RemoteStore { srcs, to, guard } => {
                let found = self.remote(s, t, (to, *guard, self.bytes(srcs)), here)?;
                self.touch(s, t, here, &found.regions, AccessKind::Write)?;
            }
            Unit::RemoteStoreAsync { srcs, to, barrier, guard } => {
                let lanes = self.lanes(s, t, *guard, Doing::Store, here)?;
                let bytes = self.bytes(srcs);
                let to = self.remote(s, t, (to, *guard, bytes), here)?;
                let mbarrier = self.remote(s, t, (barrier, *guard, 0), here)?;
                let all = &to.spans.keys;
                match (mbarrier.spans.keys.first(), &to.blocks[..], &mbarrier.blocks[..]) {
                    (None, ..) => {}
                    (Some(&at), [b], [c])
                        if mbarrier.spans.keys.iter().all(|&k| k == at)
                            && b == c
                            && all.len() == lanes as usize
                            && self.stored(&to, bytes).1 =>
                    {
                        let bytes = i64::from(bytes) * i64::from(lanes);
                        self.unit_writes(s, t, here, (at - (1 << RANK), bytes, false), &self.stored(&to, 0).0)?;
                    }
                    _ => return self.error(Problem::StoreTarget, here, None),
                }
            }
            // They are accesses, which are followed side by side.
            Unit::Multiply(_) | Unit::StoreMatrix { .. } => return self.error(Problem::Access, here, None),
            Unit::GroupBarrier { .. }
            | Unit::FenceMatrices
            | Unit::Hold
            | Unit::FenceGlobal
            | Unit::AwaitPrevious
            | Unit::PrefetchMap { .. } => {}
        }
        Ok(true)
    }

    fn bulk_load(
        &self,
        s: &mut State,
        t: usize,
        here: Site,
        (bytes, to, barrier, ranks): (u32, &Place, &Place, Option<LVal>),
    ) -> Result<(), ProtocolError> {
        let mbarrier = self.mbarrier(s, t, barrier, here)?;
        let Some(at) = place(&s.tasks[t].env, to).filter(|at| (0..=ADDRESS).contains(at)) else {
            return self.error(Problem::CopyTarget, here, None);
        };
        self.all_stay(s, t, to.addr, [(at, at + i64::from(bytes))].into_iter());
        self.inside(to.addr, (at, at + i64::from(bytes)), here)?;
        let own = self.agents[t].block;
        let blocks: SmallVec<[usize; 8]> = match ranks.map(|v| s.tasks[t].env.get(&v)) {
            None => SmallVec::from_slice(&[own]),
            Some(Some(Abs::All(mask))) => (0..usize::BITS as usize).filter(|b| mask >> b & 1 == 1).collect(),
            Some(_) => return self.error(Problem::CopyBlocks, here, None),
        };
        for b in blocks {
            if !self.runs(&s.shared, t, b) {
                return self.error(Problem::CopyNotRunning, here, None);
            }
            let base = (b as i64) << RANK;
            let parts = self.parts((at | base, (at | base) + i64::from(bytes)));
            self.unit_writes(s, t, here, (mbarrier & ADDRESS | base, i64::from(bytes), true), &parts)?;
        }
        Ok(())
    }

    /// An address in another block: the rank plus one above it.
    fn remote_address(&self, s: &mut State, t: usize, here: Site, dst: LVal, place: &Place, rank: LVal) -> Result<(), ProtocolError> {
        let env = &s.tasks[t].env;
        let base = match env.get(&rank) {
            Some(Abs::All(r)) if (0..self.analysis.blocks as i64).contains(&r) => (r + 1) << RANK,
            Some(Abs::All(_)) => return self.error(Problem::NoSuchBlock, here, None),
            _ => return self.error(Problem::WhichBlock, here, None),
        };
        let made = match env.get(&place.addr) {
            Some(Abs::All(x)) => Some(Abs::All(x + i64::from(place.offset) + base)),
            Some(Abs::Lanes(l)) => Some(self.lists.plus(l, i64::from(place.offset) + base)),
            _ => None,
        };
        s.tasks[t].env.set(dst, made);
        Ok(())
    }
}

/// True if no two ranges overlap.
fn apart(ranges: &[(i64, i64)]) -> bool {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|w| w[0].1 <= w[1].0)
}
