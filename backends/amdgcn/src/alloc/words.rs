//! Numbers of 32-bit words: those of virtual registers one after another, then all physical ones.

use crate::mir::{File, Program, Reg, Span, VReg};
use cranelift_entity::EntityRef;
use std::ops::Range;

/// Registers of a file that programs may name.
pub(super) const fn file_size(file: File) -> usize {
    match file {
        File::Scalar => 102,
        File::Vector | File::Acc => 256,
    }
}

/// The files, in the order of their numbers.
pub(super) const FILES: [File; 3] = [File::Scalar, File::Vector, File::Acc];

/// Numbers of words.
#[derive(Debug)]
pub(super) struct Words {
    first: Vec<u32>,
    files: Vec<File>,
    physical: [u32; 3],
    total: u32,
}

impl Words {
    /// Numbers the words of a program.
    pub(super) fn new(program: &Program) -> Words {
        let mut first = Vec::with_capacity(program.vregs.len() + 1);
        let mut total = 0;
        let mut files = Vec::with_capacity(program.vregs.len());
        for data in program.vregs.values() {
            first.push(total);
            files.push(data.file);
            total += u32::from(data.words);
        }
        first.push(total);
        let mut physical = [0; 3];
        for file in FILES {
            physical[file as usize] = total;
            total += file_size(file) as u32;
        }
        Words { first, files, physical, total }
    }

    /// How many there are.
    pub(super) fn total(&self) -> usize {
        self.total as usize
    }

    /// The words of a virtual register.
    pub(super) fn of(&self, reg: VReg) -> Range<usize> {
        self.first[reg.index()] as usize..self.first[reg.index() + 1] as usize
    }

    /// The word of a physical register.
    pub(super) fn physical(&self, file: File, number: usize) -> usize {
        self.physical[file as usize] as usize + number
    }

    /// Words that an operand names, and whether the scalar file has them; `None` for registers with names.
    pub(super) fn span(&self, span: Span) -> Option<(Range<usize>, bool)> {
        let (start, scalar) = match span.reg {
            Reg::Virtual(reg) => (self.first[reg.index()] as usize, self.files[reg.index()] == File::Scalar),
            Reg::Physical(file, number) => (self.physical(file, usize::from(number)), file == File::Scalar),
            Reg::Fixed(_) => return None,
        };
        let start = start + usize::from(span.first);
        Some((start..start + usize::from(span.words), scalar))
    }
}
