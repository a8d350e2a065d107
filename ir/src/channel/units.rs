//! What a target can do for channels.

use crate::entities::Inst;
use crate::types::TileType;

/// What async units a target has for the tiles of channels.
pub struct Units<'a> {
    /// True if copies of boxes bring what this load does.
    pub copies: &'a dyn Fn(Inst) -> bool,
    /// True if a product of these three tiles can read its second operand, and the first if said so, from slots.
    pub multiplies: &'a dyn Fn([&TileType; 3], bool) -> bool,
}

impl Units<'_> {
    /// Everything is copied and multiplied.
    pub const ALL: Units<'static> = Units { copies: &|_| true, multiplies: &|_, _| true };
    /// Nothing is.
    pub const NONE: Units<'static> = Units { copies: &|_| false, multiplies: &|_, _| false };
}
