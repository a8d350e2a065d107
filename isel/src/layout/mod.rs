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

use tilelift_ir::layout::{Axis, Layout};

/// True for a map of shared memory, which stands for a layout where a value waits there. (That of one element has no bits at all; a layout has those of the
/// lanes.)
pub(crate) fn in_memory(l: &Layout) -> bool {
    l.size(Axis::Off) > 1 || [Axis::Reg, Axis::Lane, Axis::Warp].iter().all(|&axis| l.size(axis) == 1)
}

/// Tiles with more registers per lane than this are refused: no register allocator could hold them.
pub(crate) const MAX_REGISTERS_PER_TILE: u32 = 1024;
