//! Which physical registers are taken where: a row of bits per gap between instructions, for each block of rows, and each block of those.
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
        for i in 0..4 {
            self.0[i] |= other.0[i];
        }
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

/// Parts of a level that are one of the next.
const PARTS: usize = 16;
/// Levels: rows, and two of blocks.
const LEVELS: usize = 3;
/// Rows of a block as steps are counted: what is refused does not follow from how the table is cut.
const COUNTED: usize = 64;

/// Registers of a file that are taken, row by row.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    levels: [RowLevel; LEVELS],
}

/// Rows, or blocks of rows.
#[derive(Clone, Debug)]
struct RowLevel {
    /// The registers that were taken in all rows of a block at once; of single rows those that were taken there.
    whole: Vec<Set>,
    /// The registers that are taken in some row of a block; not kept of single rows.
    some: Vec<Set>,
}

/// Cuts rows at the borders of blocks, and hands each run of parts of a level to `each`: all in one block of the next level, but for the highest.
#[inline]
fn runs(seg: &Seg, mut each: impl FnMut(usize, Range<usize>)) {
    let (mut start, mut end) = (seg.start as usize, seg.end as usize);
    for level in 0..LEVELS {
        let (first, last) = (start.div_ceil(PARTS), end / PARTS);
        if level + 1 == LEVELS || first > last {
            if start < end {
                each(level, start..end);
            }
            return;
        }
        if start < first * PARTS {
            each(level, start..first * PARTS);
        }
        if last * PARTS < end {
            each(level, last * PARTS..end);
        }
        (start, end) = (first, last);
    }
}

impl Matrix {
    /// Nothing is taken.
    pub(super) fn new(rows: usize) -> Matrix {
        let mut count = rows;
        let levels = std::array::from_fn(|level| {
            let made = RowLevel { whole: vec![Set::default(); count], some: vec![Set::default(); if level == 0 { 0 } else { count }] };
            count = count.div_ceil(PARTS);
            made
        });
        Matrix { levels }
    }

    /// Steps that a question about rows, or a change of them, takes.
    pub(super) fn steps(segs: &[Seg]) -> usize {
        segs.iter().map(|seg| ((seg.end - seg.start) as usize).min(2 * COUNTED + (seg.end - seg.start) as usize / COUNTED) + 1).sum()
    }

    /// Registers that are taken in some of the rows.
    pub(super) fn taken(&self, segs: &[Seg]) -> Set {
        let mut set = Set::default();
        for seg in segs {
            runs(seg, |level, run| {
                let mut above = run.start;
                for up in &self.levels[level + 1..] {
                    above /= PARTS;
                    set.union(&up.whole[above]);
                }
                let of = &self.levels[level];
                let parts = if level == 0 { &of.whole } else { &of.some };
                parts[run].iter().for_each(|part| set.union(part));
            });
        }
        set
    }

    /// Takes a register in rows in which it is free.
    pub(super) fn take(&mut self, register: usize, segs: &[Seg]) {
        for seg in segs {
            runs(seg, |level, run| {
                let mut above = run.start;
                for up in &mut self.levels[level + 1..] {
                    above /= PARTS;
                    up.some[above].insert(register);
                }
                let of = &mut self.levels[level];
                if level > 0 {
                    of.some[run.clone()].iter_mut().for_each(|part| part.insert(register));
                }
                of.whole[run].iter_mut().for_each(|part| part.insert(register));
            });
        }
    }

    /// Gives it back, in the same rows as it was taken.
    pub(super) fn release(&mut self, register: usize, segs: &[Seg]) {
        for seg in segs {
            runs(seg, |level, run| {
                let of = &mut self.levels[level];
                if level > 0 {
                    of.some[run.clone()].iter_mut().for_each(|part| part.remove(register));
                }
                of.whole[run.clone()].iter_mut().for_each(|part| part.remove(register));
                // Blocks above still have it where some of their parts do.
                let mut above = run.start;
                for up in level + 1..LEVELS {
                    above /= PARTS;
                    let below = &self.levels[up - 1];
                    let parts = if up == 1 { &below.whole } else { &below.some };
                    let end = ((above + 1) * PARTS).min(parts.len());
                    if parts[above * PARTS..end].iter().any(|part| part.contains(register)) {
                        break;
                    }
                    self.levels[up].some[above].remove(register);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows, registers and lengths from a seed.
    fn next(state: &mut u64) -> usize {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize
    }

    #[test]
    fn answers_are_those_of_a_plain_table() {
        const ROWS: usize = 1000;
        let mut state = 7;
        let (mut matrix, mut plain) = (Matrix::new(ROWS), vec![[false; 8]; ROWS]);
        let mut held: Vec<(usize, Seg)> = Vec::new();
        for round in 0..4000 {
            let start = next(&mut state) % ROWS;
            let length = 1 + next(&mut state) % [3, 40, 700][round % 3];
            let seg = Seg { start: start as u32, end: (start + length).min(ROWS) as u32 };
            let rows = seg.start as usize..seg.end as usize;
            let taken = matrix.taken(&[seg]);
            for register in 0..8 {
                assert_eq!(taken.contains(register), plain[rows.clone()].iter().any(|row| row[register]), "round {round}");
            }
            if let Some(register) = (0..8).find(|&r| !taken.contains(r)) {
                matrix.take(register, &[seg]);
                plain[rows].iter_mut().for_each(|row| row[register] = true);
                held.push((register, seg));
            } else {
                let (register, seg) = held.swap_remove(next(&mut state) % held.len());
                matrix.release(register, &[seg]);
                plain[seg.start as usize..seg.end as usize].iter_mut().for_each(|row| row[register] = false);
            }
        }
    }

    #[test]
    fn candidates_are_multiples_below_a_limit() {
        for (limit, align) in [(0, 1), (1, 2), (63, 1), (64, 4), (100, 2), (102, 4), (200, 3), (256, 1), (300, 4)] {
            let set = Set::candidates(limit, align);
            for register in 0..256 {
                assert_eq!(set.contains(register), register < limit && register % usize::from(align) == 0, "{limit} {align} {register}");
            }
        }
    }
}
