//! Atomic sums in a loop that bulk copies do: what lanes add to a box of a view goes through shared memory, and nobody waits for it.
//!
//! ```text
//! atomic add v8[splat n, iota 0 + splat m, iota 1], tile      the box at [n, m, 0] of as many rows and columns as the tile has
//! ```
//!
//! A bulk copy adds element by element, drops what lies outside of the view, and keeps no order: as a relaxed update whose old values nobody wants.

use super::tensor_boxes::SwizzledTile;
use super::views::keeps_extents;
use smallvec::SmallVec;
use tilelift_ir::{AtomicOp, Attr, Inst, Kernel, MemoryOrder, Op, Scalar, Scope, Value};
use tilelift_lane::Units;

/// An update that bulk copies do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BulkUpdate {
    /// The update.
    pub inst: Inst,
    /// By dimension of the view, what is summed up to where the box begins.
    pub first: Vec<SmallVec<[Value; 2]>>,
    /// How the box lies in shared memory.
    pub tile: SwizzledTile,
}

/// A tile of indices: the sum of numbers, and of a dimension's positions.
#[derive(Default)]
struct Indices {
    numbers: SmallVec<[Value; 2]>,
    along: Option<usize>,
}

/// Definitions that are looked at for a tile of indices.
const FEW: u32 = 16;

fn indices(kernel: &Kernel, v: Value, left: &mut u32) -> Option<Indices> {
    *left = left.checked_sub(1)?;
    let d = &kernel.insts[kernel.def_inst(v)?];
    match (d.op, d.attrs.first()) {
        (Op::Iota, Some(Attr::Dim(n))) => Some(Indices { along: Some(*n as usize), ..Indices::default() }),
        (Op::Splat, _) => Some(Indices { numbers: [d.args[0]].into_iter().collect(), along: None }),
        (Op::Broadcast, _) => indices(kernel, d.args[0], left),
        (Op::Reshape, _) if keeps_extents(kernel, kernel.def_inst(v)?) => {
            let mut of = indices(kernel, d.args[0], left)?;
            let real = |v: Value| kernel.ty(v).as_tile().map(|t| (0..t.shape.len()).filter(|&k| t.shape[k] != 1).collect::<Vec<usize>>());
            let (from, to) = (real(d.args[0])?, real(v)?);
            // Along an extent of 1 all positions are 0.
            of.along = of.along.and_then(|n| Some(to[from.iter().position(|&k| k == n)?]));
            Some(of)
        }
        (Op::Add, _) => {
            let (mut a, b) = (indices(kernel, d.args[0], left)?, indices(kernel, d.args[1], left)?);
            if a.along.is_some() && b.along.is_some() {
                return None;
            }
            a.numbers.extend(b.numbers);
            a.along = a.along.or(b.along);
            Some(a)
        }
        _ => None,
    }
}

/// The box that an update in a loop adds to, if bulk copies do that.
pub(super) fn bulk_update(kernel: &Kernel, units: &Units, i: Inst) -> Option<BulkUpdate> {
    let d = &kernel.insts[i];
    let added = d.op == Op::Atomic && matches!(d.attrs.first(), Some(Attr::Atomic(AtomicOp::Add)));
    let free = d.attrs.iter().all(|a| !matches!(a, Attr::Sync(o, s) if *o != MemoryOrder::Relaxed || *s == Scope::Sys));
    if !added || !free || !kernel.operand(i, "mask").is_empty() {
        return None;
    }
    let mut used = false;
    kernel.walk(kernel.body, &mut |j| used |= kernel.insts[j].args.iter().any(|v| d.results.contains(v)));
    let t = kernel.ty(kernel.operand(i, "value")[0]).as_tile()?;
    if used || !matches!(t.elem, Scalar::F32 | Scalar::F16 | Scalar::BF16 | Scalar::I32) {
        return None;
    }
    let (mut first, mut shape, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    for &v in kernel.operand(i, "indices") {
        let of = indices(kernel, v, &mut FEW.clone())?;
        shape.push(of.along.map_or(1, |n| t.shape[n]));
        seen.extend(of.along.filter(|&n| t.shape[n] != 1));
        first.push(of.numbers);
    }
    // Each dimension of the tile runs along one of the view, in their order.
    let all = (0..t.shape.len()).filter(|&n| t.shape[n] != 1);
    if !seen.iter().copied().eq(all) {
        return None;
    }
    let tile = SwizzledTile::of_update(kernel, d.args[0], &|d| &first[d], &shape, units).ok()?;
    Some(BulkUpdate { inst: i, first, tile })
}
