//! Loading artifacts, binding arguments, launching.

use super::context::{Context, CudaBuffer, CudaDevice, CudaStream};
use super::error::{CudaError, check, describe};
use super::probe::NodeLaunch;
use super::tensor::{Encoded, encode};
use crate::artifact::Artifact;
use crate::launch::{BindError, Bound, Lent};
use cudarc::driver::sys;
use std::ffi::{CString, c_uint, c_void};
use std::sync::Arc;
use tilelift_interp::{Arg, Buffer, Memory, ScalarArg};
use tilelift_isel::abi::ParamValue;

/// Room for the assembler's log, in bytes.
const LOG: usize = 16 * 1024;

/// A loaded module; unloaded when the last kernel and binding that use it are gone.
struct Module {
    context: Arc<Context>,
    raw: sys::CUmodule,
}

// SAFETY: the driver's modules may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above; nothing is mutated through the handle.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: we loaded the module and unload it once. Nothing can be done about an error here.
        let _ = self.context.with(|| check("cuModuleUnload", unsafe { sys::cuModuleUnload(self.raw) }));
    }
}

/// A kernel loaded into a context.
pub struct CudaKernel {
    module: Arc<Module>,
    function: sys::CUfunction,
    artifact: Arc<Artifact>,
    registers: u32,
    local_bytes: u32,
    /// Instances that run at once, of a kernel whose instances run several grid positions.
    resident: Option<u32>,
}

// SAFETY: the driver's functions may be launched from any thread; they live as long as the module, which is held.
unsafe impl Send for CudaKernel {}
// SAFETY: as above; nothing is mutated through the handle.
unsafe impl Sync for CudaKernel {}

impl CudaDevice {
    /// Assembles an artifact's text with the driver and loads it.
    ///
    /// # Errors
    /// An artifact for another architecture, more shared memory than the device has, a text that the driver's assembler refuses
    /// (with its log), or a driver error.
    pub fn load(&self, artifact: &Artifact) -> Result<CudaKernel, CudaError> {
        if !runs_on(&artifact.target, self.capability()) {
            return Err(CudaError::Target { artifact: artifact.target.clone(), capability: self.capability() });
        }
        if artifact.shared_bytes > self.shared_per_block() {
            return Err(CudaError::SharedMemory { need: artifact.shared_bytes, have: self.shared_per_block() });
        }
        let text = CString::new(artifact.text.as_str()).map_err(|_| CudaError::ZeroByte)?;
        self.loaded(artifact, || assemble(&text, &artifact.entry))
    }

    /// Loads machine code that the driver's linker made of an artifact's text.
    pub(super) fn load_code(&self, artifact: &Artifact, code: &[u8]) -> Result<CudaKernel, CudaError> {
        self.loaded(artifact, || {
            let mut module = std::ptr::null_mut();
            // SAFETY: a context is current, the out pointer is valid, and the code says by itself how long it is: it is whole, as its sum told.
            check("cuModuleLoadData", unsafe { sys::cuModuleLoadData(&mut module, code.as_ptr().cast()) })?;
            Ok(module)
        })
    }

