//! Bytes and halves of words: packing, unpacking, permuting, shifting through two words.
//!
//! The upper half of a register with a 16-bit float has any bits; integers of 8 and 16 bits are sign-extended.

use super::error::{Computation, Reason};
use super::selector::{Done, Home, Selector, extended};
use crate::isa::Opcode;
use crate::mir::{Operand, Span};
use tilelift_ir::Scalar;
use tilelift_lane::{LTy, LVal, Opcode as LaneOpcode, Vals};

/// What `v_perm_b32` picks for the lower halves of two words, the second operand's first.
const LOW_HALVES: i64 = 0x0504_0100;
/// The lowest bytes of two words in the lower half, the second operand's first; zeros above.
const LOW_BYTES: i64 = 0x0c0c_0400;
/// The same in the upper half.
const LOW_BYTES_ABOVE: i64 = 0x0400_0c0c;

impl Selector<'_> {
    /// A word of two halves or four bytes.
    pub(super) fn pack(&mut self, dst: LVal, parts: &Vals) -> Done {
        let bits = 32 / (parts.len() as u32).max(1);
        let constants: Option<Vec<u64>> = parts.iter().map(|&p| self.constant(p)).collect();
        if let Some(constants) = constants {
            let mask = u64::MAX >> (64 - bits.max(1));
            let word = constants.iter().enumerate().fold(0, |w, (i, &c)| w | (c & mask) << (i as u32 * bits));
            self.is(dst, Home::Const(extended(word, LTy::B32)));
            return Ok(());
        }
        let operands: Vec<Operand> = parts.iter().map(|&p| self.op(p)).collect();
        self.compute(dst, |s, to| s.packed(to, &operands))
    }

    /// Puts two halves or four bytes into a word.
    pub(super) fn packed(&mut self, to: Span, parts: &[Operand]) -> Done {
        match *parts {
            [one] => self.valu(Opcode::VMovB32, to, &[one]),
            [low, high] => self.valu(Opcode::VPermB32, to, &[high, low, Operand::Imm(LOW_HALVES)]),
            [a, b, c, d] => {
                let low = self.v_of(Opcode::VPermB32, &[b, a, Operand::Imm(LOW_BYTES)]);
                let high = self.v_of(Opcode::VPermB32, &[d, c, Operand::Imm(LOW_BYTES_ABOVE)]);
                self.valu(Opcode::VOrB32, to, &[low.into(), high.into()]);
            }
            _ => return Self::refuse(Computation::Other(LaneOpcode::Pack), LTy::B32, Reason::Type),
        }
        Ok(())
    }

    /// The halves or bytes of a word.
    pub(super) fn unpack(&mut self, dsts: &Vals, a: LVal) -> Done {
        let bits = 32 / (dsts.len() as u32).max(1);
        if let Some(word) = self.constant(a) {
            for (i, &d) in dsts.iter().enumerate() {
                let ty = self.ty(d);
                self.is(d, Home::Const(extended(word as u32 as u64 >> (i as u32 * bits), ty)));
            }
            return Ok(());
        }
        for (i, &d) in dsts.iter().enumerate() {
            if !self.live.read(d) {
                continue;
            }
            if i == 0 && matches!(self.ty(d), LTy::Num(Scalar::F16 | Scalar::BF16)) {
                self.shared(d, a)?;
                continue;
            }
            let word = self.op(a);
            self.compute(d, |s, to| {
                s.field(to, word, i as u32, bits);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// A field of a word, its sign extended.
    pub(super) fn field(&mut self, to: Span, word: Operand, number: u32, bits: u32) {
        let at = number * bits;
        if at + bits == 32 {
            return self.valu(Opcode::VAshrrevI32, to, &[Operand::Imm(at.into()), word]);
        }
        self.valu(Opcode::VBfeI32, to, &[word, Operand::Imm(at.into()), Operand::Imm(bits.into())]);
    }

    /// Four bytes of two words.
    pub(super) fn permute(&mut self, dst: LVal, low: LVal, high: LVal, picks: LVal) -> Done {
        let constant = self.constant(picks);
        let (low, high, picks) = (self.op(low), self.op(high), self.op(picks));
        self.compute(dst, |s, to| {
            let picks = match constant {
                Some(p) => {
                    let bytes = (0..4).fold(0u32, |all, n| all | ((p as u32 >> (4 * n)) & 7) << (8 * n));
                    Operand::Imm(i64::from(bytes as i32))
                }
                None => {
                    // Digits of four bits move to bytes.
                    let digits = Operand::Reg(s.v_of(Opcode::VAndB32, &[Operand::Imm(0xffff), picks]));
                    let halves = s.v_of(Opcode::VLshlOrB32, &[digits, 8.into(), digits]);
                    let halves = s.v_of(Opcode::VAndB32, &[Operand::Imm(0x00ff_00ff), halves.into()]);
                    let bytes = s.v_of(Opcode::VLshlOrB32, &[halves.into(), 4.into(), halves.into()]);
                    s.v_of(Opcode::VAndB32, &[Operand::Imm(0x0707_0707), bytes.into()]).into()
                }
            };
            s.valu(Opcode::VPermB32, to, &[high, low, picks]);
            Ok(())
        })
    }

    /// The upper word of two, shifted left.
    pub(super) fn funnel(&mut self, dst: LVal, high: LVal, low: LVal, by: LVal) -> Done {
        let constant = self.constant(by);
        let (high, low, by) = (self.op(high), self.op(low), self.op(by));
        self.compute(dst, |s, to| {
            match constant.map(|k| k & 31) {
                Some(0) => s.valu(Opcode::VMovB32, to, &[high]),
                Some(k) => s.valu(Opcode::VAlignbitB32, to, &[high, low, Operand::Imm(32 - k as i64)]),
                None => {
                    // Right by one, then by 31 less the amount.
                    let lower = s.v_of(Opcode::VAlignbitB32, &[high, low, 1.into()]);
                    let upper = s.v_of(Opcode::VLshrrevB32, &[1.into(), high]);
                    let by = s.v_of(Opcode::VNotB32, &[by]);
                    s.valu(Opcode::VAlignbitB32, to, &[upper.into(), lower.into(), by.into()]);
                }
            }
            Ok(())
        })
    }

    /// `(a & mask) ^ flip`.
    pub(super) fn mask_flip(&mut self, dst: LVal, a: LVal, mask: LVal, flip: LVal) -> Done {
        let (a, mask, flip) = (self.op(a), self.op(mask), self.op(flip));
        if self.in_scalars(dst) {
            let kept = self.s_of(Opcode::SAndB32, &[a, mask]);
            let to = self.def(dst);
            self.salu(Opcode::SXorB32, Some(to), &[kept.into(), flip]);
            return Ok(());
        }
        self.compute(dst, |s, to| {
            let kept = s.v_of(Opcode::VAndB32, &[mask, a]);
            s.valu(Opcode::VXorB32, to, &[flip, kept.into()]);
            Ok(())
        })
    }

    /// `a * b + c` of two `f16` each.
    pub(super) fn fma_halves(&mut self, dst: LVal, values: [LVal; 3]) -> Done {
        let operands = values.map(|v| self.op(v));
        self.compute(dst, |s, to| {
            let regs = operands.map(|o| Operand::Reg(s.in_vector(o, 1)));
            s.valu(Opcode::VPkFmaF16, to, &regs);
            Ok(())
        })
    }
}
