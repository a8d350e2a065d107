//! The printer: an assembly file that LLVM's assembler reads as the bytes that the encoder writes.
//!
//! Text is a function of the program alone. Instructions print without what tells encodings apart, since the assembler takes the shortest as
//! the encoder does.

mod file;
mod inst;
mod mods;
mod operand;

pub use file::{file, print};
pub use inst::inst;
