//! tilelift: a JIT compiler for GPU tile kernels, as a library.
//!
//! ```text
//!  .tile text ─┐
//!              ├─► Kernel ── verify ─► lower ─► lane program ── emit ─► Artifact (PTX text, launch facts)
//!  builder ────┘      │                              │                      │
//!                     └─► interpreter                └─► lane interpreter   ├─► runtime::cuda  the driver's JIT, on hardware
//!                         (the definition)                                  ├─► runtime::hip   code objects through HIP, on hardware
//!                                                                           └─► runtime::sim   the simulator, anywhere
//! ```
//!
//! [`compile`] is a pure function: it needs no device, no toolkit and no global state. Devices of [`runtime`] load artifacts and
//! launch them.
//!
//! ```
//! use tilelift::ir::{Extent, KernelBuilder, Scalar, ViewType};
//!
//! let mut b = KernelBuilder::new("double");
//! let x = b.param(ViewType::dense(Scalar::F32, &[Extent::Dynamic(1)]));
//! let pid = b.program_id(0);
//! let at = b.mul(pid, 256);
//! let t = b.load(x, &[at], &[256]);
//! let t = b.add(t, t);
//! b.store(x, &[at], t);
//! let kernel = b.finish()?;
//!
//! let target = tilelift::targets::by_name("sm_80").expect("a known target");
//! let artifact = tilelift::compile(&kernel, &target, &tilelift::Options::default())?;
//! assert!(artifact.text.contains(".visible .entry double("));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Features: `cuda` (the CUDA device), `hip` (the HIP device), `sim` (the simulator device). All are on by default; an engine that embeds the
//! compiler turns defaults off and takes `cuda` or `hip`; neither needs a toolkit to build. The `tilelift` program is the crate `tilelift-tools`.

#![deny(missing_docs)]
#![deny(unsafe_code)]

mod artifact;
mod backend;
mod compile;
mod divisors;
mod embed;
pub mod graph;
mod key;
pub mod launch;
pub mod runtime;
mod sha256;
pub mod targets;

pub use artifact::{Artifact, Malformed};
pub use compile::{CompileError, OptLevel, Options, Stage, StageTimes, compile, compile_timed, for_grid, lower, optimise};
pub use divisors::{Divisor, Divisors, Integer};
pub use embed::{
    Compiler, CompilerBuilder, DirectoryStore, Error, MemoryStore, Refusal, Request, Schedule, Settings, Stats, Store, StoreError,
};
pub use graph::Graph;
pub use key::Key;
pub use tilelift_egraph as egraph;
pub use tilelift_interp as interp;
pub use tilelift_ir as ir;
pub use tilelift_ir::GridFacts;
pub use tilelift_isel as isel;

/// The README's example, compiled and run by the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

/// The example of the page on embedding.
#[cfg(doctest)]
#[doc = include_str!("../docs/embedding.md")]
struct EmbeddingDoctests;

/// The example of the page on graphs.
#[cfg(doctest)]
#[doc = include_str!("../docs/graph.md")]
struct GraphDoctests;
