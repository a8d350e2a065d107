//! A sample of what `fuzzgen --oracle graph` tries in thousands: graphs of kernels, fused exactly and as roundings allow.

use tilelift_fuzzgen::Source;
use tilelift_fuzzgen::graphs::{GraphAnswer, GraphOptions, GraphSummary, generate_graph, judge_graph};
use tilelift_oracle::in_parallel;

/// Rules and ways that the sample must have.
const COVERED: &[&str] = &[
    "fused: epilogue",
    "fused: prologue",
    "fused: same tile",
    "fused: inlined",
    "rule: tile-of-store",
    "rule: strip",
    "rule: loop",
    "rule: restep",
    "apart: Order",
    "apart: Grid",
    "apart: Place",
    "apart: Shape",
    "apart: Coverage",
    "apart: Hazard",
    "apart: Cost",
];

fn judged(seeds: &std::ops::Range<u64>) -> Vec<GraphAnswer> {
    let one = |seed: u64| {
        let case = generate_graph(&mut Source::from_seed(seed)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        judge_graph(&case, &GraphOptions::of(seed)).unwrap_or_else(|f| panic!("seed {seed}: {f}"))
    };
    seeds.clone().map(one).collect()
}

#[test]
fn fused_graphs_mean_what_their_kernels_do() {
    let count: u64 = std::env::var("TILELIFT_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(80);
    let parts: Vec<std::ops::Range<u64>> = (0..count).step_by(10).map(|n| n..(n + 10).min(count)).collect();
    let mut summary = GraphSummary::default();
    in_parallel(&parts, judged).into_iter().flatten().for_each(|a| summary.add(&a));
    println!("{summary}");
    for fewer in summary.fewer {
        assert!(2 * fewer >= summary.graphs, "fewer than half of the graphs have fewer kernels\n{summary}");
    }
    let [compared, unbounded] = summary.all.elements;
    assert!(compared > 20 * unbounded, "too many numbers have no bound\n{summary}");
    let missing: Vec<&&str> = COVERED.iter().filter(|w| !summary.all.ways.contains_key(**w)).collect();
    assert!(count < 80 || missing.is_empty(), "the sample lacks {missing:?}\n{summary}");
}
