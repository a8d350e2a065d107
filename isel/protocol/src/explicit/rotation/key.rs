//! A state as numbers that are the same for all states that turning makes of one another.

use super::super::super::env::Env;
use super::super::super::run::{Checker, Life, State};
use super::super::super::value::Abs;
use super::super::knowledge::{Moved, Places};
use super::super::mbarriers::RANK;
use super::{Kind, Rotation, What};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::Rc;
use tilelift_lane::hash::Map;

/// By how much the counters of each class are turned.
type By = SmallVec<[i64; 4]>;

/// What turning does to mbarriers, regions and facts, by number.
pub(in super::super) struct Turn {
    pub moved: Moved,
    /// Which mbarrier comes to stand at a number, and whether its phases change from even to odd.
    pub mbarriers: Vec<(usize, bool)>,
    /// Which region does.
    pub regions: Vec<usize>,
    /// Addresses of regions before and behind it: by how much they are moved.
    pub shifts: Vec<i64>,
}

/// How a state is turned.
pub(in super::super::super) struct Turned {
    by: By,
    pub(in super::super) turn: Rc<Turn>,
}

/// What has been found out about turning.
#[derive(Default)]
pub(super) struct Turns(RefCell<Map<By, Rc<Turn>>>);

impl Rotation {
    /// Where an address comes to lie.
    fn moves(&self, at: i64, by: &By) -> i64 {
        let low = at & ((1 << RANK) - 1);
        let Some((r, start, off)) = self.ring(low) else { return at };
        let all = r.slots * r.stride;
        let first = off / all * all;
        at - low + start + first + (off - first + by[r.class] * r.stride).rem_euclid(all)
    }

    /// True if a slot comes to one that is a round further, or three, …
    fn flips(&self, at: i64, by: &By) -> bool {
        let Some((r, _, off)) = self.ring(at & ((1 << RANK) - 1)) else { return false };
        let j = off % (r.slots * r.stride) / r.stride;
        (j + by[r.class]).div_euclid(r.slots) & 1 == 1
    }

    fn turn(&self, c: &Checker<'_>, by: &By) -> Option<Rc<Turn>> {
        let p: &Places = &c.places;
        if let Some(known) = self.turned.0.borrow().get(by).filter(|t| p.is_current(&t.moved)) {
            return Some(known.clone());
        }
        let moved = p.moved(&|at| self.moves(at, by))?;
        let mut mbarriers: Vec<(usize, bool)> = (0..moved.mbarriers.len()).map(|w| (w, false)).collect();
        let mut regions: Vec<usize> = (0..moved.regions.len()).collect();
        let mut shifts = vec![0; moved.regions.len()];
        p.each_word(|w, at| mbarriers[moved.mbarriers[w]] = (w, self.flips(at, by)));
        p.each_region(|r, at| {
            regions[moved.regions[r]] = r;
            shifts[r] = self.moves(at, by) - at;
        });
        let turn = Rc::new(Turn { moved, mbarriers, regions, shifts });
        self.turned.0.borrow_mut().insert(by.clone(), turn.clone());
        Some(turn)
    }
}

impl<'a> Checker<'a> {
    /// How a state is turned to the one that stands for all, if it can be: a counter of each class stands at the end of a round.
    pub(in super::super::super) fn turned(&self, s: &State<'a>) -> Option<Turned> {
        let rotation = self.rotation.as_ref()?;
        let mut by: By = SmallVec::from_elem(0, rotation.classes.len());
        // The counter of each class that is known best: the first one modulo most.
        let mut best: SmallVec<[i64; 8]> = SmallVec::from_elem(0, by.len());
        for (task, agent) in s.tasks.iter().zip(&self.agents).filter(|x| !x.1.whole) {
            let part = &rotation.parts[agent.role];
            if part.kinds.is_empty() {
                continue;
            }
            // Loops begin at a certain number, whatever the others' counters.
            if task.life == Life::Asleep || task.frames.first().is_some_and(|f| f.at < part.inside) {
                return None;
            }
            for (kind, &a) in part.kinds.iter().zip(task.env.slots()) {
                if let (Some((_, Kind { origin, what: What::Counter { .. } })), Abs::Count(at, m)) = (kind, a) {
                    let class = rotation.classes[*origin];
                    if m > best[class] {
                        (best[class], by[class]) = (m, (-at).rem_euclid(m));
                    }
                }
            }
        }
        let turn = rotation.turn(self, &by)?;
        Some(Turned { by, turn })
    }

    /// What an agent knows, turned; false if that can't be said in numbers.
    pub(in super::super::super) fn turned_env(&self, t: usize, env: &Env, turned: &Turned, out: &mut Vec<u64>) -> bool {
        let Some(rotation) = &self.rotation else { return false };
        let agent = &self.agents[t];
        let kinds = if agent.whole { &[][..] } else { &rotation.parts[agent.role].kinds };
        let before = env.learnt().iter().all(|&(n, a)| a == Abs::Any || kinds.get(n as usize).is_none_or(Option::is_none));
        env.outline(out);
        let known = |(n, &a): (usize, &Abs)| match kinds.get(n).copied().flatten() {
            Some((_, kind)) => self.turned_value(env, kind, a, turned, out).is_some(),
            None => {
                a.key(out);
                true
            }
        };
        before && env.slots().iter().enumerate().all(known)
    }

    /// A value that depends on a counter: the counter turned, and of what is made of it the part that turning leaves as it is.
    fn turned_value(&self, env: &Env, kind: Kind, a: Abs, turned: &Turned, out: &mut Vec<u64>) -> Option<()> {
        let rotation = self.rotation.as_ref()?;
        let by = turned.by[rotation.classes[kind.origin]];
        let counted = |root, slots| match env.get(&root) {
            Some(Abs::Count(v, m)) if m % slots == 0 => Some(v),
            _ => None,
        };
        match (kind.what, a) {
            // Nothing that matters is made of it.
            (What::Other, _) => {}
            (_, Abs::Any) => out.push(0),
            (What::Counter { least }, Abs::Count(v, m)) if v >= least => out.extend([1, (v + by).rem_euclid(m) as u64, m as u64]),
            (What::Slot { root, slots, stride }, Abs::All(x)) => {
                out.extend([2, (x - counted(root, slots)? % slots * stride) as u64]);
            }
            (What::Slot { root, slots, stride }, Abs::Lanes(l)) => {
                let j = counted(root, slots)? % slots;
                self.lists.plus(l, -j * stride).key(out);
            }
            (What::Round { root, slots }, Abs::All(x)) => out.extend([3, (x - counted(root, 2 * slots)? / slots).rem_euclid(2) as u64]),
            (What::Round { root, slots }, Abs::Count(x, m)) => {
                out.extend([4, (x - counted(root, 2 * slots)? / slots).rem_euclid(2) as u64, m as u64]);
            }
            _ => return None,
        }
        Some(())
    }
}
