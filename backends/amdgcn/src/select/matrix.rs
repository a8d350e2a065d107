//! Matrix instructions: fragments are tuples of vector registers. The result stands where the addend stood, if nobody needs that any more; an
//! addend of zeros takes no registers.

use super::control::Copy;
use super::error::{Reason, SelectError};
use super::selector::{Done, Home, Selector};
use crate::machine::matrix_code;
use crate::mir::{Inst, Operand, Span};
use tilelift_lane::{LVal, MatrixId, Opcode as LaneOpcode, Vals};

impl Selector<'_> {
    /// A matrix instruction.
    pub(super) fn matrix(&mut self, dsts: &Vals, instr: MatrixId, [a, b, c]: [&[LVal]; 3], scales: &[LVal]) -> Done {
        let none = || SelectError::Instruction(LaneOpcode::Matrix, Reason::Matrix);
        let (code, mods) = matrix_code(self.chip, self.target.matrix_instr(instr)).ok_or_else(none)?;
        let words = |s: &Self, vals: &[LVal]| vals.iter().map(|&v| s.words(v)).sum::<u8>();
        let (wa, wb, wd) = (words(self, a), words(self, b), words(self, dsts));
        let a = self.tuple(a, wa);
        let b = self.tuple(b, wb);
        let zero = c.iter().all(|&v| self.constant(v) == Some(0));
        let target = self.row_of(dsts, wd);
        let addend: Option<Span> = if zero { None } else { self.in_a_row(c, wd) };
        let addend = match addend {
            Some(span) => span.into(),
            None if zero => Operand::Imm(0),
            // Put together where the result goes, which nothing else needs now.
            None => {
                let mut at = 0;
                let pairs: Vec<Copy> = c
                    .iter()
                    .map(|&v| {
                        let words = self.words(v);
                        at += words;
                        (target.part(at - words, words), self.home(v), self.ty(v))
                    })
                    .collect();
                self.hand(pairs);
                target.into()
            }
        };
        let scales: Vec<Operand> = scales.iter().map(|&v| self.tuple(&[v], 1).into()).collect();
        self.push(Inst::new(code, [target.into(), a.into(), b.into(), addend].into_iter().chain(scales)).with(mods));
        let mut at = 0;
        for &d in dsts {
            let words = self.words(d);
            self.is(d, Home::Reg(target.part(at, words)));
            at += words;
        }
        Ok(())
    }

    /// The registers of results: theirs, if they are placed in a row, else new ones.
    fn row_of(&mut self, dsts: &Vals, words: u8) -> Span {
        match self.together(dsts, words) {
            Some(span) => span,
            None => self.vs(words),
        }
    }
}
