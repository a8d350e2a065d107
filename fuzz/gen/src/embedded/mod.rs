//! What an engine hands to the embedded compiler beside kernels: entries of a store that somebody damaged, and arguments of launches.
//!
//! ```text
//! entries.rs    bytes as an artifact, damaged artifacts, damaged entries of a store: an error or a miss, never a panic or a wrong artifact
//! launches.rs   any arguments, then any changes: each is taken exactly where binding all of it anew is, and leaves the same behind
//! subjects.rs   the artifacts that both are tried on
//! ```

mod entries;
mod launches;
mod subjects;

pub use entries::any_entry;
pub use launches::any_launch;
