//! An instruction on its way to words.

use super::operand::Coded;
use crate::chip::Chip;
use crate::isa::Desc;
use crate::mir::{Block, Inst};
use smallvec::SmallVec;

/// An instruction and what is known of it.
pub(super) struct Parts<'a> {
    pub inst: &'a Inst,
    pub desc: &'static Desc,
    pub chip: Chip,
    pub number: u16,
    pub operands: SmallVec<[Coded; 6]>,
}

/// The words of an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Encoded {
    pub words: SmallVec<[u32; 4]>,
    /// A block whose distance stands in the lower half of the first word.
    pub target: Option<Block>,
}

impl Encoded {
    pub fn new<const N: usize>(words: [u32; N]) -> Encoded {
        Encoded { words: SmallVec::from_slice(&words), target: None }
    }

    pub fn behind(mut self, literal: Option<u32>) -> Encoded {
        self.words.extend(literal);
        self
    }

    pub fn to(mut self, target: Block) -> Encoded {
        self.target = Some(target);
        self
    }
}
