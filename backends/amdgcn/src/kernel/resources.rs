//! Registers that a program with physical registers takes.

use crate::mir::{File, Operand, Program, Reg};

/// Scalar registers behind a program's own that the hardware keeps: `vcc`, the flat scratch address, and the mask of replayed accesses.
const KEPT_SCALARS: u32 = 6;

/// Registers that a program takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resources {
    /// Scalar registers that instructions name, and those that it begins with.
    pub scalars: u32,
    /// Vector registers.
    pub vectors: u32,
    /// Accumulation registers.
    pub accs: u32,
}

impl Resources {
    /// Those of a program. Virtual registers take none.
    pub fn of(program: &Program) -> Resources {
        let given = program.entry.workgroup.iter().filter(|&&asked| asked).count() as u32;
        let scalars = program.scratch_setup().map_or(2 + given, |setup| u32::from(setup.offset) + 1);
        let mut resources = Resources { scalars, vectors: 1, accs: 0 };
        for operand in program.blocks.values().flat_map(|b| &b.insts).flat_map(|i| &i.operands) {
            let Operand::Reg(span) = operand else { continue };
            let Reg::Physical(file, first) = span.reg else { continue };
            let end = u32::from(first) + u32::from(span.first) + u32::from(span.words);
            let count = match file {
                File::Scalar => &mut resources.scalars,
                File::Vector => &mut resources.vectors,
                File::Acc => &mut resources.accs,
            };
            *count = end.max(*count);
        }
        resources
    }

    /// The first accumulation register's place among the registers of a lane: a multiple of four.
    pub fn acc_offset(&self) -> u32 {
        self.vectors.next_multiple_of(4)
    }

    /// Registers of a lane, of both files.
    pub fn lane_registers(&self) -> u32 {
        if self.accs == 0 { self.vectors } else { self.acc_offset() + self.accs }
    }

    /// Scalar registers with those that the hardware keeps.
    pub fn all_scalars(&self) -> u32 {
        self.scalars + KEPT_SCALARS
    }
}
