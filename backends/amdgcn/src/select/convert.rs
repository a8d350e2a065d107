//! Conversions by value, each rounded once; floats become integers truncated and saturated, NaN zero.
//!
//! Where a format is reached by way of a wider one, the first step rounds to odd: the last bit of what is not exact is set, so that the second
//! rounding sees on which side of a tie the number was.

use super::error::{Computation, Reason};
use super::ops::narrow;
use super::selector::{Done, Home, Selector, extended, part};
use crate::isa::Opcode;
use crate::mir::{Mods, Operand, Span};
use tilelift_ir::Scalar;
use tilelift_lane::{LTy, LVal, Opcode as LaneOpcode};

use Scalar::{BF16, F16, F32, F64, I1, I8, I16, I32, I64};

impl Selector<'_> {
    /// A conversion.
    pub(super) fn convert(&mut self, dst: LVal, a: LVal) -> Done {
        let (LTy::Num(from), LTy::Num(to)) = (self.ty(a), self.ty(dst)) else {
            return Self::refuse(Computation::Other(LaneOpcode::Cvt), self.ty(a), Reason::Type);
        };
        if from == to {
            return self.shared(dst, a);
        }
        // From here on there are integers, truth values, and floats of 16 bits and more.
        if matches!(from, narrow!()) || matches!(to, narrow!()) {
            return Self::refuse(Computation::Other(LaneOpcode::Cvt), self.ty(a), Reason::Type);
        }
        match (from.is_float(), to.is_float()) {
            _ if to == I1 => self.truth_of(dst, a, from),
            _ if from == I1 => self.number_of_truth(dst, a, to),
            (false, false) => self.int_to_int(dst, a, from, to),
            (false, true) => self.compute(dst, |s, d| s.int_to_float(d, a, from, to)),
            (true, false) => self.compute(dst, |s, d| s.float_to_int(d, a, from, to)),
            (true, true) => self.compute(dst, |s, d| s.float_to_float(d, a, from, to)),
        }
    }

    fn truth_of(&mut self, dst: LVal, a: LVal, from: Scalar) -> Done {
        let x = self.op(a);
        let (code, x) = match from {
            // A NaN is no zero.
            F32 => (Opcode::VCmpNeqF32, x),
            F64 => (Opcode::VCmpNeqF64, x),
            F16 => (Opcode::VCmpNeqF16, x),
            BF16 => (Opcode::VCmpNeqF32, self.widened(x, from).into()),
            I64 => (Opcode::VCmpNeU64, x),
            _ => (Opcode::VCmpNeU32, x),
        };
        if self.uniform.alike(a) && !from.is_float() {
            let x = self.in_scalar(x, self.words(a));
            let code = if from == I64 { Opcode::SCmpLgU64 } else { Opcode::SCmpLgU32 };
            self.salu(code, None, &[x, 0.into()]);
            let to = self.def(dst);
            self.salu(Opcode::SCselectB64, Some(to), &[(-1).into(), 0.into()]);
            return Ok(());
        }
        let to = self.def(dst);
        self.valu(code, to, &[0.into(), x]);
        Ok(())
    }

    fn number_of_truth(&mut self, dst: LVal, a: LVal, to: Scalar) -> Done {
        let one: u64 = match to {
            F16 => 0x3c00,
            BF16 => 0x3f80,
            F32 => 0x3f80_0000,
            F64 => 0x3ff0_0000_0000_0000,
            _ => 1,
        };
        if let Some(bits) = self.constant(a) {
            self.is(dst, Home::Const(if bits != 0 { extended(one, LTy::Num(to)) } else { 0 }));
            return Ok(());
        }
        let words = self.words(dst);
        if self.in_scalars(dst) {
            let c = self.op(a);
            self.salu(Opcode::SCmpLgU64, None, &[c, 0.into()]);
            let d = self.def(dst);
            let code = if words == 2 { Opcode::SCselectB64 } else { Opcode::SCselectB32 };
            self.salu(code, Some(d), &[1.into(), 0.into()]);
            return Ok(());
        }
        let mask = self.mask(a);
        self.compute(dst, |s, d| {
            let one = Operand::Imm(if words == 1 { i64::from(one as i32) } else { one as i64 });
            for w in 0..words {
                match part(one, w) {
                    Operand::Imm(0) => s.valu(Opcode::VMovB32, d.part(w, 1), &[0.into()]),
                    bits => s.pick(d.part(w, 1), mask, bits, 0.into()),
                }
            }
            Ok(())
        })
    }

    fn int_to_int(&mut self, dst: LVal, a: LVal, from: Scalar, to: Scalar) -> Done {
        if let Some(bits) = self.constant(a) {
            self.is(dst, Home::Const(extended(bits, LTy::Num(to))));
            return Ok(());
        }
        if to == I32
            && !self.in_scalars(dst)
            && let Some(low) = self.late_low(a)
        {
            let home = match low {
                Operand::Reg(span) => Home::Reg(span),
                low => Home::Const(if let Operand::Imm(bits) = low { bits as u64 } else { 0 }),
            };
            self.is(dst, home);
            return Ok(());
        }
        let x = self.op(a);
        if to == I64 {
            if self.in_scalars(dst) {
                let x = self.in_scalar(x, 1);
                let d = self.def(dst);
                self.salu(Opcode::SMovB32, Some(d.part(0, 1)), &[x]);
                self.salu(Opcode::SAshrI32, Some(d.part(1, 1)), &[x, 31.into()]);
                return Ok(());
            }
            if self.late_word(dst, x) {
                return Ok(());
            }
            return self.compute(dst, |s, d| {
                s.valu(Opcode::VAshrrevI32, d.part(1, 1), &[31.into(), x]);
                s.valu(Opcode::VMovB32, d.part(0, 1), &[x]);
                Ok(())
            });
        }
        if to.bits() >= from.bits() || to == I32 {
            return self.shared(dst, a);
        }
        let low = part(x, 0);
        if self.in_scalars(dst) {
            let low = self.in_scalar(low, 1);
            self.extend_scalar(dst, low, to.bits());
            return Ok(());
        }
        self.compute(dst, |s, d| {
            s.extend_vector(d, low, to.bits());
            Ok(())
        })
    }

    fn int_to_float(&mut self, d: Span, a: LVal, from: Scalar, to: Scalar) -> Done {
        let x = self.op(a);
        match (from, to) {
            (I64, F64) => {
                let high = self.v2_of(Opcode::VCvtF64I32, &[part(x, 1)]);
                let high = self.v2_of(Opcode::VLdexpF64, &[high.into(), 32.into()]);
                let low = self.v2_of(Opcode::VCvtF64U32, &[part(x, 0)]);
                self.valu(Opcode::VAddF64, d, &[high.into(), low.into()]);
            }
            (_, F64) => self.valu(Opcode::VCvtF64I32, d, &[x]),
            (I64, F32) => self.wide_to_f32(d, x, false),
            (I64, _) => {
                let t = self.v();
                self.wide_to_f32(t, x, true);
                self.narrowed(d, t.into(), to);
            }
            (_, F32) => self.valu(Opcode::VCvtF32I32, d, &[x]),
            (I32, BF16) => {
                // Exact in f64.
                let wide = self.v2_of(Opcode::VCvtF64I32, &[x]);
                let t = self.odd_f32(wide.into());
                self.narrowed(d, t.into(), to);
            }
            // What f32 rounds is too large for f16.
            _ => {
                let t = self.v_of(Opcode::VCvtF32I32, &[x]);
                self.narrowed(d, t.into(), to);
            }
        }
        Ok(())
    }

    /// A 64-bit integer as `f32`: the magnitude's leading bits, what is behind them as one bit, and the power of two. Rounded to odd at 24 bits
    /// if asked.
    fn wide_to_f32(&mut self, d: Span, x: Operand, odd: bool) {
        let sign = Operand::Reg(self.v_of(Opcode::VAshrrevI32, &[31.into(), part(x, 1)]));
        let flipped = [0, 1].map(|w| Operand::Reg(self.v_of(Opcode::VXorB32, &[part(x, w), sign])));
        let size = self.vs(2);
        self.minus(size, flipped, [sign, sign]);
        let zeros = if odd {
            // All leading bits in the upper word.
            self.leading_zeros(size.part(0, 1).into(), size.part(1, 1).into())
        } else {
            let zeros = self.v_of(Opcode::VFfbhU32, &[size.part(1, 1).into()]);
            self.v_of(Opcode::VMinU32, &[32.into(), zeros.into()])
        };
        let shifted = self.v2_of(Opcode::VLshlrevB64, &[zeros.into(), size.into()]);
        let rest = self.v_of(Opcode::VMinU32, &[1.into(), shifted.part(0, 1).into()]);
        let mut lead = self.v_of(Opcode::VOrB32, &[rest.into(), shifted.part(1, 1).into()]);
        let mut power = 32;
        if odd {
            let lost = self.v_of(Opcode::VAndB32, &[Operand::Imm(0xff), lead.into()]);
            let lost = self.v_of(Opcode::VMinU32, &[1.into(), lost.into()]);
            let kept = self.v_of(Opcode::VLshrrevB32, &[8.into(), lead.into()]);
            lead = self.v_of(Opcode::VOrB32, &[kept.into(), lost.into()]);
            power = 40;
        }
        let f = self.v_of(Opcode::VCvtF32U32, &[lead.into()]);
        let power = self.v_of(Opcode::VSubU32, &[power.into(), zeros.into()]);
        let f = self.v_of(Opcode::VLdexpF32, &[f.into(), power.into()]);
        let bit = self.v_of(Opcode::VAndB32, &[Operand::Imm(i64::from(i32::MIN)), sign]);
        self.valu(Opcode::VOrB32, d, &[bit.into(), f.into()]);
    }

    /// An `f64` rounded to odd in `f32`.
    fn odd_f32(&mut self, x: Operand) -> Span {
        let near = self.v_of(Opcode::VCvtF32F64, &[x]);
        let back = self.v2_of(Opcode::VCvtF64F32, &[near.into()]);
        let exact = self.mask_of(Opcode::VCmpNeqF64, &[x, back.into()]);
        // Away from zero if the nearest is nearer to it, else towards it.
        let beyond = self.s2();
        self.valu_with(Opcode::VCmpGtF64, &[beyond], &[back.into(), x], Mods { abs: 0b11, ..Mods::default() });
        let by = self.v();
        self.pick(by, beyond, (-1).into(), 1.into());
        let moved = self.v_of(Opcode::VAddU32, &[near.into(), by.into()]);
        let bit = self.v_of(Opcode::VAndB32, &[1.into(), near.into()]);
        let even = self.mask_of(Opcode::VCmpEqU32, &[0.into(), bit.into()]);
        let both = self.s2_of(Opcode::SAndB64, &[exact.into(), even.into()]);
        // A NaN differs from itself; it stays one.
        let number = self.mask_of(Opcode::VCmpOF64, &[x, x]);
        let both = self.s2_of(Opcode::SAndB64, &[both.into(), number.into()]);
        let to = self.v();
        self.pick(to, both, moved.into(), near.into());
        to
    }

    fn float_to_float(&mut self, d: Span, a: LVal, from: Scalar, to: Scalar) -> Done {
        let x = self.op(a);
        match (from, to) {
            (F32, F64) => self.valu(Opcode::VCvtF64F32, d, &[x]),
            (_, F64) => {
                let wide = self.widened(x, from);
                self.valu(Opcode::VCvtF64F32, d, &[wide.into()]);
            }
            (F64, F32) => self.valu(Opcode::VCvtF32F64, d, &[x]),
            (F64, _) => {
                let t = self.odd_f32(x);
                self.narrowed(d, t.into(), to);
            }
            (F32, _) => self.narrowed(d, x, to),
            (F16, F32) => self.valu(Opcode::VCvtF32F16, d, &[x]),
            (_, F32) => self.valu(Opcode::VLshlrevB32, d, &[16.into(), x]),
            _ => {
                let wide = self.widened(x, from);
                self.narrowed(d, wide.into(), to);
            }
        }
        Ok(())
    }

    fn float_to_int(&mut self, d: Span, a: LVal, from: Scalar, to: Scalar) -> Done {
        let mut x = self.op(a);
        if matches!(from, F16 | BF16) {
            x = self.widened(x, from).into();
        }
        let wide = from == F64;
        match to {
            I32 => self.valu(if wide { Opcode::VCvtI32F64 } else { Opcode::VCvtI32F32 }, d, &[x]),
            I8 | I16 => {
                let t = self.v_of(if wide { Opcode::VCvtI32F64 } else { Opcode::VCvtI32F32 }, &[x]);
                let most = i64::from(i32::MAX >> (32 - to.bits()));
                let low = self.v_of(Opcode::VMaxI32, &[Operand::Imm(-most - 1), t.into()]);
                self.valu(Opcode::VMinI32, d, &[Operand::Imm(most), low.into()]);
            }
            _ => {
                let x = if wide { x } else { self.v2_of(Opcode::VCvtF64F32, &[x]).into() };
                self.f64_to_wide(d, x);
            }
        }
        Ok(())
    }

    /// An `f64` as a 64-bit integer: the upper word is the floor of its 2^32nd part, the lower one what is left.
    fn f64_to_wide(&mut self, d: Span, x: Operand) {
        let whole = self.v2_of(Opcode::VTruncF64, &[x]);
        let scaled = self.v2_of(Opcode::VLdexpF64, &[whole.into(), (-32).into()]);
        let high = self.v2_of(Opcode::VFloorF64, &[scaled.into()]);
        let minus = Operand::Reg(self.in_vector(Operand::Imm((-4_294_967_296f64).to_bits() as i64), 2));
        let low = self.v2_of(Opcode::VFmaF64, &[high.into(), minus, whole.into()]);
        let high_word = self.v_of(Opcode::VCvtI32F64, &[high.into()]);
        let low_word = self.v_of(Opcode::VCvtU32F64, &[low.into()]);
        // What does not fit is the largest or the smallest number: the upper word saturates by itself.
        let most = Operand::Reg(self.in_vector(Operand::Imm(9_223_372_036_854_775_808f64.to_bits() as i64), 2));
        let above = self.mask_of(Opcode::VCmpGeF64, &[x, most]);
        let least = Operand::Reg(self.in_vector(Operand::Imm((-9_223_372_036_854_775_808f64).to_bits() as i64), 2));
        let below = self.mask_of(Opcode::VCmpLtF64, &[x, least]);
        let low_word = {
            let t = self.v();
            self.pick(t, above, (-1).into(), low_word.into());
            t
        };
        self.pick(d.part(0, 1), below, 0.into(), low_word.into());
        self.valu(Opcode::VMovB32, d.part(1, 1), &[high_word.into()]);
    }
}
