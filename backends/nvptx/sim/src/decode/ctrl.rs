//! Control flow, barriers and warp-wide communication.

use super::instr::Ix;
use super::names::{Found, Res};
use crate::program::op::{BarKind, IntOp, Op, Shfl, Vote};
use crate::text::ast::OperandKind;
use crate::types::Ty;

impl Ix<'_, '_> {
    /// Decodes `name` if it belongs here.
    pub(super) fn ctrl_op(&mut self, name: &str) -> Res<Option<Op>> {
        Ok(Some(match name {
            "bra" => {
                let uni = self.has("uni");
                self.n_ops(1, 1)?;
                let OperandKind::Name(n) = &self.operand(0)?.kind else {
                    return self.err_op(0, "a label is expected");
                };
                match self.d.find(n) {
                    Some(Found::Label(target)) => Op::Bra { target, uni },
                    Some(_) => return self.err_op(0, format!("`{n}` is not a label")),
                    None => return self.err_op(0, format!("label `{n}` is not defined in this scope")),
                }
            }
            "ret" | "exit" => {
                self.has("uni");
                self.n_ops(0, 0)?;
                Op::Exit
            }
            "trap" => {
                self.n_ops(0, 0)?;
                Op::Trap
            }
            "nanosleep" => {
                self.need("u32")?;
                self.n_ops(1, 1)?;
                self.src(0, Ty::U32)?;
                Op::Nop
            }
            "griddepcontrol" => {
                self.n_ops(0, 0)?;
                self.d.prog.overlaps = true;
                if self.has("wait") {
                    self.d.prog.awaits = true;
                    Op::GridWait
                } else {
                    self.need("launch_dependents")?;
                    Op::Nop
                }
            }
            "bar" | "barrier" => self.barrier(name)?,
            "shfl" => self.shfl()?,
            "vote" => self.vote()?,
            "match" => {
                let all = self.has("all");
                if !all {
                    self.need("any")?;
                }
                self.need("sync")?;
                let ty = self.ty()?;
                if !matches!(ty, Ty::B32 | Ty::B64) {
                    return self.err("`match` takes .b32 or .b64");
                }
                self.n_ops(3, 3)?;
                let (d, p) = self.value_and_pred(0)?;
                if p.is_some() && !all {
                    return self.err("only match.all has a predicate result");
                }
                let (a, mask) = (self.src(1, ty)?, self.src(2, Ty::B32)?);
                Op::Match { all, d, p, a, mask }
            }
            "redux" => {
                self.need("sync")?;
                let op = self.take(|m| {
                    Some(match m {
                        "add" => IntOp::Add,
                        "min" => IntOp::Min,
                        "max" => IntOp::Max,
                        "and" => IntOp::And,
                        "or" => IntOp::Or,
                        "xor" => IntOp::Xor,
                        _ => return None,
                    })
                });
                let Some(op) = op else {
                    return self.err("a reduction (.add, .min, ...) is required");
                };
                let ty = self.ty()?;
                let bits = matches!(op, IntOp::And | IntOp::Or | IntOp::Xor);
                if (bits && ty != Ty::B32) || (!bits && !matches!(ty, Ty::U32 | Ty::S32)) {
                    return self.err(format!("this reduction does not exist for .{}", ty.name()));
                }
                self.n_ops(3, 3)?;
                let d = self.dst(0, ty)?;
                Op::Redux { op, ty, d, a: self.src(1, ty)?, mask: self.src(2, Ty::B32)? }
            }
            "activemask" => {
                self.need("b32")?;
                self.n_ops(1, 1)?;
                Op::ActiveMask { d: self.dst(0, Ty::B32)? }
            }
            "elect" => {
                self.need("sync")?;
                self.n_ops(2, 2)?;
                let (d, p) = self.value_and_pred(0)?;
                let Some(p) = p else {
                    return self.err_op(0, "`d|p` is expected");
                };
                Op::Elect { d, p, mask: self.src(1, Ty::B32)? }
            }
            _ => return Ok(None),
        }))
    }

