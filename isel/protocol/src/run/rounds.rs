//! Rounds of a loop whose end is assumed: what is the same in all cases is followed in one of them.
//!
//! ```text
//! case 5   … ask ── 12 iterations ── ask …      the state behind a round is the one in front of it
//! case 7   … ask ── 12 iterations ── ask …      nobody looked at where the loop ends: the same without running it
//! ```
//!
//! Of the end of a loop a case is assumed, modulo what counts (`cases`), and its agents ask whether there is more only where that end may lie. In between only one
//! thing depends on the case: how far it is to there. If two states are equal but for the assumed ends, and the indices that count up to them, as
//! far from them, and if all that moves moves inside the loop, whose body reads neither, then one does what the other does. So if one of them came to itself
//! behind a round, so does the other, and that need not be followed. What follows if the loop ends depends on the case, and is.
//!
//! Of a state of which more is known than of one that came back a round may leave no more than of that. It is taken to know no more from the beginning: so there is one
//! state to follow where there would be two. That may be too little for a proof; then all is followed without this.

use super::checker::Checker;
use super::code::{Code, Loop, What};
use super::progress::{End, Frame, State, Task, place};
use super::seen::{Key, Known, Seen};
use crate::env::Env;
use crate::eval::eval;
use crate::state::facts::known_of;
use crate::value::Abs;
use smallvec::SmallVec;
use tilelift_lane::hash::Map;
use tilelift_lane::visit::reads;
use tilelift_lane::{Inst, LVal, Unit};

/// Agents, true for those that are inside a loop that is the same in all cases.
pub(super) type Inside = SmallVec<[bool; 32]>;

/// A state that goes on with another round.
pub(super) struct Round {
    /// What stands for it in all cases.
    of_all: Key,
    /// The state itself.
    start: Key,
    /// The trip-count class that was asked about.
    class: usize,
    pub inside: Inside,
}

/// How a state goes on if its loop does.
pub(super) enum Ahead {
    /// It comes back to itself; true if it has forgotten for that what no such state knows for ever, so that it is another one than was seen.
    Back(bool),
    /// As is found out by following it. If it comes back, what else does is known.
    Open(Option<Box<Round>>),
}

/// Rounds that were seen to come back to where they began: of each what is known there for ever.
#[derive(Default)]
pub(super) struct Rounds(Map<Box<[u8]>, Vec<Known>>);

impl Rounds {
    /// A round has been followed to where it is asked about a class again, and nobody was about who was not inside; the state there is the one whose key was
    /// written last.
    pub(super) fn close(&mut self, round: Round, class: usize, seen: &Seen) {
        if round.class == class && seen.is_at(&round.start) {
            self.0.entry(round.of_all.numbers).or_default().push(round.of_all.known);
        }
    }

    /// What is known for ever in a state that comes back, if a state is such a one.
    fn find(&self, of_all: &Key) -> Option<&[(u64, u64)]> {
        let known = self.0.get(&of_all.numbers)?.iter().find(|known| known_of(known, &of_all.known))?;
        Some(known)
    }
}

impl<'a> Checker<'a> {
    /// Takes note of the loops whose bodies are the same in all cases.
    pub(super) fn look_for_rounds(&self, code: &mut Code<'a>) {
        let roles = 0..self.program.roles().map_or(0, |r| r.roles.len());
        let Some(most) = roles.max_by_key(|&r| self.homes.of_role(r)) else { return };
        let mut env = self.knowing().part(most, &|a| a);
        let found: Vec<bool> = code.loops_mut().iter().map(|l| l.l).map(|l| self.analysis.splits(l.hi)).collect();
        let same: Vec<bool> = found.iter().enumerate().map(|(n, &splits)| splits && self.is_same(code, n, &mut env)).collect();
        code.loops_mut().iter_mut().zip(same).for_each(|(l, same)| l.same_in_all_cases = same);
    }

    /// True if the body of a loop, whose end is assumed, does not depend on that, nor on its index but by what is the same in all iterations that are counted.
    fn is_same(&self, code: &Code<'a>, n: usize, env: &mut Env) -> bool {
        let l = code.counted_loop(n);
        let differs = |v: LVal| v == l.l.iv || self.analysis.splits(v);
        // What is made of the index: asks whether it is the first one, as a rule.
        let counted = (1..=self.analysis.modulus).map(|v| Abs::Count(v, self.analysis.modulus));
        let counted: Vec<Abs> = counted.collect();
        let mut fixed = |inst: &Inst| {
            let mut all = counted.iter().map(|&a| {
                env.insert(l.l.iv, a);
                eval(inst, |v| self.program.vals[v], env, &self.lists).map(|made| made.1)
            });
            let first = all.next().flatten();
            matches!(first, Some(Abs::All(_))) && all.all(|a| a == first)
        };
        let mut same = true;
        code.each_inside(l.body, &mut |op| {
            if let What::Compute(group) = op.what {
                for inst in &code.group(group).insts {
                    let mut reads_it = false;
                    reads(inst, &mut |v| reads_it |= differs(v));
                    same &= !reads_it || fixed(inst);
                }
            } else {
                code.own_reads(op, &mut |v| same &= !differs(v));
            }
        });
        same && l.carried.iter().all(|c| !differs(c.0.next)) && self.homes.slot(l.l.iv).is_some()
    }
}

