//! What flows into each register: results of matrix instructions, what loops load, and what comes from a loop's iteration before.
//!
//! ```text
//! state        per register a set of origins, at the start of each block; blocks that come together unite them
//! a result     the origins of what is read, and its own; it takes the place of what was there, unless a guard may leave that
//! back edge    what the loop has computed comes from its iteration before
//! ```

use super::code::{Code, Kind, Reg, Step};
use super::graph::{Block, Loop};

/// Origins as bits: the matrix instructions, then four for each loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Set(Vec<u64>);

impl Set {
    pub fn none(bits: usize) -> Set {
        Set(vec![0; bits.div_ceil(64)])
    }
    pub fn has(&self, bit: usize) -> bool {
        self.0[bit / 64] >> (bit % 64) & 1 != 0
    }
    fn add(&mut self, bit: usize) {
        self.0[bit / 64] |= 1 << (bit % 64);
    }
    fn join(&mut self, other: &Set, meet: Meet) -> bool {
        let mut changed = false;
        for (x, &y) in self.0.iter_mut().zip(&other.0) {
            let now = if meet == Meet::Any { *x | y } else { *x & y };
            changed |= now != *x;
            *x = now;
        }
        changed
    }
}

/// Where a value comes from, within a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// Shared memory.
    Shared,
    /// Global memory.
    Global,
    /// The iteration before.
    Before,
    /// The same or an earlier iteration; it becomes `Before` on the way back.
    Computed,
}

/// Which ways count: any that leads to a place, or only what all ways have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meet {
    Any,
    Every,
}

/// Which text is read: of PTX every origin that there may be is wanted, of SASS only what is there for sure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Ptx,
    Sass,
}

/// A function whose registers are followed.
pub(super) struct Flow<'a> {
    pub code: &'a Code,
    pub blocks: &'a [Block],
    /// Loops that both texts have, in one order.
    pub loops: Vec<&'a Loop>,
    /// Matrix instructions.
    pub count: usize,
    pub side: Side,
}

impl Flow<'_> {
    /// The bit of an origin in a loop.
    pub fn bit(&self, at: usize, source: Source) -> usize {
        self.count + 4 * at + source as usize
    }

    fn bits(&self) -> usize {
        self.count + 4 * self.loops.len()
    }

    /// For each matrix instruction, the origins of what it reads: of each register of operand A, then of each of its sum.
    pub fn operands(&self, meet: Meet) -> Vec<(Vec<Set>, Vec<Set>)> {
        let registers = self.code.registers as usize;
        let mut at: Vec<Option<Vec<Set>>> = vec![None; self.blocks.len()];
        at[0] = Some(vec![Set::none(self.bits()); registers]);
        let (mut out, mut numbers) = (vec![(vec![], vec![]); self.count], vec![0; self.code.steps.len()]);
        self.code.multiplies().enumerate().for_each(|(n, (i, _))| numbers[i] = n);
        let mut open = vec![true; self.blocks.len()];
        while open.iter().any(|&o| o) {
            for (k, b) in self.blocks.iter().enumerate() {
                let Some(mut state) = at[k].clone().filter(|_| open[k]) else {
                    open[k] = false;
                    continue;
                };
                open[k] = false;
                for i in b.first..b.end {
                    let step = &self.code.steps[i];
                    if let Kind::Multiply(m) = &step.kind {
                        let sets = |rs: &[Reg]| rs.iter().map(|&r| state[r as usize].clone()).collect();
                        out[numbers[i]] = (sets(&m.a), sets(&m.c));
                    }
                    self.step(step, k, numbers[i], meet, &mut state);
                }
                for &to in &b.next {
                    let mut way = state.clone();
                    self.back(k, to, &mut way);
                    match &mut at[to] {
                        None => {
                            at[to] = Some(way);
                            open[to] = true;
                        }
                        Some(there) => {
                            let changed = there.iter_mut().zip(&way).fold(false, |any, (x, y)| x.join(y, meet) || any);
                            open[to] |= changed;
                        }
                    }
                }
            }
        }
        out
    }

    fn step(&self, step: &Step, block: usize, number: usize, meet: Meet, state: &mut [Set]) {
        let mut now = Set::none(self.bits());
        // Of what may drop a part of its operands, nothing is sure.
        if meet == Meet::Any || matches!(step.kind, Kind::Keeps | Kind::Copy) {
            step.reads.iter().for_each(|&r| {
                now.join(&state[r as usize], Meet::Any);
            });
        }
        for (n, _) in self.loops.iter().enumerate().filter(|(_, l)| l.holds[block]) {
            match step.kind {
                Kind::Shared => now.add(self.bit(n, Source::Shared)),
                Kind::Global => now.add(self.bit(n, Source::Global)),
                Kind::Compute | Kind::Copy | Kind::Keeps | Kind::Multiply(_) => {}
            }
            if self.side == Side::Ptx || step.kind != Kind::Copy {
                now.add(self.bit(n, Source::Computed));
            }
        }
        if let Kind::Multiply(m) = &step.kind {
            now.add(number);
            for (k, &r) in step.writes.iter().enumerate() {
                let mut own = now.clone();
                if let Some(&c) = m.c.get(k).filter(|_| meet == Meet::Any || !m.perhaps) {
                    own.join(&state[c as usize].clone(), Meet::Any);
                }
                state[r as usize] = own;
            }
            return;
        }
        for &r in &step.writes {
            if step.guarded {
                state[r as usize].join(&now, meet);
            } else {
                state[r as usize] = now.clone();
            }
        }
    }

    /// On the way back to a loop's head.
    fn back(&self, from: usize, to: usize, state: &mut [Set]) {
        for (n, l) in self.loops.iter().enumerate() {
            if l.head == to && l.holds[from] {
                let (computed, before) = (self.bit(n, Source::Computed), self.bit(n, Source::Before));
                state.iter_mut().filter(|s| s.has(computed)).for_each(|s| s.add(before));
            }
        }
    }
}
