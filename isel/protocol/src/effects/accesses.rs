//! Accesses of local memory that nothing stands between: the products of a step, the mbarriers of a tile that lanes load or store.
//!
//! ```text
//! load x0 .. x15   load x16 .. x31   load y0 .. y15      becomes      read x: 0 .. 31   read y: 0 .. 15
//! ```
//!
//! They touch the same few regions over and over. The second of two accesses of a region changes nothing that the first has not, so each
//! region is touched once, with all that is touched of it. What that is is found out once for each list of addresses. Where it is refused, the
//! accesses are followed one after the other, which names the guilty one, or finds that each is in order.

use super::super::env::Env;
use super::super::site::Site;
use super::super::value::Abs;
use crate::error::ProtocolError;
use crate::problem::Problem;
use crate::run::code::{Access, AccessInput, AccessKind, Accesses, Lanes};
use crate::run::{Checker, State};
use crate::state::found::{At, Reach, Reaches, Touch};
use crate::state::keys::{ADDRESS, Part, RANK, joined};
use crate::state::region::{Clash, PRODUCTS};
use cranelift_entity::EntityRef;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use tilelift_lane::hash::Map;
use tilelift_lane::{GroupOperand, LVal, Multiply};

impl<'a> Checker<'a> {
    /// Lanes close their group of copies, or wait until so many of the newest are in flight.
    pub(in super::super) fn copies(&self, s: &mut State, t: usize, pending: Option<u32>) {
        match pending {
            None => self.close_copies(&mut s.shared, t),
            Some(n) => self.copies_over(&mut s.shared, t, n),
        }
    }

    /// Accesses side by side: as one, or one after the other where that is refused.
    pub(in super::super) fn access(&self, s: &mut State, t: usize, n: usize, list: &Accesses<'a>) -> Result<(), ProtocolError> {
        let block = self.agents[t].block;
        let env = &s.tasks[t].env;
        let asked = |x: &AccessInput| match *x {
            AccessInput::Address(v) => env.get(&v).unwrap_or(Abs::Any),
            AccessInput::Lanes(lanes) => self.guard(t, env, lanes),
        };
        let at: At = list.asked.iter().map(asked).collect();
        let mut hasher = FxHasher::default();
        at.hash(&mut hasher);
        let number = (n, hasher.finish());
        let known = self.known(number, block, &at);
        // Of what lanes write where nobody knows, the rest has to be there.
        let masked = |access: &Access<'_>| matches!(*access, Access::Lanes(_, _, Lanes::If(g)) if self.is_unknown(&s.tasks[t].env, g));
        let masked = list.kind == AccessKind::Write && list.all.iter().any(|x| masked(&x.1));
        let lacks = |s: &State, r: usize| masked && s.shared.regions.get(r).is_none_or(|x| x.write.is_none());
        // What one lane writes again counts as another write.
        let one = list.all.len() == 1 || list.kind != AccessKind::Write || !self.agents[t].single;
        if let Some(all) = known.as_ref().filter(|_| one) {
            all.iter().for_each(|x| self.all_stay(s, t, x.addr, [x.part.1].into_iter()));
            let parts = all.iter().map(|x| {
                let n = if list.kind == AccessKind::Multiply { x.ends.1 } else { x.ends.0 };
                (x.part, Site(t, list.all[n].0))
            });
            if !all.iter().any(|x| lacks(s, x.part.0)) && self.touch_parts(s, t, parts, list.kind).is_ok() {
                return Ok(());
            }
        }
        // Each region once for each address that leads to it, in the order in which they are touched first.
        let (mut all, mut places): (Vec<Touch>, Map<(LVal, usize), usize>) = (Vec::new(), Map::default());
        for (k, (inst, access)) in list.all.iter().enumerate() {
            let here = Site(t, *inst);
            let mut follow = |s: &mut State, addr: LVal, regions: &[Part]| {
                if regions.iter().any(|x| lacks(s, x.0)) {
                    return self.error(Problem::Unwritten, here, None);
                }
                self.touch(s, t, here, regions, list.kind)?;
                for &part in regions.iter().filter(|_| known.is_none()) {
                    let n = *places.entry((addr, part.0)).or_insert(all.len());
                    match all.get_mut(n) {
                        Some(x) => (x.part.1, x.ends.1) = (hull(x.part.1, part.1), k),
                        None => all.push(Touch { addr, part, ends: (k, k) }),
                    }
                }
                Ok(())
            };
            match access {
                Access::Lanes(place, bytes, lanes) => {
                    let guard = self.guard(t, &s.tasks[t].env, *lanes);
                    let found = self.own(s, t, (place, guard, *bytes), here)?;
                    follow(s, place.addr, &found.regions)?;
                }
                Access::Product(m) => {
                    for o in m.operands_in_shared() {
                        let regions = self.operand(s, t, here, (m, o))?;
                        self.all_stay(s, t, o.at.addr, regions.iter().map(|r| r.1));
                        follow(s, o.at.addr, &regions)?;
                    }
                }
            }
        }
        if known.is_none() {
            let mut found = self.found.accesses.borrow_mut();
            if found.len() <= n {
                found.resize_with(n + 1, Reaches::default);
            }
            found[n].entry(number.1).or_default().push(Reach { at, blocks: SmallVec::from_iter([(block, all.into())]) });
        }
        Ok(())
    }

