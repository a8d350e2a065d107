//! A sample of what the fuzz target `compile` tries without end.

use std::collections::BTreeMap;
use tilelift_fuzzgen::trial::Answer;
use tilelift_fuzzgen::{Source, any_level};

/// Off, by default, layouts searched and by chaos, on the simulators of both vendors.
#[test]
fn every_level_is_right_on_both_simulators() {
    let count = std::env::var("TILELIFT_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(48);
    let (mut equal, mut over) = (0, BTreeMap::<String, u64>::new());
    for seed in 0..count {
        match any_level(&mut Source::from_seed(seed ^ 0x1e7e15)) {
            Ok(Answer::Equal) => equal += 1,
            Ok(Answer::PassedOver(why)) => *over.entry(why).or_default() += 1,
            Ok(Answer::Failed(f)) | Err(f) => panic!("seed {seed}: {f}"),
        }
    }
    assert!(equal * 2 > count, "only {equal} of {count} kernels count; the others are passed over: {over:#?}");
}
