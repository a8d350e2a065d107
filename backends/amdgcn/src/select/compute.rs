//! What makes one value of others: rows first, then the templates of what takes several instructions.
//!
//! Integers that are alike in all lanes are computed in scalar registers where those have the operation, else in vector registers, and the
//! first lane's result is taken.

use super::error::{Computation, Reason};
use super::ops::{Numbers, float_bin, int_bin, number_bin};
use super::rows::{Op, row};
use super::selector::{Done, Home, Selector};
use super::uniform::RegisterClass;
use crate::isa::Opcode;
use crate::mir::{File, Operand, Span};
use tilelift_lane::{BinOp, LTy, LVal, Opcode as LaneOpcode, UnOp};

impl Selector<'_> {
    /// Makes a value in vector registers; if it belongs into scalar ones, the first lane's is taken.
    pub(super) fn compute(&mut self, dst: LVal, f: impl FnOnce(&mut Self, Span) -> Done) -> Done {
        if self.uniform.class(dst) == RegisterClass::Scalar {
            let words = self.words(dst);
            let made = self.vs(words);
            f(self, made)?;
            let to = self.def(dst);
            self.first_lane(to, made);
            return Ok(());
        }
        let to = self.def(dst);
        f(self, to)
    }

    /// True if the value belongs into scalar registers.
    pub(super) fn in_scalars(&self, v: LVal) -> bool {
        self.uniform.class(v) == RegisterClass::Scalar
    }

    /// An operation of one operand.
    pub(super) fn un(&mut self, dst: LVal, op: UnOp, a: LVal) -> Done {
        let ty = self.ty(a);
        if ty == LTy::I1 {
            let a = self.op(a);
            let to = self.def(dst);
            self.salu(Opcode::SNotB64, Some(to), &[a]);
            return Ok(());
        }
        if self.code(dst, op, a)? {
            return Ok(());
        }
        if let Some(r) = row(Op::Un(op), ty) {
            let a = self.op(a);
            if let (true, Some(scalar)) = (self.in_scalars(dst), r.scalar) {
                let to = self.def(dst);
                self.salu(scalar, Some(to), &[a]);
                return Ok(());
            }
            return self.compute(dst, |s, to| {
                s.valu(r.vector, to, &[a]);
                Ok(())
            });
        }
        match Numbers::of(ty) {
            Numbers::Int(bits) => self.int_un(dst, op, a, bits),
            Numbers::Wide => self.wide_un(dst, op, a),
            Numbers::Float(s) => self.compute(dst, |sel, to| sel.float_un(to, op, s, a)),
            Numbers::Truth | Numbers::None => Self::refuse(Computation::Un(op), ty, Reason::Type),
        }
    }

    /// An operation of two operands.
    pub(super) fn bin(&mut self, dst: LVal, op: BinOp, a: LVal, b: LVal) -> Done {
        let ty = self.ty(a);
        if ty == LTy::I1 {
            return self.mask_bin(dst, op, a, b);
        }
        if let Some(r) = row(Op::Bin(op), ty) {
            let nothing = |s: &Self, v| s.constant(v) == Some(0) && !matches!(ty, LTy::Num(s) if s.is_float());
            let kept = match op {
                BinOp::Add | BinOp::Or | BinOp::Xor if nothing(self, a) => Some(b),
                BinOp::Add | BinOp::Sub | BinOp::Or | BinOp::Xor if nothing(self, b) => Some(a),
                _ => None,
            };
            if let Some(v) = kept {
                let home = self.settled(v);
                let to = self.def(dst);
                self.copy(to, home, ty);
                return Ok(());
            }
            return self.by_row(dst, r, a, b);
        }
        match Numbers::of(ty) {
            Numbers::Int(bits) => self.int_bin(dst, op, a, b, bits),
            Numbers::Wide => self.wide_bin(dst, op, a, b),
            Numbers::Float(s) => self.compute(dst, |sel, to| sel.float_bin(to, op, s, a, b)),
            Numbers::Truth | Numbers::None => Self::refuse(Computation::Bin(op), ty, Reason::Type),
        }
    }

    fn by_row(&mut self, dst: LVal, r: &super::rows::Row, a: LVal, b: LVal) -> Done {
        let bits = self.ty(a).bits();
        let (a, b) = if r.commutes && self.constant(b).is_some() { (b, a) } else { (a, b) };
        let operands = [self.op(a), self.op(b)];
        if let (true, Some(scalar)) = (self.in_scalars(dst), r.scalar) {
            if r.extend {
                let t = self.s_of(scalar, &operands);
                self.extend_scalar(dst, t.into(), bits);
            } else {
                let to = self.def(dst);
                self.salu(scalar, Some(to), &operands);
            }
            return Ok(());
        }
        self.compute(dst, |s, to| {
            if r.extend {
                let t = s.v_of(r.vector, &operands);
                s.extend_vector(to, t.into(), bits);
            } else {
                s.valu(r.vector, to, &operands);
            }
            Ok(())
        })
    }

    /// Extends the sign of so many bits.
    pub(super) fn extend_vector(&mut self, to: Span, from: Operand, bits: u32) {
        match bits {
            32.. => self.valu(Opcode::VMovB32, to, &[from]),
            _ => self.valu(Opcode::VBfeI32, to, &[from, 0.into(), Operand::Imm(bits.into())]),
        }
    }

    /// Extends the sign of so many bits, in scalar registers.
    pub(super) fn extend_scalar(&mut self, dst: LVal, from: Operand, bits: u32) {
        let to = self.def(dst);
        let op = match bits {
            8 => Opcode::SSextI32I8,
            16 => Opcode::SSextI32I16,
            _ => Opcode::SMovB32,
        };
        self.salu(op, Some(to), &[from]);
    }

    fn mask_bin(&mut self, dst: LVal, op: BinOp, a: LVal, b: LVal) -> Done {
        let op = match op {
            BinOp::And => Opcode::SAndB64,
            BinOp::Or => Opcode::SOrB64,
            BinOp::Xor => Opcode::SXorB64,
            number_bin!() | float_bin!() | int_bin!() => return Self::refuse(Computation::Bin(op), LTy::I1, Reason::Type),
        };
        let operands = [self.op(a), self.op(b)];
        let to = self.def(dst);
        self.salu(op, Some(to), &operands);
        Ok(())
    }

    /// A truth value as a mask in registers.
    pub(super) fn mask(&mut self, v: LVal) -> Span {
        let op = self.op(v);
        self.in_scalar_regs(op, 2)
    }

    /// `c ? a : b` of vector registers; the operands are words.
    pub(super) fn pick(&mut self, to: Span, c: Span, a: Operand, b: Operand) {
        self.valu(Opcode::VCndmaskB32, to, &[b, a, c.into()]);
    }

    /// A choice by a truth value.
    pub(super) fn select(&mut self, dst: LVal, c: LVal, a: LVal, b: LVal) -> Done {
        if let Some(bits) = self.constant(c) {
            let home = self.settled(if bits != 0 { a } else { b });
            let ty = self.ty(dst);
            let to = self.def(dst);
            self.copy(to, home, ty);
            return Ok(());
        }
        if self.ty(dst) == LTy::I1 {
            let [a, b, c] = [a, b, c].map(|v| self.op(v));
            let yes = self.s2_of(Opcode::SAndB64, &[a, c]);
            let c = self.in_scalar_regs(c, 2);
            let no = self.s2_of(Opcode::SAndn2B64, &[b, c.into()]);
            let to = self.def(dst);
            self.salu(Opcode::SOrB64, Some(to), &[yes.into(), no.into()]);
            return Ok(());
        }
        let words = self.words(dst);
        if self.in_scalars(dst) {
            let operands = [self.op(a), self.op(b)];
            let c = self.op(c);
            let operands = operands.map(|o| self.in_scalar(o, words));
            // Literals are loaded before the condition is there.
            let operands = operands.map(|o| match o {
                Operand::Imm(x) if !(-16..=64).contains(&x) => self.scalar_const(x as u64, words).into(),
                o => o,
            });
            self.salu(Opcode::SCmpLgU64, None, &[c, 0.into()]);
            let to = self.def(dst);
            self.salu(if words == 2 { Opcode::SCselectB64 } else { Opcode::SCselectB32 }, Some(to), &operands);
            return Ok(());
        }
        let mask = self.mask(c);
        let parts: Vec<[Operand; 2]> = (0..words).map(|w| [self.word(a, w), self.word(b, w)]).collect();
        let to = self.def(dst);
        for (w, &[a, b]) in parts.iter().enumerate() {
            self.pick(to.part(w as u8, 1), mask, a, b);
        }
        Ok(())
    }

    /// `a * b + c`.
    pub(super) fn fma(&mut self, dst: LVal, a: LVal, b: LVal, c: LVal) -> Done {
        let ty = self.ty(dst);
        match Numbers::of(ty) {
            Numbers::Int(32) => {
                let operands = [self.op(a), self.op(b)];
                let c = self.op(c);
                if self.in_scalars(dst) {
                    let product = self.s_of(Opcode::SMulI32, &operands);
                    let to = self.def(dst);
                    self.salu(Opcode::SAddU32, Some(to), &[product.into(), c]);
                    return Ok(());
                }
                self.compute(dst, |s, to| {
                    let product = s.v_of(Opcode::VMulLoU32, &operands);
                    s.valu(Opcode::VAddU32, to, &[c, product.into()]);
                    Ok(())
                })
            }
            Numbers::Wide => {
                let product = self.wide_product(dst, a, b);
                let c = self.op(c);
                self.wide_sum(dst, product.into(), c)
            }
            Numbers::Float(s) => self.compute(dst, |sel, to| sel.float_fma(to, s, [a, b, c])),
            Numbers::Int(_) | Numbers::Truth | Numbers::None => Self::refuse(Computation::Other(LaneOpcode::Fma), ty, Reason::Type),
        }
    }

    /// The same bits under another type.
    pub(super) fn bitcast(&mut self, dst: LVal, a: LVal) -> Done {
        let (from, to) = (self.ty(a), self.ty(dst));
        if let Some(bits) = self.constant(a) {
            self.is(dst, Home::Const(super::selector::extended(bits & (u64::MAX >> (64 - from.bits())), to)));
            return Ok(());
        }
        if from == LTy::I1 || to == LTy::I1 {
            return self.convert(dst, a);
        }
        if super::live::same_bits(from, to) {
            return self.shared(dst, a);
        }
        // What is left becomes an integer of 8 or 16 bits.
        let bits = to.bits();
        let a = self.op(a);
        if self.in_scalars(dst) {
            let a = self.in_scalar(a, 1);
            self.extend_scalar(dst, a, bits);
            return Ok(());
        }
        self.compute(dst, |s, to| {
            s.extend_vector(to, a, bits);
            Ok(())
        })
    }

    /// The value has the registers of another one, as `live` has foreseen it, unless it belongs into others.
    pub(super) fn shared(&mut self, dst: LVal, a: LVal) -> Done {
        let words = self.words(dst);
        let home = match self.settled(a) {
            Home::Reg(span) => Home::Reg(span.part(0, words)),
            home => home,
        };
        let in_vector = matches!(home, Home::Reg(span) if self.file(span) == File::Vector);
        if self.in_scalars(dst) && in_vector {
            let Home::Reg(span) = home else { return Ok(()) };
            let to = self.def(dst);
            self.first_lane(to, span);
            return Ok(());
        }
        self.is(dst, home);
        Ok(())
    }
}
