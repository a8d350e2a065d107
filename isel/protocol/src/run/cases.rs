//! Cases of where a loop ends: assumed in front of everything, or where it first ends.
//!
//! ```text
//! in front    1 or 13 … iterations, 2 or 14 …, …           each case runs the first iterations again
//! late        ask ─ iteration ─ ask ─ iteration ─ ask …    they are the same in all cases; who wants the number waits
//!              └ 0               └ 1, 13 …         └ 2, 14 …
//! ```
//!
//! Late cases need one end alone, of loops of one trip-count class that is asked at every iteration until then: so the number of answers is that of iterations.
//! With the case, only those answers are kept that are still asked for: where the end may lie. What an agent cannot do without the number,
//! nobody else waits for while the first of those loops has not ended; if all wait, the case is assumed there.

use super::checker::{Checker, Late};
use super::code::{Code, What};
use super::progress::State;
use crate::state::analysis::Analysis;
use crate::value::Abs;
use tilelift_lane::visit::{computed, reads};
use tilelift_lane::{Inst, LVal};

/// The numbers of which cases are assumed, modulo what counts: none, or so many and any number of rounds more.
fn numbers(modulus: i64) -> impl Iterator<Item = Abs> + Clone {
    (0..=modulus).map(move |n| if n == 0 { Abs::All(0) } else { Abs::Count(n, modulus) })
}

impl State {
    /// A state per case that is assumed.
    pub(super) fn split(self, e: &Analysis) -> Vec<State> {
        let mut out = vec![self];
        for &v in &e.cases {
            out = numbers(e.modulus)
                .flat_map(|a| out.iter().map(move |s| (s, a)))
                .map(|(s, a)| {
                    let mut s = s.clone();
                    s.tasks.iter_mut().for_each(|t| t.env.insert(v, a));
                    s
                })
                .collect();
        }
        out
    }
}

impl<'a> Checker<'a> {
    /// Finds the end of which a case is assumed late, if there is one, and takes note of what waits for it.
    pub(super) fn find_late(&self, code: &mut Code<'a>, blocks: &[usize]) -> Option<Late> {
        let mut ends = self.analysis.cases.iter();
        let (Some(&end), None, 1) = (ends.next(), ends.next(), self.analysis.blocks) else { return None };
        let (mut class, mut plain) = (None, true);
        for &block in blocks {
            code.each_inside(block, &mut |op| match op.what {
                What::Compute(_) => {}
                What::Loop(n) => {
                    let l = code.counted_loop(n);
                    if l.l.hi == end {
                        let own = self.trips(l.l).class;
                        plain &= *class.get_or_insert(own) == own;
                    }
                    let next = l.carried.iter().map(|c| c.0.next);
                    plain &= [l.l.lo, l.l.step].into_iter().chain(next).all(|v| v != end);
                }
                _ => code.own_reads(op, &mut |v| plain &= v != end),
            });
        }
        for group in code.groups_mut() {
            group.asks = group.insts.iter().any(|inst| self.wants(inst, end));
        }
        for l in code.loops_mut() {
            l.asks = l.carried.iter().any(|c| c.0.init == end);
        }
        class.filter(|_| plain).map(|class| Late { end, class })
    }

    /// True if an instruction makes what matters of a number. A comparison that stands for a loop's first answer is asked as the loop is.
    fn wants(&self, inst: &Inst, end: LVal) -> bool {
        let mut asked = false;
        reads(inst, &mut |v| asked |= v == end);
        asked && !computed(inst).unwrap_or_default().iter().all(|v| self.less.contains_key(v))
    }

    /// True if it is known how many iterations have been asked for since the first one: what has been answered and not been read is less than a round.
    pub(super) fn may_wait(&self, s: &State, late: Late) -> bool {
        s.answers[late.class].len() < self.analysis.modulus as usize
    }

    /// The loop whose end is undecided goes round again.
    pub(super) fn goes_round(&self, s: &mut State, late: Late) {
        s.answers[late.class].push_back(true);
        // Of more than two rounds it does not matter how many they are.
        let most = 2 * self.analysis.modulus as usize;
        s.undecided = s.undecided.map(|n| if n < most { n + 1 } else { n + 1 - self.analysis.modulus as usize });
    }

    /// The loop whose end is undecided ends here, where its answer is asked for.
    pub(super) fn ends_here(&self, s: &mut State, late: Late) {
        let Some(asked) = s.undecided else { return };
        self.decide(s, late, self.analysis.counted(Abs::All(asked as i64)));
        // That none is begun is known by the number.
        if asked > 0 {
            s.answers[late.class].push_back(false);
        }
    }

    /// A state per case that may still be assumed.
    pub(super) fn cases_of(&self, s: &State, late: Late) -> Vec<State> {
        let begun = s.undecided != Some(0);
        let may_be = numbers(self.analysis.modulus).filter(|&n| !begun || n != Abs::All(0));
        let case = |n: Abs| {
            let mut s = s.clone();
            self.decide(&mut s, late, n);
            s
        };
        may_be.map(case).collect()
    }

    /// Assumes the number of iterations. From now on an answer is asked for where the loop may end, so the others go.
    fn decide(&self, s: &mut State, late: Late, number: Abs) {
        let asked = s.undecided.take().unwrap_or(0);
        let list = &mut s.answers[late.class];
        // The index at which each answer was asked for.
        let first = asked - list.len().min(asked);
        let stays = |at: usize| match number {
            Abs::Count(n, m) => first + at > 0 && (first + at) as i64 % m == n % m,
            _ => false,
        };
        let kept = |upto: usize| (0..upto).filter(|&at| stays(at)).count();
        s.tasks.iter_mut().for_each(|t| {
            t.read[late.class] = kept(t.read[late.class]);
            t.env.insert(late.end, number);
        });
        let n = kept(list.len());
        list.clear();
        list.extend(std::iter::repeat_n(true, n));
    }
}
