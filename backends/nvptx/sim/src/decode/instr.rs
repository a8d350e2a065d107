//! One instruction: its modifiers and operands, taken one by one.

use crate::decode::names::{Any, Decoder, Found, Res};
use crate::program::op::Fill;
use crate::program::operand::{Addr, PSrc, Pred, Reg};
use crate::text::ast::{Instr, Operand, OperandKind, Span};
use crate::types::{Space, Ty};
use smallvec::SmallVec;

/// Decoding context of one instruction.
pub(super) struct Ix<'d, 'a> {
    pub(super) d: &'d mut Decoder<'a>,
    pub(super) ins: &'a Instr,
    /// Modifiers not consumed yet.
    pub(super) mods: SmallVec<[(&'a str, Span); 8]>,
}

impl<'a> Ix<'_, 'a> {
    pub(super) fn err<T>(&self, m: impl Into<String>) -> Res<T> {
        self.d.err(self.ins.span, m)
    }

    pub(super) fn err_op<T>(&self, i: usize, m: impl Into<String>) -> Res<T> {
        let s = self.ins.operands.get(i).map_or(self.ins.span, |o| o.span);
        self.d.err(s, m)
    }

    /// Consumes modifier `m` if present.
    pub(super) fn has(&mut self, m: &str) -> bool {
        match self.mods.iter().position(|x| x.0 == m) {
            Some(i) => {
                self.mods.remove(i);
                true
            }
            None => false,
        }
    }

    /// Consumes the first modifier that `f` recognises.
    pub(super) fn take<T>(&mut self, f: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (i, v) = self.mods.iter().enumerate().find_map(|(i, m)| Some((i, f(m.0)?)))?;
        self.mods.remove(i);
        Some(v)
    }

    pub(super) fn need(&mut self, m: &str) -> Res<()> {
        if self.has(m) { Ok(()) } else { self.err(format!("`.{m}` is required here")) }
    }

    /// Consumes the next type.
    pub(super) fn ty(&mut self) -> Res<Ty> {
        match self.take(Ty::parse) {
            Some(t) => Ok(t),
            None => {
                let at = self.mods.first().map_or(self.ins.span, |m| m.1);
                let what = self.mods.first().map_or(String::new(), |m| format!(", `.{}` is not modelled", m.0));
                self.d.err(at, format!("a type is expected{what}"))
            }
        }
    }

    pub(super) fn no_more_mods(&self) -> Res<()> {
        match self.mods.first() {
            None => Ok(()),
            Some((m, s)) => self.d.err(*s, format!("modifier `.{m}` of `{}` is not modelled", self.ins.opcode)),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.ins.operands.len()
    }

    pub(super) fn n_ops(&self, lo: usize, hi: usize) -> Res<()> {
        if (lo..=hi).contains(&self.count()) {
            return Ok(());
        }
        self.err(format!(
            "`{}` takes {lo}{} operands here, not {}",
            self.ins.opcode,
            if hi > lo { format!(" to {hi}") } else { String::new() },
            self.count()
        ))
    }

    pub(super) fn operand(&self, i: usize) -> Res<&'a Operand> {
        match self.ins.operands.get(i) {
            Some(o) => Ok(o),
            None => self.err(format!("operand {} is missing", i + 1)),
        }
    }

    pub(super) fn bad_type<T>(&self, o: &Operand, name: &str, reg: Ty, want: Ty) -> Res<T> {
        self.d.err(o.span, format!("`{name}` is a .{} register but .{} is needed", reg.name(), want.name()))
    }

    /// A source value of type `ty`.
    pub(super) fn src(&mut self, i: usize, ty: Ty) -> Res<Reg> {
        let o = self.operand(i)?;
        self.value(o, ty, false)
    }

    /// A source whose register may be wider than `ty` (`st`, `cvt`).
    pub(super) fn src_wide(&mut self, i: usize, ty: Ty) -> Res<Reg> {
        let o = self.operand(i)?;
        self.value(o, ty, true)
    }

    pub(super) fn value(&mut self, o: &'a Operand, ty: Ty, relaxed: bool) -> Res<Reg> {
        let wide = ty.bits() == 64;
        match &o.kind {
            OperandKind::Name(n) => self.named(o, n, 0, ty, relaxed),
            OperandKind::Offset(n, off) => self.named(o, n, *off, ty, relaxed),
            OperandKind::Int(v) => {
                if ty.is_float() && ty.bits() >= 32 && !matches!(ty, Ty::F16x2 | Ty::Bf16x2 | Ty::Tf32) {
                    return self.d.err(o.span, "a floating-point constant is needed (0f3F800000)");
                }
                let bits = ty.bits();
                let lo = -(1i128 << (bits - 1));
                let hi = (1i128 << bits) - 1;
                if *v < lo || *v > hi {
                    return self.d.err(o.span, format!("the constant does not fit .{}", ty.name()));
                }
                let m = if bits == 64 { u64::MAX } else { (1u64 << bits) - 1 };
                Ok(self.d.konst(wide, *v as u64 & m))
            }
            OperandKind::F32(b) => match ty {
                Ty::F32 | Ty::B32 => Ok(self.d.konst(false, (*b).into())),
                Ty::F64 => Ok(self.d.konst(true, f64::from(f32::from_bits(*b)).to_bits())),
                _ => self.d.err(o.span, format!("an f32 constant cannot be a .{}", ty.name())),
            },
            OperandKind::F64(b) => match ty {
                Ty::F32 => Ok(self.d.konst(false, (f64::from_bits(*b) as f32).to_bits().into())),
                Ty::F64 | Ty::B64 => Ok(self.d.konst(true, *b)),
                _ => self.d.err(o.span, format!("an f64 constant cannot be a .{}", ty.name())),
            },
            OperandKind::Vec(_)
            | OperandKind::Addr(..)
            | OperandKind::Tensor(..)
            | OperandKind::Not(_)
            | OperandKind::Pair(..)
            | OperandKind::Sink => self.d.err(o.span, "a register or constant is expected here"),
        }
    }

    pub(super) fn named(&mut self, o: &Operand, n: &str, off: i64, ty: Ty, relaxed: bool) -> Res<Reg> {
        let wide = ty.bits() == 64;
        match self.d.find(n) {
            Some(Found::Reg(r, t)) => {
                if off != 0 {
                    return self.d.err(o.span, "an offset is allowed on symbols and inside brackets only");
                }
                let ok = if relaxed { t.bits() >= ty.bits() && ty.kind_accepts(t) } else { ty.accepts(t) };
                if ok { Ok(r) } else { self.bad_type(o, n, t, ty) }
            }
            Some(Found::Special(s, t)) => {
                if ty.accepts(t) {
                    Ok(self.d.fill(wide, Fill::Special(s)))
                } else {
                    self.bad_type(o, n, t, ty)
                }
            }
            Some(Found::Shared(at)) if matches!(ty, Ty::U32 | Ty::B32 | Ty::S32 | Ty::U64 | Ty::B64 | Ty::S64) => {
                Ok(self.d.fill(wide, Fill::Shared(at.wrapping_add(off as u64))))
            }
            Some(Found::Global(g)) if matches!(ty, Ty::U64 | Ty::B64 | Ty::S64) => Ok(self.d.fill(true, Fill::Global(g, off))),
            // Not an address yet: cvta.param makes it one.
            Some(Found::Param(at)) if self.ins.opcode == "mov" && wide => Ok(self.d.konst(true, at.wrapping_add(off as u64))),
            Some(Found::Param(..)) => self.d.err(o.span, "the address of a parameter is taken with mov.b64 and cvta.param only"),
            Some(Found::Pred(_) | Found::Label(_) | Found::Shared(_) | Found::Global(_)) => {
                self.d.err(o.span, format!("`{n}` cannot be a .{} operand", ty.name()))
            }
            None if n.starts_with("%clock") || n.starts_with("%globaltimer") => {
                self.d.err(o.span, format!("`{n}` is not modelled: the simulator has no time"))
            }
            None => self.d.err(o.span, format!("`{n}` is not declared")),
        }
    }

    /// A destination register of type `ty`; `_` gives a scratch register.
    pub(super) fn dst(&mut self, i: usize, ty: Ty) -> Res<Reg> {
        let o = self.operand(i)?;
        self.dest(o, ty, false)
    }

    pub(super) fn dst_wide(&mut self, i: usize, ty: Ty) -> Res<Reg> {
        let o = self.operand(i)?;
        self.dest(o, ty, true)
    }

    pub(super) fn dest(&mut self, o: &'a Operand, ty: Ty, relaxed: bool) -> Res<Reg> {
        match &o.kind {
            OperandKind::Name(n) => match self.d.find(n) {
                Some(Found::Reg(r, t)) => {
                    let ok = if relaxed { t.bits() >= ty.bits() && ty.kind_accepts(t) } else { ty.accepts(t) };
                    if ok { Ok(r) } else { self.bad_type(o, n, t, ty) }
                }
                Some(_) => self.d.err(o.span, format!("`{n}` cannot be written as .{}", ty.name())),
                None => self.d.err(o.span, format!("`{n}` is not declared")),
            },
            OperandKind::Sink => match Decoder::make(&mut self.d.prog, ty) {
                Any::Val(r) => Ok(r),
                Any::Pred(_) => self.d.err(o.span, "a register is expected here"),
            },
            _ => self.d.err(o.span, "a destination register is expected here"),
        }
    }

    pub(super) fn pred_named(&mut self, i: usize, n: &str) -> Res<Pred> {
        match self.d.find(n) {
            Some(Found::Pred(p)) => Ok(p),
            Some(_) => self.err_op(i, format!("`{n}` is not a predicate register")),
            None => self.err_op(i, format!("`{n}` is not declared")),
        }
    }

    pub(super) fn pred_dst(&mut self, i: usize) -> Res<Pred> {
        match &self.operand(i)?.kind {
            OperandKind::Name(n) => self.pred_named(i, n),
            OperandKind::Sink => Ok(self.scratch_pred()),
            _ => self.err_op(i, "a predicate register is expected here"),
        }
    }

    pub(super) fn scratch_pred(&mut self) -> Pred {
        self.d.prog.preds += 1;
        Pred(self.d.prog.preds - 1)
    }

    pub(super) fn pred_src(&mut self, i: usize) -> Res<PSrc> {
        match &self.operand(i)?.kind {
            OperandKind::Name(n) => Ok(PSrc { p: self.pred_named(i, n)?, neg: false }),
            OperandKind::Not(n) => Ok(PSrc { p: self.pred_named(i, n)?, neg: true }),
            OperandKind::Int(v) => Ok(PSrc { p: self.d.const_pred(*v != 0), neg: false }),
            _ => self.err_op(i, "a predicate is expected here"),
        }
    }

    /// `p` or `p|q`, where either may be `_`.
    pub(super) fn pred_pair(&mut self, i: usize) -> Res<(Option<Pred>, Option<Pred>)> {
        match &self.operand(i)?.kind {
            OperandKind::Pair(p, q) => {
                let get = |s: &mut Self, n: &str| if n == "_" { Ok(None) } else { s.pred_named(i, n).map(Some) };
                Ok((get(self, p)?, get(self, q)?))
            }
            _ => Ok((Some(self.pred_dst(i)?), None)),
        }
    }

    /// Elements of `{...}`, or the operand itself.
    pub(super) fn elements(&self, i: usize) -> Res<SmallVec<[&'a Operand; 4]>> {
        let o = self.operand(i)?;
        Ok(match &o.kind {
            OperandKind::Vec(v) => v.iter().collect(),
            _ => SmallVec::from_slice(&[o]),
        })
    }

    pub(super) fn vec_src(&mut self, i: usize, ty: Ty, n: usize, relaxed: bool) -> Res<SmallVec<[Reg; 4]>> {
        let e = self.elements(i)?;
        if e.len() != n {
            return self.err_op(i, format!("{n} registers are needed here, not {}", e.len()));
        }
        e.into_iter().map(|o| self.value(o, ty, relaxed)).collect()
    }

    pub(super) fn vec_dst(&mut self, i: usize, ty: Ty, n: usize, relaxed: bool) -> Res<SmallVec<[Reg; 4]>> {
        let e = self.elements(i)?;
        if e.len() != n {
            return self.err_op(i, format!("{n} registers are needed here, not {}", e.len()));
        }
        e.into_iter().map(|o| self.dest(o, ty, relaxed)).collect()
    }

    /// `[...]` in `space`.
    pub(super) fn addr(&mut self, i: usize, space: Space) -> Res<Addr> {
        let o = self.operand(i)?;
        let OperandKind::Addr(base, off) = &o.kind else {
            return self.err_op(i, "an address in brackets is expected here");
        };
        let Some(n) = base else {
            return self.err_op(i, "absolute addresses are not modelled");
        };
        let (base, off) = match (self.d.find(n), space) {
            (Some(Found::Param(at)), Space::Param) => (self.d.konst(true, 0), at as i64 + off),
            (Some(Found::Param(..)), _) => return self.err_op(i, "a parameter is read with ld.param"),
            (Some(_), Space::Param) => return self.err_op(i, "a parameter name is expected here"),
            (Some(Found::Reg(r, t)), _) => {
                let narrow_ok = matches!(space, Space::Shared | Space::Cluster);
                if t.is_float() || !(t.bits() == 64 || (t.bits() == 32 && narrow_ok)) {
                    return self.err_op(i, format!("`{n}` is a .{} register: not an address here", t.name()));
                }
                (r, *off)
            }
            (Some(Found::Shared(at)), Space::Shared | Space::Cluster) => (self.d.konst(true, at), *off),
            (Some(Found::Global(g)), Space::Global | Space::Const) => (self.d.fill(true, Fill::Global(g, 0)), *off),
            (Some(_), _) => return self.err_op(i, format!("`{n}` is not an address in this state space")),
            (None, _) => return self.err_op(i, format!("`{n}` is not declared")),
        };
        Ok(Addr { base, off, space })
    }

    /// Consumes a state space.
    pub(super) fn space(&mut self) -> Res<Space> {
        if self.has("local") {
            return self.err("state space `.local` is not modelled");
        }
        Ok(self
            .take(|m| match m {
                "global" => Some(Space::Global),
                "shared" | "shared::cta" => Some(Space::Shared),
                "shared::cluster" => Some(Space::Cluster),
                "param" | "param::entry" => Some(Space::Param),
                "const" => Some(Space::Const),
                _ => None,
            })
            .unwrap_or(Space::Generic))
    }
}
