//! Equal bytes from equal input: in any thread, in any process, at every level of optimisation.
//!
//! `TILELIFT_DETERMINISM=20` starts that many processes for each file instead of three.

use std::path::{Path, PathBuf};
use std::process::Command;
use tilelift::isel::{Target, lowered_programs};
use tilelift::{OptLevel, Options, compile, targets};
use tilelift_ir::{Kernel, text, verify};
use tilelift_kernels::{Size, cases};
use tilelift_oracle::in_parallel;
use tilelift_tools::filetest::find;

fn files() -> Vec<PathBuf> {
    find(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tile")).expect("the file tests are there")
}

/// The kernels of the library and of the file tests.
fn corpus() -> Vec<Kernel> {
    let small = cases().into_iter().filter(|c| c.size == Size::Small);
    let mut out: Vec<Kernel> = small.map(|c| c.build().expect("kernels of the library build")).collect();
    for path in files() {
        let source = std::fs::read_to_string(&path).expect("a text");
        out.extend(text::parse(&source).map_or(Vec::new(), |f| f.kernels).into_iter().filter(|k| verify(k).is_ok()));
    }
    assert!(out.len() >= 120, "only {} kernels", out.len());
    out
}

/// Texts of a kernel at every level, its text where loops are specialised, and its code object for an AMD chip, or why there is none. Each is lowered once:
/// what fits a machine is known by prices and sizes. What is refused may have been tried with other layouts, too.
fn texts(kernel: &Kernel) -> Vec<Result<Vec<u8>, String>> {
    let usual = targets::usual();
    let [units, chip] = ["sm_90a", "gfx942"].map(|name| targets::by_name(name).expect("a known target"));
    let made = |target: &Target, opt| {
        let before = lowered_programs();
        let made = compile(kernel, target, &Options { opt, ..Options::default() }).map_err(|e| e.to_string());
        let lowered = lowered_programs() - before;
        // Builds without debug assertions don't count.
        assert!(lowered > 0 || made.is_err() || !cfg!(debug_assertions), "nobody counted what @{} is lowered to", kernel.name);
        assert!(lowered <= 1 + u64::from(made.is_err()), "@{} is lowered {lowered} times for {}, {opt:?}", kernel.name, target.name);
        made
    };
    let text = |target: &Target, opt| made(target, opt).map(|artifact| artifact.text.into_bytes());
    let object = made(&chip, OptLevel::default()).map(|artifact| artifact.object);
    let specialised = text(&units, OptLevel::default());
    OptLevel::ALL.iter().map(|&opt| text(&usual, opt)).chain([specialised, object]).collect()
}

#[test]
fn eight_threads_make_the_same_bytes() {
    let corpus = corpus();
    let want = in_parallel(&corpus, texts);
    std::thread::scope(|s| {
        for thread in 0..8 {
            let (corpus, want) = (&corpus, &want);
            s.spawn(move || {
                // Each kernel once more, all of them beside others.
                for i in (thread..corpus.len()).step_by(8) {
                    assert!(texts(&corpus[i]) == want[i], "@{} in thread {thread}", corpus[i].name);
                }
            });
        }
    });
}

#[test]
fn processes_make_the_same_bytes() {
    let runs = std::env::var("TILELIFT_DETERMINISM").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let chosen: Vec<PathBuf> =
        files().into_iter().filter(|p| p.components().any(|c| c.as_os_str() == "opt" || c.as_os_str() == "dot")).collect();
    assert!(chosen.len() >= 12, "only {} files", chosen.len());
    for (path, target) in chosen.iter().flat_map(|path| [(path, None), (path, Some("gfx942"))]) {
        let once = || {
            let mut tool = Command::new(env!("CARGO_BIN_EXE_tilelift"));
            tool.args(["compile", "--opt", "1"]).args(target.iter().flat_map(|t| ["--target", t]));
            let out = tool.arg(path).output().expect("the tool starts");
            (out.status.code(), out.stdout, out.stderr)
        };
        let first = once();
        assert!(!first.1.is_empty() || !first.2.is_empty(), "{}", path.display());
        for _ in 1..runs {
            assert!(once() == first, "{}, {target:?}", path.display());
        }
    }
}
