//! Finds libraries and tools that are used if they are there: cuBLASLt and ptxas. Nothing is downloaded, nothing is required.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sonames of cuBLASLt, newest first.
const CUBLASLT: &[&str] = &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"];
/// Folders of NVIDIA's Python packages below a folder of packages.
const PACKAGES: &[&str] = &["nvidia/cu13", "nvidia/cublas", "nvidia/cuda_nvcc", "nvidia/cu12", "triton/backends/nvidia"];
/// Environment variables that name a toolkit's folder.
const TOOLKITS: &[&str] = &["CUDA_PATH", "CUDA_HOME", "CUDA_ROOT"];

/// The folders that Python finds packages in; empty without Python.
fn python_folders() -> Vec<PathBuf> {
    let program = "import sys; print('\\n'.join(sys.path))";
    let Ok(output) = Command::new("python3").args(["-c", program]).output() else { return Vec::new() };
    String::from_utf8_lossy(&output.stdout).lines().filter(|l| !l.is_empty()).map(PathBuf::from).collect()
}

/// Folders of CUDA toolkits: named by the environment, and the usual place.
fn toolkits() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = TOOLKITS.iter().filter_map(env::var_os).map(PathBuf::from).collect();
    let local = Path::new("/usr/local");
    folders.push(local.join("cuda"));
    let mut versions: Vec<PathBuf> = std::fs::read_dir(local)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().starts_with("cuda-"))
        .map(|e| e.path())
        .collect();
    // The newest first, by name.
    versions.sort_by(|a, b| b.cmp(a));
    folders.extend(versions);
    folders
}

/// Where cuBLASLt may be, best guess first: only what `TILELIFT_CUBLASLT` names if it is set, else what the loader knows, then
/// toolkits, then Python packages.
pub(crate) fn cublaslt() -> Vec<PathBuf> {
    match env::var_os("TILELIFT_CUBLASLT") {
        Some(path) => vec![path.into()],
        None => cublaslt_in(&toolkits(), &python_folders()),
    }
}

fn cublaslt_in(toolkits: &[PathBuf], packages: &[PathBuf]) -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = CUBLASLT.iter().map(PathBuf::from).collect();
    let of_toolkits = toolkits.iter().flat_map(|t| [t.join("lib64"), t.join("targets/x86_64-linux/lib"), t.join("lib")]);
    let of_packages = packages.iter().flat_map(|p| PACKAGES.iter().map(move |d| p.join(d).join("lib")));
    for folder in of_toolkits.chain(of_packages) {
        list.extend(CUBLASLT.iter().map(|n| folder.join(n)).filter(|p| p.is_file()));
    }
    list
}

/// The assembler, if there is one: `TILELIFT_PTXAS`, the command path, toolkits, Python packages.
pub(crate) fn ptxas() -> Option<PathBuf> {
    if let Some(path) = env::var_os("TILELIFT_PTXAS") {
        return Some(path.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let of_path = env::split_paths(&path).map(|d| d.join("ptxas"));
    let of_toolkits = toolkits().into_iter().map(|t| t.join("bin/ptxas"));
    let found = of_path.chain(of_toolkits).find(|p| p.is_file());
    found.or_else(|| {
        let packages = python_folders();
        let mut places = packages.iter().flat_map(|p| PACKAGES.iter().map(move |d| p.join(d).join("bin/ptxas")));
        places.find(|p| p.is_file())
    })
}

/// The line of `--version` that says the release.
pub(crate) fn ptxas_version(path: &Path) -> Result<String, String> {
    let output = Command::new(path).arg("--version").output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find(|l| l.contains("release")).map(str::to_owned).ok_or_else(|| "it does not say its version".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_comes_first_and_only_existing_files_of_folders_follow() {
        let folder = env::temp_dir().join(format!("tilelift-locate-{}", std::process::id()));
        let lib = folder.join("nvidia/cu13/lib");
        std::fs::create_dir_all(&lib).unwrap();
        std::fs::write(lib.join("libcublasLt.so.13"), b"").unwrap();
        let list = cublaslt_in(&[PathBuf::from("/nowhere")], std::slice::from_ref(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(list.len(), CUBLASLT.len() + 1);
        assert_eq!(list[0], Path::new("libcublasLt.so.13"));
        assert_eq!(list[CUBLASLT.len()], lib.join("libcublasLt.so.13"));
    }
}
