//! Devices.

use super::buffer::HipBuffer;
use super::context::Context;
use super::error::HipError;
use super::library::HipLibrary;
use super::prototypes::Functions;
use super::stream::HipStream;
use super::types::{DeviceAttribute, PropertiesR0000, PropertiesR0600};
use crate::targets;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// A device of a HIP library. Clones share what they hold.
#[derive(Clone)]
pub struct HipDevice {
    pub(super) context: Arc<Context>,
    name: String,
    arch: String,
    shared_per_block: u32,
}

impl HipLibrary {
    /// Number of devices the library sees.
    ///
    /// # Errors
    /// An error of the library.
    pub fn count(&self) -> Result<u32, HipError> {
        let mut count = 0;
        // SAFETY: the out pointer is valid.
        unsafe { self.functions().device_count(&mut count) }?;
        Ok(count.max(0) as u32)
    }

    /// A device by number.
    ///
    /// # Errors
    /// No such device, or an error of the library.
    pub fn device(&self, ordinal: u32) -> Result<HipDevice, HipError> {
        let count = self.count()?;
        match i32::try_from(ordinal) {
            Ok(number) if ordinal < count => HipDevice::describe(self, number),
            Ok(_) | Err(_) => Err(HipError::NoDevice { ordinal, count }),
        }
    }

    /// The device that is current in the calling thread.
    ///
    /// # Errors
    /// An error of the library.
    pub fn current_device(&self) -> Result<HipDevice, HipError> {
        let mut ordinal = 0;
        // SAFETY: the out pointer is valid.
        unsafe { self.functions().current_device(&mut ordinal) }?;
        HipDevice::describe(self, ordinal)
    }
}

impl HipDevice {
    /// Number of devices that the installed library sees.
    ///
    /// # Errors
    /// As [`probe`](super::probe).
    pub fn count() -> Result<u32, HipError> {
        HipLibrary::installed()?.count()
    }

    /// A device of the installed library by number. Its context is the one that other libraries in the process use, too.
    ///
    /// # Errors
    /// No usable library, no such device, or an error of the library.
    pub fn new(ordinal: u32) -> Result<HipDevice, HipError> {
        HipLibrary::installed()?.device(ordinal)
    }

    /// The device of the installed library that is current in the calling thread, such as the one that a host engine works on.
    ///
    /// # Errors
    /// No usable library, or an error of the library.
    pub fn current() -> Result<HipDevice, HipError> {
        HipLibrary::installed()?.current_device()
    }

    fn describe(library: &HipLibrary, ordinal: i32) -> Result<HipDevice, HipError> {
        let functions = library.functions();
        let mut handle = 0;
        // SAFETY: the out pointer is valid; a number that is none of a device is refused.
        unsafe { functions.device_handle(&mut handle, ordinal) }?;
        let mut bytes = [0 as c_char; 256];
        // SAFETY: the buffer is valid for its length, which is passed.
        unsafe { functions.device_name(bytes.as_mut_ptr(), bytes.len() as i32, handle) }?;
        let name: Vec<u8> = bytes.iter().take_while(|&&b| b != 0).map(|&b| b as u8).collect();
        Ok(HipDevice {
            name: String::from_utf8_lossy(&name).into_owned(),
            arch: arch(functions, ordinal)?,
            shared_per_block: attribute(functions, DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK, ordinal)?,
            context: Arc::new(Context::new(library.clone(), ordinal)),
        })
    }

    /// Runs calls of the library, or of one on it, with the device current, and restores what the calling thread had.
    ///
    /// # Errors
    /// What `f` returns, or an error of the library.
    pub fn with_device<T>(&self, f: impl FnOnce() -> Result<T, HipError>) -> Result<T, HipError> {
        self.context.with(|_| f())
    }

    /// The product name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device's number.
    pub fn ordinal(&self) -> u32 {
        self.context.ordinal().max(0) as u32
    }

    /// The architecture, such as `gfx942`.
    pub fn arch(&self) -> &str {
        self.arch.split(':').next().unwrap_or(&self.arch)
    }

    /// The architecture with the features that the device was started with, such as `gfx942:sramecc+:xnack-`.
    pub fn arch_with_features(&self) -> &str {
        &self.arch
    }

    /// Bytes of shared memory (local data share) that a block may have.
    pub fn shared_per_block(&self) -> u32 {
        self.shared_per_block
    }

    /// The target name for the device, or `None` if there is no target for its architecture.
    pub fn target_name(&self) -> Option<&'static str> {
        targets::by_name(self.arch()).map(|target| target.name)
    }

    /// Allocates memory; its contents are undefined.
    ///
    /// # Errors
    /// An error of the library, such as too little memory.
    pub fn alloc(&self, bytes: usize) -> Result<HipBuffer, HipError> {
        HipBuffer::alloc(&self.context, bytes)
    }

    /// Memory of the host, borrowed: never freed.
    ///
    /// # Safety
    /// `address..address + bytes` must be memory that this device may use, and must outlive the buffer and every launch that uses it.
    pub unsafe fn borrow_memory(&self, address: u64, bytes: usize) -> HipBuffer {
        HipBuffer::borrowed(&self.context, address, bytes)
    }

    /// Makes a stream that does not wait for the default stream.
    ///
    /// # Errors
    /// An error of the library.
    pub fn stream(&self) -> Result<HipStream, HipError> {
        HipStream::create(&self.context)
    }

    /// A stream of the host (a `hipStream_t`; null is the default stream), borrowed.
    ///
    /// # Safety
    /// `stream` must be a live stream of this device (or null), and must outlive the value.
    pub unsafe fn borrow_stream(&self, stream: *mut c_void) -> HipStream {
        HipStream::borrowed(&self.context, stream)
    }
}

/// One of a device's numbers.
pub(super) fn attribute(functions: &Functions, which: DeviceAttribute, ordinal: i32) -> Result<u32, HipError> {
    let mut value = 0;
    // SAFETY: the out pointer is valid.
    unsafe { functions.device_attribute(&mut value, which, ordinal) }?;
    Ok(value.max(0) as u32)
}

/// The name of a device's architecture, which only the properties have.
fn arch(functions: &Functions, ordinal: i32) -> Result<String, HipError> {
    let mut newer = Box::new(PropertiesR0600::zeroed());
    // SAFETY: there is more room than the library writes; the layout goes by the function's name.
    let name = match unsafe { functions.properties_r0600(&mut *newer, ordinal) } {
        Some(written) => written.map(|()| newer.arch())?,
        None => {
            let mut older = Box::new(PropertiesR0000::zeroed());
            // SAFETY: as above.
            let written = unsafe { functions.properties_r0000(&mut *older, ordinal) };
            written.ok_or(HipError::MissingFunction { name: "hipGetDeviceProperties" })?.map(|()| older.arch())?
        }
    };
    if name.starts_with("gfx") { Ok(name) } else { Err(HipError::Architecture { name }) }
}
