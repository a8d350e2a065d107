//! What a launch did: instructions by class, bank conflicts, transactions, and an estimate of cycles.

mod banks;
mod cost;
mod shared;

pub(crate) use cost::Clock;
pub use cost::Costs;
pub(crate) use shared::Shared;

use crate::chip::Chip;
use crate::decode::inst::{Inst, Op, Program};
use crate::isa::memory::MemKind;
use crate::isa::vector::Class;
use crate::span::Span;
use rustc_hash::FxHashMap;

/// Counts of a launch.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Instructions that waves issued.
    pub instructions: u64,
    /// Scalar instructions on registers.
    pub scalar: u64,
    /// Scalar loads.
    pub scalar_memory: u64,
    /// Vector instructions on registers.
    pub vector: u64,
    /// Those of them on the transcendental unit.
    pub transcendental: u64,
    /// Matrix instructions.
    pub matrix: u64,
    /// Their passes.
    pub matrix_passes: u64,
    /// Matrix instructions of waves whose priority was raised.
    pub matrix_raised: u64,
    /// Instructions on LDS.
    pub lds: u64,
    /// Vector loads from memory.
    pub loads: u64,
    /// Of these, to LDS.
    pub loads_to_lds: u64,
    /// Vector stores to memory.
    pub stores: u64,
    /// Atomics on memory.
    pub atomics: u64,
    /// Barriers of workgroups.
    pub barriers: u64,
    /// Branches.
    pub branches: u64,
    /// `s_waitcnt`.
    pub waits: u64,
    /// `s_nop`.
    pub nops: u64,
    /// Cycles of LDS: phases with their conflicts.
    pub lds_cycles: u64,
    /// Of these, those that conflicts added.
    pub lds_conflict_cycles: u64,
    /// Pieces of 64 bytes of global memory that instructions touched.
    pub global_transactions: u64,
    /// Bytes that lanes asked for of global memory.
    pub global_bytes: u64,
    /// Waves that ran.
    pub waves: u64,
    /// Estimated cycles of all waves together, each as if it had a SIMD for itself.
    pub wave_cycles: u64,
    /// Estimated cycles of the slowest wave.
    pub longest_wave: u64,
    /// Estimated cycles of the slowest workgroup, whose waves share a compute unit that no other workgroup is on.
    pub longest_group: u64,
    /// How often instructions were issued, by their addresses; see [`crate::Module::text_at`].
    pub executed: FxHashMap<u64, u64>,
    /// Conflict cycles by instruction address.
    pub conflicts_by_pc: FxHashMap<u64, u64>,
    /// Traffic with global memory by instruction address.
    pub traffic_by_pc: FxHashMap<u64, Traffic>,
}

/// What an instruction moved from or to global memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Pieces of 64 bytes that it touched.
    pub transactions: u64,
    /// Bytes that lanes asked for.
    pub bytes: u64,
}

impl Report {
    /// Instructions by class, with the class as the beginning of their names; the classes are apart, and together all that were counted by one.
    pub fn classes(&self) -> [(&'static str, u64); 13] {
        [
            ("s", self.scalar),
            ("s_load", self.scalar_memory),
            ("v", self.vector - self.transcendental),
            ("v_transcendental", self.transcendental),
            ("v_mfma", self.matrix),
            ("ds", self.lds),
            ("global_load", self.loads),
            ("global_store", self.stores),
            ("global_atomic", self.atomics),
            ("s_barrier", self.barriers),
            ("s_branch", self.branches),
            ("s_waitcnt", self.waits),
            ("s_nop", self.nops),
        ]
    }

    /// Counts an instruction of a wave with its clock, and whether its priority is raised.
    pub(crate) fn count(&mut self, chip: Chip, inst: &Inst, clock: &mut Clock, raised: bool) {
        self.instructions += 1;
        *self.executed.entry(inst.address).or_default() += 1;
        match &inst.op {
            Op::Scalar(_) => self.scalar += 1,
            Op::Smem(_) => self.scalar_memory += 1,
            Op::Vector(v) => {
                self.vector += 1;
                self.transcendental += u64::from(v.row.class == Class::Trans);
            }
            Op::Matrix(m) => {
                self.matrix += 1;
                self.matrix_raised += u64::from(raised);
                self.matrix_passes += u64::from(m.row.passes);
            }
            Op::Ds(_) => self.lds += 1,
            Op::Mem(m) => match m.kind {
                MemKind::Load(_) => self.loads += 1,
                MemKind::LoadLds { .. } => {
                    self.loads += 1;
                    self.loads_to_lds += 1;
                }
                MemKind::Store { .. } => self.stores += 1,
                MemKind::Atomic { .. } => self.atomics += 1,
                MemKind::Cache | MemKind::Refused => {}
            },
            Op::Program(_, p) => match p {
                Program::Branch(..) => self.branches += 1,
                Program::Wait(_) => self.waits += 1,
                Program::Nop(_) => self.nops += 1,
                Program::End | Program::Barrier | Program::Priority(_) | Program::Hint | Program::Trap | Program::Refused => {}
            },
        }
        clock.issue(chip, inst);
    }

    /// Notes the LDS accesses of an instruction.
    pub(crate) fn lds(&mut self, chip: Chip, inst: &Inst, spans: &[Span], clock: &mut Clock) {
        if spans.is_empty() {
            return;
        }
        let (cycles, conflicts) = banks::cycles(chip, spans);
        self.lds_cycles += cycles;
        self.lds_conflict_cycles += conflicts;
        clock.conflicts(conflicts);
        if conflicts > 0 {
            *self.conflicts_by_pc.entry(inst.address).or_default() += conflicts;
        }
    }

    /// Notes the global accesses of an instruction.
    pub(crate) fn global(&mut self, inst: &Inst, addresses: &[(u64, u8)]) {
        if addresses.is_empty() {
            return;
        }
        let mut pieces: Vec<u64> = addresses.iter().flat_map(|&(a, n)| a / 64..(a + u64::from(n)).div_ceil(64)).collect();
        pieces.sort_unstable();
        pieces.dedup();
        let (transactions, bytes) = (pieces.len() as u64, addresses.iter().map(|a| u64::from(a.1)).sum::<u64>());
        self.global_transactions += transactions;
        self.global_bytes += bytes;
        let here = self.traffic_by_pc.entry(inst.address).or_default();
        here.transactions += transactions;
        here.bytes += bytes;
    }

    pub(crate) fn group_done(&mut self, clocks: impl Iterator<Item = Clock>, shared: &mut Shared) {
        self.longest_group = self.longest_group.max(shared.end());
        for c in clocks {
            self.waves += 1;
            self.wave_cycles += c.now();
            self.longest_wave = self.longest_wave.max(c.now());
        }
    }
}
