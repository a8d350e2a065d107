//! A wave: its registers, which of them hold defined values, and what it has in flight.
//!
//! Scalar registers are defined bit by bit, since masks of lanes are made of bits; vector registers lane by lane.

use crate::check::flight::Flight;
use crate::check::hazard::Hazards;
use crate::decode::inst::{EXEC, File, VCC};

/// A vector register: a value per lane.
pub(crate) type Lanes = [u32; 64];

/// Where a wave stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Ready,
    AtBarrier,
    Ended,
}

/// A wave.
#[derive(Debug)]
pub(crate) struct Wave {
    pub index: u32,
    pub pc: u64,
    pub status: Status,
    pub s: [u32; 128],
    /// The bits that are defined.
    pub s_defined: [u32; 128],
    pub v: Vec<Lanes>,
    /// The lanes that are defined.
    pub v_defined: Vec<u64>,
    /// The first AGPR.
    pub accum: usize,
    pub scc: bool,
    pub scc_defined: bool,
    /// The mode register: rounding, denormals.
    pub mode: u32,
    /// Where its scratch memory is, if kernels say so themselves.
    pub scratch_address: Option<u64>,
    pub scratch: Vec<u8>,
    pub scratch_defined: Vec<bool>,
    /// Its priority among the waves of its SIMD: they are not raced here, so it changes nothing but counts.
    pub priority: u8,
    pub flight: Flight,
    pub hazards: Hazards,
    /// Cycles of its own issue, by the cost model.
    pub cycles: crate::report::Clock,
    pub steps: u64,
}

impl Wave {
    /// Where a register is among the vector registers.
    pub fn slot(&self, file: File, n: u16) -> usize {
        if file == File::A { self.accum + usize::from(n) } else { usize::from(n) }
    }

    pub fn s64(&self, n: u8) -> u64 {
        let n = usize::from(n);
        u64::from(self.s[n]) | u64::from(self.s[(n + 1) & 127]) << 32
    }

    pub fn s64_defined(&self, n: u8) -> u64 {
        let n = usize::from(n);
        u64::from(self.s_defined[n]) | u64::from(self.s_defined[(n + 1) & 127]) << 32
    }

    pub fn set_s(&mut self, n: u8, value: u32, defined: u32) {
        self.s[usize::from(n) & 127] = value;
        self.s_defined[usize::from(n) & 127] = defined;
    }

    pub fn set_s64(&mut self, n: u8, value: u64, defined: u64) {
        self.set_s(n, value as u32, defined as u32);
        self.set_s(n.wrapping_add(1), (value >> 32) as u32, (defined >> 32) as u32);
    }

    /// The active lanes.
    pub fn exec(&self) -> u64 {
        self.s64(EXEC)
    }

    pub fn vcc(&self) -> u64 {
        self.s64(VCC)
    }

    /// Sets a lane of a vector register.
    pub fn set_v(&mut self, slot: usize, lane: usize, value: u32, defined: bool) {
        self.v[slot][lane] = value;
        let bit = 1u64 << lane;
        self.v_defined[slot] = if defined { self.v_defined[slot] | bit } else { self.v_defined[slot] & !bit };
    }
}
