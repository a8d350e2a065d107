//! A sample of what `generated --loops` runs in thousands: products whose loops stand in loops and choices, and go where memory says, on the
//! interpreter as they are written and in the simulator, for a target with bulk copies and for one without.

use std::collections::BTreeMap;
use tilelift::targets;
use tilelift_fuzzgen::trial::{Answer, Axis, Judge};
use tilelift_fuzzgen::{Source, generate_loops};
use tilelift_tools::execute::DeviceKind;

/// Kernels that are tried; `TILELIFT_FUZZ=300` tries that many.
fn count() -> u64 {
    std::env::var("TILELIFT_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(120)
}

/// What the sample must have, of so many kernels at least.
const COVERED: &[(Axis, &str, u32)] = &[
    (Axis::Schedule, "specialised", 25),
    (Axis::Schedule, "pipelined", 20),
    (Axis::Walk, "looked up", 8),
    (Axis::Walk, "blocks of a list", 8),
    (Axis::Walk, "bounds from memory", 4),
    (Axis::Walk, "carried column", 6),
    (Axis::Walk, "looked up ahead", 4),
    (Axis::Walk, "chain", 4),
    (Axis::Walk, "row looked up", 12),
    (Axis::Nest, "guarded by a number", 6),
    (Axis::Nest, "guarded by memory", 6),
    (Axis::Nest, "two loops", 6),
    (Axis::Nest, "rounds that store", 5),
    (Axis::Nest, "rounds that carry", 4),
    (Axis::Body, "two products with a fold", 6),
    (Axis::Body, "product scaled", 6),
    (Axis::Body, "tiles summed beside", 4),
    (Axis::Body, "rows stored", 6),
    (Axis::Body, "atomic", 5),
];

#[test]
fn loops_compute_the_same_wherever_they_stand() {
    let judge = |kind, name| {
        let target = targets::by_name(name).unwrap_or_else(|| panic!("{name} is no target"));
        Judge::open_for(kind, target).unwrap_or_else(|e| panic!("{e}"))
    };
    let judges = [judge(DeviceKind::Sim, "sm_90a"), judge(DeviceKind::Interp, "sm_90a"), judge(DeviceKind::Sim, "sm_80")];
    let mut seen: BTreeMap<(Axis, String), u32> = BTreeMap::new();
    for seed in 0..count() {
        let trial = generate_loops(&mut Source::from_seed(seed)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        for (n, judge) in judges.iter().enumerate() {
            let mut t = trial.clone();
            match judge.judge(&mut t, seed) {
                Answer::Failed(f) => panic!("seed {seed}, {}: {f}\n; {}\n{}", judge.describe(), t.asked(), t.case.to_tile_text()),
                Answer::Equal if n == 0 => t.classes.iter().for_each(|(a, n)| *seen.entry((a, n.to_owned())).or_default() += 1),
                Answer::Equal | Answer::PassedOver(_) => {}
            }
        }
    }
    let short: Vec<String> = COVERED
        .iter()
        .filter_map(|&(axis, name, least)| {
            let n = seen.get(&(axis, name.to_owned())).copied().unwrap_or(0);
            (n < least).then(|| format!("{axis}, {name}: {n} of {least}"))
        })
        .collect();
    assert!(short.is_empty(), "the sample has too few of\n{}", short.join("\n"));
}
