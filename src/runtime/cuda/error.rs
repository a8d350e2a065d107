//! What can go wrong on a CUDA device.

use crate::launch::{BindError, GridError, Unfilled};
use cudarc::driver::sys;
use std::ffi::CStr;
use std::fmt;
use tilelift_interp::ArgError;

/// Why something on a CUDA device failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CudaError {
    /// There is no driver library on this machine.
    NoDriver {
        /// The library names that were tried.
        tried: String,
    },
    /// The library that was found stands in for a driver when programs are linked, and does nothing.
    StubDriver {
        /// The name that led to it.
        library: &'static str,
    },
    /// The driver library lacks a function: it is too old.
    MissingFunction {
        /// The function.
        name: &'static str,
    },
    /// The driver is older than the oldest supported version (`1000 * major + 10 * minor`, as the driver counts).
    OldDriver {
        /// The version found.
        version: i32,
        /// The oldest supported version.
        need: i32,
    },
    /// There is no such device.
    NoDevice {
        /// The device asked for.
        ordinal: u32,
        /// Devices found.
        count: u32,
    },
    /// A call of the driver failed.
    Driver {
        /// The call.
        call: &'static str,
        /// The driver's name of the error.
        name: String,
        /// The driver's description.
        text: String,
    },
    /// The driver's assembler refused a text.
    Jit {
        /// The entry point.
        entry: String,
        /// The driver's name of the error.
        name: String,
        /// The assembler's log.
        log: String,
    },
    /// A text contains a zero byte, which a driver string can't.
    ZeroByte,
    /// A launch of a graph is asked for, or changed, where there is none.
    Capture {
        /// What is wrong.
        why: &'static str,
    },
    /// The artifact is for another architecture than the device.
    Target {
        /// The artifact's target.
        artifact: String,
        /// The device's compute capability.
        capability: (u32, u32),
    },
    /// The device has less shared memory per block than the artifact needs.
    SharedMemory {
        /// Bytes needed.
        need: u32,
        /// Bytes that a block may have.
        have: u32,
    },
    /// The arguments break what the kernel's parameters promise.
    Args(ArgError),
    /// The arguments do not fill the launch parameters.
    Abi(Unfilled),
    /// A borrowed pointer is less aligned than a view promises.
    Alignment {
        /// The kernel parameter.
        param: usize,
        /// The address.
        address: u64,
        /// The promised alignment in bytes.
        align: u32,
    },
    /// A grid extent is above the device's limit.
    Grid {
        /// The grid.
        grid: [u32; 3],
    },
    /// The grid is no multiple of the kernel's clusters along x.
    Cluster {
        /// The grid.
        grid: [u32; 3],
        /// Program instances of a cluster.
        cluster: u32,
    },
    /// The arguments can't be launched with, for another reason.
    Bind(BindError),
    /// A copy whose sides differ in length, or that leaves a buffer.
    Length {
        /// Bytes on the device.
        device: usize,
        /// Bytes on the host.
        host: usize,
    },
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CudaError::NoDriver { tried } => {
                write!(f, "there is no CUDA driver library here (tried {tried}); install the NVIDIA driver or use the simulator device")
            }
            CudaError::StubDriver { library } => write!(
                f,
                "{library} is the stub that programs are linked with, not a driver; take its folder off LD_LIBRARY_PATH, or install the NVIDIA driver"
            ),
            CudaError::MissingFunction { name } => write!(f, "the CUDA driver library has no function {name}; install a newer driver"),
            CudaError::OldDriver { version, need } => write!(
                f,
                "the driver supports CUDA {}.{}, but {}.{} is needed; install a newer driver",
                version / 1000,
                version % 1000 / 10,
                need / 1000,
                need % 1000 / 10
            ),
            CudaError::NoDevice { ordinal, count } => {
                write!(
                    f,
                    "there is no CUDA device {ordinal}: the driver sees {count}; check CUDA_VISIBLE_DEVICES or use the simulator device"
                )
            }
            CudaError::Driver { call, name, text } => write!(f, "{call} failed with {name}: {text}"),
            CudaError::Jit { entry, name, log } => write!(f, "the driver refuses the text of `{entry}` ({name}):\n{log}"),
            CudaError::Capture { why } => f.write_str(why),
            CudaError::ZeroByte => f.write_str("the text or entry name contains a zero byte"),
            CudaError::Target { artifact, capability: (major, minor) } => {
                write!(
                    f,
                    "the artifact is for {artifact}, but the device has compute capability {major}.{minor}; compile for the device's target"
                )
            }
            CudaError::SharedMemory { need, have } => {
                write!(
                    f,
                    "the kernel needs {need} bytes of shared memory per block, the device has {have}; use smaller tiles or fewer stages"
                )
            }
            CudaError::Args(e) => e.fmt(f),
            CudaError::Bind(e) => e.fmt(f),
            CudaError::Abi(e) => e.fmt(f),
            CudaError::Alignment { param, address, align } => {
                write!(f, "argument {param} is at {address:#x}, but the parameter promises alignment {align}; move it or declare `align`")
            }
            CudaError::Grid { grid } => {
                write!(f, "the grid is {grid:?}; extents are at most {} along x and 65535 along y and z", i32::MAX)
            }
            CudaError::Cluster { grid, cluster } => {
                write!(f, "the grid {grid:?} is no multiple of clusters of {cluster} along x; pad it")
            }
            CudaError::Length { device, host } => write!(f, "a copy of {host} bytes on the host and {device} bytes on the device"),
        }
    }
}

