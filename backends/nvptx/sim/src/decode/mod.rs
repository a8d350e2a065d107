//! Names to planes, instructions to [`Op`]s, labels to instruction indices.
//!
//! The decoder is strict: an opcode, a modifier or an operand form that is not modelled is an error
//! that points at it, and register types are checked as the PTX ISA demands, so that text which a
//! real assembler would reject does not run here by accident.

mod ctrl;
mod float;
mod gate;
mod hop;
mod instr;
mod int;
mod matrix;
mod mem;
mod names;
mod regs;

use crate::decode::instr::Ix;
use crate::decode::names::{Decoder, Found, Res, Sym};
use crate::memory::SHARED_BASE;
use crate::program::op::{Inst, Op, Param, Program};
use crate::program::operand::PSrc;
use crate::text::ast::{Ast, Entry, Instr, Stmt};
use crate::text::lexer::error_at;
use crate::types::{Space, Ty};
use std::collections::HashMap;

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
}

impl Ix<'_, '_> {
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
