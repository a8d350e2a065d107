//! Which rings have slots that are alike, and with them the parity of the waits for their mbarriers: states that differ only by how far a counter has gone round are one.
//!
//! ```text
//! carried c ─► c + i ─┬─► rem by D ─► times s ─► plus base ─► slot of a buffer, mbarrier of a barrier
//!                     └─► div by D ─► lowest bit ─► parity of a wait for that mbarrier
//! ```
//!
//! Let every such counter be larger by n, every slot j of the rings that it leads to be slot (j + n) mod D, and let the mbarriers' phases be
//! odd instead of even where slots have gone round once more. Where counters are used as in the picture, and for nothing else, and rings
//! are touched through them alone, that maps states to states and steps to steps. So of states that it maps to one another one is
//! followed. Counters that lead to the same memory rotate together; others have an n of their own.
//!
//! What has to hold for that is looked up in the text before the program runs ([`Checker::find_rotation`]), but for two things: all agents have to be inside
//! the loops that carry their counters, as those begin at a certain number ([`Checker::rotated`] looks); and what is touched through slot j
//! has to lie inside slot j ([`Checker::all_stay`] looks, and takes the whole back if it does not).

mod key;

use super::super::env::Env;
use super::super::run::{Checker, State};
use super::super::value::Abs;
use crate::state::keys::{MBARRIER_BYTES, RANK};
use crate::state::rotation::{CounterRelation, Kind, KnownShifts, Lead, Ring, RolePart, Rotation, slot};
use cranelift_entity::EntityRef;
use std::cell::Cell;
use tilelift_lane::hash::{Map, Set};
use tilelift_lane::visit::{blocks, computed, reads};
use tilelift_lane::{AllocId, BinOp, Block, For, If, Inst, LVal, Unit, Use};

/// Why it can't be done: not with this counter, or not at all.
enum Trouble {
    Without(usize),
    All,
}

/// What is found out in one attempt.
struct Search<'c, 'a> {
    c: &'c Checker<'a>,
    constants: Env,
    /// The carried counters that are tried, by number.
    tried: Map<LVal, usize>,
    kinds: Map<LVal, Kind>,
    rings: Map<AllocId, Ring>,
    /// Rings that are reached by several counters.
    joined: Vec<(usize, usize)>,
    plain: Set<AllocId>,
    /// Mbarriers that somebody waits for by a parity that is no counter's.
    uncounted: Set<AllocId>,
    /// Values that are not negative, besides those that are known to be natural.
    indices: Set<LVal>,
}

impl Search<'_, '_> {
    fn kind(&self, v: LVal) -> Option<Kind> {
        if self.c.is_computed(v) { self.kinds.get(&v).copied() } else { None }
    }

    fn constant(&self, v: LVal) -> Option<i64> {
        match self.constants.get(&v) {
            Some(Abs::All(x)) => Some(x),
            _ => None,
        }
    }

    fn set(&mut self, v: LVal, kind: Option<Kind>) {
        // Of what is not followed nothing is ever known.
        if let Some(kind) = kind.filter(|_| self.c.is_computed(v)) {
            self.kinds.insert(v, kind);
        }
    }

    /// A value that must not depend on a counter.
    fn apart(&self, v: LVal) -> Result<(), Trouble> {
        self.kind(v).map_or(Ok(()), |k| Err(Trouble::Without(k.origin)))
    }

