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

use super::unit::{GroupOperand, LeftOperand, Place, Unit};
use super::{AtomicKind, Block, Carried, Inst, LTy, LVal, ParamSource, Program, ShuffleFrom, Special};
use std::fmt::{self, Write};
use tilelift_ir::{CacheHint, num};

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
                        "boxes {:?} of view {}, order {:?}, span {}{rounded}",
                        &t.extents[..rank],
                        t.view,
                        &t.order[..rank],
                        t.span
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
    let _ = head(program, &mut s, inst);
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
        head(p, f, inst)?;
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

fn list(f: &mut dyn Write, vals: impl Iterator<Item = LVal>) -> fmt::Result {
    for (i, v) in vals.enumerate() {
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

fn place(f: &mut dyn Write, addr: LVal, offset: i32) -> fmt::Result {
    match offset {
        0 => write!(f, "[{addr}]"),
        o if o < 0 => write!(f, "[{addr} - {}]", o.unsigned_abs()),
        o => write!(f, "[{addr} + {o}]"),
    }
}

fn guard(f: &mut dyn Write, g: Option<LVal>) -> fmt::Result {
    match g {
        Some(g) => write!(f, " if {g}"),
        None => Ok(()),
    }
}

fn carry(p: &Program, f: &mut dyn Write, carried: &[Carried]) -> fmt::Result {
    for (i, c) in carried.iter().enumerate() {
        f.write_str(if i > 0 { ", " } else { " carry " })?;
        def(p, f, c.param)?;
        write!(f, " = {}", c.init)?;
    }
    Ok(())
}

fn constant(f: &mut dyn Write, ty: Option<LTy>, bits: u64) -> fmt::Result {
    match ty {
        Some(LTy::Num(s)) if s.is_float() => write!(f, "const {:?} // {bits:#x}", num::from_bits(bits, s)),
        Some(LTy::Num(_)) => write!(f, "const {}", bits as i64),
        Some(LTy::B32) | None => write!(f, "const {bits:#x}"),
    }
}

fn word(name: impl fmt::Debug) -> String {
    format!("{name:?}").to_lowercase()
}

/// The suffix of an access with a cache hint.
fn hint(cache: CacheHint) -> String {
    if cache == CacheHint::Normal { String::new() } else { format!(".{cache}") }
}

fn head(p: &Program, f: &mut dyn Write, inst: &Inst) -> fmt::Result {
    let define = |f: &mut dyn Write, vals: &[LVal]| -> fmt::Result {
        defs(p, f, vals.iter().copied())?;
        f.write_str(" = ")
    };
    match inst {
        Inst::Undefined { dst } => {
            define(f, &[*dst])?;
            f.write_str("undefined")
        }
        Inst::Const { dst, bits } => {
            define(f, &[*dst])?;
            constant(f, p.vals.get(*dst).copied(), *bits)
        }
        Inst::Param { dst, index } => {
            define(f, &[*dst])?;
            write!(f, "param {index}")
        }
        Inst::Special { dst, what } => {
            define(f, &[*dst])?;
            match what {
                Special::Lane => f.write_str("special lane"),
                Special::Warp => f.write_str("special warp"),
                Special::ProgramId(a) => write!(f, "special program_id {a}"),
                Special::NumPrograms(a) => write!(f, "special num_programs {a}"),
                Special::Worker => f.write_str("special worker"),
                Special::Workers => f.write_str("special workers"),
                Special::ClusterRank => f.write_str("special cluster_rank"),
            }
        }
        Inst::SharedAddr { dst, alloc } => {
            define(f, &[*dst])?;
            write!(f, "shared_addr {alloc}")?;
            match p.allocs.get(*alloc) {
                Some(a) => write!(f, " // {}", a.purpose),
                None => Ok(()),
            }
        }
        Inst::Un { dst, op, a } => {
            define(f, &[*dst])?;
            write!(f, "{} {a}", word(op))
        }
        Inst::Bin { dst, op, a, b } => {
            define(f, &[*dst])?;
            write!(f, "{} {a}, {b}", word(op))
        }
        Inst::Fma { dst, a, b, c } => {
            define(f, &[*dst])?;
            write!(f, "fma {a}, {b}, {c}")
        }
        Inst::MadWide { dst, a, b, c } => {
            define(f, &[*dst])?;
            write!(f, "mad_wide {a}, {b}, {c}")
        }
        Inst::Cmp { dst, op, a, b } => {
            define(f, &[*dst])?;
            write!(f, "cmp {op} {a}, {b}")
        }
        Inst::Select { dst, c, a, b } => {
            define(f, &[*dst])?;
            write!(f, "select {c}, {a}, {b}")
        }
        Inst::Cvt { dst, a } => {
            define(f, &[*dst])?;
            f.write_str("cvt ")?;
            def(p, f, *a)
        }
        Inst::RoundTf32 { dst, a } => {
            define(f, &[*dst])?;
            write!(f, "round_tf32 {a}")
        }
        Inst::Bitcast { dst, a } => {
            define(f, &[*dst])?;
            f.write_str("bitcast ")?;
            def(p, f, *a)
        }
        Inst::Pack { dst, parts } => {
            define(f, &[*dst])?;
            f.write_str("pack ")?;
            list(f, parts.iter().copied())
        }
        Inst::Unpack { dsts, a } => {
            define(f, dsts)?;
            write!(f, "unpack {a}")
        }
        Inst::Divide { dsts, a, b } => {
            define(f, dsts)?;
            f.write_str("divide ")?;
            list(f, a.iter().copied())?;
            f.write_str(" by ")?;
            list(f, b.iter().copied())
        }
        Inst::LoadGlobal { dsts, addr, offset, guard: g, other, cache } => {
            define(f, dsts)?;
            write!(f, "load.global{} ", hint(*cache))?;
            place(f, *addr, *offset)?;
            guard(f, *g)?;
            if !other.is_empty() {
                f.write_str(" else ")?;
                list(f, other.iter().copied())?;
            }
            Ok(())
        }
        Inst::StoreGlobal { srcs, addr, offset, guard: g, cache } => {
            write!(f, "store.global{} ", hint(*cache))?;
            place(f, *addr, *offset)?;
            f.write_str(" = ")?;
            list(f, srcs.iter().copied())?;
            guard(f, *g)
        }
        Inst::Atomic(a) => {
            if let Some(d) = a.dst {
                define(f, &[d])?;
            }
            let space = word(a.space);
            match a.kind {
                AtomicKind::Op(op) => write!(f, "atomic.{space}.{op}.{}.{} ", a.order, a.scope)?,
                AtomicKind::Cas(_) => write!(f, "atomic.{space}.cas.{}.{} ", a.order, a.scope)?,
            }
            place(f, a.addr, a.offset)?;
            if let AtomicKind::Cas(c) = a.kind {
                write!(f, " from {c}")?;
            }
            write!(f, " by {}", a.value)?;
            guard(f, a.guard)
        }
        Inst::LoadShared { dsts, addr, offset } => {
            define(f, dsts)?;
            f.write_str("load.shared ")?;
            place(f, *addr, *offset)
        }
        Inst::StoreShared { srcs, addr, offset, guard: g } => {
            f.write_str("store.shared ")?;
            place(f, *addr, *offset)?;
            f.write_str(" = ")?;
            list(f, srcs.iter().copied())?;
            guard(f, *g)
        }
        Inst::LoadMatrix { dsts, addr, offset, trans } => {
            define(f, dsts)?;
            f.write_str(if *trans { "load_matrix.trans " } else { "load_matrix " })?;
            place(f, *addr, *offset)
        }
        Inst::CopyAsync { shared, offset, global, global_offset, bytes, valid } => {
            write!(f, "copy_async.{bytes} ")?;
            place(f, *shared, *offset)?;
            f.write_str(" = global ")?;
            place(f, *global, *global_offset)?;
            guard(f, *valid)
        }
        Inst::CommitCopies => f.write_str("commit_copies"),
        Inst::WaitCopies { pending } => write!(f, "wait_copies {pending}"),
        Inst::Barrier => f.write_str("barrier"),
        Inst::Assert { condition } => write!(f, "assert {condition}"),
        Inst::Shuffle { dst, a, from } => {
            define(f, &[*dst])?;
            match from {
                ShuffleFrom::Xor(mask) => write!(f, "shuffle {a} xor {mask}"),
                ShuffleFrom::Lane(l) => write!(f, "shuffle {a} lane {l}"),
            }
        }
        Inst::Matrix { dsts, instr, a, b, c } => {
            define(f, dsts)?;
            write!(f, "{instr} (")?;
            list(f, a.iter().copied())?;
            f.write_str(") (")?;
            list(f, b.iter().copied())?;
            f.write_str(") (")?;
            list(f, c.iter().copied())?;
            f.write_char(')')
        }
        Inst::For(l) => {
            f.write_str(if l.runs { "for_once " } else { "for " })?;
            def(p, f, l.iv)?;
            write!(f, " in {}..{} step {}", l.lo, l.hi, l.step)?;
            carry(p, f, &l.carried)?;
            f.write_str(" {")
        }
        Inst::While(l) => {
            f.write_str("loop")?;
            carry(p, f, &l.carried)?;
            f.write_str(" {")
        }
        Inst::If(c) => write!(f, "if {} {{", c.condition),
        Inst::Unit(u) => unit(p, f, u),
        Inst::Roles(_) => f.write_str("roles {"),
    }
}

fn at(f: &mut dyn Write, to: &Place) -> fmt::Result {
    place(f, to.addr, to.offset)
}

fn unit(p: &Program, f: &mut dyn Write, u: &Unit) -> fmt::Result {
    match u {
        Unit::InitBarrier { barrier, count, guard: g } => {
            f.write_str("init_barrier ")?;
            at(f, barrier)?;
            write!(f, " count {count}")?;
            guard(f, *g)
        }
        Unit::PublishBarriers => f.write_str("publish_barriers"),
        Unit::AwaitPrevious => f.write_str("await_previous"),
        Unit::Arrive { barrier, guard: g } => {
            f.write_str("arrive ")?;
            at(f, barrier)?;
            guard(f, *g)
        }
        Unit::ArriveExpect { barrier, bytes, guard: g } => {
            f.write_str("arrive ")?;
            at(f, barrier)?;
            write!(f, " expect {bytes}")?;
            guard(f, *g)
        }
        Unit::Wait { barrier, parity } => {
            f.write_str("wait ")?;
            at(f, barrier)?;
            write!(f, " parity {parity}")
        }
        Unit::Pass { barrier } => {
            f.write_str("pass ")?;
            at(f, barrier)
        }
        Unit::PrefetchMap { map, guard: g } => {
            write!(f, "prefetch_map {map}")?;
            guard(f, *g)
        }
        Unit::BulkLoad { map, to, at: from, barrier, ranks, guard: g } => {
            f.write_str("bulk_load ")?;
            at(f, to)?;
            write!(f, " = boxes {map} (")?;
            list(f, from.iter().copied())?;
            f.write_str(") arrives ")?;
            at(f, barrier)?;
            if let Some(r) = ranks {
                write!(f, " ranks {r}")?;
            }
            guard(f, *g)
        }
        Unit::BulkStore { map, from, at: to, reduce, guard: g } => {
            f.write_str("bulk_store")?;
            if let Some(r) = reduce {
                write!(f, ".{r}")?;
            }
            write!(f, " boxes {map} (")?;
            list(f, to.iter().copied())?;
            f.write_str(") = ")?;
            at(f, from)?;
            guard(f, *g)
        }
        Unit::CommitStores { guard: g } => {
            f.write_str("commit_stores")?;
            guard(f, *g)
        }
        Unit::WaitStoresRead { pending, guard: g } => {
            write!(f, "wait_stores_read {pending}")?;
            guard(f, *g)
        }
        Unit::Hold => f.write_str("hold"),
        Unit::FenceUnits => f.write_str("fence_units"),
        Unit::GroupBarrier { warps } => write!(f, "group_barrier {warps}"),
        Unit::StoreMatrix { srcs, to } => {
            f.write_str("store_matrix ")?;
            at(f, to)?;
            f.write_str(" = ")?;
            list(f, srcs.iter().copied())
        }
        Unit::FenceMatrices => f.write_str("fence_matrices"),
        Unit::Multiply(m) => {
            defs(p, f, m.dsts.iter().copied())?;
            write!(f, " = {} n {} ", m.instr, m.n)?;
            match &m.a {
                LeftOperand::Shared(o) => operand(f, o)?,
                LeftOperand::Regs(words) => list(f, words.iter().copied())?,
            }
            f.write_char(' ')?;
            operand(f, &m.b)?;
            f.write_str(" on ")?;
            list(f, m.c.iter().copied())?;
            guard(f, m.accumulate)
        }
        Unit::CommitMatrices => f.write_str("commit_matrices"),
        Unit::WaitMatrices { pending } => write!(f, "wait_matrices {pending}"),
        Unit::NamedBarrier { id, warps, wait } => {
            write!(f, "named_barrier_{} {id} warps {warps}", if *wait { "sync" } else { "arrive" })
        }
        Unit::ClusterArrive { relaxed } => f.write_str(if *relaxed { "cluster_arrive relaxed" } else { "cluster_arrive" }),
        Unit::ClusterWait => f.write_str("cluster_wait"),
        Unit::Remote { dst, place, rank } => {
            def(p, f, *dst)?;
            f.write_str(" = remote ")?;
            at(f, place)?;
            write!(f, " of {rank}")
        }
        Unit::RemoteLoad { dsts, from } => {
            defs(p, f, dsts.iter().copied())?;
            f.write_str(" = load.remote ")?;
            at(f, from)
        }
        Unit::RemoteStore { srcs, to, guard: g } => {
            f.write_str("store.remote ")?;
            at(f, to)?;
            f.write_str(" = ")?;
            list(f, srcs.iter().copied())?;
            guard(f, *g)
        }
        Unit::RemoteStoreAsync { srcs, to, barrier, guard: g } => {
            f.write_str("store_async.remote ")?;
            at(f, to)?;
            f.write_str(" = ")?;
            list(f, srcs.iter().copied())?;
            f.write_str(" arrives ")?;
            at(f, barrier)?;
            guard(f, *g)
        }
        Unit::RemoteArrive { barrier, guard: g } => {
            f.write_str("arrive.remote ")?;
            at(f, barrier)?;
            guard(f, *g)
        }
    }
}

fn operand(f: &mut dyn Write, o: &GroupOperand) -> fmt::Result {
    at(f, &o.at)?;
    let along = if o.panels.along_k { "k" } else { "mn" };
    write!(f, " along {along} span {} stride {}", o.panels.span, o.panels.stride)
}
