//! How many registers there are, and which vector file each register gets that may have either.
//!
//! Vector and accumulation registers come from one pool: what a wavefront may use follows from how many wavefronts of the workgroup share a
//! unit. Registers with a free choice are vector registers as long as they fit; then the longest-lived and widest ones, the sums of matrix
//! instructions, go to the other file.

use super::effects::same_file;
use super::live::Ranges;
use super::pressure::Pressure;
use super::words::{Words, file_size};
use crate::mir::{File, Operand, Program, Reg, VReg};
use cranelift_entity::EntityRef;

/// SIMD units of a compute unit: wavefronts of a workgroup are dealt out to them.
const UNITS: u32 = 4;
/// Registers of both vector files that a unit has for each lane.
const POOL: u32 = 512;
/// Registers are given out in blocks of so many.
const GRANULE: u32 = 8;

/// Registers of both vector files that a wavefront may use, so that a workgroup fits.
pub(super) fn pool(waves: u32) -> usize {
    let sharing = waves.div_ceil(UNITS).max(1);
    (POOL / sharing / GRANULE * GRANULE) as usize
}

/// Files of registers, and what is in use.
#[derive(Debug)]
pub(super) struct Files {
    /// The file of each virtual register.
    pub of: Vec<File>,
    /// Vector registers in use.
    pub vector: Pressure,
    /// Accumulation registers in use.
    pub acc: Pressure,
}

/// Registers that instructions want in the same file.
struct Groups {
    parent: Vec<usize>,
}

impl Groups {
    fn find(&mut self, mut of: usize) -> usize {
        while self.parent[of] != of {
            self.parent[of] = self.parent[self.parent[of]];
            of = self.parent[of];
        }
        of
    }
}

/// What a group of registers needs.
#[derive(Clone, Default)]
struct Group {
    members: Vec<VReg>,
    /// The file, if some of them have no choice.
    fixed: Option<File>,
}

fn groups(program: &Program) -> Vec<Group> {
    let mut groups = Groups { parent: (0..program.vregs.len()).collect() };
    let mut fixed: Vec<Option<File>> = program.vregs.values().map(|data| (!data.either).then_some(data.file)).collect();
    for inst in program.blocks.values().flat_map(|b| &b.insts) {
        let mut first: Option<usize> = None;
        let mut physical = None;
        let together = same_file(inst);
        for &at in &together {
            if let Some(Operand::Reg(span)) = inst.operands.get(at) {
                match span.reg {
                    Reg::Virtual(reg) => {
                        let root = groups.find(reg.index());
                        match first {
                            Some(other) => {
                                let other = groups.find(other);
                                groups.parent[root] = other;
                                fixed[other] = fixed[other].or(fixed[root]);
                            }
                            None => first = Some(root),
                        }
                    }
                    Reg::Physical(file, _) => physical = Some(file),
                    Reg::Fixed(_) => {}
                }
            }
        }
        if let (Some(first), Some(file)) = (first, physical) {
            let root = groups.find(first);
            fixed[root] = fixed[root].or(Some(file));
        }
    }
    let mut found = vec![Group::default(); program.vregs.len()];
    for reg in program.vregs.keys() {
        let root = groups.find(reg.index());
        found[root].members.push(reg);
        found[root].fixed = fixed[root];
    }
    found.retain(|g| !g.members.is_empty());
    found
}

/// Chooses files so that at most `vector` vector registers are in use at a time, if the other file has room: `acc` registers.
pub(super) fn files(program: &Program, words: &Words, ranges: &Ranges, vector: usize, acc: usize) -> Files {
    let mut files =
        Files { of: program.vregs.values().map(|d| d.file).collect(), vector: Pressure::new(ranges.rows), acc: Pressure::new(ranges.rows) };
    for number in 0..file_size(File::Vector) {
        files.vector.add(ranges.of(words.physical(File::Vector, number)), 1);
        files.acc.add(ranges.of(words.physical(File::Acc, number)), 1);
    }
    let mut free = Vec::new();
    for group in groups(program) {
        let area = |reg: &VReg| words.of(*reg).flat_map(|w| ranges.of(w)).map(|s| u64::from(s.end - s.start)).sum::<u64>();
        let pressure = if group.fixed == Some(File::Acc) { &mut files.acc } else { &mut files.vector };
        for &reg in &group.members {
            if program.vregs[reg].file != File::Scalar {
                words.of(reg).for_each(|w| pressure.add(ranges.of(w), 1));
                if program.vregs[reg].either {
                    files.of[reg.index()] = group.fixed.unwrap_or(File::Vector);
                }
            }
        }
        if group.fixed.is_none() {
            free.push((group.members.iter().map(area).sum::<u64>(), group.members));
        }
    }
    free.sort_by_key(|(area, members)| (std::cmp::Reverse(*area), members.first().copied()));
    let mut most = files.vector.highest();
    for (_, members) in free {
        if most <= vector {
            break;
        }
        let spans = || members.iter().flat_map(|&reg| words.of(reg));
        // It only helps where too much is in use.
        if spans().all(|w| files.vector.within(ranges.of(w)) <= vector) {
            continue;
        }
        spans().for_each(|w| files.acc.add(ranges.of(w), 1));
        if files.acc.highest() > acc {
            spans().for_each(|w| files.acc.add(ranges.of(w), -1));
            continue;
        }
        spans().for_each(|w| files.vector.add(ranges.of(w), -1));
        members.iter().for_each(|&reg| files.of[reg.index()] = File::Acc);
        most = files.vector.highest();
    }
    files
}