    fn block(&mut self, block: &Block, outermost: bool) -> Result<(), Trouble> {
        for inst in block {
            match inst {
                Inst::Bin { dst, op, a, b } => {
                    let kind = self.arithmetic(*dst, *op, *a, *b);
                    self.set(*dst, kind);
                }
                Inst::For(l) => self.counted_loop(l, outermost)?,
                Inst::If(c) => self.choice(c)?,
                Inst::While(_) | Inst::Roles(_) => return Err(Trouble::All),
                Inst::Unit(u) => self.unit(u)?,
                Inst::LoadShared { addr, .. } | Inst::LoadMatrix { addr, .. } => self.place(*addr)?,
                Inst::StoreShared { addr, guard, .. } => {
                    self.place(*addr)?;
                    guard.iter().try_for_each(|&g| self.apart(g))?;
                }
                other => {
                    let mut origin = None;
                    reads(other, &mut |v| origin = origin.or(self.kind(v).map(|k| k.origin)));
                    let kind = origin.map(|origin| Kind { origin, what: CounterRelation::Other });
                    computed(other).unwrap_or_default().iter().for_each(|&v| self.set(v, kind));
                }
            }
        }
        Ok(())
    }

    fn arithmetic(&self, dst: LVal, op: BinOp, a: LVal, b: LVal) -> Option<Kind> {
        if let Some(&(of, by)) = self.c.analysis.remainders.get(&dst) {
            let k = self.kind(of)?;
            let what = match k.what {
                CounterRelation::Counter { .. } => CounterRelation::Slot { root: of, slots: by, stride: 1 },
                CounterRelation::Slot { .. } | CounterRelation::Round { .. } | CounterRelation::Other => CounterRelation::Other,
            };
            return Some(Kind { what, ..k });
        }
        let (k, root, other) = match (self.kind(a), self.kind(b)) {
            (None, None) => return None,
            (Some(k), None) => (k, a, b),
            (None, Some(k)) if matches!(op, BinOp::Add | BinOp::Mul | BinOp::And) => (k, b, a),
            (Some(k), _) | (None, Some(k)) => return Some(Kind { what: CounterRelation::Other, ..k }),
        };
        let number = self.constant(other);
        let natural = number.is_some_and(|n| n >= 0) || self.c.analysis.natural.contains(&other) || self.indices.contains(&other);
        let power = |n: Option<i64>| n.filter(|n| (0..12).contains(n)).map(|n| 1 << n);
        let mask = number.filter(|&n| n > 0 && n & (n + 1) == 0).map(|n| n + 1);
        let positive = number.filter(|&n| n > 0);
        let counter = |least: i64| if least >= 0 { CounterRelation::Counter { least } } else { CounterRelation::Other };
        let what = match (k.what, op) {
            (CounterRelation::Counter { least }, BinOp::Add) if natural => CounterRelation::Counter { least },
            (CounterRelation::Counter { least }, BinOp::Add) => number.map_or(CounterRelation::Other, |n| counter(least + n)),
            (CounterRelation::Counter { least }, BinOp::Sub) => {
                number.filter(|&n| n >= 0).map_or(CounterRelation::Other, |n| counter(least - n))
            }
            (CounterRelation::Counter { .. }, BinOp::Rem | BinOp::RemU) => {
                positive.map_or(CounterRelation::Other, |slots| CounterRelation::Slot { root, slots, stride: 1 })
            }
            (CounterRelation::Counter { .. }, BinOp::And) => {
                mask.map_or(CounterRelation::Other, |slots| CounterRelation::Slot { root, slots, stride: 1 })
            }
            (CounterRelation::Counter { .. }, BinOp::Div | BinOp::DivU) => {
                positive.map_or(CounterRelation::Other, |slots| CounterRelation::Round { root, slots })
            }
            (CounterRelation::Counter { .. }, BinOp::ShrS | BinOp::ShrU) => {
                power(number).map_or(CounterRelation::Other, |slots| CounterRelation::Round { root, slots })
            }
            (slot @ CounterRelation::Slot { .. }, BinOp::Add | BinOp::Sub) => slot,
            (CounterRelation::Slot { root, slots, stride }, BinOp::Mul | BinOp::Shl) => {
                let by = if op == BinOp::Shl { power(number) } else { positive };
                let stride = by.and_then(|n| stride.checked_mul(n));
                stride.map_or(CounterRelation::Other, |stride| CounterRelation::Slot { root, slots, stride })
            }
            (round @ CounterRelation::Round { .. }, BinOp::Add) if number.is_some_and(|n| n >= 0) => round,
            (round @ CounterRelation::Round { .. }, BinOp::And) if number == Some(1) => round,
            (round @ CounterRelation::Round { .. }, BinOp::Rem | BinOp::RemU) if number == Some(2) => round,
            _ => CounterRelation::Other,
        };
        Some(Kind { what, ..k })
    }

