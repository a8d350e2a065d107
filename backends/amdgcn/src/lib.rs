//! AMD CDNA targets: what the lowering must know of them, as data.
//!
//! ```text
//! lane::Program for gfx942 ── tilelift_isel::lane::interpret ─► numbers
//! ```
//!
//! A warp is a wavefront of 64 lanes here. The lane interpreter executes programs for these targets on any machine.

#![deny(missing_docs)]

mod target;

pub use target::gfx942;
