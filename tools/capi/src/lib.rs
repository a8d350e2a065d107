//! The C interface of the compiler: `include/tilelift.h`, function by function.
//!
//! ```text
//! error.rs      tilelift_error: code, message, remedy, place
//! borrowed.rs   what a caller lends: strings, bytes, places for results
//! compiler.rs   tilelift_compiler
//! artifact.rs   tilelift_artifact
//! launch.rs     tilelift_launch: an artifact with a grid and arguments
//! parameter.rs  tilelift_parameter: what the driver is told of a launch
//! ```
//!
//! Nothing unwinds into C: a panic is an error like others. Pointers that may not be null are errors where they are.

#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

mod artifact;
mod borrowed;
mod compiler;
mod error;
mod launch;
mod parameter;

pub use artifact::*;
pub use compiler::*;
pub use error::*;
pub use launch::*;
pub use parameter::*;

/// The version of the interface.
pub const ABI_VERSION: u32 = 1;

/// `TILELIFT_ABI_VERSION` of the library.
#[unsafe(no_mangle)]
pub extern "C" fn tilelift_abi_version() -> u32 {
    ABI_VERSION
}

/// The version of the library, as text.
#[unsafe(no_mangle)]
pub extern "C" fn tilelift_version() -> *const std::ffi::c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
