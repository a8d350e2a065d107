//! NVIDIA's disassembler: where it may be, and the text of an object.
//!
//! Places in order: `TILELIFT_NVDISASM`, beside ptxas, the search path, and `nvidia/cu13/bin`, `nvidia/cuda_nvdisasm/bin` and Triton's own folder in
//! the site-packages that ptxas was found in and in `.oracles/` of the repository.

use crate::error::AsmError;
use crate::ptxas::ptxas;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const PACKAGES: [&str; 3] = ["nvidia/cu13/bin/nvdisasm", "nvidia/cuda_nvdisasm/bin/nvdisasm", "triton/backends/nvidia/bin/nvdisasm"];

fn in_packages(folder: &Path) -> Option<PathBuf> {
    PACKAGES.iter().map(|p| folder.join(p)).find(|p| p.is_file())
}

fn find() -> Option<PathBuf> {
    if let Some(p) = std::env::var_os("TILELIFT_NVDISASM") {
        return Some(PathBuf::from(p)).filter(|p| p.is_file());
    }
    let beside = ptxas().and_then(Path::parent).map(|d| d.join("nvdisasm"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut bare = beside.into_iter().chain(std::env::split_paths(&path).map(|d| d.join("nvdisasm")));
    if let Some(p) = bare.find(|p| p.is_file()) {
        return Some(p);
    }
    let around = ptxas().and_then(|p| p.ancestors().find(|a| a.ends_with("site-packages")));
    if let Some(p) = around.and_then(in_packages) {
        return Some(p);
    }
    let oracles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.oracles");
    let libs = fs::read_dir(oracles.join("lib")).ok().into_iter().flatten();
    let mut folders: Vec<PathBuf> = libs.filter_map(|e| Some(e.ok()?.path().join("site-packages"))).collect();
    folders.sort();
    folders.push(oracles.join("triton"));
    folders.iter().find_map(|f| in_packages(f))
}

/// The disassembler's path, if there is one.
pub fn nvdisasm() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(find).as_deref()
}

/// The text of an object that the assembler made.
///
/// # Errors
/// [`AsmError::NoDisassembler`] without a disassembler, [`AsmError::Refused`] with its messages, [`AsmError::Io`] otherwise.
pub fn disassemble(object: &[u8]) -> Result<String, AsmError> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let tool = nvdisasm().ok_or(AsmError::NoDisassembler)?;
    let name = format!("tilelift-{}-{}.sass.cubin", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    fs::write(&path, object)?;
    // Its analysis of data flow takes longer than the text, to which it adds nothing here.
    let run = Command::new(tool).args(["-c", "-ndf"]).arg(&path).output();
    // Leftovers in the temporary folder do no harm.
    let _ = fs::remove_file(&path);
    let run = run?;
    if run.status.success() {
        Ok(String::from_utf8_lossy(&run.stdout).into_owned())
    } else {
        Err(AsmError::Refused(String::from_utf8_lossy(&run.stderr).into_owned()))
    }
}
