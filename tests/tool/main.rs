//! Tests through the tool's library and its program: every text, kernel and operation on every way to run it.
//!
//! One program, since each costs a link and shares texts that were assembled; `cargo test -p tilelift-tools filetests::` runs one file's.

mod accept;
#[cfg(all(feature = "cuda", feature = "hip"))]
mod amd_tool;
#[cfg(feature = "cuda")]
mod bad_input;
mod determinism;
mod explicit;
mod filetests;
mod op_types;
#[cfg(feature = "cuda")]
mod own;
mod remarks;
mod seeing;
mod streams;
mod triton;
mod xml;
