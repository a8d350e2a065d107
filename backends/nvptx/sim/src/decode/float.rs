//! Floating-point arithmetic and conversions.

use super::instr::Ix;
use super::names::Res;
use crate::program::op::{Cvt, FMode, FltOp, Op, Testp};
use crate::program::operand::MmaTy;
use crate::types::{Round, Ty};

impl Ix<'_, '_> {
    /// Decodes `name` if it belongs here.
    pub(super) fn float_op(&mut self, name: &str) -> Res<Option<Op>> {
        Ok(Some(match name {
            "add" => self.flt(FltOp::Add, 2)?,
            "sub" => self.flt(FltOp::Sub, 2)?,
            "mul" => self.flt(FltOp::Mul, 2)?,
            "fma" | "mad" => self.flt(FltOp::Fma, 3)?,
            "div" => self.flt(FltOp::Div, 2)?,
            "abs" => self.flt(FltOp::Abs, 1)?,
            "neg" => self.flt(FltOp::Neg, 1)?,
            "min" => self.flt(FltOp::Min, 2)?,
            "max" => self.flt(FltOp::Max, 2)?,
            "rcp" => self.flt(FltOp::Rcp, 1)?,
            "sqrt" => self.flt(FltOp::Sqrt, 1)?,
            "rsqrt" => self.flt(FltOp::Rsqrt, 1)?,
            "sin" => self.flt(FltOp::Sin, 1)?,
            "cos" => self.flt(FltOp::Cos, 1)?,
            "ex2" => self.flt(FltOp::Ex2, 1)?,
            "lg2" => self.flt(FltOp::Lg2, 1)?,
            "tanh" => self.flt(FltOp::Tanh, 1)?,
            "copysign" => self.flt(FltOp::Copysign, 2)?,
            "testp" => {
                let what = match self.take(testp) {
                    Some(w) => w,
                    None => return self.err("a property (.finite, .number, ...) is required"),
                };
                let ty = self.ty()?;
                if !matches!(ty, Ty::F32 | Ty::F64) {
                    return self.err("`testp` takes .f32 or .f64");
                }
                self.n_ops(2, 2)?;
                Op::Testp { what, ty, d: self.pred_dst(0)?, a: self.src(1, ty)? }
            }
            "cvt" => self.cvt()?,
            _ => return Ok(None),
        }))
    }

    fn round(&mut self) -> Option<Round> {
        self.take(|m| match m {
            "rn" => Some(Round::Rn),
            "rz" => Some(Round::Rz),
            "rm" => Some(Round::Rm),
            "rp" => Some(Round::Rp),
            _ => None,
        })
    }

    fn flt(&mut self, op: FltOp, arity: usize) -> Res<Op> {
        let approx = self.has("approx");
        let full = self.has("full");
        let given = self.round();
        let nan = self.has("NaN");
        let m = FMode { round: given.unwrap_or(Round::Rn), ftz: self.has("ftz"), sat: self.has("sat"), relu: self.has("relu") };
        let ty = self.ty()?;
        use FltOp as F;
        use Ty::{Bf16, Bf16x2, F16, F16x2, F32, F64};
        let half = matches!(ty, F16 | F16x2 | Bf16 | Bf16x2);
        if !half && !matches!(ty, F32 | F64) {
            return self.err(format!("`{}.{}` does not exist", self.ins.opcode, ty.name()));
        }
        let directed = m.round != Round::Rn;
        // Which forms exist (PTX ISA chapters 9.7.3 and 9.7.4).
        let ok = match op {
            F::Add | F::Sub | F::Mul => !approx && !full && !nan && !m.relu,
            F::Fma => !approx && !full && !nan && given.is_some() && (!m.relu || half),
            F::Div => !half && !nan && !m.sat && !m.relu && (approx || full || given.is_some()),
            F::Rcp | F::Sqrt => !half && !nan && !m.sat && !m.relu && (approx != given.is_some()) && !full,
            F::Rsqrt => !half && approx && given.is_none(),
            F::Sin | F::Cos | F::Lg2 => ty == F32 && approx && given.is_none(),
            F::Ex2 | F::Tanh => ty != F64 && approx && given.is_none(),
            F::Abs | F::Neg => given.is_none() && !approx && !full && !nan && !m.sat && !m.relu,
            F::Min | F::Max => given.is_none() && !approx && !full && !m.sat && !m.relu && (!nan || ty != F64),
            F::Copysign => !half && given.is_none() && !approx && !m.ftz,
            F::MinNan | F::MaxNan => false,
        };
        // f64 approximations: rcp with .ftz, and rsqrt.
        let ok = ok && !(ty == F64 && approx && !(op == F::Rsqrt || (op == F::Rcp && m.ftz)));
        let ok = ok && !(ty == F64 && full);
        let ok = ok && !(half && directed) && !(ty == F64 && (m.sat || m.ftz && !matches!(op, F::Rcp | F::Rsqrt)));
        if !ok {
            return self.err("this combination of modifiers does not exist");
        }
        let modelled = !directed || (ty == F32 && matches!(op, F::Add | F::Sub | F::Mul | F::Fma));
        if !modelled {
            return self.err("this rounding mode is not modelled for this operation");
        }
        let op = match (op, nan) {
            (F::Min, true) => F::MinNan,
            (F::Max, true) => F::MaxNan,
            (o, _) => o,
        };
        self.n_ops(arity + 1, arity + 1)?;
        let d = self.dst(0, ty)?;
        let a = self.src(1, ty)?;
        let b = if arity > 1 { self.src(2, ty)? } else { a };
        let c = if arity > 2 { self.src(3, ty)? } else { b };
        Ok(Op::Flt { op, ty, m, d, a, b, c })
    }

