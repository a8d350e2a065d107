//! Memory, cross-lane and matrix instructions.
//!
//! Global addresses are 64 bits, shared addresses 32. A guarded load sets its results first and then loads under the predicate. An
//! asynchronous copy with a guard passes a source size of 0 where the guard is false, and the machine fills with zeros.

use super::state::Emitter;
use super::text::{Opnd, Reg};
use crate::class::{Class, is_byte, memory_type};
use crate::error::EmitError;
use smallvec::SmallVec;
use tilelift_ir::{CacheHint, Precision};
use tilelift_isel::MatrixId;
use tilelift_isel::lane::{BinOp, LTy, LVal, ShuffleFrom};

type Regs = SmallVec<[Reg; 16]>;

/// A guard after constants are looked at.
pub(super) enum Guard {
    Never,
    Always,
    If(Reg),
}

/// What a derived register holds: the word of a tf32 operand; other numbers are sizes of copies.
const TF32_WORD: u32 = 0;

impl Emitter<'_> {
    pub(super) fn guard(&mut self, guard: Option<LVal>) -> Guard {
        match guard.map(|g| self.operand(g)) {
            None => Guard::Always,
            Some(Opnd::Reg(r)) => Guard::If(r),
            Some(Opnd::Imm(_, 0)) => Guard::Never,
            Some(Opnd::Imm(..)) => Guard::Always,
        }
    }

    pub(super) fn load_global(&mut self, dsts: &[LVal], at: (LVal, i32), guard: Option<LVal>, other: &[LVal], cache: CacheHint) {
        let (addr, offset) = at;
        let line = dsts.first().is_some_and(|d| self.lines.contains(d));
        let op = format!("ld.global{}{}", self.hint(cache), if line { ".L2::128B" } else { "" });
        let guard = self.guard(guard);
        if !matches!(guard, Guard::Always) {
            for (i, &d) in dsts.iter().enumerate() {
                let home = self.home(d);
                let otherwise = other.get(i).map(|&o| self.operand(o)).unwrap_or(Opnd::Imm(home.0, 0));
                match (home.0, otherwise) {
                    (Class::P, Opnd::Imm(..)) => self.body.op("setp.ne.b32 ").r(home).s(", ").o(otherwise).s(", 0").end(),
                    (class, _) => self.body.op(class.mov()).r(home).s(", ").o(otherwise).end(),
                }
            }
        }
        match guard {
            Guard::Never => {}
            Guard::Always => self.load_vector(&op, dsts, addr, offset, None),
            Guard::If(p) => self.load_vector(&op, dsts, addr, offset, Some(p)),
        }
    }

    /// Loads consecutive values; truth values come as bytes.
    pub(super) fn load_vector(&mut self, op: &str, dsts: &[LVal], addr: LVal, offset: i32, guard: Option<Reg>) {
        let Some(&first) = dsts.first() else { return };
        let ty = self.defs.ty(first);
        let homes: Regs = dsts.iter().map(|&d| self.home(d)).collect();
        let raw: Regs = if ty == LTy::I1 { dsts.iter().map(|_| self.fresh(Class::H)).collect() } else { homes.clone() };
        self.access(op, guard, ty, dsts.len());
        self.body.vector(&raw).s(", ");
        self.address(addr, offset);
        self.body.end();
        if ty == LTy::I1 {
            for (&p, &h) in homes.iter().zip(&raw) {
                self.body.guarded(guard, "setp.ne.s16 ").r(p).then(h).s(", 0").end();
            }
        }
    }

    pub(super) fn store(&mut self, op: &str, srcs: &[LVal], addr: LVal, offset: i32, guard: Option<LVal>) {
        let Some(&first) = srcs.first() else { return };
        let ty = self.defs.ty(first);
        let guard = match self.guard(guard) {
            Guard::Never => return,
            Guard::Always => None,
            Guard::If(p) => Some(p),
        };
        let regs: Regs = srcs.iter().map(|&v| self.bytes_of(v)).collect();
        self.access(op, guard, ty, srcs.len());
        self.address(addr, offset);
        self.body.s(", ").vector(&regs).end();
    }

    /// A value in a register that memory takes: truth values as bytes.
    fn bytes_of(&mut self, v: LVal) -> Reg {
        let r = self.reg(v);
        if r.0 != Class::P {
            return r;
        }
        let h = self.fresh(Class::H);
        self.body.op("selp.b16 ").r(h).s(", 1, 0, ").r(r).end();
        h
    }

    fn access(&mut self, op: &str, guard: Option<Reg>, ty: LTy, n: usize) {
        self.body.guarded(guard, op);
        match n {
            2 => self.body.s(".v2"),
            4 => self.body.s(".v4"),
            _ => &mut self.body,
        };
        self.body.s(memory_type(ty)).s(" ");
    }

    pub(super) fn load_matrix(&mut self, dsts: &[LVal], addr: LVal, offset: i32, trans: bool) {
        let homes: Regs = dsts.iter().map(|&d| self.home(d)).collect();
        self.body.op("ldmatrix.sync.aligned.m8n8.x").n(dsts.len() as i64);
        self.body.s(if trans { ".trans.shared.b16 " } else { ".shared.b16 " }).braced(&homes).s(", ");
        self.address(addr, offset);
        self.body.end();
    }

    pub(super) fn copy_async(&mut self, shared: (LVal, i32), global: (LVal, i32), bytes: u32, valid: Option<LVal>) {
        let size = match self.guard(valid) {
            Guard::Always => None,
            Guard::Never => Some(Opnd::Imm(Class::R, 0)),
            Guard::If(p) => {
                // A value's register may change after its last use; the size is a register of its own.
                let v = self.defs.root(valid.unwrap_or(shared.0));
                let r = self.derive(v, bytes, Class::R, |e, r| {
                    e.body.op("selp.b32 ").r(r).s(", ").n(bytes).s(", 0, ").r(p).end();
                });
                Some(Opnd::Reg(r))
            }
        };
        // Only whole 16-byte lines may bypass the first cache level.
        self.body.op(if bytes == 16 { "cp.async.cg.shared.global " } else { "cp.async.ca.shared.global " });
        self.address(shared.0, shared.1);
        self.body.s(", ");
        self.address(global.0, global.1);
        self.body.s(", ").n(bytes);
        if let Some(size) = size {
            self.body.s(", ").o(size);
        }
        self.body.end();
    }

    pub(super) fn shuffle(&mut self, dst: LVal, a: LVal, from: ShuffleFrom) {
        let (d, a) = (self.home(dst), self.reg(a));
        let (op, lane) = match from {
            ShuffleFrom::Xor(mask) => ("shfl.sync.bfly.b32 ", Opnd::Imm(Class::R, mask.into())),
            ShuffleFrom::Lane(l) => ("shfl.sync.idx.b32 ", self.operand(l)),
        };
        self.body.op(op).r(d).then(a).s(", ").o(lane).s(", 31, 0xFFFFFFFF").end();
    }

    /// The verifier lets no other operations through.
    pub(super) fn redux(&mut self, dst: LVal, op: BinOp, a: LVal) {
        let (d, a) = (self.home(dst), self.reg(a));
        let op = match op {
            BinOp::Minimum => "redux.sync.min.s32 ",
            BinOp::Maximum => "redux.sync.max.s32 ",
            BinOp::MinimumU => "redux.sync.min.u32 ",
            _ => "redux.sync.max.u32 ",
        };
        self.body.op(op).r(d).then(a).s(", 0xFFFFFFFF").end();
    }

    pub(super) fn matrix(&mut self, dsts: &[LVal], instr: MatrixId, a: &[LVal], b: &[LVal], c: &[LVal]) {
        let target = self.target;
        let instr = target.matrix_instr(instr);
        let tf32 = instr.precision == Precision::Tf32;
        let a: Regs = a.iter().map(|&v| self.word(v, tf32)).collect();
        let b: Regs = b.iter().map(|&v| self.word(v, tf32)).collect();
        let c: Regs = c.iter().map(|&v| self.reg(v)).collect();
        let d: Regs = dsts.iter().map(|&v| self.home(v)).collect();
        self.body.op(instr.name).s(" ").braced(&d).s(", ").braced(&a).s(", ").braced(&b).s(", ").braced(&c).end();
    }

    /// An operand of a matrix instruction; tf32 values must be words.
    fn word(&mut self, v: LVal, tf32: bool) -> Reg {
        let v = if tf32 { self.defs.word(v) } else { self.defs.root(v) };
        let r = self.reg(v);
        if r.0 != Class::F || !tf32 {
            return r;
        }
        self.derive(v, TF32_WORD, Class::R, |e, w| e.body.op("mov.b32 ").r(w).then(r).end())
    }

    pub(super) fn pack(&mut self, dst: LVal, parts: &[LVal]) -> Result<(), EmitError> {
        let d = self.home(dst);
        let parts: Regs = parts.iter().map(|&v| self.bytes_of(v)).collect();
        if let [a, b, c, e] = parts[..] {
            let (low, high) = (self.fresh(Class::R), self.fresh(Class::R));
            self.body.op("mov.b32 ").r(low).s(", ").braced(&[a, b]).end();
            self.body.op("mov.b32 ").r(high).s(", ").braced(&[c, e]).end();
            // The low byte of each half.
            self.body.op("prmt.b32 ").r(d).then(low).then(high).s(", 0x6420").end();
        } else {
            self.body.op("mov.b32 ").r(d).s(", ").braced(&parts).end();
        }
        Ok(())
    }

    pub(super) fn unpack(&mut self, dsts: &[LVal], a: LVal) -> Result<(), EmitError> {
        let a = self.reg(a);
        let homes: Regs = dsts.iter().map(|&d| self.home(d)).collect();
        let ty = dsts.first().map(|&d| self.defs.ty(d));
        match ty {
            Some(ty) if is_byte(ty) => {
                // Nibbles 8 to 11 of the selector repeat the sign of bytes 0 to 3.
                for (pair, selector) in homes.chunks(2).zip(["0x9180", "0xB3A2"]) {
                    let t = self.fresh(Class::R);
                    self.body.op("prmt.b32 ").r(t).then(a).s(", 0, ").s(selector).end();
                    self.body.op("mov.b32 ").braced(pair).then(t).end();
                }
                Ok(())
            }
            Some(LTy::I1) => {
                for (i, &p) in homes.iter().enumerate() {
                    let t = self.fresh(Class::R);
                    self.body.op("and.b32 ").r(t).then(a).s(", ").n(0xffi64 << (8 * i)).end();
                    self.body.op("setp.ne.s32 ").r(p).then(t).s(", 0").end();
                }
                Ok(())
            }
            Some(LTy::Num(_) | LTy::B32) | None => {
                self.body.op("mov.b32 ").braced(&homes).then(a).end();
                Ok(())
            }
        }
    }
}
