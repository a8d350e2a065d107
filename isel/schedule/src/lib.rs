//! Scheduling: how a kernel runs on a machine, decided before layouts because layouts depend on it.
//!
//! ```text
//! kernel, target, hints ── plan ─► pipelined │ specialised (producer and consumer warps over a ring) │ as the author's tasks say
//! kernel, target, hints ── schedule ─► candidates: ways to run it, priced, the plan's own first unless another is cheaper
//! kernel, target ── exchange::exchanged ─► the same kernel, operands of products exchanged where lanes compute what the unit can't take from them
//! kernel, target ── wide_sums::wide_sums ─► the same kernel, sums of 16-bit floats in 32 bits where the unit makes no others
//! kernel, specialised plan ── program::written ─► the same kernel with tasks, rings and barriers: tile IR that an author could have written
//! kernel ── scaled::scaled_operands ─► the same kernel, block-scaled products as products of operands that lanes scale
//! kernel ── beside::beside ─► the same kernel, products beside its loops in loops of one round
//! kernel, target ── padded::padded ─► the same kernel, products smaller than a matrix instruction padded with zeros
//! kernel ── offsets::offsets ─► the same kernel, whose loops carry numbers instead of tiles that they are added to
//! kernel ── operands_apart::operands_apart ─► the same kernel, operands loaded for one product at a time
//! kernel ── loads_first ─► the same kernel, which asks for more bytes before it waits for the first
//! kernel, dies with caches of their own ── DieOrder::of ─► which instance works at which position of the grid
//! kernel, pipelined plan ── program::pipelined ─► the same kernel, whose lanes copy ahead into rings
//! matrix product ── gemm::rank ─► tiles, stages, splits, stream-K, best first by a model of the machine
//! ```
//!
//! What it stands on: divisibility of scalars ([`facts`]), what tiles of numbers do along their dimensions ([`axis_info`]), what a global
//! access may do at once ([`access`], [`indexed`]), what moving a tile takes
//! ([`transfers`]). It assigns no layouts and knows no lowering.

#![deny(missing_docs)]

pub mod access;
pub mod axis_info;
pub mod beside;
pub mod candidates;
pub mod counted;
mod dies;
mod error;
pub mod exchange;
pub mod facts;
pub mod gemm;
pub mod guarded;
pub mod indexed;
mod loads_first;
mod longest_first;
mod named;
pub mod offsets;
mod one_dimension;
pub mod operands_apart;
pub mod padded;
pub mod plan;
pub mod program;
pub mod reason;
mod rewrite;
pub mod scaled;
pub mod transfers;
pub mod whole_rows;
pub mod wide_sums;
pub mod wider;
mod written;

pub use candidates::schedule;
pub use dies::DieOrder;
pub use error::LowerError;
pub use loads_first::loads_first;
pub use named::{Made, Named};
pub use reason::{AtOdds, Resource, Unmet};
