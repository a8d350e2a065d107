//! What is known of an access of global memory in a layout, before it is done vector by vector.

use super::elementwise::Coords;
use super::location::Tile;
use smallvec::SmallVec;
use std::rc::Rc;
use tilelift_ir::Value;
use tilelift_lane::LVal;
use tilelift_schedule::access::GlobalAccess;
use tilelift_schedule::facts::power_of_two;

/// Addresses and guards of one access in one layout.
pub(super) struct Points<'k> {
    pub(super) access: GlobalAccess<'k>,
    pub(super) view: Value,
    pub(super) coords: Coords,
    /// index + lane part, `None` parts folded in, per dimension.
    pub(super) index: Vec<LVal>,
    /// A power of two that divides both the index and the extent, per dimension: so many elements are inside together, or none of them.
    pub(super) together: Together,
    pub(super) mask: Option<Rc<Tile>>,
}

pub(super) type Together = SmallVec<[u32; 4]>;

/// The most elements that are asked for together.
const MOST_TOGETHER: u32 = 4096;

/// The elements of each dimension that are inside of the view together. `alone` each is asked for.
pub(super) fn together(access: &GlobalAccess<'_>, alone: bool) -> Together {
    let most = |d: usize| power_of_two(i64::from(access.view.dims[d].divisor())).min(MOST_TOGETHER);
    (0..access.view.rank()).map(|d| if alone { 1 } else { access.divisor(d, most(d)) }).collect()
}
