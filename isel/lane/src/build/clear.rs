//! What is known of the bits of 32-bit integers: see [`super::bits`].

use super::room::VALUES;
use crate::hash::Map;
use crate::value::LVal;
use cranelift_entity::SecondaryMap;

/// What is known of the bits of 32-bit integers. Of few values more is known than which bits are clear.
pub(super) struct Bits {
    /// Bits that are clear.
    pub clear: SecondaryMap<LVal, u32>,
    /// What a value is the lower bits of, and which they are.
    pub masked: Map<LVal, (LVal, u32)>,
    /// The least and the greatest number that a sum may be.
    pub between: Map<LVal, [i64; 2]>,
}

impl Default for Bits {
    fn default() -> Bits {
        Bits { clear: SecondaryMap::with_capacity(VALUES / 2), masked: Map::default(), between: Map::default() }
    }
}
