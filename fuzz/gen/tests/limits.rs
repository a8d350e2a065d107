//! Memory of compiles is bounded: long kernels, kernels of the generator, mutants. Times are for the program `limits`; counts of what is made stand
//! here. One test, so that nobody else allocates.

use peak_alloc::PeakAlloc;
use std::fmt::Write;
use std::path::Path;
use tilelift::{OptLevel, Options, compile, targets};
use tilelift_fuzzgen::limits::{self, Around};
use tilelift_ir::{Kernel, text};

#[global_allocator]
static BYTES: PeakAlloc = PeakAlloc;

/// Compiles; the answer's code and text, and the most bytes that were allocated at once.
fn measured(kernel: &Kernel, target: &str, opt: OptLevel) -> (&'static str, String, u64) {
    let target = targets::by_name(target).expect("a known target");
    let before = BYTES.current_usage();
    BYTES.reset_peak_usage();
    let made = compile(kernel, &target, &Options { opt, ..Options::default() });
    let bytes = BYTES.peak_usage().saturating_sub(before) as u64;
    match made {
        Ok(a) => ("compiled", a.text, bytes),
        Err(e) => (e.code(), e.to_string(), bytes),
    }
}

/// A sum of so many terms, one behind the other.
fn chain(terms: usize) -> String {
    let mut out = "kernel @chain(v0: view<f32, [?]>) {\nv1 = program_id x\nv2 = load v0[v1] : tile<1xf32>\n".to_owned();
    for k in 0..terms {
        let _ = writeln!(out, "v{} = add v{}, v2", k + 3, k + 2);
    }
    let _ = writeln!(out, "store v0[v1], v{}\n}}", terms + 2);
    out
}

fn texts(folder: &Path, out: &mut Vec<String>) {
    let mut paths: Vec<_> = std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    for p in paths {
        if p.is_dir() {
            texts(&p, out);
        } else if p.extension().is_some_and(|e| e == "tile") {
            out.push(std::fs::read_to_string(&p).expect("a readable file"));
        }
    }
}

#[test]
fn compiles_stay_below_their_memory() {
    for terms in [5000, 50_000] {
        let file = text::parse(&chain(terms)).unwrap_or_else(|e| panic!("{e}"));
        for &opt in OptLevel::ALL {
            let (answer, text, bytes) = measured(&file.kernels[0], "sm_80", opt);
            assert_eq!(answer, "compiled", "{terms} terms, {opt:?}: {text}");
            assert_eq!(text.matches("\tadd.rn.f32 ").count(), terms, "{opt:?}");
            // Near-linear: a chain ten times as long takes ten times as much.
            assert!(bytes <= 2500 * terms as u64 + (8 << 20), "{terms} terms, {opt:?}: {bytes} bytes");
        }
    }
    // Sines of 1024 elements a lane: gigabytes of text if nobody counts.
    let mut source = "kernel @sines(v0: view<f64, [?]>) warps=1 {\nv1 = load v0[0] : tile<32768xf64>\n".to_owned();
    for k in 1..=60 {
        let _ = writeln!(source, "v{} = sin v{k}", k + 1);
    }
    source += "store v0[0], v61\n}\n";
    let file = text::parse(&source).unwrap_or_else(|e| panic!("{e}"));
    for &opt in OptLevel::ALL {
        let (answer, why, bytes) = measured(&file.kernels[0], "sm_80", opt);
        assert_eq!(answer, "resource", "{why}");
        assert!(why.contains("lane instructions"), "{why}");
        assert!(bytes <= limits::memory(62), "{opt:?}: {bytes} bytes");
    }
    // A sample of what the program `limits` tries at length.
    let mut corpus = Vec::new();
    texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tile"), &mut corpus);
    let (mut compiled, mut refused, mut kinds) = (0, 0, std::collections::BTreeSet::new());
    for seed in 0..250 {
        let (kind, kernels) = limits::kernels(seed, &corpus);
        for kernel in &kernels {
            let opt = OptLevel::ALL[seed as usize % OptLevel::ALL.len()];
            let (answer, why, bytes) = measured(kernel, ["sm_80", "sm_90a"][seed as usize / 3 % 2], opt);
            let n = kernel.insts.len();
            assert!(bytes <= limits::memory(n), "seed {seed}, {kind:?}, {opt:?}: {n} instructions, {bytes} bytes");
            assert_ne!(answer, "internal", "seed {seed}: {why}");
            (compiled, refused) = if answer == "compiled" { (compiled + 1, refused) } else { (compiled, refused + 1) };
            kinds.insert(kind);
        }
    }
    assert!(compiled > 200 && refused > 30 && kinds.len() == 5, "{compiled} compiled, {refused} refused, {kinds:?}");
    steps_that_look_at_one_product_take_memory_in_proportion();
    large_programs_take_memory_in_proportion();
    families_take_memory_in_proportion();
    loops_around_a_block_hold_it_once();
}

