//! Names to planes, instructions to [`Op`]s, labels to instruction indices.
//!
//! The decoder is strict: an opcode, a modifier or an operand form that is not modelled is an error
//! that points at it, and register types are checked as the PTX ISA demands, so that text which a
//! real assembler would reject does not run here by accident.

mod ctrl;
mod float;
mod gate;
mod hop;
mod int;
mod matrix;
mod mem;
mod regs;

use crate::ast::{Ast, Entry, Instr, Operand, OperandKind, Span, Stmt, Var};
use crate::error::ParseError;
use crate::lexer::error_at;
use crate::memory::SHARED_BASE;
use crate::op::{Addr, Fill, Inst, LaneMask, Op, PSrc, Param, Pred, Program, Reg, Special};
use crate::types::{Space, Ty};
use smallvec::SmallVec;
use std::collections::HashMap;

pub(crate) type Res<T> = Result<T, ParseError>;

/// Largest parameter space (PTX ISA, from version 8.1 and sm_70 on).
const MAX_PARAMS: u64 = 32_764;

/// Decodes every entry.
pub(crate) fn decode(src: &str, ast: &Ast) -> Res<Vec<Program>> {
    let at = |word: &str| src.find(word).unwrap_or(0);
    match gate::arch(&ast.target) {
        Some(80..) => {}
        Some(_) | None => {
            return Err(error_at(src, at(".target"), format!("target `{}` is not modelled: sm_80 and later are", ast.target)));
        }
    }
    let (major, minor) = gate::target_version(&ast.target);
    if ast.version < (major, minor) {
        let m = format!("target `{}` needs .version {major}.{minor} or later", ast.target);
        return Err(error_at(src, at(".version"), m));
    }
    let mut lines = vec![0u32];
    lines.extend(src.bytes().enumerate().filter(|x| x.1 == b'\n').map(|x| x.0 as u32 + 1));
    ast.entries.iter().map(|e| Decoder::run(src, ast, e, &lines)).collect()
}

/// What a name means in some scope.
enum Sym {
    Reg(Ty, Option<Any>),
    Range { ty: Ty, count: u32, made: HashMap<u32, Any> },
    Label(u32),
    Shared(u64),
}

/// A register of either kind.
#[derive(Clone, Copy)]
enum Any {
    Val(Reg),
    Pred(Pred),
}

/// Result of a look-up.
enum Found {
    Reg(Reg, Ty),
    Pred(Pred),
    Shared(u64),
    Global(u32),
    Special(Special, Ty),
    Label(u32),
    Param(u64),
}

struct Decoder<'a> {
    src: &'a str,
    ast: &'a Ast,
    lines: &'a [u32],
    scopes: Vec<HashMap<&'a str, Sym>>,
    labels: Vec<Option<u32>>,
    fills: HashMap<(bool, Fill), Reg>,
    const_preds: [Option<Pred>; 2],
    prog: Program,
    shared_top: u64,
}

impl<'a> Decoder<'a> {
    fn run(src: &'a str, ast: &'a Ast, e: &'a Entry, lines: &'a [u32]) -> Res<Program> {
        let prog = Program {
            name: e.name.clone(),
            code: Vec::new(),
            r: Vec::new(),
            d: Vec::new(),
            preds: 0,
            const_preds: Vec::new(),
            params: Vec::new(),
            param_bytes: 0,
            static_shared: 0,
            dyn_align: 1,
            has_dynamic: false,
            reqntid: e.reqntid,
            maxntid: e.maxntid,
            uses_cp_async: false,
            uses_wgmma: false,
            awaits: false,
            overlaps: false,
            reqcluster: e.reqcluster,
            maxnreg: e.maxnreg,
            minnctapersm: e.minnctapersm,
            touched: Vec::new(),
        };
        let mut d = Decoder {
            src,
            ast,
            lines,
            scopes: vec![HashMap::new()],
            labels: Vec::new(),
            fills: HashMap::new(),
            const_preds: [None; 2],
            prog,
            shared_top: SHARED_BASE,
        };
        let mut off = 0u64;
        for p in &e.params {
            let Some(bytes) = p.bytes else {
                return d.err(p.span, "a parameter array needs a size");
            };
            off = off.next_multiple_of(u64::from(p.align));
            d.prog.params.push(Param { name: p.name.clone(), offset: off, bytes });
            off += bytes;
        }
        if off > MAX_PARAMS {
            return d.err(e.end, format!("{off} bytes of parameters are more than {MAX_PARAMS}"));
        }
        d.prog.param_bytes = off;
        for v in ast.vars.iter().filter(|v| v.space == Space::Shared && v.bytes.is_some()) {
            let at = d.shared_alloc(v)?;
            d.scopes[0].insert(&v.name, Sym::Shared(at));
        }
        let mut locals = HashMap::new();
        d.shared_locals(&e.body, &mut locals)?;
        d.prog.static_shared = d.shared_top - SHARED_BASE;
        for v in ast.vars.iter().filter(|v| v.space == Space::Shared && v.bytes.is_none()) {
            d.prog.has_dynamic = true;
            d.prog.dyn_align = d.prog.dyn_align.max(u64::from(v.align));
        }
        let base = d.shared_top.next_multiple_of(d.prog.dyn_align);
        for v in ast.vars.iter().filter(|v| v.space == Space::Shared && v.bytes.is_none()) {
            d.scopes[0].insert(&v.name, Sym::Shared(base));
        }
        d.block(&e.body, &locals)?;
        d.prog.code.push(Inst { guard: None, op: Op::Exit, start: e.end.start, end: e.end.end, line: d.line(e.end) });
        let labels = std::mem::take(&mut d.labels);
        for i in &mut d.prog.code {
            if let Op::Bra { target, .. } = &mut i.op {
                // Every label of a scope is placed before its scope closes.
                *target = labels[*target as usize].unwrap_or(u32::MAX);
            }
        }
        if d.prog.uses_wgmma {
            d.prog.touched = d.prog.code.iter().map(|i| regs::planes(&i.op)).collect();
        }
        Ok(d.prog)
    }

