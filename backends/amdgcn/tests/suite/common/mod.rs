//! What tests of this crate share.

pub mod device;
pub mod judge;
pub mod kernels;
pub mod numbers;
pub mod random;