    fn loaded(&self, artifact: &Artifact, load: impl FnOnce() -> Result<sys::CUmodule, CudaError>) -> Result<CudaKernel, CudaError> {
        let entry = CString::new(artifact.entry.as_str()).map_err(|_| CudaError::ZeroByte)?;
        self.context.with(|| {
            let module = Arc::new(Module { context: self.context.clone(), raw: load()? });
            let mut function = std::ptr::null_mut();
            // SAFETY: the module is loaded, the name ends with a zero byte, the out pointer is valid.
            check("cuModuleGetFunction", unsafe { sys::cuModuleGetFunction(&mut function, module.raw, entry.as_ptr()) })?;
            use sys::CUfunction_attribute as A;
            if let Some(bytes) = artifact.shared_opt_in() {
                let attribute = A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                // SAFETY: the function is of a loaded module.
                check("cuFuncSetAttribute", unsafe { sys::cuFuncSetAttribute(function, attribute, bytes as i32) })?;
            }
            let attribute = |a: A| {
                let mut value = 0;
                // SAFETY: the function is of a loaded module, the out pointer is valid.
                check("cuFuncGetAttribute", unsafe { sys::cuFuncGetAttribute(&mut value, a, function) })?;
                Ok(value.max(0) as u32)
            };
            let registers = attribute(A::CU_FUNC_ATTRIBUTE_NUM_REGS)?;
            let local_bytes = attribute(A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?;
            // Such a kernel fills a multiprocessor alone.
            let resident = if artifact.grid_rule().persistent { Some(multiprocessors()?) } else { None };
            Ok(CudaKernel { module, function, artifact: Arc::new(artifact.clone()), registers, local_bytes, resident })
        })
    }

    /// Launches a kernel once over host memory: copies the buffers in, runs the grid, waits, and copies everything back.
    ///
    /// # Errors
    /// Arguments that break promises, or a driver error.
    pub fn execute(&self, kernel: &CudaKernel, grid: [u32; 3], args: &[Arg], memory: &mut Memory) -> Result<(), CudaError> {
        self.execute_timed(kernel, grid, args, memory, 0, 1).map(|_| ())
    }

    /// As [`CudaDevice::execute`], with `warm_up` launches and then `timed` ones on the same buffers (so the kernel should not read
    /// what it writes). Returns the mean seconds of the timed launches, by the device's clock.
    ///
    /// # Errors
    /// Arguments that break promises, or a driver error.
    pub fn execute_timed(
        &self,
        kernel: &CudaKernel,
        grid: [u32; 3],
        args: &[Arg],
        memory: &mut Memory,
        warm_up: u32,
        timed: u32,
    ) -> Result<f64, CudaError> {
        let mut buffers = Vec::new();
        for b in &memory.buffers {
            let mut device = self.alloc(b.len())?;
            device.upload(b.bytes())?;
            buffers.push(device);
        }
        let stream = self.stream()?;
        let binding = kernel.bind(grid, args, &buffers.iter().collect::<Vec<_>>())?;
        for _ in 0..warm_up {
            // SAFETY: every buffer is our own, used by nothing else, and lives until the stream is synchronised below; on an error,
            // freeing memory and destroying the stream wait for the launches.
            unsafe { binding.launch(&stream) }?;
        }
        // SAFETY: as above.
        let seconds = unsafe { binding.time(timed, &stream) }?;
        stream.synchronize()?;
        for (host, device) in memory.buffers.iter_mut().zip(&buffers) {
            let mut bytes = vec![0; host.len()];
            device.download(&mut bytes)?;
            if bytes != host.bytes() {
                *host = Buffer::from_bytes(bytes);
            }
        }
        Ok(seconds)
    }
}

/// True if a text for that target runs on a device of that compute capability.
fn runs_on(target: &str, (major, minor): (u32, u32)) -> bool {
    let Some(number) = target.strip_prefix("sm_") else { return false };
    let exact = number.ends_with('a');
    match number.trim_end_matches('a').parse::<u32>() {
        Ok(n) if exact => n == major * 10 + minor,
        Ok(n) => n <= major * 10 + minor,
        Err(_) => false,
    }
}

/// Gives a text to the driver's assembler. A context must be current.
fn assemble(text: &CString, entry: &str) -> Result<sys::CUmodule, CudaError> {
    use sys::CUjit_option as O;
    let mut log = vec![0u8; LOG];
    let mut options = [O::CU_JIT_ERROR_LOG_BUFFER, O::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The driver takes numbers in place of pointers here.
    let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut::<c_void>(LOG)];
    let mut module = std::ptr::null_mut();
    // SAFETY: a context is current, the text ends with a zero byte, both option arrays have the given length, and the log buffer
    // is valid for the length that is passed with it.
    let code = unsafe {
        sys::cuModuleLoadDataEx(&mut module, text.as_ptr().cast(), options.len() as c_uint, options.as_mut_ptr(), values.as_mut_ptr())
    };
    if code == sys::CUresult::CUDA_SUCCESS {
        return Ok(module);
    }
    let end = log.iter().position(|&b| b == 0).unwrap_or(log.len());
    let log = String::from_utf8_lossy(&log[..end]).trim().to_owned();
    let (name, text) = describe(code);
    Err(CudaError::Jit { entry: entry.to_owned(), name, log: if log.is_empty() { text } else { log } })
}

impl CudaKernel {
    /// The artifact that was loaded.
    pub fn artifact(&self) -> &Artifact {
        &self.artifact
    }
    /// Registers per thread that the driver's assembler chose.
    pub fn registers(&self) -> u32 {
        self.registers
    }
    /// Bytes of local memory per thread; more than 0 means that registers were spilled.
    pub fn local_bytes(&self) -> u32 {
        self.local_bytes
    }

    /// Lets at most so many instances run, of a kernel whose instances take one grid position after the other; others run as they are.
    pub fn limit_instances(&mut self, most: u32) {
        self.resident = self.resident.map(|n| n.min(most.max(1)));
    }

