//! Counters and rings of a program, and what rotating them does to mbarriers, regions and facts.

use crate::state::keys::RANK;
use crate::state::knowledge::{Moved, Places};
use crate::value::Abs;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use tilelift_lane::LVal;
use tilelift_lane::hash::Map;

/// What a value has to do with a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CounterRelation {
    /// It is the counter plus what is no counter; it is at least so much wherever the counter is at least one.
    Counter { least: i64 },
    /// It is the counter `root` modulo a number of slots, times a stride, plus what is no counter.
    Slot { root: LVal, slots: i64, stride: i64 },
    /// It is how often `root` has gone round, plus what is no counter; its lowest bit matters.
    Round { root: LVal, slots: i64 },
    /// It depends on a counter in another way.
    Other,
}

/// A value that depends on a counter: which of the carried ones, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind {
    pub(crate) origin: usize,
    pub(crate) what: CounterRelation,
}

/// Memory in slots: an allocation is one ring, or several of equal size behind one another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ring {
    pub(crate) slots: i64,
    pub(crate) stride: i64,
    /// A counter that leads to it; then the class of all that do.
    pub(crate) class: usize,
}

/// A role's part in it.
#[derive(Default)]
pub(crate) struct RolePart {
    /// The first instruction behind the loops that carry counters, by its number among those that matter.
    pub(crate) inside: usize,
    /// What each slot of the environment holds.
    pub(crate) kinds: Vec<Option<(LVal, Kind)>>,
    /// The slots that hold counters, with their origins, and what these are at least.
    pub(crate) counters: Vec<(usize, usize, i64)>,
}

/// An address that leads to a slot: by which counter, and where the allocation begins.
#[derive(Clone, Copy)]
pub(crate) struct Lead {
    pub(crate) root: LVal,
    pub(crate) slots: i64,
    pub(crate) stride: i64,
    pub(crate) start: i64,
}

/// Counters and rings of a program.
pub(crate) struct Rotation {
    /// By value.
    pub(crate) leads: Vec<Option<Lead>>,
    /// From where to where each lies.
    pub(crate) rings: Vec<(Range<i64>, Ring)>,
    /// The class of each carried counter.
    pub(crate) classes: Vec<usize>,
    /// By role.
    pub(crate) parts: Vec<RolePart>,
    pub(crate) known: KnownShifts,
    /// Something was touched that lies across slots.
    pub(crate) uneven: Cell<bool>,
}

impl Rotation {
    /// True if it was found to be wrong: states that it takes for one may differ.
    pub fn is_uneven(&self) -> bool {
        self.uneven.get()
    }

    /// The ring of an address, and where in the allocation it is.
    pub(crate) fn ring(&self, at: i64) -> Option<(Ring, i64, i64)> {
        let (place, ring) = self.rings.iter().find(|x| x.0.contains(&at))?;
        Some((*ring, place.start, at - place.start))
    }
}

/// The slot at which a counter stands.
pub(crate) fn slot(counter: Option<Abs>, slots: i64) -> Option<i64> {
    match counter {
        Some(Abs::Count(v, m)) if m % slots == 0 => Some(v % slots),
        Some(Abs::All(v)) if v >= 0 => Some(v % slots),
        _ => None,
    }
}

/// By how much the counters of each class are rotated.
pub(crate) type By = SmallVec<[i64; 4]>;

/// What a rotation does to mbarriers, regions and facts, by number.
pub(crate) struct Shift {
    pub moved: Moved,
    /// Which mbarrier comes to stand at a number, and whether its phases change from even to odd.
    pub mbarriers: Vec<(usize, bool)>,
    /// Which region does.
    pub regions: Vec<usize>,
    /// Addresses of regions before and behind it: by how much they are moved.
    pub shifts: Vec<i64>,
}

/// How a state is rotated.
pub(crate) struct Rotated {
    pub(crate) by: By,
    /// Classes that can't be rotated yet.
    pub(crate) stays: SmallVec<[bool; 8]>,
    pub(crate) shift: Rc<Shift>,
}

/// What has been found out about rotations.
#[derive(Default)]
pub(crate) struct KnownShifts(RefCell<Map<By, Rc<Shift>>>);

impl Rotation {
    /// Where an address comes to lie.
    pub(crate) fn moves(&self, at: i64, by: &By) -> i64 {
        let low = at & ((1 << RANK) - 1);
        let Some((r, start, off)) = self.ring(low) else { return at };
        let all = r.slots * r.stride;
        let first = off / all * all;
        at - low + start + first + (off - first + by[r.class] * r.stride).rem_euclid(all)
    }

    /// True if a slot comes to one that is a round further, or three, …
    pub(crate) fn flips(&self, at: i64, by: &By) -> bool {
        let Some((r, _, off)) = self.ring(at & ((1 << RANK) - 1)) else { return false };
        let j = off % (r.slots * r.stride) / r.stride;
        (j + by[r.class]).div_euclid(r.slots) & 1 == 1
    }

    /// What a rotation by so much does.
    pub(crate) fn shift(&self, p: &Places, by: &By) -> Option<Rc<Shift>> {
        if let Some(known) = self.known.0.borrow().get(by).filter(|t| p.is_current(&t.moved)) {
            return Some(known.clone());
        }
        let moved = p.moved(&|at| self.moves(at, by))?;
        let mut mbarriers: Vec<(usize, bool)> = (0..moved.mbarriers.len()).map(|w| (w, false)).collect();
        let mut regions: Vec<usize> = (0..moved.regions.len()).collect();
        let mut shifts = vec![0; moved.regions.len()];
        p.each_mbarrier(|w, at| mbarriers[moved.mbarriers[w]] = (w, self.flips(at, by)));
        moved.regions.iter().enumerate().for_each(|(r, &there)| regions[there] = r);
        p.distances(&moved, &mut shifts);
        let shift = Rc::new(Shift { moved, mbarriers, regions, shifts });
        self.known.0.borrow_mut().insert(by.clone(), shift.clone());
        Some(shift)
    }
}
