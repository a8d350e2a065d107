//! Loading artifacts, binding arguments, launching.

use super::buffer::HipBuffer;
use super::context::Context;
use super::device::{HipDevice, attribute};
use super::error::HipError;
use super::object;
use super::prototypes::Functions;
use super::stream::HipStream;
use super::types::{BUFFER_POINTER, BUFFER_SIZE, DeviceAttribute, Function, FunctionAttribute, Module, PARAM_END};
use crate::artifact::Artifact;
use crate::launch::{BindError, Bound, Lent, kernel_arguments};
use std::ffi::{CString, c_void};
use std::ptr::without_provenance_mut;
use std::sync::Arc;
use tilelift_interp::{Arg, Buffer, Memory, ScalarArg};

/// Dynamic shared memory of every launch: code objects say themselves what they need.
const DYNAMIC_SHARED: u32 = 0;

/// A loaded module; unloaded when the last kernel and binding that use it are gone.
struct LoadedModule {
    context: Arc<Context>,
    raw: Module,
    /// The library does not copy the code object.
    _image: Box<[u8]>,
}

// SAFETY: the library's modules may be used from any thread.
unsafe impl Send for LoadedModule {}
// SAFETY: as above; nothing is mutated through the handle.
unsafe impl Sync for LoadedModule {}

impl LoadedModule {
    /// Loads a code object that has been checked, on the current device.
    fn load(context: &Arc<Context>, functions: &Functions, image: Box<[u8]>) -> Result<LoadedModule, HipError> {
        let mut raw = Module::NONE;
        // SAFETY: the device is current and the out pointer valid; the image's tables lie inside it, as `object::check` has seen, and it
        // lives as long as the module.
        unsafe { functions.load_module(&mut raw, image.as_ptr().cast()) }?;
        Ok(LoadedModule { context: context.clone(), raw, _image: image })
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        // SAFETY: we loaded the module and unload it once. Nothing can be done about an error here.
        let _ = unsafe { self.context.functions().unload_module(self.raw) };
    }
}

/// A kernel loaded on a device.
pub struct HipKernel {
    module: Arc<LoadedModule>,
    function: Function,
    artifact: Arc<Artifact>,
    registers: u32,
    local_bytes: u32,
    /// Instances that run at once, of a kernel whose instances run several grid positions.
    resident: Option<u32>,
}

// SAFETY: the library's functions may be launched from any thread; they live as long as the module, which is held.
unsafe impl Send for HipKernel {}
// SAFETY: as above; nothing is mutated through the handle.
unsafe impl Sync for HipKernel {}

impl HipDevice {
    /// Loads an artifact's code object.
    ///
    /// # Errors
    /// An artifact for another architecture or without a code object, more shared memory than the device has, or an error of the library.
    pub fn load(&self, artifact: &Artifact) -> Result<HipKernel, HipError> {
        if artifact.target != self.arch() {
            return Err(HipError::Target { artifact: artifact.target.clone(), arch: self.arch().to_owned() });
        }
        object::check(&artifact.object, self.arch()).map_err(HipError::Object)?;
        if artifact.shared_bytes > self.shared_per_block() {
            return Err(HipError::SharedMemory { need: artifact.shared_bytes, have: self.shared_per_block() });
        }
        let entry = CString::new(artifact.entry.as_str()).map_err(|_| HipError::ZeroByte)?;
        self.context.with(|functions| {
            let module = Arc::new(LoadedModule::load(&self.context, functions, artifact.object.clone().into())?);
            let mut function = Function::NONE;
            // SAFETY: the module is loaded, the name ends with a zero byte, the out pointer is valid.
            unsafe { functions.module_function(&mut function, module.raw, entry.as_ptr()) }?;
            let number = |which| {
                let mut value = 0;
                // SAFETY: the function is of a loaded module, the out pointer is valid.
                unsafe { functions.function_attribute(&mut value, which, function) }?;
                Ok(value.max(0) as u32)
            };
            let registers = number(FunctionAttribute::NUM_REGS)?;
            let local_bytes = number(FunctionAttribute::LOCAL_SIZE_BYTES)?;
            let resident = if artifact.grid_rule().persistent {
                Some(resident(functions, self.context.ordinal(), function, artifact.threads)?)
            } else {
                None
            };
            Ok(HipKernel { module, function, artifact: Arc::new(artifact.clone()), registers, local_bytes, resident })
        })
    }

