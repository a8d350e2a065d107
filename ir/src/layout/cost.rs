//! Costs of conversions: instructions, shared traffic, barriers and a time estimate.
//!
//! Time per streaming multiprocessor, in cycles: a shuffle moves 32 lanes per cycle, a select 64, a
//! wavefront takes one cycle, and a trip through shared memory waits for its latency once per
//! direction. A conflict-free access moves one bank line per wavefront at every width, so vector
//! width saves issue slots, not bandwidth.

use super::plan::Conversion;

/// Latency of one direction of a shared-memory trip in cycles.
const SHARED_LATENCY: u32 = 30;

/// What one conversion costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConversionCost {
    /// Cycles of one multiprocessor for all warps of the block, an estimate.
    pub cycles: u32,
    /// Shuffle instructions per warp.
    pub shuffles: u32,
    /// Select (or byte permute) instructions per warp.
    pub selects: u32,
    /// Shared-memory load and store instructions per warp.
    pub memory: u32,
    /// Wavefronts per warp.
    pub wavefronts: u32,
    /// Scratch bytes per block.
    pub shared_bytes: u32,
    /// Block-wide barriers: one between stores and loads, one before the scratch is used again.
    pub barriers: u32,
}

/// The cost of a planned conversion of elements of `elem_bytes` in a block of `warps` warps.
pub fn conversion_cost(plan: &Conversion, elem_bytes: u32, warps: u32) -> ConversionCost {
    // 64-bit elements take two 32-bit instructions.
    let words = elem_bytes.div_ceil(4).max(1);
    let mut cost = ConversionCost::default();
    match plan {
        Conversion::Identity => {}
        Conversion::Rename(map) => cost.selects = repacked(map, elem_bytes),
        Conversion::InLane(p) => {
            cost.selects = p.selects() * words + repacked(&p.rename, elem_bytes);
        }
        Conversion::InWarp(p) => {
            // Sub-word elements that move alike share a shuffle.
            let pack = (4 / elem_bytes.clamp(1, 4)) as usize;
            cost.shuffles = p.packed_shuffles(pack).len() as u32 * words;
            cost.selects = p.selects() * words;
        }
        Conversion::RoundTrip(p) => {
            cost.memory = (p.store_regs.len() + p.load_regs.len()) as u32;
            cost.wavefronts = p.store_wavefronts + p.load_wavefronts;
            cost.shared_bytes = p.map.elements() * elem_bytes;
            cost.barriers = if p.warp_local { 0 } else { 2 };
        }
    }
    let wait = if cost.memory > 0 { (2 + cost.barriers) * SHARED_LATENCY } else { 0 };
    cost.cycles = (cost.shuffles + cost.selects.div_ceil(2) + cost.wavefronts) * warps + wait;
    cost
}

/// Byte permutes of a renaming: 32-bit registers whose packed elements do not come, in order, from
/// one 32-bit register.
fn repacked(map: &[u32], elem_bytes: u32) -> u32 {
    let pack = (4 / elem_bytes.clamp(1, 4)) as usize;
    let whole = |group: &&[u32]| {
        let start = group[0];
        (start as usize).is_multiple_of(pack) && (start..).zip(*group).all(|(want, &r)| r == want)
    };
    map.chunks(pack).filter(|g| !whole(g)).count() as u32
}
