//! Triton as a source of foreign PTX: finds a Python with it, and compiles kernels for a GPU that need not be there.
//!
//! Places in order: `TILELIFT_TRITON_PYTHON`, `.oracles/bin/python` in the repository, `python3` on the search path.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

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
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/triton_kernels.py");
    let out = Command::new(python).arg(&script).arg(folder).env("TRITON_CACHE_DIR", folder.join("cache")).output();
    let out = out.map_err(|e| format!("{}: {e}", python.display()))?;
    if !out.status.success() {
        return Err(format!("{}: {}", script.display(), String::from_utf8_lossy(&out.stderr)));
    }
    String::from_utf8_lossy(&out.stdout).lines().map(|line| kernel(folder, line)).collect()
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
