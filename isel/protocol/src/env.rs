//! The values that are known at a point, in slots: those of what all warps run, and behind them those of the role.
//!
//! Values are numbered in the order of the text, so those of an iteration lie side by side and are forgotten together. What a loop's end
//! tells of values in front of it holds as long as the iteration around it, and is taken back then.

use super::value::Abs;
use cranelift_entity::EntityRef;
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;
use tilelift_lane::hash::Map;
use tilelift_lane::visit::computed;
use tilelift_lane::{Block, Inst, LVal, Program, Unit};

/// Where a value is kept.
#[derive(Clone, Copy, Debug)]
enum Home {
    /// Nobody asks for it.
    Nowhere,
    /// It is the same everywhere.
    Fixed(Abs),
    Slot(u32),
}

/// Where all values are kept.
#[derive(Debug, Default)]
pub(super) struct Homes {
    of: Vec<Home>,
    /// Slots of what all warps run.
    front: usize,
    /// Slots of each role, those in front included.
    roles: Vec<usize>,
    /// What an iteration of a loop makes, by the loop's index.
    iterations: Map<LVal, Range<usize>>,
}

impl Homes {
    /// Gives slots to the values that are wanted, and to the indices of loops.
    pub fn new(program: &Program, fixed: &[Option<Abs>], wanted: &dyn Fn(LVal) -> bool) -> Homes {
        let of = fixed.iter().map(|a| a.map_or(Home::Nowhere, Home::Fixed)).collect();
        let mut homes = Homes { of, front: 0, roles: Vec::new(), iterations: Map::default() };
        let mut next = 0;
        homes.block(&program.body, wanted, &mut next);
        homes.front = next;
        for role in program.roles().map_or(&[][..], |r| &r.roles[..]) {
            let mut next = homes.front;
            homes.block(&role.body, wanted, &mut next);
            homes.roles.push(next);
        }
        homes
    }

    /// The slot of a value that may differ from place to place, and is followed.
    pub fn slot(&self, v: LVal) -> Option<usize> {
        match self.of[v.index()] {
            Home::Slot(n) => Some(n as usize),
            Home::Nowhere | Home::Fixed(_) => None,
        }
    }

    /// The slots of what an iteration of a loop makes.
    pub fn iteration(&self, iv: LVal) -> Range<usize> {
        self.iterations.get(&iv).cloned().unwrap_or_default()
    }

    /// How many slots a role has.
    pub fn of_role(&self, role: usize) -> usize {
        self.roles.get(role).copied().unwrap_or(0)
    }

    fn give(&mut self, v: LVal, next: &mut usize) {
        if matches!(self.of[v.index()], Home::Nowhere) {
            self.of[v.index()] = Home::Slot(*next as u32);
            *next += 1;
        }
    }

    fn block(&mut self, block: &Block, wanted: &dyn Fn(LVal) -> bool, next: &mut usize) {
        for inst in block {
            let mut give = |h: &mut Homes, v: LVal| {
                if wanted(v) {
                    h.give(v, next);
                }
            };
            match inst {
                Inst::For(l) => {
                    let first = *next;
                    self.give(l.iv, next);
                    l.carried.iter().filter(|c| wanted(c.param)).for_each(|c| self.give(c.param, next));
                    self.block(&l.body, wanted, next);
                    self.iterations.insert(l.iv, first..*next);
                    l.carried.iter().filter(|c| wanted(c.result)).for_each(|c| self.give(c.result, next));
                }
                Inst::If(c) => {
                    self.block(&c.then, wanted, next);
                    self.block(&c.otherwise, wanted, next);
                    c.results.iter().filter(|r| wanted(r.0)).for_each(|r| self.give(r.0, next));
                }
                Inst::Unit(u) => {
                    if let Unit::Remote { dst, .. } = **u {
                        give(self, dst);
                    }
                }
                other => computed(other).unwrap_or_default().iter().for_each(|&v| give(self, v)),
            }
        }
    }
}

/// Values by name.
#[derive(Debug)]
pub(super) struct Env {
    homes: Rc<Homes>,
    slots: Vec<Abs>,
    /// What was known before more was learnt, since the iterations of open loops began.
    before: Vec<(u32, Abs)>,
    /// Where in that list each open loop's iteration began.
    open: SmallVec<[u32; 4]>,
}

impl Clone for Env {
    fn clone(&self) -> Env {
        let Env { homes, slots, before, open } = self;
        Env { homes: homes.clone(), slots: slots.clone(), before: before.clone(), open: open.clone() }
    }

    fn clone_from(&mut self, other: &Env) {
        let Env { homes, slots, before, open } = self;
        homes.clone_from(&other.homes);
        slots.clone_from(&other.slots);
        before.clone_from(&other.before);
        open.clone_from(&other.open);
    }
}