    /// Lanes may put something else in what units have brought.
    pub(in super::super) fn amended(&self, s: &mut State, t: usize, list: &Accesses<'a>) -> Result<(), ProtocolError> {
        for (inst, access) in &list.all {
            let here = Site(t, *inst);
            let Access::Lanes(place, bytes, lanes) = access else { return self.error(Problem::Choice, here, None) };
            let guard = self.guard(t, &s.tasks[t].env, *lanes);
            let found = self.own(s, t, (place, guard, *bytes), here)?;
            for &(r, _) in &found.regions {
                self.amend_region(&mut s.shared, r, t).or_else(|c| self.clash(c, here))?;
            }
        }
        Ok(())
    }

    /// True for a guard that follows from what a mask compares.
    fn is_unknown(&self, env: &Env, guard: LVal) -> bool {
        matches!(env.get(&guard), None | Some(Abs::Any))
    }

    /// Where lanes of an agent access memory: a number per lane, zero in those that do not. Where that is not known all of them may.
    fn guard(&self, t: usize, env: &Env, lanes: Lanes) -> Abs {
        match lanes {
            Lanes::All => Abs::All(1),
            Lanes::If(guard) if self.is_unknown(env, guard) => Abs::All(1),
            Lanes::If(guard) => env.get(&guard).unwrap_or(Abs::Any),
            Lanes::Rows(rows) => self.lists.first(rows, self.program.lanes, self.agents[t].lanes),
        }
    }

    /// What accesses of a number have touched before, in a block: in all blocks the same, but for the block.
    fn known(&self, (n, hash): (usize, u64), block: usize, at: &At) -> Option<Rc<[Touch]>> {
        let mut found = self.found.accesses.borrow_mut();
        let reach = found.get_mut(n)?.get_mut(&hash)?.iter_mut().find(|x| x.at == *at)?;
        if let Some((_, all)) = reach.blocks.iter().find(|x| x.0 == block) {
            return Some(all.clone());
        }
        let (other, there) = reach.blocks.first()?;
        let by = (block as i64 - *other as i64) << RANK;
        let here = |x: &Touch| {
            let (r, (from, to)) = x.part;
            Touch { part: (self.places.region_beside(r, by), (from + by, to + by)), ..x.clone() }
        };
        let all: Rc<[Touch]> = there.iter().map(here).collect();
        reach.blocks.push((block, all.clone()));
        Some(all)
    }

    /// An access touches parts of regions.
    pub(super) fn touch(&self, s: &mut State, t: usize, here: Site, parts: &[Part], kind: AccessKind) -> Result<(), ProtocolError> {
        self.touch_parts(s, t, parts.iter().map(|&part| (part, here)), kind).or_else(|c| self.clash(c, here))
    }

    /// Parts of regions are touched, each at its place in the program.
    fn touch_parts(&self, s: &mut State, t: usize, mut parts: impl Iterator<Item = (Part, Site)>, kind: AccessKind) -> Result<(), Clash> {
        let s = &mut s.shared;
        match kind {
            AccessKind::Multiply => self.read_regions(s, t, Some(PRODUCTS), parts),
            AccessKind::Read => self.read_regions(s, t, None, parts),
            AccessKind::Copy => parts.try_for_each(|(part, here)| self.copy_region(s, part.0, t, here)),
            AccessKind::Write => parts.try_for_each(|(part, here)| self.write_region(s, part.0, t, None, here)),
        }
    }

    /// The regions of an operand.
    fn operand(&self, s: &State, t: usize, here: Site, (m, o): (&Multiply, &GroupOperand)) -> Result<Vec<Part>, ProtocolError> {
        let row = self.units.matrix.get(m.instr.index());
        let (left, k, size) = row.map_or((0, 0, 1), |r| (r.m, r.k, r.operand.bytes()));
        let rows = if std::ptr::eq(o, &m.b) { m.n } else { left };
        let Some(found) = self.touched(s, t, (&o.at, Abs::All(1), 1), false) else {
            return match self.analysis.alone {
                true => Ok(self.anywhere(t, o.at.addr).regions.clone()),
                false => self.error(Problem::Address, here, None),
            };
        };
        let block = self.agents[t].block;
        let list: BTreeSet<i64> = found.spans.keys.iter().map(|k| k | (block as i64) << RANK).collect();
        let swizzle = i64::from(o.atoms.swizzle);
        let (atoms, bytes) =
            if o.atoms.along_k { (1, i64::from(rows) * swizzle) } else { (rows.div_ceil(o.atoms.swizzle / size), i64::from(k) * swizzle) };
        let stride = i64::from(o.atoms.stride);
        // From the start of its row of the atom.
        let starts = list.iter().flat_map(|&at| (0..i64::from(atoms)).map(move |p| at / swizzle * swizzle + p * stride));
        let ranges = joined(starts.map(|at| (at, at + bytes)).collect());
        let ends = |&(from, to): &(i64, i64)| (from & ADDRESS, ((to - 1) & ADDRESS) + 1);
        if let (Some(first), Some(last)) = (ranges.first(), ranges.last()) {
            self.inside(o.at.addr, (ends(first).0, ends(last).1), here)?;
        }
        Ok(whole(&ranges.into_iter().flat_map(|r| self.parts(r).to_vec()).collect::<Vec<Part>>()))
    }
}

/// From the beginning of the one that begins first to the end of the one that ends last.
fn hull(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// The regions of parts, each once, in the order of their addresses, with all that is touched of it.
fn whole(parts: &[Part]) -> Vec<Part> {
    let mut out: Vec<Part> = Vec::new();
    for &(r, range) in parts {
        match out.iter_mut().find(|x| x.0 == r) {
            Some(x) => x.1 = hull(x.1, range),
            None => out.push((r, range)),
        }
    }
    out.sort_by_key(|x| x.1.0);
    out
}
