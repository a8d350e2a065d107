//! What units, and lanes that touch local memory, do to the state.

use super::super::ProtocolError;
use super::super::env::Env;
use super::super::run::{State, place};
use super::super::value::Abs;
use super::super::word::Site;
use super::Checker;
use super::knowledge::Fact;
use super::regions::{Clash, PRODUCTS, STORES};
use super::words::{RANK, block_of};
use crate::lane::{LVal, LeftOperand, Multiply, ParamSource, Place, Unit};
use cranelift_entity::EntityRef;
use std::collections::BTreeSet;

/// The bits of an address in a key.
const ADDRESS: i64 = (1 << RANK) - 1;

/// The addresses that the lanes of an agent give where a guard holds; `None` if they are not known.
fn addresses(env: &Env, p: &Place, guard: Option<LVal>) -> Option<Vec<i64>> {
    let offset = i64::from(p.offset);
    let where_ = guard.map(|g| env.get(&g));
    match (env.get(&p.addr)?, where_) {
        (_, Some(Some(Abs::All(0)))) => Some(Vec::new()),
        (Abs::All(x), None | Some(Some(Abs::All(_) | Abs::Lanes(_)))) => Some(vec![x + offset]),
        (Abs::Lanes(l), None | Some(Some(Abs::All(_)))) => Some(l.iter().map(|x| x + offset).collect()),
        (Abs::Lanes(l), Some(Some(Abs::Lanes(g)))) => Some(l.iter().zip(&**g).filter(|x| *x.1 != 0).map(|x| x.0 + offset).collect()),
        _ => None,
    }
}

