//! Prices of work, from documented rates, not measured.

use crate::chip::Chip;
use tilelift_isel::Costs;

/// What a chip's work costs: four units of 16 lanes, 128 bytes of shared memory a cycle.
pub(super) const fn of(chip: Chip) -> Costs {
    match chip {
        Chip::Gfx90a => CDNA2,
        Chip::Gfx942 => CDNA3,
        Chip::Gfx950 => CDNA4,
    }
}

/// 5.3 TB/s over 304 compute units at 2.1 GHz.
const CDNA3: Costs = Costs {
    alu: 16,
    special: 64,
    product: 16,
    shuffle: 32,
    redux: [0; 2],
    step_latency: [256, 512],
    wavefront: 16,
    shared_latency: 1024,
    barrier: [320, 32],
    global_latency: 12_800,
    sector: 62,
    line: 16,
    spill: 128,
    group_product: 0,
    group_operands: [0; 2],
    group_left: 0,
    group_wait: 0,
    group_turn: 0,
    box_start: 0,
    box_row: 0,
    box_sector: 0,
    chain: 128,
    processors: 304,
    megahertz: 2100,
    launch: 2500,
};

/// 1.6 TB/s over the 110 compute units of a die at 1.7 GHz, which multiply half as fast.
const CDNA2: Costs = Costs { product: 32, sector: 60, processors: 110, megahertz: 1700, ..CDNA3 };

/// 8 TB/s over 256 compute units at 2.4 GHz, which multiply twice as fast and read 256 bytes of shared memory a cycle.
const CDNA4: Costs = Costs { product: 8, sector: 39, processors: 256, megahertz: 2400, ..CDNA3 };
