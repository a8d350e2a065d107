//! Programs too large for one graph: taken in parts, one behind the other, so that time and memory stay in proportion.
//!
//! ```text
//! block    | i0 … i8191 | i8192 … | for { … 60,000 … } | … | yield
//! windows  |  a graph   | a graph |  windows of its own block
//!                 └─ what later ones use ─► parameters of their graphs, of which nothing is known
//! ```
//!
//! A window is some instructions of one block, side by side, with what is in them. It is made a kernel of its own, whose parameters are what stands in front of it and is used in it, and
//! whose body yields what is used behind it; constants, positions and extents are made anew in each window, so that rules see them. Memory is
//! another one in each. Control that is larger than a window stays where it is, and its blocks are taken in windows.

use crate::elaborate::remade;
use crate::fault::{Broken, Fallback};
use crate::graph::combining;
use crate::hash::IndexMap;
use crate::options::{Options, PhaseReport, RuleReport, Stop};
use crate::report::Report;
use crate::solve::{Solved, solve};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::ops::Range;
use tilelift_ir::{Inst, Kernel, Op, Region, Type, Value, ValueDef};

/// Instructions of a window. More see more of the program at once; from some thousand on little is seen that is far apart, and fewer take less memory.
pub(crate) const WINDOW: usize = 8192;

/// The kernel that windows of a kernel make, or why the kernel stays as it is.
pub(crate) fn optimise(kernel: &Kernel, options: &Options, most: usize) -> (Result<Kernel, Fallback>, Report) {
    let mut out = Kernel::with_capacity(&kernel.name, kernel.insts.len(), kernel.values.len());
    (out.hints, out.cluster, out.positions, out.hint_locs) = (kernel.hints, kernel.cluster, kernel.positions, kernel.hint_locs);
    let mut values: SecondaryMap<Value, Option<Value>> = SecondaryMap::with_capacity(kernel.values.len());
    for &p in &kernel.params {
        let v = out.add_param(kernel.ty(p).clone());
        out.names[v].clone_from(&kernel.names[p]);
        values[p] = Some(v);
    }
    // By itself a window does not say what of it will be alive together with the rest.
    let options = Options { keep: 1, ..options.clone() };
    let (sizes, last) = (sizes(kernel), last_uses(kernel));
    let mut w = Writer { kernel, options: &options, most, sizes, last, out, values, report: Report::default() };
    let body = w.out.body;
    match w.block(kernel.body, body) {
        Ok(()) => (Ok(w.out), w.report),
        Err(why) => (Err(why), w.report),
    }
}

/// How many instructions each one is, with those in it.
fn sizes(kernel: &Kernel) -> SecondaryMap<Inst, u32> {
    fn size(kernel: &Kernel, inst: Inst, sizes: &mut SecondaryMap<Inst, u32>) -> u32 {
        let inner = kernel.insts[inst].regions.iter().flat_map(|&r| &kernel.regions[r].insts);
        let n = 1 + inner.map(|&i| size(kernel, i, sizes)).sum::<u32>();
        sizes[inst] = n;
        n
    }
    let mut sizes = kernel.by_inst();
    kernel.regions[kernel.body].insts.iter().for_each(|&i| _ = size(kernel, i, &mut sizes));
    sizes
}

/// The place, in the block in which a value is made, of the last instruction that uses it, or in which it is used.
fn last_uses(kernel: &Kernel) -> SecondaryMap<Value, u32> {
    struct Walk<'k> {
        kernel: &'k Kernel,
        /// How deep each value is made.
        depths: SecondaryMap<Value, u32>,
        /// The instructions that are open, by their places in their blocks.
        open: Vec<u32>,
        last: SecondaryMap<Value, u32>,
    }
    impl Walk<'_> {
        fn block(&mut self, region: Region) {
            let kernel = self.kernel;
            let depth = self.open.len() as u32;
            kernel.regions[region].params.iter().for_each(|&p| self.depths[p] = depth);
            for (at, &inst) in kernel.regions[region].insts.iter().enumerate() {
                let d = &kernel.insts[inst];
                self.open.push(at as u32);
                for &v in &d.args {
                    let at = self.open[self.depths[v] as usize];
                    self.last[v] = self.last[v].max(at);
                }
                d.regions.iter().for_each(|&r| self.block(r));
                self.open.pop();
                d.results.iter().for_each(|&r| self.depths[r] = depth);
            }
        }
    }
    let mut w = Walk { kernel, depths: kernel.by_value(), open: Vec::new(), last: kernel.by_value() };
    w.block(kernel.body);
    w.last
}