    /// `d` or `d|p`, either of which may be `_`.
    fn value_and_pred(&mut self, i: usize) -> Res<(Option<crate::program::operand::Reg>, Option<crate::program::operand::Pred>)> {
        match &self.operand(i)?.kind {
            OperandKind::Pair(d, p) => {
                let reg = match (d.as_str(), self.d.find(d)) {
                    ("_", _) => None,
                    (_, Some(Found::Reg(r, t))) if Ty::B32.accepts(t) => Some(r),
                    _ => return self.err_op(i, format!("`{d}` is not a 32-bit register")),
                };
                let p = if p == "_" { None } else { Some(self.pred_named(i, p)?) };
                Ok((reg, p))
            }
            _ => Ok((Some(self.dst(i, Ty::B32)?), None)),
        }
    }

    fn barrier(&mut self, name: &str) -> Res<Op> {
        self.has("cta");
        if name == "bar" && self.has("warp") {
            self.need("sync")?;
            self.n_ops(1, 1)?;
            return Ok(Op::BarWarp { mask: self.src(0, Ty::B32)? });
        }
        let aligned = self.has("aligned") || name == "bar";
        if self.has("sync") {
            self.n_ops(1, 2)?;
            let id = self.src(0, Ty::U32)?;
            let count = if self.count() > 1 { Some(self.src(1, Ty::U32)?) } else { None };
            return Ok(Op::Bar { kind: BarKind::Sync, id, count, aligned, d: None, dp: None, p: None });
        }
        if self.has("arrive") {
            self.n_ops(2, 2)?;
            let id = self.src(0, Ty::U32)?;
            let count = Some(self.src(1, Ty::U32)?);
            return Ok(Op::Bar { kind: BarKind::Arrive, id, count, aligned, d: None, dp: None, p: None });
        }
        if !self.has("red") {
            return self.err("`.sync`, `.arrive` or `.red` is required");
        }
        let kind = self.take(|m| match m {
            "popc" => Some(BarKind::RedPopc),
            "and" => Some(BarKind::RedAnd),
            "or" => Some(BarKind::RedOr),
            _ => None,
        });
        let Some(kind) = kind else {
            return self.err("a reduction (.popc, .and, .or) is required");
        };
        self.n_ops(3, 4)?;
        let (mut d, mut dp) = (None, None);
        if kind == BarKind::RedPopc {
            self.need("u32")?;
            d = Some(self.dst(0, Ty::U32)?);
        } else {
            self.need("pred")?;
            dp = Some(self.pred_dst(0)?);
        }
        let id = self.src(1, Ty::U32)?;
        let count = if self.count() == 4 { Some(self.src(2, Ty::U32)?) } else { None };
        let p = Some(self.pred_src(self.count() - 1)?);
        Ok(Op::Bar { kind, id, count, aligned, d, dp, p })
    }

    fn shfl(&mut self) -> Res<Op> {
        if !self.has("sync") {
            return self.err("only shfl.sync is modelled: the form without .sync is not allowed from sm_70 on");
        }
        let mode = self.take(|m| {
            Some(match m {
                "up" => Shfl::Up,
                "down" => Shfl::Down,
                "bfly" => Shfl::Bfly,
                "idx" => Shfl::Idx,
                _ => return None,
            })
        });
        let Some(mode) = mode else {
            return self.err("`.up`, `.down`, `.bfly` or `.idx` is required");
        };
        self.need("b32")?;
        self.n_ops(5, 5)?;
        let (d, p) = self.value_and_pred(0)?;
        let a = self.src(1, Ty::B32)?;
        let (b, c) = (self.src(2, Ty::B32)?, self.src(3, Ty::B32)?);
        Ok(Op::Shfl { mode, d, p, a, b, c, mask: self.src(4, Ty::B32)? })
    }

    fn vote(&mut self) -> Res<Op> {
        if !self.has("sync") {
            return self.err("only vote.sync is modelled");
        }
        let mode = self.take(|m| {
            Some(match m {
                "all" => Vote::All,
                "any" => Vote::Any,
                "uni" => Vote::Uni,
                "ballot" => Vote::Ballot,
                _ => return None,
            })
        });
        let Some(mode) = mode else {
            return self.err("`.all`, `.any`, `.uni` or `.ballot` is required");
        };
        self.n_ops(3, 3)?;
        let (mut d, mut p) = (None, None);
        if mode == Vote::Ballot {
            self.need("b32")?;
            d = Some(self.dst(0, Ty::B32)?);
        } else {
            self.need("pred")?;
            p = Some(self.pred_dst(0)?);
        }
        let a = self.pred_src(1)?;
        Ok(Op::Vote { mode, d, p, a, mask: self.src(2, Ty::B32)? })
    }
}