/// What stands in all cases for what an agent knows.
enum Instead {
    /// That, but for the slots of indices, in whose place stands how far they are from their ends. It is inside such a loop if there are any.
    But(SmallVec<[(usize, Abs); 2]>),
    /// Nothing: it waits for an mbarrier that stays where it is, and a parity; or for its warps; or for an answer, where only answers count.
    Waiting(Option<[u64; 2]>),
}

impl<'a> Checker<'a> {
    /// The loops that an agent is in, and that are the same in all cases.
    fn loops_of<'s>(&'s self, task: &'s Task) -> impl Iterator<Item = &'s Loop<'a>> {
        let counted = |f: &Frame| match f.end {
            End::Iteration(n, _) => Some(self.code.counted_loop(n)).filter(|l| l.same_in_all_cases),
            End::Done | End::Choice(..) | End::Either(..) | End::Leave => None,
        };
        task.frames.iter().filter_map(counted)
    }

    /// What stands for what an agent knows; `None` if more depends on the case.
    fn in_all_cases(&self, s: &State, t: usize) -> Option<Instead> {
        let task = &s.tasks[t];
        let mut out = SmallVec::new();
        for l in self.loops_of(task) {
            match (task.env.get(&l.l.iv), task.env.get(&l.l.hi)) {
                (Some(Abs::Count(v, m)), Some(Abs::Count(h, k))) if m == k => {
                    out.push((self.homes.slot(l.l.iv)?, Abs::Count((v - h).rem_euclid(m), m)));
                }
                _ => return None,
            }
        }
        let waits = if out.is_empty() { self.waiting(s, t) } else { None };
        Some(waits.unwrap_or(Instead::But(out)))
    }

    /// An agent that waits, and how long does not depend on counters.
    fn waiting(&self, s: &State, t: usize) -> Option<Instead> {
        let task = &s.tasks[t];
        let frame = task.frames.last()?;
        let Some(op) = self.code.ops(frame.block).get(frame.at) else {
            let End::Iteration(n, _) = frame.end else { return None };
            return self.asks(s, t, n, false).then_some(Instead::Waiting(None));
        };
        match &op.what {
            &What::Loop(n) => self.asks(s, t, n, true).then_some(Instead::Waiting(None)),
            What::Unit(Unit::Wait { barrier, parity }) => {
                let at = place(&task.env, barrier)?;
                let stays = self.rotation.as_ref().is_some_and(|r| r.ring(at).is_none());
                let Some(Abs::All(parity)) = task.env.get(parity) else { return None };
                stays.then_some(Instead::Waiting(Some([at as u64, parity as u64])))
            }
            What::Unit(Unit::NamedBarrier { .. } | Unit::Turn { .. }) | What::Barrier => task.joined.map(|_| Instead::Waiting(None)),
            _ => None,
        }
    }

    /// How a state goes on if the loop does that is asked about; its key was written last.
    pub(super) fn ahead(&self, s: &mut State, class: usize, seen: &mut Seen, rounds: &Rounds) -> Ahead {
        let asked = |(t, task)| self.loops_of(task).any(|l| self.trip_class(t, l.l) == class);
        if self.rotation.is_none() || !s.tasks.iter().enumerate().any(asked) {
            return Ahead::Open(None);
        }
        let known: Option<Vec<Instead>> = (0..s.tasks.len()).map(|t| self.in_all_cases(s, t)).collect();
        let Some(known) = known else { return Ahead::Open(None) };
        let start = seen.last();
        // Until the key is written.
        let mut kept: SmallVec<[(usize, Env); 8]> = SmallVec::new();
        let mut waits: SmallVec<[u64; 8]> = SmallVec::new();
        for (t, (task, known)) in s.tasks.iter_mut().zip(&known).enumerate() {
            match known {
                // Whoever is in no such loop may have been asked where one ends.
                Instead::But(slots) if slots.is_empty() => {}
                Instead::But(slots) => {
                    kept.push((t, task.env.clone()));
                    slots.iter().for_each(|&(slot, a)| task.env.put(slot, a));
                    self.analysis.cases.iter().for_each(|&end| task.env.insert(end, Abs::Any));
                }
                Instead::Waiting(for_what) => {
                    waits.extend(for_what.iter().flatten().copied());
                    kept.push((t, std::mem::replace(&mut task.env, self.knowing())));
                }
            }
        }
        let rotated = self.write_key(s, &waits, seen);
        kept.into_iter().for_each(|(t, env)| s.tasks[t].env = env);
        let of_all = seen.last();
        if let Some(known) = rounds.find(&of_all) {
            let forgot = self.forget_but(s, rotated.as_ref(), known);
            self.shortened.set(true);
            return Ahead::Back(forgot);
        }
        let inside = known.iter().map(|known| matches!(known, Instead::But(slots) if !slots.is_empty())).collect();
        Ahead::Open(Some(Box::new(Round { of_all, start, class, inside })))
    }
}