    fn cvt(&mut self) -> Res<Op> {
        let mut integral = false;
        let round = self.take(|m| {
            Some(match m {
                "rn" => (Round::Rn, false),
                "rz" => (Round::Rz, false),
                "rm" => (Round::Rm, false),
                "rp" => (Round::Rp, false),
                "rna" => (Round::Rna, false),
                "rni" => (Round::Rn, true),
                "rzi" => (Round::Rz, true),
                "rmi" => (Round::Rm, true),
                "rpi" => (Round::Rp, true),
                _ => return None,
            })
        });
        if let Some((_, i)) = round {
            integral = i;
        }
        let codes = self.take(|m| match m {
            "e4m3x2" => Some(MmaTy::E4m3),
            "e5m2x2" => Some(MmaTy::E5m2),
            _ => None,
        });
        if let Some(ty) = codes {
            if !matches!(round, Some((Round::Rn, false))) {
                return self.err("conversions of 8-bit floats need .rn");
            }
            let satfinite = self.has("satfinite");
            return match self.ty()? {
                Ty::F32 if satfinite => {
                    self.n_ops(3, 3)?;
                    Ok(Op::CvtToCodes { ty, d: self.dst(0, Ty::B16)?, hi: self.src(1, Ty::F32)?, lo: self.src(2, Ty::F32)? })
                }
                Ty::F32 => self.err("`.satfinite` is required"),
                Ty::F16x2 if !satfinite => {
                    self.n_ops(2, 2)?;
                    Ok(Op::CvtFromCodes { ty, d: self.dst(0, Ty::B32)?, s: self.src(1, Ty::B16)? })
                }
                _ => self.err("this conversion of 8-bit floats is not modelled"),
            };
        }
        let (ftz, sat, relu) = (self.has("ftz"), self.has("sat"), self.has("relu"));
        let (to, from) = (self.ty()?, self.ty()?);
        if matches!(to, Ty::F16x2 | Ty::Bf16x2) {
            if from != Ty::F32 {
                return self.err("packed conversions take .f32 sources");
            }
            let r = match round {
                Some((r @ (Round::Rn | Round::Rz), false)) => r,
                _ => return self.err("packed conversions need .rn or .rz"),
            };
            if sat || ftz {
                return self.err("packed conversions take neither .sat nor .ftz");
            }
            self.n_ops(3, 3)?;
            return Ok(Op::CvtPack { to, round: r, relu, d: self.dst(0, to)?, hi: self.src(1, from)?, lo: self.src(2, from)? });
        }
        for t in [to, from] {
            if t.is_bits() || matches!(t, Ty::Pred | Ty::F16x2 | Ty::Bf16x2) || (t == Ty::Tf32 && t == from) {
                return self.err(format!("`cvt` does not take .{} here", t.name()));
            }
        }
        if to == Ty::Tf32 {
            if from != Ty::F32 || !matches!(round, Some((Round::Rna | Round::Rn | Round::Rz, false))) || sat || ftz {
                return self.err("only cvt.rna/rn/rz.tf32.f32 exist");
            }
        } else if matches!(round, Some((Round::Rna, _))) {
            return self.err("`.rna` exists for .tf32 only");
        }
        match (to.is_float(), from.is_float()) {
            (true, true) => {
                let narrows =
                    to.bits() < from.bits() || matches!((to, from), (Ty::F16, Ty::Bf16) | (Ty::Bf16, Ty::F16) | (Ty::Tf32, Ty::F32));
                if narrows && (round.is_none() || integral) {
                    return self.err("a narrowing conversion needs .rn, .rz, .rm or .rp");
                }
                if !narrows && matches!(round, Some((_, false))) {
                    return self.err("a rounding mode is not allowed where nothing is rounded");
                }
            }
            (true, false) => {
                if round.is_none() || integral {
                    return self.err("integer to float needs .rn, .rz, .rm or .rp");
                }
            }
            (false, true) => {
                if !integral {
                    return self.err("float to integer needs .rni, .rzi, .rmi or .rpi");
                }
            }
            (false, false) => {
                if round.is_some() || ftz {
                    return self.err("integer conversions take neither rounding nor .ftz");
                }
            }
        }
        if relu && !matches!(to, Ty::F16 | Ty::Bf16) {
            return self.err("`.relu` exists for .f16 and .bf16 only");
        }
        if ftz && to != Ty::F32 && from != Ty::F32 {
            return self.err("`.ftz` needs an .f32 operand");
        }
        self.n_ops(2, 2)?;
        // tf32 lives in .b32 registers.
        let dt = if to == Ty::Tf32 { Ty::B32 } else { to };
        let d = self.dst_wide(0, dt)?;
        let s = self.src_wide(1, from)?;
        let round = round.map_or(Round::Rn, |r| r.0);
        Ok(Op::Cvt(Cvt { to, from, round, integral, ftz, sat, relu, d, s }))
    }
}

fn testp(m: &str) -> Option<Testp> {
    Some(match m {
        "finite" => Testp::Finite,
        "infinite" => Testp::Infinite,
        "number" => Testp::Number,
        "notanumber" => Testp::NotANumber,
        "normal" => Testp::Normal,
        "subnormal" => Testp::Subnormal,
        _ => return None,
    })
}
