//! Device memory.

use super::context::Context;
use super::error::HipError;
use super::prototypes::Functions;
use super::types::{CopyKind, Stream};
use std::ffi::c_void;
use std::sync::Arc;

/// Device memory, own or borrowed.
pub struct HipBuffer {
    context: Arc<Context>,
    address: u64,
    len: usize,
    owned: bool,
}

/// A device address as C has it.
pub(super) fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// The library may return from a fill before it has arrived; work on other streams must not overtake it. The device must be current.
fn finish_default_stream(functions: &Functions) -> Result<(), HipError> {
    // SAFETY: null is the default stream of the current device.
    unsafe { functions.synchronize_stream(Stream::NONE) }
}

impl HipBuffer {
    /// Allocates memory; its contents are undefined.
    pub(super) fn alloc(context: &Arc<Context>, bytes: usize) -> Result<HipBuffer, HipError> {
        context.with(|functions| {
            let mut raw = std::ptr::null_mut();
            // An empty allocation would be a null pointer; one byte stands for it.
            // SAFETY: the device is current and the out pointer valid; `drop` frees the memory.
            unsafe { functions.malloc(&mut raw, bytes.max(1)) }?;
            Ok(HipBuffer { context: context.clone(), address: raw.expose_provenance() as u64, len: bytes, owned: true })
        })
    }

    /// Memory of the host, never freed.
    pub(super) fn borrowed(context: &Arc<Context>, address: u64, bytes: usize) -> HipBuffer {
        HipBuffer { context: context.clone(), address, len: bytes, owned: false }
    }

    /// The device address.
    pub fn address(&self) -> u64 {
        self.address
    }
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }
    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Copies bytes of the host to the start of the buffer; waits for the copy.
    ///
    /// # Errors
    /// [`HipError::Length`] if they do not fit, or an error of the library.
    pub fn upload(&mut self, bytes: &[u8]) -> Result<(), HipError> {
        if bytes.len() > self.len {
            return Err(HipError::Length { device: self.len, host: bytes.len() });
        }
        self.context.with(|functions| {
            // SAFETY: the source is valid for its length, and the destination for at least that many bytes.
            unsafe { functions.memcpy(pointer(self.address), bytes.as_ptr().cast(), bytes.len(), CopyKind::HOST_TO_DEVICE) }?;
            finish_default_stream(functions)
        })
    }
    /// Copies the start of the buffer to the host; waits for the copy, and for earlier work on the default stream only.
    ///
    /// # Errors
    /// [`HipError::Length`] if more is asked for than there is, or an error of the library.
    pub fn download(&self, bytes: &mut [u8]) -> Result<(), HipError> {
        if bytes.len() > self.len {
            return Err(HipError::Length { device: self.len, host: bytes.len() });
        }
        // SAFETY: the destination is valid for its length, and the source for at least that many bytes.
        self.context.with(|functions| unsafe {
            functions.memcpy(bytes.as_mut_ptr().cast(), pointer(self.address), bytes.len(), CopyKind::DEVICE_TO_HOST)
        })
    }
    /// Sets every byte; waits for it.
    ///
    /// # Errors
    /// An error of the library.
    pub fn fill(&mut self, byte: u8) -> Result<(), HipError> {
        if self.len == 0 {
            return Ok(());
        }
        self.context.with(|functions| {
            // SAFETY: the range is the buffer's own.
            unsafe { functions.memset(pointer(self.address), i32::from(byte), self.len) }?;
            finish_default_stream(functions)
        })
    }
}

impl Drop for HipBuffer {
    fn drop(&mut self) {
        if self.owned {
            // The call finds the device by the address. Nothing can be done about an error here.
            // SAFETY: the address came from the allocation and is freed once.
            let _ = unsafe { self.context.functions().free(pointer(self.address)) };
        }
    }
}
