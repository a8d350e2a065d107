//! What tensors start from: every element depends on the tensor's name and its index only.

use super::operators::{Fill, TensorOf};
use crate::rng;
use crate::tensor::in_parallel;
use tilelift_ir::num;

/// Elements that one thread fills at a time.
const PART: usize = 1 << 16;

impl TensorOf {
    /// Its bytes, as the caller fills it.
    pub fn filled(&self) -> Vec<u8> {
        let seed = self.name.bytes().fold(0u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b)));
        let width = self.elem.bytes() as usize;
        let mut bytes = vec![0; self.elements() as usize * width];
        let parts: Vec<(usize, &mut [u8])> = bytes.chunks_mut(PART * width).enumerate().collect();
        in_parallel(parts, |(part, chunk)| {
            for (k, out) in chunk.chunks_mut(width).enumerate() {
                let word = self.element(rng::bits(seed, (part * PART + k) as u64), (part * PART + k) as u64);
                out.copy_from_slice(&word.to_le_bytes()[..width]);
            }
        });
        bytes
    }

    /// The bits of an element, from random bits and its index.
    fn element(&self, bits: u64, index: u64) -> u64 {
        let float = |x: f64| num::to_bits(num::round(x, self.elem), self.elem);
        let share = (bits >> 11) as f64 / (1u64 << 53) as f64;
        match self.fill {
            Fill::Between(low, high) => float(low + share * (high - low)),
            Fill::Multiples(low, high, step) => float(((low + share * (high - low)) / step).round() * step),
            Fill::Below(n) => bits % u64::from(n.max(1)),
            Fill::Steps(n) => index * u64::from(n),
        }
    }
}
