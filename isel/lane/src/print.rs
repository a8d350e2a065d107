//! The text of a lane program, for people and for error messages. Deterministic; nothing parses it.
//!
//! ```text
//! lane @add warps=4 lanes=32 shared=512
//!   param 0: i64 = pointer of view 0
//!   alloc s0: 512 bytes at 0, align 16 // reduction
//!   l2:i32 = special lane
//!   l5:f32 = load.global [l4 + 16] if l3 else l1
//!   for l7:i32 in l6..l2 step l6 carry l8:f32 = l5 {
//!     …
//!     yield l9
//!   } -> l10:f32
//! ```

use super::table::{Shown, place_of};
use super::unit::{GroupOperand, Multiply, OperandA, Place, Reduction, Roles};
use super::{
    AllocId, Atomic, AtomicKind, BinOp, Block, Carried, For, If, Inst, LTy, LVal, MatrixId, ParamSource, Program, ShuffleFrom, Space,
    Special, UnOp, Vals, While,
};
use smallvec::SmallVec;
use std::fmt::{self, Write};
use tilelift_ir::{CacheHint, CmpOp, num};

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane @{} warps={} lanes={} shared={}", self.name, self.warps, self.lanes, self.shared_bytes)?;
        if self.cluster > 1 {
            write!(f, " cluster={}", self.cluster)?;
        }
        f.write_char('\n')?;
        for (i, p) in self.params.iter().enumerate() {
            write!(f, "  param {i}: {} = ", p.ty)?;
            match p.source {
                ParamSource::Pointer(v) => writeln!(f, "pointer of view {v}")?,
                ParamSource::Extent(v, d) => writeln!(f, "extent {d} of view {v}")?,
                ParamSource::Stride(v, d) => writeln!(f, "stride {d} of view {v}")?,
                ParamSource::Scalar(a) => writeln!(f, "scalar {a}")?,
                ParamSource::Grid(a) => writeln!(f, "grid {a}")?,
                ParamSource::Tensor(t) => {
                    let rank = usize::from(t.rank);
                    let rounded = if t.tf32 { ", tf32" } else { "" };
                    writeln!(
                        f,
                        "boxes {:?} of view {}, order {:?}, swizzle {}{rounded}",
                        &t.extents[..rank],
                        t.view,
                        &t.order[..rank],
                        t.swizzle
                    )?;
                }
            }
        }
        for (id, a) in self.allocs.iter() {
            writeln!(f, "  alloc {id}: {} bytes at {}, align {} // {}", a.bytes, a.offset, a.align, a.purpose)?;
        }
        block(self, f, &self.body, 1)
    }
}

/// The one-line text of an instruction; of a control instruction its first line, without the blocks.
pub fn inst_text(program: &Program, inst: &Inst) -> String {
    let mut s = String::new();
    // Writing to a string can't fail.
    let _ = inst.write(program, &mut s);
    s
}

/// The same with long lists of values cut down to their ends, for messages.
pub fn inst_brief(program: &Program, inst: &Inst) -> String {
    let text = inst_text(program, inst);
    let parts: Vec<&str> = text.split(", ").collect();
    // Values and nothing else: the first of a list has a word in front of it, the last one words behind.
    let value = |part: &str| {
        let name = part.split(':').next().unwrap_or(part);
        !part.contains(' ') && name.strip_prefix('l').is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
    };
    let mut out: Vec<&str> = Vec::new();
    for run in parts.chunk_by(|a, b| value(a) && value(b)) {
        if run.len() > 4 { out.extend([run[0], "…"]) } else { out.extend(run) }
    }
    out.join(", ")
}

fn block(p: &Program, f: &mut dyn Write, insts: &Block, depth: usize) -> fmt::Result {
    for inst in insts {
        write!(f, "{:1$}", "", depth * 2)?;
        inst.write(p, f)?;
        f.write_char('\n')?;
        if let Inst::For(l) = inst {
            block(p, f, &l.body, depth + 1)?;
            close_loop(p, f, &l.carried, depth)?;
        } else if let Inst::While(l) = inst {
            block(p, f, &l.test, depth + 1)?;
            writeln!(f, "{:2$}while {}", "", l.condition, depth * 2 + 2)?;
            block(p, f, &l.body, depth + 1)?;
            close_loop(p, f, &l.carried, depth)?;
        } else if let Inst::If(c) = inst {
            block(p, f, &c.then, depth + 1)?;
            yields(f, c.results.iter().map(|r| r.1), depth + 1)?;
            writeln!(f, "{:1$}}} else {{", "", depth * 2)?;
            block(p, f, &c.otherwise, depth + 1)?;
            yields(f, c.results.iter().map(|r| r.2), depth + 1)?;
            close(p, f, c.results.iter().map(|r| r.0), depth)?;
        } else if let Inst::Roles(r) = inst {
            for role in &r.roles {
                write!(f, "{:1$}{2} warps {3}..{4}", "", depth * 2 + 2, role.name, role.first, role.first + role.warps)?;
                if role.idle > 0 {
                    write!(f, " and {} idle", role.idle)?;
                }
                f.write_str(if role.single { " one lane" } else { "" })?;
                if let Some(n) = role.registers {
                    write!(f, " registers {n}")?;
                }
                f.write_str(" {\n")?;
                block(p, f, &role.body, depth + 2)?;
                writeln!(f, "{:1$}}}", "", depth * 2 + 2)?;
            }
            writeln!(f, "{:1$}}}", "", depth * 2)?;
        }
    }
    Ok(())
}

