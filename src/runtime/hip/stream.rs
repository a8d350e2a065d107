//! Streams, and the time between two points of one.

use super::buffer::pointer;
use super::context::Context;
use super::error::HipError;
use super::prototypes::Functions;
use super::types::{CopyKind, EVENT_DEFAULT, Event, STREAM_NON_BLOCKING, Stream};
use std::ffi::c_void;
use std::sync::Arc;

/// The largest handle that is no stream but means one of the current device: default, legacy, per thread.
const LAST_IMPLICIT: usize = 2;

/// A stream, own or borrowed.
pub struct HipStream {
    context: Arc<Context>,
    raw: Stream,
    owned: bool,
}

// SAFETY: the library's streams may be used from any thread.
unsafe impl Send for HipStream {}
// SAFETY: as above; the library serialises concurrent calls on a stream itself.
unsafe impl Sync for HipStream {}

impl HipStream {
    /// A new stream that does not wait for the default stream.
    pub(super) fn create(context: &Arc<Context>) -> Result<HipStream, HipError> {
        context.with(|functions| {
            let mut raw = Stream::NONE;
            // SAFETY: the device is current and the out pointer valid; `drop` destroys the stream.
            unsafe { functions.create_stream(&mut raw, STREAM_NON_BLOCKING) }?;
            Ok(HipStream { context: context.clone(), raw, owned: true })
        })
    }

    /// A stream of the host, never destroyed.
    pub(super) fn borrowed(context: &Arc<Context>, raw: *mut c_void) -> HipStream {
        HipStream { context: context.clone(), raw: Stream(raw), owned: false }
    }

    /// Runs a call that puts something on the stream. A stream knows its device; the default stream is that of the current device, which
    /// is made current for it.
    pub(super) fn put<T>(&self, f: impl FnOnce(&Functions, Stream) -> Result<T, HipError>) -> Result<T, HipError> {
        if self.raw.0.addr() <= LAST_IMPLICIT {
            self.context.with(|functions| f(functions, self.raw))
        } else {
            f(self.context.functions(), self.raw)
        }
    }

    /// Waits until everything on the stream is done; reports faults of the kernels that ran on it.
    ///
    /// # Errors
    /// An error of the library, such as an illegal address in a kernel.
    pub fn synchronize(&self) -> Result<(), HipError> {
        // SAFETY: the stream is alive.
        self.put(|functions, raw| unsafe { functions.synchronize_stream(raw) })
    }

    /// Seconds that the work which `f` puts on the stream takes, by the device's clock. Waits for it.
    ///
    /// # Errors
    /// What `f` returns, or an error of the library.
    pub fn time(&self, f: impl FnOnce() -> Result<(), HipError>) -> Result<f64, HipError> {
        let (start, stop) = (Mark::new(self)?, Mark::new(self)?);
        start.record()?;
        f()?;
        stop.record()?;
        let functions = self.context.functions();
        // SAFETY: the event is alive and recorded.
        unsafe { functions.synchronize_event(stop.raw) }?;
        let mut milliseconds = 0f32;
        // SAFETY: both events are recorded and complete, the out pointer is valid.
        unsafe { functions.elapsed(&mut milliseconds, start.raw, stop.raw) }?;
        Ok(f64::from(milliseconds) * 1e-3)
    }

    /// The library's handle of the stream (`hipStream_t`), for those who call the library, or one on it, themselves.
    pub fn handle(&self) -> *mut c_void {
        self.raw.0
    }

    /// Puts a copy within the device's memory on the stream.
    ///
    /// # Errors
    /// An error of the library.
    ///
    /// # Safety
    /// Both ranges of so many bytes must be device memory that lives until the copy has finished; nothing else may write either of them, or
    /// read the target, meanwhile.
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), HipError> {
        self.put(|functions, raw| {
            // SAFETY: the stream is alive; the caller vouches for the ranges.
            unsafe { functions.memcpy_async(pointer(to), pointer(from), bytes, CopyKind::DEVICE_TO_DEVICE, raw) }
        })
    }
}

impl Drop for HipStream {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: we made the stream and destroy it once. Nothing can be done about an error here.
            let _ = unsafe { self.context.functions().destroy_stream(self.raw) };
        }
    }
}

/// A point in a stream's work: an event of the library.
struct Mark<'s> {
    stream: &'s HipStream,
    raw: Event,
}

impl<'s> Mark<'s> {
    fn new(stream: &'s HipStream) -> Result<Mark<'s>, HipError> {
        stream.context.with(|functions| {
            let mut raw = Event::NONE;
            // SAFETY: the device is current and the out pointer valid; `drop` destroys the event.
            unsafe { functions.create_event(&mut raw, EVENT_DEFAULT) }?;
            Ok(Mark { stream, raw })
        })
    }
    fn record(&self) -> Result<(), HipError> {
        // SAFETY: event and stream are alive and of one device.
        self.stream.put(|functions, stream| unsafe { functions.record_event(self.raw, stream) })
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        // SAFETY: we made the event and destroy it once. Nothing can be done about an error here.
        let _ = unsafe { self.stream.context.functions().destroy_event(self.raw) };
    }
}
