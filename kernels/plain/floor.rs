//! What a graph takes at least: each byte of what the caller gives or looks at once over the memory's rate, operations of products over the
//! matrix units' rate. What is between operators costs nothing; the larger of both numbers counts.

use super::operators::Operators;
use crate::tensor::Role;
use tilelift_ir::Scalar;

/// Bytes that the memory of an H200 moves in a second, and operations of its matrix units: of 16 and of 8 bits.
const MEMORY: f64 = 4.8e12;
const WIDE: f64 = 989e12;
const NARROW: f64 = 1979e12;

/// Seconds that a graph takes at least on an H200.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Floor {
    /// For bytes.
    pub memory: f64,
    /// For operations of products.
    pub products: f64,
}

impl Floor {
    /// Both, side by side.
    pub fn seconds(&self) -> f64 {
        self.memory.max(self.products)
    }
}

impl Operators {
    /// Bytes of what the caller gives or looks at.
    pub fn bytes(&self) -> u64 {
        let seen = self.tensors.iter().filter(|t| t.role != Role::Scratch);
        seen.map(|t| t.elem.storage(usize::try_from(t.touched.unwrap_or_else(|| t.elements())).unwrap_or(usize::MAX)) as u64).sum()
    }

    /// What the graph takes at least on an H200.
    pub fn floor(&self) -> Floor {
        let rate = |elem: Scalar| if elem.bits() == 8 { NARROW } else { WIDE };
        Floor { memory: self.bytes() as f64 / MEMORY, products: self.products.iter().fold(0.0, |all, &(elem, n)| all + n / rate(elem)) }
    }
}