fn close_loop(p: &Program, f: &mut dyn Write, carried: &[Carried], depth: usize) -> fmt::Result {
    yields(f, carried.iter().map(|c| c.next), depth + 1)?;
    close(p, f, carried.iter().map(|c| c.result), depth)
}

fn yields(f: &mut dyn Write, vals: impl ExactSizeIterator<Item = LVal>, depth: usize) -> fmt::Result {
    if vals.len() == 0 {
        return Ok(());
    }
    write!(f, "{:1$}yield ", "", depth * 2)?;
    list(f, vals)?;
    f.write_char('\n')
}

fn close(p: &Program, f: &mut dyn Write, results: impl ExactSizeIterator<Item = LVal>, depth: usize) -> fmt::Result {
    write!(f, "{:1$}}}", "", depth * 2)?;
    if results.len() > 0 {
        f.write_str(" -> ")?;
        defs(p, f, results)?;
    }
    f.write_char('\n')
}

/// A list of values with commas between them.
fn list(f: &mut dyn Write, vals: impl IntoIterator<Item = LVal>) -> fmt::Result {
    for (i, v) in vals.into_iter().enumerate() {
        write!(f, "{}{v}", if i > 0 { ", " } else { "" })?;
    }
    Ok(())
}

fn defs(p: &Program, f: &mut dyn Write, vals: impl Iterator<Item = LVal>) -> fmt::Result {
    for (i, v) in vals.enumerate() {
        f.write_str(if i > 0 { ", " } else { "" })?;
        def(p, f, v)?;
    }
    Ok(())
}

/// A value with its type; a value that the program doesn't have (the verifier refuses it) prints with `?`.
fn def(p: &Program, f: &mut dyn Write, v: LVal) -> fmt::Result {
    match p.vals.get(v) {
        Some(ty) => write!(f, "{v}:{ty}"),
        None => write!(f, "{v}:?"),
    }
}

/// What an instruction makes, in front of its text.
pub(crate) fn results(p: &Program, f: &mut dyn Write, vals: &[LVal]) -> fmt::Result {
    if vals.is_empty() {
        return Ok(());
    }
    defs(p, f, vals.iter().copied())?;
    f.write_str(" = ")
}

fn carry(p: &Program, f: &mut dyn Write, carried: &[Carried]) -> fmt::Result {
    for (i, c) in carried.iter().enumerate() {
        f.write_str(if i > 0 { ", " } else { " carry " })?;
        def(p, f, c.param)?;
        write!(f, " = {}", c.init)?;
    }
    Ok(())
}

fn word(f: &mut fmt::Formatter<'_>, name: impl fmt::Debug) -> fmt::Result {
    f.write_str(&format!("{name:?}").to_lowercase())
}

// Parts of texts, for the rows of the tables.

/// A word where something is so.
pub(crate) fn flag(on: Shown<'_, bool>, text: &'static str) -> &'static str {
    if *on.it { text } else { "" }
}

/// Something that may be absent, with a text in front of it.
pub(crate) fn maybe(text: &str, what: Option<impl fmt::Display>) -> String {
    what.map_or(String::new(), |x| format!("{text}{x}"))
}

/// An operand with its type.
pub(crate) fn typed(v: Shown<'_, LVal>) -> String {
    let mut s = String::new();
    // Writing to a string can't fail.
    let _ = def(v.program, &mut s, *v.it);
    s
}

/// The number that bits stand for under the type of a value.
pub(crate) fn bits(v: Shown<'_, LVal>, bits: Shown<'_, u64>) -> String {
    let bits = *bits.it;
    match v.program.vals.get(*v.it) {
        Some(&LTy::Num(s)) if s.is_float() => format!("{:?} // {bits:#x}", num::from_bits(bits, s)),
        Some(LTy::Num(_)) => (bits as i64).to_string(),
        Some(LTy::B32) | None => format!("{bits:#x}"),
    }
}

