//! The operand of `s_waitcnt`.

/// How many operations may be left of each counter. The most that a field holds waits for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Wait {
    /// Vector memory: up to 63.
    pub vector: u8,
    /// Exports: up to 7.
    pub export: u8,
    /// Local data share and scalar memory: up to 15.
    pub lgkm: u8,
}

impl Wait {
    /// It waits for nothing.
    pub const NONE: Wait = Wait { vector: 63, export: 7, lgkm: 15 };

    /// The operand. Larger numbers than a field holds wait for nothing.
    pub fn bits(self) -> u16 {
        let (vector, export, lgkm) = (u16::from(self.vector.min(63)), u16::from(self.export.min(7)), u16::from(self.lgkm.min(15)));
        vector & 15 | vector >> 4 << 14 | export << 4 | lgkm << 8
    }

    /// What an operand says.
    pub fn of(bits: u16) -> Wait {
        let field = |at: u32, width: u32| (bits >> at & ((1 << width) - 1)) as u8;
        Wait { vector: field(0, 4) | field(14, 2) << 4, export: field(4, 3), lgkm: field(8, 4) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_operands() {
        assert_eq!(Wait { vector: 0, ..Wait::NONE }.bits(), 0x0f70);
        assert_eq!(Wait { lgkm: 0, ..Wait::NONE }.bits(), 0xc07f);
        for bits in 0..=u16::MAX {
            // Bits 7, 12 and 13 have no field.
            assert_eq!(Wait::of(bits).bits(), bits & !0x3080);
        }
    }
}
