//! What tests of this crate share.

pub mod judge;
pub mod random;
