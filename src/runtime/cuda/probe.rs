//! Is there a usable driver? Asked before the first call, because the bindings panic when the library is missing.

use super::error::{CudaError, check};
use cudarc::driver::sys;
use std::ffi::c_void;
use std::sync::OnceLock;

/// The oldest supported driver, as the driver counts: CUDA 11.4, the oldest that the bindings know.
const OLDEST: i32 = 11040;

/// Names under which the driver library is found, in the order in which the bindings try them: what is looked at here is what they open.
#[cfg(windows)]
const LIBRARIES: &[&str] = &["cuda.dll", "nvcuda.dll"];
#[cfg(target_os = "macos")]
const LIBRARIES: &[&str] = &["libcuda.dylib"];
#[cfg(not(any(windows, target_os = "macos")))]
const LIBRARIES: &[&str] = &["libcuda.so", "libcuda.so.1"];

/// Every function of the driver that this module calls.
const FUNCTIONS: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuModuleLoadDataEx",
    "cuModuleLoadData",
    "cuLinkCreate_v2",
    "cuLinkAddData_v2",
    "cuLinkComplete",
    "cuLinkDestroy",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuLaunchKernelEx",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemsetD8_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuCtxGetDevice",
    "cuDeviceTotalMem_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
];

/// `cuInit`, with its answer as a number: of a library that is no driver it may be anything.
type Init = unsafe extern "C" fn(u32) -> u32;

/// What `cuInit` answers: it is done, the library is the one that programs are linked with where there is no driver, there is no device.
const DONE: u32 = 0;
const STUB: u32 = 34;
const NO_DEVICE: u32 = 100;

/// `cuEventElapsedTime`: the bindings name it differently from one CUDA version to the next, the driver keeps the first name.
pub(super) type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;

/// `cuTensorMapEncodeTiled`, which drivers before CUDA 12 lack: description, element type, rank, address, extents, strides, box,
/// element strides, interleaving, swizzle, promotion in L2, filling outside.
pub(super) type EncodeTiled = unsafe extern "C" fn(
    *mut c_void,
    u32,
    u32,
    *mut c_void,
    *const u64,
    *const u64,
    *const u32,
    *const u32,
    u32,
    u32,
    u32,
    u32,
) -> sys::CUresult;

/// `cuStreamGetCaptureInfo_v2`, which later bindings do not have, and drivers keep: stream, whether it captures, the capture's number, its graph, the
/// nodes that what comes next depends on, and how many.
type CaptureInfo =
    unsafe extern "C" fn(sys::CUstream, *mut u32, *mut u64, *mut sys::CUgraph, *mut *const sys::CUgraphNode, *mut usize) -> sys::CUresult;

/// `cuGraphExecKernelNodeSetParams`, by its first form.
type SetLaunch = unsafe extern "C" fn(sys::CUgraphExec, sys::CUgraphNode, *const NodeLaunch) -> sys::CUresult;

/// `cuGraphNodeSetEnabled`: whether a node does anything.
type SetEnabled = unsafe extern "C" fn(sys::CUgraphExec, sys::CUgraphNode, u32) -> sys::CUresult;

/// `CUDA_KERNEL_NODE_PARAMS_v1`.
#[repr(C)]
pub(super) struct NodeLaunch {
    pub(super) function: sys::CUfunction,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared_bytes: u32,
    pub(super) params: *const *mut c_void,
    pub(super) extra: *mut *mut c_void,
}

/// Functions that change the launches of a graph: drivers from CUDA 11.6 on have them.
#[derive(Clone, Copy)]
pub(super) struct GraphFunctions {
    pub(super) capture_info: CaptureInfo,
    pub(super) set_launch: SetLaunch,
    pub(super) set_enabled: SetEnabled,
}

/// What a successful look leaves behind.
struct Driver {
    elapsed: Elapsed,
    encode_tiled: Option<EncodeTiled>,
    graphs: Option<GraphFunctions>,
    /// Keeps `elapsed` loaded.
    _library: libloading::Library,
}

