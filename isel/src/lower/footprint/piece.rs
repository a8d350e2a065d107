//! An allocation of a program that is not lowered yet.

use tilelift_ir::Loc;
use tilelift_lane::{Life, Owner, Room};

/// An allocation.
#[derive(Clone)]
pub(super) struct Piece {
    pub bytes: u64,
    pub align: u32,
    pub purpose: &'static str,
    /// The instruction that it is for.
    pub loc: Loc,
    pub life: Life,
    /// The task that it is made in.
    pub owner: Option<Owner>,
}

impl Piece {
    /// What it asks of the placement.
    pub fn room(&self) -> Room {
        Room { bytes: self.bytes.min(1 << 30) as u32, align: self.align, life: self.life, owner: self.owner }
    }
}