struct Writer<'k> {
    kernel: &'k Kernel,
    options: &'k Options,
    most: usize,
    sizes: SecondaryMap<Inst, u32>,
    last: SecondaryMap<Value, u32>,
    out: Kernel,
    /// The new value of each old one that is seen where it is written.
    values: SecondaryMap<Value, Option<Value>>,
    report: Report,
}

impl Writer<'_> {
    /// Writes a block, without what ends it.
    fn block(&mut self, from: Region, to: Region) -> Result<(), Fallback> {
        let kernel = self.kernel;
        let insts = &kernel.regions[from].insts;
        let count = insts.len() - usize::from(kernel.terminator(from).is_some());
        let (mut first, mut held) = (0, 0);
        for (at, &inst) in insts[..count].iter().enumerate() {
            let size = self.sizes[inst] as usize;
            if held + size > self.most && first < at {
                self.window(from, first..at, to)?;
                (first, held) = (at, 0);
            }
            held += size;
            if size > self.most && opens(kernel.insts[inst].op) {
                self.control(inst, to)?;
                (first, held) = (at + 1, 0);
            }
        }
        if first < count { self.window(from, first..count, to) } else { Ok(()) }
    }

    /// Writes control that is larger than a window.
    fn control(&mut self, inst: Inst, to: Region) -> Result<(), Fallback> {
        let kernel = self.kernel;
        let d = &kernel.insts[inst];
        let args = self.all(&d.args, to)?;
        let mut regions = SmallVec::<[Region; 2]>::new();
        for &r in &d.regions {
            let new = self.out.add_region();
            regions.push(new);
            for &p in &kernel.regions[r].params {
                let v = self.out.add_region_param(new, kernel.ty(p).clone());
                self.out.names[v].clone_from(&kernel.names[p]);
                self.values[p] = Some(v);
            }
            self.block(r, new)?;
            if let Some(end) = kernel.terminator(r) {
                let yields = self.all(&kernel.insts[end].args, new)?;
                let made = self.out.add_inst(kernel.insts[end].op, &yields, 0, &[], &[], &[]);
                self.put(new, made, kernel, end);
            }
        }
        let types: SmallVec<[Type; 4]> = d.results.iter().map(|&r| kernel.ty(r).clone()).collect();
        let made = self.out.add_inst(d.op, &args, d.present, &d.attrs, &regions, &types);
        self.put(to, made, kernel, inst);
        for (n, &r) in d.results.iter().enumerate() {
            let v = self.out.insts[made].results[n];
            self.out.names[v].clone_from(&kernel.names[r]);
            self.values[r] = Some(v);
        }
        Ok(())
    }

    fn put(&mut self, to: Region, made: Inst, kernel: &Kernel, from: Inst) {
        self.out.regions[to].insts.push(made);
        self.out.locs[made] = kernel.locs[from];
    }

    /// The new value of an old one; what every window makes for itself is made here, too.
    fn value(&mut self, old: Value, to: Region) -> Result<Value, Fallback> {
        if let Some(v) = self.values[old] {
            return Ok(v);
        }
        let kernel = self.kernel;
        let inst = made_anew(kernel, old).ok_or(Fallback::Broken(Broken::Hidden(old)))?;
        let args = self.all(&kernel.insts[inst].args, to)?;
        let made = plain(kernel, inst, &args, &mut self.out);
        self.put(to, made, kernel, inst);
        Ok(self.out.insts[made].results[0])
    }

    fn all(&mut self, old: &[Value], to: Region) -> Result<SmallVec<[Value; 8]>, Fallback> {
        old.iter().map(|&v| self.value(v, to)).collect()
    }

    /// Writes instructions of a block, made better.
    fn window(&mut self, from: Region, at: Range<usize>, to: Region) -> Result<(), Fallback> {
        let kernel = self.kernel;
        let insts = &kernel.regions[from].insts[at.clone()];
        let mut part = Part {
            kernel,
            out: Kernel::with_capacity(&kernel.name, insts.len(), insts.len()),
            values: IndexMap::default(),
            inputs: Vec::new(),
        };
        part.out.hints = kernel.hints;
        let body = part.out.body;
        insts.iter().for_each(|&i| part.copy(i, body));
        let results = insts.iter().flat_map(|&i| &kernel.insts[i].results).copied();
        let behind = |v: &Value| self.last[*v] as usize >= at.end && made_anew(kernel, *v).is_none();
        let outputs: Vec<Value> = results.filter(behind).collect();
        let yields: SmallVec<[Value; 8]> = outputs.iter().map(|v| part.values[v]).collect();
        let end = part.out.add_inst(Op::Yield, &yields, 0, &[], &[], &[]);
        part.out.regions[body].insts.push(end);
        let Part { out: part, inputs, .. } = part;
        let Some(Solved { made, report, .. }) = solve(&part, self.options, false) else { return Err(Fallback::NoProgram) };
        add(&mut self.report, report);
        let made = made.map_err(Fallback::Broken)?;
        let mut values: SecondaryMap<Value, Option<Value>> = made.by_value();
        for (&old, &p) in inputs.iter().zip(&made.params) {
            values[p] = Some(self.value(old, to)?);
        }
        self.splice(&made, made.body, to, &mut values);
        let ends = made.yields(made.body);
        outputs.iter().zip(ends).for_each(|(&old, &v)| self.values[old] = values[v]);
        Ok(())
    }

    /// Copies a block of a window's kernel, but for what ends the outermost one.
    fn splice(&mut self, from: &Kernel, region: Region, to: Region, values: &mut SecondaryMap<Value, Option<Value>>) {
        for &inst in &from.regions[region].insts {
            let d = &from.insts[inst];
            if d.op == Op::Yield && region == from.body {
                continue;
            }
            let mut regions = SmallVec::<[Region; 2]>::new();
            for &r in &d.regions {
                let new = self.out.add_region();
                regions.push(new);
                for &p in &from.regions[r].params {
                    let v = self.out.add_region_param(new, from.ty(p).clone());
                    self.out.names[v].clone_from(&from.names[p]);
                    values[p] = Some(v);
                }
                self.splice(from, r, new, values);
            }
            let args: SmallVec<[Value; 8]> = d.args.iter().filter_map(|&v| values[v]).collect();
            let types: SmallVec<[Type; 2]> = d.results.iter().map(|&r| from.ty(r).clone()).collect();
            let made = self.out.add_inst(d.op, &args, d.present, &d.attrs, &regions, &types);
            self.put(to, made, from, inst);
            for (n, &r) in d.results.iter().enumerate() {
                let v = self.out.insts[made].results[n];
                self.out.names[v].clone_from(&from.names[r]);
                values[r] = Some(v);
            }
        }
    }
}