    fn line(&self, s: Span) -> u32 {
        self.lines.partition_point(|&l| l <= s.start) as u32
    }

    fn err<T>(&self, s: Span, m: impl Into<String>) -> Res<T> {
        Err(error_at(self.src, s.start as usize, m))
    }

    fn shared_alloc(&mut self, v: &Var) -> Res<u64> {
        let at = self.shared_top.next_multiple_of(u64::from(v.align));
        let top = at.saturating_add(v.bytes.unwrap_or(0));
        if top > SHARED_BASE + (1 << 20) {
            return self.err(v.span, "static shared memory is larger than 1 MiB");
        }
        self.shared_top = top;
        Ok(at)
    }

    /// Places the `.shared` variables declared inside the body (keyed by their span).
    fn shared_locals(&mut self, body: &'a [Stmt], out: &mut HashMap<u32, u64>) -> Res<()> {
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

    fn declare(&mut self, name: &'a str, span: Span, s: Sym) -> Res<()> {
        let Some(scope) = self.scopes.last_mut() else {
            return self.err(span, "no scope is open");
        };
        if scope.insert(name, s).is_some() {
            return self.err(span, format!("`{name}` is declared twice in this scope"));
        }
        Ok(())
    }

    fn block(&mut self, body: &'a [Stmt], locals: &HashMap<u32, u64>) -> Res<()> {
        self.scopes.push(HashMap::new());
        for s in body {
            if let Stmt::Label(n, span) = s {
                let id = self.labels.len() as u32;
                self.labels.push(None);
                self.declare(n, *span, Sym::Label(id))?;
            }
        }
        for s in body {
            match s {
                Stmt::Label(n, _) => {
                    if let Some(Sym::Label(id)) = self.scopes.last().and_then(|s| s.get(n.as_str())) {
                        self.labels[*id as usize] = Some(self.prog.code.len() as u32);
                    }
                }
                Stmt::Reg(ty, names) => {
                    for r in names {
                        if *ty == Ty::B128 {
                            return self.err(r.span, "128-bit registers are not modelled");
                        }
                        let sym = match r.count {
                            None => Sym::Reg(*ty, None),
                            Some(count) => Sym::Range { ty: *ty, count, made: HashMap::new() },
                        };
                        self.declare(&r.name, r.span, sym)?;
                    }
                }
                Stmt::Var(v) => {
                    let at = locals.get(&v.span.start).copied().unwrap_or(SHARED_BASE);
                    self.declare(&v.name, v.span, Sym::Shared(at))?;
                }
                Stmt::Block(b) => self.block(b, locals)?,
                Stmt::Instr(i) => self.instr(i)?,
            }
        }
        self.scopes.pop();
        Ok(())
    }

    fn instr(&mut self, ins: &'a Instr) -> Res<()> {
        self.gate(self.ast, ins)?;
        let guard = match &ins.guard {
            None => None,
            Some((n, neg, span)) => match self.find(n) {
                Some(Found::Pred(p)) => Some(PSrc { p, neg: *neg }),
                Some(_) => return self.err(*span, format!("`{n}` is not a predicate register")),
                None => return self.err(*span, format!("`{n}` is not declared")),
            },
        };
        let mut ix = Ix { d: self, ins, mods: ins.mods.iter().map(|m| (m.0.as_str(), m.1)).collect() };
        let op = ix.decode()?;
        ix.no_more_mods()?;
        let line = self.line(ins.span);
        self.prog.code.push(Inst { guard, op, start: ins.span.start, end: ins.span.end, line });
        Ok(())
    }

    fn make(prog: &mut Program, ty: Ty) -> Any {
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

    fn find(&mut self, name: &str) -> Option<Found> {
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
    fn fill(&mut self, wide: bool, f: Fill) -> Reg {
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

    fn konst(&mut self, wide: bool, v: u64) -> Reg {
        self.fill(wide, Fill::Const(v))
    }

    fn const_pred(&mut self, v: bool) -> Pred {
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

fn found(a: Any, ty: Ty) -> Found {
    match a {
        Any::Val(r) => Found::Reg(r, ty),
        Any::Pred(p) => Found::Pred(p),
    }
}

/// Special registers that are constant for the life of a warp.
fn special(name: &str) -> Option<(Special, Ty)> {
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

/// Decoding context of one instruction.
struct Ix<'d, 'a> {
    d: &'d mut Decoder<'a>,
    ins: &'a Instr,
    /// Modifiers not consumed yet.
    mods: SmallVec<[(&'a str, Span); 8]>,
}

impl<'a> Ix<'_, 'a> {
    fn err<T>(&self, m: impl Into<String>) -> Res<T> {
        self.d.err(self.ins.span, m)
    }

    fn err_op<T>(&self, i: usize, m: impl Into<String>) -> Res<T> {
        let s = self.ins.operands.get(i).map_or(self.ins.span, |o| o.span);
        self.d.err(s, m)
    }

    /// Consumes modifier `m` if present.
    fn has(&mut self, m: &str) -> bool {
        match self.mods.iter().position(|x| x.0 == m) {
            Some(i) => {
                self.mods.remove(i);
                true
            }
            None => false,
        }
    }

    /// Consumes the first modifier that `f` recognises.
    fn take<T>(&mut self, f: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (i, v) = self.mods.iter().enumerate().find_map(|(i, m)| Some((i, f(m.0)?)))?;
        self.mods.remove(i);
        Some(v)
    }

    fn need(&mut self, m: &str) -> Res<()> {
        if self.has(m) { Ok(()) } else { self.err(format!("`.{m}` is required here")) }
    }

    /// Consumes the next type.
    fn ty(&mut self) -> Res<Ty> {
        match self.take(Ty::parse) {
            Some(t) => Ok(t),
            None => {
                let at = self.mods.first().map_or(self.ins.span, |m| m.1);
                let what = self.mods.first().map_or(String::new(), |m| format!(", `.{}` is not modelled", m.0));
                self.d.err(at, format!("a type is expected{what}"))
            }
        }
    }

    fn no_more_mods(&self) -> Res<()> {
        match self.mods.first() {
            None => Ok(()),
            Some((m, s)) => self.d.err(*s, format!("modifier `.{m}` of `{}` is not modelled", self.ins.opcode)),
        }
    }

    fn count(&self) -> usize {
        self.ins.operands.len()
    }

    fn n_ops(&self, lo: usize, hi: usize) -> Res<()> {
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

    fn operand(&self, i: usize) -> Res<&'a Operand> {
        match self.ins.operands.get(i) {
            Some(o) => Ok(o),
            None => self.err(format!("operand {} is missing", i + 1)),
        }
    }

    fn bad_type<T>(&self, o: &Operand, name: &str, reg: Ty, want: Ty) -> Res<T> {
        self.d.err(o.span, format!("`{name}` is a .{} register but .{} is needed", reg.name(), want.name()))
    }

    /// A source value of type `ty`.
    fn src(&mut self, i: usize, ty: Ty) -> Res<Reg> {
        let o = self.operand(i)?;
        self.value(o, ty, false)
    }

    /// A source whose register may be wider than `ty` (`st`, `cvt`).
    fn src_wide(&mut self, i: usize, ty: Ty) -> Res<Reg> {
        let o = self.operand(i)?;
        self.value(o, ty, true)
    }

    fn value(&mut self, o: &'a Operand, ty: Ty, relaxed: bool) -> Res<Reg> {
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

    fn named(&mut self, o: &Operand, n: &str, off: i64, ty: Ty, relaxed: bool) -> Res<Reg> {
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
                Ok(self.d.konst(wide, at.wrapping_add(off as u64)))
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
    fn dst(&mut self, i: usize, ty: Ty) -> Res<Reg> {
        let o = self.operand(i)?;
        self.dest(o, ty, false)
    }

    fn dst_wide(&mut self, i: usize, ty: Ty) -> Res<Reg> {
        let o = self.operand(i)?;
        self.dest(o, ty, true)
    }

    fn dest(&mut self, o: &'a Operand, ty: Ty, relaxed: bool) -> Res<Reg> {
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

    fn pred_named(&mut self, i: usize, n: &str) -> Res<Pred> {
        match self.d.find(n) {
            Some(Found::Pred(p)) => Ok(p),
            Some(_) => self.err_op(i, format!("`{n}` is not a predicate register")),
            None => self.err_op(i, format!("`{n}` is not declared")),
        }
    }

    fn pred_dst(&mut self, i: usize) -> Res<Pred> {
        match &self.operand(i)?.kind {
            OperandKind::Name(n) => self.pred_named(i, n),
            OperandKind::Sink => Ok(self.scratch_pred()),
            _ => self.err_op(i, "a predicate register is expected here"),
        }
    }

    fn scratch_pred(&mut self) -> Pred {
        self.d.prog.preds += 1;
        Pred(self.d.prog.preds - 1)
    }

    fn pred_src(&mut self, i: usize) -> Res<PSrc> {
        match &self.operand(i)?.kind {
            OperandKind::Name(n) => Ok(PSrc { p: self.pred_named(i, n)?, neg: false }),
            OperandKind::Not(n) => Ok(PSrc { p: self.pred_named(i, n)?, neg: true }),
            OperandKind::Int(v) => Ok(PSrc { p: self.d.const_pred(*v != 0), neg: false }),
            _ => self.err_op(i, "a predicate is expected here"),
        }
    }

    /// `p` or `p|q`, where either may be `_`.
    fn pred_pair(&mut self, i: usize) -> Res<(Option<Pred>, Option<Pred>)> {
        match &self.operand(i)?.kind {
            OperandKind::Pair(p, q) => {
                let get = |s: &mut Self, n: &str| if n == "_" { Ok(None) } else { s.pred_named(i, n).map(Some) };
                Ok((get(self, p)?, get(self, q)?))
            }
            _ => Ok((Some(self.pred_dst(i)?), None)),
        }
    }

    /// Elements of `{...}`, or the operand itself.
    fn elements(&self, i: usize) -> Res<SmallVec<[&'a Operand; 4]>> {
        let o = self.operand(i)?;
        Ok(match &o.kind {
            OperandKind::Vec(v) => v.iter().collect(),
            _ => SmallVec::from_slice(&[o]),
        })
    }

    fn vec_src(&mut self, i: usize, ty: Ty, n: usize, relaxed: bool) -> Res<SmallVec<[Reg; 4]>> {
        let e = self.elements(i)?;
        if e.len() != n {
            return self.err_op(i, format!("{n} registers are needed here, not {}", e.len()));
        }
        e.into_iter().map(|o| self.value(o, ty, relaxed)).collect()
    }

    fn vec_dst(&mut self, i: usize, ty: Ty, n: usize, relaxed: bool) -> Res<SmallVec<[Reg; 4]>> {
        let e = self.elements(i)?;
        if e.len() != n {
            return self.err_op(i, format!("{n} registers are needed here, not {}", e.len()));
        }
        e.into_iter().map(|o| self.dest(o, ty, relaxed)).collect()
    }

    /// `[...]` in `space`.
    fn addr(&mut self, i: usize, space: Space) -> Res<Addr> {
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
    fn space(&mut self) -> Res<Space> {
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

    fn decode(&mut self) -> Res<Op> {
        let name = self.ins.opcode.as_str();
        if let Some(op) = self.hop_op(name)? {
            return Ok(op);
        }
        if let Some(op) = self.int_op(name)? {
            return Ok(op);
        }
        if let Some(op) = self.float_op(name)? {
            return Ok(op);
        }
        if let Some(op) = self.mem_op(name)? {
            return Ok(op);
        }
        if let Some(op) = self.matrix_op(name)? {
            return Ok(op);
        }
        if let Some(op) = self.ctrl_op(name)? {
            return Ok(op);
        }
        self.err(format!("instruction `{name}` is not modelled"))
    }
}
