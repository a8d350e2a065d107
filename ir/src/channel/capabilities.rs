//! What a target can do for channels.

use crate::entities::Inst;
use crate::types::TileType;

/// What a target's async units can do with the tiles of channels.
pub struct Capabilities<'a> {
    /// True if copies of boxes bring what this load does.
    pub copies: &'a dyn Fn(Inst) -> bool,
    /// True if a product of these three tiles can read its second operand, and the first if said so, from slots.
    pub multiplies: &'a dyn Fn([&TileType; 3], bool) -> bool,
}

impl Capabilities<'_> {
    /// Everything is copied and multiplied.
    pub const ALL: Capabilities<'static> = Capabilities { copies: &|_| true, multiplies: &|_, _| true };
    /// Nothing is.
    pub const NONE: Capabilities<'static> = Capabilities { copies: &|_| false, multiplies: &|_, _| false };
}
