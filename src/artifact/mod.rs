//! What a compile leaves behind, as plain data that can be written down and read again.
//!
//! ```text
//! image.rs       Artifact: text or code, resources, schedule
//! arguments.rs   what the kernel's arguments promise
//! params.rs      what the launch parameters carry
//! grid.rs        which grids may be launched
//! bytes.rs       numbers, strings and lists as bytes
//! encode.rs      an artifact as bytes
//! decode.rs      and back; bytes that are none are an error
//! ```

mod arguments;
mod bytes;
mod decode;
mod encode;
mod grid;
mod image;
mod params;

pub use arguments::Argument;
pub use bytes::Malformed;
pub(crate) use encode::VERSION as FORMAT;
pub use grid::{GridError, GridRule, MAX_GRID, MAX_POSITIONS};
pub use image::Artifact;
pub use params::{Param, ParamSource, TensorBox};
