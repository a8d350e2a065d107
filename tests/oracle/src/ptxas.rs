//! NVIDIA's PTX assembler: where it may be.
//!
//! Places in order: `TILELIFT_PTXAS`, the search path, `nvidia/cu13/bin` and `nvidia/cuda_nvcc/bin` in the site-packages of the
//! Python interpreters on the search path, and `.oracles/` in the repository (a virtual environment or the bare tool).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const PACKAGES: [&str; 2] = ["nvidia/cu13/bin/ptxas", "nvidia/cuda_nvcc/bin/ptxas"];

fn in_environment(root: &Path) -> Option<PathBuf> {
    let libs = fs::read_dir(root.join("lib")).ok()?;
    let mut pythons: Vec<PathBuf> = libs.filter_map(|e| Some(e.ok()?.path().join("site-packages"))).collect();
    pythons.sort();
    pythons.iter().flat_map(|p| PACKAGES.map(|q| p.join(q))).find(|p| p.is_file())
}

fn find() -> Option<PathBuf> {
    if let Some(p) = std::env::var_os("TILELIFT_PTXAS") {
        return Some(PathBuf::from(p)).filter(|p| p.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Some(p) = dirs.iter().map(|d| d.join("ptxas")).find(|p| p.is_file()) {
        return Some(p);
    }
    let interpreters = dirs.iter().filter(|d| d.join("python3").is_file());
    if let Some(p) = interpreters.filter_map(|d| in_environment(d.parent()?)).next() {
        return Some(p);
    }
    let oracles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.oracles");
    [oracles.join("ptxas"), oracles.join("bin/ptxas")].into_iter().find(|p| p.is_file()).or_else(|| in_environment(&oracles))
}

/// The assembler's path, if there is one.
pub fn ptxas() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(find).as_deref()
}