/// True for control whose blocks are taken in windows: the region of an op that combines elements holds nothing but work on scalars, and stays whole.
fn opens(op: Op) -> bool {
    op.info().regions > 0 && !combining(op)
}

/// The instruction of a value that every window makes for itself, of nothing but parameters and such values.
fn made_anew(kernel: &Kernel, v: Value) -> Option<Inst> {
    let of = |&v: &Value| matches!(kernel.values[v].def, ValueDef::KernelParam(_)) || made_anew(kernel, v).is_some();
    kernel.def_inst(v).filter(|&i| remade(kernel.insts[i].op) && kernel.insts[i].args.iter().all(of))
}

/// Appends a copy of an instruction without regions to a kernel, in no block yet.
fn plain(kernel: &Kernel, inst: Inst, args: &[Value], out: &mut Kernel) -> Inst {
    let d = &kernel.insts[inst];
    let types: SmallVec<[Type; 1]> = d.results.iter().map(|&r| kernel.ty(r).clone()).collect();
    out.add_inst(d.op, args, d.present, &d.attrs, &[], &types)
}

/// A window's kernel, as it is written.
struct Part<'k> {
    kernel: &'k Kernel,
    out: Kernel,
    values: IndexMap<Value, Value>,
    /// What stands in front of the window, by parameter.
    inputs: Vec<Value>,
}

