//! What sorts take, by whichever way.

use super::keys::Keys;
use tilelift_lane::{LTy, Target};

/// Warps that wait beside one another on a multiprocessor, in a launch that fills it: what one waits for, the others work meanwhile.
const RESIDENT: u64 = 32;

/// What a warp does for a sort.
#[derive(Clone, Copy, Default)]
pub(super) struct Work {
    /// Comparisons, choices and other simple operations.
    pub simple: u64,
    /// Words that are shuffled.
    pub shuffles: u64,
    /// Words that are written to shared memory and read again, by all lanes.
    pub traded: u64,
    /// Times that all warps meet for it.
    pub meetings: u64,
    /// Least words that are found.
    pub reduxes: u64,
    /// Steps that wait for the one before: comparisons, shuffles and least words.
    pub waits: [u64; 3],
}

impl Work {
    /// The price for a program, in sixteenths of a cycle: the busiest unit, a quarter of the others, and what other warps don't hide of how long it takes.
    pub fn price(self, target: &Target, warps: u64) -> u64 {
        let c = &target.costs;
        let units = [self.simple * c.alu, self.shuffles * c.shuffle + self.reduxes * c.redux[0], 2 * self.traded * c.wavefront];
        let (busiest, all) = (units.into_iter().max().unwrap_or(0), units.into_iter().sum::<u64>());
        let [compared, moved] = c.step_latency;
        let meeting = 2 * (c.barrier[0] + c.barrier[1] * warps) + 2 * c.shared_latency;
        let latency = self.waits[0] * compared + self.waits[1] * moved + self.waits[2] * c.redux[1];
        warps * (busiest + (all - busiest) / 4) + self.meetings * meeting + latency * warps / RESIDENT
    }
}

/// Words of an item.
pub(super) fn words(keys: Keys) -> u64 {
    u64::from(keys.ty().bytes() / 4) + u64::from(keys.pair())
}

/// Operations that find which of two items comes first.
pub(super) fn compared(keys: Keys) -> u64 {
    match keys.ty() {
        LTy::I32 => 1,
        // By the upper words and, with what is carried, by the lower ones; beside a position another time for equal ones.
        _ if keys.pair() => 7,
        _ => 2,
    }
}

/// Operations that put two items in order, of which so many (1 or 2) are looked at, and whose positions may be in order.
pub(super) fn ordered(keys: Keys, looked_at: u64, in_order: bool) -> u64 {
    // A word has a least and a greatest.
    if keys.ty() == LTy::I32 {
        return looked_at;
    }
    let bare = if in_order && keys.placed { u64::from(keys.bare().bytes() / 4) } else { compared(keys) };
    bare + looked_at * words(keys)
}
