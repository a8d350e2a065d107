//! Every oracle on fixed seeds.

use std::collections::BTreeMap;
use tilelift_fuzzgen::oracle::{self, Failure, Kind, Verdict};
use tilelift_fuzzgen::{Case, Config, Mode, Source, generate, generate_tiles, reduce, shrink, wider_forms};
use tilelift_isel::LowerOptions;
use tilelift_nvptx::{sm_80, sm_90a};

const CASES: u64 = 300;

fn case(seed: u64, cfg: &Config) -> Case {
    generate(&mut Source::from_seed(seed), cfg).unwrap_or_else(|e| panic!("seed {seed}: {e}"))
}

/// Judges cases of fixed seeds; panics with the text of the first that fails, and if fewer than a part of them get through.
fn all(first: u64, cfg: &Config, least: u64, judge: impl Fn(&Case) -> Result<Verdict, Failure>) {
    let mut passed = 0;
    let mut refused: BTreeMap<String, u64> = BTreeMap::new();
    for seed in first..first + CASES {
        let c = case(seed, cfg);
        match judge(&c) {
            Ok(Verdict::Pass) => passed += 1,
            Ok(Verdict::Refused(reason)) => *refused.entry(reason).or_default() += 1,
            Err(f) => panic!("seed {seed}: {f}\n{}", c.to_tile_text()),
        }
    }
    assert!(passed >= least, "only {passed} of {CASES} cases were tried; the others were refused: {refused:#?}");
}

#[test]
fn text_round_trips() {
    all(0, &Config::default(), CASES, oracle::text_round_trip);
}

fn lanes(first: u64, target: usize, cfg: &Config) {
    let target = &oracle::targets()[target];
    all(first, cfg, CASES / 2, |c| oracle::lane(c, &oracle::reference(c)?, target, &LowerOptions::default()));
}

#[test]
fn lane_programs_of_sm_80_are_right() {
    lanes(1000, 0, &Config::default());
}

#[test]
fn lane_programs_of_gfx942_are_right() {
    lanes(2000, 1, &Config::default());
}

