//! An allocation of a program that is not lowered yet.

use tilelift_ir::Loc;
use tilelift_lane::Life;

/// An allocation.
#[derive(Clone)]
pub(super) struct Piece {
    pub bytes: u64,
    pub align: u32,
    pub purpose: &'static str,
    /// The instruction that it is for.
    pub loc: Loc,
    pub life: Life,
}
