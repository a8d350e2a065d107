//! Errors as C sees them.

use std::ffi::{CString, c_char};
use tilelift::Error;
use tilelift::launch::BindError;

/// An error: its texts end with a zero byte.
pub struct TileliftError {
    code: CString,
    message: CString,
    remedy: CString,
    line: u32,
    column: u32,
}

/// A text that ends with a zero byte; what stands behind a zero byte in it is not shown.
fn text_of(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

impl TileliftError {
    pub(crate) fn new(code: &str, message: &str, remedy: &str) -> TileliftError {
        TileliftError { code: text_of(code), message: text_of(message), remedy: text_of(remedy), line: 0, column: 0 }
    }

    /// A pointer that is null, or a text that is none.
    pub(crate) fn argument(what: &str) -> TileliftError {
        TileliftError::new("C0301", &format!("{what} is null, or no text in UTF-8"), "pass what the header asks for")
    }
}

impl From<Error> for TileliftError {
    fn from(e: Error) -> TileliftError {
        let place = e.place().filter(|p| p.file.is_none()).unwrap_or_default();
        TileliftError { line: place.line, column: place.col, ..TileliftError::new(e.code(), &e.to_string(), &e.remedy()) }
    }
}

impl From<BindError> for TileliftError {
    fn from(e: BindError) -> TileliftError {
        TileliftError::new(e.code(), &e.to_string(), e.remedy())
    }
}

/// Reads of an error, or of none.
///
/// # Safety
/// `error` is null, or an error that is not freed yet.
unsafe fn read<T>(error: *const TileliftError, none: T, what: impl FnOnce(&TileliftError) -> T) -> T {
    // SAFETY: the caller vouches for it.
    unsafe { error.as_ref() }.map_or(none, what)
}

/// Its stable code; null for null.
///
/// # Safety
/// `error` is null, or an error that is not freed yet; here and below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_error_code(error: *const TileliftError) -> *const c_char {
    // SAFETY: the caller vouches for it.
    unsafe { read(error, std::ptr::null(), |e| e.code.as_ptr()) }
}

/// What is wrong.
///
/// # Safety
/// As [`tilelift_error_code`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_error_message(error: *const TileliftError) -> *const c_char {
    // SAFETY: the caller vouches for it.
    unsafe { read(error, std::ptr::null(), |e| e.message.as_ptr()) }
}

/// What to do about it.
///
/// # Safety
/// As [`tilelift_error_code`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_error_remedy(error: *const TileliftError) -> *const c_char {
    // SAFETY: the caller vouches for it.
    unsafe { read(error, std::ptr::null(), |e| e.remedy.as_ptr()) }
}

/// The line of the text, from 1; 0 where there is none.
///
/// # Safety
/// As [`tilelift_error_code`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_error_line(error: *const TileliftError) -> u32 {
    // SAFETY: the caller vouches for it.
    unsafe { read(error, 0, |e| e.line) }
}

/// The column of the text, from 1; 0 where there is none.
///
/// # Safety
/// As [`tilelift_error_code`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_error_column(error: *const TileliftError) -> u32 {
    // SAFETY: the caller vouches for it.
    unsafe { read(error, 0, |e| e.column) }
}

/// Frees it.
///
/// # Safety
/// As [`tilelift_error_code`]; it is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_error_free(error: *mut TileliftError) {
    if !error.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and the caller gives it back once.
        drop(unsafe { Box::from_raw(error) });
    }
}
