//! What tests of this crate share.

pub mod device;
pub mod judge;
pub mod kernels;
pub(crate) mod loops;
pub mod numbers;
pub mod random;

/// Of the library's launches every so manieth is tried; `TILELIFT_EVERY` sets another number.
pub fn every(usual: usize) -> usize {
    std::env::var("TILELIFT_EVERY").ok().and_then(|n| n.parse().ok()).map_or(usual, |n: usize| n.max(1))
}
