//! What is known of the bits of 32-bit integers: see [`super::bits`].

use crate::value::LVal;
use cranelift_entity::SecondaryMap;

/// What is known of the bits of 32-bit integers.
#[derive(Default)]
pub(super) struct Bits {
    /// Bits that are clear.
    pub clear: SecondaryMap<LVal, u32>,
    /// What a value is the lower bits of, and which they are.
    pub masked: SecondaryMap<LVal, Option<(LVal, u32)>>,
    /// The least and the greatest number that a sum may be.
    pub between: SecondaryMap<LVal, Option<[i64; 2]>>,
}
