//! What the builder knows of values.

use crate::op::UnOp;
use crate::value::{LTy, LVal};

/// What the folding rules want to know of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Known {
    #[default]
    Nothing,
    Const(u64),
    /// The value plus a constant.
    AddConst(LVal, i64),
    /// Part `.1` of the word `.0`.
    Part(LVal, u32),
    /// Bits of the value under another type.
    Cast(LVal),
    /// The `f32` rounded to `bf16`.
    Rounded(LVal),
    /// The code that [`UnOp::EncodeE4M3`] or its sibling makes of the `f32` with those bits.
    Code(UnOp, LVal),
    /// The 4 bits from bit `.1` on of the `i32` `.0`, sign-extended.
    Half(LVal, u32),
}

/// What the builder knows of a value.
#[derive(Clone, Copy)]
pub(super) struct Fact {
    /// How many blocks enclose its definition.
    pub depth: u32,
    pub ty: LTy,
    pub known: Known,
}
