//! Rewriting a kernel by copying it: what an edit changes is changed on the way, what is dead stays behind.

use std::collections::BTreeMap;
use tilelift_ir::{Attr, Cursor, Effects, Inst, Kernel, Literal, Op, Region, Scalar, Type, Value};

/// A change that makes a kernel simpler. Results may change; types don't.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Edit {
    /// Copies, without what is dead.
    Clean,
    /// Drops an instruction without results.
    Drop(Inst),
    /// An instruction's result becomes a literal.
    Constant(Inst, i64),
    /// An instruction's result becomes another visible value.
    Replace(Inst, Value),
    /// An operand becomes a literal 0 (an index).
    ZeroIndex(Inst, usize),
    /// A load or store loses its keyword operands.
    NoKeywords(Inst),
    /// A loop's or choice's results become values from in front of it, or those of one region that is run in its place.
    Unwrap(Inst, usize),
    /// A loop loses a carried value.
    Uncarry(Inst, usize),
}

struct Copier<'k> {
    old: &'k Kernel,
    new: Kernel,
    map: BTreeMap<Value, Value>,
    live: BTreeMap<Inst, ()>,
    edit: &'k Edit,
    keep_params: &'k [bool],
}

/// Instructions that something observable needs.
fn live_insts(k: &Kernel, edit: &Edit) -> BTreeMap<Inst, ()> {
    let mut live = BTreeMap::new();
    let mut work = Vec::new();
    // Writers, and what encloses them.
    fn writers(k: &Kernel, r: Region, edit: &Edit, work: &mut Vec<Inst>) -> bool {
        let mut any = false;
        for &i in &k.regions[r].insts {
            if *edit == Edit::Drop(i) {
                continue;
            }
            let d = &k.insts[i];
            let mut here = d.op.info().effects == Effects::Writes;
            for &inner in &d.regions {
                here |= writers(k, inner, edit, work);
            }
            if here {
                work.push(i);
            }
            any |= here;
        }
        any
    }
    writers(k, k.body, edit, &mut work);
    while let Some(i) = work.pop() {
        if live.insert(i, ()).is_some() {
            continue;
        }
        let mut need: Vec<Value> = match *edit {
            Edit::Constant(j, _) if j == i => Vec::new(),
            Edit::Replace(j, v) if j == i => vec![v],
            _ => k.insts[i].args.to_vec(),
        };
        for &r in &k.insts[i].regions {
            need.extend_from_slice(k.yields(r));
            work.extend(k.terminator(r));
        }
        work.extend(need.iter().filter_map(|&v| k.def_inst(v)));
        // A region parameter keeps its loop.
        for &v in &need {
            if let tilelift_ir::ValueDef::RegionParam(r, _) = k.values[v].def {
                work.extend(k.insts.iter().find(|(_, d)| d.regions.contains(&r)).map(|(j, _)| j));
            }
        }
    }
    live
}

/// The edited kernel; parameters of `keep_params` that are false are left out (nothing may use them).
pub(crate) fn rewrite(old: &Kernel, edit: &Edit, keep_params: &[bool]) -> Option<Kernel> {
    let mut new = Kernel::new(&old.name);
    new.hints = old.hints;
    let mut c = Copier { old, new, map: BTreeMap::new(), live: live_insts(old, edit), edit, keep_params };
    for (n, &p) in old.params.iter().enumerate() {
        if c.keep_params.get(n).copied().unwrap_or(true) {
            let v = c.new.add_param(old.ty(p).clone());
            c.map.insert(p, v);
        }
    }
    let mut at = Cursor::start(c.new.body);
    c.region(old.body, &mut at)?;
    Some(c.new)
}