fn driver() -> Result<&'static Driver, CudaError> {
    static DRIVER: OnceLock<Result<Driver, CudaError>> = OnceLock::new();
    DRIVER.get_or_init(look).as_ref().map_err(CudaError::clone)
}

/// Looks for the driver library and its functions, initialises the driver and checks its version. Later calls repeat the answer.
///
/// # Errors
/// [`CudaError::NoDriver`], [`CudaError::StubDriver`], [`CudaError::MissingFunction`], [`CudaError::OldDriver`], [`CudaError::NoDevice`] or
/// [`CudaError::Driver`].
pub fn probe() -> Result<(), CudaError> {
    driver().map(|_| ())
}

/// The function that tells the time between two events.
pub(super) fn elapsed() -> Result<Elapsed, CudaError> {
    driver().map(|d| d.elapsed)
}

/// The function that describes tensors for bulk copies.
pub(super) fn encode_tiled() -> Result<EncodeTiled, CudaError> {
    driver()?.encode_tiled.ok_or(CudaError::MissingFunction { name: "cuTensorMapEncodeTiled" })
}

/// The functions that change launches of a graph.
pub(super) fn graphs() -> Result<GraphFunctions, CudaError> {
    driver()?.graphs.ok_or(CudaError::MissingFunction { name: "cuGraphNodeSetEnabled" })
}

fn graph_functions(library: &libloading::Library) -> Option<GraphFunctions> {
    // SAFETY: the types are the functions', by the driver's header: enumerations are unsigned integers there.
    unsafe {
        Some(GraphFunctions {
            capture_info: *library.get::<CaptureInfo>(b"cuStreamGetCaptureInfo_v2").ok()?,
            set_launch: *library.get::<SetLaunch>(b"cuGraphExecKernelNodeSetParams").ok()?,
            set_enabled: *library.get::<SetEnabled>(b"cuGraphNodeSetEnabled").ok()?,
        })
    }
}

fn look() -> Result<Driver, CudaError> {
    // SAFETY: loading the driver library runs its initialisers, which are meant to run in any process.
    let library = LIBRARIES.iter().find_map(|&name| Some((name, unsafe { libloading::Library::new(name) }.ok()?)));
    let Some((name, library)) = library else {
        return Err(CudaError::NoDriver { tried: LIBRARIES.join(", ") });
    };
    for &name in FUNCTIONS {
        // SAFETY: the symbol is only looked up, never called through this type.
        let found = unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok();
        if !found {
            return Err(CudaError::MissingFunction { name });
        }
    }
    // SAFETY: the type is the function's, by the driver's header; the library is kept for as long as the pointer.
    let elapsed = match unsafe { library.get::<Elapsed>(b"cuEventElapsedTime") } {
        Ok(symbol) => *symbol,
        Err(_) => return Err(CudaError::MissingFunction { name: "cuEventElapsedTime" }),
    };
    // SAFETY: the type is the function's, by the driver's header: enumerations are unsigned integers there.
    let encode_tiled = unsafe { library.get::<EncodeTiled>(b"cuTensorMapEncodeTiled") }.map(|symbol| *symbol).ok();
    // SAFETY: the type is the function's, by the driver's header.
    let Ok(init) = (unsafe { library.get::<Init>(b"cuInit") }) else {
        return Err(CudaError::MissingFunction { name: "cuInit" });
    };
    // SAFETY: cuInit may be called at any time, any number of times.
    match unsafe { init(0) } {
        DONE => {}
        STUB => return Err(CudaError::StubDriver { library: name }),
        NO_DEVICE => return Err(CudaError::NoDevice { ordinal: 0, count: 0 }),
        // SAFETY: as above; the bindings open the same library.
        _ => check("cuInit", unsafe { sys::cuInit(0) })?,
    }
    let mut version = 0;
    // SAFETY: the out pointer is valid.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
    if version < OLDEST {
        Err(CudaError::OldDriver { version, need: OLDEST })
    } else {
        let graphs = graph_functions(&library);
        Ok(Driver { elapsed, encode_tiled, graphs, _library: library })
    }
}
