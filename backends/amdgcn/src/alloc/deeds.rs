//! What the instructions of a program do to words, written down once for all walks over it.

use super::effects::{Touch, ignores_exec, touches, writes_early};
use super::words::Words;
use crate::isa::Access;
use crate::mir::Program;
use std::ops::Range;

/// Words that an operand names.
#[derive(Clone, Copy)]
pub(super) struct Run {
    first: u32,
    words: u8,
    /// The scalar file has them.
    pub scalar: bool,
}

impl Run {
    /// The words.
    pub(super) fn words(self) -> Range<usize> {
        self.first as usize..self.first as usize + usize::from(self.words)
    }
}

/// What an instruction does to words.
#[derive(Clone, Copy)]
pub(super) struct Deed {
    /// Where what it writes begins among all runs, and what it reads.
    writes: u32,
    reads: u32,
    /// It writes before it has read all.
    pub early: bool,
    /// All lanes take part.
    pub all_lanes: bool,
}

/// Deeds of all instructions, in the order of the program.
pub(super) struct Deeds {
    /// Per instruction, and one more for the end.
    insts: Vec<Deed>,
    runs: Vec<Run>,
}

impl Deeds {
    /// Reads a program.
    pub(super) fn new(program: &Program, words: &Words) -> Deeds {
        let count: usize = program.blocks.values().map(|b| b.insts.len()).sum();
        let (mut insts, mut runs) = (Vec::with_capacity(count + 1), Vec::with_capacity(4 * count));
        let run = |touch: Touch| {
            let (range, scalar) = words.span(touch.span)?;
            Some(Run { first: range.start as u32, words: range.len() as u8, scalar })
        };
        for inst in program.blocks.values().flat_map(|b| &b.insts) {
            let touches = touches(inst);
            let writes = runs.len() as u32;
            runs.extend(touches.clone().filter(|t| t.access != Access::Use).filter_map(run));
            let reads = runs.len() as u32;
            runs.extend(touches.filter(|t| t.access != Access::Def).filter_map(run));
            insts.push(Deed { writes, reads, early: writes_early(inst), all_lanes: ignores_exec(inst.op) });
        }
        let end = runs.len() as u32;
        insts.push(Deed { writes: end, reads: end, early: false, all_lanes: true });
        Deeds { insts, runs }
    }

    /// How many runs of words operands name.
    pub(super) fn count(&self) -> usize {
        self.runs.len()
    }

    /// What an instruction does.
    pub(super) fn of(&self, inst: usize) -> Deed {
        self.insts[inst]
    }

    /// Words that an instruction writes.
    pub(super) fn writes(&self, inst: usize) -> &[Run] {
        &self.runs[self.insts[inst].writes as usize..self.insts[inst].reads as usize]
    }

    /// Words that it reads.
    pub(super) fn reads(&self, inst: usize) -> &[Run] {
        &self.runs[self.insts[inst].reads as usize..self.insts[inst + 1].writes as usize]
    }
}
