//! Which physical registers are taken where: a row of bits per gap between instructions.
//!
//! The work of a question is the number of rows asked about. What is taken at a time fits the file, so all questions together cost the
//! program's length times the file's size in bits, over 64.

use super::live::Seg;

/// A set of up to 256 registers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Set([u64; 4]);

impl Set {
    /// The registers below `limit` whose number is a multiple of `align`.
    pub(super) fn candidates(limit: usize, align: u8) -> Set {
        let mut set = Set::default();
        (0..limit.min(256)).step_by(usize::from(align.max(1))).for_each(|r| set.insert(r));
        set
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

/// Registers of a file that are taken, row by row.
#[derive(Debug)]
pub(super) struct Matrix {
    rows: Vec<Set>,
}

impl Matrix {
    /// Nothing is taken.
    pub(super) fn new(rows: usize) -> Matrix {
        Matrix { rows: vec![Set::default(); rows] }
    }

    /// Registers that are taken in some of the rows.
    pub(super) fn taken(&self, segs: &[Seg]) -> Set {
        let mut set = Set::default();
        for seg in segs {
            self.rows[seg.start as usize..seg.end as usize].iter().for_each(|row| set.union(row));
        }
        set
    }

    /// Takes a register in rows.
    pub(super) fn take(&mut self, register: usize, segs: &[Seg]) {
        for seg in segs {
            self.rows[seg.start as usize..seg.end as usize].iter_mut().for_each(|row| row.insert(register));
        }
    }

    /// Gives it back.
    pub(super) fn release(&mut self, register: usize, segs: &[Seg]) {
        for seg in segs {
            self.rows[seg.start as usize..seg.end as usize].iter_mut().for_each(|row| row.remove(register));
        }
    }
}
