//! Tiles that lanes read, and that the ring brings all the same: narrow weights that a step converts, states, biases.
//!
//! ```text
//! producer    wait empty ─ expect the bytes of operands and of these tiles ─ begin the copies
//! consumers   wait full ─ … ─ read the tile where it is wanted ─ … ─ give the slot back
//! ```
//!
//! Who waits for memory is the producer then, as many steps ahead as the ring has slots, and no register holds what is not wanted yet. Elements
//! that share bytes travel as bytes.

use super::swizzled_tile::SwizzledTile;
use std::collections::HashSet;
use tilelift_ir::{Inst, Kernel, Op, Scalar, Value};
use tilelift_lane::Units;

/// The boxes in which copies bring what a load brings, if nobody writes the view.
pub(super) fn lane_tile(kernel: &Kernel, units: &Units, written: &HashSet<Value>, i: Inst) -> Option<SwizzledTile> {
    let d = &kernel.insts[i];
    if d.op != Op::Load || d.present != 0 || written.contains(&d.args[0]) {
        return None;
    }
    let t = kernel.ty(d.results[0]).as_tile()?;
    if t.shape.len() < 2 || t.elem == Scalar::I1 {
        return None;
    }
    SwizzledTile::of_bytes(kernel, i, &t.shape, units).ok()
}
