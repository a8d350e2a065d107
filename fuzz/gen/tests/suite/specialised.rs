//! Random products in a loop whose columns begin anywhere: those that no bulk copies take travel in another way, and compute the same on the
//! interpreter, the lane interpreter and the simulator. Those of which the ring brings all are in `trials.rs`.

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
    let mut unaligned = 0;
    for (seed, case) in cases(0..count()) {
        let shown = || text::print(&case.kernel);
        let lowered = lower(&verify(&case.kernel).expect("verified"), &target, &LowerOptions::default());
        unaligned += match lowered.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", shown())).plan.schedule {
            // The consumers load one operand, and the ring brings the other one.
            Schedule::Specialised(s) if s.loads.len() < 2 => 1,
            Schedule::Pipelined { why } => {
                u64::from(matches!(&*why, NotSpecialised::Copy(c) if matches!(c.limit, CopyLimit::Start { .. })))
            }
            Schedule::Specialised(_) | Schedule::Explicit(_) => continue,
        };
        let want = oracle::reference(&case).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", shown()));
        let lane = oracle::lane(&case, &want, &target, &Default::default()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", shown()));
        let schedules = &oracle::schedules(seed)[..1];
        let sim = oracle::sim(&case, &want, &target, schedules).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", shown()));
        assert_eq!((lane, sim), (Verdict::Pass, Verdict::Pass), "seed {seed}\n{}", shown());
    }
    println!("columns of {unaligned} of {} kernels are not aligned", count());
    assert!(unaligned >= count() / 8, "{unaligned} of {} not aligned", count());
}
