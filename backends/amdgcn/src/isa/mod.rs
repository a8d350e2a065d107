//! The instruction table: everything that printer, encoder, allocator and checkers ask of an instruction is said in its row.

mod constant;
mod desc;
mod fixed;
mod form;
mod table;
mod wait;

pub use constant::{Constant, NoConstant};
pub use desc::{Access, Counter, Desc, Implicit, Kind, Slot, Value};
pub use fixed::Fixed;
pub use form::{Form, Format, Variant};
pub use table::Opcode;
pub use wait::Wait;