    /// A loop: what it carries keeps its kind from iteration to iteration.
    fn counted_loop(&mut self, l: &For, outermost: bool) -> Result<(), Trouble> {
        [l.lo, l.hi, l.step].into_iter().try_for_each(|v| self.apart(v))?;
        if self.constant(l.lo).is_some_and(|n| n >= 0) && self.constant(l.step).is_some_and(|n| n > 0) {
            self.indices.insert(l.iv);
        }
        for c in &l.carried {
            let kind = match self.tried.get(&c.param) {
                Some(&origin) if outermost => {
                    self.apart(c.init)?;
                    Some(Kind { origin, what: CounterRelation::Counter { least: 1 } })
                }
                _ => self.kind(c.init).map(|k| match k.what {
                    CounterRelation::Counter { least } if self.c.analysis.counters.contains(&c.param) => {
                        Kind { what: CounterRelation::Counter { least: least.min(1) }, ..k }
                    }
                    _ => Kind { what: CounterRelation::Other, ..k },
                }),
            };
            self.set(c.param, kind);
        }
        self.block(&l.body, false)?;
        for c in &l.carried {
            let (kind, next) = (self.kind(c.param), self.kind(c.next));
            match (kind, next) {
                (None, None) => {}
                // Of what is not followed nothing is ever known.
                (None, Some(_)) if !self.c.is_computed(c.param) && !self.c.is_computed(c.result) => {}
                (
                    Some(Kind { origin, what: CounterRelation::Counter { least: from } }),
                    Some(Kind { origin: same, what: CounterRelation::Counter { least } }),
                ) if origin == same && least >= from => {}
                (Some(Kind { what: CounterRelation::Other, .. }), _) => {}
                (Some(k), _) | (None, Some(k)) => return Err(Trouble::Without(k.origin)),
            }
            self.set(c.result, kind);
        }
        Ok(())
    }

    fn choice(&mut self, c: &If) -> Result<(), Trouble> {
        self.apart(c.condition)?;
        self.block(&c.then, false)?;
        self.block(&c.otherwise, false)?;
        for &(result, a, b) in &c.results {
            let kind = match (self.kind(a), self.kind(b)) {
                (Some(x), Some(y)) if x.origin == y.origin => match (x.what, y.what) {
                    (CounterRelation::Counter { least: m }, CounterRelation::Counter { least: n }) => {
                        Some(Kind { origin: x.origin, what: CounterRelation::Counter { least: m.min(n) } })
                    }
                    _ => Some(Kind { what: CounterRelation::Other, ..x }),
                },
                (x, y) => x.or(y).map(|k| Kind { what: CounterRelation::Other, ..k }),
            };
            self.set(result, kind);
        }
        Ok(())
    }

    /// Where shared memory is touched.
    fn place(&mut self, addr: LVal) -> Result<(), Trouble> {
        let alloc = self.c.analysis.of(addr);
        let Some(k) = self.kind(addr) else {
            self.plain.extend(alloc);
            return Ok(());
        };
        let (CounterRelation::Slot { slots, stride, .. }, Some(alloc)) = (k.what, alloc) else { return Err(Trouble::Without(k.origin)) };
        self.ring(alloc, Ring { slots, stride, class: k.origin })
    }

    fn ring(&mut self, alloc: AllocId, ring: Ring) -> Result<(), Trouble> {
        match self.rings.insert(alloc, ring) {
            Some(r) if (r.slots, r.stride) != (ring.slots, ring.stride) => return Err(Trouble::Without(ring.class)),
            Some(r) => self.joined.push((r.class, ring.class)),
            None => {}
        }
        Ok(())
    }

