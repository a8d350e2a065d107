//! Layouts of a kernel's tiles: which lane holds which element, and in what map tiles wait in shared memory.
//!
//! ```text
//! kernel, plan ── require ─► what the author pins ── assign ─► a layout per value ── search ─► a cheaper choice, by machine price
//!                                    dots: which matrix instruction, its fragments
//! ```

pub(crate) mod assign;
pub(crate) mod dot_plan;
pub(crate) mod dots;
mod fold_order;
mod k_order;
pub(crate) mod kept;
mod kept_operands;
mod owners;
pub(crate) mod packed;
mod plan_dots;
pub(crate) mod require;
pub(crate) mod search;
pub(crate) mod sorted_pairs;

pub(crate) use fold_order::fold_order;
pub(crate) use owners::{Owner, owners};

pub(crate) use tilelift_schedule::access::{legal_width, memory_type};

/// Tiles with more registers per lane than this are refused: no register allocator could hold them.
pub(crate) const MAX_REGISTERS_PER_TILE: u32 = 1024;
