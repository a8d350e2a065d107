//! HIP's headers and a C compiler: where they may be.
//!
//! Headers, places in order: `TILELIFT_HIP_INCLUDE`, `.oracles/hip/usr/include` in the repository, ROCm's folder, the system's. Compilers: `CC`,
//! then `cc`, `gcc` and `clang` on the search path.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The header that declares the library's functions.
const HEADER: &str = "hip/hip_runtime_api.h";

/// The folder to include HIP's headers from, if they are here; looked for once.
pub fn hip_headers() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let places = match std::env::var_os("TILELIFT_HIP_INCLUDE") {
            Some(named) => vec![PathBuf::from(named)],
            None => vec![
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.oracles/hip/usr/include"),
                PathBuf::from("/opt/rocm/include"),
                PathBuf::from("/usr/include"),
            ],
        };
        places.into_iter().find(|p| p.join(HEADER).is_file())
    };
    FOUND.get_or_init(find).as_deref()
}

/// The command of a C compiler, if there is one; looked for once.
pub fn c_compiler() -> Option<&'static OsString> {
    static FOUND: OnceLock<Option<OsString>> = OnceLock::new();
    let find = || {
        let named = std::env::var_os("CC");
        named.into_iter().chain(["cc", "gcc", "clang"].map(OsString::from)).find(runs)
    };
    FOUND.get_or_init(find).as_ref()
}

fn runs(compiler: &OsString) -> bool {
    Command::new(compiler).arg("--version").output().is_ok_and(|said| said.status.success())
}
