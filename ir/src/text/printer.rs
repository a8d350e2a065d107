//! The printer: a kernel as text, following the op table.
//!
//! Values are numbered in the order in which they appear, so printing what was parsed from a print changes nothing. A `const` is
//! printed where it is used. Of values with one name each has it, where the block of the one before has ended, as the parser takes it; others are
//! numbered. The printer accepts kernels that do not verify, so that messages can show them: what does not exist
//! gets a name of its own, and a region that stands inside itself is printed once.

use super::file::MAX_NESTING;
use super::literal::literal_text;
use crate::entities::{Inst, Region, Value};
use crate::kernel::{InstData, Kernel, ValueDef, is_identifier};
use crate::ops::{Attr, AttrKind, CacheHint, Literal, MemoryOrder, Op, OperandKind, Precision, Scope, Task};
use crate::types::Type;
use smallvec::SmallVec;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// A printed line and what it shows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Line {
    /// The text, indented, without a newline.
    pub text: String,
    /// True for the kernel's first line.
    pub header: bool,
    /// The instruction that begins here, and the constants written in its operand places.
    pub insts: SmallVec<[Inst; 2]>,
    /// Values that the line names, defined or used.
    pub values: SmallVec<[Value; 4]>,
    /// Regions that begin on the line.
    pub regions: SmallVec<[Region; 1]>,
}

/// The text of a kernel; ends with a newline.
pub fn print(kernel: &Kernel) -> String {
    let mut out = String::new();
    for line in lines(kernel) {
        out.push_str(&line.text);
        out.push('\n');
    }
    out
}

/// The text of a kernel with notes: where `note` returns something for a line, the line is underlined and the note written below.
pub fn print_with(kernel: &Kernel, mut note: impl FnMut(&Line) -> Vec<String>) -> String {
    let mut out = String::new();
    for line in lines(kernel) {
        let notes = note(&line);
        out.push_str(&line.text);
        out.push('\n');
        let body = line.text.trim_start();
        let indent = " ".repeat(line.text.len() - body.len());
        for (i, n) in notes.iter().enumerate() {
            if i == 0 {
                let _ = writeln!(out, "{indent}^{}", "~".repeat(body.chars().count().saturating_sub(1)));
            }
            for part in n.lines() {
                let _ = writeln!(out, "{indent}; {part}");
            }
        }
    }
    out
}

/// The lines of a kernel's text.
pub fn lines(kernel: &Kernel) -> Vec<Line> {
    let mut p = Printer {
        kernel,
        names: HashMap::new(),
        given: HashMap::new(),
        scopes: vec![Vec::new()],
        printed: HashSet::new(),
        done: Vec::new(),
        line: Line::default(),
        indent: 0,
    };
    p.kernel();
    p.done
}

struct Printer<'k> {
    kernel: &'k Kernel,
    names: HashMap<Value, usize>,
    /// The names that values of open blocks have been given, and whose they are.
    given: HashMap<&'k str, Value>,
    /// Those of each open block.
    scopes: Vec<Vec<&'k str>>,
    printed: HashSet<Region>,
    done: Vec<Line>,
    line: Line,
    indent: usize,
}

impl<'k> Printer<'k> {
    fn put(&mut self, s: impl AsRef<str>) {
        if self.line.text.is_empty() {
            self.line.text = "    ".repeat(self.indent);
        }
        self.line.text.push_str(s.as_ref());
    }

    fn end_line(&mut self) {
        self.done.push(std::mem::take(&mut self.line));
    }

    /// Writes the name of a value that is defined or cannot be written as a literal.
    fn name(&mut self, v: Value) {
        let next = self.names.len();
        let n = *self.names.entry(v).or_insert(next);
        self.line.values.push(v);
        // Names that are none, or another value's here, are numbers.
        match self.kernel.names[v].as_deref().filter(|name| is_identifier(name)) {
            Some(name) if self.holds(name, v) => self.put(format!("%{name}")),
            Some(_) | None => self.put(format!("v{n}")),
        }
    }

