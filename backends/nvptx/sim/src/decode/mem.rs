//! Loads, stores, atomics, asynchronous copies, address conversions, fences.

use super::instr::Ix;
use super::names::Res;
use crate::program::op::{Atom, CpAsync, MemOp, Op, Order};
use crate::program::operand::{Addr, AtomOp, PSrc};
use crate::text::ast::OperandKind;
use crate::types::{Space, Ty};

impl Ix<'_, '_> {
    /// Decodes `name` if it belongs here.
    pub(super) fn mem_op(&mut self, name: &str) -> Res<Option<Op>> {
        Ok(Some(match name {
            "ld" | "st" => self.load_store(name == "st")?,
            "ldu" => return self.err("`ldu` is not modelled: use ld.global.nc"),
            "atom" | "red" => self.atom(name == "red")?,
            "cp" => self.cp()?,
            "cvta" => {
                let to = self.has("to");
                let space = self.space()?;
                if !matches!(space, Space::Global | Space::Shared | Space::Cluster | Space::Const) && (to || space != Space::Param) {
                    return self.err("`cvta` of this state space is not modelled");
                }
                let ty = self.ty()?;
                if ty != Ty::U64 {
                    return self.err("`cvta` needs .u64 with 64-bit addresses");
                }
                self.n_ops(2, 2)?;
                Op::Cvta { space, to_generic: !to, d: self.dst(0, ty)?, s: self.src(1, ty)? }
            }
            "isspacep" => {
                let space = self.space()?;
                self.n_ops(2, 2)?;
                Op::Isspacep { space, d: self.pred_dst(0)?, a: self.src(1, Ty::U64)? }
            }
            "fence" | "membar" => {
                let ok = name == "membar" || self.has("acq_rel") || self.has("sc");
                let scope = self.scope();
                if !ok && name == "fence" {
                    return self.err("`fence` needs .acq_rel or .sc");
                }
                let gl = name == "membar" && self.has("gl");
                if scope.is_none() && !gl {
                    return self.err("a scope is required");
                }
                self.n_ops(0, 0)?;
                Op::Fence { cta: scope == Some(true) }
            }
            // Hints: no effect on values.
            "prefetch" | "prefetchu" | "applypriority" => {
                self.mods.clear();
                self.n_ops(1, 2)?;
                self.addr(0, Space::Global)?;
                Op::Nop
            }
            "discard" => {
                self.has("global");
                self.need("L2")?;
                self.n_ops(2, 2)?;
                if !matches!(self.operand(1)?.kind, OperandKind::Int(128)) {
                    return self.err_op(1, "the size of `discard` is 128");
                }
                Op::Discard { addr: self.addr(0, Space::Global)? }
            }
            "createpolicy" => {
                self.mods.clear();
                let d = self.dst(0, Ty::B64)?;
                Op::Mov { d, s: self.d.konst(true, 0) }
            }
            _ => return Ok(None),
        }))
    }

    /// Consumes a scope; `Some(true)` when it is the CTA.
    fn scope(&mut self) -> Option<bool> {
        self.take(|m| match m {
            "cta" => Some(true),
            "cluster" | "gpu" | "sys" => Some(false),
            _ => None,
        })
    }

    /// Cache hints that do not change what is read. Returns whether a policy operand follows.
    fn cache_hints(&mut self) -> bool {
        let mut policy = false;
        while let Some(p) = self.take(|m| match m {
            "L2::cache_hint" => Some(true),
            "nc" | "ca" | "cg" | "cs" | "cv" | "lu" | "wb" | "wt" => Some(false),
            "L1::evict_normal" | "L1::evict_unchanged" | "L1::evict_first" | "L1::evict_last" | "L1::no_allocate" => Some(false),
            "L2::evict_normal" | "L2::evict_first" | "L2::evict_last" | "L2::64B" | "L2::128B" | "L2::256B" => Some(false),
            _ => None,
        }) {
            policy |= p;
        }
        policy
    }

    fn policy(&mut self, i: usize) -> Res<()> {
        self.src(i, Ty::B64).map(|_| ())
    }

    /// Memory order, and whether its scope is the CTA.
    fn order(&mut self) -> Res<(Order, bool)> {
        if self.has("volatile") {
            return Ok((Order::Relaxed, false));
        }
        self.has("weak");
        let o = self.take(|m| match m {
            "relaxed" => Some(Order::Relaxed),
            "acquire" => Some(Order::Acquire),
            "release" => Some(Order::Release),
            "acq_rel" => Some(Order::AcqRel),
            _ => None,
        });
        let scope = self.scope();
        match (o, scope) {
            (Some(o), Some(cta)) => Ok((o, cta)),
            (None, None) => Ok((Order::Weak, false)),
            (Some(_), None) => self.err("a memory order needs a scope (.cta, .gpu, .sys)"),
            (None, Some(_)) => self.err("a scope needs a memory order"),
        }
    }

    fn load_store(&mut self, store: bool) -> Res<Op> {
        let (order, cta) = self.order()?;
        if order == Order::AcqRel || (store && order == Order::Acquire) || (!store && order == Order::Release) {
            return self.err("this memory order does not exist here");
        }
        let space = self.space()?;
        if store && matches!(space, Space::Param | Space::Const) {
            return self.err("this state space is read-only");
        }
        let nc = !store && self.has("nc");
        if nc && space != Space::Global {
            return self.err("`.nc` needs .global");
        }
        let policy = self.cache_hints();
        let n = self
            .take(|m| match m {
                "v2" => Some(2),
                "v4" => Some(4),
                _ => None,
            })
            .unwrap_or(1usize);
        let ty = self.ty()?;
        if ty == Ty::Pred || matches!(ty, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 | Ty::Tf32 | Ty::B128) {
            return self.err(format!("`.{}` is not a type of ld/st: use .b16 or .b32", ty.name()));
        }
        if n as u32 * ty.bytes() > 16 {
            return self.err("vectors wider than 16 bytes are not modelled");
        }
        let k = 2 + usize::from(policy);
        self.n_ops(k, k)?;
        if policy {
            self.policy(2)?;
        }
        let (va, aa) = if store { (1, 0) } else { (0, 1) };
        let addr = self.addr(aa, space)?;
        let regs = if store { self.vec_src(va, ty, n, true)? } else { self.vec_dst(va, ty, n, true)? };
        let m = MemOp { addr, ty, regs, order, cta };
        Ok(if store { Op::St(m) } else { Op::Ld(m) })
    }

