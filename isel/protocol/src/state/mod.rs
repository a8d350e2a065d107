//! What the proof keeps of memory, barriers and counters. What happens to it is told in `effects`.

pub(crate) mod analysis;
pub(crate) mod facts;
pub(crate) mod found;
pub(crate) mod keys;
pub(crate) mod knowledge;
pub(crate) mod region;
pub(crate) mod rotation;
pub(crate) mod shared;
