//! Machine code that the driver made of a text: kept in the compiler's store, so that the next process needs no assembler.
//!
//! ```text
//! artifact ─┬─ the store has code of this driver and device ─► cuModuleLoadData
//!           └─ it has not ─► the driver's JIT, now; in the background the driver's linker makes code of the text, for the store
//! ```

use super::context::CudaDevice;
use super::error::{CudaError, check};
use super::kernel::CudaKernel;
use crate::artifact::Artifact;
use crate::embed::Compiler;
use crate::key::Key;
use cudarc::driver::sys;
use std::ffi::{CString, c_void};
use std::sync::Arc;

impl CudaDevice {
    /// Loads an artifact as [`CudaDevice::load`] does, but without the driver's assembler where the compiler's store has machine code for this driver
    /// and device. Where it has none, the driver assembles now, and a thread of the background makes the code for next time. Code that the driver
    /// refuses is taken for missing.
    ///
    /// # Errors
    /// As [`CudaDevice::load`].
    pub fn load_kept(&self, artifact: &Arc<Artifact>, compiler: &Arc<Compiler>) -> Result<CudaKernel, CudaError> {
        let key = match artifact.key {
            // The text is the host's to change, whatever key it came with.
            Some(key) => key.derived("cubin", (self.maker()? + &artifact.text).as_bytes()),
            None => return self.load(artifact),
        };
        if let Some(code) = compiler.load(&key) {
            if let Ok(kernel) = self.load_code(artifact, &code) {
                compiler.count_driver_hit();
                return Ok(kernel);
            }
            compiler.discard(&key);
        }
        let kernel = compiler.time_driver(|| self.load(artifact))?;
        if compiler.has_store() {
            self.make_in_background(key, artifact.clone(), compiler);
        }
        Ok(kernel)
    }

    /// Who makes code, and for what: driver and device.
    fn maker(&self) -> Result<String, CudaError> {
        let mut version = 0;
        // SAFETY: the driver is there, since there is a device; the out pointer is valid.
        check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
        let (major, minor) = self.capability();
        Ok(format!("driver {version} capability {major}.{minor} {}", self.name()))
    }

    fn make_in_background(&self, key: Key, artifact: Arc<Artifact>, compiler: &Arc<Compiler>) {
        let (ordinal, weak) = (self.ordinal(), Arc::downgrade(compiler));
        compiler.in_background(key, move || {
            // The host may take back the context that it lends, and the compiler may be gone: this holds a context of its own.
            let Some(compiler) = weak.upgrade() else { return };
            match CudaDevice::of_handle(ordinal).and_then(|device| device.linked(&artifact.text)) {
                Ok(code) => compiler.save(&key, &code),
                Err(e) => log::debug!(target: "tilelift", "no machine code of @{} is kept: {e}", artifact.name),
            }
        });
    }

    /// The machine code that the driver's linker makes of a text.
    ///
    /// # Errors
    /// A driver error.
    pub fn linked(&self, text: &str) -> Result<Vec<u8>, CudaError> {
        let text = CString::new(text).map_err(|_| CudaError::ZeroByte)?;
        self.context.with(|| {
            let mut state = std::ptr::null_mut();
            // SAFETY: a context is current, there are no options, the out pointer is valid.
            let made = unsafe { sys::cuLinkCreate_v2(0, std::ptr::null_mut(), std::ptr::null_mut(), &mut state) };
            check("cuLinkCreate", made)?;
            let linker = Linker(state);
            let bytes = text.as_bytes_with_nul();
            let (data, kind) = (bytes.as_ptr().cast_mut().cast::<c_void>(), sys::CUjitInputType::CU_JIT_INPUT_PTX);
            let (name, options, values) = (c"tilelift".as_ptr(), std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: the linker is alive, the text is as long as is said and ends with a zero byte, which counts; there are no options. The driver
            // reads the text alone, and not after the call.
            let added = unsafe { sys::cuLinkAddData_v2(linker.0, kind, data, bytes.len(), name, 0, options, values) };
            check("cuLinkAddData", added)?;
            let (mut code, mut len) = (std::ptr::null_mut(), 0);
            // SAFETY: the linker is alive, both out pointers are valid.
            check("cuLinkComplete", unsafe { sys::cuLinkComplete(linker.0, &mut code, &mut len) })?;
            if code.is_null() {
                return Ok(Vec::new());
            }
            // SAFETY: the driver says that there are so many bytes, which live as long as the linker.
            Ok(unsafe { std::slice::from_raw_parts(code.cast::<u8>(), len) }.to_vec())
        })
    }
}

/// A linker; destroyed at the end, when its context is current.
struct Linker(sys::CUlinkState);

impl Drop for Linker {
    fn drop(&mut self) {
        // SAFETY: it was made and is destroyed once. Nothing can be done about an error here.
        let _ = unsafe { sys::cuLinkDestroy(self.0) };
    }
}
