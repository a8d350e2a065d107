//! A program while its registers are allocated.

use super::result::Origin;
use crate::isa::Opcode;
use crate::mir::{Block, File, Inst, Program, Span, VReg, VRegData};
use cranelift_entity::EntityRef;

/// Lanes of a vector register.
const LANES: u8 = 64;

/// A program on its way.
#[derive(Debug)]
pub(super) struct Work {
    pub program: Program,
    pub origin: Vec<Origin>,
    /// Registers made for spilling, which are not spilled themselves.
    pub temporaries: Vec<bool>,
    pub lanes: Lanes,
    /// A scalar register that is zero from the kernel's beginning on, if there is one.
    pub zero: Option<VReg>,
}

impl Work {
    /// A scalar register that is zero from the kernel's beginning on.
    pub fn zero(&mut self) -> VReg {
        if let Some(zero) = self.zero {
            return zero;
        }
        let zero = self.temporary(VRegData { file: File::Scalar, either: false, words: 1, align: 1 });
        let begin = Block::new(0);
        self.program.blocks[begin].insts.insert(0, Inst::new(Opcode::SMovB32, [Span::whole(zero, 1).into(), 0.into()]));
        self.origin[begin.index()].insert(0, None);
        self.zero = Some(zero);
        zero
    }

    pub fn push(&mut self, data: VRegData) -> VReg {
        self.temporaries.push(false);
        self.program.vregs.push(data)
    }

    pub fn temporary(&mut self, data: VRegData) -> VReg {
        self.temporaries.push(true);
        self.program.vregs.push(data)
    }
}

/// Lanes that are free for scalars.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    last: Option<(VReg, u8)>,
}

impl Lanes {
    pub fn next(&mut self, work: &mut Work) -> (VReg, u8) {
        let (reg, lane) = match self.last {
            Some((reg, lane)) if lane + 1 < LANES => (reg, lane + 1),
            _ => (work.temporary(VRegData { file: File::Vector, either: false, words: 1, align: 1 }), 0),
        };
        self.last = Some((reg, lane));
        (reg, lane)
    }
}