/// Thousands of steps of a loop look at its product: whether it may end a step later is asked of each of them once, not of each for each other.
fn steps_that_look_at_one_product_take_memory_in_proportion() {
    let steps = 9000;
    let mut source = "kernel @looks(v0: view<bf16, [?, ?%64]>, v1: view<bf16, [?, ?%64]>, v2: view<f32, [?, ?%8]>) {\nv3 = program_id x\nv4 = dim v0, 1\n\
        v5 = splat 0.0 : tile<64x64xf32>\nv6 = for v7 in 0..v4 step 64 carry v8 = v5 {\nv9 = load v0[v3, v7] : tile<64x64xbf16>\n\
        v10 = load v1[0, v7] : tile<64x64xbf16>\nv11 = transpose v10, [1, 0]\nv12 = dot v9, v11, v8\n"
        .to_owned();
    for k in 0..steps {
        let _ = writeln!(source, "v{} = {} v{}, v12", k + 13, ["sub", "mul", "maximum"][k % 3], k + 12);
    }
    let _ = writeln!(source, "yield v{}\n}}\nstore v2[v3, 0], v6\n}}", steps + 12);
    let file = text::parse(&source).unwrap_or_else(|e| panic!("{e}"));
    let (answer, text, bytes) = measured(&file.kernels[0], "sm_90a", OptLevel::Physical);
    assert!(answer == "compiled" && text.contains("wgmma.mma_async"), "{answer}");
    assert!(bytes <= limits::memory(steps), "{bytes} bytes");
}

/// Chains, loops and what stands side by side, from one graph to many windows: 4 KB of an instruction, all in all, and of the optimizer a quarter of that where it
/// works in windows, besides what it reads and writes.
fn large_programs_take_memory_in_proportion() {
    for large in limits::LARGE {
        for size in [5000, 50_000, 200_000] {
            let file = text::parse(&(large.text)(size)).unwrap_or_else(|e| panic!("{}: {e}", large.name));
            let (kernel, n) = (&file.kernels[0], file.kernels[0].insts.len());
            let verified = tilelift_ir::verify(kernel).unwrap_or_else(|e| panic!("{}: {e}", large.name));
            let before = BYTES.current_usage();
            BYTES.reset_peak_usage();
            let report = tilelift_egraph::optimise(&verified, &tilelift_egraph::Options::default()).1;
            let bytes = BYTES.peak_usage().saturating_sub(before) as u64;
            assert!(report.skipped.is_none() && report.fallback.is_none(), "{}: {report}", large.name);
            assert_eq!(report.windows > 0, n > tilelift_egraph::MOST_INSTRUCTIONS, "{}, {n} instructions: {report}", large.name);
            assert!(bytes <= 2048 * n as u64 + (16 << 20), "{}, {n} instructions: {bytes} bytes", large.name);
            // All of it once; long ones of the rest are for the program `limits`.
            if size < 200_000 || large.name == "adds" {
                let (answer, why, bytes) = measured(kernel, "sm_80", OptLevel::Logical);
                assert_ne!(answer, "internal", "{}: {why}", large.name);
                assert!(bytes <= limits::memory(n).max(4096 * n as u64), "{}, {n} instructions: {bytes} bytes", large.name);
            }
        }
    }
}

/// What an AMD chip's registers do not hold is put in another order, block by block: in one copy of the program, not in one for each of twenty loops.
fn loops_around_a_block_hold_it_once() {
    let family = limits::FAMILIES.iter().find(|f| f.name == "argsort").expect("a family");
    let take = |around| {
        let file = text::parse(&family.kernel(around, 600, [4, 32], "i64", 4)).unwrap_or_else(|e| panic!("{e}"));
        measured(&file.kernels[0], "gfx942", OptLevel::None).2
    };
    let (deep, straight) = (take(Around::Deep), take(Around::Straight));
    assert!(deep < 2 * straight, "{deep} bytes under loops, {straight} without");
}

/// Every step that is repeated, with everything around it: three times as many take about three times as much. What runs out of something, or
/// is not proved, says so with less.
fn families_take_memory_in_proportion() {
    let mut compiled = std::collections::BTreeSet::new();
    for (n, family) in limits::FAMILIES.iter().enumerate() {
        for (k, &around) in family.around.iter().enumerate() {
            let opt = OptLevel::ALL[(n + k) % OptLevel::ALL.len()];
            let target = if family.asks_for_units(around) || (n + k) % 2 == 0 { "sm_90a" } else { "sm_80" };
            let shape = if family.square { [16, 16] } else { [4, 32] };
            let ty = family.types[k % family.types.len()];
            let take = |size: usize| {
                let source = family.kernel(around, size, shape, ty, 4);
                let file = text::parse(&source).unwrap_or_else(|e| panic!("{}: {e}", family.name));
                let taken = measured(&file.kernels[0], target, opt);
                assert_ne!(taken.0, "internal", "{}, {around:?}: {}", family.name, taken.1);
                (file.kernels[0].insts.len() as f64, taken)
            };
            let (few, first) = take(150);
            let before = tilelift_ir::walked();
            let (many, second) = take(450);
            // Nothing goes over the whole program, or a task, for each of its instructions. For each of few loops it may.
            let regions = matches!(around, Around::Loops | Around::Ifs | Around::Deep);
            let walks = (tilelift_ir::walked() - before) as f64 / many;
            assert!(
                regions || walks < MOST_WALKS,
                "{}, {around:?}, {opt:?}: a program of {many} instructions is walked over {walks} times",
                family.name
            );
            let share = second.2 as f64 / first.2 as f64 / (many / few);
            let what = format!("{}, {around:?}, {opt:?}, {target}, {ty}: {} bytes, then {}", family.name, first.2, second.2);
            // Tables grow by doubling.
            assert!(share < 2.5 || second.2 < 1 << 20, "{what}");
            if second.0 == "compiled" {
                compiled.insert(family.name);
            }
        }
    }
    let never: Vec<&str> = limits::FAMILIES.iter().map(|f| f.name).filter(|n| !compiled.contains(n)).collect();
    assert_eq!(never, REFUSED, "families that never compile");
}

/// How often a program of some 450 instructions may be walked over, whatever it holds.
const MOST_WALKS: f64 = 150.0;

/// Families that are there to be refused.
const REFUSED: [&str; 3] = ["endless_views", "parities", "channel_loops"];
