//! Names of an entry: registers, shared variables, labels, special registers, and the planes that they stand for.

use crate::error::ParseError;
use crate::memory::SHARED_BASE;
use crate::program::op::{Fill, LaneMask, Program, Special};
use crate::program::operand::{Pred, Reg};
use crate::text::ast::{Ast, Span, Stmt, Var};
use crate::text::lexer::error_at;
use crate::types::{Space, Ty};
use std::collections::HashMap;

pub(super) type Res<T> = Result<T, ParseError>;

/// What a name means in some scope.
pub(super) enum Sym {
    Reg(Ty, Option<Any>),
    Range { ty: Ty, count: u32, made: HashMap<u32, Any> },
    Label(u32),
    Shared(u64),
}

/// A register of either kind.
#[derive(Clone, Copy)]
pub(super) enum Any {
    Val(Reg),
    Pred(Pred),
}

/// Result of a look-up.
pub(super) enum Found {
    Reg(Reg, Ty),
    Pred(Pred),
    Shared(u64),
    Global(u32),
    Special(Special, Ty),
    Label(u32),
    Param(u64),
}

pub(super) struct Decoder<'a> {
    pub(super) src: &'a str,
    pub(super) ast: &'a Ast,
    pub(super) lines: &'a [u32],
    pub(super) scopes: Vec<HashMap<&'a str, Sym>>,
    pub(super) labels: Vec<Option<u32>>,
    pub(super) fills: HashMap<(bool, Fill), Reg>,
    pub(super) const_preds: [Option<Pred>; 2],
    pub(super) prog: Program,
    pub(super) shared_top: u64,
}

pub(super) fn found(a: Any, ty: Ty) -> Found {
    match a {
        Any::Val(r) => Found::Reg(r, ty),
        Any::Pred(p) => Found::Pred(p),
    }
}

/// Special registers that are constant for the life of a warp.
pub(super) fn special(name: &str) -> Option<(Special, Ty)> {
    let name = name.strip_prefix('%')?;
    let dim = |s: &str| match s {
        "x" => Some(0),
        "y" => Some(1),
        "z" => Some(2),
        _ => None,
    };
    let s = match name.split_once('.') {
        Some(("tid", c)) => Special::Tid(dim(c)?),
        Some(("ntid", c)) => Special::Ntid(dim(c)?),
        Some(("ctaid", c)) => Special::Ctaid(dim(c)?),
        Some(("nctaid", c)) => Special::Nctaid(dim(c)?),
        Some(("clusterid", c)) => Special::ClusterId(dim(c)?),
        Some(("nclusterid", c)) => Special::NClusterId(dim(c)?),
        Some(("cluster_ctaid", c)) => Special::ClusterCtaId(dim(c)?),
        Some(("cluster_nctaid", c)) => Special::ClusterNCtaId(dim(c)?),
        Some(_) => return None,
        None => match name {
            "laneid" => Special::LaneId,
            "warpid" => Special::WarpId,
            "nwarpid" => Special::NWarpId,
            "lanemask_eq" => Special::LaneMask(LaneMask::Eq),
            "lanemask_le" => Special::LaneMask(LaneMask::Le),
            "lanemask_lt" => Special::LaneMask(LaneMask::Lt),
            "lanemask_ge" => Special::LaneMask(LaneMask::Ge),
            "lanemask_gt" => Special::LaneMask(LaneMask::Gt),
            "cluster_ctarank" => Special::ClusterCtaRank,
            "cluster_nctarank" => Special::ClusterNCtaRank,
            "smid" => Special::SmId,
            "nsmid" => Special::NSmId,
            "gridid" => return Some((Special::GridId, Ty::U64)),
            "dynamic_smem_size" => Special::DynSmemSize,
            "total_smem_size" => Special::TotalSmemSize,
            _ => return None,
        },
    };
    Some((s, Ty::U32))
}

impl<'a> Decoder<'a> {
    pub(super) fn err<T>(&self, s: Span, m: impl Into<String>) -> Res<T> {
        Err(error_at(self.src, s.start as usize, m))
    }

    pub(super) fn declare(&mut self, name: &'a str, span: Span, s: Sym) -> Res<()> {
        let Some(scope) = self.scopes.last_mut() else {
            return self.err(span, "no scope is open");
        };
        if scope.insert(name, s).is_some() {
            return self.err(span, format!("`{name}` is declared twice in this scope"));
        }
        Ok(())
    }

