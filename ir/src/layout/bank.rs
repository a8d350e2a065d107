//! Exact bank conflicts of linear shared-memory accesses.
//!
//! Hardware serves a wide access in phases: the cosets of a subspace `V0` of lane numbers. Because
//! offsets are linear, every phase costs the same, `2^(rank(c) - rank(c mod line))` wavefronts with
//! `c` the access units reached by a basis of `V0`.
//!
//! Bank counts and phases: NVIDIA as documented for 4-, 8- and 16-byte accesses (all lanes, half
//! warps, quarter warps); AMD CDNA from published phase lists of `ds_read`/`ds_write`.

use super::access::AccessColumns;
use super::linear::{self, Span};

/// Direction of a shared-memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharedOp {
    /// Shared memory to registers.
    Load,
    /// Registers to shared memory.
    Store,
}

/// How one width of one access is served.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PhaseRule {
    /// Direction.
    pub op: SharedOp,
    /// Applies to accesses of at most this many bytes per lane.
    pub bytes: u32,
    /// Number of 4-byte banks.
    pub banks: u32,
    /// Lane numbers that span one phase.
    pub phase: Vec<u32>,
}

/// Banks and phases of a target's shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BankModel {
    /// Number of 4-byte banks (of loads, where directions differ).
    pub banks: u32,
    /// Rules in ascending width per direction.
    pub rules: Vec<PhaseRule>,
}

impl BankModel {
    fn from_table(banks: u32, table: &[(SharedOp, u32, u32, &[u32])]) -> Self {
        let rule = |&(op, bytes, banks, phase): &(SharedOp, u32, u32, &[u32])| PhaseRule { op, bytes, banks, phase: phase.to_vec() };
        Self { banks, rules: table.iter().map(rule).collect() }
    }

    /// NVIDIA: 32 banks, phases of consecutive lanes.
    pub fn nvidia() -> Self {
        use SharedOp::{Load, Store};
        Self::from_table(
            32,
            &[
                (Load, 4, 32, &[1, 2, 4, 8, 16]),
                (Load, 8, 32, &[1, 2, 4, 8]),
                (Load, 16, 32, &[1, 2, 4]),
                (Store, 4, 32, &[1, 2, 4, 8, 16]),
                (Store, 8, 32, &[1, 2, 4, 8]),
                (Store, 16, 32, &[1, 2, 4]),
            ],
        )
    }

    /// AMD CDNA3 (gfx942): 32 banks, 64 lanes; the phases of 16-byte reads are not consecutive.
    /// The 8-byte phases are assumed to be 16 consecutive lanes.
    pub fn cdna3() -> Self {
        use SharedOp::{Load, Store};
        Self::from_table(
            32,
            &[
                (Load, 4, 32, &[1, 2, 4, 8, 16]),
                (Load, 8, 32, &[1, 2, 4, 8]),
                (Load, 16, 32, &[1, 2, 4 ^ 16]),
                (Store, 4, 32, &[1, 2, 4, 8, 16]),
                (Store, 8, 32, &[1, 2, 4, 8]),
                (Store, 16, 32, &[1, 2, 4]),
            ],
        )
    }

    /// AMD CDNA4 (gfx950): 64 banks for reads, 32 for writes. The phases of 4-byte accesses and of
    /// 16-byte writes are assumed from the bank line.
    pub fn cdna4() -> Self {
        use SharedOp::{Load, Store};
        Self::from_table(
            64,
            &[
                (Load, 4, 64, &[1, 2, 4, 8, 16, 32]),
                (Load, 8, 64, &[1, 2, 4, 8, 16]),
                (Load, 16, 64, &[1, 2, 4 ^ 8, 4 ^ 16]),
                (Store, 4, 32, &[1, 2, 4, 8, 16]),
                (Store, 8, 32, &[1, 2, 4, 8]),
                (Store, 16, 32, &[1, 2, 4]),
            ],
        )
    }

    /// Banks and phase vectors for an access; the widest rule serves anything wider.
    pub fn phase(&self, op: SharedOp, bytes: u32) -> (u32, &[u32]) {
        let mut rules = self.rules.iter().filter(|r| r.op == op);
        let fits = rules.clone().find(|r| bytes <= r.bytes);
        fits.or_else(|| rules.next_back()).map_or((self.banks, &[]), |r| (r.banks, &r.phase))
    }
}

/// Cost of one instruction of one warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wavefronts {
    /// Passes that one phase needs; 1 is conflict-free.
    pub per_phase: u32,
    /// Number of phases.
    pub phases: u32,
}

impl Wavefronts {
    /// Passes of the whole instruction.
    pub fn total(self) -> u32 {
        self.per_phase * self.phases
    }
}

/// The most different units that fall into one bank (of `line + 1`).
pub(crate) fn fullest(units: impl Iterator<Item = u64>, line: u64) -> u32 {
    let mut list: Vec<u64> = units.collect();
    list.sort_unstable();
    list.dedup();
    let mut counts = std::collections::BTreeMap::new();
    list.iter().for_each(|u| *counts.entry(u & line).or_insert(0u32) += 1);
    counts.into_values().max().unwrap_or(1)
}

/// Wavefronts of one instruction in which each lane accesses `width` elements at its offset in `p`.
/// Lanes that have a bit of `idle_lanes` do not take part (predicated off).
pub fn wavefronts(p: &AccessColumns, elem_bytes: u32, width: u32, op: SharedOp, model: &BankModel, idle_lanes: u32) -> Wavefronts {
    let bytes = (elem_bytes * width).max(1);
    let (banks, phase) = model.phase(op, bytes);
    let unit = bytes.max(4);
    let shift = unit.ilog2();
    let lane_bits = p.lane.len() as u32;
    let all = ((1u64 << lane_bits) - 1) as u32;
    // Active lanes of a phase: a coset of the phase subspace met with "no idle bit".
    let active: Vec<u32> = (0..lane_bits).map(|i| 1 << i).filter(|b| b & idle_lanes == 0).collect();
    let phase: Vec<u32> = phase.iter().map(|v| v & all).filter(|&v| v != 0).collect();
    let phase = linear::intersect(&phase, &active);
    let elem_shift = elem_bytes.max(1).ilog2();
    let units: Vec<u64> = phase.iter().map(|&v| u64::from(linear::mul(&p.lane, u64::from(v))) << elem_shift >> shift).collect();
    let line = (u64::from(banks) * 4 / u64::from(unit)).max(1) - 1;
    let phases = 1 << (active.len() as u32 - Span::of(&phase).dim());
    if p.pad.is_some() {
        // Rows with gaps are not linear: the lanes of a phase are counted, of which every other phase is a copy at another row.
        let span = Span::of(&phase).basis();
        let lanes = (0..1u64 << span.len()).map(|x| linear::mul(&span, x));
        let units = lanes.map(|lane| (u64::from(p.place(linear::mul(&p.lane, u64::from(lane)))) << elem_shift) >> shift);
        return Wavefronts { per_phase: fullest(units, line), phases };
    }
    let whole: Vec<u32> = units.iter().map(|&c| c as u32).collect();
    let banked: Vec<u32> = units.iter().map(|&c| (c & line) as u32).collect();
    Wavefronts { per_phase: 1 << (linear::rank(&whole) - linear::rank(&banked)), phases }
}
