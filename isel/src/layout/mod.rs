//! Layouts of a kernel's tiles: which lane holds which element, and in what map tiles wait in shared memory.
//!
//! ```text
//! kernel, plan ── require ─► what the author pins ── assign ─► a layout per value ── search ─► a cheaper choice, by machine price
//!                                    dots: which matrix instruction, its fragments
//! ```

pub(crate) mod assign;
pub(crate) mod dots;
mod owners;
pub(crate) mod packed;
pub(crate) mod require;
pub(crate) mod search;

pub(crate) use owners::{Owner, owners};

use tilelift_ir::Scalar;
use tilelift_ir::layout::{Axis, Layout};

/// True for a map of shared memory, which stands for a layout where a value waits there.
pub(crate) fn in_memory(l: &Layout) -> bool {
    l.size(Axis::Off) > 1
}

/// The type in which an element type lies in memory: `i1` is a byte, and so are the codes of 8-bit floats.
pub(crate) fn memory_type(elem: Scalar) -> Scalar {
    if elem == Scalar::I1 || elem.is_narrow() { Scalar::I8 } else { elem }
}

/// The widest vector, in elements, of at most `n` that has a memory access: byte pairs have none.
pub(crate) fn legal_width(n: u32, elem: Scalar) -> u32 {
    if n * elem.bytes() < 4 { 1 } else { n }
}
