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

mod capabilities;
mod check;
mod error;
mod expand;
mod poly;
mod sites;

pub use capabilities::Capabilities;
pub use check::check;
pub use error::{ChannelError, ChannelProblem};
pub use expand::expand;
