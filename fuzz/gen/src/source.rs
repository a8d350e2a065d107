//! Where choices come from: fuzzer bytes, or a seed. Every source remembers the bytes it gave, so that a kernel can be made again from
//! them, and made smaller by shortening them.
//!
//! The choice that a zero byte stands for is always the simplest, and a source that has run out gives zeros: the generator ends soon
//! on an empty source, and a shorter byte string makes a smaller kernel.

use std::collections::VecDeque;

/// A stream of choices.
#[derive(Clone, Debug)]
pub struct Source {
    queue: VecDeque<u8>,
    /// State of SplitMix64 (Steele, Lea and Flood 2014), or `None` when only the queue gives bytes.
    state: Option<u64>,
    taken: Vec<u8>,
}

impl Source {
    /// The given bytes, then zeros.
    pub fn from_bytes(bytes: &[u8]) -> Source {
        Source { queue: bytes.iter().copied().collect(), state: None, taken: Vec::new() }
    }

    /// Endless bytes that depend on a seed only.
    pub fn from_seed(seed: u64) -> Source {
        Source { queue: VecDeque::new(), state: Some(seed.wrapping_mul(0xd134_2543_de82_ef95)), taken: Vec::new() }
    }

    /// The bytes given so far.
    pub fn taken(&self) -> &[u8] {
        &self.taken
    }

    /// True if nothing but zeros is left.
    pub fn is_spent(&self) -> bool {
        self.queue.is_empty() && self.state.is_none()
    }

    fn byte(&mut self) -> u8 {
        if let (true, Some(s)) = (self.queue.is_empty(), &mut self.state) {
            *s = s.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = *s;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            self.queue.extend((z ^ (z >> 31)).to_le_bytes());
        }
        let byte = self.queue.pop_front().unwrap_or(0);
        self.taken.push(byte);
        byte
    }

    /// A number below `n` (0 if `n` is 0 or 1, without taking a byte).
    pub fn below(&mut self, n: u32) -> u32 {
        match n {
            0 | 1 => 0,
            2..=256 => u32::from(self.byte()) % n,
            _ => (u32::from(self.byte()) | u32::from(self.byte()) << 8 | u32::from(self.byte()) << 16) % n,
        }
    }

    /// A number from `lo` to `hi`, both included; `lo` is the simplest.
    pub fn range(&mut self, lo: i64, hi: i64) -> i64 {
        lo + i64::from(self.below((hi - lo + 1).clamp(1, 1 << 24) as u32))
    }

    /// True with the given chance in 256; false is the simplest.
    pub fn chance(&mut self, of_256: u32) -> bool {
        u32::from(self.byte()) >= 256 - of_256.min(256)
    }

    /// One of the items; the first is the simplest. `None` if there are none.
    pub fn pick<'t, T>(&mut self, items: &'t [T]) -> Option<&'t T> {
        items.get(self.below(items.len() as u32) as usize)
    }

    /// A position with a chance proportional to its weight; the first is the simplest.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u32 = weights.iter().sum();
        let mut at = self.below(total);
        for (i, &w) in weights.iter().enumerate() {
            if at < w {
                return i;
            }
            at -= w;
        }
        0
    }

    /// A seed for data.
    pub fn seed(&mut self) -> u64 {
        u64::from(self.byte())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_bytes_repeat_the_choices() {
        let mut a = Source::from_seed(7);
        let first: Vec<u32> = (1..500).map(|n| a.below(n * 7)).collect();
        let mut b = Source::from_bytes(a.taken());
        let again: Vec<u32> = (1..500).map(|n| b.below(n * 7)).collect();
        assert_eq!(first, again);
        assert!(first.iter().any(|&x| x > 256));
        assert!(b.is_spent() && !a.is_spent());
    }

    #[test]
    fn an_empty_source_makes_the_simplest_choices() {
        let mut s = Source::from_bytes(&[]);
        assert_eq!((s.below(9), s.range(-3, 5), s.chance(255), s.weighted(&[1, 5]), s.pick(&[4, 5])), (0, -3, false, 0, Some(&4)));
    }
}
