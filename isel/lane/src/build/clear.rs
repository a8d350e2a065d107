//! What is known of the bits of 32-bit integers: see [`super::bits`].

use super::room::VALUES;
use crate::value::LVal;
use cranelift_entity::SecondaryMap;

/// What is known of the bits of 32-bit integers.
pub(super) struct Bits {
    /// Bits that are clear.
    pub clear: SecondaryMap<LVal, u32>,
    /// What a value is the lower bits of, and which they are.
    pub masked: SecondaryMap<LVal, Option<(LVal, u32)>>,
    /// The least and the greatest number that a sum may be.
    pub between: SecondaryMap<LVal, Option<[i64; 2]>>,
}

impl Default for Bits {
    fn default() -> Bits {
        let [values, sums] = [VALUES / 2, VALUES / 4];
        Bits {
            clear: SecondaryMap::with_capacity(values),
            masked: SecondaryMap::with_capacity(values),
            between: SecondaryMap::with_capacity(sums),
        }
    }
}
