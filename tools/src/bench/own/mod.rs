//! Launches of an author's own kernels: checked by samples, counted, timed.
//!
//! ```text
//! FILE, launches ─► Job ─► tensors ─► sampled instances on the interpreter ─┬─► gpu   run once, compared; then timed with a cold cache
//!                                └─► operations of dots, bytes of tensors  └─► sim   the same instances in the simulator: counts
//! ```

mod flops;
#[cfg(feature = "cuda")]
pub(crate) mod gpu;
pub(crate) mod launches;
mod ready;
mod sample;
mod timed;

pub(crate) use ready::{Job, NotBenched, ready};
