//! A device of a library, as everything made on it holds it.

use super::error::HipError;
use super::library::HipLibrary;
use super::prototypes::Functions;

/// A device of a library.
pub(super) struct Context {
    library: HipLibrary,
    /// The device's number.
    ordinal: i32,
}

impl Context {
    pub(super) fn new(library: HipLibrary, ordinal: i32) -> Context {
        Context { library, ordinal }
    }

    /// The device's number.
    pub(super) fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// The library's functions, for calls that name their device or stream.
    pub(super) fn functions(&self) -> &Functions {
        self.library.functions()
    }

    /// Runs calls with the device current, and restores what the calling thread had. What `f` makes should own itself: it is dropped if the
    /// restoring fails.
    pub(super) fn with<T>(&self, f: impl FnOnce(&Functions) -> Result<T, HipError>) -> Result<T, HipError> {
        let functions = self.functions();
        let mut before = self.ordinal;
        // SAFETY: the out pointer is valid.
        unsafe { functions.current_device(&mut before) }?;
        if before == self.ordinal {
            return f(functions);
        }
        // SAFETY: the call takes no pointers; a number that is none of a device is refused.
        unsafe { functions.set_device(self.ordinal) }?;
        let result = f(functions);
        // SAFETY: as above.
        let restored = unsafe { functions.set_device(before) };
        result.and_then(|v| restored.map(|()| v))
    }
}