/// Cases of the optimizer's tests; `TILELIFT_FUZZ_CASES` sets another number.
fn optimizer_cases() -> u64 {
    std::env::var("TILELIFT_FUZZ_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES)
}

#[test]
fn optimised_kernels_compute_the_same_bits() {
    for seed in 5000..5000 + optimizer_cases() {
        let c = case(seed, &Config::default());
        let want = oracle::reference(&c).unwrap_or_else(|f| panic!("seed {seed}: {f}"));
        for chaos in [None, Some(seed), Some(seed ^ 0x5555)] {
            if let Err(f) = oracle::optimised(&c, &want, chaos) {
                panic!("seed {seed}: {f}\n{}", c.to_tile_text());
            }
        }
    }
}

#[test]
fn optimised_kernels_with_functions_compute_the_same_bits() {
    for seed in 6000..6000 + optimizer_cases() {
        let c = case(seed, &Config::default().with_mode(Mode::Approx));
        let want = oracle::reference(&c).unwrap_or_else(|f| panic!("seed {seed}: {f}"));
        for chaos in [None, Some(seed)] {
            if let Err(f) = oracle::optimised(&c, &want, chaos) {
                panic!("seed {seed}: {f}\n{}", c.to_tile_text());
            }
        }
    }
}

#[test]
fn lane_programs_with_approximate_functions_are_near() {
    lanes(3000, 0, &Config::default().with_mode(Mode::Approx));
}

#[test]
fn results_do_not_depend_on_the_schedule() {
    let target = &oracle::targets()[0];
    for seed in 4000..4030 {
        let c = case(seed, &Config::default());
        let want = oracle::reference(&c).unwrap_or_else(|f| panic!("seed {seed}: {f}"));
        for warps in [1, 2, 4, 8] {
            let options = LowerOptions { warps: Some(warps), stages: Some(1 + warps.trailing_zeros()), ..LowerOptions::default() };
            if let Err(f) = oracle::lane(&c, &want, target, &options) {
                panic!("seed {seed}, {warps} warps: {f}\n{}", c.to_tile_text());
            }
        }
    }
}

fn texts(first: u64, cfg: &Config) {
    let target = &oracle::targets()[0];
    all(first, cfg, CASES / 2, |c| oracle::sim(c, &oracle::reference(c)?, target, &oracle::schedules(first)));
}

#[test]
fn ptx_texts_are_right() {
    texts(5000, &Config::default());
}

#[test]
fn ptx_texts_with_approximate_functions_are_near() {
    texts(6000, &Config::default().with_mode(Mode::Approx));
}

#[test]
fn the_same_bytes_make_the_same_case() {
    for seed in 0..50 {
        let mut src = Source::from_seed(seed);
        let first = generate(&mut src, &Config::default()).map_err(|e| e.to_string()).expect("a kernel");
        let again = generate(&mut Source::from_bytes(src.taken()), &Config::default()).map_err(|e| e.to_string()).expect("a kernel");
        assert_eq!(first, again, "seed {seed}");
    }
}

#[test]
fn any_bytes_make_a_case() {
    for len in 0..64u8 {
        let bytes: Vec<u8> = (0..len).map(|i| i.wrapping_mul(37) ^ len).collect();
        let c = generate(&mut Source::from_bytes(&bytes), &Config::small()).map_err(|e| e.to_string()).expect("a kernel");
        assert_eq!(oracle::text_round_trip(&c), Ok(Verdict::Pass));
    }
}

/// Shrinking and reducing must find the two instructions that matter in a large kernel: a "bug" of stores behind a `reduce`.
#[test]
fn reduction_keeps_what_matters() {
    let fails = |c: &Case| {
        let k = &c.kernel;
        let mut ops = Vec::new();
        k.walk(k.body, &mut |i| ops.push(k.insts[i].op));
        ops.contains(&tilelift_ir::Op::Reduce) && oracle::reference(c).is_ok()
    };
    let cfg = Config::default();
    let seed = (0..200).find(|&s| {
        let c = case(s, &cfg);
        fails(&c) && c.kernel.insts.len() > 60
    });
    let mut src = Source::from_seed(seed.expect("a large case with a reduction"));
    let large = generate(&mut src, &cfg).map_err(|e| e.to_string()).expect("a kernel");
    let (_, small) = shrink(src.taken(), &cfg, &fails).expect("the case fails");
    let small = reduce(&small, &fails);
    assert!(fails(&small));
    let mut count = 0;
    small.kernel.walk(small.kernel.body, &mut |_| count += 1);
    assert!(count <= 20, "{} instructions are left of {}:\n{}", count, large.kernel.insts.len(), small.to_tile_text());
}

#[test]
fn differences_are_found() {
    let c = case(7, &Config::default());
    let want = oracle::reference(&c).map_err(|f| f.to_string()).expect("it runs");
    assert_eq!(c.difference(&want, &want), None);
    // The outputs changed, and any changed byte of them is a difference.
    let mut got = want.clone();
    assert_ne!(c.memory(), want);
    let last = got.buffers.len() - 1;
    got.buffers[last].bytes_mut()[0] ^= 1;
    assert!(c.difference(&want, &got).is_some());
    assert!(matches!(oracle::reference(&Case { params: Vec::new(), ..c }), Err(f) if f.kind == Kind::Generator));
}

#[test]
fn misuse_of_the_builder_never_panics() {
    for seed in 0..3000 {
        oracle::any_builder_calls(&mut Source::from_seed(seed));
    }
}

/// Texts of cases with pieces cut out, doubled and swapped.
#[test]
fn broken_texts_never_panic() {
    for seed in 0..400 {
        let text = tilelift_ir::text::print(&case(seed % 40, &Config::small()).kernel);
        let mut src = Source::from_seed(seed);
        let mut words: Vec<&str> = text.split_inclusive([' ', ',', '\n', '<', '[', ':']).collect();
        for _ in 0..=src.below(6) {
            let (i, j) = (src.below(words.len() as u32) as usize, src.below(words.len() as u32) as usize);
            match src.below(4) {
                0 => words.swap(i, j),
                1 => words[i] = words[j],
                2 => words.insert(i, words[j]),
                _ => {
                    words.remove(i);
                    words.push(" ");
                }
            }
        }
        oracle::any_text(&words.concat());
    }
}

#[test]
fn instances_of_several_positions_compute_the_same_bits() {
    let (mut made, mut run) = (0, 0);
    for seed in 0..CASES / 2 {
        let case = generate_tiles(&mut Source::from_seed(seed)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let want = oracle::reference(&case).unwrap_or_else(|f| panic!("seed {seed}: {f}"));
        match wider_forms(&case, &want, &[sm_80(), sm_90a()]) {
            // The first three are the axes.
            Ok(verdicts) => {
                made += verdicts.iter().take(3).filter(|v| **v == Verdict::Pass).count();
                run += verdicts.iter().skip(3).filter(|v| **v == Verdict::Pass).count();
            }
            Err(f) => panic!("seed {seed}: {f}\n{}", case.to_tile_text()),
        }
    }
    assert!(made >= 100 && run >= 120, "{made} forms, {run} of them ran");
}
