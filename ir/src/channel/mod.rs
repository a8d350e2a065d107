//! Channels as what they stand for: slots in local memory, two barriers per slot, and copies.
//!
//! ```text
//! channel_put c, n, t…     slot = n mod D, around = n / D        wait empty[slot], around + 1
//!                          a tile that a load only brings here:  async_load to the slot, bytes at full[slot]
//!                          any other tile:                       local_store            then one arrival at full[slot]
//! channel_get c, n         wait full[slot], around               local_load of the slot, or a product that reads it there
//! channel_consumed c, n    arrive at empty[slot], which counts the consumers
//! ```
//! [`check`] says for kernels of regular loops that nobody waits for ever, whatever the number of rounds is; [`expand`] rewrites.

mod check;
mod expand;
mod poly;
mod sites;

pub use check::{ChannelError, check};
pub use expand::expand;

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
