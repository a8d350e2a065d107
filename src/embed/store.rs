//! Where artifacts are kept between processes: what a store must do.

use crate::key::Key;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Keeps bytes by key. A store may lose, refuse or damage anything at any time: what it gives back is checked by the compiler, and what is not
/// right is compiled anew. So its methods answer without errors that matter.
pub trait Store: Send + Sync + fmt::Debug {
    /// The bytes of a key, if there are any.
    fn load(&self, key: &Key) -> Option<Vec<u8>>;

    /// Keeps bytes for a key; readers see all of them or none.
    ///
    /// # Errors
    /// They are not kept; the compiler counts it and goes on.
    fn save(&self, key: &Key, bytes: &[u8]) -> Result<(), StoreError>;

    /// Forgets what was found to be damaged.
    fn remove(&self, key: &Key);
}

/// Why something was not kept.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StoreError {
    /// What the system says.
    pub message: String,
}

impl StoreError {
    /// An error that says so.
    pub fn new(message: impl Into<String>) -> StoreError {
        StoreError { message: message.into() }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}

/// A store in memory, for several compilers of a process, and for tests.
#[derive(Default, Debug)]
pub struct MemoryStore(Mutex<HashMap<Key, Vec<u8>>>);

impl MemoryStore {
    /// An empty one.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }
    /// Entries.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Store for MemoryStore {
    fn load(&self, key: &Key) -> Option<Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }
    fn save(&self, key: &Key, bytes: &[u8]) -> Result<(), StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(*key, bytes.to_vec());
        Ok(())
    }
    fn remove(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