    /// Launches a kernel once over host memory: copies the buffers in, runs the grid, waits, and copies everything back.
    ///
    /// # Errors
    /// Arguments that break promises, or an error of the library.
    pub fn execute(&self, kernel: &HipKernel, grid: [u32; 3], args: &[Arg], memory: &mut Memory) -> Result<(), HipError> {
        self.execute_timed(kernel, grid, args, memory, 0, 1).map(|_| ())
    }

    /// As [`HipDevice::execute`], with `warm_up` launches and then `timed` ones on the same buffers (so the kernel should not read
    /// what it writes). Returns the mean seconds of the timed launches, by the device's clock.
    ///
    /// # Errors
    /// Arguments that break promises, or an error of the library.
    pub fn execute_timed(
        &self,
        kernel: &HipKernel,
        grid: [u32; 3],
        args: &[Arg],
        memory: &mut Memory,
        warm_up: u32,
        timed: u32,
    ) -> Result<f64, HipError> {
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
            // freeing memory waits for the launches.
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

/// Instances of a function that the device runs at once. It must be current.
fn resident(functions: &Functions, ordinal: i32, function: Function, threads: u32) -> Result<u32, HipError> {
    let units = attribute(functions, DeviceAttribute::MULTIPROCESSOR_COUNT, ordinal)?;
    let mut blocks = 0;
    // SAFETY: the function is of a loaded module, the out pointer is valid.
    unsafe { functions.blocks_per_multiprocessor(&mut blocks, function, threads as i32, DYNAMIC_SHARED as usize) }?;
    Ok(units.max(1).saturating_mul(blocks.max(1) as u32))
}

impl HipKernel {
    /// The artifact that was loaded.
    pub fn artifact(&self) -> &Artifact {
        &self.artifact
    }
    /// Registers per thread that the code object asks for.
    pub fn registers(&self) -> u32 {
        self.registers
    }
    /// Bytes of scratch memory per thread; more than 0 means that registers were spilled.
    pub fn local_bytes(&self) -> u32 {
        self.local_bytes
    }

    /// Lets at most so many instances run, of a kernel whose instances take one grid position after the other; others run as they are.
    pub fn limit_instances(&mut self, most: u32) {
        self.resident = self.resident.map(|n| n.min(most.max(1)));
    }

    /// Checks arguments against the kernel's facts and fills the argument buffer. `args` refer to `buffers` by index.
    ///
    /// # Errors
    /// What of the arguments breaks a promise, or a grid beyond the limits.
    pub fn bind(&self, grid: [u32; 3], args: &[Arg], buffers: &[&HipBuffer]) -> Result<Binding, HipError> {
        let lent: Vec<Lent> = buffers.iter().map(|b| Lent { address: b.address(), len: b.len() as u64 }).collect();
        let bound =
            Bound::new(self.artifact.clone(), grid, args, &lent).map_err(|e| HipError::of_binding(e, grid, self.artifact.threads))?;
        let mut binding =
            Binding { _module: self.module.clone(), function: self.function, bound, resident: self.resident, arguments: Box::default() };
        binding.arguments = binding.filled(&binding.bound)?;
        Ok(binding)
    }

    /// The function's handle (a `hipFunction_t`), for a host that launches by itself. It is valid as long as the kernel lives.
    pub fn function(&self) -> *mut c_void {
        self.function.0
    }
}

/// The blocks that are launched of what is bound, where so many run at once.
fn blocks(bound: &Bound, resident: Option<u32>) -> [u32; 3] {
    match resident {
        Some(n) if bound.has_work() => bound.artifact().grid_rule().blocks(bound.grid(), n),
        Some(_) | None => bound.artifact().grid_rule().blocks(bound.grid(), 1),
    }
}

/// A kernel with its grid and arguments, ready to launch any number of times.
pub struct Binding {
    /// Keeps `function` loaded.
    _module: Arc<LoadedModule>,
    function: Function,
    bound: Bound,
    resident: Option<u32>,
    arguments: Box<[u8]>,
}

// SAFETY: the library's functions may be launched from any thread; they live as long as the module, which is held.
unsafe impl Send for Binding {}
// SAFETY: as above; nothing is mutated through the handle.
unsafe impl Sync for Binding {}

impl Binding {
    /// The grid that is launched: of a kernel whose instances run several grid positions, a row of as many as run at once. One with a 0 in it
    /// is no launch.
    pub fn grid(&self) -> [u32; 3] {
        blocks(&self.bound, self.resident)
    }

    /// The argument buffer of what is bound, whose threads along x the library counts in 32 bits.
    fn filled(&self, bound: &Bound) -> Result<Box<[u8]>, HipError> {
        let threads = bound.artifact().threads;
        if blocks(bound, self.resident)[0].checked_mul(threads).is_none() {
            return Err(HipError::Grid { grid: bound.grid(), threads });
        }
        Ok(kernel_arguments(bound.values()).map_err(HipError::Tensor)?.into_boxed_slice())
    }

    /// Gives a view other memory, from an offset in bytes on; extents and strides stay. Only that is checked.
    ///
    /// # Errors
    /// Memory that the view does not fit, that is less aligned than it promises, or that other arguments share; nothing is changed then.
    pub fn set_pointer(&mut self, param: usize, buffer: &HipBuffer, offset_bytes: u64) -> Result<(), HipError> {
        let lent = Lent { address: buffer.address(), len: buffer.len() as u64 };
        self.change(|bound| bound.set_pointer(param, lent, offset_bytes))
    }

    /// Gives a scalar argument another value.
    ///
    /// # Errors
    /// A value of another type.
    pub fn set_scalar(&mut self, param: usize, value: ScalarArg) -> Result<(), HipError> {
        self.change(|bound| bound.set_scalar(param, value))
    }

    /// Gives one extent another value, and those that belong together with it.
    ///
    /// # Errors
    /// An extent that breaks what the kernel promises, or views that leave their memory; nothing is changed then.
    pub fn set_extent(&mut self, param: usize, dim: usize, extent: i64) -> Result<(), HipError> {
        self.change(|bound| bound.set_extent(param, dim, extent))
    }

    /// Asks for another grid.
    ///
    /// # Errors
    /// A grid that the artifact's rule forbids.
    pub fn set_grid(&mut self, grid: [u32; 3]) -> Result<(), HipError> {
        self.change(|bound| bound.set_grid(grid))
    }

    fn change(&mut self, how: impl FnOnce(&mut Bound) -> Result<(), BindError>) -> Result<(), HipError> {
        let mut next = self.bound.clone();
        how(&mut next).map_err(|e| HipError::of_binding(e, self.bound.grid(), self.bound.artifact().threads))?;
        (self.arguments, self.bound) = (self.filled(&next)?, next);
        Ok(())
    }

    /// The function's handle (a `hipFunction_t`), for a host that launches by itself.
    pub fn function(&self) -> *mut c_void {
        self.function.0
    }

    /// The argument buffer.
    pub fn arguments(&self) -> &[u8] {
        &self.arguments
    }

    /// Puts one launch on a stream: one call of the library, no allocation, no check, no waiting. (For a default stream, the device is made
    /// current around it.)
    ///
    /// # Errors
    /// An error of the library.
    ///
    /// # Safety
    /// The buffers that the binding was made with must live until the launch has finished, and nothing else may use what the
    /// kernel writes while it runs.
    pub unsafe fn launch(&self, stream: &HipStream) -> Result<(), HipError> {
        if !self.bound.has_work() {
            return Ok(());
        }
        let mut bytes = self.arguments.len();
        let mut extra: [*mut c_void; 5] = [
            without_provenance_mut(BUFFER_POINTER),
            self.arguments.as_ptr().cast_mut().cast(),
            without_provenance_mut(BUFFER_SIZE),
            std::ptr::from_mut(&mut bytes).cast(),
            without_provenance_mut(PARAM_END),
        ];
        let ([x, y, z], no_params) = (self.grid(), std::ptr::null_mut());
        // SAFETY: the function lives with the module we hold; `extra` and what it points to live until the call returns, which reads the
        // buffer and keeps none of it; the buffer is laid out as the code object's arguments; the caller vouches for the memory.
        stream.put(|functions, raw| unsafe {
            functions.launch(
                self.function,
                x,
                y,
                z,
                self.bound.artifact().threads,
                1,
                1,
                DYNAMIC_SHARED,
                raw,
                no_params,
                extra.as_mut_ptr(),
            )
        })
    }

    /// Mean seconds per launch over `n` launches in a row, by the device's clock.
    ///
    /// # Errors
    /// An error of the library.
    ///
    /// # Safety
    /// As [`Binding::launch`].
    pub unsafe fn time(&self, n: u32, stream: &HipStream) -> Result<f64, HipError> {
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
