//! What tests of this crate share.

#![allow(dead_code)] // each test takes a part

pub mod judge;
pub mod kernels;
pub mod random;
