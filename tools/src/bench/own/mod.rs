//! Launches of an author's own kernels: checked by samples, counted, timed.
//!
//! ```text
//! FILE, launches ─► Job ─► tensors ─► sampled instances on the interpreter ─┬─► gpu   run once, compared; then timed with a cold cache (cuda, hip)
//!                                └─► operations of dots, bytes of tensors  └─► sim   the same instances in the simulator: counts
//! ```

#[cfg(feature = "cuda")]
mod cuda;
mod flops;
#[cfg(any(feature = "cuda", feature = "hip"))]
pub(crate) mod gpu;
#[cfg(feature = "hip")]
#[allow(unsafe_code)] // launches on borrowed buffers; every use says why it is sound
mod hip;
pub(crate) mod launches;
mod ready;
mod sample;
mod timed;

pub(crate) use ready::{Job, NotBenched, ready};
