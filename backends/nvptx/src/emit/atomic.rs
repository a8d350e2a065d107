//! Atomic updates: one instruction where there is one, else a loop of compare and swap.
//!
//! ```text
//! d used, or xchg, cas, or acquire    mov d, 0; @p atom.order.scope.space.op.type d, [a], b      (d may be _)
//! d unused                            @p red.order.scope.space.op.type [a], b
//! bf16 sums before sm_90              @!p bra done; ld old; loop: cas old -> round(old + b) until it was old
//! ```

use super::memory::Guard;
use super::state::Emitter;
use super::text::{Opnd, Reg};
use crate::class::Class;
use crate::target::adds_bf16;
use tilelift_ir::{AtomicOp, MemoryOrder, Scalar};
use tilelift_isel::Target;
use tilelift_isel::lane::{Atomic, AtomicKind, LTy, Space};

/// The operation and type of an update, as the target calls them; `None` if it has no instruction.
fn name(kind: AtomicKind, ty: LTy, target: &Target) -> Option<String> {
    let LTy::Num(s) = ty else { return None };
    let n = s.bits();
    let op = match kind {
        AtomicKind::Cas(_) => format!("cas.b{n}"),
        AtomicKind::Op(AtomicOp::Xchg) => format!("exch.b{n}"),
        AtomicKind::Op(AtomicOp::Add) if s == Scalar::F16 => "add.noftz.f16".to_owned(),
        AtomicKind::Op(AtomicOp::Add) if s == Scalar::BF16 && !adds_bf16(target.name) => return None,
        AtomicKind::Op(AtomicOp::Add) if s == Scalar::BF16 => "add.noftz.bf16".to_owned(),
        AtomicKind::Op(AtomicOp::Add) if s.is_float() => format!("add.f{n}"),
        AtomicKind::Op(AtomicOp::Add) => format!("add.u{n}"),
        AtomicKind::Op(AtomicOp::Min) => format!("min.s{n}"),
        AtomicKind::Op(AtomicOp::Max) => format!("max.s{n}"),
        AtomicKind::Op(AtomicOp::Umin) => format!("min.u{n}"),
        AtomicKind::Op(AtomicOp::Umax) => format!("max.u{n}"),
        AtomicKind::Op(AtomicOp::And) => format!("and.b{n}"),
        AtomicKind::Op(AtomicOp::Or) => format!("or.b{n}"),
        AtomicKind::Op(AtomicOp::Xor) => format!("xor.b{n}"),
    };
    Some(op)
}

impl Emitter<'_> {
    pub(super) fn atomic(&mut self, a: &Atomic) {
        let guard = self.guard(a.guard);
        let d = a.dst.map(|d| self.home(d));
        if let (Some(d), Guard::If(_) | Guard::Never) = (d, &guard) {
            self.body.op(d.0.mov()).r(d).s(", ").o(Opnd::Imm(d.0, 0)).end();
        }
        let p = match guard {
            Guard::Never => return,
            Guard::Always => None,
            Guard::If(p) => Some(p),
        };
        let value = self.reg(a.value);
        let space = if a.space == Space::Global { "global" } else { "shared" };
        let Some(name) = name(a.kind, self.defs.ty(a.value), self.target) else {
            return self.add_by_swap(a, p, d, value, space);
        };
        let swap = match a.kind {
            AtomicKind::Cas(c) => Some(self.reg(c)),
            AtomicKind::Op(_) => None,
        };
        let plain = swap.is_none() && a.kind != AtomicKind::Op(AtomicOp::Xchg);
        let reduces = d.is_none() && plain && matches!(a.order, MemoryOrder::Relaxed | MemoryOrder::Release);
        self.body.guarded(p, if reduces { "red." } else { "atom." });
        self.body.s(a.order.word()).s(".").s(a.scope.word()).s(".").s(space).s(".").s(&name).s(" ");
        if !reduces {
            match d {
                Some(d) => self.body.r(d),
                None => self.body.s("_"),
            };
            self.body.s(", ");
        }
        self.address(a.addr, a.offset);
        if let Some(c) = swap {
            self.body.then(c);
        }
        self.body.then(value).end();
    }

    /// A sum of `bf16` as a loop of compare and swap, which lanes leave one by one.
    fn add_by_swap(&mut self, a: &Atomic, guard: Option<Reg>, d: Option<Reg>, value: Reg, space: &str) {
        let (again, done) = (self.label(), self.label());
        let (old, new) = (self.fresh(Class::H), self.fresh(Class::H));
        let got = d.unwrap_or_else(|| self.fresh(Class::H));
        let (x, y, sum) = (self.fresh(Class::F), self.fresh(Class::F), self.fresh(Class::F));
        let p = self.fresh(Class::P);
        self.body.op("mov.b32 ").r(y).s(", {0, ").r(value).s("}").end();
        if let Some(g) = guard {
            self.body.s("\t@!").r(g).s(" bra $L").n(done).end();
        }
        self.body.op("ld.relaxed.").s(a.scope.word()).s(".").s(space).s(".b16 ").r(got).s(", ");
        self.address(a.addr, a.offset);
        self.body.end();
        self.place(again);
        self.body.op("mov.b16 ").r(old).then(got).end();
        self.body.op("mov.b32 ").r(x).s(", {0, ").r(old).s("}").end();
        self.body.op("add.f32 ").r(sum).then(x).then(y).end();
        self.body.op("cvt.rn.bf16.f32 ").r(new).then(sum).end();
        self.body.op("atom.").s(a.order.word()).s(".").s(a.scope.word()).s(".").s(space).s(".cas.b16 ").r(got).s(", ");
        self.address(a.addr, a.offset);
        self.body.then(old).then(new).end();
        self.body.op("setp.ne.s16 ").r(p).then(got).then(old).end();
        self.body.op("@").r(p).s(" bra $L").n(again).end();
        self.place(done);
        self.body.op("bar.warp.sync 0xFFFFFFFF").end();
    }
}
