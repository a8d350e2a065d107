//! A warp-specialised GEMM with tensor copies, mbarriers and wgmma: right under every schedule, each planted fault found.

use crate::common::hopper::{Go, assert_product, gemm_memory, go, map_arg, map2, product, random, u16s};
use crate::common::pipeline::{Plan, ptx};
use crate::common::{Rng, module, schedules};
use std::time::Instant;
use tilelift_nvptx_sim::{Arg, ErrorKind, Landing, Module, Policy, Report, SimConfig, SimError};

/// C and the report for an M x N x K problem; `grid` CTAs.
fn run(m: &Module, p: &Plan<'_>, shape: (usize, usize, usize), grid: u32, config: SimConfig) -> Result<(Vec<u16>, Report), SimError> {
    let (rows, cols, k) = shape;
    let (a, b) = (random(rows * k, 1), random(cols * k, 2));
    let (mut mem, pa, pb, pc) = gemm_memory(&a, &b, rows * cols);
    let tn = cols.div_ceil(128) as u32;
    let tiles = rows.div_ceil(128 * p.cluster as usize) as u32 * tn;
    let args = [
        map_arg(map2(pa, rows, k, 64, 128)),
        map_arg(map2(pb, cols, k, 64, 128 / p.cluster)),
        map_arg(map2(pc, rows, cols, 64, 64)),
        Arg::U32(k.div_ceil(64) as u32),
        Arg::U32(tn),
        Arg::U32(tiles),
    ];
    let r = go(m, &Go { entry: "gemm", grid, block: 384, shared: p.shared(), config }, &args, &mut mem)?;
    Ok((u16s(mem.read(pc, 2 * rows * cols).expect("every element is written")), r))
}

fn right(p: &Plan<'_>, shape: (usize, usize, usize), grid: u32, configs: impl IntoIterator<Item = SimConfig>) {
    let m = module(&ptx(p));
    let (rows, cols, k) = shape;
    let want = product(&random(rows * k, 1), &random(cols * k, 2), rows, cols, k);
    for c in configs {
        let (got, _) = run(&m, p, shape, grid, c.clone()).unwrap_or_else(|e| panic!("{:?} {:?}: {e}", c.policy, c.landing));
        assert_product(&got, &want, k);
    }
}

const GOOD: Plan<'_> = Plan { stages: 3, cluster: 1, fault: "" };

#[test]
fn right_under_every_schedule() {
    right(&GOOD, (256, 128, 320), 1, schedules());
    right(&Plan { stages: 2, ..GOOD }, (128, 128, 448), 1, schedules());
    right(&Plan { cluster: 2, ..GOOD }, (256, 256, 256), 2, schedules());
}

#[test]
fn ragged_and_many_tiles() {
    let one = || [SimConfig { seed: 3, ..SimConfig::default() }];
    for shape in [(1, 8, 8), (7, 16, 64), (129, 136, 72), (200, 264, 1000), (384, 256, 64)] {
        right(&GOOD, shape, 2, one());
        right(&Plan { cluster: 2, ..GOOD }, shape, 2, one());
    }
    right(&Plan { stages: 4, cluster: 2, ..GOOD }, (512, 256, 128), 4, one());
}

