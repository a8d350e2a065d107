//! What a kernel's descriptor and metadata say: computed once from the program, written as directives by the printer and as bytes by the
//! object writer.

mod arguments;
mod metadata;
mod resources;

pub use arguments::{argument_bytes, threads};
pub use metadata::{Node, metadata, target};
pub use resources::Resources;
