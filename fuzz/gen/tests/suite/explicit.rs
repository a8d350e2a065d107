//! Random kernels with explicit control: the interpreter, their text, what channels expand to. On lanes and in the simulator they run in `trials.rs`.

use tilelift_fuzzgen::oracle;
use tilelift_fuzzgen::{Case, Source, generate_explicit};
use tilelift_ir::channel::{Capabilities, check, expand};
use tilelift_ir::{Op, text};

fn cases(seeds: std::ops::Range<u64>) -> impl Iterator<Item = (u64, Case)> {
    seeds.map(|seed| (seed, generate_explicit(&mut Source::from_seed(seed)).unwrap_or_else(|e| panic!("seed {seed}: {e}"))))
}

#[test]
fn channels_and_their_expansions_compute_the_same() {
    let mut channels = 0;
    for (seed, case) in cases(0..150) {
        let want = oracle::reference(&case).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", text::print(&case.kernel)));
        oracle::text_round_trip(&case).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        channels += u32::from(case.kernel.insts.values().any(|d| d.op == Op::ChannelAlloc));
        check(&case.kernel).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", text::print(&case.kernel)));
        for units in [&Capabilities::ALL, &Capabilities::NONE] {
            let made = Case { kernel: expand(&case.kernel, units), ..case.clone() };
            let got = oracle::reference(&made).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", text::print(&made.kernel)));
            assert_eq!(case.difference(&want, &got), None, "seed {seed}\n{}", text::print(&made.kernel));
        }
    }
    assert!(channels > 30, "{channels} kernels have channels");
}
