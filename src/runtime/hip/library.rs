//! The HIP library: found at run time, opened once, never closed.

use super::error::HipError;
use super::prototypes::Functions;
use libloading::Library;
use std::ffi::OsStr;
use std::mem::ManuallyDrop;
use std::sync::{Arc, OnceLock};

/// The environment variable that names the library; where it is set, no other is tried.
pub const LIBRARY_VARIABLE: &str = "TILELIFT_HIP_LIBRARY";

/// Names under which the library is found, newest first.
#[cfg(windows)]
const LIBRARIES: &[&str] = &["amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"];
#[cfg(not(windows))]
const LIBRARIES: &[&str] = &[
    "libamdhip64.so",
    "libamdhip64.so.7",
    "libamdhip64.so.6",
    "libamdhip64.so.5",
    "/opt/rocm/lib/libamdhip64.so",
    "/opt/rocm/lib/libamdhip64.so.7",
    "/opt/rocm/lib/libamdhip64.so.6",
    "/opt/rocm/lib/libamdhip64.so.5",
];

/// An open and initialised HIP library. Clones share it.
#[derive(Clone)]
pub struct HipLibrary {
    opened: Arc<Opened>,
}

struct Opened {
    functions: Functions,
    /// Never closed: a runtime with threads of its own does not survive that.
    _library: ManuallyDrop<Library>,
}

impl HipLibrary {
    /// Opens a library by path, or by a name that the system's loader looks for, and initialises it.
    ///
    /// # Errors
    /// [`HipError::NoLibrary`], [`HipError::MissingFunction`], [`HipError::NoDevice`] or [`HipError::Call`].
    ///
    /// # Safety
    /// The file must be AMD's HIP runtime, or a library whose functions of the same names have the same types and meaning. It is never closed.
    pub unsafe fn open(name: impl AsRef<OsStr>) -> Result<HipLibrary, HipError> {
        // SAFETY: the caller vouches for the library.
        unsafe { open_first(&[name.as_ref()]) }
    }

    /// The process's library: the one that [`LIBRARY_VARIABLE`] names, else the newest that is installed. Looked for once; later calls repeat the
    /// answer.
    ///
    /// # Errors
    /// As [`HipLibrary::open`].
    pub fn installed() -> Result<HipLibrary, HipError> {
        static INSTALLED: OnceLock<Result<HipLibrary, HipError>> = OnceLock::new();
        INSTALLED.get_or_init(look).clone()
    }

    /// The library's functions.
    pub(super) fn functions(&self) -> &Functions {
        &self.opened.functions
    }
}

/// Looks for the HIP library and its functions and initialises it. Later calls repeat the answer.
///
/// # Errors
/// As [`HipLibrary::open`].
pub fn probe() -> Result<(), HipError> {
    HipLibrary::installed().map(|_| ())
}

fn look() -> Result<HipLibrary, HipError> {
    match std::env::var_os(LIBRARY_VARIABLE) {
        // SAFETY: who sets the variable vouches for the library, as who sets the loader's search path does.
        Some(name) => unsafe { open_first(&[&name]) },
        None => {
            let names: Vec<&OsStr> = LIBRARIES.iter().map(OsStr::new).collect();
            // SAFETY: libraries of these names are AMD's.
            unsafe { open_first(&names) }
        }
    }
}

/// Opens the first library that there is.
///
/// # Safety
/// All of them must be as [`HipLibrary::open`] says.
unsafe fn open_first(names: &[&OsStr]) -> Result<HipLibrary, HipError> {
    let mut why = String::new();
    for &name in names {
        // SAFETY: loading the library runs its initialisers, which are meant to run in any process.
        match unsafe { Library::new(name) } {
            // SAFETY: the caller vouches for the library.
            Ok(library) => return unsafe { start(ManuallyDrop::new(library)) },
            Err(e) => why = e.to_string(),
        }
    }
    let tried: Vec<_> = names.iter().map(|n| n.to_string_lossy()).collect();
    Err(HipError::NoLibrary { tried: tried.join(", "), why })
}

/// Looks up the functions of an open library and initialises it.
///
/// # Safety
/// As [`HipLibrary::open`].
unsafe fn start(library: ManuallyDrop<Library>) -> Result<HipLibrary, HipError> {
    // SAFETY: the caller vouches for the library; it is never closed.
    let functions = unsafe { Functions::load(&library) }?;
    // SAFETY: the call takes no pointers and may be made at any time.
    unsafe { functions.init(0) }?;
    Ok(HipLibrary { opened: Arc::new(Opened { functions, _library: library }) })
}
