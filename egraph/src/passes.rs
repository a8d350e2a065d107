//! Passes: which folds of a range share a loop, and how often a choice computes what stands in loops.
//!
//! ```text
//! pass F = 1 + the last pass of the folds over the same range whose last value the element of F needs
//! ```
//!
//! A state of a fold is no last value: it is made in the pass in which it is used, from what the fold is made of. What differs between
//! iterations is computed once for each pass that needs it, so a program that needs a sum of exponentials behind the maximum pays the
//! scores twice, and one that needs a state of the maximum pays them once.

use crate::extract::Forest;
use crate::language::Head;

/// The passes of a choice.
pub(crate) struct Passes {
    /// The pass of each class that is a fold, from 1; 0 for others.
    pub(crate) of: Vec<u32>,
    /// The cost of what is needed.
    pub(crate) total: u64,
}

/// The passes and the cost of a choice, whose classes are given operands first.
pub(crate) fn passes(forest: &Forest, choice: &[Option<u32>], order: &[usize]) -> Passes {
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
    let total = order.iter().fold(0u64, |sum, &class| sum.saturating_add(cost(class)));
    Passes { of, total }
}
