//! Benches: how fast kernels run and compile, beside what else the machine can do.
//!
//! ```text
//!  Selection ─► Problem × Variant ─► gpu   times on hardware, against cuBLASLt and device copies   ─┐
//!                                └─► sim   counts of the simulator: instructions, conflicts, sectors ├─► report
//!  kernel list ────────────────────► layouts  counts without and with searched layouts              │
//!  kernel list ────────────────────► estimate  times of the cost model, beside measured ones
//!  FILE, launches ─────────────────► own      times or counts of an author's own kernels
//!  kernel list ────────────────────► compile  wall time of every stage of the compiler              ─┘
//! ```
//!
//! A GPU's time depends on its temperature, its power budget and what ran before. So candidates are only compared within one process;
//! every round visits them in a new random order, with a rest before each; a sample is the mean of a batch of launches behind a
//! warm-up; medians are compared and the spread is shown. Every output is checked before a time is taken.

// The hardware half idles in a build without it.
#![cfg_attr(not(feature = "cuda"), allow(dead_code))]

pub(crate) mod ablation;
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // the prototypes of cuBLASLt are C; every use says why it is sound
pub(crate) mod blaslt;
pub(crate) mod check;
pub(crate) mod compile;
pub(crate) mod estimate;
pub(crate) mod fill;
#[cfg(feature = "cuda")]
pub(crate) mod gpu;
pub(crate) mod layouts;
#[cfg(feature = "cuda")]
pub(crate) mod limits;
pub(crate) mod locate;
pub(crate) mod own;
pub(crate) mod problem;
pub(crate) mod records;
pub(crate) mod report;
pub(crate) mod results;
pub(crate) mod ring;
pub(crate) mod selection;
pub(crate) mod sim;
pub(crate) mod stats;
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // launches on borrowed buffers; every use says why it is sound
pub(crate) mod work;