    /// True for the value whose name this is in the blocks that are open: the first one that asks.
    fn holds(&mut self, name: &'k str, v: Value) -> bool {
        match self.given.entry(name) {
            Entry::Occupied(e) => *e.get() == v,
            Entry::Vacant(e) => {
                e.insert(v);
                if let Some(s) = self.scopes.last_mut() {
                    s.push(name);
                }
                true
            }
        }
    }

    /// Writes a block and what stands in front of it, whose names end with it.
    fn scope(&mut self, write: impl FnOnce(&mut Self)) {
        self.scopes.push(Vec::new());
        write(self);
        for name in self.scopes.pop().unwrap_or_default() {
            self.given.remove(name);
        }
    }

    /// Writes an operand: a literal if it is a constant.
    fn operand(&mut self, v: Value) {
        let k = self.kernel;
        let literal = k.values.get(v).and_then(|d| match d.def {
            ValueDef::Result(i, _) => {
                let inst = k.insts.get(i).filter(|d| d.op == Op::Const)?;
                match (inst.attrs.first(), &d.ty) {
                    (Some(Attr::Literal(l)), Type::Scalar(ty)) => Some((i, literal_text(*l, *ty))),
                    _ => None,
                }
            }
            ValueDef::RegionParam(..) | ValueDef::KernelParam(_) => None,
        });
        match literal {
            Some((i, text)) => {
                self.line.insts.push(i);
                self.line.values.push(v);
                self.put(text);
            }
            None => self.name(v),
        }
    }

    fn operands(&mut self, vs: &[Value]) {
        for (i, &v) in vs.iter().enumerate() {
            self.put(if i > 0 { ", " } else { "" });
            self.operand(v);
        }
    }

    fn kernel(&mut self) {
        let k = self.kernel;
        self.line.header = true;
        self.put(format!("kernel @{}(", k.name));
        for (i, &p) in k.params.iter().enumerate() {
            self.put(if i > 0 { ", " } else { "" });
            self.name(p);
            let ty = k.values.get(p).map_or_else(|| "?".to_owned(), |d| d.ty.to_string());
            self.put(format!(": {ty}"));
        }
        self.put(")");
        if k.cluster != 1 {
            self.put(format!(" cluster {}", k.cluster));
        }
        if k.positions != [1; 3] {
            self.put(format!(" positions [{}, {}, {}]", k.positions[0], k.positions[1], k.positions[2]));
        }
        if let Some(n) = k.hints.warps {
            self.put(format!(" warps={n}"));
        }
        if let Some(n) = k.hints.stages {
            self.put(format!(" stages={n}"));
        }
        self.put(" ");
        self.block(k.body);
        self.end_line();
    }

    /// Writes `{`, the instructions and, on a line that stays open, `}`.
    fn block(&mut self, r: Region) {
        self.line.regions.push(r);
        self.put("{");
        let shown = self.indent < MAX_NESTING + 1 && self.printed.insert(r);
        match self.kernel.regions.get(r) {
            Some(data) if shown => {
                self.end_line();
                self.indent += 1;
                for &i in &data.insts {
                    self.inst(i);
                }
                self.indent -= 1;
            }
            Some(_) | None => self.put(format!(" {r} ")),
        }
        self.put("}");
    }

    fn inst(&mut self, i: Inst) {
        let Some(d) = self.kernel.insts.get(i) else {
            self.put(format!("{i}"));
            return self.end_line();
        };
        // A constant is written where it is used.
        if d.op == Op::Const && d.attrs.first().is_some_and(|a| matches!(a, Attr::Literal(_))) {
            return;
        }
        self.line.insts.push(i);
        for (n, &v) in d.results.iter().enumerate() {
            self.put(if n > 0 { ", " } else { "" });
            self.name(v);
        }
        self.put(if d.results.is_empty() { "" } else { " = " });
        // Results are there behind the blocks that yield them.
        let results: Vec<(&str, Value)> = d.results.iter().filter_map(|&v| Some((self.kernel.names[v].as_deref()?, v))).collect();
        let mine: Vec<(&str, Value)> = results.into_iter().filter(|(name, v)| self.given.get(name) == Some(v)).collect();
        if !d.regions.is_empty() {
            for (name, _) in &mine {
                self.given.remove(name);
            }
        }
        // Ops with regions have a form of their own; every other op follows its row.
        if d.op == Op::For {
            self.scope(|p| p.for_loop(d));
        } else if d.op == Op::While {
            self.while_loop(d);
        } else if d.op == Op::If {
            self.if_else(d);
        } else if d.op == Op::Tasks {
            self.tasks(d);
        } else if matches!(d.op, Op::ReduceBy | Op::ScanBy | Op::ScanReverseBy) {
            self.scope(|p| p.combine(d));
        } else {
            self.row(d.op, d);
        }
        self.given.extend(mine);
        self.end_line();
    }

