//! Devices: where artifacts run.
//!
//! ```text
//! Artifact ─┬─► cuda::CudaDevice   driver JIT, streams, events; absence of a driver is a typed error
//!           ├─► hip::HipDevice     code objects through AMD's HIP; absence of the library is a typed error
//!           └─► sim::SimDevice     the simulator of the text; runs anywhere, reports races, poison and counts
//! ```
//!
//! Every device checks the arguments against the facts of the kernel's parameters before it launches, with the check of the
//! interpreter ([`crate::launch::check`]), so a launch that one device accepts is accepted by all.

#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // the CUDA driver interface is C; every use says why it is sound
pub mod cuda;
#[cfg(feature = "hip")]
#[allow(unsafe_code)] // the HIP interface is C; every use says why it is sound
pub mod hip;
#[cfg(feature = "sim")]
pub mod sim;