impl std::error::Error for CudaError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CudaError::Args(e) => Some(e),
            CudaError::Abi(e) => Some(e),
            CudaError::Bind(e) => Some(e),
            CudaError::NoDriver { .. }
            | CudaError::StubDriver { .. }
            | CudaError::MissingFunction { .. }
            | CudaError::OldDriver { .. }
            | CudaError::NoDevice { .. }
            | CudaError::Driver { .. }
            | CudaError::Jit { .. }
            | CudaError::ZeroByte
            | CudaError::Capture { .. }
            | CudaError::Target { .. }
            | CudaError::SharedMemory { .. }
            | CudaError::Alignment { .. }
            | CudaError::Grid { .. }
            | CudaError::Cluster { .. }
            | CudaError::Length { .. } => None,
        }
    }
}

/// The name and description of a driver error.
pub(super) fn describe(code: sys::CUresult) -> (String, String) {
    let mut name = std::ptr::null();
    let mut text = std::ptr::null();
    // SAFETY: the driver library is loaded (the code came from it), and both out pointers are valid; the driver sets them to
    // static strings, or to null for a code it does not know.
    let read =
        |p: *const std::ffi::c_char| if p.is_null() { None } else { Some(unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned()) };
    // SAFETY: as above.
    unsafe {
        let _ = sys::cuGetErrorName(code, &mut name);
        let _ = sys::cuGetErrorString(code, &mut text);
    }
    (read(name).unwrap_or_else(|| format!("error {}", code as u32)), read(text).unwrap_or_else(|| "no description".into()))
}

/// Turns a driver result into a typed one.
pub(super) fn check(call: &'static str, code: sys::CUresult) -> Result<(), CudaError> {
    if code == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let (name, text) = describe(code);
    Err(CudaError::Driver { call, name, text })
}

impl CudaError {
    /// Why arguments can't be launched with.
    pub(super) fn of_binding(e: BindError) -> CudaError {
        match e {
            BindError::Grid(GridError::Cluster { grid, cluster }) => CudaError::Cluster { grid, cluster },
            BindError::Grid(GridError::TooLarge { grid, .. } | GridError::Positions { grid, .. }) => CudaError::Grid { grid },
            BindError::Args(e) => CudaError::Args(e),
            BindError::Unfilled(e) => CudaError::Abi(e),
            BindError::Misaligned(m) => CudaError::Alignment { param: m.param, address: m.address, align: m.align },
            BindError::Grid(GridError::Instances { .. }) | BindError::Together { .. } | BindError::NoArgument { .. } => CudaError::Bind(e),
        }
    }
}
