//! Quotients of floats, rounded to nearest.
//!
//! ```text
//! f32, f64   v_div_scale   both operands scaled away from the ends of the range; vcc says if the quotient is to be scaled back
//!            v_rcp, fma    a reciprocal of the divisor, and an approximate quotient, each made better by its error
//!            v_div_fmas    the last such step, and the scale
//!            v_div_fixup   zeros, infinities, NaN
//! f16        in f32, which has more than twice the bits and all of the range
//! ```

use super::float::negated;
use super::selector::{Selector, f32_imm};
use crate::isa::Opcode;
use crate::mir::{Mods, Operand, Span};

/// The instructions of a type.
struct QuotientCodes {
    scale: Opcode,
    reciprocal: Opcode,
    multiply: Opcode,
    fma: Opcode,
    fmas: Opcode,
    fixup: Opcode,
}

const F32: QuotientCodes = QuotientCodes {
    scale: Opcode::VDivScaleF32,
    reciprocal: Opcode::VRcpF32,
    multiply: Opcode::VMulF32,
    fma: Opcode::VFmaF32,
    fmas: Opcode::VDivFmasF32,
    fixup: Opcode::VDivFixupF32,
};

const F64: QuotientCodes = QuotientCodes {
    scale: Opcode::VDivScaleF64,
    reciprocal: Opcode::VRcpF64,
    multiply: Opcode::VMulF64,
    fma: Opcode::VFmaF64,
    fmas: Opcode::VDivFmasF64,
    fixup: Opcode::VDivFixupF64,
};

impl Selector<'_> {
    fn scaled_operands(&mut self, c: &QuotientCodes, words: u8, x: Operand, y: Operand) -> [Operand; 2] {
        let (divisor, unused) = (self.vs(words), self.s2());
        self.valu_with(c.scale, &[divisor, unused], &[y, y, x], Mods::default());
        let dividend = self.vs(words);
        // Nothing that follows writes `vcc` before `v_div_fmas` reads it.
        self.valu_with(c.scale, &[dividend, Span::VCC], &[x, y, x], Mods::default());
        [dividend.into(), divisor.into()]
    }

    fn step(&mut self, c: &QuotientCodes, words: u8, from: [Operand; 3], neg: u8) -> Operand {
        let to = self.vs(words);
        self.valu_with(c.fma, &[to], &from, negated(neg));
        to.into()
    }

    pub(super) fn quotient_f32(&mut self, to: Span, x: Operand, y: Operand) {
        let [x, y] = [x, y].map(|o| Operand::Reg(self.in_vector(o, 1)));
        let [n, d] = self.scaled_operands(&F32, 1, x, y);
        let one = f32_imm(1.0);
        let r = Operand::Reg(self.v_of(F32.reciprocal, &[d]));
        let error = self.step(&F32, 1, [d, r, one], 0b001);
        let r = self.step(&F32, 1, [error, r, r], 0);
        let q = Operand::Reg(self.v_of(F32.multiply, &[n, r]));
        let error = self.step(&F32, 1, [d, q, n], 0b001);
        let q = self.step(&F32, 1, [error, r, q], 0);
        let error = self.step(&F32, 1, [d, q, n], 0b001);
        self.last(&F32, to, [error, r, q], x, y);
    }

    pub(super) fn quotient_f64(&mut self, to: Span, x: Operand, y: Operand) {
        let [x, y] = [x, y].map(|o| Operand::Reg(self.in_vector(o, 2)));
        let [n, d] = self.scaled_operands(&F64, 2, x, y);
        let one = Operand::Reg(self.in_vector(Operand::Imm(1f64.to_bits() as i64), 2));
        let r = Operand::Reg(self.v2_of(F64.reciprocal, &[d]));
        // The first reciprocal is a coarse one.
        let error = self.step(&F64, 2, [d, r, one], 0b001);
        let r = self.step(&F64, 2, [r, error, r], 0);
        let error = self.step(&F64, 2, [d, r, one], 0b001);
        let r = self.step(&F64, 2, [r, error, r], 0);
        let q = Operand::Reg(self.v2_of(F64.multiply, &[n, r]));
        let error = self.step(&F64, 2, [d, q, n], 0b001);
        self.last(&F64, to, [error, r, q], x, y);
    }

    fn last(&mut self, c: &QuotientCodes, to: Span, from: [Operand; 3], x: Operand, y: Operand) {
        let t = self.vs(to.words);
        self.valu(c.fmas, t, &from);
        self.valu(c.fixup, to, &[t.into(), y, x]);
    }

    /// Exact: the quotient of numbers of 11 bits is never nearer to the middle of two such numbers than the error here, unless it is one.
    pub(super) fn quotient_f16(&mut self, to: Span, x: Operand, y: Operand) {
        let [x, y] = [x, y].map(|o| Operand::Reg(self.v_of(Opcode::VCvtF32F16, &[o])));
        let r = Operand::Reg(self.v_of(Opcode::VRcpF32, &[y]));
        let q = Operand::Reg(self.v_of(Opcode::VMulF32, &[x, r]));
        let error = self.step(&F32, 1, [y, q, x], 0b001);
        let q = self.step(&F32, 1, [error, r, q], 0);
        let q = self.v_of(Opcode::VDivFixupF32, &[q, y, x]);
        self.valu(Opcode::VCvtF16F32, to, &[q.into()]);
    }
}
