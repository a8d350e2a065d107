//! The scheduler: which warp runs next, and for how long.

use crate::config::{Policy, Rng};
use crate::state::cta::Cta;

/// Instructions a warp may run in one turn under run-until-blocked policies before others get a turn.
const LONG_TURN: u64 = 100_000;

/// Chooses who runs next.
pub(crate) struct Sched {
    policy: Policy,
    next: usize,
    /// Priorities of the PCT policy, by (CTA, warp) position; higher runs first.
    prio: Vec<u64>,
    /// Consecutive long turns given to the same warp.
    last: (usize, usize),
    turns: u32,
}

impl Sched {
    pub(crate) fn new(policy: Policy) -> Sched {
        Sched { policy, next: 0, prio: Vec::new(), last: (usize::MAX, 0), turns: 0 }
    }

    /// The set of CTAs changed.
    pub(crate) fn clear(&mut self) {
        self.prio.clear();
    }

    /// (CTA position, warp, instructions to run), or `None` when nobody can run.
    pub(crate) fn pick(&mut self, ctas: &[Cta], rng: &mut Rng, n: u32) -> Option<(usize, usize, u64)> {
        let n = n as usize;
        let total = ctas.len() * n;
        let at = |i: usize| (i / n, i % n);
        let ready = |i: usize| ctas[i / n].warps[i % n].runnable();
        // Round robin, used directly by some policies and for fairness by the others.
        let robin = |from: usize| (0..total).map(|k| (from + k) % total).find(|&i| ready(i));
        let (i, quantum) = match self.policy {
            Policy::Lockstep => (robin(self.next)?, 1),
            Policy::InOrder => ((0..total).find(|&i| ready(i))?, LONG_TURN),
            Policy::Reverse => ((0..total).rev().find(|&i| ready(i))?, LONG_TURN),
            Policy::Random => {
                let count = (0..total).filter(|&i| ready(i)).count();
                if count == 0 {
                    return None;
                }
                let k = rng.below(count as u64) as usize;
                let exp = rng.below(8);
                ((0..total).filter(|&i| ready(i)).nth(k)?, 1 + rng.below(1 << exp))
            }
            Policy::Pct(changes) => {
                if self.prio.len() != total {
                    self.prio = (0..total).map(|_| rng.next() | 1 << 63).collect();
                }
                let best = (0..total).filter(|&i| ready(i)).max_by_key(|&i| self.prio[i])?;
                // A turn is 64 instructions: `changes` demotions per 1024 turns on average.
                if rng.below(1024) < u64::from(changes) {
                    self.prio[best] = rng.next() >> 1;
                }
                (best, 64)
            }
            Policy::Starve(s) => {
                let poor = |i: usize| i % n == s as usize;
                match (0..total).map(|k| (self.next + k) % total).find(|&i| ready(i) && !poor(i)) {
                    Some(i) => (i, 64),
                    None => (robin(self.next)?, 64),
                }
            }
        };
        // Whoever has had very many turns in a row may be waiting for somebody else.
        let (mut i, mut quantum) = (i, quantum);
        self.turns = if self.last == at(i) { self.turns + 1 } else { 0 };
        if self.turns > 4 && quantum == LONG_TURN || self.turns > 4096 {
            i = robin(i + 1)?;
            quantum = 64;
            self.turns = 0;
        }
        self.last = at(i);
        self.next = i + 1;
        let (c, w) = at(i);
        Some((c, w, quantum))
    }
}
