//! Short tiles that a step loads beside its operands (log-sum-exp, scales, gates): the producer's lanes copy them into slots beside those of the
//! ring, so that no consumer waits for memory, and none holds them in registers before it looks at them.
//!
//! ```text
//! producer    wait empty ─ expect, bulk copies ─ copies of its lanes, which arrive at full when they are there     nobody waits for them
//! consumers   wait full ─ … ─ read a vector where it is wanted
//! ```
//!
//! They take what bytes the ring leaves: a ring that lost a slot would lose more than they bring.

use crate::access::GlobalAccess;
use tilelift_ir::layout::{AccessColumns, Axis, coalesced, vectors_without};
use tilelift_ir::{Inst, Kernel, Op, Scalar, TileType, Value};
use tilelift_lane::Target;
use tilelift_lane::hash::Set;

/// Elements of such a tile at most: above, copies by lanes take too long.
const MOST_ELEMENTS: u64 = 1024;

/// Warps of a producer whose lanes copy vectors: a lane of each has some of every one.
pub(crate) const COPYING_WARPS: u32 = 1;

/// The type of a loaded tile.
fn loaded(kernel: &Kernel, i: Inst) -> Option<&TileType> {
    kernel.ty(kernel.insts[i].results[0]).as_tile()
}

/// Bytes of a loaded tile.
pub(super) fn vector_bytes(kernel: &Kernel, i: Inst) -> u32 {
    loaded(kernel, i).map_or(0, |t| t.elements() as u32 * t.elem.bytes())
}

/// True for a load of a short tile along one dimension, whose elements lanes read one by one.
pub(crate) fn is_vector(kernel: &Kernel, i: Inst) -> bool {
    let along = |t: &TileType| t.shape.iter().filter(|&&e| e > 1).count() == 1 && t.elements() <= MOST_ELEMENTS;
    loaded(kernel, i).is_some_and(|t| along(t) && !t.elem.is_packed() && t.elem != Scalar::I1)
}

/// True for a load that the producer's lanes may copy, if they can say from where: from a view that nobody writes, and without registers between.
pub(super) fn may_be_copied(kernel: &Kernel, target: &Target, written: &Set<Value>, i: Inst) -> bool {
    let d = &kernel.insts[i];
    if d.op != Op::Load || d.present != 0 || written.contains(&d.args[0]) {
        return false;
    }
    let Some(t) = loaded(kernel, i) else { return false };
    is_vector(kernel, i) && copy_bytes(kernel, target, i, t).is_some_and(|b| target.copy_async.contains(&b))
}

/// Bytes of a lane's copy of such a tile, where every lane has one of its own.
fn copy_bytes(kernel: &Kernel, target: &Target, i: Inst, t: &TileType) -> Option<u32> {
    let access = GlobalAccess::of(kernel, i);
    let (bytes, order) = (t.elem.bytes(), access.order());
    let vec = access.vector_elements(target.vector_bytes);
    let layout = coalesced(&t.shape, bytes, &order, vec, target.lanes, COPYING_WARPS).ok()?;
    let once = layout.free_mask(Axis::Lane) | layout.free_mask(Axis::Warp) == 0;
    let columns = AccessColumns::global(&layout, &order).ok()?;
    once.then(|| vectors_without(&columns, bytes, vec * bytes, layout.free_mask(Axis::Reg)).width * bytes)
}

/// True for the same vectors, one after the other.
pub(super) fn same_vectors(kernel: &Kernel, a: &[Inst], b: &[Inst]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(&i, &j)| loaded(kernel, i) == loaded(kernel, j))
}