    /// Checks arguments against the kernel's facts and fills the launch parameters. `args` refer to `buffers` by index.
    ///
    /// # Errors
    /// What of the arguments breaks a promise, or a grid beyond the device's limits.
    pub fn bind(&self, grid: [u32; 3], args: &[Arg], buffers: &[&CudaBuffer]) -> Result<Binding, CudaError> {
        let lent: Vec<Lent> = buffers.iter().map(|b| Lent { address: b.address(), len: b.len() as u64 }).collect();
        let bound = Bound::new(self.artifact.clone(), grid, args, &lent).map_err(CudaError::of_binding)?;
        let values = self.module.context.with(|| bound.values().iter().map(Value::of).collect())?;
        let mut binding = Binding {
            module: self.module.clone(),
            function: self.function,
            bound,
            resident: self.resident,
            values,
            pointers: Box::default(),
        };
        binding.point();
        Ok(binding)
    }

    /// The function's handle (a `CUfunction`), for a host that launches by itself. It is valid as long as the kernel lives.
    pub fn function(&self) -> *mut c_void {
        self.function.cast()
    }
}

/// A launch parameter as the driver takes it.
enum Value {
    Number(u64),
    Tensor(Encoded),
}

impl Value {
    /// The driver's form of a value. A context must be current.
    fn of(v: &ParamValue) -> Result<Value, CudaError> {
        match v {
            ParamValue::Number { bits, .. } => Ok(Value::Number(*bits)),
            ParamValue::Tensor(t) => encode(t).map(Value::Tensor),
        }
    }
}

/// Multiprocessors of the current context's device.
fn multiprocessors() -> Result<u32, CudaError> {
    let (mut device, mut count) = (0, 0);
    // SAFETY: a context is current, and the out pointer valid.
    check("cuCtxGetDevice", unsafe { sys::cuCtxGetDevice(&mut device) })?;
    let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    // SAFETY: the device is valid, and so is the out pointer.
    check("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&mut count, attribute, device) })?;
    Ok(count.max(1) as u32)
}

/// A kernel with its grid and arguments, ready to launch any number of times.
pub struct Binding {
    /// Keeps `function` loaded.
    module: Arc<Module>,
    function: sys::CUfunction,
    bound: Bound,
    resident: Option<u32>,
    /// What `pointers` point to.
    values: Box<[Value]>,
    pointers: Box<[*mut c_void]>,
}

// SAFETY: the pointers lead into the boxed values that move with the binding; the driver only reads them during a launch.
unsafe impl Send for Binding {}
// SAFETY: as above.
unsafe impl Sync for Binding {}

impl Binding {
    /// Gives a view other memory, from an offset in bytes on; extents and strides stay. Only that is checked.
    ///
    /// # Errors
    /// Memory that the view does not fit, that is less aligned than it promises, or that other arguments share; nothing is changed then.
    pub fn set_pointer(&mut self, param: usize, buffer: &CudaBuffer, offset_bytes: u64) -> Result<(), CudaError> {
        let lent = Lent { address: buffer.address(), len: buffer.len() as u64 };
        self.change(|bound| bound.set_pointer(param, lent, offset_bytes))
    }

    /// Gives a scalar argument another value.
    ///
    /// # Errors
    /// A value of another type.
    pub fn set_scalar(&mut self, param: usize, value: ScalarArg) -> Result<(), CudaError> {
        self.change(|bound| bound.set_scalar(param, value))
    }

    /// Gives one extent another value, and those that belong together with it.
    ///
    /// # Errors
    /// An extent that breaks what the kernel promises, or views that leave their memory; nothing is changed then.
    pub fn set_extent(&mut self, param: usize, dim: usize, extent: i64) -> Result<(), CudaError> {
        self.change(|bound| bound.set_extent(param, dim, extent))
    }

    /// Asks for another grid.
    ///
    /// # Errors
    /// A grid that the artifact's rule forbids.
    pub fn set_grid(&mut self, grid: [u32; 3]) -> Result<(), CudaError> {
        self.change(|bound| bound.set_grid(grid))
    }

    /// Changes what is bound, and the driver's form of what differs then.
    fn change(&mut self, how: impl FnOnce(&mut Bound) -> Result<(), BindError>) -> Result<(), CudaError> {
        let mut next = self.bound.clone();
        how(&mut next).map_err(CudaError::of_binding)?;
        let (had, want) = (self.bound.values(), next.values());
        let changed: Vec<Option<Value>> = self.module.context.with(|| {
            let one = |(n, v)| if had.get(n) == Some(v) { Ok(None) } else { Value::of(v).map(Some) };
            want.iter().enumerate().map(one).collect()
        })?;
        if had.len() == want.len() {
            for (place, value) in self.values.iter_mut().zip(changed) {
                if let Some(value) = value {
                    *place = value;
                }
            }
        } else {
            // One of them is not launched, and has none: all are new, or gone.
            self.values = changed.into_iter().flatten().collect();
        }
        self.bound = next;
        self.point();
        Ok(())
    }

    /// Points at the values. Numbers are little-endian in the low bytes of each word, so a pointer to the word points to the parameter.
    fn point(&mut self) {
        let pointer = |v: &Value| match v {
            Value::Number(bits) => std::ptr::from_ref(bits).cast_mut().cast::<c_void>(),
            Value::Tensor(t) => std::ptr::from_ref(t).cast_mut().cast::<c_void>(),
        };
        self.pointers = self.values.iter().map(pointer).collect();
    }

    /// The function's handle (a `CUfunction`), for a host that launches by itself.
    pub fn function(&self) -> *mut c_void {
        self.function.cast()
    }

    /// The blocks that are launched; one with a 0 in it is no launch.
    pub fn grid(&self) -> [u32; 3] {
        match self.resident {
            Some(n) if self.bound.has_work() => self.bound.artifact().grid_rule().blocks(self.bound.grid(), n),
            Some(_) | None => self.bound.artifact().grid_rule().blocks(self.bound.grid(), 1),
        }
    }

    /// The launch parameters as the driver takes them (`kernelParams`), tensor maps encoded; valid until the binding is changed or gone.
    pub fn params(&self) -> &[*mut c_void] {
        &self.pointers
    }

    /// Puts one launch on a stream: one driver call, no allocation, no check, no waiting. Of a grid without positions, nothing at all.
    ///
    /// # Errors
    /// A driver error.
    ///
    /// # Safety
    /// The buffers that the binding was made with must live until the launch has finished, and nothing else may use what the
    /// kernel writes while it runs.
    pub unsafe fn launch(&self, stream: &CudaStream) -> Result<(), CudaError> {
        if !self.bound.has_work() {
            return Ok(());
        }
        let ([x, y, z], artifact) = (self.grid(), self.bound.artifact());
        self.module.context.with(|| {
            let mut early = sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
            };
            let config = sys::CUlaunchConfig {
                gridDimX: x,
                gridDimY: y,
                gridDimZ: z,
                blockDimX: artifact.threads,
                blockDimY: 1,
                blockDimZ: 1,
                sharedMemBytes: artifact.shared_bytes,
                hStream: stream.raw,
                attrs: &mut early,
                numAttrs: u32::from(artifact.early_launch),
            };
            let params = self.pointers.as_ptr().cast_mut();
            // SAFETY: the function lives with the module we hold; the configuration and its attribute live until the call returns; the
            // pointers lead to as many values, of at least the sizes, as the entry has parameters; the caller vouches for the memory.
            // The driver does not write through `kernelParams`.
            check("cuLaunchKernelEx", unsafe { sys::cuLaunchKernelEx(&config, self.function, params, std::ptr::null_mut()) })
        })
    }

    /// The launch as a graph takes it; none if there is nothing to launch.
    pub(super) fn node(&self) -> Option<NodeLaunch> {
        let artifact = self.bound.artifact();
        self.bound.has_work().then(|| NodeLaunch {
            function: self.function,
            grid: self.grid(),
            block: [artifact.threads, 1, 1],
            shared_bytes: artifact.shared_bytes,
            params: self.pointers.as_ptr(),
            extra: std::ptr::null_mut(),
        })
    }

    /// Mean seconds per launch over `n` launches in a row, by the device's clock.
    ///
    /// # Errors
    /// A driver error.
    ///
    /// # Safety
    /// As [`Binding::launch`].
    pub unsafe fn time(&self, n: u32, stream: &CudaStream) -> Result<f64, CudaError> {
        let n = n.max(1);
        let total = stream.time(|| {
            for _ in 0..n {
                // SAFETY: the caller vouches for the memory.
                unsafe { self.launch(stream) }?;
            }
            Ok(())
        })?;
        Ok(total / f64::from(n))
    }
}

#[cfg(test)]
mod tests {
    use super::runs_on;

    #[test]
    fn targets_run_on_newer_devices_but_exact_ones_only_on_their_own() {
        assert!(runs_on("sm_80", (8, 0)) && runs_on("sm_80", (9, 0)) && !runs_on("sm_89", (8, 6)));
        assert!(runs_on("sm_90a", (9, 0)) && !runs_on("sm_90a", (10, 0)) && !runs_on("gfx942", (9, 0)));
    }
}
