//! Codes of 8-bit floats, of and to `f32`: by instructions, in the chip's own flavour of each format (OCP on gfx950, FNUZ on gfx942).
//!
//! ```text
//! encode x     c = v_med3 x, -largest, largest          what is too large saturates, infinities too; no chip does so by itself
//!              c = x is NaN ? NaN : c                   one bit pattern, whose code is the format's
//!              v_cvt_pk_fp8_f32 d, c, c'                two at once
//! ```

use super::live::Live;
use super::selector::{Done, Selector, f32_imm};
use crate::chip::Chip;
use crate::isa::Opcode;
use crate::mir::{Mods, Operand, Span};
use tilelift_ir::{Scalar, num};
use tilelift_lane::{Inst, LTy, LVal, UnOp};

/// The format that an operation encodes to, if the chip's instructions have it.
pub(super) fn encoded(op: UnOp) -> Option<Scalar> {
    match op {
        UnOp::EncodeE4M3 => Some(Scalar::F8E4M3),
        UnOp::EncodeE5M2 => Some(Scalar::F8E5M2),
        UnOp::EncodeE4M3Fnuz => Some(Scalar::F8E4M3Fnuz),
        UnOp::EncodeE5M2Fnuz => Some(Scalar::F8E5M2Fnuz),
        _ => None,
    }
}

/// The instruction that decodes.
fn decoder(op: UnOp) -> Option<Opcode> {
    match op {
        UnOp::DecodeE4M3 | UnOp::DecodeE4M3Fnuz => Some(Opcode::VCvtF32Fp8),
        UnOp::DecodeE5M2 | UnOp::DecodeE5M2Fnuz => Some(Opcode::VCvtF32Bf8),
        _ => None,
    }
}

/// The instruction that encodes to a format.
fn encoder(to: Scalar) -> Opcode {
    if matches!(to, Scalar::F8E5M2 | Scalar::F8E5M2Fnuz) { Opcode::VCvtPkBf8F32 } else { Opcode::VCvtPkFp8F32 }
}

/// Four codes that are a word.
pub(super) struct Word {
    dst: LVal,
    of: [LVal; 4],
    /// They are of the format with two bits of fraction.
    short: bool,
}

/// Two numbers whose codes stand side by side.
fn pair(inst: &Inst) -> Option<(LVal, [LVal; 2], bool)> {
    match *inst {
        Inst::CvtE4M3x2 { dst, low, high } => Some((dst, [low, high], false)),
        Inst::CvtE5M2x2 { dst, low, high } => Some((dst, [low, high], true)),
        _ => None,
    }
}

/// Two pairs of codes and the word that they are, one behind the other.
pub(super) fn word(live: &Live, block: &[Inst]) -> Option<Word> {
    let [first, second, Inst::Pack { dst, parts }, ..] = block else { return None };
    let ((low, [a, b], short), (high, [c, d], same)) = (pair(first)?, pair(second)?);
    let one = parts[..] == [low, high] && short == same && live.read_once(low) && live.read_once(high);
    one.then_some(Word { dst: *dst, of: [a, b, c, d], short })
}

/// The chip's own flavour of a format.
pub(super) fn own(chip: Chip, short: bool) -> Scalar {
    match (chip, short) {
        (Chip::Gfx950, false) => Scalar::F8E4M3,
        (Chip::Gfx950, true) => Scalar::F8E5M2,
        (Chip::Gfx90a | Chip::Gfx942, false) => Scalar::F8E4M3Fnuz,
        (Chip::Gfx90a | Chip::Gfx942, true) => Scalar::F8E5M2Fnuz,
    }
}

impl Selector<'_> {
    /// Codes of two numbers in the low bytes of a word, or as an integer of 16 bits.
    pub(super) fn code_pair(&mut self, dst: LVal, of: [LVal; 2], short: bool) -> Done {
        let (of, format, ty) = (of.map(|v| self.op(v)), own(self.chip, short), self.ty(dst));
        self.compute(dst, |s, to| {
            if ty != LTy::Num(Scalar::I16) {
                s.codes(to, of, format);
                return Ok(());
            }
            let pair = s.v();
            s.codes(pair, of, format);
            s.extend_vector(to, pair.into(), 16);
            Ok(())
        })
    }

    /// A word of four codes.
    pub(super) fn word_of_codes(&mut self, word: &Word) -> Done {
        let (of, format) = (word.of.map(|v| self.op(v)), own(self.chip, word.short));
        self.compute(word.dst, |s, to| {
            let [a, b, c, d] = of.map(|x| s.within(x, format));
            let both = s.v();
            s.valu(Opcode::VMovB32, both, &[0.into()]);
            s.valu(encoder(format), both, &[a, b]);
            s.valu_with(encoder(format), &[both], &[c, d], Mods { op_sel: 0b1000, ..Mods::default() });
            s.valu(Opcode::VMovB32, to, &[both.into()]);
            Ok(())
        })
    }

    /// An operation on codes; says whether it is one.
    pub(super) fn code(&mut self, dst: LVal, op: UnOp, a: LVal) -> Result<bool, super::SelectError> {
        if !self.target.code_casts.iter().any(|&c| encoded(op) == Some(c)) && decoder(op).is_none() {
            return Ok(false);
        }
        let x = self.op(a);
        let made: Done = self.compute(dst, |s, to| {
            match (encoded(op), decoder(op)) {
                (Some(format), _) => {
                    let pair = s.v();
                    s.codes(pair, [x, f32_imm(0.0)], format);
                    s.valu(Opcode::VAndB32, to, &[Operand::Imm(0xff), pair.into()]);
                }
                (None, Some(code)) => s.valu(code, to, &[x]),
                (None, None) => {}
            }
            Ok(())
        });
        made.map(|()| true)
    }

    /// Codes of two `f32` in the lower half of a word.
    pub(super) fn codes(&mut self, to: Span, of: [Operand; 2], format: Scalar) {
        let of = of.map(|x| self.within(x, format));
        // The upper half stays as it is: nobody looks at it.
        self.valu(Opcode::VMovB32, to, &[0.into()]);
        self.valu(encoder(format), to, &of);
    }

    /// A number cut to the largest of a format; NaN becomes one NaN.
    fn within(&mut self, x: Operand, format: Scalar) -> Operand {
        if x == Operand::Imm(0) {
            return x;
        }
        let most = f32_imm(num::largest(format) as f32);
        let Operand::Imm(bits) = most else { return x };
        let most: Operand = self.scalar_const(bits as u64, 1).into();
        let cut = self.v();
        self.valu_with(Opcode::VMed3F32, &[cut], &[x, most, most], Mods { neg: 0b100, ..Mods::default() });
        let nan = self.mask_of(Opcode::VCmpUF32, &[x, x]);
        let kept = self.v();
        self.pick(kept, nan, Operand::Imm(0x7fc0_0000), cut.into());
        kept.into()
    }
}
