//! Loads that are started ahead of the instructions that need them, as far as registers allow.

use super::order::{Inside, Loads, Order, PARAM, inside};
use crate::hash::Set;
use crate::inst::Inst;
use crate::value::LVal;
use crate::visit::results;
use cranelift_entity::EntityRef;
use std::collections::VecDeque;

/// How many instructions to come read each value, of those that are asked for.
#[derive(Default)]
struct Uses {
    /// One more than how many, by value; 0 for values that nobody asks for.
    counts: Vec<u32>,
    values: Vec<LVal>,
}

impl Uses {
    fn count(&mut self, v: LVal) -> &mut u32 {
        let n = v.index();
        if n >= self.counts.len() {
            self.counts.resize(n + 1, 0);
        }
        let count = &mut self.counts[n];
        if *count == 0 {
            *count = 1;
            self.values.push(v);
        }
        count
    }

    /// Somebody reads a value.
    fn add(&mut self, v: LVal) {
        *self.count(v) += 1;
    }

    fn has(&self, v: LVal) -> bool {
        self.counts.get(v.index()).is_some_and(|&n| n > 0)
    }

    /// One that reads a value is done; true if nobody else reads it.
    fn done(&mut self, v: LVal) -> bool {
        let Some(count) = self.counts.get_mut(v.index()).filter(|n| **n > 0) else { return false };
        *count = (*count - 1).max(1);
        *count == 1
    }
}

/// Loads that are started ahead of the instructions that need them.
pub(super) struct Ahead<'a> {
    loads: Loads<'a>,
    /// Loads to come, by first need.
    queue: VecDeque<usize>,
    /// How many instructions to come read each value from outside of them.
    uses: Uses,
    /// Registers in use.
    live: u32,
    /// What an instruction reads.
    read: Vec<LVal>,
}

impl<'a> Ahead<'a> {
    /// Those of a block, by the first need of its anchors; `beside` are values of outside that something else reads, too.
    pub fn new(order: &mut Order<'_>, anchors: &[usize], loads: Loads<'a>, beside: &Set<LVal>) -> Ahead<'a> {
        let mut uses = Uses::default();
        let mut read = Vec::new();
        for (k, inst) in order.block.iter().enumerate() {
            distinct(inst, inside(order.nested, k), &mut read);
            read.iter().for_each(|&v| uses.add(v));
        }
        // What something else reads, too, stays.
        beside.iter().for_each(|&v| uses.add(v));
        // What comes from outside is there from the start, and so is what instructions with blocks make for themselves.
        let own = |v: LVal| {
            let maker = order.makers.get(v);
            maker.block == order.n && maker.at != PARAM
        };
        let outside: u32 = uses.values.iter().filter(|&&v| !own(v)).map(|&v| (loads.words)(v)).sum();
        let live = outside + order.nested.iter().map(|(_, inside)| inside.words).sum::<u32>();
        let (mut taken, mut all) = (vec![false; order.block.len()], Vec::new());
        anchors.iter().for_each(|&root| order.take(root, &mut taken, &mut all));
        // Loads for those behind the block (a loop's next iteration, say) come last, but no later than they stood.
        (0..order.block.len()).for_each(|root| order.take(root, &mut taken, &mut all));
        let queue: VecDeque<usize> = all.into_iter().filter(|&k| matches!(order.block[k], Inst::LoadGlobal { .. })).collect();
        for &k in &queue {
            // Whoever is behind the block reads them there.
            for &v in order.block[k].results() {
                if !uses.has(v) {
                    uses.add(v);
                }
            }
        }
        Ahead { loads, queue, uses, live, read }
    }

    /// The next load that may be started in front of an instruction.
    pub fn next(&mut self, taken: &[bool], block: &[Inst], anchor: usize) -> Option<usize> {
        while let Some(&k) = self.queue.front() {
            if let (Inst::LoadGlobal { dsts, .. }, false) = (&block[k], taken[k]) {
                let size: u32 = dsts.iter().map(|&v| (self.loads.words)(v)).sum();
                if k > anchor || self.live + size > self.loads.room {
                    return None;
                }
                self.queue.pop_front();
                return Some(k);
            }
            self.queue.pop_front();
        }
        None
    }

    /// Counts registers behind an instruction.
    pub fn passed(&mut self, inst: &Inst, nested: Option<&Inside>) {
        let mut list = std::mem::take(&mut self.read);
        distinct(inst, nested, &mut list);
        for &v in &list {
            if self.uses.done(v) {
                self.live = self.live.saturating_sub((self.loads.words)(v));
            }
        }
        self.live = self.live.saturating_sub(nested.map_or(0, |inside| inside.words));
        list.clear();
        made(inst, &mut list);
        self.live += list.iter().filter(|&&v| self.uses.has(v)).map(|&v| (self.loads.words)(v)).sum::<u32>();
        self.read = list;
    }
}

impl Order<'_> {
    /// The order of all instructions; `anchors` do not move.
    pub(super) fn whole(mut self, anchors: &[usize], loads: Option<Loads<'_>>, beside: &Set<LVal>) -> Vec<usize> {
        let here = self.block.iter().any(|i| matches!(i, Inst::LoadGlobal { .. }));
        let mut ahead = loads.filter(|_| here).map(|l| Ahead::new(&mut self, anchors, l, beside));
        let (block, nested) = (self.block, self.nested);
        let mut order = Vec::with_capacity(block.len());
        let mut taken = vec![false; self.block.len()];
        let roots = anchors.iter().map(|&k| (k, true)).chain((0..self.block.len()).map(|k| (k, false)));
        for (root, anchor) in roots {
            let Some(ahead) = ahead.as_mut() else {
                self.take(root, &mut taken, &mut order);
                continue;
            };
            let mut passed = order.len();
            let mut pass = |ahead: &mut Ahead<'_>, order: &[usize]| {
                order[passed..].iter().for_each(|&k| ahead.passed(&block[k], inside(nested, k)));
                passed = order.len();
            };
            while let Some(load) = if anchor { ahead.next(&taken, block, root) } else { None } {
                self.take(load, &mut taken, &mut order);
                pass(ahead, &order);
            }
            self.take(root, &mut taken, &mut order);
            pass(ahead, &order);
        }
        order
    }
}

/// The values from outside that an instruction reads, each once.
fn distinct(inst: &Inst, nested: Option<&Inside>, out: &mut Vec<LVal>) {
    out.clear();
    match nested {
        Some(inside) => out.extend_from_slice(&inside.reads),
        None => inst.operands(|v, _| out.push(v)),
    }
    out.sort_unstable();
    out.dedup();
}

/// Appends the values that an instruction makes for those behind it.
fn made(inst: &Inst, out: &mut Vec<LVal>) {
    match inst.control() {
        None => out.extend_from_slice(inst.results()),
        Some(_) => out.extend(results(inst)),
    }
}
