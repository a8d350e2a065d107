//! Rules to lines: the placeholders of [`crate::rules`] filled in.

use super::state::{Emitter, Top};
use super::text::{Opnd, Reg};
use crate::class::Class;
use crate::error::{Computation, EmitError, NoText};
use crate::rules::{self, Key, NoRule, Piece, Slot};
use smallvec::SmallVec;
use tilelift_ir::Scalar;
use tilelift_isel::lane::{Inst, LTy, LVal, Opcode};

/// A 16-bit float type that computes in `f32`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    F16,
    BF16,
}

fn half(ty: LTy) -> Option<Half> {
    match ty {
        LTy::Num(Scalar::F16) => Some(Half::F16),
        LTy::Num(Scalar::BF16) => Some(Half::BF16),
        LTy::Num(Scalar::I1 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 | Scalar::F32 | Scalar::F64) | LTy::B32 => None,
        LTy::Num(
            Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 | Scalar::F4E2M1 | Scalar::I4,
        ) => None,
    }
}

/// A computation: its key, the type that its rules are filed under, and its operands a, b, c in order.
type Parts = (Key, LTy, LVal, [Option<LVal>; 3]);

impl Emitter<'_> {
    /// Prints an instruction that computes one value from up to three.
    pub(super) fn compute(&mut self, inst: &Inst) -> Result<(), EmitError> {
        let Some((key, ty, dst, operands)) = self.parts(inst) else {
            return Err(unsupported(Key::Plain(inst.code()), LTy::B32, NoRule::Results));
        };
        let b = operands[1].and_then(|v| self.defs.constant(v));
        let found = rules::select(key, ty, b);
        let Some((row, k)) = found else {
            let why = rules::refusal(key, ty).unwrap_or(NoRule::Unfiled);
            return Err(unsupported(key, ty, why));
        };
        let d = self.home(dst);
        let mut values = [None; 3];
        for (value, operand) in values.iter_mut().zip(operands) {
            *value = operand.map(|v| self.operand(v));
        }
        if matches!(key, Key::Plain(Opcode::FmaF16x2 | Opcode::FmaBf16x2)) {
            self.keep_factor(&mut values);
        }
        match row.lines() {
            Some(lines) => {
                self.lines(lines, d, values, k);
                Ok(())
            }
            None => self.via_f32(key, ty, d, values),
        }
    }

    /// Of a multiply-add of pairs the assembler takes one constant as an immediate. Of two it moves the factor to a register anew each time, for all
    /// the pairs that a tile has, unless it does not know that it is a constant.
    fn keep_factor(&mut self, values: &mut [Option<Opnd>; 3]) {
        let [factors @ .., Some(Opnd::Imm(_, addend))] = values else { return };
        let negative_zeros = 0x8000_8000;
        if *addend | negative_zeros == negative_zeros {
            return;
        }
        for factor in factors {
            if let Some(Opnd::Imm(_, bits)) = *factor {
                *factor = Some(Opnd::Reg(self.load(Top::Kept(bits as u32))));
            }
        }
    }

    fn parts(&self, inst: &Inst) -> Option<Parts> {
        let ty = |v: LVal| self.defs.ty(v);
        let &[dst] = inst.results() else { return None };
        let mut operands = [None; 3];
        let mut n = 0;
        inst.operands(|v, _| {
            if let Some(o) = operands.get_mut(n) {
                *o = Some(v);
            }
            n += 1;
        });
        let (key, of) = match *inst {
            Inst::Un { op, .. } => (Key::Un(op), ty(dst)),
            Inst::Bin { op, .. } => (Key::Bin(op), ty(dst)),
            Inst::Cmp { op, a, .. } => (Key::Cmp(op), ty(a)),
            Inst::Cvt { a, .. } => match ty(a) {
                LTy::Num(from) => (Key::Cvt(from), ty(dst)),
                LTy::B32 => (Key::Bits(LTy::B32), ty(dst)),
            },
            Inst::Bitcast { a, .. } => (Key::Bits(ty(a)), ty(dst)),
            _ => (Key::Plain(inst.code()), ty(dst)),
        };
        Some((key, of, dst, operands))
    }

    /// The `f32` rule of the same key between conversions: operands are widened exactly, the result is rounded.
    fn via_f32(&mut self, key: Key, ty: LTy, d: Reg, values: [Option<Opnd>; 3]) -> Result<(), EmitError> {
        let (key, from, to, narrow) = match key {
            Key::Cvt(s) => (Key::Cvt(Scalar::F32), LTy::Num(s), ty, None),
            Key::Cmp(_) => (key, ty, LTy::F32, None),
            Key::Un(_) | Key::Bin(_) | Key::Plain(_) | Key::Bits(_) => (key, ty, LTy::F32, half(ty)),
        };
        let Some(lines) = rules::select(key, to, None).and_then(|(row, _)| row.lines()) else {
            return Err(unsupported(key, ty, NoRule::ViaF32));
        };
        let wide = values.map(|v| v.map(|v| self.widen(from, v)));
        let Some(narrow) = narrow else {
            self.lines(lines, d, wide, 0);
            return Ok(());
        };
        let w = self.fresh(Class::F);
        self.lines(lines, w, wide, 0);
        let op = match narrow {
            Half::F16 => "cvt.rn.f16.f32 ",
            Half::BF16 => "cvt.rn.bf16.f32 ",
        };
        self.body.op(op).r(d).then(w).end();
        Ok(())
    }

    /// Quotients by the reciprocal, a step of Newton's method and a step for the remainder, which is exact: what the assembler makes of
    /// `div.rn`, but without a branch for each. The last bits are right where no step leaves the normal numbers; where the exponent of some
    /// divisor or quotient is not well inside, in any lane, all are divided once more in full.
    ///
    /// ```text
    /// bits + (128 - low) << 23 has bit 30 set   if and only if   the exponent's field is from low to low + 127
    /// divisors: 64 to 191, quotients: 90 to 217, so dividends are at least 2^-100, and their remainders normal
    /// ```
    pub(super) fn divide(&mut self, dsts: &[LVal], a: &[LVal], b: &[LVal]) {
        let pairs: Vec<[Reg; 2]> = a.iter().zip(b).map(|(&a, &b)| [self.reg(a), self.reg(b)]).collect();
        let mut quotients = Vec::with_capacity(pairs.len());
        let mut inside: Option<Reg> = None;
        for &[a, b] in &pairs {
            let [minus, rcp, error, better, rough, rest, q] = [(); 7].map(|()| self.fresh(Class::F));
            self.body.op("neg.f32 ").r(minus).then(b).end();
            self.body.op("rcp.approx.ftz.f32 ").r(rcp).then(b).end();
            self.body.op("fma.rn.f32 ").r(error).then(minus).then(rcp).s(", 0f3F800000").end();
            self.body.op("fma.rn.f32 ").r(better).then(rcp).then(error).then(rcp).end();
            self.body.op("mul.rn.f32 ").r(rough).then(a).then(better).end();
            self.body.op("fma.rn.f32 ").r(rest).then(minus).then(rough).then(a).end();
            self.body.op("fma.rn.f32 ").r(q).then(better).then(rest).then(rough).end();
            for (x, low) in [(b, 64u32), (rough, 90)] {
                let [bits, sum] = [(); 2].map(|()| self.fresh(Class::R));
                self.body.op("mov.b32 ").r(bits).then(x).end();
                self.body.op("add.s32 ").r(sum).then(bits).s(", ").n((128 - low) << 23).end();
                inside = Some(match inside {
                    None => sum,
                    Some(before) => {
                        let both = self.fresh(Class::R);
                        self.body.op("and.b32 ").r(both).then(before).then(sum).end();
                        both
                    }
                });
            }
            quotients.push(q);
        }
        if let Some(inside) = inside {
            let bit = self.fresh(Class::R);
            let [outside, any] = [(); 2].map(|()| self.fresh(Class::P));
            let [all, end] = [(); 2].map(|()| self.label());
            self.body.op("and.b32 ").r(bit).then(inside).s(", ").n(1 << 30).end();
            self.body.op("setp.eq.s32 ").r(outside).then(bit).s(", 0").end();
            self.body.op("vote.sync.any.pred ").r(any).then(outside).s(", 0xFFFFFFFF").end();
            self.branch_if(any, true, all);
            self.place(end);
            // Behind the program, so that what is hardly ever run stands in nobody's way.
            std::mem::swap(&mut self.body, &mut self.rare);
            self.place(all);
            for (&[a, b], &q) in pairs.iter().zip(&quotients) {
                self.body.op("div.rn.f32 ").r(q).then(a).then(b).end();
            }
            self.branch(end);
            std::mem::swap(&mut self.body, &mut self.rare);
        }
        for (&d, &q) in dsts.iter().zip(&quotients) {
            let d = self.home(d);
            self.body.op("mov.f32 ").r(d).then(q).end();
        }
    }

    fn widen(&mut self, from: LTy, v: Opnd) -> Opnd {
        let h = match v {
            Opnd::Reg(r) => r,
            Opnd::Imm(class, bits) => self.load(Top::Const(class, bits)),
        };
        let w = self.fresh(Class::F);
        match half(from) {
            Some(Half::F16) => self.body.op("cvt.f32.f16 ").r(w).then(h).end(),
            Some(Half::BF16) => self.body.op("mov.b32 ").r(w).s(", {0, ").r(h).s("}").end(),
            None => return v,
        }
        Opnd::Reg(w)
    }

    /// Prints lines with their placeholders filled in.
    pub(super) fn lines(&mut self, lines: &[Piece], d: Reg, values: [Option<Opnd>; 3], k: u32) {
        // Scratch registers of this expansion, with the numbers that lines call them by.
        let mut scratch: SmallVec<[(u32, Reg); 4]> = SmallVec::new();
        // Operands that must be registers are loaded first: loading prints into the text in front of the program, not here.
        for piece in lines {
            self.body.chunk(&piece.text, piece.used.into());
            match piece.then {
                Slot::Nothing => {}
                Slot::Result => _ = self.body.r(d),
                Slot::Number => _ = self.body.n(k),
                Slot::Operand(n) => values[usize::from(n)].into_iter().for_each(|v| _ = self.body.o(v)),
                Slot::Register(n) => {
                    let r = values[usize::from(n)].map(|v| match v {
                        Opnd::Imm(class, bits) => self.load(Top::Const(class, bits)),
                        Opnd::Reg(r) => r,
                    });
                    r.into_iter().for_each(|r| _ = self.body.r(r));
                }
                Slot::Scratch(class, number) => {
                    let known = scratch.iter().find(|(n, r)| (*n, r.0) == (number, class)).map(|x| x.1);
                    let r = known.unwrap_or_else(|| {
                        let r = self.fresh(class);
                        scratch.push((number, r));
                        r
                    });
                    self.body.r(r);
                }
            }
        }
    }
}

fn unsupported(key: Key, ty: LTy, why: NoRule) -> EmitError {
    EmitError::Unsupported(NoText::Computation(Computation { key, ty }, why))
}
