//! Operands of products that no tensor map brings, as the lanes of the producer copy them into the ring: gathers of rows, rows that begin anywhere.
//!
//! ```text
//! pieces of a row that are whole in both memories, 4 bytes at least ─► cp.async of each, to where the swizzle of the slot puts it
//! ```
//!
//! The lanes of four warps do it; each of them has no more than so many pieces in a step.

use super::tensor_boxes::SwizzledTile;
use crate::access::GlobalAccess;
use crate::indexed::indexed_vectors;
use crate::named::Named;
use crate::reason::{CopyLimit, NoBulkCopy};
use tilelift_ir::layout::{AccessColumns, Axis, coalesced, vectors_without};
use tilelift_ir::{Inst, Kernel, Op, Value};
use tilelift_lane::hash::Set;
use tilelift_lane::{Target, Units};

/// Pieces that a lane copies in a step at most: more take longer than the products.
const MOST_PIECES: u32 = 32;

/// The bit of `present` that says that a gather has a mask.
const MASK: u8 = 0b0100;

/// What says from where a load or gather of the ring comes: its indices, and the mask of a gather.
pub(crate) fn places(kernel: &Kernel, i: Inst) -> impl Iterator<Item = Value> {
    let mask = if kernel.insts[i].op == Op::Gather { kernel.operand(i, "mask") } else { &[] };
    kernel.operand(i, "indices").iter().chain(mask).copied()
}

/// An operand that lanes copy.
pub(super) struct LaneCopy {
    /// How it lies in its slot.
    pub tile: SwizzledTile,
    /// Pieces of each lane in a step.
    pub pieces: u32,
}

/// How an operand comes to its slot where lanes copy it, if they do; `want` is the swizzle that is asked for.
///
/// # Errors
/// Why they do not.
pub(super) fn copied_by_lanes(
    kernel: &Kernel,
    target: &Target,
    units: &Units,
    written: &Set<Value>,
    i: Inst,
    want: Option<u32>,
) -> Result<LaneCopy, NoBulkCopy> {
    let d = &kernel.insts[i];
    let no = |limit: CopyLimit| NoBulkCopy { view: Named::of(kernel, d.args[0]), limit };
    let Some(t) = kernel.ty(d.results[0]).as_tile() else { return Err(no(CopyLimit::NotContiguous)) };
    let bytes = t.elem.bytes();
    let gather = d.op == Op::Gather;
    if d.present & !(if gather { MASK } else { 0 }) != 0 {
        return Err(no(CopyLimit::Masked));
    }
    if t.elem.is_packed() {
        return Err(no(CopyLimit::Packed));
    }
    if written.contains(&d.args[0]) {
        return Err(no(CopyLimit::Written));
    }
    let (order, vec) = match gather {
        true => {
            let v = indexed_vectors(kernel, i, t.shape.len(), target.vector_bytes);
            (v.order.to_vec(), v.elements)
        }
        false => {
            let access = GlobalAccess::of(kernel, i);
            (access.order(), access.vector_elements(target.vector_bytes))
        }
    };
    let fast = order.first().copied().filter(|&d| d + 1 == t.shape.len()).ok_or_else(|| no(CopyLimit::NotContiguous))?;
    let row = t.shape[fast] * bytes;
    let fit: Vec<u32> = units.bulk.swizzles.iter().copied().filter(|&s| row.is_multiple_of(s)).collect();
    let Some(&widest) = fit.first() else {
        return Err(no(CopyLimit::Row { row, least: units.bulk.swizzles.last().copied().unwrap_or(0) }));
    };
    let swizzle = want.unwrap_or(widest);
    if !fit.contains(&swizzle) {
        return Err(no(CopyLimit::Span { row, asked: swizzle, possible: fit }));
    }
    // As lanes share it, each piece once.
    let layout = coalesced(&t.shape, bytes, &order, vec, target.lanes, units.group_warps).ok();
    let pieces = layout.filter(|l| l.free_mask(Axis::Lane) | l.free_mask(Axis::Warp) == 0).and_then(|l| {
        let columns = AccessColumns::global(&l, &order).ok()?;
        let v = vectors_without(&columns, bytes, vec * bytes, l.free_mask(Axis::Reg));
        Some((v.width * bytes, v.groups.len() as u32))
    });
    let Some((width, count)) = pieces.filter(|p| target.copy_async.contains(&p.0)) else {
        return Err(no(CopyLimit::Pieces { bytes: vec * bytes, possible: target.copy_async }));
    };
    if count > MOST_PIECES {
        return Err(no(CopyLimit::ManyPieces { bytes: width, count, most: MOST_PIECES }));
    }
    let rows = t.shape.iter().enumerate().filter(|x| x.0 != fast).map(|x| x.1).product();
    let shape = t.shape.to_vec();
    let tile = SwizzledTile { order, shape, elem: t.elem, swizzle, widest, per: swizzle / bytes, rows, tf32: false };
    Ok(LaneCopy { tile, pieces: count })
}
