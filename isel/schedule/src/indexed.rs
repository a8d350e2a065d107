//! What is known of an access through tiles of indices.
//!
//! ```text
//! gather v[row, iota 1 + 64·n]        row equal along 1: each row of the tile is a row of the view, in vectors
//! ```

use crate::axis_info::AxisInfo;
use crate::facts::power_of_two;
use smallvec::SmallVec;
use tilelift_ir::{Extent, Inst, Kernel, Type, Value, ViewType};

/// How such an access moves vectors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexedVectors {
    /// Dimensions of the tile, that of the vectors first, the others from the last on.
    pub order: SmallVec<[usize; 4]>,
    /// The most elements of a vector.
    pub elements: u32,
}

/// The vectors of a gather or scatter of a tile of that rank: along a dimension in which the index of the view's contiguous dimension runs from
/// multiples on, while the others, and the mask, stay, and no further than alignment and extents keep a vector in one piece.
pub fn indexed_vectors(kernel: &Kernel, i: Inst, rank: usize, max_bytes: u32) -> IndexedVectors {
    let (along, elements) = runs(kernel, i, rank, max_bytes).unwrap_or((rank.saturating_sub(1), 1));
    let order = (0..rank).rev().filter(|&d| d != along);
    IndexedVectors { order: (along < rank).then_some(along).into_iter().chain(order).collect(), elements }
}

/// The dimension of the widest vectors, the last of several, and their elements.
fn runs(kernel: &Kernel, i: Inst, rank: usize, max_bytes: u32) -> Option<(usize, u32)> {
    let Type::View(view) = kernel.ty(*kernel.insts[i].args.first()?) else { return None };
    let fast = (0..view.rank()).rev().find(|&d| view.stride(d) == Extent::Fixed(1))?;
    let most = in_one_piece(view, fast, max_bytes);
    if most <= 1 {
        return None;
    }
    let indices = kernel.operand(i, "indices");
    let running = AxisInfo::of(kernel, *indices.get(fast)?);
    // The rows of the view, and the mask.
    let others = indices.iter().enumerate().filter(|&(d, _)| d != fast).map(|(_, v)| v);
    let stay: SmallVec<[AxisInfo; 4]> = others.chain(kernel.operand(i, "mask")).map(|&v: &Value| AxisInfo::of(kernel, v)).collect();
    let elements = |d: usize| stay.iter().map(|x| x.equal(d)).fold(most.min(running.run(d)), u32::min);
    (0..rank).map(|d| (d, elements(d))).max_by_key(|&(d, n)| (n, d)).filter(|&(_, n)| n > 1)
}

/// Elements along the contiguous dimension that lie in the view as a whole or not at all, at an aligned address, if they begin at a multiple of
/// their number.
fn in_one_piece(view: &ViewType, fast: usize, max_bytes: u32) -> u32 {
    let bytes = view.elem.bytes();
    let known = |e: Extent| power_of_two(i64::from(e.divisor()));
    let of = |d: usize| known(if d == fast { view.dims[d] } else { view.stride(d) });
    (0..view.rank()).map(of).fold((max_bytes / bytes).min(view.align / bytes).max(1), u32::min)
}
