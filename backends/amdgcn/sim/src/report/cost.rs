//! The estimate of cycles: a wave issues in order; each instruction holds its unit for the cycles of the table, and the next one that
//! wants the same unit waits. Latencies of memory are not estimated: waits cost their issue only. [`super::shared`] looks at the same
//! instructions where waves share their units.

use crate::chip::Chip;
use crate::decode::inst::{Inst, Op, Program};
use crate::isa::memory::DsKind;
use crate::isa::vector::Class;

/// The parameters, in cycles. They are documented or assumed, not measured here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A vector instruction of 64 lanes on 16.
    pub vector: u64,
    /// A transcendental one.
    pub transcendental: u64,
    /// f64 and wide integer products.
    pub wide: u64,
    /// A scalar instruction.
    pub scalar: u64,
    /// A matrix instruction's issue; its passes hold the matrix core for this many cycles each.
    pub matrix_issue: u64,
    /// Cycles of a pass.
    pub pass: u64,
    /// The issue of an instruction on LDS or memory.
    pub memory_issue: u64,
    /// Cycles of the LDS unit per 128 bytes.
    pub lds_line: u64,
    /// Cycles of the address unit per 16 lanes of a vector access to memory.
    pub memory_quarter: u64,
}

impl Costs {
    /// The table of a chip.
    pub fn of(chip: Chip) -> Costs {
        let base = Costs {
            vector: 4,
            transcendental: 16,
            wide: 8,
            scalar: 4,
            matrix_issue: 4,
            pass: 4,
            memory_issue: 4,
            lds_line: 1,
            memory_quarter: 4,
        };
        match chip {
            Chip::Gfx90a | Chip::Gfx942 => base,
            // 256 bytes per cycle: two lines at once are counted as one of half the lanes.
            Chip::Gfx950 => base,
        }
    }

    /// What an instruction takes.
    pub(super) fn work(&self, inst: &Inst) -> Work {
        let work = |unit, issue, hold| Work { unit, issue, hold };
        match &inst.op {
            Op::Vector(v) => {
                let issue = match v.row.class {
                    Class::Trans => self.transcendental,
                    Class::Wide => self.wide,
                    Class::Plain | Class::Dot => self.vector,
                };
                work(Unit::Vector, issue, issue)
            }
            Op::Matrix(m) => work(Unit::Matrix, self.matrix_issue, self.pass * u64::from(m.row.passes)),
            Op::Ds(d) => {
                let bytes = match d.row.kind {
                    DsKind::Read(l) => u64::from(l.bytes),
                    DsKind::Read2 { bytes, .. } | DsKind::Write2 { bytes, .. } => 2 * u64::from(bytes),
                    DsKind::Write { bytes, .. } | DsKind::Atomic { bytes, .. } => u64::from(bytes),
                    _ => 4,
                };
                work(Unit::Lds, self.memory_issue, self.lds_line * (64 * bytes.max(2)).div_ceil(128))
            }
            Op::Mem(_) => work(Unit::Memory, self.memory_issue, 4 * self.memory_quarter),
            Op::Program(_, Program::Nop(n)) => work(Unit::None, self.scalar * (u64::from(n & 15) + 1), 0),
            Op::Program(_, Program::Branch(..)) | Op::Scalar(_) | Op::Smem(_) => work(Unit::Scalar, self.scalar, self.scalar),
            Op::Program(..) => work(Unit::None, self.scalar, 0),
        }
    }
}

/// A unit that executes instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    /// Vector instructions on registers.
    Vector,
    /// The matrix core.
    Matrix,
    /// LDS.
    Lds,
    /// Addresses of memory.
    Memory,
    /// Scalar instructions, and branches.
    Scalar,
    /// What the wave does with itself: waits, nops, priorities.
    None,
}

/// What an instruction takes: the wave's time, and its unit's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Work {
    pub unit: Unit,
    /// Cycles until the wave issues the next one.
    pub issue: u64,
    /// Cycles until the unit takes the next one.
    pub hold: u64,
}

/// The clock of a wave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Clock {
    now: u64,
    matrix_free: u64,
    lds_free: u64,
    memory_free: u64,
    /// Cycles that conflicts added to the newest instruction.
    added: u64,
}

impl Clock {
    pub fn now(self) -> u64 {
        self.now.max(self.matrix_free)
    }

    /// Waves that meet at a barrier go on together.
    pub fn join<'a>(clocks: impl Iterator<Item = &'a mut Clock>) {
        let mut all: Vec<&mut Clock> = clocks.collect();
        let latest = all.iter().map(|c| c.now).max().unwrap_or(0);
        all.iter_mut().for_each(|c| c.now = latest);
    }

    /// Conflicts hold the LDS unit longer.
    pub fn conflicts(&mut self, cycles: u64) {
        self.lds_free += cycles;
        self.added += cycles;
    }

    /// Cycles that conflicts added to the newest instruction.
    pub fn added(self) -> u64 {
        self.added
    }

    pub fn issue(&mut self, chip: Chip, inst: &Inst) {
        let work = Costs::of(chip).work(inst);
        self.added = 0;
        let free = match work.unit {
            Unit::Matrix => &mut self.matrix_free,
            Unit::Lds => &mut self.lds_free,
            Unit::Memory => &mut self.memory_free,
            // These take as long as the wave does.
            Unit::Vector | Unit::Scalar | Unit::None => {
                self.now += work.issue;
                return;
            }
        };
        self.now = self.now.max(*free);
        *free = self.now + work.hold;
        self.now += work.issue;
    }
}
