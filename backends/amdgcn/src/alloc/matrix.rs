//! Which physical registers are taken where: a row of bits per gap between instructions, and a row for each block of rows.
//!
//! A question about rows reads those of the blocks at its ends one by one, and of blocks between them one row each.

use super::live::Seg;
use std::ops::Range;

/// A set of up to 256 registers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Set([u64; 4]);

impl Set {
    /// The registers below `limit` whose number is a multiple of `align`.
    pub(super) fn candidates(limit: usize, align: u8) -> Set {
        let limit = limit.min(256);
        // A bit for each multiple of the alignment, from the word's first one on.
        let step = |word: usize| match align {
            0 | 1 => u64::MAX,
            2 => 0x5555_5555_5555_5555,
            4 => 0x1111_1111_1111_1111,
            _ => (64 * word..64 * word + 64).filter(|r| r.is_multiple_of(usize::from(align))).fold(0, |bits, r| bits | 1 << (r % 64)),
        };
        Set(std::array::from_fn(|word| match limit.saturating_sub(64 * word) {
            0 => 0,
            below @ 1..64 => step(word) & ((1 << below) - 1),
            _ => step(word),
        }))
    }

    /// Adds a register.
    pub(super) fn insert(&mut self, register: usize) {
        if let Some(word) = self.0.get_mut(register / 64) {
            *word |= 1 << (register % 64);
        }
    }

    fn remove(&mut self, register: usize) {
        if let Some(word) = self.0.get_mut(register / 64) {
            *word &= !(1 << (register % 64));
        }
    }

    /// True if the register is in it.
    pub(super) fn contains(&self, register: usize) -> bool {
        self.0.get(register / 64).is_some_and(|word| word >> (register % 64) & 1 != 0)
    }

    /// The lowest register.
    pub(super) fn first(&self) -> Option<usize> {
        self.0.iter().position(|&w| w != 0).map(|i| i * 64 + self.0[i].trailing_zeros() as usize)
    }

    fn union(&mut self, other: &Set) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
    }

    /// Takes away the registers `r` for which `r + by` is in `other`.
    pub(super) fn remove_below(&mut self, other: &Set, by: usize) {
        let (words, bits) = (by / 64, by % 64);
        for i in 0..4 {
            let low = other.0.get(i + words).copied().unwrap_or(0);
            let high = other.0.get(i + words + 1).copied().unwrap_or(0);
            let moved = if bits == 0 { low } else { low >> bits | high << (64 - bits) };
            self.0[i] &= !moved;
        }
    }
}

/// Rows of a block.
const BLOCK: usize = 16;
/// Rows of a block as steps are counted: what is refused does not follow from how the table is cut.
const COUNTED: usize = 64;

/// Registers of a file that are taken, row by row.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    /// Per row the registers that are taken there, but for those that were taken with the whole block.
    rows: Vec<Set>,
    /// Per block the registers that were taken in all its rows at once.
    whole: Vec<Set>,
    /// Per block the registers that are taken in some row.
    some: Vec<Set>,
}

/// A part of a range of rows: rows of one block, or whole blocks.
enum Part {
    Rows(usize, Range<usize>),
    Blocks(Range<usize>),
}

/// Cuts rows at the borders of blocks.
fn parts(seg: &Seg) -> impl Iterator<Item = Part> {
    let (start, end) = (seg.start as usize, seg.end as usize);
    let (first, last) = (start.div_ceil(BLOCK), end / BLOCK);
    let split = if first > last || start >= end {
        [Some(Part::Rows(start / BLOCK, start..end)), None, None]
    } else {
        let head = (start < first * BLOCK).then(|| Part::Rows(start / BLOCK, start..first * BLOCK));
        let tail = (last * BLOCK < end).then(|| Part::Rows(last, last * BLOCK..end));
        [head, (first < last).then_some(Part::Blocks(first..last)), tail]
    };
    split.into_iter().flatten()
}

impl Matrix {
    /// Nothing is taken.
    pub(super) fn new(rows: usize) -> Matrix {
        let blocks = rows.div_ceil(BLOCK);
        Matrix { rows: vec![Set::default(); rows], whole: vec![Set::default(); blocks], some: vec![Set::default(); blocks] }
    }

    /// Steps that a question about rows, or a change of them, takes.
    pub(super) fn steps(segs: &[Seg]) -> usize {
        segs.iter().map(|seg| ((seg.end - seg.start) as usize).min(2 * COUNTED + (seg.end - seg.start) as usize / COUNTED) + 1).sum()
    }

    /// Registers that are taken in some of the rows.
    pub(super) fn taken(&self, segs: &[Seg]) -> Set {
        let mut set = Set::default();
        for part in segs.iter().flat_map(parts) {
            match part {
                Part::Rows(block, rows) => {
                    set.union(&self.whole[block]);
                    self.rows[rows].iter().for_each(|row| set.union(row));
                }
                Part::Blocks(blocks) => self.some[blocks].iter().for_each(|block| set.union(block)),
            }
        }
        set
    }

    /// Takes a register in rows in which it is free.
    pub(super) fn take(&mut self, register: usize, segs: &[Seg]) {
        for part in segs.iter().flat_map(parts) {
            match part {
                Part::Rows(block, rows) => {
                    self.rows[rows].iter_mut().for_each(|row| row.insert(register));
                    self.some[block].insert(register);
                }
                Part::Blocks(blocks) => {
                    self.whole[blocks.clone()].iter_mut().for_each(|block| block.insert(register));
                    self.some[blocks].iter_mut().for_each(|block| block.insert(register));
                }
            }
        }
    }

    /// Gives it back, in the same rows as it was taken.
    pub(super) fn release(&mut self, register: usize, segs: &[Seg]) {
        for part in segs.iter().flat_map(parts) {
            match part {
                Part::Rows(block, rows) => {
                    self.rows[rows].iter_mut().for_each(|row| row.remove(register));
                    let end = ((block + 1) * BLOCK).min(self.rows.len());
                    if !self.rows[block * BLOCK..end].iter().any(|row| row.contains(register)) {
                        self.some[block].remove(register);
                    }
                }
                Part::Blocks(blocks) => {
                    self.whole[blocks.clone()].iter_mut().for_each(|block| block.remove(register));
                    self.some[blocks].iter_mut().for_each(|block| block.remove(register));
                }
            }
        }
    }
}
