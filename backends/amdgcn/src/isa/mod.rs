//! The instruction table: everything that printer, encoder, allocator and checkers ask of an instruction is said in its row.

mod desc;
mod table;

pub use desc::{Access, Counter, Desc, Format, Implicit, Kind, Slot};
pub use table::Opcode;
