//! Maps and sets with a hash that is quick for small keys: nobody from outside chooses them.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Rotates, mixes in and multiplies, a word at a time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Quick(u64);

impl Quick {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|&w| self.mix(u64::from_le_bytes(w)));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.mix(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.mix(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.mix(n);
    }

    fn write_usize(&mut self, n: usize) {
        self.mix(n as u64);
    }

    fn finish(&self) -> u64 {
        // Multiplications leave what is best mixed at the top; tables look at both ends.
        self.0.rotate_left(26)
    }
}

pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;
/// What has been found out before.
pub(crate) type Memo<K, V> = RefCell<Map<K, V>>;
pub(crate) type Set<K> = HashSet<K, BuildHasherDefault<Quick>>;
