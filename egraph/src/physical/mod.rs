//! The optimizer's physical stage: equality saturation chooses a register layout for every tile value, and where it is converted.
//!
//! ```text
//! Problem ── saturate ─► LayoutGraph ── forest ─►   LayoutForest ── extract ─► LayoutChoice ─► Solution
//! kernel, layouts of     classes `value @ layout`   dense, priced              cheapest        a list of layouts per value,
//! the plain assignment   and the ways to get there  by the machine             ways            how each is made
//! ```
//!
//! A class of the graph is a value in a layout. Its nodes are the ways to have it: run the instruction with operands in the layouts
//! that this needs, convert it from another layout, or find it there (what control carries). Candidates come from anchors alone, and
//! spread by the table in [`rules`]: a conversion that moves past an op is the op run in the other layout, a conversion that is
//! replaced by computing again is a second way to run it. Conversions stand where their value is made, so one of a value from outside
//! a loop stands outside.
//!
//! What runs exactly once and ties several values (loops and choices) is not a node: its layouts are chosen jointly, each candidate
//! by the cost of the whole program. The module knows tiles and layouts; what anything costs is asked of a [`CostModel`].

mod explain;
mod extract;
mod forest;
mod graph;
mod pressure;
mod problem;
pub mod rules;
mod saturate;

#[cfg(test)]
mod tests;

pub use explain::print;
pub use problem::{CostModel, InstLayouts, Layouts, Limits, Problem, Solution, Source, Variant};

/// Prices are not more exact than this part: what turns out dearer by less is not searched for again, and what is cheaper by less than the
/// plain assignment is not taken.
const SLACK: u64 = 64;

/// Chooses layouts. `None` if no way through the program is found; the plain assignment is the answer then.
pub fn solve(problem: &Problem<'_>, model: &dyn CostModel, limits: &Limits) -> Option<Solution> {
    // Where the plain layouts alone are more than the graph may have, nothing would spread.
    if problem.base.values().filter(|l| l.is_some()).count() > limits.nodes {
        return None;
    }
    let (graph, stop) = saturate::saturate(problem, model, limits);
    let mut forest = forest::LayoutForest::new(&graph, problem, model);
    if let Some(seed) = limits.chaos {
        forest.shuffle(seed);
    }
    let corrections = if limits.chaos.is_some() { 0 } else { limits.corrections };
    if corrections > 0
        && let Some(plain) = extract::plain(&forest)
    {
        forest.correct(&graph, problem, model, &plain);
    }
    let (mut choice, mut others) = extract::extract(&forest, problem, model, limits)?;
    for _ in 0..corrections {
        if !forest.correct(&graph, problem, model, &choice) {
            break;
        }
        // What is as good as before stays the best.
        let total = forest.total(&choice.controls, &choice.picks)?;
        if total <= choice.total.saturating_add(choice.total / SLACK) {
            choice.total = total;
            break;
        }
        (choice, others) = extract::extract(&forest, problem, model, limits)?;
    }
    // Nor is a program taken that is cheaper than the plain one by less.
    if corrections > 0
        && let Some(plain) = extract::plain(&forest)
        && plain.total <= choice.total.saturating_add(choice.total / SLACK)
    {
        choice = plain;
    }
    let found = forest.solution(&graph, &choice);
    debug_assert_eq!(forest.check(&choice), Ok(()));
    Some(Solution {
        cost: choice.total,
        plain: extract::plain(&forest).map(|c| c.total),
        size: [graph.total_number_of_nodes(), graph.number_of_classes()],
        stop: Some(stop),
        others,
        ..found
    })
}
