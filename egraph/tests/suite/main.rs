//! Tests of the rewriter.
//! `cargo test -p tilelift-egraph FILE::` runs those of one file.

mod common;
mod docs;
mod folds;
mod forms;
mod kernels;
mod proofs;
mod rules;
mod widths;
mod windows;
