//! Contexts, streams and memory.

use super::error::{CudaError, check};
use super::probe::{elapsed, probe};
use cudarc::driver::sys;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// A context, retained by us or borrowed from the host.
pub(super) struct Context {
    pub(super) raw: sys::CUcontext,
    device: sys::CUdevice,
    owned: bool,
}

// SAFETY: the driver's contexts may be made current in, and used from, any thread; every call makes the context current first.
unsafe impl Send for Context {}
// SAFETY: as above; the driver serialises concurrent calls on a context itself.
unsafe impl Sync for Context {}

impl Context {
    /// Runs calls with the context current, and restores what the calling thread had.
    pub(super) fn with<T>(&self, f: impl FnOnce() -> Result<T, CudaError>) -> Result<T, CudaError> {
        // SAFETY: the context is alive: retained by us, or promised by the caller of `borrow`.
        check("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(self.raw) })?;
        let result = f();
        let mut popped = std::ptr::null_mut();
        // SAFETY: the push above succeeded, so there is a context to pop.
        let pop = check("cuCtxPopCurrent", unsafe { sys::cuCtxPopCurrent_v2(&mut popped) });
        result.and_then(|v| pop.map(|()| v))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: we retained this device's primary context once. Nothing can be done about an error here.
            let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
        }
    }
}

/// A CUDA device with a context. Clones share the context.
#[derive(Clone)]
pub struct CudaDevice {
    pub(super) context: Arc<Context>,
    name: String,
    capability: (u32, u32),
    shared_per_block: u32,
}

impl CudaDevice {
    /// Number of devices the driver sees.
    ///
    /// # Errors
    /// As [`probe`].
    pub fn count() -> Result<u32, CudaError> {
        probe()?;
        let mut count: c_int = 0;
        // SAFETY: the driver is initialised and the out pointer valid.
        check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
        Ok(count.max(0) as u32)
    }

    /// A device by number, with its primary context (the one that other libraries in the process use, too).
    ///
    /// # Errors
    /// No usable driver, no such device, or a driver error.
    pub fn new(ordinal: u32) -> Result<CudaDevice, CudaError> {
        CudaDevice::of_handle(device(ordinal)?)
    }

    /// A device with a context of the host (a `CUcontext`), which is borrowed: never destroyed or released.
    ///
    /// # Errors
    /// No usable driver, no such device, or a driver error.
    ///
    /// # Safety
    /// `context` must be a live context of device `ordinal`, and must outlive the device and all that is made with it.
    pub unsafe fn borrow(context: *mut c_void, ordinal: u32) -> Result<CudaDevice, CudaError> {
        let device = device(ordinal)?;
        CudaDevice::describe(Context { raw: context.cast(), device, owned: false })
    }

    /// Number that the driver has for the device.
    pub(super) fn ordinal(&self) -> sys::CUdevice {
        self.context.device
    }

