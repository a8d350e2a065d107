//! Facts of extents: what a kernel may assume of a shape before launch.
//!
//! A wide access is legal only if every row starts at a multiple of the access width, which follows from what divides the extents.
//! [`known`] derives that from one concrete extent, so that round shapes get wide accesses and ragged shapes stay correct.

use tilelift_ir::{Extent, Scalar, ViewType};

/// The largest divisor that [`known`] states. 16 elements are 16 bytes even of the narrowest type, the widest access of a lane.
pub const MAX_DIVISOR: u32 = 16;

/// The fact `?%d` of a concrete extent: `d` is the largest power of two up to [`MAX_DIVISOR`] that divides it.
///
/// ```
/// use tilelift_ir::Extent;
/// use tilelift_kernels::known;
/// assert_eq!(known(1000), Extent::Dynamic(8));
/// assert_eq!(known(129), Extent::Dynamic(1));
/// assert_eq!(known(4096), Extent::Dynamic(16));
/// ```
pub fn known(extent: u32) -> Extent {
    Extent::Dynamic((1 << extent.trailing_zeros().min(31)).min(MAX_DIVISOR))
}

/// [`known`], or, of columns that one tile of so many covers, the extent itself: then there is one step, and no loop.
pub(crate) fn known_columns(cols: u32, tile_cols: u32) -> Extent {
    if (1..=tile_cols).contains(&cols) { Extent::Fixed(cols) } else { known(cols) }
}

/// An extent of which nothing is known.
pub const ANY: Extent = Extent::Dynamic(1);

/// A dense row-major matrix view.
pub(crate) fn matrix(elem: Scalar, rows: Extent, cols: Extent) -> ViewType {
    ViewType::dense(elem, &[rows, cols])
}

/// A dense vector view.
pub(crate) fn vector(elem: Scalar, n: Extent) -> ViewType {
    ViewType::dense(elem, &[n])
}

/// Programs that tiles of extent `tile` need to cover `extent`; a tile of 0, which no kernel builds, counts as 1.
pub(crate) fn programs(extent: u32, tile: u32) -> u32 {
    extent.div_ceil(tile.max(1))
}
