//! The decisions of the compiler: which there are, who takes each, and what one compile decided.
//!
//! ```text
//! list      Decision ─► name, what is decided, who takes it, by which price, in which file        docs/decisions.md is made of it
//! ear       taken(Decision, || Told)   where a decision is taken: nothing happens unless somebody listens
//!           heard(|| compile …)        what was decided meanwhile, on this thread, in order
//! ```
//!
//! The crate stands below all others and knows none of them: the files in its list are words, which a test holds against where [`taken`] was called.

#![deny(missing_docs)]

mod ear;
mod list;

pub use ear::{Taken, Told, heard, listened_to, taken, unheard};
pub use list::{Decision, Entry, Taker};
