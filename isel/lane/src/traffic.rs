//! What the memory accesses of a text will cost, as its layouts say: counted while they are written, to be held against a simulator.

use tilelift_ir::layout::{AccessColumns, BankModel, SharedOp, sectors, wavefronts};

/// Bytes of a sector.
const SECTOR: u32 = 32;

/// Costs of all accesses of a program's text whose addresses layouts give, each run once by every warp that takes part, inside its
/// views and unmasked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Sectors of global memory. Rows are taken to begin with a sector.
    pub sectors: u64,
    /// Passes over the banks of shared memory.
    pub wavefronts: u64,
    /// Passes more than without conflicts.
    pub conflicts: u64,
}

impl Traffic {
    /// What has been counted since, taken so many times.
    pub(crate) fn repeated(self, since: Traffic, times: u32) -> Traffic {
        let more = |now: u64, then: u64| then + (now - then) * u64::from(times);
        Traffic {
            sectors: more(self.sectors, since.sectors),
            wavefronts: more(self.wavefronts, since.wavefronts),
            conflicts: more(self.conflicts, since.conflicts),
        }
    }
}

/// Counts traffic.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// What was counted.
    pub counts: Traffic,
    /// The target's; nothing shared is counted without.
    pub banks: Option<BankModel>,
}

impl Meter {
    /// A global access of `width` elements per lane, by so many warps.
    pub fn global(&mut self, columns: &AccessColumns, elem_bytes: u32, width: u32, warps: u32) {
        self.counts.sectors += u64::from(sectors(columns, elem_bytes, width, SECTOR) * warps);
    }

    /// A shared access of `bytes` per lane, columns in bytes, by so many warps.
    pub fn shared(&mut self, columns: &AccessColumns, bytes: u32, op: SharedOp, idle_lanes: u32, warps: u32) {
        let Some(banks) = &self.banks else { return };
        let w = wavefronts(columns, 1, bytes, op, banks, idle_lanes);
        self.counts.wavefronts += u64::from(w.total() * warps);
        self.counts.conflicts += u64::from((w.total() - w.phases) * warps);
    }

    /// A matrix load of so many matrices.
    pub fn matrices(&mut self, count: u32, wavefronts: u32, warps: u32) {
        self.counts.wavefronts += u64::from(count * wavefronts * warps);
        self.counts.conflicts += u64::from(count * (wavefronts - 1) * warps);
    }
}
