//! The instruction table: what the numbers in the machine code mean on each chip.
//!
//! The numbers were found by having LLVM's disassembler read every opcode of every encoding; what instructions compute is
//! from AMD's ISA documents.

mod lane;
pub(crate) mod matrix;
pub(crate) mod memory;
pub(crate) mod scalar;
pub(crate) mod vector;
mod vop1;
mod vop2;
mod vop3;
mod vop3p;
mod vopc;

pub(crate) use lane::bitop3;

use crate::chip::Chip;
use matrix::{Layout, MatRow};
use memory::{DsRow, MemRow, SmemKind, Space};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The rows of a chip, by number.
#[derive(Default)]
pub(crate) struct Table {
    scalar: FxHashMap<(scalar::Enc, u8), &'static scalar::Row>,
    vector: FxHashMap<(vector::Enc, u16), &'static vector::Row>,
    ds: FxHashMap<u8, &'static DsRow>,
    mem: FxHashMap<(Space, u8), &'static MemRow>,
    mat: FxHashMap<u8, (&'static MatRow, Layout)>,
    smem: FxHashMap<u8, (&'static str, SmemKind)>,
}

static VECTOR: LazyLock<Vec<vector::Row>> = LazyLock::new(|| {
    let mut all = vop1::rows();
    all.extend(vop2::rows());
    all.extend(vop3::rows());
    all.extend(vopc::rows());
    all.extend(vop3p::rows());
    all
});

static TABLES: LazyLock<[Table; 3]> = LazyLock::new(|| Chip::ALL.map(Table::new));

impl Table {
    /// The table of a chip.
    pub fn of(chip: Chip) -> &'static Table {
        &TABLES[chip as usize]
    }

    fn new(chip: Chip) -> Table {
        let bit = chip.bit();
        let mut t = Table::default();
        t.scalar.extend(scalar::ROWS.iter().map(|r| ((r.enc, r.op), r)));
        t.vector.extend(VECTOR.iter().filter(|r| r.chips & bit != 0).map(|r| ((r.enc, r.op), r)));
        t.ds.extend(memory::DS.iter().filter(|r| r.chips & bit != 0).map(|r| (r.op, r)));
        for r in memory::MEM {
            t.mem.extend(r.spaces.iter().filter(|(_, chips)| chips & bit != 0).map(|&(space, _)| ((space, r.op), r)));
        }
        t.mat.extend(matrix::MAT.iter().filter(|r| r.chips & bit != 0).map(|r| (r.op, (r, r.layout()))));
        t.smem.extend(memory::SMEM.iter().map(|&(name, op, kind)| (op, (name, kind))));
        t
    }

    pub fn scalar(&self, enc: scalar::Enc, op: u32) -> Option<&'static scalar::Row> {
        self.scalar.get(&(enc, op as u8)).copied()
    }

    pub fn vector(&self, enc: vector::Enc, op: u32) -> Option<&'static vector::Row> {
        self.vector.get(&(enc, op as u16)).copied()
    }

    /// The row of the long encoding: its own numbers, or those of the short encodings moved up.
    pub fn long(&self, op: u32) -> Option<&'static vector::Row> {
        use vector::Enc;
        match op {
            0..0x100 => self.vector(Enc::VC, op),
            0x100..0x140 => self.vector(Enc::V2, op - 0x100),
            0x140..0x1c0 => self.vector(Enc::V1, op - 0x140),
            _ => self.vector(Enc::V3, op),
        }
    }

    pub fn ds(&self, op: u32) -> Option<&'static DsRow> {
        self.ds.get(&(op as u8)).copied()
    }

    pub fn mem(&self, space: Space, op: u32) -> Option<&'static MemRow> {
        self.mem.get(&(space, op as u8)).copied()
    }

    pub fn mat(&self, op: u32) -> Option<(&'static MatRow, &Layout)> {
        self.mat.get(&(op as u8)).map(|(row, layout)| (*row, layout))
    }

    pub fn smem(&self, op: u32) -> Option<(&'static str, SmemKind)> {
        self.smem.get(&(op as u8)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_has_two_rows_on_a_chip() {
        for chip in Chip::ALL {
            let t = Table::of(chip);
            assert_eq!(t.vector.len(), VECTOR.iter().filter(|r| r.chips & chip.bit() != 0).count(), "{chip}");
            assert_eq!(t.mat.len(), matrix::MAT.iter().filter(|r| r.chips & chip.bit() != 0).count(), "{chip}");
            assert_eq!(t.ds.len(), memory::DS.iter().filter(|r| r.chips & chip.bit() != 0).count(), "{chip}");
        }
        assert_eq!(Table::of(Chip::Gfx942).scalar.len(), scalar::ROWS.len());
    }
}
