//! Integer, logic, move and select instructions.

use super::instr::Ix;
use super::names::{Found, Res};
use crate::program::op::{IntOp, Op, PrmtMode};
use crate::program::operand::Reg;
use crate::text::ast::OperandKind;
use crate::types::{BoolOp, Cmp, Ty};
use smallvec::SmallVec;

impl Ix<'_, '_> {
    /// Decodes `name` if it belongs here. Names shared with floating point (`add`, `min`, ...) are
    /// taken only when the type is an integer.
    pub(super) fn int_op(&mut self, name: &str) -> Res<Option<Op>> {
        let float = self.mods.iter().any(|m| Ty::parse(m.0).is_some_and(Ty::is_float));
        let pred = self.mods.iter().any(|m| m.0 == "pred");
        Ok(Some(match name {
            "mov" => self.mov()?,
            "add" | "sub" | "mul" | "mad" | "div" | "rem" | "min" | "max" | "abs" | "neg" if !float => self.arith(name)?,
            "mul24" | "mad24" => {
                self.need("lo")?;
                let ty = self.int_type(&[Ty::U32, Ty::S32])?;
                if name == "mul24" { self.bin(IntOp::Mul24Lo, ty)? } else { self.tri(IntOp::Mad24Lo, ty)? }
            }
            "and" | "or" | "xor" if pred => {
                self.need("pred")?;
                self.n_ops(3, 3)?;
                let op = match BoolOp::parse(name) {
                    Some(op) => op,
                    None => return self.err("a logic operation is expected"),
                };
                Op::LogicP { op, d: self.pred_dst(0)?, a: self.pred_src(1)?, b: self.pred_src(2)? }
            }
            "not" if pred => {
                self.need("pred")?;
                self.n_ops(2, 2)?;
                let mut s = self.pred_src(1)?;
                s.neg = !s.neg;
                Op::MovP { d: self.pred_dst(0)?, s }
            }
            "and" | "or" | "xor" => {
                let ty = self.int_type(&[Ty::B16, Ty::B32, Ty::B64])?;
                let op = match name {
                    "and" => IntOp::And,
                    "or" => IntOp::Or,
                    _ => IntOp::Xor,
                };
                self.bin(op, ty)?
            }
            "not" | "cnot" => {
                let ty = self.int_type(&[Ty::B16, Ty::B32, Ty::B64])?;
                self.un(if name == "not" { IntOp::Not } else { IntOp::Cnot }, ty, ty)?
            }
            "shl" | "shr" => {
                let ty = self.ty()?;
                let ok = matches!(ty, Ty::B16 | Ty::B32 | Ty::B64) || (name == "shr" && ty.is_int() && ty.bits() > 8);
                if !ok {
                    return self.err(format!("`{name}.{}` does not exist", ty.name()));
                }
                self.n_ops(3, 3)?;
                let (d, a, b) = (self.dst(0, ty)?, self.src(1, ty)?, self.src(2, Ty::U32)?);
                Op::Int { op: if name == "shl" { IntOp::Shl } else { IntOp::Shr }, ty, d, a, b, c: b }
            }
            "shf" => {
                let left = self.has("l");
                if !left {
                    self.need("r")?;
                }
                let wrap = self.has("wrap");
                if !wrap {
                    self.need("clamp")?;
                }
                self.need("b32")?;
                self.n_ops(4, 4)?;
                let d = self.dst(0, Ty::B32)?;
                let (a, b, c) = (self.src(1, Ty::B32)?, self.src(2, Ty::B32)?, self.src(3, Ty::U32)?);
                Op::Shf { left, wrap, d, a, b, c }
            }
            "popc" | "clz" => {
                let ty = self.int_type(&[Ty::B32, Ty::B64])?;
                self.un(if name == "popc" { IntOp::Popc } else { IntOp::Clz }, ty, Ty::U32)?
            }
            "brev" => {
                let ty = self.int_type(&[Ty::B32, Ty::B64])?;
                self.un(IntOp::Brev, ty, ty)?
            }
            "bfind" => {
                let shift = self.has("shiftamt");
                let ty = self.int_type(&[Ty::U32, Ty::U64, Ty::S32, Ty::S64])?;
                self.un(if shift { IntOp::BfindShift } else { IntOp::Bfind }, ty, Ty::U32)?
            }
            "bfe" => {
                let ty = self.int_type(&[Ty::U32, Ty::U64, Ty::S32, Ty::S64])?;
                self.n_ops(4, 4)?;
                let (d, a) = (self.dst(0, ty)?, self.src(1, ty)?);
                Op::Int { op: IntOp::Bfe, ty, d, a, b: self.src(2, Ty::U32)?, c: self.src(3, Ty::U32)? }
            }
            "bfi" => {
                let ty = self.int_type(&[Ty::B32, Ty::B64])?;
                self.n_ops(5, 5)?;
                let (d, a, b) = (self.dst(0, ty)?, self.src(1, ty)?, self.src(2, ty)?);
                let (pos, len) = (self.src(3, Ty::U32)?, self.src(4, Ty::U32)?);
                Op::Bfi { wide: ty.bits() == 64, d, a, b, pos, len }
            }
            "sad" => {
                let ty = self.ty()?;
                if !ty.is_int() || ty.bits() < 16 {
                    return self.err("`sad` takes an integer type");
                }
                self.tri(IntOp::Sad, ty)?
            }
            "dp4a" => {
                let (ta, tb) = (self.int_type(&[Ty::U32, Ty::S32])?, self.int_type(&[Ty::U32, Ty::S32])?);
                self.n_ops(4, 4)?;
                let op = match (ta, tb) {
                    (Ty::S32, Ty::S32) => IntOp::Dp4aSS,
                    (Ty::S32, _) => IntOp::Dp4aSU,
                    (_, Ty::S32) => IntOp::Dp4aUS,
                    _ => IntOp::Dp4aUU,
                };
                let d = self.dst(0, Ty::B32)?;
                Op::Int { op, ty: Ty::S32, d, a: self.src(1, Ty::B32)?, b: self.src(2, Ty::B32)?, c: self.src(3, Ty::B32)? }
            }
            "lop3" => {
                self.need("b32")?;
                self.n_ops(5, 5)?;
                let lut = match self.operand(4)?.kind {
                    OperandKind::Int(v) if (0..256).contains(&v) => v as u8,
                    _ => return self.err_op(4, "the truth table is a constant from 0 to 255"),
                };
                let d = self.dst(0, Ty::B32)?;
                Op::Lop3 { lut, d, a: self.src(1, Ty::B32)?, b: self.src(2, Ty::B32)?, c: self.src(3, Ty::B32)? }
            }
            "prmt" => {
                self.need("b32")?;
                let mode = self.take(prmt_mode).unwrap_or(PrmtMode::Generic);
                self.n_ops(4, 4)?;
                let d = self.dst(0, Ty::B32)?;
                Op::Prmt { mode, d, a: self.src(1, Ty::B32)?, b: self.src(2, Ty::B32)?, c: self.src(3, Ty::B32)? }
            }
            "setp" => self.setp()?,
            "set" => {
                let cmp = self.cmp()?;
                let bool_op = self.take(BoolOp::parse);
                let ftz = self.has("ftz");
                let (to, ty) = (self.ty()?, self.ty()?);
                if !matches!(to, Ty::U32 | Ty::S32 | Ty::F32) {
                    return self.err("`set` gives .u32, .s32 or .f32");
                }
                self.check_cmp(cmp, ty)?;
                self.n_ops(3 + usize::from(bool_op.is_some()), 3 + usize::from(bool_op.is_some()))?;
                let comb = match bool_op {
                    Some(b) => Some((b, self.pred_src(3)?)),
                    None => None,
                };
                Op::Set { cmp, to, ty, ftz, d: self.dst(0, to)?, a: self.src(1, ty)?, b: self.src(2, ty)?, comb }
            }
            "selp" => {
                let ty = self.ty()?;
                if ty.bits() < 16 || ty.bits() > 64 || (ty.is_float() && !matches!(ty, Ty::F32 | Ty::F64)) {
                    return self.err(format!("`selp.{}` does not exist", ty.name()));
                }
                self.n_ops(4, 4)?;
                Op::Selp { d: self.dst(0, ty)?, a: self.src(1, ty)?, b: self.src(2, ty)?, p: self.pred_src(3)? }
            }
            "slct" => {
                let (ty, ct) = (self.ty()?, self.ty()?);
                if !matches!(ct, Ty::S32 | Ty::F32) {
                    return self.err("the selector of `slct` is .s32 or .f32");
                }
                self.n_ops(4, 4)?;
                let d = self.dst(0, ty)?;
                Op::Slct { d, a: self.src(1, ty)?, b: self.src(2, ty)?, c: self.src(3, ct)?, ty: ct }
            }
            _ => return Ok(None),
        }))
    }

