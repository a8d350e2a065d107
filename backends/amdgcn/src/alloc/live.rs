//! Which words hold a value where.
//!
//! Rows are the gaps between instructions: a block has one at its begin and one behind each instruction. A word occupies the rows in which it
//! holds what may be read later, and the row behind each instruction that writes it. A result may so lie where a source lies that is read for
//! the last time, unless the instruction writes early: then its results occupy the row before it as well.
//!
//! What is needed has a level, see [`super::exec`]: a write under lanes switched off ends no life that other lanes need. Nothing is held
//! before it is written on any way: live rows are those from which a read can be reached *and* which can be reached from a write.

use super::between::{Transfer, between};
use super::deeds::{Deed, Deeds};
use super::exec::{Level, Levels};
use super::fuel::Fuel;
use super::needs::{DEAD, Needs};
use super::result::AllocError;
use super::words::Words;
use crate::mir::{Block, File, Program};
use cranelift_entity::EntityRef;
use std::ops::Range;

/// Rows `start..end`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Seg {
    /// First row.
    pub start: u32,
    /// First row behind.
    pub end: u32,
}

/// Rows that words occupy.
#[derive(Debug)]
pub(super) struct Ranges {
    /// Rows of the program.
    pub rows: usize,
    segs: Vec<Seg>,
    first: Vec<u32>,
}

impl Ranges {
    /// How many ranges there are.
    pub(super) fn count(&self) -> usize {
        self.segs.len()
    }

    /// Rows of a word: sorted, disjoint, no two adjacent.
    pub(super) fn of(&self, word: usize) -> &[Seg] {
        &self.segs[self.first[word] as usize..self.first[word + 1] as usize]
    }

    /// Rows of words that follow one another, word by word.
    pub(super) fn of_all(&self, words: Range<usize>) -> &[Seg] {
        &self.segs[self.first[words.start] as usize..self.first[words.end] as usize]
    }

    /// How many rows words that follow one another occupy together.
    pub(super) fn area(&self, words: Range<usize>) -> u64 {
        self.of_all(words).iter().map(|seg| u64::from(seg.end - seg.start)).sum()
    }

    fn new(rows: usize, words: usize, found: &[(u32, Seg)]) -> Ranges {
        // Each word's rows get a place of their own, and are few there.
        let mut ends = vec![0u32; words + 1];
        found.iter().for_each(|&(word, _)| ends[word as usize + 1] += 1);
        for word in 0..words {
            ends[word + 1] += ends[word];
        }
        let mut all = vec![Seg { start: 0, end: 0 }; found.len()];
        for &(word, seg) in found {
            let at = &mut ends[word as usize];
            all[*at as usize] = seg;
            *at += 1;
        }
        let mut segs: Vec<Seg> = Vec::with_capacity(found.len());
        let mut first = Vec::with_capacity(words + 1);
        let mut from = 0;
        for &end in &ends[..words] {
            let own = &mut all[from..end as usize];
            from = end as usize;
            own.sort_unstable_by_key(|seg| seg.start);
            first.push(segs.len() as u32);
            let begin = segs.len();
            for &seg in &*own {
                match segs[begin..].last_mut() {
                    Some(last) if seg.start <= last.end => last.end = last.end.max(seg.end),
                    _ => segs.push(seg),
                }
            }
        }
        first.push(segs.len() as u32);
        Ranges { rows, segs, first }
    }
}

/// Walks a block from its end to its begin.
trait Walk {
    /// Lanes come back behind: needs are at most this level.
    fn sink(&mut self, cap: u8);
    /// A word is written behind row `row - 1`, under a level.
    fn write(&mut self, word: usize, row: u32, level: Level, early: bool);
    /// A word is read before row `row`.
    fn read(&mut self, word: usize, row: u32, need: u8);
    /// A word keeps its place in row `row - 1`, although nothing may have been written there.
    fn hold(&mut self, word: usize, row: u32);
}

