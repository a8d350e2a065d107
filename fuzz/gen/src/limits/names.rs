//! Names that texts are made of.

/// Ops of one operand and of two that every float has, and types of elements.
pub(super) const UNARY: [&str; 13] = ["exp", "exp2", "log", "log2", "tanh", "sin", "cos", "erf", "sqrt", "rsqrt", "rcp", "neg", "floor"];
pub(super) const BINARY: [&str; 6] = ["add", "sub", "mul", "div", "minimum", "maxnum"];
pub(super) const TYPES: [&str; 8] = ["f32", "f16", "bf16", "f64", "i32", "i8", "i64", "f8e4m3"];