    fn int_type(&mut self, allowed: &[Ty]) -> Res<Ty> {
        let ty = self.ty()?;
        if allowed.contains(&ty) {
            return Ok(ty);
        }
        self.err(format!("`{}.{}` does not exist", self.ins.opcode, ty.name()))
    }

    fn un(&mut self, op: IntOp, ty: Ty, to: Ty) -> Res<Op> {
        self.n_ops(2, 2)?;
        let (d, a) = (self.dst(0, to)?, self.src(1, ty)?);
        Ok(Op::Int { op, ty, d, a, b: a, c: a })
    }

    fn bin(&mut self, op: IntOp, ty: Ty) -> Res<Op> {
        self.n_ops(3, 3)?;
        let (d, a, b) = (self.dst(0, ty)?, self.src(1, ty)?, self.src(2, ty)?);
        Ok(Op::Int { op, ty, d, a, b, c: b })
    }

    fn tri(&mut self, op: IntOp, ty: Ty) -> Res<Op> {
        self.n_ops(4, 4)?;
        let (d, a, b, c) = (self.dst(0, ty)?, self.src(1, ty)?, self.src(2, ty)?, self.src(3, ty)?);
        Ok(Op::Int { op, ty, d, a, b, c })
    }

    fn arith(&mut self, name: &str) -> Res<Op> {
        let (lo, hi, wide, sat) = (self.has("lo"), self.has("hi"), self.has("wide"), self.has("sat"));
        let ty = self.ty()?;
        if !ty.is_int() || ty.bits() < 16 {
            return self.err(format!("`{name}.{}` does not exist", ty.name()));
        }
        if sat && ty != Ty::S32 {
            return self.err("`.sat` exists for .s32 only");
        }
        let mul = matches!(name, "mul" | "mad");
        if mul && [lo, hi, wide].iter().filter(|&&x| x).count() != 1 {
            return self.err("integer multiplication needs one of .lo, .hi, .wide");
        }
        if !mul && (lo || hi || wide) {
            return self.err(format!("`{name}` takes no .lo, .hi or .wide"));
        }
        if sat && mul {
            return self.err("`.sat` on mad is not modelled");
        }
        if wide {
            let to = match ty {
                Ty::U16 => Ty::U32,
                Ty::S16 => Ty::S32,
                Ty::U32 => Ty::U64,
                Ty::S32 => Ty::S64,
                _ => return self.err("`.wide` needs a 16-bit or 32-bit type"),
            };
            self.n_ops(3 + usize::from(name == "mad"), 3 + usize::from(name == "mad"))?;
            let (d, a, b) = (self.dst(0, to)?, self.src(1, ty)?, self.src(2, ty)?);
            return Ok(if name == "mul" {
                Op::Int { op: IntOp::MulWide, ty, d, a, b, c: b }
            } else {
                Op::Int { op: IntOp::MadWide, ty, d, a, b, c: self.src(3, to)? }
            });
        }
        match (name, sat, hi) {
            ("add", true, _) => self.bin(IntOp::AddSat, ty),
            ("sub", true, _) => self.bin(IntOp::SubSat, ty),
            (_, true, _) => self.err(format!("`{name}.sat` does not exist")),
            ("add", ..) => self.bin(IntOp::Add, ty),
            ("sub", ..) => self.bin(IntOp::Sub, ty),
            ("mul", _, false) => self.bin(IntOp::MulLo, ty),
            ("mul", _, true) => self.bin(IntOp::MulHi, ty),
            ("mad", _, false) => self.tri(IntOp::MadLo, ty),
            ("mad", _, true) => self.tri(IntOp::MadHi, ty),
            ("div", ..) => self.bin(IntOp::Div, ty),
            ("rem", ..) => self.bin(IntOp::Rem, ty),
            ("min", ..) => self.bin(IntOp::Min, ty),
            ("max", ..) => self.bin(IntOp::Max, ty),
            ("abs" | "neg", ..) if !ty.is_signed() => self.err(format!("`{name}` needs a signed type")),
            ("abs", ..) => self.un(IntOp::Abs, ty, ty),
            ("neg", ..) => self.un(IntOp::Neg, ty, ty),
            _ => self.err(format!("`{name}` is not modelled")),
        }
    }

