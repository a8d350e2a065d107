//! Launches that are captured once and replayed: what an engine does with a step that it runs for every token.

use super::context::{Context, CudaStream};
use super::error::{CudaError, check};
use cudarc::driver::sys;
use std::sync::Arc;

/// Work of a stream that can be put on a stream again, with one call of the driver.
pub struct CudaGraph {
    context: Arc<Context>,
    raw: sys::CUgraphExec,
}

// SAFETY: the driver's executable graphs may be used from any thread.
unsafe impl Send for CudaGraph {}
// SAFETY: as above; the driver orders launches of one graph itself.
unsafe impl Sync for CudaGraph {}

impl CudaStream {
    /// Captures what `f` puts on the stream instead of running it. The stream may not be the default one, and `f` waits for nothing.
    ///
    /// # Errors
    /// What `f` returns, or a driver error.
    pub fn capture(&self, f: impl FnOnce() -> Result<(), CudaError>) -> Result<CudaGraph, CudaError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive.
        self.context.with(|| check("cuStreamBeginCapture", unsafe { sys::cuStreamBeginCapture_v2(self.raw, mode) }))?;
        let done = f();
        self.context.with(|| {
            let mut template = std::ptr::null_mut();
            // SAFETY: the capture was begun above, and the out pointer is valid.
            let ended = check("cuStreamEndCapture", unsafe { sys::cuStreamEndCapture(self.raw, &mut template) });
            let mut raw = std::ptr::null_mut();
            // SAFETY: the template is the captured one, and the out pointer valid.
            let mut make = || check("cuGraphInstantiate", unsafe { sys::cuGraphInstantiateWithFlags(&mut raw, template, 0) });
            let made = done.and(ended).and_then(|()| make());
            if !template.is_null() {
                // SAFETY: the template is ours and destroyed once; what was made of it does not need it. Nothing can be done about an error here.
                let _ = unsafe { sys::cuGraphDestroy(template) };
            }
            made.map(|()| CudaGraph { context: self.context.clone(), raw })
        })
    }
}

impl CudaGraph {
    /// Puts the captured work on a stream.
    ///
    /// # Errors
    /// A driver error.
    ///
    /// # Safety
    /// Kernels (or bindings) and buffers of the captured launches must live until the work has finished, and nothing else may use what it writes
    /// meanwhile.
    pub unsafe fn launch(&self, stream: &CudaStream) -> Result<(), CudaError> {
        // SAFETY: the graph and the stream are alive; the caller vouches for what was captured.
        self.context.with(|| check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(self.raw, stream.raw) }))
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        // SAFETY: we made the graph and destroy it once; the driver finishes its work first. Nothing can be done about an error here.
        let _ = self.context.with(|| check("cuGraphExecDestroy", unsafe { sys::cuGraphExecDestroy(self.raw) }));
    }
}
