//! How much work fusion is grows with the graph, not with its square: what is known of a pair stays while other nodes are fused, and kernels are
//! lowered when they would be taken.

use super::operators::graph_of;
use super::*;
use tilelift::graph::{Effort, How};
use tilelift::isel::Target;
use tilelift_kernels::plain::{self, Operators};

fn drawn(name: &str, target: &Target) -> Operators {
    let entry = plain::ALL.iter().find(|e| e.name == name).expect("a graph of the list");
    let extents: Vec<u32> = entry.extents.iter().map(|e| e.usual).collect();
    (entry.draw)(&extents, target).expect("it is drawn")
}

fn fused(operators: &Operators, target: &Target) -> (usize, Effort, Fused) {
    let fused = graph_of(operators).fuse(target, &FuseOptions::default());
    (fused.graph.nodes().len(), fused.report.effort, fused)
}

#[test]
fn graphs_side_by_side_take_as_much_as_one_behind_the_other() {
    let target = targets::by_name("sm_90a").expect("a known target");
    let names = ["qkv", "norm_quantise", "cross_entropy", "state_update", "attention_sink"];
    let (mut nodes, mut sum, mut all) = (0, Effort::default(), Operators::default());
    for name in names {
        let operators = drawn(name, &target);
        let (n, effort, _) = fused(&operators, &target);
        (nodes, sum) = (nodes + n, Effort { made: sum.made + effort.made, lowered: sum.lowered + effort.lowered });
        all = all.and(operators);
    }
    let (n, effort, together) = fused(&all, &target);
    assert_eq!(n, nodes, "{}", together.report);
    assert!(sum.made > 50 && effort.made <= sum.made && effort.lowered <= sum.lowered, "{effort:?} together, {sum:?} one by one");
    let (n, twice, _) = fused(&all.clone().and(all), &target);
    assert_eq!((n, twice), (2 * nodes, Effort { made: 2 * effort.made, lowered: 2 * effort.lowered }));
}

#[test]
fn kernels_are_lowered_where_they_would_be_taken() {
    let target = targets::by_name("sm_90a").expect("a known target");
    for name in ["swiglu", "state_update", "sampling"] {
        let (_, effort, fused) = fused(&drawn(name, &target), &target);
        let taken = fused.report.decisions.iter().filter(|d| matches!(d.outcome, Outcome::Fused { .. })).count();
        let refused = |how: &Option<How>, why: &tilelift::graph::Refusal| how.is_some() && why.kind == RefusalKind::Target;
        let no = fused.report.decisions.iter().map(|d| match &d.outcome {
            Outcome::Refused(all) => all.iter().filter(|(how, why)| refused(how, why)).count(),
            Outcome::Fused { .. } => 0,
        });
        // Pairs that the target refused may be looked at again when a neighbour changed.
        assert!(effort.lowered <= taken + 3 * no.sum::<usize>(), "{name}: {effort:?}, {taken} taken\n{}", fused.report);
        assert!(effort.made > 2 * effort.lowered, "{name}: {effort:?}");
    }
}
