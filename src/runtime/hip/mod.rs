//! The HIP device: loads code objects through AMD's HIP runtime and launches them on streams.
//!
//! ```text
//! probe ─► HipLibrary ─► HipDevice (one of the library's devices) ─┬─ alloc ─► HipBuffer ─────────┐
//!                                                                  ├─ load(&Artifact) ─► HipKernel ┴─ bind(grid, args) ─► Binding ─ launch(stream)
//!                                                                  └─ stream() ─► HipStream
//! ```
//!
//! The library is opened at run time: no ROCm is needed to build this. No library, an old one, no device, code for another chip: each is a
//! [`HipError`], never a panic. [`HipKernel::bind`] does everything that costs (checks, marshalling, allocation); [`Binding::launch`] is one
//! call of the library on the given stream, so it may be captured in a graph. Streams and pointers of a host engine are borrowed, never owned.
//!
//! HIP has one context per device, which all libraries of a process share and nobody owns: [`HipDevice::new`] takes a device by number, as a
//! host does, and [`HipDevice::current`] the one that the host made current. Calls make the device current and restore what the thread had.

mod buffer;
mod context;
mod device;
mod error;
mod facts;
mod kernel;
mod library;
mod object;
mod prototypes;
mod stream;
mod types;

#[cfg(test)]
mod headers;

pub use buffer::HipBuffer;
pub use device::HipDevice;
pub use error::HipError;
pub use facts::Facts;
pub use kernel::{Binding, HipKernel};
pub use library::{HipLibrary, LIBRARY_VARIABLE, probe};
pub use object::ObjectFault;
pub use stream::HipStream;
