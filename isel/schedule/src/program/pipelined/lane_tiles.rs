//! Matrices that lanes compute with in front of products, in pipelined loops: narrow weights, keys and values that a step converts. Where lanes' copies run by
//! themselves they have slots as operands have, and lanes read those.

use crate::access::GlobalAccess;
use crate::plan::{computed_with, is_matrix};
use std::collections::BTreeSet;
use tilelift_ir::{Inst, Kernel, Op, Region, Scalar, Shape, TileType};
use tilelift_lane::Target;

/// What a slot of a tile holds: of elements that share bytes the bytes.
pub(super) fn stored(t: &TileType) -> (Shape, Scalar) {
    let mut shape = t.shape.clone();
    if !t.elem.is_packed() {
        return (shape, t.elem);
    }
    if let Some(last) = shape.last_mut() {
        *last /= 2;
    }
    (shape, Scalar::I8)
}

/// Bytes of a tile for lanes from which on it is copied ahead; less waits in registers ([`carried`](super::carried)).
const LANE_TILE: u64 = 2048;

/// Of a loop with products the loads of matrices that lanes compute with, such as narrow weights, keys and values that are converted, where lanes' copies
/// run by themselves: they are copied ahead as operands are, and lanes read the slot.
pub(super) fn lane_tiles(kernel: &Kernel, target: &Target, (region, inside): (Region, &BTreeSet<Inst>)) -> BTreeSet<Inst> {
    let multiplies = inside.iter().any(|&i| kernel.insts[i].op.factors().is_some());
    if !multiplies || target.moves_by_lanes() {
        return BTreeSet::new();
    }
    let yielded = kernel.yields(region);
    let mut found = computed_with(kernel, region, inside);
    found.retain(|&i| brings_lane_tile(kernel, i) && !yielded.contains(&kernel.insts[i].results[0]));
    found
}

/// True for a load of a matrix that is worth a slot if lanes compute with it.
pub(in super::super) fn brings_lane_tile(kernel: &Kernel, i: Inst) -> bool {
    let d = &kernel.insts[i];
    let tile = (d.op == Op::Load && d.present == 0).then(|| kernel.ty(d.results[0]).as_tile()).flatten();
    tile.is_some_and(|t| {
        let rows = is_matrix(&t.shape);
        let whole = !t.elem.is_packed() || GlobalAccess::of(kernel, i).whole_bytes;
        rows && whole && t.elem != Scalar::I1 && t.elements() * u64::from(t.elem.bits()) >= 8 * LANE_TILE
    })
}