/// Walks an instruction from its results to its operands.
fn walk_inst(walk: &mut impl Walk, deeds: &Deeds, inst: usize, row: u32, level: Level) {
    let Deed { early, all_lanes, .. } = deeds.of(inst);
    let vector = if all_lanes { Level::Known(0) } else { level };
    for run in deeds.writes(inst) {
        let level = if run.scalar { Level::Known(0) } else { vector };
        for word in run.words() {
            walk.write(word, row, level, early);
        }
    }
    for run in deeds.reads(inst) {
        let need = if run.scalar { 0 } else { vector.needs() };
        for word in run.words() {
            walk.read(word, row, need);
            if early {
                walk.hold(word, row);
            }
        }
    }
}

/// Walks a block whose first row is `base`.
fn walk_block(walk: &mut impl Walk, deeds: &Deeds, program: &Program, levels: &Levels, block: Block, base: u32) {
    // Each block has one row more than instructions.
    let first = base as usize - block.index();
    let changes = &levels.changes[block.index()];
    let mut level = levels.exit(block);
    let mut at_change = changes.len();
    walk.sink(level.needs());
    for at in (0..program.blocks[block].insts.len()).rev() {
        if let Some(&(_, change, _)) = at_change.checked_sub(1).and_then(|i| changes.get(i)).filter(|c| c.0 == at) {
            at_change -= 1;
            level = at_change.checked_sub(1).and_then(|i| changes.get(i)).map_or(levels.entry[block.index()], |c| c.2);
            walk.sink(change.cap.min(level.needs()));
        }
        walk_inst(walk, deeds, first + at, base + 1 + at as u32, level);
    }
}

/// Finds what a block does.
struct Summary {
    needs: Needs,
    kill: Vec<u8>,
    seen: Vec<bool>,
    touched: Vec<u32>,
    defined: Vec<u32>,
    cap: u8,
}

impl Summary {
    fn see(&mut self, word: usize) {
        if !self.seen[word] {
            self.seen[word] = true;
            self.touched.push(word as u32);
        }
    }
}

impl Walk for Summary {
    fn sink(&mut self, cap: u8) {
        self.cap = self.cap.min(cap);
        self.needs.sink(cap);
    }

    fn write(&mut self, word: usize, _row: u32, level: Level, _early: bool) {
        self.see(word);
        self.defined.push(word as u32);
        if self.needs.of[word] != DEAD && level.covers(self.needs.of[word]) {
            self.needs.of[word] = DEAD;
        }
        if let Level::Known(level) = level
            && level <= self.cap
        {
            self.kill[word] = self.kill[word].min(level);
        }
    }

    fn read(&mut self, word: usize, _row: u32, need: u8) {
        self.see(word);
        self.needs.need(word, need);
    }

    fn hold(&mut self, _word: usize, _row: u32) {}
}

/// Collects rows of words within a block.
struct Collect<'a> {
    needs: Needs,
    end: Vec<u32>,
    /// The first write that was seen of the open rows, if any.
    write: Vec<u32>,
    touched: Vec<u32>,
    open: Vec<bool>,
    found: &'a mut Vec<(u32, Seg)>,
}

/// No write was seen.
const NONE: u32 = u32::MAX;

impl Collect<'_> {
    /// A word that nobody needed is needed.
    fn begin(&mut self, word: usize, need: u8, end: u32) {
        self.needs.need(word, need);
        self.end[word] = end;
        self.write[word] = NONE;
        if !self.open[word] {
            self.open[word] = true;
            self.touched.push(word as u32);
        }
    }

    fn push(&mut self, word: usize, start: u32, end: u32) {
        self.found.push((word as u32, Seg { start, end }));
    }
}

impl Walk for Collect<'_> {
    fn sink(&mut self, cap: u8) {
        self.needs.sink(cap);
    }

    fn write(&mut self, word: usize, row: u32, level: Level, early: bool) {
        if early {
            self.push(word, row - 1, row);
        }
        if self.needs.of[word] == DEAD {
            self.push(word, row, row + 1);
        } else if level.covers(self.needs.of[word]) {
            self.push(word, row, self.end[word]);
            self.needs.of[word] = DEAD;
        } else {
            self.write[word] = row;
        }
    }

    fn read(&mut self, word: usize, row: u32, need: u8) {
        if self.needs.of[word] == DEAD {
            self.begin(word, need, row);
        } else {
            self.needs.need(word, need);
        }
    }

    fn hold(&mut self, word: usize, row: u32) {
        self.push(word, row - 1, row);
    }
}

