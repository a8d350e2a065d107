//! A tensor-core GEMM: values, speed, counters, and planted faults.

use crate::common::gemm::{Faults, ptx, random_bf16, shared};
use crate::common::{f32s, module, schedules};
use tilelift_nvptx_sim::{Arg, ErrorKind, Init, Launch, Memory, Module, Report, SimConfig, SimError};

struct Problem {
    m: usize,
    n: usize,
    k: usize,
    tile: usize,
}

fn run(module: &Module, p: &Problem, config: SimConfig) -> Result<(Vec<f32>, Report), SimError> {
    let mut mem = Memory::new();
    let a = mem.alloc("A", Init::Bytes(random_bf16(p.m * p.k, 1).0));
    let b = mem.alloc("B", Init::Bytes(random_bf16(p.n * p.k, 2).0));
    let c = mem.alloc("C", Init::Uninit(p.m * p.n * 4));
    let l = Launch {
        entry: "k",
        grid: [(p.n / p.tile) as u32, (p.m / p.tile) as u32, 1],
        block: [128, 1, 1],
        shared_bytes: shared(p.tile, p.tile),
        args: &[Arg::U64(a), Arg::U64(b), Arg::U64(c), Arg::U32(p.n as u32), Arg::U32(p.k as u32)],
        config,
    };
    let r = module.launch(&l, &mut mem)?;
    Ok((f32s(mem.read(c, p.m * p.n * 4).expect("every element is written")), r))
}

fn reference(p: &Problem) -> Vec<f64> {
    let (a, b) = (random_bf16(p.m * p.k, 1).1, random_bf16(p.n * p.k, 2).1);
    let mut c = vec![0.0; p.m * p.n];
    for i in 0..p.m {
        for j in 0..p.n {
            c[i * p.n + j] = (0..p.k).map(|k| a[i * p.k + k] * b[j * p.k + k]).sum();
        }
    }
    c
}

const SMALL: Problem = Problem { m: 64, n: 64, k: 64, tile: 64 };
const DEEP: Problem = Problem { m: 64, n: 64, k: 192, tile: 64 };

#[test]
fn small_gemm_is_right_under_every_schedule() {
    let m = module(&ptx(64, 64, Faults::default()));
    for p in [SMALL, DEEP] {
        let want = reference(&p);
        for config in schedules() {
            let (got, _) = run(&m, &p, config).unwrap_or_else(|e| panic!("{e}"));
            // Products and sums of multiples of 1/4096 below 2^11: exact in f32.
            assert!(got.iter().zip(&want).all(|(g, w)| f64::from(*g) == *w));
        }
    }
}

#[test]
fn large_tiles_are_right_and_fast() {
    let m = module(&ptx(128, 128, Faults::default()));
    let p = Problem { m: 256, n: 256, k: 256, tile: 128 };
    let t = std::time::Instant::now();
    let (got, r) = run(&m, &p, SimConfig::default()).unwrap_or_else(|e| panic!("{e}"));
    let t = t.elapsed();
    let want = reference(&p);
    assert!(got.iter().zip(&want).all(|(g, w)| f64::from(*g) == *w));
    assert_eq!(r.count("mma.sync"), 4 * 4 * 16 * 32);
    assert_eq!(r.conflict_excess(), 0, "{r}");
    println!("{} warp instructions in {t:?}", r.instructions);
    assert!(t.as_secs_f64() < 5.0, "{t:?}");
}

#[test]
fn missing_swizzle_shows_in_the_counters() {
    let m = module(&ptx(64, 64, Faults { no_swizzle: true, ..Faults::default() }));
    let (got, r) = run(&m, &SMALL, SimConfig::default()).unwrap_or_else(|e| panic!("{e}"));
    assert!(got.iter().zip(reference(&SMALL)).all(|(g, w)| f64::from(*g) == w));
    let site = r.sites.iter().find(|s| s.text.starts_with("ldmatrix")).expect("ldmatrix is counted");
    assert_eq!(site.wavefronts, 8 * site.ideal_wavefronts, "rows 128 bytes apart share their banks");
    let copy = r.sites.iter().find(|s| s.text.contains("cp.async")).expect("copies are counted");
    assert_eq!(copy.efficiency(), 1.0);
}

fn fault(f: Faults, kind: ErrorKind, first: &str, second: &str) {
    let m = module(&ptx(64, 64, f));
    for config in schedules() {
        let (policy, landing) = (config.policy, config.landing);
        // A wrong store may first collide with another warp's: look at addresses alone.
        match run(&m, &DEEP, SimConfig { global_races: !f.store_off, ..config }) {
            Ok(_) => panic!("no fault under {policy:?} {landing:?}"),
            Err(e) => {
                assert_eq!(e.kind, kind, "{e}");
                let text = e.to_string();
                assert!(text.contains(first) && text.contains(second), "{text}");
            }
        }
    }
}

#[test]
fn planted_faults() {
    let d = Faults::default();
    fault(Faults { no_wait: true, ..d }, ErrorKind::Race, "ldmatrix", "cp.async");
    fault(Faults { weak_wait: true, ..d }, ErrorKind::Race, "ldmatrix", "cp.async");
    fault(Faults { no_bar_before: true, ..d }, ErrorKind::Race, "ldmatrix", "cp.async");
    fault(Faults { no_bar_after: true, ..d }, ErrorKind::Race, "ldmatrix", "cp.async");
    fault(Faults { store_off: true, ..d }, ErrorKind::OutOfBounds, "buffer `C`", "8 bytes past");
    fault(Faults { undefined_b: true, ..d }, ErrorKind::Poison, "st.global", "undefined");
}

/// Without the race detector the landing policies still show a missing wait: as poison.
#[test]
fn missing_wait_is_poison_without_race_detection() {
    let m = module(&ptx(64, 64, Faults { no_wait: true, ..Faults::default() }));
    for config in schedules() {
        let e = run(&m, &DEEP, SimConfig { races: false, ..config }).unwrap_err();
        assert_eq!(e.kind, ErrorKind::Poison, "{e}");
    }
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let m = module(&ptx(64, 64, Faults::default()));
    let go = |seed| run(&m, &DEEP, SimConfig { seed, ..SimConfig::default() }).map(|r| r.1).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(go(3), go(3));
    let bad = module(&ptx(64, 64, Faults { no_bar_after: true, ..Faults::default() }));
    let err = |seed| run(&bad, &DEEP, SimConfig { seed, ..SimConfig::default() }).map(|_| ()).unwrap_err();
    assert_eq!(err(5), err(5));
}
