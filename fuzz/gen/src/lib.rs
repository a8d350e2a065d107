//! Random tile kernels for tests and fuzzers.
//!
//! ```text
//! Source (seed or fuzzer bytes) ─ generate ─► Case { kernel, grid, arguments } ─┬─ oracle::text     parse(print(k)) prints the same
//!        ▲                                                                      ├─ oracle::lane     interpreter ⇄ lane interpreter
//!        └── shrink: shorter bytes, then a smaller kernel ◄── Failure ◄─────────┴─ oracle::sim      interpreter ⇄ PTX simulator
//! ```
//!
//! Every case verifies, ends, and keeps the promises of its views; two program instances never disagree about an element. So every
//! answer of the compiler but a right one, or a refusal with a reason, is a bug.

#![deny(missing_docs)]

mod case;
mod config;
mod data;
mod embedded;
mod explicit;
pub mod graphs;
mod kernel;
mod levels;
pub mod limits;
mod misuse;
mod mixed;
pub mod oracle;
mod reduce;
mod rewrite;
mod shrink;
mod sim;
mod source;
mod specialised;
mod tiles;
pub mod trial;
mod verdict;
mod wider;

pub use case::{Case, Param, Tensor, Tolerance};
pub use config::{Config, Mode};
pub use data::Init;
pub use explicit::generate_explicit;
pub use graphs::{GraphCase, generate_graph};
pub use kernel::generate;
pub use levels::{any_level, every_way};
pub use mixed::Mixed;
pub use reduce::reduce;
pub use shrink::{shrink, shrink_as};
pub use source::Source;
pub use specialised::generate_specialised;
pub use tiles::generate_tiles;
pub use trial::{Trial, generate_loops, generate_plain, generate_trial};
pub use wider::wider_forms;