fn transfers(program: &Program, deeds: &Deeds, total: usize, levels: &Levels, bases: &[u32]) -> Vec<Transfer> {
    let mut summary = Summary {
        needs: Needs::new(total),
        kill: vec![DEAD; total],
        seen: vec![false; total],
        touched: Vec::new(),
        defined: Vec::new(),
        cap: DEAD,
    };
    let mut transfers = Vec::with_capacity(program.blocks.len());
    for block in program.blocks.keys() {
        summary.cap = DEAD;
        walk_block(&mut summary, deeds, program, levels, block, bases[block.index()]);
        let mut found = Vec::with_capacity(summary.touched.len());
        for word in std::mem::take(&mut summary.touched) {
            let index = word as usize;
            found.push((word, std::mem::replace(&mut summary.needs.of[index], DEAD), std::mem::replace(&mut summary.kill[index], DEAD)));
            summary.seen[index] = false;
        }
        summary.needs.clear();
        transfers.push(Transfer { words: found, defined: std::mem::take(&mut summary.defined), cap: summary.cap });
    }
    transfers
}

/// Physical words that hold something when the kernel begins.
fn entry_words(program: &Program, words: &Words) -> Vec<usize> {
    let groups = (0..3).filter_map(|axis| program.entry.workgroup_sgpr(axis)).map(|s| words.physical(File::Scalar, usize::from(s)));
    let fixed = [words.physical(File::Scalar, 0), words.physical(File::Scalar, 1), words.physical(File::Vector, 0)];
    groups.chain(fixed).collect()
}

/// The first row of each block, and how many rows there are.
pub(super) fn rows(program: &Program) -> (Vec<u32>, usize) {
    let mut next = 0;
    let bases = program
        .blocks
        .values()
        .map(|data| {
            let base = next;
            next += data.insts.len() as u32 + 1;
            base
        })
        .collect();
    (bases, next as usize)
}

/// Finds the rows that words occupy.
///
/// # Errors
/// If too many words are alive between too many blocks.
pub(super) fn ranges(program: &Program, words: &Words, levels: &Levels, fuel: &Fuel) -> Result<Ranges, AllocError> {
    let deeds = Deeds::new(program, words);
    let (bases, count) = rows(program);
    let transfers = transfers(program, &deeds, words.total(), levels, &bases);
    let between = between(program, &transfers, words.total(), &entry_words(program, words), fuel)?;
    drop(transfers);

    let mut found = Vec::with_capacity(deeds.count());
    let total = words.total();
    let mut held = vec![false; total];
    let mut collect = Collect {
        needs: Needs::new(total),
        end: vec![0; total],
        write: vec![NONE; total],
        touched: Vec::new(),
        open: vec![false; total],
        found: &mut found,
    };
    for (block, data) in program.blocks.iter() {
        let index = block.index();
        let base = bases[index];
        let bottom = base + 1 + data.insts.len() as u32;
        between.end[index].iter().for_each(|&(word, need)| collect.begin(word as usize, need, bottom));
        between.begin[index].iter().for_each(|&word| held[word as usize] = true);
        walk_block(&mut collect, &deeds, program, levels, block, base);
        for word in std::mem::take(&mut collect.touched) {
            let at = word as usize;
            collect.open[at] = false;
            if std::mem::replace(&mut collect.needs.of[at], DEAD) == DEAD {
                continue;
            }
            if held[at] {
                collect.push(at, base, collect.end[at]);
            } else if collect.write[at] != NONE {
                collect.push(at, collect.write[at], collect.end[at]);
            }
        }
        collect.needs.clear();
        between.begin[index].iter().for_each(|&word| held[word as usize] = false);
    }
    fuel.burn(16 * count + 8 * found.len());
    Ok(Ranges::new(count, total, &found))
}