    fn carried(&mut self, params: &[Value], inits: &[Value]) {
        for (i, &p) in params.iter().enumerate() {
            self.put(if i > 0 { ", " } else { " carry " });
            self.name(p);
            if let Some(&v) = inits.get(i) {
                self.put(" = ");
                self.operand(v);
            }
        }
    }

    fn params(&self, d: &InstData, n: usize) -> SmallVec<[Value; 4]> {
        d.regions.get(n).and_then(|&r| self.kernel.regions.get(r)).map(|r| r.params.clone()).unwrap_or_default()
    }

    fn region(&mut self, d: &InstData, n: usize) {
        match d.regions.get(n) {
            Some(&r) => self.block(r),
            None => self.put("{ }"),
        }
    }

    fn for_loop(&mut self, d: &InstData) {
        let params = self.params(d, 0);
        self.put("for ");
        if let Some(&index) = params.first() {
            self.name(index);
        }
        for (word, n) in [(" in ", 0), ("..", 1), (" step ", 2)] {
            self.put(word);
            self.operands(d.args.get(n..n + 1).unwrap_or(&[]));
        }
        self.carried(params.get(1..).unwrap_or(&[]), d.args.get(3..).unwrap_or(&[]));
        self.put(" ");
        self.region(d, 0);
    }

    fn while_loop(&mut self, d: &InstData) {
        self.put("while");
        self.scope(|p| {
            p.carried(&p.params(d, 0), &d.args);
            p.put(" ");
            p.region(d, 0);
        });
        self.put(" do");
        self.scope(|p| {
            p.carried(&p.params(d, 1), &[]);
            p.put(" ");
            p.region(d, 1);
        });
    }

    fn if_else(&mut self, d: &InstData) {
        self.put("if ");
        self.operands(&d.args);
        self.put(" ");
        self.scope(|p| p.region(d, 0));
        self.put(" else ");
        self.scope(|p| p.region(d, 1));
    }

    fn tasks(&mut self, d: &InstData) {
        self.put("tasks {");
        self.end_line();
        self.indent += 1;
        let tasks = if let Some(Attr::Tasks(tasks)) = d.attrs.first() { tasks.as_slice() } else { &[] };
        for (n, task) in tasks.iter().enumerate() {
            self.put(task.to_string());
            let replica = self.params(d, n).first().copied();
            self.scope(|p| {
                if let Some(v) = replica
                    && (task.replicas != 1 || p.is_used(v))
                {
                    p.put(format!(" replicas {} as ", task.replicas));
                    p.name(v);
                }
                p.put(" ");
                p.region(d, n);
                p.end_line();
            });
        }
        self.indent -= 1;
        self.put("}");
    }

    fn is_used(&self, v: Value) -> bool {
        self.kernel.insts.values().any(|d| d.args.contains(&v))
    }

    fn combine(&mut self, d: &InstData) {
        self.put(format!("{} ", d.op));
        self.operands(&d.args);
        if let Some(a) = d.attrs.first() {
            self.put(format!(", axis {}", attr_text(a)));
        }
        let params = self.params(d, 0);
        let (first, second) = params.split_at(params.len() / 2);
        for (word, names) in [(" combine ", first), (" with ", second)] {
            self.put(word);
            for (i, &p) in names.iter().enumerate() {
                self.put(if i > 0 { ", " } else { "" });
                self.name(p);
            }
        }
        self.put(" ");
        self.region(d, 0);
    }

