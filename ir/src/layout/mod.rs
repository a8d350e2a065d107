//! Data layouts: which tensor element each hardware position holds.
//!
//! A layout is a linear map over F2 from hardware bits to tensor bits, paired with a bijection of
//! odd digits:
//!
//! ```text
//!  register bits ┐                         ┌ bits of dim 0     176 = 2*2*2*2 * 11
//!  lane bits     ├──  F2 matrix (XOR)  ──▶ ┤ bits of dim 1           └ bits ┘   └ odd digit, on top
//!  warp bits     ┘                         └ ...
//!  odd register digit 11 ── same digit ──▶ odd digit of a dim
//! ```
//!
//! Bits and odd digits never mix, so there are no carries and every question (vector width, bank
//! conflicts, conversion class, swizzle) is linear algebra on a handful of machine words.
//!
//! Invariants of every [`Layout`]:
//! * the tensor coordinate of index zero is zero;
//! * every tensor element has at least one owner (the map is surjective);
//! * a zero column, or more generally a column that depends on earlier ones, means a copy
//!   ([`Layout::free_mask`]);
//! * odd digits are owned by registers, warps, blocks or offsets, never by lanes.
//!
//! References: linear layouts over F2 (arXiv 2505.23819); shuffle and swizzle constructions are
//! derived in the modules that hold them.

mod access;
mod bank;
mod bases;
mod construct;
mod convert;
mod cost;
mod digits;
mod error;
mod fragment;
mod global;
mod ldmatrix;
mod linear;
mod map;
mod plan;
mod roundtrip;
mod shared;
mod shuffle;
mod spec;
mod swizzle;
mod views;

pub use access::{AccessColumns, OddWeight, Vectors, sector_efficiency, sectors, vector_count, vector_width, vectors_without};
pub use bank::{BankModel, PhaseRule, SharedOp, Wavefronts, wavefronts};
pub use convert::{ConversionClass, classify, register_rename};
pub use cost::{ConversionCost, conversion_cost};
pub use digits::Coord;
pub use error::LayoutError;
pub use fragment::FragmentMap;
pub use global::{coalesced, coalesced_rows, coalesced_runs, coalesced_values};
pub use ldmatrix::{LdMatrixGroup, LdMatrixPlan, ldmatrix_applies};
pub use map::{Axis, Layout, LayoutKey, Pad};
pub use plan::{Conversion, plan_conversion, plan_in_registers, plan_in_warp};
pub use roundtrip::{RoundTripPlan, plan_round_trip};
pub use shared::SharedMap;
pub use shuffle::{SelectPlan, SelectStep, Shuffle, ShufflePlan};
pub use spec::{DotPart, LayoutSpec};
pub use swizzle::{folded_swizzle, operand_chunk_bytes, operand_swizzle, rotated_swizzle, swizzle_of_width};

#[cfg(test)]
pub(crate) mod tests;
