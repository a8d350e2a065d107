//! Global-memory accesses: the default coalesced layout.

use super::construct::Builder;
use super::digits::{check_permutation, log2};
use super::error::LayoutError;
use super::map::{Axis, Layout};

/// Bytes of one cache line, the span that lanes cover before they move to the next dimension.
const LINE_BYTES: u32 = 128;
/// Widest access of one lane in bytes.
const VECTOR_BYTES: u32 = 16;
/// Narrowest access of one lane that vectors are made for; narrower ones keep memory less busy than copies of wider ones do.
const LEAST_BYTES: u32 = 4;

/// The default layout of a global access: widest vector along the contiguous dimension, lanes along
/// it up to a 128-byte line, then along the other dimensions; warps continue; repetition and odd
/// factors in registers.
///
/// `order` lists the dimensions by decreasing contiguity (`order[0]` is the contiguous one);
/// `max_vec` is the number of elements that alignment and contiguity facts allow per access.
/// Surplus lanes and warps hold copies: stores must be predicated by [`Layout::free_mask`].
///
/// # Errors
/// [`LayoutError::NotPermutation`], [`LayoutError::NotPowerOfTwo`] (lanes, warps).
pub fn coalesced(shape: &[u32], elem_bytes: u32, order: &[usize], max_vec: u32, lanes: u32, warps: u32) -> Result<Layout, LayoutError> {
    spread(shape, elem_bytes, order, (max_vec, None), (lanes, warps), Spread { along: LINE_BYTES, apart: false })
}

/// The same of a tile that lanes compute with: vectors are no wider than leaves all lanes and warps elements of their own, down to four bytes. So 256 lanes have
/// 20 elements each of 5120, in vectors of four, where by vectors of eight the half of them would hold 40, and the others copies.
///
/// # Errors
/// As [`coalesced`].
pub fn coalesced_values(
    shape: &[u32],
    elem_bytes: u32,
    order: &[usize],
    max_vec: u32,
    lanes: u32,
    warps: u32,
) -> Result<Layout, LayoutError> {
    coalesced_runs(shape, elem_bytes, order, (max_vec, None), lanes, warps)
}

/// As [`coalesced_values`], with lanes along the contiguous dimension as far as it goes, not only up to a line: each lane holds fewer places of that dimension and
/// more of the others. What is alike along the others, or folded along them, is there fewer times.
///
/// # Errors
/// As [`coalesced`].
pub fn coalesced_rows(
    shape: &[u32],
    elem_bytes: u32,
    order: &[usize],
    max_vec: u32,
    lanes: u32,
    warps: u32,
) -> Result<Layout, LayoutError> {
    spread(shape, elem_bytes, order, (max_vec, None), (lanes, warps), Spread { along: u32::MAX, apart: true })
}

/// As [`coalesced_values`], for a tile that goes on to a memory where another dimension is contiguous: each lane holds so many vectors of neighbours along it, if
/// there are as many elements, so that it has whole runs for that memory, too.
///
/// # Errors
/// As [`coalesced`].
pub fn coalesced_runs(
    shape: &[u32],
    elem_bytes: u32,
    order: &[usize],
    (max_vec, run): (u32, Option<(usize, u32)>),
    lanes: u32,
    warps: u32,
) -> Result<Layout, LayoutError> {
    spread(shape, elem_bytes, order, (max_vec, run), (lanes, warps), Spread { along: LINE_BYTES, apart: true })
}

/// How lanes share a tile.
struct Spread {
    /// Lanes side by side along so many bytes of the contiguous dimension.
    along: u32,
    /// Narrower vectors before lanes or warps hold copies.
    apart: bool,
}

fn spread(
    shape: &[u32],
    elem_bytes: u32,
    order: &[usize],
    (max_vec, run): (u32, Option<(usize, u32)>),
    (lanes, warps): (u32, u32),
    how: Spread,
) -> Result<Layout, LayoutError> {
    let mut b = Builder::new(shape)?;
    check_permutation("order", order, shape.len())?;
    let (lane_bits, warp_bits) = (log2("lanes", lanes)?, log2("warps", warps)?);
    let elem_bytes = elem_bytes.max(1);
    let elements: u32 = shape.iter().product();
    if let Some(&fast) = order.first() {
        let threads = lanes.saturating_mul(warps).max(1);
        let vec = (VECTOR_BYTES / elem_bytes).min(max_vec).min(elements / threads).max(1);
        // Powers of two that divide the extents: those of other extents may be fewer than lanes, warps and vectors have together.
        let all: u32 = (0..shape.len()).map(|dim| b.left(dim)).sum();
        let least = (LEAST_BYTES / elem_bytes).max(1).ilog2();
        let most = if how.apart { all.saturating_sub(lane_bits + warp_bits).max(least) } else { u32::MAX };
        let vec_bits = vec.ilog2().min(b.left(fast)).min(most);
        b.take(Axis::Reg, fast, vec_bits);
        if let Some((dim, run)) = run.filter(|r| r.0 != fast && r.0 < shape.len()) {
            let most = ((elements / threads) >> vec_bits).max(1);
            b.take(Axis::Reg, dim, run.max(1).min(most).ilog2().min(b.left(dim)));
        }
        let line = (how.along / (elem_bytes << vec_bits)).max(1).ilog2();
        let along = line.min(b.left(fast)).min(lane_bits);
        b.take(Axis::Lane, fast, along);
        // Other dimensions first, then the rest of the contiguous one.
        let dims: Vec<usize> = order[1..].iter().copied().chain([fast]).collect();
        for (axis, mut bits) in [(Axis::Lane, lane_bits - along), (Axis::Warp, warp_bits)] {
            for &dim in &dims {
                let here = bits.min(b.left(dim));
                b.take(axis, dim, here);
                bits -= here;
            }
            for _ in 0..bits {
                b.push(axis, 0);
            }
        }
    } else {
        (0..lane_bits).for_each(|_| b.push(Axis::Lane, 0));
        (0..warp_bits).for_each(|_| b.push(Axis::Warp, 0));
    }
    b.finish(order)
}
