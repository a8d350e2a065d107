//! The `tilelift` program: commands, file tests, benches.
//!
//! ```text
//! cli ─┬─► filetest   `.tile` texts that say what must come of them
//!      ├─► bench      kernels beside libraries, compiles, models
//!      ├─► foreign    PTX and code objects of other compilers, in the simulators
//!      ├─► picture    layouts, banks, rooflines, timelines and pages; drawn from data, knows no command
//!      └─► execute    one way to run a kernel on any device; what all of them stand on
//! ```
//!
//! An engine embeds the crate `tilelift` and needs nothing of this one.

#![deny(missing_docs)]
#![deny(unsafe_code)]

mod bench;
pub mod cli;
#[cfg(test)]
mod descriptor;
pub mod execute;
pub mod filetest;
pub mod foreign;
mod picture;
mod read;
