//! Floats. What `bf16` has no instruction for is computed in `f32` and rounded once more, which is exact for sums, products and quotients (`f32`
//! has more than twice its bits).

use super::error::{Computation, Reason};
use super::extremes::says_nan;
use super::ops::{bit_bin, float_bin, float_un, int_bin, narrow, number_bin, word_un};
use super::selector::{Done, Selector, f32_imm, part};
use crate::isa::Opcode;
use crate::mir::{Mods, Operand, Span};
use tilelift_ir::Scalar;
use tilelift_lane::{BinOp, LTy, LVal, Opcode as LaneOpcode, UnOp};

/// What `v_cmp_class` asks for: quiet and signalling NaN.
const NAN: i64 = 0b11;

/// Changes the signs of sources: a bit each.
pub(super) fn negated(sources: u8) -> Mods {
    Mods { neg: sources, ..Mods::default() }
}

impl Selector<'_> {
    pub(super) fn float_un(&mut self, to: Span, op: UnOp, s: Scalar, a: LVal) -> Done {
        let x = self.op(a);
        match op {
            UnOp::Neg | UnOp::Abs => {
                self.sign(to, s, x, op == UnOp::Neg);
                Ok(())
            }
            UnOp::RoundBf16 if s == Scalar::F32 && self.rounds_bf16() => {
                self.valu(Opcode::VCvtPkBf16F32, to, &[0.into(), x]);
                Ok(())
            }
            UnOp::RoundBf16 if s == Scalar::F32 => {
                let rounded = self.round_bf16(x);
                self.valu(Opcode::VAndB32, to, &[Operand::Imm(0xffff_0000_u32 as i32 as i64), rounded.into()]);
                Ok(())
            }
            UnOp::Rcp if s == Scalar::F32 => {
                self.reciprocal(to, x);
                Ok(())
            }
            UnOp::Rsqrt if s == Scalar::F32 => {
                // Subnormal numbers count as zeros: they are scaled, and the root's reciprocal back.
                let (small, x) = self.scaled(x, 32);
                let r = self.v_of(Opcode::VRsqF32, &[x.into()]);
                let by = self.v();
                self.pick(by, small, 16.into(), 0.into());
                self.valu(Opcode::VLdexpF32, to, &[r.into(), by.into()]);
                Ok(())
            }
            UnOp::Log2 if s == Scalar::F32 => {
                let (small, x) = self.scaled(x, 32);
                let r = self.v_of(Opcode::VLogF32, &[x.into()]);
                let by = self.v();
                self.pick(by, small, f32_imm(-32.0), f32_imm(0.0));
                self.valu(Opcode::VAddF32, to, &[by.into(), r.into()]);
                Ok(())
            }
            UnOp::Floor | UnOp::Ceil | UnOp::Round | UnOp::Trunc if s == Scalar::BF16 => {
                let wide = self.widened(x, s);
                let code = match op {
                    UnOp::Floor => Opcode::VFloorF32,
                    UnOp::Ceil => Opcode::VCeilF32,
                    UnOp::Round => Opcode::VRndneF32,
                    _ => Opcode::VTruncF32,
                };
                let r = self.v_of(code, &[wide.into()]);
                // Rounding up may carry into a bit that bf16 lacks: never, as larger numbers are whole.
                self.valu(Opcode::VLshrrevB32, to, &[16.into(), r.into()]);
                Ok(())
            }
            UnOp::Not | UnOp::Popcount | UnOp::Clz | float_un!() | word_un!() => {
                Self::refuse(Computation::Un(op), LTy::Num(s), if op.is_optional() { Reason::NotOffered } else { Reason::Type })
            }
        }
    }

    /// Flips the sign, or clears it; NaN keeps its bits.
    fn sign(&mut self, to: Span, s: Scalar, x: Operand, flip: bool) {
        let bit: u32 = if s.bits() == 16 { 1 << 15 } else { 1 << 31 };
        let (code, bits) = if flip { (Opcode::VXorB32, bit) } else { (Opcode::VAndB32, !bit) };
        let top = if s == Scalar::F64 { 1 } else { 0 };
        if s == Scalar::F64 {
            self.valu(Opcode::VMovB32, to.part(0, 1), &[part(x, 0)]);
        }
        self.valu(code, to.part(top, 1), &[Operand::Imm(i64::from(bits as i32)), part(x, top)]);
    }

    /// Where a number is subnormal it is scaled up by a power of two; says where.
    fn scaled(&mut self, x: Operand, by: i64) -> (Span, Span) {
        // Negative numbers have no logarithm nor root, and zero none that scaling would change.
        let small = self.mask_of(Opcode::VCmpGtF32, &[f32_imm(f32::MIN_POSITIVE), x]);
        let power = self.v();
        self.pick(power, small, by.into(), 0.into());
        (small, self.v_of(Opcode::VLdexpF32, &[x, power.into()]))
    }

    /// The reciprocal of any number: that of the fraction, scaled back.
    fn reciprocal(&mut self, to: Span, x: Operand) {
        let fraction = self.v_of(Opcode::VFrexpMantF32, &[x]);
        let exponent = self.v_of(Opcode::VFrexpExpI32F32, &[x]);
        let r = self.v_of(Opcode::VRcpF32, &[fraction.into()]);
        let minus = self.v_of(Opcode::VSubU32, &[0.into(), exponent.into()]);
        self.valu(Opcode::VLdexpF32, to, &[r.into(), minus.into()]);
    }

    /// A 16-bit float as `f32`.
    pub(super) fn widened(&mut self, x: Operand, s: Scalar) -> Span {
        match s {
            Scalar::F16 => self.v_of(Opcode::VCvtF32F16, &[x]),
            _ => self.v_of(Opcode::VLshlrevB32, &[16.into(), x]),
        }
    }

    /// True if the chip rounds to `bf16` by itself.
    fn rounds_bf16(&self) -> bool {
        Opcode::VCvtPkBf16F32.desc().number(self.chip).is_some()
    }

    /// An `f32` rounded to `bf16`: in the upper half.
    fn round_bf16(&mut self, x: Operand) -> Span {
        let odd = self.v_of(Opcode::VBfeU32, &[x, 16.into(), 1.into()]);
        let rounded = self.v_of(Opcode::VAdd3U32, &[x, odd.into(), Operand::Imm(0x7fff)]);
        let nan = self.mask_of(Opcode::VCmpUF32, &[x, x]);
        let to = self.v();
        self.pick(to, nan, Operand::Imm(0x7fff_0000), rounded.into());
        to
    }

    /// Rounds an `f32` to a 16-bit float.
    pub(super) fn narrowed(&mut self, to: Span, x: Operand, s: Scalar) {
        if s == Scalar::F16 {
            return self.valu(Opcode::VCvtF16F32, to, &[x]);
        }
        if self.rounds_bf16() {
            return self.valu(Opcode::VCvtPkBf16F32, to, &[x, 0.into()]);
        }
        let rounded = self.round_bf16(x);
        self.valu(Opcode::VLshrrevB32, to, &[16.into(), rounded.into()]);
    }

    pub(super) fn float_bin(&mut self, to: Span, op: BinOp, s: Scalar, a: LVal, b: LVal) -> Done {
        let (x, y) = (self.op(a), self.op(b));
        match (op, s) {
            (BinOp::Sub, Scalar::F64) => {
                // A constant has no modifier: the sign is its own.
                match y {
                    Operand::Imm(bits) => self.valu(Opcode::VAddF64, to, &[x, Operand::Imm(bits ^ i64::MIN)]),
                    y => self.valu_with(Opcode::VAddF64, &[to], &[x, y], negated(0b10)),
                }
                Ok(())
            }
            (BinOp::Minimum | BinOp::Maximum, Scalar::F16 | Scalar::F32 | Scalar::F64) => {
                self.extreme(to, s, x, y, op == BinOp::Minimum);
                Ok(())
            }
            (BinOp::Div, Scalar::F32) => {
                self.quotient_f32(to, x, y);
                Ok(())
            }
            (BinOp::Div, Scalar::F64) => {
                self.quotient_f64(to, x, y);
                Ok(())
            }
            (BinOp::Div, Scalar::F16) => {
                self.quotient_f16(to, x, y);
                Ok(())
            }
            (_, Scalar::BF16) => {
                let [x, y] = [x, y].map(|o| Operand::Reg(self.widened(o, s)));
                let r = self.v();
                let exact = matches!(op, BinOp::Minimum | BinOp::Maximum | BinOp::MinNum | BinOp::MaxNum);
                match op {
                    BinOp::Add => self.valu(Opcode::VAddF32, r, &[x, y]),
                    BinOp::Sub => self.valu(Opcode::VSubF32, r, &[x, y]),
                    BinOp::Mul => self.valu(Opcode::VMulF32, r, &[x, y]),
                    BinOp::Div => self.quotient_f32(r, x, y),
                    BinOp::MinNum => self.valu(Opcode::VMinF32, r, &[x, y]),
                    BinOp::MaxNum => self.valu(Opcode::VMaxF32, r, &[x, y]),
                    BinOp::Minimum | BinOp::Maximum => self.extreme(r, Scalar::F32, x, y, op == BinOp::Minimum),
                    bit_bin!() | int_bin!() => return Self::refuse(Computation::Bin(op), LTy::Num(s), Reason::Type),
                }
                if exact {
                    self.valu(Opcode::VLshrrevB32, to, &[16.into(), r.into()]);
                } else {
                    self.narrowed(to, r.into(), s);
                }
                Ok(())
            }
            (number_bin!() | float_bin!() | bit_bin!() | int_bin!(), _) => Self::refuse(Computation::Bin(op), LTy::Num(s), Reason::Type),
        }
    }

    /// The smaller or the larger number; a NaN if either is.
    fn extreme(&mut self, to: Span, s: Scalar, x: Operand, y: Operand, least: bool) {
        if s == Scalar::F32 && says_nan(self.chip) {
            let code = if least { Opcode::VMinimum3F32 } else { Opcode::VMaximum3F32 };
            return self.valu(code, to, &[x, y, y]);
        }
        let (code, unordered, nan) = match (s, least) {
            (Scalar::F16, true) => (Opcode::VMinF16, Opcode::VCmpUF16, 0x7e00),
            (Scalar::F16, false) => (Opcode::VMaxF16, Opcode::VCmpUF16, 0x7e00),
            (Scalar::F64, true) => (Opcode::VMinF64, Opcode::VCmpUF64, 0x7ff8_0000),
            (Scalar::F64, false) => (Opcode::VMaxF64, Opcode::VCmpUF64, 0x7ff8_0000),
            (_, true) => (Opcode::VMinF32, Opcode::VCmpUF32, 0x7fc0_0000),
            (_, false) => (Opcode::VMaxF32, Opcode::VCmpUF32, 0x7fc0_0000),
        };
        let (x, y) = if matches!(y, Operand::Imm(_)) { (y, x) } else { (x, y) };
        let r = self.vs(to.words);
        self.valu(code, r, &[x, y]);
        let any = self.mask_of(unordered, &[x, y]);
        let top = to.words - 1;
        if to.words == 2 {
            self.valu(Opcode::VMovB32, to.part(0, 1), &[r.part(0, 1).into()]);
        }
        self.pick(to.part(top, 1), any, Operand::Imm(nan), r.part(top, 1).into());
    }

    pub(super) fn float_fma(&mut self, to: Span, s: Scalar, values: [LVal; 3]) -> Done {
        let operands = values.map(|v| self.op(v));
        match s {
            Scalar::F32 => self.valu(Opcode::VFmaF32, to, &operands),
            Scalar::F64 => self.valu(Opcode::VFmaF64, to, &operands),
            // 16-bit floats are fused in `f32`, and that is rounded.
            Scalar::F16 | Scalar::BF16 => {
                let wide = operands.map(|o| Operand::Reg(self.widened(o, s)));
                let r = self.v_of(Opcode::VFmaF32, &wide);
                self.narrowed(to, r.into(), s);
            }
            Scalar::I1 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 | narrow!() => {
                return Self::refuse(Computation::Other(LaneOpcode::Fma), LTy::Num(s), Reason::Type);
            }
        }
        Ok(())
    }

    /// Rounds an `f32` to tf32: the nearest, ties away from zero; infinities and NaN stay.
    pub(super) fn round_tf32(&mut self, dst: LVal, a: LVal) -> Done {
        let x = self.op(a);
        self.compute(dst, |s, to| {
            let up = s.v_of(Opcode::VAddU32, &[Operand::Imm(0x1000), x]);
            let cut = s.v_of(Opcode::VAndB32, &[Operand::Imm(!0x1fff), up.into()]);
            // Infinities of both signs, and NaN.
            let class = s.mask_of(Opcode::VCmpClassF32, &[x, Operand::Imm(NAN | 0x204)]);
            s.pick(to, class, x, cut.into());
            Ok(())
        })
    }
}