    pub(super) fn line(&self, s: Span) -> u32 {
        self.lines.partition_point(|&l| l <= s.start) as u32
    }

    pub(super) fn shared_alloc(&mut self, v: &Var) -> Res<u64> {
        let at = self.shared_top.next_multiple_of(u64::from(v.align));
        let top = at.saturating_add(v.bytes.unwrap_or(0));
        if top > SHARED_BASE + (1 << 20) {
            return self.err(v.span, "static shared memory is larger than 1 MiB");
        }
        self.shared_top = top;
        Ok(at)
    }

    /// Places the `.shared` variables declared inside the body (keyed by their span).
    pub(super) fn shared_locals(&mut self, body: &'a [Stmt], out: &mut HashMap<u32, u64>) -> Res<()> {
        for s in body {
            match s {
                Stmt::Var(v) => {
                    let at = self.shared_alloc(v)?;
                    out.insert(v.span.start, at);
                }
                Stmt::Block(b) => self.shared_locals(b, out)?,
                Stmt::Label(..) | Stmt::Instr(_) | Stmt::Reg(..) => {}
            }
        }
        Ok(())
    }

    pub(super) fn make(prog: &mut Program, ty: Ty) -> Any {
        if ty == Ty::Pred {
            prog.preds += 1;
            Any::Pred(Pred(prog.preds - 1))
        } else if ty.bits() == 64 {
            prog.d.push(Fill::Undefined);
            Any::Val(Reg::d(prog.d.len() as u32 - 1))
        } else {
            prog.r.push(Fill::Undefined);
            Any::Val(Reg::r(prog.r.len() as u32 - 1))
        }
    }

    pub(super) fn find(&mut self, name: &str) -> Option<Found> {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let prog = &mut self.prog;
        for scope in self.scopes.iter_mut().rev() {
            match scope.get_mut(name) {
                Some(Sym::Reg(ty, slot)) => {
                    let any = *slot.get_or_insert_with(|| Self::make(prog, *ty));
                    return Some(found(any, *ty));
                }
                Some(Sym::Label(id)) => return Some(Found::Label(*id)),
                Some(Sym::Shared(at)) => return Some(Found::Shared(*at)),
                Some(Sym::Range { .. }) | None => {}
            }
            // The digits may be split anywhere: `%r1<20>` declares %r10..%r119.
            for cut in (stem.len()..name.len()).rev() {
                let (pre, num) = name.split_at(cut);
                if num.len() > 1 && num.starts_with('0') {
                    continue;
                }
                let (Some(Sym::Range { ty, count, made }), Ok(n)) = (scope.get_mut(pre), num.parse::<u32>()) else {
                    continue;
                };
                if n < *count {
                    let any = *made.entry(n).or_insert_with(|| Self::make(prog, *ty));
                    return Some(found(any, *ty));
                }
            }
        }
        if let Some(p) = self.prog.params.iter().find(|p| p.name == name) {
            return Some(Found::Param(p.offset));
        }
        if let Some(i) = self.ast.vars.iter().position(|v| v.name == name && v.space != Space::Shared) {
            return Some(Found::Global(i as u32));
        }
        special(name).map(|(s, t)| Found::Special(s, t))
    }

    /// The plane that holds `f` in every lane.
    pub(super) fn fill(&mut self, wide: bool, f: Fill) -> Reg {
        if let Some(r) = self.fills.get(&(wide, f)) {
            return *r;
        }
        let r = if wide {
            self.prog.d.push(f);
            Reg::d(self.prog.d.len() as u32 - 1)
        } else {
            self.prog.r.push(f);
            Reg::r(self.prog.r.len() as u32 - 1)
        };
        self.fills.insert((wide, f), r);
        r
    }

    pub(super) fn konst(&mut self, wide: bool, v: u64) -> Reg {
        self.fill(wide, Fill::Const(v))
    }

    pub(super) fn const_pred(&mut self, v: bool) -> Pred {
        if let Some(p) = self.const_preds[usize::from(v)] {
            return p;
        }
        let p = Pred(self.prog.preds);
        self.prog.preds += 1;
        self.prog.const_preds.push((p.0, v));
        self.const_preds[usize::from(v)] = Some(p);
        p
    }
}