    /// A device by that number, with its primary context.
    pub(super) fn of_handle(device: sys::CUdevice) -> Result<CudaDevice, CudaError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the device is valid and so is the out pointer; `Context::drop` releases what is retained here.
        check("cuDevicePrimaryCtxRetain", unsafe { sys::cuDevicePrimaryCtxRetain(&mut raw, device) })?;
        CudaDevice::describe(Context { raw, device, owned: true })
    }

    fn describe(context: Context) -> Result<CudaDevice, CudaError> {
        use sys::CUdevice_attribute as A;
        let attribute = |a: A| {
            let mut value: c_int = 0;
            // SAFETY: the device is valid and so is the out pointer.
            check("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&mut value, a, context.device) })?;
            Ok(value.max(0) as u32)
        };
        let major = attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let shared_per_block = attribute(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let mut bytes = [0 as c_char; 256];
        // SAFETY: the buffer is valid for its length, which is passed; the driver ends the name with a zero byte.
        check("cuDeviceGetName", unsafe { sys::cuDeviceGetName(bytes.as_mut_ptr(), bytes.len() as c_int, context.device) })?;
        let name: Vec<u8> = bytes.iter().take_while(|&&b| b != 0).map(|&b| b as u8).collect();
        Ok(CudaDevice {
            context: Arc::new(context),
            name: String::from_utf8_lossy(&name).into_owned(),
            capability: (major, minor),
            shared_per_block,
        })
    }

    /// Runs calls of the driver, or of a library on it, with the device's context current, and restores what the calling thread had.
    ///
    /// # Errors
    /// What `f` returns, or a driver error.
    pub fn with_context<T>(&self, f: impl FnOnce() -> Result<T, CudaError>) -> Result<T, CudaError> {
        self.context.with(f)
    }

    /// The product name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compute capability, major and minor.
    pub fn capability(&self) -> (u32, u32) {
        self.capability
    }

    /// Bytes of shared memory that a block may have.
    pub fn shared_per_block(&self) -> u32 {
        self.shared_per_block
    }

    /// The best target name for the device, or `None` if it is older than every target.
    pub fn target_name(&self) -> Option<&'static str> {
        match self.capability {
            (9, 0) => Some("sm_90a"),
            (8, 0..=8) => Some("sm_80"),
            (major, _) if major >= 8 => Some("sm_89"),
            _ => None,
        }
    }

    /// Allocates memory; its contents are undefined.
    ///
    /// # Errors
    /// A driver error, such as too little memory.
    pub fn alloc(&self, bytes: usize) -> Result<CudaBuffer, CudaError> {
        let mut address = 0;
        // The driver refuses empty allocations; one byte stands for them.
        // SAFETY: the context is current and the out pointer valid; `CudaBuffer::drop` frees the memory.
        self.context.with(|| check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut address, bytes.max(1)) }))?;
        Ok(CudaBuffer { context: self.context.clone(), address, len: bytes, owned: true })
    }

    /// Memory of the host, borrowed: never freed.
    ///
    /// # Safety
    /// `address..address + bytes` must be device memory of this context, and must outlive the buffer and every launch that uses it.
    pub unsafe fn borrow_memory(&self, address: u64, bytes: usize) -> CudaBuffer {
        CudaBuffer { context: self.context.clone(), address, len: bytes, owned: false }
    }

    /// Makes a stream that does not wait for the default stream.
    ///
    /// # Errors
    /// A driver error.
    pub fn stream(&self) -> Result<CudaStream, CudaError> {
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current and the out pointer valid; `CudaStream::drop` destroys the stream.
        self.context.with(|| check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut raw, flags) }))?;
        Ok(CudaStream { context: self.context.clone(), raw, owned: true })
    }

    /// A stream of the host (a `CUstream`; null is the default stream), borrowed.
    ///
    /// # Safety
    /// `stream` must be a live stream of this context (or null), and must outlive the value.
    pub unsafe fn borrow_stream(&self, stream: *mut c_void) -> CudaStream {
        CudaStream { context: self.context.clone(), raw: stream.cast(), owned: false }
    }
}

fn device(ordinal: u32) -> Result<sys::CUdevice, CudaError> {
    let count = CudaDevice::count()?;
    if ordinal >= count {
        return Err(CudaError::NoDevice { ordinal, count });
    }
    let mut device = 0;
    // SAFETY: the driver is initialised, the ordinal in range and the out pointer valid.
    check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal as c_int) })?;
    Ok(device)
}

/// The driver may return from a copy of pageable memory, or a fill, before it has arrived; work on other streams must not overtake it.
/// A context must be current.
fn finish_default_stream() -> Result<(), CudaError> {
    // SAFETY: null is the default stream of the current context.
    check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(std::ptr::null_mut()) })
}

/// Device memory, own or borrowed.
pub struct CudaBuffer {
    context: Arc<Context>,
    address: u64,
    len: usize,
    owned: bool,
}

impl CudaBuffer {
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
    /// [`CudaError::Length`] if they do not fit, or a driver error.
    pub fn upload(&mut self, bytes: &[u8]) -> Result<(), CudaError> {
        if bytes.len() > self.len {
            return Err(CudaError::Length { device: self.len, host: bytes.len() });
        }
        // SAFETY: the source is valid for its length, and the destination for at least that many bytes.
        let copy = || unsafe { sys::cuMemcpyHtoD_v2(self.address, bytes.as_ptr().cast(), bytes.len()) };
        self.context.with(|| check("cuMemcpyHtoD", copy()).and_then(|()| finish_default_stream()))
    }
    /// Copies the start of the buffer to the host; waits for the copy, and for earlier work on the default stream only.
    ///
    /// # Errors
    /// [`CudaError::Length`] if more is asked for than there is, or a driver error.
    pub fn download(&self, bytes: &mut [u8]) -> Result<(), CudaError> {
        if bytes.len() > self.len {
            return Err(CudaError::Length { device: self.len, host: bytes.len() });
        }
        // SAFETY: the destination is valid for its length, and the source for at least that many bytes.
        self.context.with(|| check("cuMemcpyDtoH", unsafe { sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), self.address, bytes.len()) }))
    }
    /// Sets every byte; waits for it.
    ///
    /// # Errors
    /// A driver error.
    pub fn fill(&mut self, byte: u8) -> Result<(), CudaError> {
        if self.len == 0 {
            return Ok(());
        }
        // SAFETY: the range is the buffer's own.
        let set = || unsafe { sys::cuMemsetD8_v2(self.address, byte, self.len) };
        self.context.with(|| check("cuMemsetD8", set()).and_then(|()| finish_default_stream()))
    }
}