    fn mov(&mut self) -> Res<Op> {
        let ty = self.ty()?;
        self.n_ops(2, 2)?;
        if ty == Ty::Pred {
            return Ok(Op::MovP { d: self.pred_dst(0)?, s: self.pred_src(1)? });
        }
        let (dst, src) = (self.operand(0)?, self.operand(1)?);
        if let OperandKind::Vec(v) = &src.kind {
            let bits = self.part_bits(ty, v.len(), 1)?;
            let part = untyped(bits);
            let parts = v.iter().map(|o| self.value(o, part, false)).collect::<Res<SmallVec<[Reg; 4]>>>()?;
            return Ok(Op::Pack { d: self.dst(0, ty)?, parts, bits });
        }
        if let OperandKind::Vec(v) = &dst.kind {
            let bits = self.part_bits(ty, v.len(), 0)?;
            let part = untyped(bits);
            let s = self.src(1, ty)?;
            let mut parts = SmallVec::new();
            for o in v {
                parts.push(match o.kind {
                    OperandKind::Sink => None,
                    _ => Some(self.dest(o, part, false)?),
                });
            }
            return Ok(Op::Unpack { parts, s, bits });
        }
        if ty.bits() < 16 || ty.bits() > 64 || (ty.is_float() && !matches!(ty, Ty::F32 | Ty::F64)) {
            return self.err(format!("`mov.{}` does not exist", ty.name()));
        }
        let d = self.dst(0, ty)?;
        // ptxas takes a generic-looking symbol too; only shared and global symbols have an address here.
        if let OperandKind::Name(n) = &src.kind
            && let Some(Found::Label(_)) = self.d.find(n)
        {
            return self.err_op(1, "the address of a label is not modelled");
        }
        Ok(Op::Mov { d, s: self.src(1, ty)? })
    }

