//! Artifacts in memory, as many as fit a number of bytes; those that were not used for longest go first.

use crate::artifact::Artifact;
use crate::key::Key;
use std::collections::HashMap;
use std::sync::Arc;

/// Artifacts in memory.
#[derive(Debug)]
pub(super) struct Cache {
    held: HashMap<Key, Held>,
    bytes: usize,
    limit: usize,
    /// Counts uses.
    clock: u64,
}

#[derive(Debug)]
struct Held {
    artifact: Arc<Artifact>,
    used: u64,
}

/// What an artifact takes, about.
fn size(a: &Artifact) -> usize {
    a.text.len() + a.object.len() + a.schedule.len() + 512
}

impl Cache {
    pub(super) fn new(limit: usize) -> Cache {
        Cache { held: HashMap::new(), bytes: 0, limit, clock: 0 }
    }

    pub(super) fn get(&mut self, key: &Key) -> Option<Arc<Artifact>> {
        self.clock += 1;
        let found = self.held.get_mut(key)?;
        found.used = self.clock;
        Some(found.artifact.clone())
    }

    pub(super) fn put(&mut self, key: Key, artifact: Arc<Artifact>) {
        self.clock += 1;
        self.bytes += size(&artifact);
        if let Some(had) = self.held.insert(key, Held { artifact, used: self.clock }) {
            self.bytes -= size(&had.artifact);
        }
        if self.bytes > self.limit {
            self.shrink();
        }
    }

    /// Drops what was not used for longest, until a fifth is free: not one by one at the limit.
    fn shrink(&mut self) {
        let mut order: Vec<(u64, Key)> = self.held.iter().map(|(k, h)| (h.used, *k)).collect();
        order.sort_unstable();
        for (_, key) in order {
            if self.bytes <= self.limit / 5 * 4 {
                break;
            }
            if let Some(gone) = self.held.remove(&key) {
                self.bytes -= size(&gone.artifact);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_go_first() {
        let key = |n: u8| Key::from_bytes([n; 32]);
        let artifact = || Arc::new(Artifact { text: "x".repeat(488), ..Artifact::default() });
        let mut cache = Cache::new(10_000);
        for n in 0..10 {
            cache.put(key(n), artifact());
        }
        // The same one again takes no more room.
        cache.put(key(9), artifact());
        assert_eq!((cache.bytes, cache.held.len()), (10_000, 10));
        assert!(cache.get(&key(0)).is_some());
        cache.put(key(10), artifact());
        let left: Vec<u8> = (0..=10).filter(|&n| cache.get(&key(n)).is_some()).collect();
        assert_eq!(left, [0, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(cache.bytes, 8_000);
        cache.clear();
        assert!(cache.get(&key(0)).is_none() && cache.bytes == 0);
    }
}
