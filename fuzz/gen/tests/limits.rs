//! Memory of compiles is bounded: long kernels, kernels of the generator, mutants. Times are for the program `limits`; counts of what is made stand
//! here. One test, so that nobody else allocates.

use peak_alloc::PeakAlloc;
use std::fmt::Write;
use std::path::Path;
use tilelift::{OptLevel, Options, compile, targets};
use tilelift_fuzzgen::limits;
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
    for seed in 0..300 {
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
    assert!(compiled > 300 && refused > 50 && kinds.len() == 4, "{compiled} compiled, {refused} refused, {kinds:?}");
}
