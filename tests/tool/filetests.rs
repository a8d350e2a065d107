//! Runs every file test of `tests/tile`: each launch on the interpreter, on the lane interpreter, and on the simulator under three
//! schedules; every emitted text is given to ptxas if there is one. `TILELIFT_CUDA=1` adds the GPU, `TILELIFT_BLESS=1` accepts
//! changed precise output.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tilelift_oracle::{Batch, Once, Spills};
use tilelift_tools::execute::{DeviceKind, Executor};
use tilelift_tools::filetest::{Config, Failure, find, run_file};

fn set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|v| v == "1")
}

/// Puts a file's text with those that wait for ptxas.
fn assemble((once, batch): (&Once, &Batch), file: &Path, text: &str, target: &str) -> Result<(), String> {
    // A file may hold several kernels, and a module is a text of its own.
    let modules = text.split(".version").enumerate().skip(1).map(|(i, module)| (i, format!(".version{module}")));
    for (i, module) in modules.filter(|(_, module)| once.is_new(module, target)) {
        batch.add(&format!("{}: module {i}", file.display()), &module, target).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn run_all<'c>(files: &[PathBuf], config: impl Fn() -> Config<'c> + Sync) -> Vec<Failure> {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            s.spawn(|| {
                let config = config();
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(f) = run_file(file, &config) {
                        failures.lock().expect("no thread panics with the lock").extend(f);
                    }
                }
            });
        }
    });
    failures.into_inner().expect("no thread panics with the lock")
}

#[test]
fn every_file_test_passes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tile");
    let files = find(&root).unwrap_or_else(|e| panic!("{e}"));
    assert!(files.len() >= 80, "only {} file tests are found under {}", files.len(), root.display());
    let (once, batch) = (Once::default(), Batch::new(Spills::Allowed));
    let assemble = |file: &Path, text: &str, target: &str| assemble((&once, &batch), file, text, target);
    let failures = run_all(&files, || Config {
        bless: set("TILELIFT_BLESS"),
        hardware: set("TILELIFT_CUDA").then(|| Executor::open(DeviceKind::Cuda, None).unwrap_or_else(|e| panic!("TILELIFT_CUDA=1: {e}"))),
        assemble: Some(&assemble),
        ..Config::default()
    });
    let found = batch.finish().unwrap_or_else(|e| panic!("{e}"));
    let list: Vec<String> = failures.iter().map(ToString::to_string).chain(found).collect();
    assert!(list.is_empty(), "{} expectations failed:\n{}", list.len(), list.join("\n"));
}

/// A file test that could not fail would prove nothing: broken expectations must be noticed.
#[test]
fn broken_expectations_fail() {
    let folder = std::env::temp_dir().join(format!("tilelift-filetests-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let kernel = "kernel @k(v0: view<f32, [?]>, v1: view<f32, [?]>) {\n    v2 = load v0[0] : tile<8xf32>\n    v3 = add v2, v2\n    store v1[0], v3\n}\n";
    let wrong = [
        ("; test run\n", "; run: @k(grid=1, v0=iota[8], out v1=[8]) == v1 {0, 2, 4, 6, 8, 10, 12, 15}", "expected 15.0"),
        ("; test run\n", "; run: @k(grid=1, v0=iota[8], out v1=[8]) fails: anything", "must fail"),
        ("; test run\n", "; run: @k(grid=1, v0=iota[8])", "the run line gives 1"),
        ("; test run\n", "; run: @l(grid=1)", "no kernel @l"),
        ("; test verify\n", "; error: V0401 nothing", "not reported"),
        ("; test print\n", "; check: sub", "not found"),
        ("; test print\n", "; check-not: add", "must not appear"),
        ("; test print precise\n", ";> kernel @other() {", "the output differs"),
        ("; test emit\n; target sm_1\n", "", "no target `sm_1`"),
    ];
    for (i, (head, tail, part)) in wrong.into_iter().enumerate() {
        let path = folder.join(format!("{i}.tile"));
        std::fs::write(&path, format!("{head}{kernel}{tail}\n")).expect("a temporary file");
        let failures = run_file(&path, &Config::default()).expect_err(tail);
        assert!(failures.iter().any(|f| f.message.contains(part)), "{tail}: {failures:?}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
}
