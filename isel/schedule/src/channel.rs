//! The channel between a producer and its consumers: a ring of slots with credit, and what mbarriers must count for it.
//!
//! ```text
//! acquire  producer waits until the slot's last reader has gone        empty[s], parity of the lap before
//! publish  the slot is full when one arrival and all its bytes are in    full[s], 1 arrival + bytes a phase
//! get      consumers wait until the slot is full                         full[s], parity of the lap
//! consumed each consumer group gives the slot back                       empty[s], 1 arrival per group a phase
//! ```
//!
//! Consumers give item n back after the multiplications of item n + `lag` are issued: `lag` items are held beside the one that is
//! waited for, so a ring with no more slots than that would stop.

use std::fmt;

/// A ring of slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channel {
    /// Slots.
    pub depth: u32,
    /// Groups that read every item.
    pub consumers: u32,
    /// Bytes of an item.
    pub bytes: u32,
    /// Items that a consumer holds when it waits for the next one.
    pub lag: u32,
}

/// Why a channel does not work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChannelError {
    /// Consumers hold as many items as there are slots when they wait for the next one, which the producer has no slot for.
    Starved {
        /// Slots.
        depth: u32,
        /// Items that a consumer holds while it waits.
        lag: u32,
    },
    /// An mbarrier cannot count so much.
    Count {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        got: u32,
        /// How many there may be.
        most: u32,
    },
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChannelError::Starved { depth, lag } => write!(
                f,
                "the consumers' `get` waits while they hold {lag} items, but the producer's `acquire` has {depth} slots; use more (`stages=`)"
            ),
            ChannelError::Count { what, got, most } => write!(f, "{got} {what} a phase; an mbarrier counts up to {most}"),
        }
    }
}

/// Bytes of an mbarrier.
const WORD: u32 = 8;
/// Most arrivals, and bytes, of a phase.
const MOST: u32 = (1 << 20) - 1;

impl Channel {
    /// A ring of so many slots.
    pub fn new(depth: u32, consumers: u32, bytes: u32, lag: u32) -> Channel {
        Channel { depth, consumers, bytes, lag }
    }

    /// True for every number of items: nothing stops, is read early or overwritten early, if both sides follow the protocol above.
    pub fn check(&self) -> Result<(), ChannelError> {
        if self.depth <= self.lag {
            return Err(ChannelError::Starved { depth: self.depth, lag: self.lag });
        }
        for (what, got) in [("arrivals", self.consumers), ("bytes", self.bytes)] {
            if got == 0 || got > MOST {
                return Err(ChannelError::Count { what, got, most: MOST });
            }
        }
        Ok(())
    }

    /// Bytes of all mbarriers.
    pub fn barrier_bytes(&self) -> u32 {
        2 * WORD * self.depth
    }

    /// Offset of the word that says that a slot is full.
    pub fn full(&self, slot: u32) -> i32 {
        (slot * WORD) as i32
    }

    /// Offset of the word that says that a slot is empty.
    pub fn empty(&self, slot: u32) -> i32 {
        ((self.depth + slot) * WORD) as i32
    }

    /// Offsets and counts of arrivals of all words.
    pub fn words(&self) -> impl Iterator<Item = (i32, u32)> {
        let c = *self;
        (0..c.depth).flat_map(move |s| [(c.full(s), 1), (c.empty(s), c.consumers)])
    }
}