    fn unit(&mut self, u: &Unit) -> Result<(), Trouble> {
        match u {
            Unit::Wait { barrier, parity } => {
                self.place(barrier.addr)?;
                match (self.kind(barrier.addr), self.kind(*parity)) {
                    (None, None) => self.uncounted.extend(self.c.analysis.of(barrier.addr)),
                    // An mbarrier alone is a ring of one slot.
                    (None, Some(Kind { origin, what: CounterRelation::Slot { slots: 2, stride: 1, .. } })) => {
                        let alloc = self.c.analysis.of(barrier.addr).ok_or(Trouble::Without(origin))?;
                        self.ring(alloc, Ring { slots: 1, stride: MBARRIER_BYTES, class: origin })?;
                    }
                    (
                        Some(Kind { what: CounterRelation::Slot { root, slots, .. }, .. }),
                        Some(Kind { what: CounterRelation::Round { root: r, slots: n }, .. }),
                    ) if (root, slots) == (r, n) => {}
                    (Some(k), _) | (None, Some(k)) => return Err(Trouble::Without(k.origin)),
                }
            }
            Unit::Remote { dst, place, rank } => {
                self.apart(*rank)?;
                let kind = self.kind(place.addr);
                self.set(*dst, kind);
            }
            // A role makes no mbarriers.
            Unit::InitBarrier { .. } | Unit::PublishBarriers => return Err(Trouble::All),
            other => {
                let mut all = Vec::new();
                other.operands(|v, how| all.push((v, how)));
                for (v, how) in all {
                    match how {
                        Use::Address(_) => self.place(v)?,
                        Use::Guard => self.apart(v)?,
                        Use::Value | Use::Word => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Rings have to fill their allocations, slots have to be made of whole regions, and nothing else touches them.
    fn check(&self) -> Result<(), Trouble> {
        if self.rings.is_empty() {
            return Err(Trouble::All);
        }
        for (&id, r) in &self.rings {
            let a = &self.c.program.allocs[id];
            let region_bytes = if a.region_bytes > 0 { self.c.analysis.region_bytes(id, a).0 } else { MBARRIER_BYTES };
            let whole = |n: i64, by: i64| by > 0 && n % by == 0;
            // An mbarrier alone has one address, but all parities have to rotate with it.
            let others = self.plain.contains(&id) && (r.slots > 1 || a.region_bytes > 0 || self.uncounted.contains(&id));
            if others || !whole(i64::from(a.bytes), r.slots * r.stride) || !whole(r.stride, region_bytes) {
                return Err(Trouble::Without(r.class));
            }
        }
        Ok(())
    }

    fn finish(self, all: &[LVal]) -> Option<Rotation> {
        // Who leads to the same memory rotates together.
        let mut classes: Vec<usize> = (0..all.len()).collect();
        for &(a, b) in &self.joined {
            let (from, to) = (classes[a].max(classes[b]), classes[a].min(classes[b]));
            classes.iter_mut().filter(|c| **c == from).for_each(|c| *c = to);
        }
        let c = self.c;
        let roles = &c.program.roles()?.roles;
        let mut parts: Vec<RolePart> = Vec::new();
        for (n, role) in roles.iter().enumerate() {
            let mut part = RolePart::default();
            let env = c.knowing().part(n, &|a| a);
            each(&role.body, &mut |v| {
                if let (Some(at), Some(k)) = (env.slot(v), self.kind(v)) {
                    part.kinds.resize(part.kinds.len().max(at + 1), None);
                    part.kinds[at] = Some((v, k));
                    if let CounterRelation::Counter { least } = k.what {
                        part.counters.push((at, k.origin, least));
                    }
                }
            });
            for inst in &role.body {
                let Inst::For(l) = inst else { continue };
                if l.carried.iter().any(|x| self.tried.contains_key(&x.param) && self.kinds.contains_key(&x.param)) {
                    part.inside = c.op_of(n, inst)? + 1;
                }
            }
            parts.push(part);
        }
        let place = |id: AllocId| {
            let a = &c.program.allocs[id];
            i64::from(a.offset)..i64::from(a.offset) + i64::from(a.bytes)
        };
        let rings = self.rings.iter().map(|(&id, r)| (place(id), Ring { class: classes[r.class], ..*r })).collect();
        let lead = |v: LVal| match (self.kind(v)?.what, c.analysis.of(v)) {
            (CounterRelation::Slot { root, slots, stride }, Some(id)) => {
                Some(Lead { root, slots, stride, start: i64::from(c.program.allocs[id].offset) })
            }
            _ => None,
        };
        let leads = c.program.vals.keys().map(lead).collect();
        Some(Rotation { leads, rings, classes, parts, known: KnownShifts::default(), uneven: Cell::new(false) })
    }
}

/// Calls `f` for every value that a block makes.
fn each(block: &Block, f: &mut dyn FnMut(LVal)) {
    for inst in block {
        match inst {
            Inst::For(l) => {
                f(l.iv);
                l.carried.iter().for_each(|c| [c.param, c.result].into_iter().for_each(&mut *f));
            }
            Inst::If(c) => c.results.iter().for_each(|r| f(r.0)),
            Inst::Unit(u) => {
                if let Unit::Remote { dst, .. } = **u {
                    f(dst);
                }
            }
            other => computed(other).unwrap_or_default().iter().for_each(|&v| f(v)),
        }
        blocks(inst).for_each(|b| each(b, f));
    }
}

impl Checker<'_> {
    /// Looks for counters and rings; `None` if there are none that rotate.
    pub(crate) fn find_rotation(&self) -> Option<Rotation> {
        let c = self;
        let roles = &c.program.roles()?.roles;
        let candidate = |v: LVal| c.analysis.counters.contains(&v) && c.is_computed(v);
        let outer = |i: &Inst| match i {
            Inst::For(l) => l.carried.iter().map(|x| x.param).filter(|&v| candidate(v)).collect(),
            _ => Vec::new(),
        };
        let mut all: Vec<LVal> = roles.iter().flat_map(|r| r.body.iter().flat_map(outer)).collect();
        while !all.is_empty() {
            let mut s = Search {
                c,
                constants: c.knowing(),
                tried: all.iter().enumerate().map(|(n, &v)| (v, n)).collect(),
                kinds: Map::default(),
                rings: Map::default(),
                joined: Vec::new(),
                plain: Set::default(),
                uncounted: Set::default(),
                indices: Set::default(),
            };
            match roles.iter().try_for_each(|r| s.block(&r.body, true)).and_then(|()| s.check()) {
                Ok(()) => return s.finish(&all),
                Err(Trouble::Without(n)) => {
                    all.remove(n);
                }
                Err(Trouble::All) => return None,
            }
        }
        None
    }

    /// Takes note of what an agent touches through an address, from where to where: it has to stay inside its slot.
    pub(super) fn all_stay(&self, s: &State, t: usize, addr: LVal, ranges: impl Iterator<Item = (i64, i64)>) {
        let Some(rotation) = &self.rotation else { return };
        let Some(Lead { root, slots, stride, start }) = rotation.leads[addr.index()] else { return };
        let Some(j) = slot(s.tasks[t].env.get(&root), slots) else {
            return rotation.uneven.set(rotation.uneven.get() | (ranges.count() > 0));
        };
        for (from, to) in ranges {
            // From the beginning of the slot, in the ring that it is one of.
            let at = ((from & ((1 << RANK) - 1)) - start).rem_euclid(slots * stride) - j * stride;
            if at < 0 || at + (to - from) > stride {
                rotation.uneven.set(true);
            }
        }
    }
}
