//! Words of physical registers, and what instructions do to them, for the passes behind allocation.

use super::class::keeps_part;
use crate::isa::{Access, Fixed};
use crate::mir::{File, Inst, Operand, Reg, Span};
use std::ops::Range;

/// Scalar registers, then those with names, then vector and accumulation registers.
pub(super) const WORDS: usize = SCALARS + NAMED + 512;
const SCALARS: usize = 102;
const NAMED: usize = 8;

/// Words of a register with a name.
pub(super) const fn named(reg: Fixed) -> Range<usize> {
    match reg {
        Fixed::Vcc => SCALARS..SCALARS + 2,
        Fixed::Exec => SCALARS + 2..SCALARS + 4,
        Fixed::M0 => SCALARS + 4..SCALARS + 5,
        Fixed::Scc => SCALARS + 5..SCALARS + 6,
        Fixed::FlatScratch => SCALARS + 6..SCALARS + 8,
    }
}

/// True for words of vector and accumulation registers.
pub(super) const fn is_vector(word: usize) -> bool {
    word >= SCALARS + NAMED
}

/// Words that an operand names; none for virtual registers.
pub(super) fn words(span: Span) -> Range<usize> {
    let (first, of) = match span.reg {
        Reg::Physical(File::Scalar, number) => (0, number),
        Reg::Physical(File::Vector, number) => (SCALARS + NAMED, number),
        Reg::Physical(File::Acc, number) => (SCALARS + NAMED + 256, number),
        Reg::Fixed(fixed) => (named(fixed).start, 0),
        Reg::Virtual(_) => return 0..0,
    };
    let start = first + usize::from(of) + usize::from(span.first);
    start.min(WORDS)..(start + usize::from(span.words)).min(WORDS)
}

/// An operand, its words, and how they are used.
#[derive(Clone, Debug)]
pub(super) struct Used {
    /// The operand's number; `usize::MAX` for registers that are no operands.
    pub operand: usize,
    /// The words.
    pub words: Range<usize>,
    /// They are read.
    pub reads: bool,
    /// They are written.
    pub writes: bool,
}

/// All registers that an instruction uses. A result of which something stays as it was counts as read.
#[inline]
pub(super) fn used(inst: &Inst) -> impl Iterator<Item = Used> + '_ {
    let desc = inst.op.desc();
    let keeps = keeps_part(inst);
    let operands = inst.operands.iter().enumerate().filter_map(move |(operand, value)| match value {
        Operand::Reg(span) => {
            let slot = desc.slots.get(operand)?;
            let access = if keeps && slot.access == Access::Def { Access::Update } else { slot.access };
            Some(use_of(operand, words(*span), access))
        }
        _ => None,
    });
    operands.chain(desc.implicit.iter().map(|i| use_of(usize::MAX, named(i.reg), i.access)))
}

fn use_of(operand: usize, words: Range<usize>, access: Access) -> Used {
    Used { operand, words, reads: access != Access::Def, writes: access != Access::Use }
}
