//! How many registers there are, and which vector file each register gets that may have either.
//!
//! Vector and accumulation registers come from one pool: what a wavefront may use follows from how many wavefronts of the workgroup share a
//! unit. Registers with a free choice are vector registers as long as they fit; then the longest-lived and widest ones, the sums of matrix
//! instructions, go to the other file.

use super::effects::same_file;
use super::live::Ranges;
use super::pressure::{Changes, Pressure};
use super::words::{Words, file_size};
use crate::mir::{File, Operand, Program, Reg, VReg};
use cranelift_entity::EntityRef;
use std::cmp::Reverse;

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
#[derive(Clone, Debug)]
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
    /// Per register another one of its group, or itself.
    parent: Vec<usize>,
    /// Per register that stands for its group the file, if some of them have no choice.
    fixed: Vec<Option<File>>,
}

impl Groups {
    fn new(program: &Program) -> Groups {
        let mut groups = Groups {
            parent: (0..program.vregs.len()).collect(),
            fixed: program.vregs.values().map(|data| (!data.either).then_some(data.file)).collect(),
        };
        for inst in program.blocks.values().flat_map(|b| &b.insts) {
            let mut first: Option<usize> = None;
            let mut physical = None;
            for operand in same_file(inst) {
                let Operand::Reg(span) = operand else { continue };
                match span.reg {
                    Reg::Virtual(reg) => {
                        let root = groups.find(reg.index());
                        match first {
                            Some(other) => {
                                let other = groups.find(other);
                                groups.parent[root] = other;
                                groups.fixed[other] = groups.fixed[other].or(groups.fixed[root]);
                            }
                            None => first = Some(root),
                        }
                    }
                    Reg::Physical(file, _) => physical = Some(file),
                    Reg::Fixed(_) => {}
                }
            }
            if let (Some(first), Some(file)) = (first, physical) {
                let root = groups.find(first);
                groups.fixed[root] = groups.fixed[root].or(Some(file));
            }
        }
        groups
    }

    fn find(&mut self, mut of: usize) -> usize {
        while self.parent[of] != of {
            self.parent[of] = self.parent[self.parent[of]];
            of = self.parent[of];
        }
        of
    }
}

/// What holds however many registers the files have: who wants which file, and what is in use while those that may have either are vector
/// registers.
#[derive(Debug)]
pub(super) struct Demand {
    files: Files,
    /// Groups with a free choice, those that occupy most first: members of a group stand together.
    free: Vec<VReg>,
    /// Where groups end.
    ends: Vec<usize>,
}

impl Demand {
    /// Finds it.
    pub(super) fn new(program: &Program, words: &Words, ranges: &Ranges) -> Demand {
        let mut groups = Groups::new(program);
        let mut of: Vec<File> = program.vregs.values().map(|d| d.file).collect();
        let (mut vector, mut acc) = (Changes::new(ranges.rows), Changes::new(ranges.rows));
        for number in 0..file_size(File::Vector) {
            vector.add(ranges.of(words.physical(File::Vector, number)));
            acc.add(ranges.of(words.physical(File::Acc, number)));
        }
        // Per register that stands for a group: rows of all of them, and the first of them.
        let mut areas: Vec<(u64, Option<VReg>)> = vec![(0, None); program.vregs.len()];
        let mut free = Vec::new();
        for (reg, data) in program.vregs.iter() {
            let root = groups.find(reg.index());
            let fixed = groups.fixed[root];
            if data.file != File::Scalar {
                let changes = if fixed == Some(File::Acc) { &mut acc } else { &mut vector };
                changes.add(ranges.of_all(words.of(reg)));
                if data.either {
                    of[reg.index()] = fixed.unwrap_or(File::Vector);
                }
            }
            if fixed.is_none() {
                areas[root].0 += ranges.area(words.of(reg));
                areas[root].1.get_or_insert(reg);
                free.push((root, reg));
            }
        }
        free.sort_by_key(|&(root, _)| (Reverse(areas[root].0), areas[root].1));
        let ends = (1..=free.len()).filter(|&i| free.get(i).is_none_or(|next| next.0 != free[i - 1].0)).collect();
        let files = Files { of, vector: Pressure::of(&vector.counts()), acc: Pressure::of(&acc.counts()) };
        Demand { files, free: free.into_iter().map(|f| f.1).collect(), ends }
    }

    /// Chooses files so that at most `vector` vector registers are in use at a time, if the other file has room: `acc` registers.
    pub(super) fn files(&self, words: &Words, ranges: &Ranges, vector: usize, acc: usize) -> Files {
        let mut files = self.files.clone();
        let mut most = files.vector.highest();
        let mut from = 0;
        for &end in &self.ends {
            if most <= vector {
                break;
            }
            let members = &self.free[std::mem::replace(&mut from, end)..end];
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
}
