//! Random products in a loop: the interpreter, the lane interpreter and the simulator agree, whichever way their tiles travel.

use tilelift_fuzzgen::oracle::{self, Verdict};
use tilelift_fuzzgen::{Case, Source, generate_specialised};
use tilelift_ir::{text, verify};
use tilelift_isel::reason::{CopyLimit, NotSpecialised};
use tilelift_isel::{LowerOptions, Schedule, lower};

fn cases(seeds: std::ops::Range<u64>) -> impl Iterator<Item = (u64, Case)> {
    seeds.map(|seed| (seed, generate_specialised(&mut Source::from_seed(seed)).unwrap_or_else(|e| panic!("seed {seed}: {e}"))))
}

/// `TILELIFT_FUZZ=300` tries that many kernels.
fn count() -> u64 {
    std::env::var("TILELIFT_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
}

#[test]
fn columns_anywhere_compute_the_same() {
    let target = tilelift_nvptx::sm_90a();
    let (mut specialised, mut bulk, mut unaligned) = (0, 0, 0);
    for (seed, case) in cases(0..count()) {
        let shown = || text::print(&case.kernel);
        let want = oracle::reference(&case).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", shown()));
        let lowered = lower(&verify(&case.kernel).expect("verified"), &target, &LowerOptions::default());
        match lowered.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", shown())).plan.schedule {
            Schedule::Specialised(s) => {
                specialised += 1;
                bulk += u64::from(!s.stores.is_empty());
            }
            Schedule::Pipelined { why } => {
                let begins = |why: &NotSpecialised| matches!(why, NotSpecialised::Copy(c) if matches!(c.limit, CopyLimit::Start { .. }));
                unaligned += u64::from(begins(&why));
            }
            Schedule::Explicit(_) => {}
        }
        let lane = oracle::lane(&case, &want, &target, &Default::default()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", shown()));
        let schedules = &oracle::schedules(seed)[..1];
        let sim = oracle::sim(&case, &want, &target, schedules).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", shown()));
        assert_eq!((lane, sim), (Verdict::Pass, Verdict::Pass), "seed {seed}\n{}", shown());
    }
    println!("{specialised} of {} kernels are specialised, {bulk} store in bulk, columns of {unaligned} are not aligned", count());
    for (n, part) in [(specialised, 8), (bulk, 20), (unaligned, 8)] {
        assert!(n >= count() / part, "{specialised} specialised, {bulk} store in bulk, {unaligned} not aligned");
    }
}