/// Ranges of bytes, those that touch one another joined.
fn joined(mut list: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    list.sort_unstable();
    let mut out: Vec<(i64, i64)> = Vec::new();
    for (from, to) in list {
        match out.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}

impl<'a> Checker<'a> {
    /// The parts of regions that a range touches: the region, and what of it.
    fn parts(&self, (from, to): (i64, i64)) -> Vec<(i64, (i64, i64))> {
        let (block, at) = (from & !ADDRESS, from & ADDRESS);
        let allocs = &self.program.allocs;
        let found = allocs.values().find(|a| a.grain > 0 && (i64::from(a.offset)..i64::from(a.offset + a.bytes)).contains(&at));
        let Some(a) = found else { return Vec::new() };
        let (start, grain) = (block | i64::from(a.offset), i64::from(a.grain));
        let region = |n: i64| start + n * grain;
        ((from - start) / grain..=(to - 1 - start) / grain).map(|n| (region(n), (from.max(region(n)), to.min(region(n + 1))))).collect()
    }

    /// The regions that accesses of so many bytes touch.
    fn regions(&self, list: &[i64], bytes: i64) -> Vec<i64> {
        let (Some(&first), Some(&last)) = (list.iter().min(), list.iter().max()) else { return Vec::new() };
        let all: Vec<i64> = self.parts((first, last + bytes)).into_iter().map(|p| p.0).collect();
        let Some(&grain) = all.get(1) else { return all };
        // Of neighbours, as far as they are touched.
        let (start, grain) = (all[0], grain - all[0]);
        let mut touched = vec![false; all.len()];
        // The part that the one in front lies in.
        let mut same = 0..0;
        for &at in list {
            if same.contains(&at) && at + bytes <= same.end {
                continue;
            }
            let n = (at - start) / grain;
            same = start + n * grain..start + (n + 1) * grain;
            let inside = n as usize..=((at + bytes - 1 - start) / grain) as usize;
            touched.iter_mut().take(inside.end() + 1).skip(*inside.start()).for_each(|t| *t = true);
        }
        all.into_iter().zip(touched).filter(|x| x.1).map(|x| x.0).collect()
    }

    fn clash<T>(&self, (what, other): Clash, here: Site) -> Result<T, ProtocolError> {
        self.error(format!("local memory {what}"), here, other)
    }

    /// The keys of places in the agent's own block.
    fn own(&self, t: usize, list: Option<Vec<i64>>, here: Site) -> Result<Vec<i64>, ProtocolError> {
        let base = (self.agents[t].block as i64) << RANK;
        match list {
            Some(l) if l.iter().all(|x| (0..=ADDRESS).contains(x)) => Ok(l.into_iter().map(|x| x | base).collect()),
            _ => self.error("the address of local memory is not understood", here, None),
        }
    }

    /// The keys of remote places: their address has the rank plus one above it.
    fn remote(&self, s: &State<'a>, t: usize, list: Option<Vec<i64>>, here: Site) -> Result<Vec<i64>, ProtocolError> {
        let known = |b: usize| b < self.explicit.blocks && (b == self.agents[t].block || s.shared.known[t].has(self.id(Fact::Runs(b))));
        let Some(list) = list.filter(|l| l.iter().all(|x| x >> RANK > 0)) else {
            return self.error("a remote address is not understood", here, None);
        };
        let list: Vec<i64> = list.into_iter().map(|x| x - (1 << RANK)).collect();
        if !list.iter().all(|&x| known(block_of(x))) {
            return self.error("the memory of another block is touched that may not run yet,", here, None);
        }
        Ok(list)
    }

    /// The key of a word of the own block.
    fn word(&self, s: &State<'a>, t: usize, p: &Place, here: Site) -> Result<i64, ProtocolError> {
        match place(&s.tasks[t].env, p) {
            Some(at) if (0..=ADDRESS).contains(&at) => Ok(at | (self.agents[t].block as i64) << RANK),
            _ => self.error("the address of a barrier word is not understood", here, None),
        }
    }

    /// In how many lanes something happens.
    fn lanes(&self, s: &State<'a>, t: usize, guard: Option<LVal>, what: &str, here: Site) -> Result<u32, ProtocolError> {
        let count = self.agents[t].lanes;
        match guard.map_or(Some(count as u32), |g| s.tasks[t].env.get(&g).and_then(|a| a.count(count))) {
            Some(n) => Ok(n),
            None => self.error(format!("how many lanes {what} is not understood"), here, None),
        }
    }

    /// An access of lanes to shared memory; a write has a guard, or none.
    pub(in super::super) fn access(
        &self,
        s: &mut State<'a>,
        t: usize,
        here: Site,
        at: Place,
        bytes: u32,
        write: Option<Option<LVal>>,
    ) -> Result<(), ProtocolError> {
        if !self.explicit.tracked(self.program, at.addr) {
            return Ok(());
        }
        let env = &s.tasks[t].env;
        // All in one region, as a rule.
        if let (Some(Abs::Lanes(l)), None) = (env.get(&at.addr), write.flatten())
            && let (Some(&first), Some(&last)) = (l.iter().min(), l.iter().max())
            && let (first, last) = (first + i64::from(at.offset), last + i64::from(at.offset))
            && first >= 0
            && last <= ADDRESS
            && self.parts((first, last + i64::from(bytes))).len() == 1
        {
            let base = (self.agents[t].block as i64) << RANK;
            return self.touch(s, t, here, &[first | base], bytes, write.is_some());
        }
        let list = self.own(t, addresses(env, &at, write.flatten()), here)?;
        self.touch(s, t, here, &list, bytes, write.is_some())
    }

    fn touch(&self, s: &mut State<'a>, t: usize, here: Site, list: &[i64], bytes: u32, writes: bool) -> Result<(), ProtocolError> {
        for r in self.regions(list, i64::from(bytes)) {
            let done = match writes {
                true => self.write_region(&mut s.shared, r, t, None, here),
                false => self.read_region(&mut s.shared, r, t, None, here),
            };
            done.or_else(|c| self.clash(c, here))?;
        }
        Ok(())
    }

    /// A unit, or lanes that do not wait, write ranges whose bytes a word counts.
    fn unit_writes(
        &self,
        s: &mut State<'a>,
        t: usize,
        here: Site,
        (word, unit): (i64, bool),
        ranges: Vec<(i64, i64)>,
    ) -> Result<(), ProtocolError> {
        self.used(s, t, word, here)?;
        let bytes = ranges.iter().map(|r| r.1 - r.0).sum();
        for (r, part) in joined(ranges).into_iter().flat_map(|r| self.parts(r)) {
            self.write_region(&mut s.shared, r, t, Some((word, part)), here).or_else(|c| self.clash(c, here))?;
        }
        // They may land at once; who reads them must have waited for the word in any case.
        self.bytes_come(s, t, (word, bytes, unit), here)
    }

    fn unit_reads(&self, s: &mut State<'a>, t: usize, here: Site, ranges: Vec<(i64, i64)>, kind: usize) -> Result<(), ProtocolError> {
        let regions: BTreeSet<i64> = joined(ranges).into_iter().flat_map(|r| self.parts(r)).map(|p| p.0).collect();
        regions.into_iter().try_for_each(|r| self.read_region(&mut s.shared, r, t, Some(kind), here).or_else(|c| self.clash(c, here)))
    }

    /// The bytes of a box.
    fn box_bytes(&self, map: u32) -> i64 {
        match self.program.params.get(map as usize).map(|p| p.source) {
            Some(ParamSource::Tensor(b)) => i64::from(b.bytes()),
            Some(_) | None => 0,
        }
    }

    /// What a unit does; false if it waits.
    pub(in super::super) fn explicit_unit(&self, s: &mut State<'a>, t: usize, here: Site, u: &Unit) -> Result<bool, ProtocolError> {
        match u {
            Unit::InitBarrier { barrier, count, guard } => {
                let at = self.word(s, t, barrier, here)?;
                if self.lanes(s, t, *guard, "make a barrier word", here)? != 1 {
                    return self.error("a barrier word is not made by one lane", here, None);
                }
                self.make(s, t, at, *count, here)?;
            }
            Unit::PublishBarriers => self.publish(s, t),
            Unit::Wait { barrier, parity } => {
                let at = self.word(s, t, barrier, here)?;
                let Some(&Abs::All(parity)) = s.tasks[t].env.get(parity) else {
                    return self.error("the parity is not understood", here, None);
                };
                return self.wait_at(s, t, at, parity & 1 == 1, here);
            }
            Unit::Arrive { barrier, guard } => {
                let at = self.word(s, t, barrier, here)?;
                let lanes = self.lanes(s, t, *guard, "arrive", here)?;
                self.arrive_at(s, t, at, (lanes, 0), here)?;
            }
            Unit::ArriveExpect { barrier, bytes, guard } => {
                let at = self.word(s, t, barrier, here)?;
                match self.lanes(s, t, *guard, "expect bytes", here)? {
                    lanes @ 0..=1 => self.arrive_at(s, t, at, (lanes, *bytes), here)?,
                    _ => return self.error("several lanes expect bytes", here, None),
                }
            }
            Unit::RemoteArrive { barrier, guard } => {
                let lanes = self.lanes(s, t, *guard, "arrive", here)?;
                let all = addresses(&s.tasks[t].env, barrier, *guard);
                let mut all = self.remote(s, t, all, here)?;
                all.dedup();
                match all[..] {
                    [] => {}
                    [at] => self.arrive_at(s, t, at, (lanes, 0), here)?,
                    _ => return self.error("lanes arrive at different words,", here, None),
                }
            }
            Unit::BulkLoad { map, to, barrier, ranks, guard, .. } => {
                if guard.is_none() || self.lanes(s, t, *guard, "copy", here)? == 1 {
                    self.bulk_load(s, t, here, (self.box_bytes(*map), to, barrier, *ranks))?;
                }
            }
            Unit::BulkStore { map, from, guard, .. } => {
                if self.explicit.tracked(self.program, from.addr) && (guard.is_none() || self.lanes(s, t, *guard, "copy", here)? > 0) {
                    let bytes = self.box_bytes(*map);
                    let list = self.own(t, addresses(&s.tasks[t].env, from, *guard), here)?;
                    let ranges = list.into_iter().map(|at| (at, at + bytes)).collect();
                    self.unit_reads(s, t, here, ranges, STORES)?;
                }
            }
            Unit::FenceUnits => self.show_regions(&mut s.shared, t),
            Unit::CommitStores { .. } => self.close_group(&mut s.shared, t, STORES),
            Unit::WaitStoresRead { pending, .. } => self.groups_over(&mut s.shared, t, STORES, *pending),
            Unit::Multiply(m) => self.multiply(s, t, here, m)?,
            Unit::CommitMatrices => self.close_group(&mut s.shared, t, PRODUCTS),
            Unit::WaitMatrices { pending } => {
                self.groups_over(&mut s.shared, t, PRODUCTS, *pending);
                // A group multiplies together: what one of its warps knows to be over is over for all. That others see what it has
                // written is another matter.
                if self.agents[t].warps == self.units.group_warps {
                    let written = self.names.borrow().written.clone();
                    let of = &mut s.shared.unsettled[t];
                    *of = of.common(&written);
                }
            }
            Unit::GroupBarrier { warps } if *warps == self.agents[t].warps => self.all_lanes_met(s, t),
            Unit::StoreMatrix { to, .. } if self.explicit.tracked(self.program, to.addr) => {
                let list = self.own(t, addresses(&s.tasks[t].env, to, None), here)?;
                self.touch(s, t, here, &list, 16, true)?;
            }
            Unit::NamedBarrier { id, warps, wait } => return self.named(s, t, here, (*id, *warps, *wait)),
            Unit::ClusterArrive { relaxed } => self.cluster_arrive(s, t, *relaxed, here)?,
            Unit::ClusterWait => return self.cluster_wait(s, t, here),
            Unit::Remote { dst, place, rank } => self.remote_address(s, t, here, *dst, place, *rank)?,
            Unit::RemoteLoad { dsts, from } => {
                let bytes = dsts.iter().map(|&v| self.program.vals[v].bytes()).sum();
                let list = self.remote(s, t, addresses(&s.tasks[t].env, from, None), here)?;
                self.touch(s, t, here, &list, bytes, false)?;
            }
            Unit::RemoteStore { srcs, to, guard } => {
                let bytes = srcs.iter().map(|&v| self.program.vals[v].bytes()).sum();
                let list = self.remote(s, t, addresses(&s.tasks[t].env, to, *guard), here)?;
                self.touch(s, t, here, &list, bytes, true)?;
            }
            Unit::RemoteStoreAsync { srcs, to, barrier, guard } => {
                let bytes: u32 = srcs.iter().map(|&v| self.program.vals[v].bytes()).sum();
                let lanes = i64::from(self.lanes(s, t, *guard, "store", here)?);
                let list = self.remote(s, t, addresses(&s.tasks[t].env, to, *guard), here)?;
                let mut words = self.remote(s, t, addresses(&s.tasks[t].env, barrier, *guard), here)?;
                words.dedup();
                let ranges: Vec<(i64, i64)> = list.iter().map(|&at| (at, at + i64::from(bytes))).collect();
                let own = |w: i64| list.iter().all(|&at| block_of(at) == block_of(w));
                match words[..] {
                    [] => {}
                    [word] if own(word) && ranges.len() as i64 == lanes && apart(&ranges) => {
                        self.unit_writes(s, t, here, (word, false), ranges)?
                    }
                    _ => return self.error("where the bytes of an asynchronous store go is not understood", here, None),
                }
            }
            Unit::Pass { .. }
            | Unit::GroupBarrier { .. }
            | Unit::StoreMatrix { .. }
            | Unit::FenceMatrices
            | Unit::Hold
            | Unit::AwaitPrevious
            | Unit::PrefetchMap { .. } => {}
        }
        Ok(true)
    }

    fn bulk_load(
        &self,
        s: &mut State<'a>,
        t: usize,
        here: Site,
        (bytes, to, barrier, ranks): (i64, &Place, &Place, Option<LVal>),
    ) -> Result<(), ProtocolError> {
        let word = self.word(s, t, barrier, here)?;
        let Some(at) = place(&s.tasks[t].env, to).filter(|at| (0..=ADDRESS).contains(at)) else {
            return self.error("where a copy goes is not understood", here, None);
        };
        let own = self.agents[t].block;
        let blocks: Vec<usize> = match ranks.map(|v| s.tasks[t].env.get(&v)) {
            None => vec![own],
            Some(Some(&Abs::All(mask))) => (0..usize::BITS as usize).filter(|b| mask >> b & 1 == 1).collect(),
            Some(_) => return self.error("which blocks get a copy is not understood", here, None),
        };
        for b in blocks {
            let runs = b < self.explicit.blocks && (b == own || s.shared.known[t].has(self.id(Fact::Runs(b))));
            if !runs {
                return self.error("a copy goes to another block that may not run yet,", here, None);
            }
            let base = (b as i64) << RANK;
            self.unit_writes(s, t, here, (word & ADDRESS | base, true), vec![(at | base, (at | base) + bytes)])?;
        }
        Ok(())
    }

    fn multiply(&self, s: &mut State<'a>, t: usize, here: Site, m: &Multiply) -> Result<(), ProtocolError> {
        let row = self.units.matrix.get(m.instr.index());
        let (rows, k, size) = row.map_or((0, 0, 1), |r| (r.m, r.k, r.operand.bytes()));
        let left = if let LeftOperand::Shared(o) = &m.a { Some((o, rows)) } else { None };
        for (o, rows) in left.into_iter().chain([(&m.b, m.n)]) {
            let list = self.own(t, addresses(&s.tasks[t].env, &o.at, None), here)?;
            let list: BTreeSet<i64> = list.into_iter().collect();
            let span = i64::from(o.panels.span);
            let (panels, bytes) =
                if o.panels.along_k { (1, i64::from(rows) * span) } else { (rows.div_ceil(o.panels.span / size), i64::from(k) * span) };
            let stride = i64::from(o.panels.stride);
            // From the start of its row of the panel.
            let starts = list.iter().flat_map(|&at| (0..i64::from(panels)).map(move |p| at / span * span + p * stride));
            self.unit_reads(s, t, here, starts.map(|at| (at, at + bytes)).collect(), PRODUCTS)?;
        }
        Ok(())
    }

    /// An address in another block: the rank plus one above it.
    fn remote_address(&self, s: &mut State<'a>, t: usize, here: Site, dst: LVal, place: &Place, rank: LVal) -> Result<(), ProtocolError> {
        let env = &s.tasks[t].env;
        let base = match env.get(&rank) {
            Some(&Abs::All(r)) if (0..self.explicit.blocks as i64).contains(&r) => (r + 1) << RANK,
            Some(Abs::All(_)) => return self.error("the cluster has no block of that rank,", here, None),
            _ => return self.error("which block is meant is not understood", here, None),
        };
        let made = match env.get(&place.addr) {
            Some(Abs::All(x)) => Some(Abs::All(x + i64::from(place.offset) + base)),
            Some(Abs::Lanes(l)) => Some(Abs::Lanes(l.iter().map(|x| x + i64::from(place.offset) + base).collect())),
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
