//! Triton as a source of foreign PTX: finds a Python with it, and compiles kernels for a GPU that need not be there.
//!
//! Places in order: `TILELIFT_TRITON_PYTHON`, `.oracles/bin/python` in the repository, `python3` on the search path.

use crate::required::required;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The version whose output the tests expect to understand.
pub const TRITON: &str = "3.6.0";

/// A kernel that Triton compiled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TritonKernel {
    /// Its name in the script.
    pub name: String,
    /// Its entry.
    pub entry: String,
    /// Warps of a program.
    pub warps: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// The PTX text.
    pub text: String,
}

/// A Python that has Triton in the right version; looked for once.
pub fn triton() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let named = std::env::var_os("TILELIFT_TRITON_PYTHON").map(PathBuf::from);
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.oracles/bin/python");
        named.into_iter().chain([repository, "python3".into()]).find(|p| has_triton(p))
    };
    FOUND.get_or_init(find).as_deref()
}

fn has_triton(python: &Path) -> bool {
    // The package's version without its import, which takes a second.
    let script = "import importlib.metadata as m; print(m.version('triton'))";
    let said = Command::new(python).args(["-c", script]).output();
    said.is_ok_and(|o| o.status.success() && String::from_utf8_lossy(&o.stdout).trim() == TRITON)
}

/// Compiles the script's kernels into a folder, which is made; a cache of Triton's is kept inside.
///
/// # Errors
/// A sentence: no Triton, or what it says.
pub fn compile_triton(folder: &Path) -> Result<Vec<TritonKernel>, String> {
    let python = triton().ok_or_else(|| format!("no Python with triton {TRITON}; set TILELIFT_TRITON_PYTHON"))?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/triton_kernels.py");
    ran(python, &script, folder, &[])?.lines().map(|line| kernel(folder, line)).collect()
}

/// What a script says that leaves what it compiles in a folder.
fn ran(python: &Path, script: &Path, folder: &Path, arguments: &[&str]) -> Result<String, String> {
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let out = Command::new(python).arg(script).arg(folder).args(arguments).env("TRITON_CACHE_DIR", folder.join("cache")).output();
    let out = out.map_err(|e| format!("{}: {e}", python.display()))?;
    if !out.status.success() {
        return Err(format!("{}: {}", script.display(), String::from_utf8_lossy(&out.stderr)));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// What a test's own script had Triton compile for a chip: files in a folder, which goes with this.
#[derive(Debug)]
pub struct TritonFiles {
    folder: PathBuf,
    /// The words that the script said of each kernel.
    pub kernels: Vec<Vec<String>>,
}

impl TritonFiles {
    /// Runs a script that takes a folder and a chip's name; `None` without Triton, unless oracles are required.
    ///
    /// # Panics
    /// Triton is required and not there; the script fails.
    pub fn of(script: &Path, chip: &str) -> Option<TritonFiles> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let Some(python) = triton() else {
            assert!(!required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no Triton (set TILELIFT_TRITON_PYTHON)");
            eprintln!("no Triton: nothing is tested");
            return None;
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tilelift-triton-{}-{number}", std::process::id()));
        let mut files = TritonFiles { folder, kernels: Vec::new() };
        let said = ran(python, script, &files.folder, &[chip]).unwrap_or_else(|e| panic!("{e}"));
        files.kernels = said.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
        Some(files)
    }

    /// A file that the script left.
    ///
    /// # Panics
    /// It left none of that name.
    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}

impl Drop for TritonFiles {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A kernel from the script's line: name, entry, warps, bytes of shared memory.
fn kernel(folder: &Path, line: &str) -> Result<TritonKernel, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[name, entry, warps, shared] = words.as_slice() else { return Err(format!("the script printed `{line}`")) };
    let number = |w: &str| w.parse().map_err(|_| format!("the script printed `{line}`"));
    let path = folder.join(format!("{name}.ptx"));
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(TritonKernel { name: name.into(), entry: entry.into(), warps: number(warps)?, shared_bytes: number(shared)?, text })
}
