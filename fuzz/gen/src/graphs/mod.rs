//! Random graphs of kernels, and the oracle that holds what [`tilelift::graph::Graph::fuse`] makes of them against what they mean.
//!
//! ```text
//! Source ─ draw ─► plan: tensors and steps ─┬─ kernels ─► Graph ─┬─► interpreter
//!                                           │                    ├─ fuse, exactly ──────► interpreter: equal bits ─┐
//!                                           │                    └─ fuse, as it may ─┬─► interpreter              ├─► simulators: off, by default,
//!                                           │                                        └─► interpreter in `f64`     ┘   by chaos
//!                                           └─ numbers in `f64` with bounds ◄── all of them are within these
//! ```
//!
//! Half of the graphs compute with small integers, of which every sum is exact: their bounds are 0. The other half have bounds that follow
//! from the units of the types and the errors that the op table allows. In `f64` what was fused has to be nearer by the ratio of the units,
//! which nothing but the same mathematics is.

mod bounds;
mod case;
mod draw;
mod expr;
mod ideal;
mod judge;
mod kernels;
mod lines;
mod steps;
mod summary;
#[cfg(test)]
mod tests;

pub use case::{GraphCase, generate_graph};
pub use judge::{GraphAnswer, GraphOptions, judge_graph};
pub use summary::GraphSummary;