    fn atom(&mut self, red: bool) -> Res<Op> {
        let order = self.take(|m| match m {
            "relaxed" => Some(Order::Relaxed),
            "acquire" => Some(Order::Acquire),
            "release" => Some(Order::Release),
            "acq_rel" => Some(Order::AcqRel),
            _ => None,
        });
        let cta = self.scope() == Some(true);
        let space = self.space()?;
        if !matches!(space, Space::Global | Space::Shared | Space::Cluster | Space::Generic) {
            return self.err("atomics work on global and shared memory");
        }
        let op = match self.take(atom_op) {
            Some(op) => op,
            None => return self.err("an atomic operation (.add, .cas, ...) is required"),
        };
        let noftz = self.has("noftz");
        let policy = self.cache_hints();
        let ty = self.ty()?;
        use AtomOp as A;
        let half = matches!(ty, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2);
        let ok = match op {
            A::Add => matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::F32 | Ty::F64) || (half && noftz),
            A::Min | A::Max => matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64) || (noftz && half && space != Space::Shared),
            A::And | A::Or | A::Xor => matches!(ty, Ty::B32 | Ty::B64),
            A::Exch | A::Cas => matches!(ty, Ty::B16 | Ty::B32 | Ty::B64) && !(red) && (ty != Ty::B16 || op == A::Cas),
            A::Inc | A::Dec => ty == Ty::U32,
        };
        if !ok {
            return self.err(format!("this atomic does not exist for .{}", ty.name()));
        }
        if half && matches!(op, A::Min | A::Max) {
            return self.err("min and max atomics on 16-bit floats are not modelled");
        }
        let k = usize::from(!red);
        let n = k + 2 + usize::from(op == A::Cas) + usize::from(policy);
        self.n_ops(n, n)?;
        let d = if red || matches!(self.operand(0)?.kind, OperandKind::Sink) { None } else { Some(self.dst(0, ty)?) };
        let addr = self.addr(k, space)?;
        let b = self.src(k + 1, ty)?;
        let c = if op == A::Cas { self.src(k + 2, ty)? } else { b };
        if policy {
            self.policy(n - 1)?;
        }
        Ok(Op::Atom(Box::new(Atom { op, ty, addr, d, b, c, order: order.unwrap_or(Order::Relaxed), cta })))
    }

    fn cp(&mut self) -> Res<Op> {
        self.need("async")?;
        if self.has("commit_group") {
            self.n_ops(0, 0)?;
            return Ok(Op::CpCommit);
        }
        if self.has("wait_all") {
            self.n_ops(0, 0)?;
            return Ok(Op::CpWaitAll);
        }
        if self.has("wait_group") {
            self.n_ops(1, 1)?;
            return match self.operand(0)?.kind {
                OperandKind::Int(n) if (0..1 << 20).contains(&n) => Ok(Op::CpWait { n: n as u32 }),
                _ => self.err_op(0, "the number of pending groups is a small constant"),
            };
        }
        let ca = self.has("ca");
        if !ca {
            self.need("cg")?;
        }
        if !self.has("shared") {
            self.need("shared::cta")?;
        }
        self.need("global")?;
        let policy = self.cache_hints();
        self.n_ops(3, 5)?;
        let dst: Addr = self.addr(0, Space::Shared)?;
        let src = self.addr(1, Space::Global)?;
        let size = match self.operand(2)?.kind {
            OperandKind::Int(16) => 16,
            OperandKind::Int(n @ (4 | 8)) if ca => n as u32,
            _ => return self.err_op(2, "the copy size is 16, or 4 or 8 with .ca"),
        };
        let (mut src_size, mut ignore): (_, Option<PSrc>) = (None, None);
        let extra = self.count() - 3 - usize::from(policy);
        if self.count() < 3 + usize::from(policy) || extra > 1 {
            return self.err("wrong number of operands");
        }
        if extra == 1 {
            let is_pred = match &self.operand(3)?.kind {
                OperandKind::Not(_) => true,
                OperandKind::Name(n) => matches!(self.d.find(n), Some(super::names::Found::Pred(_))),
                _ => false,
            };
            if is_pred {
                self.d.gate_ignore_src(self.ins)?;
                ignore = Some(self.pred_src(3)?);
            } else {
                src_size = Some(self.src(3, Ty::U32)?);
            }
        }
        if policy {
            self.policy(self.count() - 1)?;
        }
        self.d.prog.uses_cp_async = true;
        Ok(Op::CpAsync(Box::new(CpAsync { dst, src, size, src_size, ignore })))
    }
}

pub(super) fn atom_op(m: &str) -> Option<AtomOp> {
    Some(match m {
        "add" => AtomOp::Add,
        "min" => AtomOp::Min,
        "max" => AtomOp::Max,
        "and" => AtomOp::And,
        "or" => AtomOp::Or,
        "xor" => AtomOp::Xor,
        "exch" => AtomOp::Exch,
        "cas" => AtomOp::Cas,
        "inc" => AtomOp::Inc,
        "dec" => AtomOp::Dec,
        _ => return None,
    })
}
