//! Tiles that lanes read, and that the ring brings all the same: narrow weights that a step converts, states, biases.
//!
//! ```text
//! producer    wait empty ─ expect the bytes of operands and of these tiles ─ begin the copies
//! consumers   wait full ─ … ─ read the tile where it is wanted ─ … ─ give the slot back
//! ```
//!
//! Who waits for memory is the producer then, as many steps ahead as the ring has slots, and no register holds what is not wanted yet. Elements
//! that share bytes travel as bytes.
//!
//! So do the tiles of loops without products that stand in front of one with products (row norms, sums, maxima): consumers that are few, since all of a
//! multiprocessor's memory is the ring's, would wait for each of their loads.

use super::masked::zeros_instead;
use super::rounds::at_most_once;
use super::tensor_boxes::SwizzledTile;
use tilelift_ir::{Inst, Kernel, Op, Scalar, Value};
use tilelift_lane::Units;
use tilelift_lane::hash::Set;

/// The boxes in which copies bring what a load brings, if nobody writes the view. What a mask leaves out lanes leave out when they read the slot.
pub(super) fn lane_tile(kernel: &Kernel, units: &Units, written: &Set<Value>, i: Inst) -> Option<SwizzledTile> {
    let d = &kernel.insts[i];
    if d.op != Op::Load || written.contains(&d.args[0]) || !zeros_instead(kernel, i) {
        return None;
    }
    let t = kernel.ty(d.results[0]).as_tile()?;
    if t.shape.len() < 2 || t.elem == Scalar::I1 || t.elem.is_packed() && d.present != 0 {
        return None;
    }
    SwizzledTile::of_bytes(kernel, i, &t.shape, units).ok()
}

/// Bytes of a step from which on a loop without products takes the ring.
const LEAST: u32 = 4096;

/// Loops without products, and without loops in them, in front of the last of some loops, that read tiles which the ring may bring: the fewest bytes of a
/// step first.
pub(super) fn tile_loops(kernel: &Kernel, units: &Units, written: &Set<Value>, loops: &[Inst]) -> Vec<Inst> {
    let Some(&last) = loops.last() else { return Vec::new() };
    let (mut out, mut passed): (Vec<(u32, Inst)>, bool) = (Vec::new(), false);
    kernel.walk(kernel.body, &mut |i| {
        passed |= i == last;
        let d = &kernel.insts[i];
        if passed || d.op != Op::For || loops.contains(&i) || at_most_once(kernel, i) {
            return;
        }
        let body = &kernel.regions[d.regions[0]].insts;
        let plain = |&j: &Inst| kernel.insts[j].regions.is_empty() && kernel.insts[j].op != Op::Dot;
        if body.iter().all(plain) {
            let bytes = body.iter().filter_map(|&j| lane_tile(kernel, units, written, j)).map(|t| t.bytes()).sum::<u32>();
            out.extend((bytes >= LEAST).then_some((bytes, i)));
        }
    });
    out.sort_by_key(|x| x.0);
    out.into_iter().map(|x| x.1).collect()
}
