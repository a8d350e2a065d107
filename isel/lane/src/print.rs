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

use super::frame::ParamSource;
use super::program::Program;
use crate::inst::{Block, Inst};
use crate::text::{defs, list};
use crate::value::Carried;
use crate::value::LVal;
use std::fmt;
use std::fmt::Write;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane @{} warps={} lanes={} shared={}", self.name, self.warps, self.lanes, self.shared_bytes)?;
        if self.cluster > 1 {
            write!(f, " cluster={}", self.cluster)?;
        }
        if self.positions != [1; 3] {
            write!(f, " positions={:?}", self.positions)?;
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
    let _ = inst.write(program.names(), &mut s);
    s
}

/// The same with long lists of values cut down to their ends, for messages.
pub fn inst_shortened(program: &Program, inst: &Inst) -> String {
    let text = inst_text(program, inst);
    let parts: Vec<&str> = text.split(", ").collect();
    // Values and nothing else, or what is carried and what of: the first of a list has a word in front of it, the last one words behind.
    let name = |word: &str| {
        let name = word.split(':').next().unwrap_or(word);
        name.strip_prefix('l').is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
    };
    let value = |part: &str| part.split(" = ").all(name);
    let mut out: Vec<&str> = Vec::new();
    for run in parts.chunk_by(|a, b| value(a) && value(b)) {
        if run.len() > 4 { out.extend([run[0], "…"]) } else { out.extend(run) }
    }
    out.join(", ")
}

fn block(p: &Program, f: &mut dyn Write, insts: &Block, depth: usize) -> fmt::Result {
    for inst in insts {
        write!(f, "{:1$}", "", depth * 2)?;
        inst.write(p.names(), f)?;
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
                if role.replicas > 1 {
                    write!(f, " replicas {}", role.replicas)?;
                }
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
        defs(p.names(), f, results)?;
    }
    f.write_char('\n')
}