impl Copier<'_> {
    fn literal(&mut self, at: &mut Cursor, ty: &Type, x: i64) -> Value {
        let elem = ty.elem();
        let literal = match elem {
            e if e.is_float() => Literal::Float((x as f64).to_bits()),
            Scalar::I1 => Literal::Int(x & 1),
            _ => Literal::Int(x),
        };
        let inst = self.new.add_inst(Op::Const, &[], 0, &[Attr::Literal(literal)], &[], &[Type::Scalar(elem)]);
        at.insert(&mut self.new, inst);
        let v = self.new.insts[inst].results[0];
        if let Type::Scalar(_) = ty {
            return v;
        }
        let inst = self.new.add_inst(Op::Splat, &[v], 0, &[], &[], std::slice::from_ref(ty));
        at.insert(&mut self.new, inst);
        self.new.insts[inst].results[0]
    }

    fn get(&self, v: Value) -> Option<Value> {
        self.map.get(&v).copied()
    }

    fn region(&mut self, r: Region, at: &mut Cursor) -> Option<()> {
        for &i in &self.old.regions[r].insts {
            if self.live.contains_key(&i) && *self.edit != Edit::Drop(i) {
                self.inst(i, at)?;
            }
        }
        Some(())
    }

    fn inst(&mut self, i: Inst, at: &mut Cursor) -> Option<()> {
        let old = self.old;
        let d = &old.insts[i];
        match *self.edit {
            Edit::Constant(j, x) if j == i => {
                for &r in &d.results {
                    let v = self.literal(at, old.ty(r), x);
                    self.map.insert(r, v);
                }
                return Some(());
            }
            Edit::Replace(j, v) if j == i => {
                let v = self.get(v)?;
                self.map.insert(d.results[0], v);
                return Some(());
            }
            Edit::Unwrap(j, which) if j == i => return self.unwrap(i, which, at),
            _ => {}
        }
        let mut args: Vec<Value> = d.args.iter().map(|&v| self.get(v)).collect::<Option<_>>()?;
        let mut present = d.present;
        let mut dropped = None;
        match *self.edit {
            Edit::ZeroIndex(j, n) if j == i => args[n] = self.literal(at, &Type::Scalar(Scalar::I32), 0),
            Edit::NoKeywords(j) if j == i => {
                args.truncate(args.len() - present.count_ones() as usize);
                present = 0;
            }
            Edit::Uncarry(j, n) if j == i => {
                dropped = Some(n);
                args.remove(if d.op == Op::For { n + 3 } else { n });
            }
            _ => {}
        }
        let mut regions = Vec::new();
        for (n, &r) in d.regions.iter().enumerate() {
            regions.push(self.copy_region(i, r, dropped, n)?);
        }
        let types: Vec<Type> = d.results.iter().enumerate().filter(|(n, _)| Some(*n) != dropped).map(|(_, &v)| old.ty(v).clone()).collect();
        let inst = self.new.add_inst(d.op, &args, present, &d.attrs, &regions, &types);
        at.insert(&mut self.new, inst);
        let results = self.new.insts[inst].results.clone();
        let kept = d.results.iter().enumerate().filter(|(n, _)| Some(*n) != dropped);
        for ((_, &v), &w) in kept.zip(&results) {
            self.map.insert(v, w);
        }
        if let Some(n) = dropped {
            let init = d.args[if d.op == Op::For { n + 3 } else { n }];
            let v = self.get(init)?;
            self.map.insert(d.results[n], v);
        }
        Some(())
    }

    fn copy_region(&mut self, owner: Inst, r: Region, dropped: Option<usize>, number: usize) -> Option<Region> {
        let old = self.old;
        let d = &old.insts[owner];
        let new = self.new.add_region();
        let skip = usize::from(d.op == Op::For);
        for (n, &p) in old.regions[r].params.iter().enumerate() {
            if let Some(k) = dropped
                && n == k + skip
            {
                // The dropped value stays what it was in front of the loop.
                let v = self.get(d.args[if d.op == Op::For { k + 3 } else { k }])?;
                self.map.insert(p, v);
                continue;
            }
            let v = self.new.add_region_param(new, old.ty(p).clone());
            self.map.insert(p, v);
        }
        let mut at = Cursor::start(new);
        let is_test = d.op == Op::While && number == 0;
        for &i in &old.regions[r].insts {
            if old.insts[i].op == Op::Yield {
                let mut args: Vec<Value> = old.insts[i].args.iter().map(|&v| self.get(v)).collect::<Option<_>>()?;
                if let (Some(k), false) = (dropped, is_test) {
                    args.remove(k);
                }
                let inst = self.new.add_inst(Op::Yield, &args, 0, &[], &[], &[]);
                at.insert(&mut self.new, inst);
            } else if self.live.contains_key(&i) && *self.edit != Edit::Drop(i) {
                self.inst(i, &mut at)?;
            }
        }
        Some(new)
    }

    /// `which` 0: the results are the initial values (literals for an `if`); else the body of region `which - 1`, once, in place.
    fn unwrap(&mut self, i: Inst, which: usize, at: &mut Cursor) -> Option<()> {
        let old = self.old;
        let d = &old.insts[i];
        let init = match d.op {
            Op::For => &d.args[3..],
            Op::While => &d.args[..],
            _ => &[],
        };
        if which == 0 {
            for (n, &r) in d.results.iter().enumerate() {
                let v = match init.get(n) {
                    Some(&v) => self.get(v)?,
                    None => self.literal(at, old.ty(r), 0),
                };
                self.map.insert(r, v);
            }
            return Some(());
        }
        let r = *d.regions.get(which - 1)?;
        let mut values = Vec::new();
        if d.op == Op::For {
            values.push(self.get(d.args[0])?);
        }
        for &v in init {
            values.push(self.get(v)?);
        }
        for (&p, v) in old.regions[r].params.iter().zip(values) {
            self.map.insert(p, v);
        }
        for &j in &old.regions[r].insts {
            if old.insts[j].op != Op::Yield && self.live.contains_key(&j) {
                self.inst(j, at)?;
            }
        }
        let yields = old.yields(r).to_vec();
        for (&res, v) in d.results.iter().zip(yields) {
            let v = self.get(v)?;
            self.map.insert(res, v);
        }
        Some(())
    }
}
