//! Reads the dwords of an instruction, and the sources that 8- and 9-bit codes name.

use super::inst::Src;
use crate::chip::Chip;
use crate::isa::Table;
use smallvec::SmallVec;

/// Why dwords are no instruction that is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DecodeError {
    /// The code ends within the instruction.
    Ends,
    /// No row of the table, or fields that mean nothing.
    Unknown,
}

/// Reads the dwords of an instruction one after another.
pub(super) struct Reader<'a> {
    pub fetch: &'a dyn Fn(u64) -> Option<u32>,
    pub address: u64,
    pub words: SmallVec<[u32; 4]>,
    pub chip: Chip,
    pub table: &'static Table,
}

impl Reader<'_> {
    pub fn word(&mut self) -> Result<u32, DecodeError> {
        let at = self.address.checked_add(4 * self.words.len() as u64).ok_or(DecodeError::Ends)?;
        let w = (self.fetch)(at).ok_or(DecodeError::Ends)?;
        self.words.push(w);
        Ok(w)
    }

    /// A source by its 8- or 9-bit code; reads the literal if there is one.
    pub fn source(&mut self, code: u32) -> Result<Src, DecodeError> {
        Ok(match code {
            0..=108 | 124 | 126 | 127 => Src::S(code as u8),
            128..=208 | 240..=248 => Src::Inline(code as u8),
            235..=238 | 251..=253 => Src::Computed(code as u8),
            255 => Src::Literal(self.literal()?),
            256..=511 => Src::V((code - 256) as u8),
            _ => return Err(DecodeError::Unknown),
        })
    }

    /// The literal: one per instruction.
    pub fn literal(&mut self) -> Result<u32, DecodeError> {
        if self.words.len() > 1 { Ok(self.words[1]) } else { self.word() }
    }
}

/// Bits of a word, the highest first.
pub(super) fn bits(w: u32, high: u32, low: u32) -> u32 {
    (w >> low) & (u32::MAX >> (31 - (high - low)))
}
