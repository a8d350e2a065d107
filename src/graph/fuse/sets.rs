//! Sets of producers that may go into one sink: connected, of at most three, each of which disappears.
//!
//! Pairs are not enough: a step in between may cost more than what it starts from (softmax computed again at each tile of the product that
//! reads it), or make one of two operands (scales in front of a product), and only the whole gains. A set is priced when it is complete.

use super::report::{Refusal, RefusalKind};
use crate::graph::nodes::{Graph, Role, TensorId, uses};
use std::collections::{BTreeSet, VecDeque};
use tilelift_ir::ops::Rule;

/// Producers of a set, sets that are looked at for each sink, and kernels that are made for each node of the graph.
const MOST_PRODUCERS: usize = 3;
const MOST_SETS: usize = 32;
pub(super) const MOST_MADE: usize = 5;

/// Producers, by number and tensor in program order, and the node that reads them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Set {
    pub sink: usize,
    pub producers: Vec<(usize, TensorId)>,
}

/// The sets of a graph in which a producer does more than work on elements one by one, or that make several operands of a product; others are
/// pairs' affair.
pub(super) fn sets(graph: &Graph) -> Vec<Set> {
    (0..graph.nodes.len()).flat_map(|sink| of_sink(graph, sink)).collect()
}

fn of_sink(graph: &Graph, sink: usize) -> Vec<Set> {
    let mut found: BTreeSet<Vec<(usize, TensorId)>> = BTreeSet::new();
    // Smaller ones first.
    let mut grown: VecDeque<Vec<(usize, TensorId)>> = VecDeque::from([Vec::new()]);
    while let Some(set) = grown.pop_front() {
        let members = set.iter().map(|p| p.0).chain([sink]);
        for next in members.flat_map(|n| before(graph, n)) {
            let clash = set.iter().any(|p| p.0 == next.0 || p.1 == next.1);
            if clash || set.len() == MOST_PRODUCERS || found.len() == MOST_SETS {
                continue;
            }
            let mut more = set.clone();
            more.push(next);
            more.sort_unstable();
            if found.insert(more.clone()) {
                grown.push_back(more);
            }
        }
    }
    let sets = found.into_iter().map(|producers| Set { sink, producers });
    sets.filter(|set| set.producers.iter().any(|p| mixes(graph, p.0)) || operands(graph, set)).collect()
}

/// The last writers of what a node reads.
fn before(graph: &Graph, node: usize) -> Vec<(usize, TensorId)> {
    let read = graph.ids().filter(|&t| uses(&graph.nodes[node], t).reads);
    read.filter_map(|t| Some(((0..node).rev().find(|&p| uses(&graph.nodes[p], t).writes)?, t))).collect()
}

/// True if a node does more than work on elements one by one.
fn mixes(graph: &Graph, node: usize) -> bool {
    any(graph, node, |r| matches!(r, Rule::Dot | Rule::Reduce | Rule::ArgReduce | Rule::Scan | Rule::Control))
}

/// True if the producers of a set make operands of its sink, which multiplies, element by element. Each alone may cost more than it saves, as
/// lanes then compute one operand: two that are dequantised together make a product of integers.
pub(super) fn operands(graph: &Graph, set: &Set) -> bool {
    let makes = |&(p, t): &(usize, TensorId)| !mixes(graph, p) && uses(&graph.nodes[set.sink], t).reads;
    set.producers.len() > 1 && set.producers.iter().all(makes) && any(graph, set.sink, |r| r == Rule::Dot)
}

fn any(graph: &Graph, node: usize, wanted: impl Fn(Rule) -> bool) -> bool {
    let kernel = &graph.nodes[node].kernel;
    let mut all = false;
    kernel.walk(kernel.body, &mut |i| all |= wanted(kernel.insts[i].op.info().rule));
    all
}

/// Whether nobody needs the producers of a set once they are in its sink.
pub(super) fn closed(graph: &Graph, set: &Set) -> Result<(), Refusal> {
    let inside = |n: usize| n == set.sink || set.producers.iter().any(|p| p.0 == n);
    for &(p, t) in &set.producers {
        let node = &graph.nodes[p];
        for (id, _) in node.args.iter().filter_map(|a| a.tensor()).filter(|&(id, _)| uses(node, id).writes) {
            let tensor = &graph.tensors[id.index()];
            let reader = graph.nodes.iter().enumerate().find(|&(n, node)| n > p && !inside(n) && uses(node, id).reads);
            let why = match reader {
                Some((_, reader)) => format!("`{}` reads `{}`, too", reader.name, tensor.name),
                None if tensor.role != Role::Intermediate => format!("`{}` is looked at by the caller", tensor.name),
                None if id != t => format!("`{}` writes `{}`, too", node.name, tensor.name),
                None => continue,
            };
            return Err(Refusal::new(RefusalKind::Place, format!("`{}` would have to stay: {why}", node.name)));
        }
    }
    Ok(())
}
