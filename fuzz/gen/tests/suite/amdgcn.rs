//! A sample of what `generated --target gfx942` runs in thousands: kernels of any ops, products and loops as code objects in the simulator of
//! AMD's chips, against the interpreter.

use std::collections::BTreeMap;
use tilelift::targets;
use tilelift_fuzzgen::trial::{Answer, Judge};
use tilelift_fuzzgen::{Config, Source, Trial, generate_loops, generate_plain, generate_trial};
use tilelift_ir::BuildErrors;
use tilelift_tools::execute::DeviceKind;

const TARGETS: [&str; 3] = ["gfx942", "gfx90a", "gfx950"];

/// Seeds that are tried of each family, each for one target; `TILELIFT_FUZZ=300` tries that many.
fn count(usual: u64) -> u64 {
    std::env::var("TILELIFT_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Judges kernels; panics with the text of the first that fails, and if fewer than so many of a hundred get through.
fn all(seeds: u64, least: u64, make: impl Fn(&mut Source) -> Result<Trial, BuildErrors>) {
    let judges = TARGETS.map(|name| {
        let target = targets::by_name(name).unwrap_or_else(|| panic!("{name} is no target"));
        Judge::open_for(DeviceKind::Sim, target).unwrap_or_else(|e| panic!("{e}"))
    });
    let mut equal = 0;
    let mut over: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..seeds {
        let mut trial = make(&mut Source::from_seed(seed)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let judge = &judges[(seed % TARGETS.len() as u64) as usize];
        match judge.judge(&mut trial, seed) {
            Answer::Equal => equal += 1,
            Answer::PassedOver(why) => *over.entry(why).or_default() += 1,
            Answer::Failed(f) => panic!("seed {seed}, {}: {f}\n; {}\n{}", judge.describe(), trial.asked(), trial.case.to_tile_text()),
        }
    }
    assert!(equal * 100 >= least * seeds, "only {equal} of {seeds} kernels count; the others are passed over: {over:#?}");
}

#[test]
fn kernels_of_any_ops_are_right() {
    all(count(36), 60, |src| generate_plain(src, &Config::default()));
}

#[test]
fn loops_are_right() {
    all(count(36), 90, generate_loops);
}

#[test]
fn products_are_right() {
    all(count(24), 40, generate_trial);
}
