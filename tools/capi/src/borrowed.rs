//! What a caller lends for the time of a call.

use crate::error::TileliftError;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A text of the caller, or `None` for null.
///
/// # Safety
/// `text` is null, or ends with a zero byte and lives as long as the result is used.
pub(crate) unsafe fn string<'a>(text: *const c_char, what: &str) -> Result<Option<&'a str>, TileliftError> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller vouches for it.
    unsafe { CStr::from_ptr(text) }.to_str().map(Some).map_err(|_| TileliftError::argument(what))
}

/// Bytes of the caller; null is right where there are none.
///
/// # Safety
/// `data` is null, or leads to `len` bytes that live as long as the result is used.
pub(crate) unsafe fn bytes<'a>(data: *const c_char, len: usize, what: &str) -> Result<&'a [u8], TileliftError> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        // Nothing in memory is larger.
        (false, 1..=0x7fff_ffff_ffff_ffff) => {
            // SAFETY: the caller vouches for it.
            Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) })
        }
        (true, _) | (false, _) => Err(TileliftError::argument(what)),
    }
}

/// A list of the caller; null is right where it has no entries.
///
/// # Safety
/// `data` is null, or leads to `len` entries that live as long as the result is used.
pub(crate) unsafe fn list<'a, T>(data: *const T, len: usize, what: &str) -> Result<&'a [T], TileliftError> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        (false, 1..=MOST_ENTRIES) => {
            // SAFETY: the caller vouches for it.
            Ok(unsafe { std::slice::from_raw_parts(data, len) })
        }
        (true, _) | (false, _) => Err(TileliftError::argument(what)),
    }
}

/// Most entries of a list: more than any kernel has arguments, dimensions, or groups of them.
const MOST_ENTRIES: usize = 1 << 16;

/// Makes something for C: a pointer that the caller frees, or null and an error in its place. A panic is an error.
///
/// # Safety
/// `error` is null, or a place for a pointer.
pub(crate) unsafe fn made<T>(error: *mut *mut TileliftError, make: impl FnOnce() -> Result<T, TileliftError>) -> *mut T {
    // SAFETY: the caller vouches for the place.
    unsafe { tried(error, make) }.map_or(std::ptr::null_mut(), |made| Box::into_raw(Box::new(made)))
}

/// Changes something of C's: 1, or 0 and an error in its place.
///
/// # Safety
/// As [`made`].
pub(crate) unsafe fn changed(error: *mut *mut TileliftError, change: impl FnOnce() -> Result<(), TileliftError>) -> i32 {
    // SAFETY: the caller vouches for the place.
    i32::from(unsafe { tried(error, change) }.is_some())
}

/// What comes of some work, and its error in its place: null if there is none.
///
/// # Safety
/// As [`made`].
unsafe fn tried<T>(error: *mut *mut TileliftError, work: impl FnOnce() -> Result<T, TileliftError>) -> Option<T> {
    let unwound = |_| Err(TileliftError::new("C0901", "the compiler failed: this is a bug of tilelift", "report the kernel"));
    let (done, failed) = match catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(unwound) {
        Ok(made) => (Some(made), std::ptr::null_mut()),
        Err(e) => (None, Box::into_raw(Box::new(e))),
    };
    // SAFETY: the caller vouches for the place.
    unsafe { put(error, failed) };
    done
}

/// Puts an error into its place, or drops it where there is none.
///
/// # Safety
/// `place` is null, or a place for a pointer; `error` is null, or nobody else's.
unsafe fn put(place: *mut *mut TileliftError, error: *mut TileliftError) {
    if !place.is_null() {
        // SAFETY: the caller vouches for the place.
        unsafe { place.write(error) };
    } else if !error.is_null() {
        // SAFETY: nobody else has it.
        drop(unsafe { Box::from_raw(error) });
    }
}
