//! The chips that are simulated, and what differs between them outside the instruction table.

use std::fmt;

/// A chip of the CDNA family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Chip {
    /// MI200.
    Gfx90a,
    /// MI300.
    Gfx942,
    /// MI350.
    Gfx950,
}

impl Chip {
    /// All chips.
    pub const ALL: [Chip; 3] = [Chip::Gfx90a, Chip::Gfx942, Chip::Gfx950];

    /// The name that an assembler takes.
    pub fn name(self) -> &'static str {
        match self {
            Chip::Gfx90a => "gfx90a",
            Chip::Gfx942 => "gfx942",
            Chip::Gfx950 => "gfx950",
        }
    }

    /// The chip of the low byte of an object's `e_flags`.
    pub(crate) fn of_flags(flags: u32) -> Option<Chip> {
        match flags & 0xff {
            0x3f => Some(Chip::Gfx90a),
            0x4c => Some(Chip::Gfx942),
            0x4f => Some(Chip::Gfx950),
            _ => None,
        }
    }

    /// The bit of the chip in the instruction table's sets of chips.
    pub(crate) fn bit(self) -> u8 {
        match self {
            Chip::Gfx90a => 1,
            Chip::Gfx942 => 2,
            Chip::Gfx950 => 4,
        }
    }

    /// Bytes of LDS that a workgroup can have.
    pub fn lds_bytes(self) -> u32 {
        match self {
            Chip::Gfx90a | Chip::Gfx942 => 64 << 10,
            Chip::Gfx950 => 160 << 10,
        }
    }

    /// True where the 8-bit floats are the variant without negative zero and infinities.
    pub(crate) fn fnuz(self) -> bool {
        self == Chip::Gfx942
    }
}

impl fmt::Display for Chip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
