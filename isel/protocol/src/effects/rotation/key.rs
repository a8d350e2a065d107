//! A state as numbers that are the same for all states that rotations make of one another.

use super::super::super::env::Env;
use super::super::super::run::{Checker, Life, State};
use super::super::super::value::Abs;
use crate::state::rotation::{By, CounterRelation, Kind, Rotated};
use smallvec::SmallVec;

impl<'a> Checker<'a> {
    /// How a state is rotated to the one that stands for all, if it can be: a counter of each class stands at the end of a round.
    pub(in super::super::super) fn rotated(&self, s: &State) -> Option<Rotated> {
        let rotation = self.rotation.as_ref()?;
        let mut by: By = SmallVec::from_elem(0, rotation.classes.len());
        let mut stays: SmallVec<[bool; 8]> = SmallVec::from_elem(false, by.len());
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
            for &(slot, origin, least) in &part.counters {
                match task.env.at(slot) {
                    Abs::Any => {}
                    Abs::Count(at, m) if at >= least => {
                        let class = rotation.classes[origin];
                        if m > best[class] {
                            (best[class], by[class]) = (m, (-at).rem_euclid(m));
                        }
                    }
                    // In its first round it can't be rotated, and with it nothing of its class.
                    Abs::All(_) | Abs::Lanes(_) | Abs::Count(..) | Abs::Index(..) => {
                        stays[rotation.classes[origin]] = true;
                    }
                }
            }
        }
        by.iter_mut().zip(&stays).filter(|x| *x.1).for_each(|x| *x.0 = 0);
        let shift = rotation.shift(&self.places, &by)?;
        Some(Rotated { by, stays, shift })
    }

    /// What an agent knows, rotated; false if that can't be said in numbers.
    pub(in super::super::super) fn rotated_env(&self, t: usize, env: &Env, rotated: &Rotated, out: &mut Vec<u64>) -> bool {
        let Some(rotation) = &self.rotation else { return false };
        let agent = &self.agents[t];
        let kinds = if agent.whole { &[][..] } else { &rotation.parts[agent.role].kinds };
        let before = env.learnt().iter().all(|&(n, a)| a == Abs::Any || kinds.get(n as usize).is_none_or(Option::is_none));
        env.outline(out);
        let known = |(n, &a): (usize, &Abs)| match kinds.get(n).copied().flatten() {
            Some((_, kind)) => self.rotated_value(env, kind, a, rotated, out).is_some(),
            None => {
                a.key(out);
                true
            }
        };
        before && env.slots().iter().enumerate().all(known)
    }

    /// A value that depends on a counter: the counter rotated, and of what is made of it the part that a rotation leaves as it is.
    fn rotated_value(&self, env: &Env, kind: Kind, a: Abs, rotated: &Rotated, out: &mut Vec<u64>) -> Option<()> {
        let rotation = self.rotation.as_ref()?;
        let class = rotation.classes[kind.origin];
        if rotated.stays[class] {
            out.push(7);
            a.key(out);
            return Some(());
        }
        let by = rotated.by[class];
        let counted = |root, slots| match env.get(&root) {
            Some(Abs::Count(v, m)) if m % slots == 0 => Some(v),
            _ => None,
        };
        match (kind.what, a) {
            // Nothing that matters is made of it.
            (CounterRelation::Other, _) => {}
            (_, Abs::Any) => out.push(0),
            (CounterRelation::Counter { least }, Abs::Count(v, m)) if v >= least => {
                out.extend([1, (v + by).rem_euclid(m) as u64, m as u64])
            }
            (CounterRelation::Slot { root, slots, stride }, Abs::All(x)) => {
                out.extend([2, (x - counted(root, slots)? % slots * stride) as u64]);
            }
            (CounterRelation::Slot { root, slots, stride }, Abs::Lanes(l)) => {
                let j = counted(root, slots)? % slots;
                self.lists.plus(l, -j * stride).key(out);
            }
            (CounterRelation::Round { root, slots }, Abs::All(x)) => {
                out.extend([3, (x - counted(root, 2 * slots)? / slots).rem_euclid(2) as u64])
            }
            (CounterRelation::Round { root, slots }, Abs::Count(x, m)) => {
                out.extend([4, (x - counted(root, 2 * slots)? / slots).rem_euclid(2) as u64, m as u64]);
            }
            _ => return None,
        }
        Some(())
    }
}
