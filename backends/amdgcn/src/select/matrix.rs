//! Matrix instructions: fragments are tuples of vector registers. The result stands where the addend stood, if nobody needs that any more; an
//! addend of zeros takes no registers.

use super::control::Copy;
use super::error::{Reason, SelectError};
use super::selector::{Done, Home, Selector};
use crate::isa::Opcode;
use crate::mir::{Operand, Span};
use tilelift_ir::{Precision, Scalar};
use tilelift_lane::{LVal, MatrixId, MatrixInstr, Opcode as LaneOpcode, Vals};

use Scalar::{BF16, F8E4M3Fnuz as Fp8, F8E5M2Fnuz as Bf8, F16, F32, F64, I8};

/// M, K, the types of A and B, the precision, and the instruction.
type Row = (u32, u32, Scalar, Scalar, Precision, Opcode);

const ROWS: &[Row] = &[
    (32, 8, F16, F16, Precision::Exact, Opcode::VMfmaF32_32x32x8F16),
    (16, 16, F16, F16, Precision::Exact, Opcode::VMfmaF32_16x16x16F16),
    (32, 8, BF16, BF16, Precision::Exact, Opcode::VMfmaF32_32x32x8Bf16),
    (16, 16, BF16, BF16, Precision::Exact, Opcode::VMfmaF32_16x16x16Bf16),
    (32, 4, F32, F32, Precision::Tf32, Opcode::VMfmaF32_32x32x4Xf32),
    (16, 8, F32, F32, Precision::Tf32, Opcode::VMfmaF32_16x16x8Xf32),
    (32, 2, F32, F32, Precision::Exact, Opcode::VMfmaF32_32x32x2F32),
    (16, 4, F32, F32, Precision::Exact, Opcode::VMfmaF32_16x16x4F32),
    (32, 16, I8, I8, Precision::Exact, Opcode::VMfmaI32_32x32x16I8),
    (16, 32, I8, I8, Precision::Exact, Opcode::VMfmaI32_16x16x32I8),
    (32, 8, I8, I8, Precision::Exact, Opcode::VMfmaI32_32x32x8I8),
    (16, 16, I8, I8, Precision::Exact, Opcode::VMfmaI32_16x16x16I8),
    (32, 16, Fp8, Fp8, Precision::Exact, Opcode::VMfmaF32_32x32x16Fp8Fp8),
    (16, 32, Fp8, Fp8, Precision::Exact, Opcode::VMfmaF32_16x16x32Fp8Fp8),
    (32, 16, Bf8, Bf8, Precision::Exact, Opcode::VMfmaF32_32x32x16Bf8Bf8),
    (16, 32, Bf8, Bf8, Precision::Exact, Opcode::VMfmaF32_16x16x32Bf8Bf8),
    (32, 16, Fp8, Bf8, Precision::Exact, Opcode::VMfmaF32_32x32x16Fp8Bf8),
    (16, 32, Fp8, Bf8, Precision::Exact, Opcode::VMfmaF32_16x16x32Fp8Bf8),
    (32, 16, Bf8, Fp8, Precision::Exact, Opcode::VMfmaF32_32x32x16Bf8Fp8),
    (16, 32, Bf8, Fp8, Precision::Exact, Opcode::VMfmaF32_16x16x32Bf8Fp8),
    (16, 4, F64, F64, Precision::Exact, Opcode::VMfmaF64_16x16x4F64),
];

fn code(instr: &MatrixInstr) -> Option<Opcode> {
    let [m, _, k] = instr.shape;
    let key = (m, k, instr.operand, instr.operand_b, instr.precision);
    ROWS.iter().find(|r| (r.0, r.1, r.2, r.3, r.4) == key).map(|r| r.5)
}

impl Selector<'_> {
    /// A matrix instruction.
    pub(super) fn matrix(&mut self, dsts: &Vals, instr: MatrixId, a: &[LVal], b: &[LVal], c: &[LVal]) -> Done {
        let none = || SelectError::Instruction(LaneOpcode::Matrix, Reason::Matrix);
        let code = code(self.target.matrix_instr(instr)).filter(|o| o.desc().number(self.chip).is_some()).ok_or_else(none)?;
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
        self.emit(code, [target.into(), a.into(), b.into(), addend]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gfx942;

    #[test]
    fn every_matrix_instruction_of_the_table_has_its_row() {
        for instr in &gfx942().matrix {
            let code = code(instr).unwrap();
            assert_eq!(code.desc().mnemonic(crate::Chip::Gfx942), instr.name);
        }
    }
}