impl Env {
    /// Bytes of its values.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.slots[..])
    }

    /// One for what all warps run.
    pub fn new(homes: Rc<Homes>) -> Env {
        let slots = vec![Abs::Any; homes.front];
        Env { homes, slots, before: Vec::new(), open: SmallVec::new() }
    }

    /// One for a role, that knows as much.
    pub fn part(&self, role: usize, f: &dyn Fn(Abs) -> Abs) -> Env {
        let all = self.homes.roles.get(role).copied().unwrap_or(0);
        let mut slots = Vec::with_capacity(all);
        slots.extend(self.slots.iter().map(|&a| f(a)));
        slots.resize(all, Abs::Any);
        Env { homes: self.homes.clone(), slots, before: Vec::new(), open: SmallVec::new() }
    }

    /// Forgets everything.
    pub fn end(&mut self) {
        self.slots.clear();
        self.before.clear();
    }

    /// The slot of a value.
    pub fn slot(&self, v: LVal) -> Option<usize> {
        self.homes.slot(v)
    }

    /// What a slot holds.
    pub fn at(&self, slot: usize) -> Abs {
        self.slots.get(slot).copied().unwrap_or(Abs::Any)
    }

    /// Sets what a slot holds.
    pub fn put(&mut self, slot: usize, a: Abs) {
        if let Some(old) = self.slots.get_mut(slot) {
            *old = a;
        }
    }

    pub fn get(&self, v: &LVal) -> Option<Abs> {
        match self.homes.of[v.index()] {
            Home::Fixed(a) => Some(a),
            Home::Slot(n) => self.slots.get(n as usize).copied().filter(|a| *a != Abs::Any),
            Home::Nowhere => None,
        }
    }

    /// Sets a value; [`Abs::Any`] forgets it.
    pub fn insert(&mut self, v: LVal, a: Abs) {
        if let Some(slot) = self.slot(v).and_then(|n| self.slots.get_mut(n)) {
            *slot = a;
        }
    }

    pub fn set(&mut self, v: LVal, a: Option<Abs>) {
        self.insert(v, a.unwrap_or(Abs::Any));
    }

    /// Sets a value that may stand in front of the loops that are open.
    pub fn learn(&mut self, v: LVal, a: Abs) {
        if let Some(n) = self.slot(v) {
            self.learn_at(n, a);
        }
    }

    fn learn_at(&mut self, n: usize, a: Abs) {
        if self.slots.get(n).is_none_or(|old| *old == a) {
            return;
        }
        if !self.open.is_empty() {
            self.before.push((n as u32, self.slots[n]));
        }
        self.slots[n] = a;
    }

    /// A loop begins.
    pub fn enter(&mut self) {
        self.open.push(self.before.len() as u32);
    }

    /// True if something in front of the innermost loop was learnt in its iteration.
    pub fn has_learnt(&self) -> bool {
        self.open.last().is_some_and(|&n| self.before.len() > n as usize)
    }

    /// An iteration of the innermost loop is over: what it has made, and learnt of what stands in front of the loop, is forgotten.
    pub fn end_iteration(&mut self, iv: LVal) {
        let from = self.open.last().map_or(0, |&n| n as usize);
        while self.before.len() > from {
            if let Some((n, a)) = self.before.pop() {
                self.slots[n as usize] = a;
            }
        }
        if let Some(range) = self.homes.iterations.get(&iv).cloned() {
            self.slots[range].fill(Abs::Any);
        }
    }

    /// The same, but for some values.
    pub fn end_iteration_but(&mut self, iv: LVal, kept: impl Iterator<Item = LVal>) {
        let kept: SmallVec<[(usize, Abs); 8]> = kept.filter_map(|v| self.slot(v)).map(|n| (n, self.at(n))).collect();
        let range = self.homes.iterations.get(&iv).cloned().unwrap_or_default();
        self.end_iteration(iv);
        for (n, a) in kept {
            if range.contains(&n) { self.put(n, a) } else { self.learn_at(n, a) }
        }
    }

    /// The innermost loop is left.
    pub fn leave(&mut self) {
        self.open.pop();
    }

    /// The values, by slot.
    pub fn slots(&self) -> &[Abs] {
        &self.slots
    }

    /// What was known before more was learnt, by slot.
    pub fn learnt(&self) -> &[(u32, Abs)] {
        &self.before
    }

    /// What makes it differ from others of the same agent, but for the values, as numbers.
    pub fn outline(&self, out: &mut Vec<u64>) {
        out.extend([self.slots.len() as u64, self.before.len() as u64]);
        if !self.before.is_empty() {
            self.before.iter().for_each(|&(n, a)| {
                out.push(u64::from(n));
                a.key(out);
            });
            out.extend(self.open.iter().map(|&n| u64::from(n)));
        }
    }

    /// Everything that makes it differ from others of the same agent, as numbers.
    pub fn key(&self, out: &mut Vec<u64>) {
        self.outline(out);
        self.slots.iter().for_each(|&a| a.key(out));
    }
}