impl Part<'_> {
    fn copy(&mut self, inst: Inst, to: Region) {
        let kernel = self.kernel;
        let d = &kernel.insts[inst];
        let args: SmallVec<[Value; 8]> = d.args.iter().map(|&v| self.value(v)).collect();
        let mut regions = SmallVec::<[Region; 2]>::new();
        for &r in &d.regions {
            let new = self.out.add_region();
            regions.push(new);
            for &p in &kernel.regions[r].params {
                let v = self.out.add_region_param(new, kernel.ty(p).clone());
                self.named(p, v);
            }
            kernel.regions[r].insts.iter().for_each(|&i| self.copy(i, new));
        }
        let types: SmallVec<[Type; 2]> = d.results.iter().map(|&r| kernel.ty(r).clone()).collect();
        let made = self.out.add_inst(d.op, &args, d.present, &d.attrs, &regions, &types);
        self.out.regions[to].insts.push(made);
        self.out.locs[made] = kernel.locs[inst];
        for (n, &r) in d.results.iter().enumerate() {
            let v = self.out.insts[made].results[n];
            self.named(r, v);
        }
    }

    fn named(&mut self, old: Value, new: Value) {
        self.out.names[new].clone_from(&self.kernel.names[old]);
        self.values.insert(old, new);
    }

    /// The value in the window; from in front of it, a copy of what every window makes for itself, in front of all else, or a parameter.
    fn value(&mut self, old: Value) -> Value {
        if let Some(&v) = self.values.get(&old) {
            return v;
        }
        let kernel = self.kernel;
        let v = match made_anew(kernel, old) {
            Some(inst) => {
                let args: SmallVec<[Value; 3]> = kernel.insts[inst].args.iter().map(|&v| self.value(v)).collect();
                let made = plain(kernel, inst, &args, &mut self.out);
                let body = self.out.body;
                self.out.regions[body].insts.push(made);
                self.out.locs[made] = kernel.locs[inst];
                self.out.insts[made].results[0]
            }
            None => {
                self.inputs.push(old);
                self.out.add_param(kernel.ty(old).clone())
            }
        };
        self.named(old, v);
        v
    }
}

/// The one that says more of how a phase ended.
fn harder(a: Stop, b: Stop) -> Stop {
    let rank = |s: Stop| match s {
        Stop::Saturated => 0,
        Stop::Iterations => 1,
        Stop::Matches => 2,
        Stop::Nodes => 3,
    };
    if rank(b) > rank(a) { b } else { a }
}

/// Adds what was done to a window.
fn add(all: &mut Report, one: Report) {
    all.windows += 1;
    all.before = all.before.saturating_add(one.before);
    all.after = all.after.saturating_add(one.after);
    all.narrowed.extend(one.narrowed);
    all.times.iter_mut().zip(one.times).for_each(|(t, more)| *t += more);
    if all.phases.is_empty() {
        (all.phases, all.rules) = (one.phases, one.rules);
        return;
    }
    for (p, more) in all.phases.iter_mut().zip(one.phases) {
        let PhaseReport { stop, iterations, nodes, classes, .. } = more;
        (p.stop, p.iterations) = (harder(p.stop, stop), p.iterations.max(iterations));
        (p.nodes, p.classes) = (p.nodes + nodes, p.classes + classes);
    }
    for (r, more) in all.rules.iter_mut().zip(one.rules) {
        let RuleReport { matches, applied, time, .. } = more;
        (r.matches, r.applied, r.time) = (r.matches + matches, r.applied + applied, r.time + time);
    }
}
