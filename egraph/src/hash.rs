//! Maps and sets in order of insertion, with a quick hash: no order depends on it, and keys are numbers and nodes of one graph.

use rustc_hash::FxBuildHasher;

/// A map in order of insertion.
pub(crate) type IndexMap<K, V> = indexmap::IndexMap<K, V, FxBuildHasher>;
/// A set in order of insertion.
pub(crate) type IndexSet<K> = indexmap::IndexSet<K, FxBuildHasher>;