    fn part_bits(&self, ty: Ty, n: usize, i: usize) -> Res<u32> {
        let ok = ty.is_bits() && matches!((ty.bits(), n), (16, 2) | (32, 2) | (32, 4) | (64, 2) | (64, 4));
        if !ok {
            return self.err_op(i, format!("`mov.{}` with {n} parts is not modelled", ty.name()));
        }
        Ok(ty.bits() / n as u32)
    }

    pub(super) fn cmp(&mut self) -> Res<Cmp> {
        match self.take(Cmp::parse) {
            Some(c) => Ok(c),
            None => self.err("a comparison (.eq, .lt, ...) is required"),
        }
    }

    pub(super) fn check_cmp(&self, cmp: Cmp, ty: Ty) -> Res<()> {
        let eq = matches!(cmp, Cmp::Eq | Cmp::Ne);
        let ordered = eq || matches!(cmp, Cmp::Lt | Cmp::Le | Cmp::Gt | Cmp::Ge);
        let ok = match ty {
            Ty::Pred | Ty::Tf32 | Ty::B128 | Ty::B8 | Ty::U8 | Ty::S8 => false,
            Ty::B16 | Ty::B32 | Ty::B64 => eq,
            Ty::U16 | Ty::U32 | Ty::U64 | Ty::S16 | Ty::S32 | Ty::S64 => ordered,
            Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 | Ty::F32 | Ty::F64 => true,
        };
        if ok { Ok(()) } else { self.err(format!("this comparison does not exist for .{}", ty.name())) }
    }

    fn setp(&mut self) -> Res<Op> {
        let cmp = self.cmp()?;
        let bool_op = self.take(BoolOp::parse);
        let ftz = self.has("ftz");
        let ty = self.ty()?;
        self.check_cmp(cmp, ty)?;
        let n = 3 + usize::from(bool_op.is_some());
        self.n_ops(n, n)?;
        let (d, q) = self.pred_pair(0)?;
        let (a, b) = (self.src(1, ty)?, self.src(2, ty)?);
        let comb = match bool_op {
            Some(x) => Some((x, self.pred_src(3)?)),
            None => None,
        };
        Ok(if matches!(ty, Ty::F16x2 | Ty::Bf16x2) {
            let ty = if ty == Ty::F16x2 { Ty::F16 } else { Ty::Bf16 };
            Op::Setp2 { cmp, ty, ftz, d, q, a, b, comb }
        } else {
            Op::Setp { cmp, ty, ftz, d, q, a, b, comb }
        })
    }
}

fn untyped(bits: u32) -> Ty {
    match bits {
        8 => Ty::B8,
        16 => Ty::B16,
        _ => Ty::B32,
    }
}

fn prmt_mode(m: &str) -> Option<PrmtMode> {
    Some(match m {
        "f4e" => PrmtMode::F4e,
        "b4e" => PrmtMode::B4e,
        "rc8" => PrmtMode::Rc8,
        "ecl" => PrmtMode::Ecl,
        "ecr" => PrmtMode::Ecr,
        "rc16" => PrmtMode::Rc16,
        _ => return None,
    })
}
