//! What can go wrong on a HIP device.

use super::object::ObjectFault;
use crate::launch::{BindError, TensorParam, Unfilled};
use std::fmt;
use tilelift_interp::ArgError;

/// Why something on a HIP device failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HipError {
    /// There is no HIP library on this machine, or the named one can't be opened.
    NoLibrary {
        /// The library names that were tried.
        tried: String,
        /// What the system's loader said of the last of them.
        why: String,
    },
    /// The library lacks a function: it is too old, or none of HIP's.
    MissingFunction {
        /// The function.
        name: &'static str,
    },
    /// There is no such device.
    NoDevice {
        /// The device asked for.
        ordinal: u32,
        /// Devices found.
        count: u32,
    },
    /// A call of the library failed.
    Call {
        /// The call.
        call: &'static str,
        /// HIP's number of the error (`hipError_t`).
        code: i32,
        /// HIP's name of the error.
        name: String,
        /// HIP's description.
        text: String,
    },
    /// The name of the device's architecture is none.
    Architecture {
        /// What the library says.
        name: String,
    },
    /// The artifact is for another architecture than the device.
    Target {
        /// The artifact's target.
        artifact: String,
        /// The device's architecture.
        arch: String,
    },
    /// The artifact has no code object that the device could load.
    Object(ObjectFault),
    /// The entry's name contains a zero byte, which a string of the library can't.
    ZeroByte,
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
    /// A launch parameter describes a tensor, which is no kernel argument here.
    Tensor(TensorParam),
    /// A borrowed pointer is less aligned than a view promises.
    Alignment {
        /// The kernel parameter.
        param: usize,
        /// The address.
        address: u64,
        /// The promised alignment in bytes.
        align: u32,
    },
    /// A grid extent is above the limit, or there are too many threads along x.
    Grid {
        /// The grid.
        grid: [u32; 3],
        /// Threads of a block.
        threads: u32,
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

impl fmt::Display for HipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HipError::NoLibrary { tried, why } => {
                write!(f, "there is no HIP library here (tried {tried}; {why}); install ROCm's HIP runtime or use the simulator device")
            }
            HipError::MissingFunction { name } => write!(f, "the HIP library has no function {name}; install a newer ROCm"),
            HipError::NoDevice { ordinal, count } => {
                write!(
                    f,
                    "there is no HIP device {ordinal}: the library sees {count}; check HIP_VISIBLE_DEVICES or use the simulator device"
                )
            }
            HipError::Call { call, code, name, text } => write!(f, "{call} failed with {name} ({code}): {text}"),
            HipError::Architecture { name } => {
                write!(f, "the HIP library calls the device's architecture `{name}`, which is no name of one; install a newer ROCm")
            }
            HipError::Target { artifact, arch } => {
                write!(f, "the artifact is for {artifact}, but the device is {arch}; compile for the device's target")
            }
            HipError::Object(e) => e.fmt(f),
            HipError::ZeroByte => f.write_str("the entry name contains a zero byte"),
            HipError::SharedMemory { need, have } => {
                write!(
                    f,
                    "the kernel needs {need} bytes of shared memory per block, the device has {have}; use smaller tiles or fewer stages"
                )
            }
            HipError::Args(e) => e.fmt(f),
            HipError::Abi(e) => e.fmt(f),
            HipError::Bind(e) => e.fmt(f),
            HipError::Tensor(e) => e.fmt(f),
            HipError::Alignment { param, address, align } => {
                write!(f, "argument {param} is at {address:#x}, but the parameter promises alignment {align}; move it or declare `align`")
            }
            HipError::Grid { grid, threads } => {
                write!(
                    f,
                    "the grid is {grid:?} of blocks of {threads} threads; extents are at most 65535 along y and z, and less than \
                     2^32 threads along x"
                )
            }
            HipError::Length { device, host } => write!(f, "a copy of {host} bytes on the host and {device} bytes on the device"),
        }
    }
}

impl std::error::Error for HipError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            HipError::Object(e) => Some(e),
            HipError::Args(e) => Some(e),
            HipError::Abi(e) => Some(e),
            HipError::Bind(e) => Some(e),
            HipError::Tensor(e) => Some(e),
            HipError::NoLibrary { .. }
            | HipError::MissingFunction { .. }
            | HipError::NoDevice { .. }
            | HipError::Call { .. }
            | HipError::Architecture { .. }
            | HipError::Target { .. }
            | HipError::ZeroByte
            | HipError::SharedMemory { .. }
            | HipError::Alignment { .. }
            | HipError::Grid { .. }
            | HipError::Length { .. } => None,
        }
    }
}

impl HipError {
    /// Why arguments can't be launched with, in blocks of so many threads.
    pub(super) fn of_binding(e: BindError, grid: [u32; 3], threads: u32) -> HipError {
        match e {
            BindError::Grid(_) => HipError::Grid { grid, threads },
            BindError::Args(e) => HipError::Args(e),
            BindError::Unfilled(e) => HipError::Abi(e),
            BindError::Misaligned(m) => HipError::Alignment { param: m.param, address: m.address, align: m.align },
            BindError::Together { .. } | BindError::NoArgument { .. } => HipError::Bind(e),
        }
    }
}
