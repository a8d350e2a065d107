//! Maps and sets with a hash that is quick for small keys: nobody from outside chooses them.

use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;

/// A map.
pub type Map<K, V> = FxHashMap<K, V>;
/// A set.
pub type Set<K> = FxHashSet<K>;
/// A map that remembers answers, behind a shared reference.
pub type Memo<K, V> = RefCell<Map<K, V>>;
