//! The decoded form of a kernel: operands, operations, those of asynchronous units.

pub(crate) mod hop;
pub(crate) mod op;
pub(crate) mod operand;
