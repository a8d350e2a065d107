//! Random tensors, fast: normal numbers from a table, four to a random word.
//!
//! The kernel library's generator makes every number anew, at tens of nanoseconds; operands of benches have a billion elements. A
//! table of 65536 normal numbers, already rounded, is as random to the data paths whose power draw depends on the bits.

use std::thread;
use tilelift_ir::{Scalar, num};
use tilelift_kernels::{Tensor, rng};

/// Entries of the table: one per value of 16 bits.
const ENTRIES: usize = 1 << 16;
/// Seed of the table.
const TABLE_SEED: u64 = 0x0074_6162_6c65;

/// Standard deviation of integers: few reach the ends of 8 bits.
const INTEGER_SCALE: f64 = 32.0;

/// Normal numbers of an element type, integers 32 times as large. Numbers of `f32` are rounded to tf32 if asked to, so that a product in tf32 has exact operands.
pub(crate) struct Normals {
    elem: Scalar,
    /// The bits of every entry.
    bits: Vec<u32>,
}

impl Normals {
    /// The table of a float type of 1, 2 or 4 bytes, or of `i8`; `None` for other types.
    pub(crate) fn new(elem: Scalar, tf32: bool) -> Option<Normals> {
        if !matches!(elem, Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::I8) {
            return None;
        }
        let one = |i: u64| {
            let x = rng::normal(TABLE_SEED, i);
            if elem == Scalar::I8 {
                return (x * INTEGER_SCALE).round().clamp(-128.0, 127.0) as i8 as u8 as u32;
            }
            num::to_bits(num::round(if tf32 { num::round_tf32(x) } else { x }, elem), elem) as u32
        };
        Some(Normals { elem, bits: (0..ENTRIES as u64).map(one).collect() })
    }

    /// A tensor of a shape, from a seed.
    pub(crate) fn tensor(&self, shape: &[u32], seed: u64) -> Tensor {
        let elements: usize = shape.iter().map(|&e| e as usize).product();
        let width = self.elem.bytes() as usize;
        let mut bytes = vec![0; elements * width];
        // Every thread takes whole words of four elements.
        let threads = thread::available_parallelism().map_or(1, |n| n.get().min(16));
        let chunk = elements.div_ceil(threads).next_multiple_of(4).max(4);
        thread::scope(|s| {
            for (t, part) in bytes.chunks_mut(chunk * width).enumerate() {
                s.spawn(move || self.fill(part, seed, (t * chunk / 4) as u64));
            }
        });
        Tensor { elem: self.elem, shape: shape.to_vec(), bytes }
    }

    /// Fills elements from random word `first` on.
    fn fill(&self, bytes: &mut [u8], seed: u64, first: u64) {
        let width = self.elem.bytes() as usize;
        for (word, four) in (first..).zip(bytes.chunks_mut(4 * width)) {
            let mut random = rng::bits(seed, word);
            for element in four.chunks_exact_mut(width) {
                let bits = self.bits[random as usize % ENTRIES];
                element.copy_from_slice(&bits.to_le_bytes()[..width]);
                random >>= 16;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_normal_and_differ_by_seed_only() {
        for elem in [Scalar::F16, Scalar::BF16, Scalar::F32] {
            let normals = Normals::new(elem, true).unwrap();
            let shape = [301, 999];
            let t = normals.tensor(&shape, 1);
            assert_eq!(t.bytes, normals.tensor(&shape, 1).bytes);
            let other = normals.tensor(&shape, 2);
            let n = 301 * 999;
            let (x, y) = (t.read(0..n), other.read(0..n));
            let mean = x.iter().sum::<f64>() / n as f64;
            let square = x.iter().map(|v| v * v).sum::<f64>() / n as f64;
            // Five standard deviations of the estimates, of the table (65536 entries) and the draws together.
            assert!(mean.abs() < 5.0 * 0.0044 && (square - 1.0).abs() < 5.0 * 0.0061, "{elem}: {mean} {square}");
            let same = x.iter().zip(&y).filter(|(a, b)| a == b).count();
            assert!(same < n / 50, "{same}");
            assert!(x.iter().all(|&v| num::round_tf32(v) == v), "{elem} fits tf32");
        }
    }

    #[test]
    fn the_number_of_threads_does_not_matter() {
        let normals = Normals::new(Scalar::BF16, false).unwrap();
        let whole = normals.tensor(&[1003], 9);
        let mut alone = vec![0; 2006];
        normals.fill(&mut alone, 9, 0);
        assert_eq!(whole.bytes, alone);
    }

    #[test]
    fn bytes_are_normal_within_their_range_and_other_types_have_no_table() {
        for (elem, scale) in [(Scalar::F8E4M3, 1.0), (Scalar::F8E5M2, 1.0), (Scalar::I8, INTEGER_SCALE)] {
            let t = Normals::new(elem, false).unwrap().tensor(&[100_000], 3);
            let square = t.read(0..100_000).iter().map(|v| v * v).sum::<f64>() / 1e5 / (scale * scale);
            // Five standard deviations of the draws, and what rounding to two bits of mantissa adds.
            assert!((square - 1.0).abs() < 5.0 * 0.006 + 0.02, "{elem}: {square}");
        }
        assert!(Normals::new(Scalar::I32, false).is_none() && Normals::new(Scalar::F64, false).is_none());
    }
}
