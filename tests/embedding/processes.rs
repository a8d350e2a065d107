//! Processes that share a folder, that are killed while they write, and whose disk is full. The test runs itself as those processes.

use crate::{Folder, kernels};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tilelift::{Compiler, DirectoryStore};

const FOLDER: &str = "TILELIFT_TEST_STORE";
const KERNELS: usize = 8;

/// What a child does: fills the folder, forgets all, fills it again.
#[test]
#[ignore = "a child of the tests below"]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let rounds: usize = std::env::var("TILELIFT_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let kernels = kernels(KERNELS);
    for round in 0..rounds {
        if round > 0 {
            std::fs::remove_dir_all(&folder).ok();
        }
        let compiler = compiler(&folder);
        for made in compiler.compile_many(&kernels, 8) {
            made.unwrap_or_else(|e| panic!("{e}"));
        }
        println!("stats {:?}", compiler.stats());
    }
}

fn compiler(folder: &str) -> Compiler {
    Compiler::builder("sm_80").store(Arc::new(DirectoryStore::new(folder))).build().unwrap_or_else(|e| panic!("{e}"))
}

fn command(mut run: Command, folder: &Folder, rounds: usize) -> Command {
    run.args(["--exact", "processes::child", "--ignored", "--nocapture"]).env(FOLDER, &folder.0);
    run.env("TILELIFT_TEST_ROUNDS", rounds.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
    run
}

fn this() -> Command {
    Command::new(std::env::current_exe().unwrap_or_else(|e| panic!("{e}")))
}

fn spawn(folder: &Folder, rounds: usize) -> Child {
    command(this(), folder, rounds).spawn().unwrap_or_else(|e| panic!("{e}"))
}

/// What is in the folder is right, or is not there.
fn holds(folder: &Folder) {
    let right = Compiler::new("sm_80").unwrap_or_else(|e| panic!("{e}"));
    let reader = compiler(folder.0.to_str().expect("a name"));
    for k in kernels(KERNELS) {
        let (a, b) = (right.compile(&k), reader.compile(&k));
        assert_eq!(a, b);
    }
    let stats = reader.stats();
    assert_eq!((stats.discarded, stats.store_errors, stats.failures), (0, 0, 0), "{stats:?}");
}

#[test]
fn killed_writers_leave_nothing_wrong() {
    for n in 0..12 {
        let folder = Folder::new("killed");
        let mut child = spawn(&folder, 1000);
        std::thread::sleep(Duration::from_millis(40 + 23 * n));
        child.kill().unwrap_or_else(|e| panic!("{e}"));
        child.wait().unwrap_or_else(|e| panic!("{e}"));
        holds(&folder);
    }
}

#[test]
fn processes_share_a_folder() {
    let folder = Folder::new("shared");
    let children: Vec<Child> = (0..3).map(|_| spawn(&folder, 1)).collect();
    for child in children {
        let out = child.wait_with_output().unwrap_or_else(|e| panic!("{e}"));
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    holds(&folder);
    // The next one compiles nothing.
    let out = spawn(&folder, 1).wait_with_output().unwrap_or_else(|e| panic!("{e}"));
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains(&format!("store_hits: {KERNELS}")) && said.contains(" compiles: 0"), "{said}");
}

/// A limit on the size of files stands for a disk without room: writes fail in their middle.
#[test]
#[cfg(unix)]
fn a_full_disk_is_no_error() {
    let folder = Folder::new("full");
    let mut shell = Command::new("sh");
    // 1 block of 512 bytes: less than any entry.
    shell.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap_or_else(|e| panic!("{e}")));
    let out = command(shell, &folder, 1).output().unwrap_or_else(|e| panic!("{e}"));
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.contains(&format!("store_errors: {KERNELS}")) && said.contains(&format!(" compiles: {KERNELS}")), "{said}");
    // Nothing half-written stays.
    let left: Vec<_> =
        std::fs::read_dir(&folder.0).into_iter().flatten().flatten().flat_map(|d| std::fs::read_dir(d.path())).flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
