//! Artifacts as C sees them.

use crate::borrowed::{bytes, made};
use crate::error::TileliftError;
use std::ffi::c_char;
use std::sync::Arc;
use tilelift::{Artifact, launch};

/// Bytes that belong to an artifact; a zero byte follows them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TileliftBytes {
    /// Where they are.
    pub data: *const c_char,
    /// How many there are, the zero byte not counted.
    pub len: usize,
}

/// An artifact, with what C reads of it: each part followed by a zero byte.
pub struct TileliftArtifact {
    artifact: Arc<Artifact>,
    text: Vec<u8>,
    object: Vec<u8>,
    entry: Vec<u8>,
    launch: Vec<u8>,
    schedule: Vec<u8>,
    key: Vec<u8>,
    bytes: Vec<u8>,
}

impl TileliftArtifact {
    pub(crate) fn artifact(&self) -> &Arc<Artifact> {
        &self.artifact
    }

    pub(crate) fn new(artifact: Arc<Artifact>) -> TileliftArtifact {
        let ended = |bytes: &[u8]| [bytes, b"\0"].concat();
        let key = artifact.key.map_or_else(String::new, |k| k.to_string());
        TileliftArtifact {
            text: ended(artifact.text.as_bytes()),
            object: ended(&artifact.object),
            entry: ended(artifact.entry.as_bytes()),
            launch: ended(launch::document(&[launch::describe(&artifact)]).as_bytes()),
            schedule: ended(artifact.schedule.as_bytes()),
            key: ended(key.as_bytes()),
            bytes: ended(&artifact.to_bytes()),
            artifact,
        }
    }
}

/// A part of an artifact; nothing of none.
///
/// # Safety
/// `artifact` is null, or an artifact that is not freed yet.
unsafe fn part(artifact: *const TileliftArtifact, what: impl FnOnce(&TileliftArtifact) -> &[u8]) -> TileliftBytes {
    // SAFETY: the caller vouches for it.
    match unsafe { artifact.as_ref() } {
        Some(a) => {
            let part = what(a);
            TileliftBytes { data: part.as_ptr().cast(), len: part.len().saturating_sub(1) }
        }
        None => TileliftBytes { data: std::ptr::null(), len: 0 },
    }
}

/// An artifact of bytes.
///
/// # Safety
/// `data` leads to `len` bytes, `error` is null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_artifact_read(data: *const c_char, len: usize, error: *mut *mut TileliftError) -> *mut TileliftArtifact {
    let make = || {
        // SAFETY: the caller vouches for it.
        let data = unsafe { bytes(data, len, "data") }?;
        let read = Artifact::from_bytes(data);
        let read = read.map_err(|e| TileliftError::new("C0303", &e.to_string(), "compile the kernel anew"))?;
        Ok(TileliftArtifact::new(Arc::new(read)))
    };
    // SAFETY: the caller vouches for it.
    unsafe { made(error, make) }
}

/// Frees it.
///
/// # Safety
/// `artifact` is null, or an artifact that nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_artifact_free(artifact: *mut TileliftArtifact) {
    if !artifact.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and the caller gives it back once.
        drop(unsafe { Box::from_raw(artifact) });
    }
}

macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident $field:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `artifact` is null, or an artifact that is not freed yet.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(artifact: *const TileliftArtifact) -> TileliftBytes {
            // SAFETY: the caller vouches for it.
            unsafe { part(artifact, |a| &a.$field) }
        }
    )*};
}

parts! {
    /// The text of the target.
    tilelift_artifact_text text;
    /// The code object of an AMD chip, else nothing.
    tilelift_artifact_object object;
    /// Name of the entry.
    tilelift_artifact_entry entry;
    /// How it is launched, as JSON.
    tilelift_artifact_launch launch;
    /// The schedule as a text, if it has one.
    tilelift_artifact_schedule schedule;
    /// The key, as 64 digits.
    tilelift_artifact_key key;
    /// All of it.
    tilelift_artifact_bytes bytes;
}

/// Threads of a block; 0 for null.
///
/// # Safety
/// `artifact` is null, or an artifact that is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_artifact_threads(artifact: *const TileliftArtifact) -> u32 {
    // SAFETY: the caller vouches for it.
    unsafe { artifact.as_ref() }.map_or(0, |a| a.artifact.threads)
}

/// Bytes of shared memory of a block; 0 for null.
///
/// # Safety
/// As [`tilelift_artifact_threads`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_artifact_shared_bytes(artifact: *const TileliftArtifact) -> u32 {
    // SAFETY: the caller vouches for it.
    unsafe { artifact.as_ref() }.map_or(0, |a| a.artifact.shared_bytes)
}
