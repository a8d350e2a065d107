//! Passes: which folds of a range share a loop, and how often a choice computes what stands in loops.
//!
//! ```text
//! pass F = 1 + the last pass of the folds over the same range whose last value the element of F needs
//! ```
//!
//! A state of a fold is no last value: it is made in the pass in which it is used, from what the fold is made of. What differs between
//! iterations is computed once for each pass that needs it, so a program that needs a sum of exponentials behind the maximum pays the
//! scores twice, and one that needs a state of the maximum pays them once.

use crate::cost::Pipe;
use crate::fault::{BadChoice, Broken};
use crate::forest::{Choice, Forest};
use crate::graph::Graph;
use crate::hash::{IndexMap, IndexSet};
use crate::language::Head;
use crate::skeleton::Skeleton;
use tilelift_ir::Value;

impl Forest {
    /// The cost of a choice, from scratch.
    pub(crate) fn total(&self, of: &[Option<u32>]) -> Option<u64> {
        let order = self.order(of, &self.roots)?;
        if self.ranges > 0 {
            return Some(passes(self, of, &order).total);
        }
        Some(order.iter().fold(0u64, |sum, &c| sum.saturating_add(of[c].map_or(0, |n| self.nodes[c][n as usize].cost))))
    }

    /// What a choice has each part of a machine do.
    pub(crate) fn work(&self, of: &[Option<u32>]) -> Option<[u64; Pipe::ALL.len()]> {
        let order = self.order(of, &self.roots)?;
        let mut work = [0u64; Pipe::ALL.len()];
        passes_with(self, of, &order, &mut |class, cost| {
            if let Some(n) = of[class] {
                let slot = &mut work[self.nodes[class][n as usize].pipe as usize];
                *slot = slot.saturating_add(cost);
            }
        });
        Some(work)
    }

    /// Checks a choice: every class that is needed has a candidate of its own, which can be computed as early as its class; no cycle; the
    /// stated cost.
    pub(crate) fn check(&self, choice: &Choice) -> Result<(), BadChoice> {
        for (class, c) in choice.of.iter().enumerate() {
            if let Some(candidate) = c.filter(|&c| c as usize >= self.nodes[class].len()) {
                return Err(BadChoice::Alien { class: self.ids[class], candidate });
            }
        }
        let order = self.order(&choice.of, &self.roots).ok_or(BadChoice::Circle)?;
        let real = passes(self, &choice.of, &order).total;
        let mut event = vec![0u32; self.ids.len()];
        for class in order {
            let c = self.chosen(choice, class).ok_or(BadChoice::Circle)?;
            event[class] = c.kids.iter().map(|&k| event[k]).fold(c.own, u32::max);
            if event[class] > self.avail[class] {
                return Err(BadChoice::Late { class: self.ids[class], event: event[class] });
            }
        }
        if real == choice.total { Ok(()) } else { Err(BadChoice::Cost { real, stated: choice.total }) }
    }
}

/// The passes of a choice.
pub(crate) struct Passes {
    /// The pass of each class that is a fold, from 1; 0 for others.
    pub(crate) of: Vec<u32>,
    /// The cost of what is needed.
    pub(crate) total: u64,
}

/// The passes and the cost of a choice, whose classes are given operands first.
pub(crate) fn passes(forest: &Forest, choice: &[Option<u32>], order: &[usize]) -> Passes {
    passes_with(forest, choice, order, &mut |_, _| {})
}

/// The same; says what each class costs.
fn passes_with(forest: &Forest, choice: &[Option<u32>], order: &[usize], costs: &mut dyn FnMut(usize, u64)) -> Passes {
    let (classes, ranges) = (forest.ids.len(), forest.ranges);
    let chosen = |class: usize| choice[class].map(|n| &forest.nodes[class][n as usize]);
    let mut of = vec![0u32; classes];
    // By class and range: the last pass whose result is needed.
    let mut last = vec![0u32; classes * ranges];
    let mut folds: Vec<(usize, usize)> = Vec::new();
    for &class in order {
        let Some(c) = chosen(class) else { continue };
        for &kid in &c.kids {
            for r in 0..ranges {
                last[class * ranges + r] = last[class * ranges + r].max(last[kid * ranges + r]);
            }
        }
        if let Head::Fold { range, .. } = c.node.head {
            let slot = &mut last[class * ranges + range as usize];
            *slot += 1;
            of[class] = *slot;
            folds.push((class, range as usize));
        }
    }
    // By class and range: a bit for each pass in which it is computed.
    let mut times = vec![0u32; classes * ranges];
    let mut work: Vec<usize> = Vec::new();
    for (class, range) in folds {
        let pass = 1u32 << of[class].min(31);
        work.extend(chosen(class).into_iter().flat_map(|c| &c.kids[4..]));
        while let Some(at) = work.pop() {
            let slot = &mut times[at * ranges + range];
            if forest.free[at] >> range & 1 == 1 && *slot & pass == 0 {
                *slot |= pass;
                work.extend(chosen(at).into_iter().flat_map(|c| &c.kids));
            }
        }
    }
    let cost = |class: usize| {
        let times = times[class * ranges..(class + 1) * ranges].iter().map(|t| u64::from(t.count_ones().max(1)));
        times.fold(chosen(class).map_or(0, |c| c.cost), u64::saturating_mul)
    };
    let total = order.iter().fold(0u64, |sum, &class| {
        let cost = cost(class);
        costs(class, cost);
        sum.saturating_add(cost)
    });
    Passes { of, total }
}

/// The folds of a choice.
#[derive(Default)]
pub(crate) struct Fused {
    /// The pass of each class that is a fold.
    pub(crate) pass: Vec<u32>,
    /// The folds over each range that are needed, operands first.
    pub(crate) folds: Vec<Vec<usize>>,
    /// The loop's result and parameter of the input, by class.
    pub(crate) names: IndexMap<usize, (Value, Value)>,
    /// Those whose loop is being made.
    pub(crate) open: IndexSet<usize>,
}

impl Fused {
    pub(crate) fn new(g: &Graph, s: &Skeleton, forest: &Forest, choice: &Choice, live: &[bool]) -> Result<Fused, Broken> {
        if forest.ranges == 0 {
            return Ok(Fused::default());
        }
        let roots: Vec<usize> = (0..live.len()).filter(|&c| live[c]).collect();
        let order = forest.order(&choice.of, &roots).ok_or(Broken::Cycle)?;
        let mut folds = vec![Vec::new(); forest.ranges];
        for &class in &order {
            if let Some(Head::Fold { range, .. }) = forest.chosen(choice, class).map(|c| c.node.head) {
                folds[range as usize].push(class);
            }
        }
        let mut names = IndexMap::default();
        for &(id, result, param) in &s.carried {
            names.entry(forest.at(g, id)).or_insert((result, param));
        }
        Ok(Fused { pass: passes(forest, &choice.of, &order).of, folds, names, open: IndexSet::default() })
    }
}