    /// Any instruction without regions, as its row says.
    fn row(&mut self, op: Op, d: &InstData) {
        let info = op.info();
        self.put(info.name);
        let mut attrs = d.attrs.iter();
        let mut separator = " ";
        if info.lead.is_some()
            && let Some(a) = attrs.next()
            && !(info.lead == Some(AttrKind::Few) && *a == Attr::Count(1))
        {
            self.put(" ");
            self.put(attr_text(a));
            // What follows is a further number.
            separator = if info.operands.is_empty() { ", " } else { " " };
        }
        let row = info.operands;
        let present = |j: usize| d.present >> j & 1 == 1;
        let mut args = d.args.as_slice();
        for (j, o) in row.iter().enumerate() {
            let behind = (j + 1..row.len())
                .filter(|&m| row[m].kind == OperandKind::Plain || row[m].kind == OperandKind::Keyword && present(m))
                .count();
            let n = match o.kind {
                OperandKind::Plain => 1,
                OperandKind::Keyword => usize::from(present(j)),
                OperandKind::Indices | OperandKind::Variadic => args.len().saturating_sub(behind),
            };
            let (mine, rest) = args.split_at(n.min(args.len()));
            args = rest;
            match o.kind {
                OperandKind::Indices => {
                    self.put("[");
                    self.operands(mine);
                    self.put("]");
                }
                OperandKind::Plain | OperandKind::Variadic | OperandKind::Keyword => {
                    if !mine.is_empty() {
                        self.put(separator);
                        if o.kind == OperandKind::Keyword {
                            self.put(format!("{}=", o.name));
                        }
                        self.operands(mine);
                    }
                }
            }
            separator = if mine.is_empty() { separator } else { ", " };
        }
        // More operands than the row has: a kernel that does not verify.
        if !args.is_empty() {
            self.put(separator);
            self.operands(args);
        }
        if let Some(kind) = info.trail
            && let Some(a) = attrs.next()
        {
            match (kind, a) {
                (AttrKind::Precision, Attr::Precision(Precision::Exact)) => {}
                (AttrKind::Precision, _) => self.put(format!(" {}", attr_text(a))),
                (AttrKind::Cache, Attr::Cache(CacheHint::Normal)) => {}
                (AttrKind::Cache, _) => self.put(format!(", cache={}", attr_text(a))),
                (AttrKind::Sync, Attr::Sync(order, scope)) => {
                    if *order != MemoryOrder::Relaxed {
                        self.put(format!(", order={order}"));
                    }
                    if *scope != Scope::Gpu {
                        self.put(format!(", scope={scope}"));
                    }
                }
                (AttrKind::Swizzle, Attr::Count(0)) => {}
                (AttrKind::Swizzle, _) => self.put(format!("{separator}swizzle={}", attr_text(a))),
                (AttrKind::Divisor, _) => self.put(format!(", multiple {}", attr_text(a))),
                (AttrKind::AxisDim, _) => self.put(format!(", axis {}", attr_text(a))),
                (_, _) => self.put(format!("{separator}{}", attr_text(a))),
            }
        }
        if info.typed()
            && let Some(ty) = d.results.first().and_then(|&v| self.kernel.values.get(v)).map(|v| v.ty.to_string())
        {
            self.put(format!(" : {ty}"));
        }
    }
}

fn attr_text(a: &Attr) -> String {
    match a {
        Attr::Grid(g) => g.to_string(),
        Attr::Cmp(c) => c.to_string(),
        Attr::Reduce(r) => r.to_string(),
        Attr::Dim(d) | Attr::Divisor(d) | Attr::Count(d) => d.to_string(),
        Attr::Tasks(tasks) => tasks.iter().map(Task::to_string).collect::<Vec<_>>().join(", "),
        Attr::Perm(p) | Attr::Offsets(p) => format!("{:?}", p.as_slice()),
        Attr::Precision(p) => p.to_string(),
        Attr::Atomic(a) => a.to_string(),
        Attr::Sync(order, scope) => format!("{order} {scope}"),
        Attr::Cache(c) => c.to_string(),
        Attr::Sort(s) => s.to_string(),
        Attr::Layout(l) => l.to_string(),
        Attr::Literal(Literal::Int(x)) => x.to_string(),
        Attr::Literal(Literal::Float(bits)) => format!("{:?}", f64::from_bits(*bits)),
    }
}