#[test]
fn faults() {
    use ErrorKind as K;
    const BYTES: &[ErrorKind] = &[K::Phase, K::Deadlock, K::Race, K::InFlight, K::Mbarrier];
    const PHASE: &[ErrorKind] = &[K::Phase, K::Deadlock, K::Race, K::Mbarrier];
    let rows: &[(&str, u32, &[ErrorKind], &str)] = &[
        ("drop-consumer-arrive", 1, &[K::Deadlock], "of 8 arrivals are pending"),
        ("no-producer-arrive", 1, &[K::Deadlock], "1 of 1 arrivals are pending"),
        ("double-release", 1, PHASE, "mbarrier"),
        ("release-before-wait", 1, &[K::Race], "wgmma"),
        ("wait-too-weak", 1, &[K::Race], "wgmma.wait_group"),
        ("expect-a-only", 1, BYTES, ""),
        ("expect-times-cluster", 2, &[K::Deadlock], "transaction count 32768"),
        ("producer-parity", 1, &[K::Deadlock], "try_wait"),
        ("phase-constant", 1, PHASE, ""),
        ("counter-reset", 1, PHASE, ""),
        ("extra-get", 1, &[K::Deadlock, K::Race, K::Phase], ""),
        ("keep-last-slot", 1, &[K::Deadlock], "arrivals are pending"),
        ("no-proxy-fence", 1, &[K::Proxy], "stmatrix"),
        ("fence-too-early", 1, &[K::Proxy], "stmatrix"),
        ("no-store-barrier", 1, &[K::Race, K::Uninitialised], "cp.async.bulk.tensor.2d.global"),
        ("full-count", 1, &[K::Deadlock], "1 of 2 arrivals are pending"),
        ("empty-count-local", 2, PHASE, ""),
        ("named-id-shared", 1, &[K::Barrier, K::Race, K::Uninitialised, K::Proxy], ""),
        ("named-count", 1, &[K::Deadlock], "128 of 256 threads"),
        ("bar0", 1, &[K::Deadlock], "barrier 0"),
        ("no-final-barrier", 2, &[K::Cluster], "barrier.cluster"),
        ("staging-reuse", 1, &[K::Race], "wait_group.read"),
        ("exit-early", 1, &[K::InFlight], "wait_group.read 0"),
        ("touch-accumulator", 1, &[K::InFlight], "add.f32 %c9"),
        ("no-wgmma-fence", 1, &[K::InFlight], "wgmma.fence"),
        ("no-full-wait", 1, &[K::Race, K::Uninitialised], "wgmma.mma_async"),
        ("no-empty-wait", 1, &[K::Race, K::Phase, K::Mbarrier], ""),
        ("swapped-slot", 1, &[K::Race, K::Uninitialised], "wgmma.mma_async"),
        ("no-init-fence", 1, &[K::Mbarrier], "fence.mbarrier_init"),
        ("no-init-barrier", 1, &[K::Mbarrier], "initialis"),
        ("no-cvta", 1, &[K::OutOfBounds], "cvta.param"),
    ];
    for &(fault, cluster, kinds, needle) in rows {
        let p = Plan { stages: 3, cluster, fault };
        let text = ptx(&p);
        let m = Module::parse(&text).unwrap_or_else(|e| panic!("{fault}: {e}"));
        for (policy, landing) in [
            (Policy::Lockstep, Landing::Eager),
            (Policy::InOrder, Landing::Lazy),
            (Policy::Reverse, Landing::Eager),
            (Policy::Random, Landing::Random),
            (Policy::Pct(3), Landing::Lazy),
        ] {
            // Three rounds of the ring per tile, two tiles.
            let config = SimConfig { policy, landing, max_instructions: 3_000_000, ..SimConfig::default() };
            match run(&m, &p, (256 * cluster as usize, 128, 448), cluster, config) {
                Ok(_) => panic!("`{fault}` is not found under {policy:?} {landing:?}"),
                Err(e) => {
                    assert!(kinds.contains(&e.kind), "`{fault}` under {policy:?} {landing:?}: {e}");
                    assert!(e.to_string().contains(needle), "`{fault}`: `{needle}` is not in:\n{e}");
                }
            }
        }
    }
    // One slot and two batches in flight: the producer waits for a slot that is released one round late.
    let p = Plan { stages: 1, ..GOOD };
    let m = Module::parse(&ptx(&p)).expect("parses");
    let e = run(&m, &p, (128, 128, 256), 1, SimConfig::default()).expect_err("depth 1");
    assert_eq!(e.kind, K::Deadlock, "{e}");
    assert!(e.to_string().contains("mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r21]"), "{e}");
}

/// Texts with a statement dropped or a digit changed: parse, run, end in some way.
#[test]
fn mutants_do_not_panic() {
    let good = ptx(&Plan { cluster: 2, ..GOOD });
    let parts: Vec<&str> = good.split_inclusive(';').collect();
    let mut r = Rng(77);
    let (mut ran, mut found) = (0, 0);
    for i in 0..150 {
        let at = r.next() as usize % parts.len();
        let mut p: Vec<String> = parts.iter().map(|s| (*s).to_string()).collect();
        if i % 2 == 0 {
            p[at] = String::new();
        } else {
            let digits: Vec<usize> = p[at].bytes().enumerate().filter(|x| x.1.is_ascii_digit()).map(|x| x.0).collect();
            let Some(&d) = digits.get(r.next() as usize % digits.len().max(1)) else { continue };
            let digit = char::from(b'0' + (r.next() % 10) as u8).to_string();
            p[at].replace_range(d..=d, &digit);
        }
        let Ok(m) = Module::parse(&p.concat()) else { continue };
        if m.entries().next() != Some("gemm") || m.params("gemm").is_none_or(|p| p.len() != 6) {
            continue;
        }
        ran += 1;
        let landing = [Landing::Eager, Landing::Lazy, Landing::Random][i % 3];
        let config = SimConfig { seed: i as u64, landing, max_instructions: 60_000, ..SimConfig::default() };
        let plan = Plan { cluster: 2, ..GOOD };
        // Elements that a mutant leaves unwritten are its own business.
        let (a, b) = (random(256 * 128, 1), random(128 * 128, 2));
        let (mut mem, pa, pb, pc) = gemm_memory(&a, &b, 256 * 128);
        let args = [
            map_arg(map2(pa, 256, 128, 64, 128)),
            map_arg(map2(pb, 128, 128, 64, 64)),
            map_arg(map2(pc, 256, 128, 64, 64)),
            Arg::U32(2),
            Arg::U32(1),
            Arg::U32(1),
        ];
        found += usize::from(go(&m, &Go { entry: "gemm", grid: 2, block: 384, shared: plan.shared(), config }, &args, &mut mem).is_err());
    }
    assert!(ran > 60 && found > 30, "{ran} mutants ran, {found} were refused");
}

/// 256 x 256 x 256 in much less than the five seconds an optimised build may take.
#[test]
fn speed() {
    let m = module(&ptx(&GOOD));
    let start = Instant::now();
    let (_, r) = run(&m, &GOOD, (256, 256, 256), 4, SimConfig::default()).unwrap_or_else(|e| panic!("{e}"));
    let t = start.elapsed();
    println!("256 x 256 x 256: {} instructions in {t:?}", r.instructions);
    assert!(t.as_secs_f64() < 5.0, "{t:?}");
    assert_eq!(r.count("wgmma.mma_async"), 4 * 4 * 4 * 8);
}
