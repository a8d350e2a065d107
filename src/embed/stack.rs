//! Work on a stack of its own: a host's thread may have little.

use super::error::Error;
use std::thread;

/// Bytes of a compile's stack. The system gives memory for what is used of it.
pub(super) const STACK: usize = 16 << 20;

/// Regions of a kernel up to which its text is made on the caller's stack: printing and verifying go down a region at a time.
pub(super) const FLAT: usize = 8;

/// Runs on a thread with room enough; a panic of the work is an error.
pub(super) fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("tilelift".to_owned()).stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|e| Error::NoThread { why: e.to_string() })?;
        thread.join().map_err(|panic| Error::Internal { message: said(&*panic) })
    })
}

/// What a panic says.
pub(super) fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let failed = with_room(|| -> u32 { panic!("planted {}", 7) });
        assert_eq!(failed, Err(Error::Internal { message: "planted 7".to_owned() }));
        assert_eq!(with_room(|| 7), Ok(7));
    }
}
