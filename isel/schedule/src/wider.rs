//! Neighbouring grid positions in one program instance: tiles as wide as those of all of them.
//!
//! ```text
//! i = program_id y                           i = mul (program_id y), 2
//! r = mul i, 64                              r = mul i, 64
//! a = load x[r, k] : tile<64x32>      ─►     a = load x[r, k] : tile<128x32>       what is loaded at k alone is loaded once for both,
//! c = dot a, b, c  : tile<64x128>            c = dot a, b, c  : tile<128x128>      and so is what lanes compute of it
//! store z[r, n], c                           store z[r, n], c                      positions [1, 2, 1]
//! ```
//!
//! A kernel says how large a tile a program computes, and its author can't know which size suits a chip. Where a position decides nothing but where along one
//! dimension of its tiles a program loads and stores, at multiples of their extent, the tiles of neighbours are one tile. Elements go where they went, and all
//! that is computed of one element is computed as before; so results are the same bits, but for the order of sums that `dot` leaves open.
//!
//! Which values become wider, and along which dimension, is found first (`tags.rs`). What is alike for all positions is repeated where a wider tile
//! meets it: constants, and rows or columns that are broadcast. What else a position decides (a trip count, a choice, an index from memory) keeps the kernel as it is.

mod tags;
mod widen;

use tilelift_ir::{GridAxis, Kernel};

/// The axes, in the order of [`Kernel::positions`].
const AXES: [GridAxis; 3] = [GridAxis::X, GridAxis::Y, GridAxis::Z];

/// The kernel whose instances stand for twice as many neighbours along an axis (0 to 2); `None` where a position decides more than where its tiles lie.
pub fn wider(kernel: &Kernel, axis: usize) -> Option<Kernel> {
    let grid = *AXES.get(axis)?;
    if kernel.is_explicit() || kernel.is_persistent() || kernel.positions[axis] > 1 << 16 {
        return None;
    }
    let tags = tags::tags(kernel, grid)?;
    widen::widened(kernel, axis, grid, &tags)
}
