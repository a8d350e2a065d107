//! The CUDA device: loads artifacts through the driver's JIT and launches them on streams.
//!
//! ```text
//! probe ─► CudaDevice (a context, own or borrowed) ─┬─ alloc ─► CudaBuffer ─────────┐
//!                                                   ├─ load(&Artifact) ─► CudaKernel ┴─ bind(grid, args) ─► Binding ─ launch(stream)
//!                                                   └─ stream() ─► CudaStream
//! ```
//!
//! No driver library, no device, an old driver: each is a [`CudaError`], never a panic. [`CudaKernel::bind`] does everything that
//! costs (checks, marshalling, allocation); [`Binding::launch`] is one driver call on the given stream, so it may be captured in
//! a graph ([`CudaStream::capture`]). [`CudaDevice::load_kept`] keeps what the driver's assembler made. Contexts, streams and pointers of a host engine are borrowed, never owned.

mod context;
mod error;
mod facts;
mod graph;
mod kernel;
mod machine_code;
mod probe;
mod tensor;

pub use context::{CudaBuffer, CudaDevice, CudaStream};
pub use error::CudaError;
pub use facts::Facts;
pub use graph::{CudaGraph, GraphLaunch};
pub use kernel::{Binding, CudaKernel};
pub use probe::probe;
