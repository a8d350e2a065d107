//! What an engine embeds: a compiler with a memory, safe to share between threads.
//!
//! ```text
//! Kernel, text ─► Compiler ── key ─► memory ─► Store (a folder, or the host's own) ─► compile, once a key ─► Arc<Artifact>
//!                 settings.rs        cache.rs  store.rs, entry.rs, directory.rs       flight.rs, stack.rs; many.rs, request.rs warm up, background.rs makes what can wait
//! ```
//!
//! No type of the lowering or of the optimizer appears here: what they become does not break who embeds. `docs/embedding.md` is the page.

mod background;
mod cache;
mod compiler;
mod directory;
mod entry;
mod error;
mod flight;
mod in_place;
mod many;
mod request;
mod settings;
mod stack;
mod stats;
mod store;

pub use compiler::{Compiler, CompilerBuilder};
pub use directory::DirectoryStore;
pub use error::{Error, Refusal};
pub use request::Request;
pub use settings::{Schedule, Settings};
pub use stats::Stats;
pub use store::{MemoryStore, Store, StoreError};