macro_rules! shown {
    ($($ty:ty => |$it:ident, $f:ident| $show:expr;)*) => {
        $(impl fmt::Display for Shown<'_, $ty> {
            fn fmt(&self, $f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $it = self.it;
                $show
            }
        })*
    };
}

shown! {
    u32 => |n, f| n.fmt(f);
    LVal => |v, f| v.fmt(f);
    AllocId => |a, f| a.fmt(f);
    MatrixId => |m, f| m.fmt(f);
    CmpOp => |op, f| op.fmt(f);
    UnOp => |op, f| word(f, op);
    BinOp => |op, f| word(f, op);
    Vals => |all, f| list(f, all.iter().copied());
    SmallVec<[LVal; 16]> => |all, f| list(f, all.iter().copied());
    Option<LVal> => |guard, f| guard.map_or(Ok(()), |g| write!(f, " if {g}"));
    Option<Reduction> => |op, f| op.map_or(Ok(()), |r| write!(f, ".{r}"));
    CacheHint => |cache, f| if *cache == CacheHint::Normal { Ok(()) } else { write!(f, ".{cache}") };
    Place => |at, f| match at.offset {
        0 => write!(f, "[{}]", at.addr),
        o if o < 0 => write!(f, "[{} - {}]", at.addr, o.unsigned_abs()),
        o => write!(f, "[{} + {o}]", at.addr),
    };
    ShuffleFrom => |from, f| match from {
        ShuffleFrom::Xor(mask) => write!(f, "xor {mask}"),
        ShuffleFrom::Lane(l) => write!(f, "lane {l}"),
    };
    Special => |what, f| match what {
        Special::Lane => f.write_str("lane"),
        Special::Warp => f.write_str("warp"),
        Special::ProgramId(a) => write!(f, "program_id {a}"),
        Special::NumPrograms(a) => write!(f, "num_programs {a}"),
        Special::Worker => f.write_str("worker"),
        Special::Workers => f.write_str("workers"),
        Special::ClusterRank => f.write_str("cluster_rank"),
    };
}

// What has fields of its own.

fn operand(p: &Program, f: &mut dyn Write, o: &GroupOperand) -> fmt::Result {
    let along = if o.panels.along_k { "k" } else { "mn" };
    write!(f, "{} along {along} swizzle {} stride {}", Shown { program: p, it: &o.at }, o.panels.swizzle, o.panels.stride)
}

impl Atomic {
    pub(crate) fn write(&self, p: &Program, f: &mut dyn Write) -> fmt::Result {
        results(p, f, self.results())?;
        let space = match self.space {
            Space::Global => "global",
            Space::Shared => "shared",
        };
        match self.kind {
            AtomicKind::Op(op) => write!(f, "atomic.{space}.{op}.{}.{} ", self.order, self.scope)?,
            AtomicKind::Cas(_) => write!(f, "atomic.{space}.cas.{}.{} ", self.order, self.scope)?,
        }
        write!(f, "{}", Shown { program: p, it: &place_of(self.addr, self.offset) })?;
        if let AtomicKind::Cas(c) = self.kind {
            write!(f, " from {c}")?;
        }
        write!(f, " by {}{}", self.value, Shown { program: p, it: &self.guard })
    }
}

impl Multiply {
    pub(crate) fn write(&self, p: &Program, f: &mut dyn Write) -> fmt::Result {
        defs(p, f, self.dsts.iter().copied())?;
        write!(f, " = {} n {} ", self.instr, self.n)?;
        match &self.a {
            OperandA::Shared(o) => operand(p, f, o)?,
            OperandA::Regs(words) => list(f, words.iter().copied())?,
        }
        f.write_char(' ')?;
        operand(p, f, &self.b)?;
        f.write_str(" on ")?;
        list(f, self.c.iter().copied())?;
        write!(f, "{}", Shown { program: p, it: &self.accumulate })
    }
}

impl For {
    pub(crate) fn write(&self, p: &Program, f: &mut dyn Write) -> fmt::Result {
        f.write_str(if self.runs { "for_once " } else { "for " })?;
        def(p, f, self.iv)?;
        write!(f, " in {}..{} step {}", self.lo, self.hi, self.step)?;
        carry(p, f, &self.carried)?;
        f.write_str(" {")
    }
}

impl While {
    pub(crate) fn write(&self, p: &Program, f: &mut dyn Write) -> fmt::Result {
        f.write_str("loop")?;
        carry(p, f, &self.carried)?;
        f.write_str(" {")
    }
}

impl If {
    pub(crate) fn write(&self, _: &Program, f: &mut dyn Write) -> fmt::Result {
        write!(f, "if {} {{", self.condition)
    }
}

impl Roles {
    pub(crate) fn write(&self, _: &Program, f: &mut dyn Write) -> fmt::Result {
        f.write_str("roles {")
    }
}
