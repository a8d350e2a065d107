//! Integers of 8, 16 and 32 bits, in registers of 32: what takes several instructions.
//!
//! A shift by as many bits as there are, or more, gives zeros, or signs; amounts are read unsigned.

use super::error::{Computation, Reason};
use super::ops::{bit_bin, float_bin, float_un, word_un};
use super::selector::{Done, Selector, f32_imm};
use crate::isa::Opcode;
use crate::mir::{Operand, Span};
use tilelift_lane::{BinOp, LVal, UnOp};

/// The bits of an integer type in its register.
const fn mask(bits: u32) -> i64 {
    (u32::MAX >> (32 - bits)) as i32 as i64
}

impl Selector<'_> {
    pub(super) fn int_un(&mut self, dst: LVal, op: UnOp, a: LVal, bits: u32) -> Done {
        let x = self.op(a);
        if self.in_scalars(dst) {
            let made = match op {
                UnOp::Neg => self.s_of(Opcode::SSubU32, &[0.into(), x]),
                UnOp::Abs => self.s_of(Opcode::SAbsI32, &[x]),
                UnOp::Popcount => {
                    let x = self.scalar_unsigned(x, bits);
                    self.s_of(Opcode::SBcnt1I32B32, &[x])
                }
                UnOp::Clz => {
                    let x = self.scalar_unsigned(x, bits);
                    let n = self.s_of(Opcode::SFlbitI32B32, &[x]);
                    let n = self.s_of(Opcode::SMinU32, &[n.into(), 32.into()]);
                    self.s_of(Opcode::SSubU32, &[n.into(), Operand::Imm(i64::from(32 - bits))])
                }
                UnOp::Not | float_un!() | word_un!() => return Self::refuse(Computation::Un(op), self.ty(a), Reason::Type),
            };
            self.extend_scalar(dst, made.into(), bits);
            return Ok(());
        }
        let ty = self.ty(a);
        self.compute(dst, |s, to| {
            match op {
                UnOp::Neg => {
                    let t = s.v_of(Opcode::VSubU32, &[0.into(), x]);
                    s.extend_vector(to, t.into(), bits);
                }
                UnOp::Abs => {
                    let t = s.v_of(Opcode::VSubU32, &[0.into(), x]);
                    let t = s.v_of(Opcode::VMaxI32, &[x, t.into()]);
                    s.extend_vector(to, t.into(), bits);
                }
                UnOp::Popcount => {
                    let x = s.unsigned(x, bits);
                    s.valu(Opcode::VBcntU32B32, to, &[x, 0.into()]);
                }
                UnOp::Clz => {
                    let x = s.unsigned(x, bits);
                    let n = s.v_of(Opcode::VFfbhU32, &[x]);
                    let n = s.v_of(Opcode::VMinU32, &[32.into(), n.into()]);
                    s.valu(Opcode::VSubU32, to, &[n.into(), Operand::Imm(i64::from(32 - bits))]);
                }
                UnOp::Not | float_un!() | word_un!() => return Self::refuse(Computation::Un(op), ty, Reason::Type),
            }
            Ok(())
        })
    }

    pub(super) fn int_bin(&mut self, dst: LVal, op: BinOp, a: LVal, b: LVal, bits: u32) -> Done {
        let (ty, by) = (self.ty(a), self.constant(b));
        let (x, y) = (self.op(a), self.op(b));
        match op {
            BinOp::Shl | BinOp::ShrS | BinOp::ShrU => match by {
                Some(by) => self.shift_by(dst, op, x, by as u32 & (mask(bits) as u32), bits),
                None if self.in_scalars(dst) => {
                    self.scalar_shift(dst, op, x, y, bits);
                    Ok(())
                }
                None => self.compute(dst, |s, to| {
                    s.vector_shift(to, op, x, y, bits);
                    Ok(())
                }),
            },
            BinOp::MulHi | BinOp::MulHiU if bits < 32 => self.compute(dst, |s, to| {
                let sign = op == BinOp::MulHi;
                let [x, y] = [x, y].map(|o| if sign { o } else { s.unsigned(o, bits) });
                let product = s.v_of(Opcode::VMulLoU32, &[x, y]);
                s.valu(Opcode::VBfeI32, to, &[product.into(), Operand::Imm(bits.into()), Operand::Imm(bits.into())]);
                Ok(())
            }),
            BinOp::DivU | BinOp::RemU => self.compute(dst, |s, to| {
                let [x, y] = [x, y].map(|o| s.unsigned(o, bits));
                let t = if bits < 32 { s.v() } else { to };
                s.divide_u32(t, x, y, op == BinOp::RemU);
                if bits < 32 {
                    s.extend_vector(to, t.into(), bits);
                }
                Ok(())
            }),
            BinOp::Div | BinOp::Rem => self.compute(dst, |s, to| {
                let t = if bits < 32 { s.v() } else { to };
                s.divide_i32(t, x, y, op == BinOp::Rem);
                if bits < 32 {
                    s.extend_vector(to, t.into(), bits);
                }
                Ok(())
            }),
            BinOp::Minimum | BinOp::Maximum | BinOp::MinimumU | BinOp::MaximumU | BinOp::MulHi | BinOp::MulHiU => {
                Self::refuse(Computation::Bin(op), ty, Reason::Type)
            }
            BinOp::Add | BinOp::Sub | BinOp::Mul | bit_bin!() | float_bin!() => Self::refuse(Computation::Bin(op), ty, Reason::Type),
        }
    }

    /// The bits of an integer without its sign in the upper ones.
    fn unsigned(&mut self, x: Operand, bits: u32) -> Operand {
        match (bits, x) {
            (32, _) => x,
            (_, Operand::Imm(k)) => Operand::Imm(k & mask(bits)),
            _ => self.v_of(Opcode::VAndB32, &[Operand::Imm(mask(bits)), x]).into(),
        }
    }

    fn scalar_unsigned(&mut self, x: Operand, bits: u32) -> Operand {
        match (bits, x) {
            (32, _) => x,
            (_, Operand::Imm(k)) => Operand::Imm(k & mask(bits)),
            _ => self.s_of(Opcode::SAndB32, &[x, Operand::Imm(mask(bits))]).into(),
        }
    }

    /// A shift by a constant.
    fn shift_by(&mut self, dst: LVal, op: BinOp, x: Operand, by: u32, bits: u32) -> Done {
        let ty = self.ty(dst);
        if by >= bits && op != BinOp::ShrS {
            let to = self.def(dst);
            self.copy(to, super::selector::Home::Const(0), ty);
            return Ok(());
        }
        let by = by.min(bits - 1);
        let k = Operand::Imm(by.into());
        if self.in_scalars(dst) {
            let (x, code) = match op {
                BinOp::Shl => (x, Opcode::SLshlB32),
                BinOp::ShrS => (x, Opcode::SAshrI32),
                _ => (self.scalar_unsigned(x, bits), Opcode::SLshrB32),
            };
            let t = self.s_of(code, &[x, k]);
            self.extend_scalar(dst, t.into(), bits);
            return Ok(());
        }
        self.compute(dst, |s, to| {
            match (op, bits) {
                (BinOp::Shl, 32) => s.valu(Opcode::VLshlrevB32, to, &[k, x]),
                (BinOp::Shl, _) => {
                    let t = s.v_of(Opcode::VLshlrevB32, &[k, x]);
                    s.extend_vector(to, t.into(), bits);
                }
                (BinOp::ShrS, _) => s.valu(Opcode::VAshrrevI32, to, &[k, x]),
                (_, 32) => s.valu(Opcode::VLshrrevB32, to, &[k, x]),
                // Without a shift, the sign stays.
                _ if by == 0 => s.valu(Opcode::VMovB32, to, &[x]),
                _ => s.valu(Opcode::VBfeU32, to, &[x, k, Operand::Imm(i64::from(bits - by))]),
            }
            Ok(())
        })
    }

    fn scalar_shift(&mut self, dst: LVal, op: BinOp, x: Operand, y: Operand, bits: u32) {
        let y = self.scalar_unsigned(y, bits);
        let t = match op {
            BinOp::ShrS => {
                let by = self.s_of(Opcode::SMinU32, &[y, 31.into()]);
                self.s_of(Opcode::SAshrI32, &[x, by.into()])
            }
            _ => {
                let (x, code) = match op {
                    BinOp::Shl => (x, Opcode::SLshlB32),
                    _ => (self.scalar_unsigned(x, bits), Opcode::SLshrB32),
                };
                let t = self.s_of(code, &[x, y]);
                self.salu(Opcode::SCmpLtU32, None, &[y, 32.into()]);
                self.s_of(Opcode::SCselectB32, &[t.into(), 0.into()])
            }
        };
        self.extend_scalar(dst, t.into(), bits);
    }

    fn vector_shift(&mut self, to: Span, op: BinOp, x: Operand, y: Operand, bits: u32) {
        let y = self.unsigned(y, bits);
        if op == BinOp::ShrS {
            let by = self.v_of(Opcode::VMinU32, &[31.into(), y]);
            return self.valu(Opcode::VAshrrevI32, to, &[by.into(), x]);
        }
        let (x, code) = match op {
            BinOp::Shl => (x, Opcode::VLshlrevB32),
            _ => (self.unsigned(x, bits), Opcode::VLshrrevB32),
        };
        if bits < 32 {
            // Amounts from the type's bits to 31 leave nothing of it.
            let by = self.v_of(Opcode::VMinU32, &[31.into(), y]);
            let t = self.v_of(code, &[by.into(), x]);
            return self.extend_vector(to, t.into(), bits);
        }
        let t = self.v_of(code, &[y, x]);
        let few = self.mask_of(Opcode::VCmpGtU32, &[32.into(), y]);
        self.pick(to, few, t.into(), 0.into());
    }

    /// The quotient, or the rest, of unsigned numbers; 0, or the dividend, by zero.
    ///
    /// The reciprocal in `f32` has 22 good bits; one step with integers makes it good to a few units of 2^-32, so that the quotient is short
    /// by 2 at most.
    pub(super) fn divide_u32(&mut self, to: Span, x: Operand, y: Operand, rest: bool) {
        let y = Operand::Reg(self.in_vector(y, 1));
        let x = Operand::Reg(self.in_vector(x, 1));
        let f = self.v_of(Opcode::VCvtF32U32, &[y]);
        let r = self.v_of(Opcode::VRcpIflagF32, &[f.into()]);
        // 2^32, less enough that the product is never too large.
        let r = self.v_of(Opcode::VMulF32, &[f32_imm(f32::from_bits(0x4f7f_fffe)), r.into()]);
        let r = self.v_of(Opcode::VCvtU32F32, &[r.into()]);
        let minus = self.v_of(Opcode::VSubU32, &[0.into(), y]);
        let error = self.v_of(Opcode::VMulLoU32, &[minus.into(), r.into()]);
        let more = self.v_of(Opcode::VMulHiU32, &[r.into(), error.into()]);
        let r = self.v_of(Opcode::VAddU32, &[r.into(), more.into()]);
        let mut quotient = self.v_of(Opcode::VMulHiU32, &[x, r.into()]);
        let product = self.v_of(Opcode::VMulLoU32, &[quotient.into(), y]);
        let mut left = self.v_of(Opcode::VSubU32, &[x, product.into()]);
        for _ in 0..2 {
            let again = self.mask_of(Opcode::VCmpGeU32, &[left.into(), y]);
            let less = self.v_of(Opcode::VSubU32, &[left.into(), y]);
            let next = self.v();
            self.pick(next, again, less.into(), left.into());
            left = next;
            if !rest {
                let one = self.v_of(Opcode::VAddU32, &[1.into(), quotient.into()]);
                let next = self.v();
                self.pick(next, again, one.into(), quotient.into());
                quotient = next;
            }
        }
        let zero = self.mask_of(Opcode::VCmpEqU32, &[0.into(), y]);
        if rest {
            self.pick(to, zero, x, left.into());
        } else {
            self.pick(to, zero, 0.into(), quotient.into());
        }
    }

    /// The quotient, or the rest, of signed numbers, truncated; 0, or the dividend, by zero.
    fn divide_i32(&mut self, to: Span, x: Operand, y: Operand, rest: bool) {
        let x = Operand::Reg(self.in_vector(x, 1));
        let y = Operand::Reg(self.in_vector(y, 1));
        let signs = [x, y].map(|o| self.v_of(Opcode::VAshrrevI32, &[31.into(), o]));
        let mut sizes = [x, y];
        for (size, sign) in sizes.iter_mut().zip(signs) {
            let flipped = self.v_of(Opcode::VXorB32, &[*size, sign.into()]);
            *size = self.v_of(Opcode::VSubU32, &[flipped.into(), sign.into()]).into();
        }
        let t = self.v();
        self.divide_u32(t, sizes[0], sizes[1], rest);
        let sign = if rest { signs[0] } else { self.v_of(Opcode::VXorB32, &[signs[0].into(), signs[1].into()]) };
        let flipped = self.v_of(Opcode::VXorB32, &[t.into(), sign.into()]);
        self.valu(Opcode::VSubU32, to, &[flipped.into(), sign.into()]);
    }
}