impl Drop for CudaBuffer {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: the address came from cuMemAlloc in this context and is freed once. Nothing can be done about an error here.
            let _ = self.context.with(|| check("cuMemFree", unsafe { sys::cuMemFree_v2(self.address) }));
        }
    }
}

/// A stream, own or borrowed.
pub struct CudaStream {
    pub(super) context: Arc<Context>,
    pub(super) raw: sys::CUstream,
    owned: bool,
}

// SAFETY: the driver's streams may be used from any thread.
unsafe impl Send for CudaStream {}
// SAFETY: as above; the driver serialises concurrent calls on a stream itself.
unsafe impl Sync for CudaStream {}

impl CudaStream {
    /// Waits until everything on the stream is done; reports faults of the kernels that ran on it.
    ///
    /// # Errors
    /// A driver error, such as an illegal address in a kernel.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: the stream is alive.
        self.context.with(|| check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.raw) }))
    }

    /// Seconds that the work which `f` puts on the stream takes, by the device's clock. Waits for it.
    ///
    /// # Errors
    /// What `f` returns, or a driver error.
    pub fn time(&self, f: impl FnOnce() -> Result<(), CudaError>) -> Result<f64, CudaError> {
        let (start, stop) = (Event::new(self)?, Event::new(self)?);
        start.record()?;
        f()?;
        stop.record()?;
        let elapsed = elapsed()?;
        let mut ms = 0f32;
        self.context.with(|| {
            // SAFETY: the event is alive and recorded.
            check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(stop.raw) })?;
            // SAFETY: both events are recorded and complete, the out pointer is valid.
            check("cuEventElapsedTime", unsafe { elapsed(&mut ms, start.raw, stop.raw) })
        })?;
        Ok(f64::from(ms) * 1e-3)
    }
}

impl CudaStream {
    /// The driver's handle of the stream (`CUstream`), for those who call the driver, or a library on it, themselves.
    pub fn handle(&self) -> *mut c_void {
        self.raw.cast()
    }

    /// Puts a copy within the device's memory on the stream.
    ///
    /// # Errors
    /// A driver error.
    ///
    /// # Safety
    /// Both ranges of so many bytes must be device memory that lives until the copy has finished; nothing else may write either of them, or
    /// read the target, meanwhile.
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), CudaError> {
        // SAFETY: the stream is alive; the caller vouches for the ranges.
        self.context.with(|| check("cuMemcpyDtoDAsync", unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.raw) }))
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: we made the stream and destroy it once; the driver finishes its work first.
            let _ = self.context.with(|| check("cuStreamDestroy", unsafe { sys::cuStreamDestroy_v2(self.raw) }));
        }
    }
}

/// A point in a stream's work.
struct Event<'s> {
    stream: &'s CudaStream,
    raw: sys::CUevent,
}

impl<'s> Event<'s> {
    fn new(stream: &'s CudaStream) -> Result<Event<'s>, CudaError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is current and the out pointer valid; `drop` destroys the event.
        stream.context.with(|| check("cuEventCreate", unsafe { sys::cuEventCreate(&mut raw, 0) }))?;
        Ok(Event { stream, raw })
    }
    fn record(&self) -> Result<(), CudaError> {
        // SAFETY: event and stream are alive and of one context.
        self.stream.context.with(|| check("cuEventRecord", unsafe { sys::cuEventRecord(self.raw, self.stream.raw) }))
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        // SAFETY: we made the event and destroy it once.
        let _ = self.stream.context.with(|| check("cuEventDestroy", unsafe { sys::cuEventDestroy_v2(self.raw) }));
    }
}
