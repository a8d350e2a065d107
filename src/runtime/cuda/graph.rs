//! Launches that are captured once and replayed: what an engine does with a step that it runs for every token. What changes from replay to replay lies in
//! memory, or is a launch that is given other arguments.
//!
//! ```text
//! capture(f) ── f: Binding::launch, captured() ─► GraphLaunch ─┐
//!     └─► CudaGraph ── launch(stream) … ◄── update(GraphLaunch, Binding) ┘
//! ```

use super::context::{Context, CudaStream};
use super::error::{CudaError, check};
use super::kernel::Binding;
use super::probe::graphs;
use cudarc::driver::sys;
use std::sync::Arc;

/// Work of a stream that can be put on a stream again, with one call of the driver.
pub struct CudaGraph {
    context: Arc<Context>,
    raw: sys::CUgraphExec,
    /// What it was made of: launches are known by its nodes.
    template: sys::CUgraph,
    /// Number of the capture, if the driver tells.
    capture: Option<u64>,
}

// SAFETY: the driver's executable graphs may be used from any thread.
unsafe impl Send for CudaGraph {}
// SAFETY: as above; the driver orders launches of one graph itself, and changes take the graph for themselves.
unsafe impl Sync for CudaGraph {}

/// A launch of a graph, which can be given other arguments.
#[derive(Clone, Copy, Debug)]
pub struct GraphLaunch {
    node: sys::CUgraphNode,
    capture: u64,
}

// SAFETY: a name of the driver's, which only `CudaGraph::update` uses.
unsafe impl Send for GraphLaunch {}
// SAFETY: as above.
unsafe impl Sync for GraphLaunch {}

/// `CU_STREAM_CAPTURE_STATUS_ACTIVE`.
const CAPTURING: u32 = 1;

/// Number of the capture on a stream, and the node that comes last, if there is one.
fn capturing(stream: sys::CUstream) -> Result<Option<(u64, Option<sys::CUgraphNode>)>, CudaError> {
    let call = graphs()?.capture_info;
    let (mut status, mut number, mut graph) = (0, 0, std::ptr::null_mut());
    let (mut nodes, mut count) = (std::ptr::null(), 0);
    // SAFETY: the stream is alive, and the out pointers are valid.
    check("cuStreamGetCaptureInfo", unsafe { call(stream, &mut status, &mut number, &mut graph, &mut nodes, &mut count) })?;
    if status != CAPTURING {
        return Ok(None);
    }
    // SAFETY: the driver says that there are so many nodes; the list is its own until the next call on the stream.
    let last = if count == 1 && !nodes.is_null() { Some(unsafe { nodes.read() }) } else { None };
    Ok(Some((number, last)))
}

impl CudaStream {
    /// Captures what `f` puts on the stream instead of running it. The stream may not be the default one, and `f` waits for nothing.
    ///
    /// # Errors
    /// What `f` returns, or a driver error.
    pub fn capture(&self, f: impl FnOnce() -> Result<(), CudaError>) -> Result<CudaGraph, CudaError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive.
        self.context.with(|| check("cuStreamBeginCapture", unsafe { sys::cuStreamBeginCapture_v2(self.raw, mode) }))?;
        // A driver that does not tell has graphs all the same.
        let capture = self.context.with(|| capturing(self.raw)).ok().flatten().map(|c| c.0);
        let done = f();
        self.context.with(|| {
            let mut template = std::ptr::null_mut();
            // SAFETY: the capture was begun above, and the out pointer is valid.
            let ended = check("cuStreamEndCapture", unsafe { sys::cuStreamEndCapture(self.raw, &mut template) });
            let mut raw = std::ptr::null_mut();
            // SAFETY: the template is the captured one, and the out pointer valid.
            let mut make = || check("cuGraphInstantiate", unsafe { sys::cuGraphInstantiateWithFlags(&mut raw, template, 0) });
            match done.and(ended).and_then(|()| make()) {
                Ok(()) => Ok(CudaGraph { context: self.context.clone(), raw, template, capture }),
                Err(e) => {
                    if !template.is_null() {
                        // SAFETY: the template is ours and destroyed once. Nothing can be done about an error here.
                        let _ = unsafe { sys::cuGraphDestroy(template) };
                    }
                    Err(e)
                }
            }
        })
    }

    /// The launch that was captured last, to be given other arguments later ([`CudaGraph::update`]); to be asked inside of [`CudaStream::capture`], right
    /// behind [`Binding::launch`].
    ///
    /// # Errors
    /// [`CudaError::Capture`]: nothing is captured, or nothing was launched; a driver before CUDA 11.6, or its error.
    pub fn captured(&self) -> Result<GraphLaunch, CudaError> {
        match self.context.with(|| capturing(self.raw))? {
            Some((capture, Some(node))) => Ok(GraphLaunch { node, capture }),
            Some((_, None)) => Err(CudaError::Capture { why: "nothing is captured yet on this stream, so there is no launch to name" }),
            None => Err(CudaError::Capture { why: "the stream captures nothing: ask for the launch inside of `capture`" }),
        }
    }
}

impl CudaGraph {
    /// Puts the captured work on a stream.
    ///
    /// # Errors
    /// A driver error.
    ///
    /// # Safety
    /// Kernels (or bindings) and buffers of the captured launches, or of what they were given since, must live until the work has finished, and nothing
    /// else may use what it writes meanwhile.
    pub unsafe fn launch(&self, stream: &CudaStream) -> Result<(), CudaError> {
        // SAFETY: the graph and the stream are alive; the caller vouches for what was captured.
        self.context.with(|| check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(self.raw, stream.raw) }))
    }

    /// Gives a launch the grid and arguments of a binding of the kernel, from the next replay on; those that are on a stream already keep what they had. A
    /// grid without positions is no work: the launch does nothing until it is given another.
    ///
    /// # Errors
    /// [`CudaError::Capture`]: the launch is another graph's; a driver before CUDA 11.6, or its error.
    pub fn update(&mut self, launch: GraphLaunch, binding: &Binding) -> Result<(), CudaError> {
        if self.capture != Some(launch.capture) {
            return Err(CudaError::Capture { why: "the launch is another graph's; take one that was captured with this one" });
        }
        let (functions, node) = (graphs()?, binding.node());
        self.context.with(|| {
            if let Some(node) = &node {
                // SAFETY: graph and node are alive, as the template is; the parameters are copied before the call returns.
                check("cuGraphExecKernelNodeSetParams", unsafe { (functions.set_launch)(self.raw, launch.node, node) })?;
            }
            // SAFETY: as above.
            check("cuGraphNodeSetEnabled", unsafe { (functions.set_enabled)(self.raw, launch.node, u32::from(node.is_some())) })
        })
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        let _ = self.context.with(|| {
            // SAFETY: we made graph and template and destroy each once; the driver finishes its work first. Nothing can be done about an error here.
            let done = check("cuGraphExecDestroy", unsafe { sys::cuGraphExecDestroy(self.raw) });
            // SAFETY: as above.
            done.and(check("cuGraphDestroy", unsafe { sys::cuGraphDestroy(self.template) }))
        });
    }
}
