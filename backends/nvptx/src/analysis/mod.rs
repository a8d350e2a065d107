//! What the text printer must know before the first line: what each value is, which are needed in a register, which registers
//! they share.
//!
//! ```text
//! defs    constants become immediates, additions of constants become address offsets, bit casts become names
//! visit   operands and results of an instruction, with their roles
//! live    one interval of program positions per value
//! renew   registers of operand A that loops keep, which the assembler must not take for free
//! webs    values of loops, choices and accumulators that may share a register, joined
//! ```

mod defs;
mod live;
mod renew;
mod visit;
mod webs;

pub(crate) use defs::{Address, Base, Def, Defs};
pub(crate) use live::Lives;
pub(crate) use renew::{Renewal, Renewals};
pub(crate) use webs::Webs;
