//! Integer expressions over what loops do not change: polynomials, so that `base + k` and the number of puts so far can be compared.
//!
//! ```text
//! value ── within ─► polynomial over what stands around it: the parameters of its loops are symbols
//!                        │ of each carried value: where it begins, and what a round adds
//!                        ▼ whole: these are put in for the symbols
//!                    polynomial over what no loop changes, and the numbers of rounds
//! ```
//!
//! Every value is worked out once in each of the two forms, and what is made of equal parts is one [`Atom`] with a number: a chain of ops
//! takes time and memory in its length, however often it uses each value. A polynomial of more than a few terms is a symbol.

use crate::entities::{Inst, Region, Value};
use crate::kernel::{Kernel, ValueDef};
use crate::ops::{Effects, Literal, Op};
use crate::types::{Scalar, Type};
use cranelift_entity::SecondaryMap;
use indexmap::IndexSet;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// The number of an [`Atom`] among those of [`Values`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct AtomId(u32);

/// What a polynomial is made of.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Atom {
    /// A value of which nothing more is known.
    Value(Value),
    /// An op on numbers, by its name and attributes.
    Op(String, Vec<Poly>),
    /// The number of the round of a loop.
    Round(Inst),
    /// How many rounds a loop of these bounds and step has.
    Rounds(Poly, Poly, Poly),
    /// How often something happened before.
    Before(usize),
}

impl Atom {
    /// The atoms in it.
    fn inner(&self) -> impl Iterator<Item = AtomId> + '_ {
        let parts: SmallVec<[&Poly; 4]> = match self {
            Atom::Op(_, args) => args.iter().collect(),
            Atom::Rounds(lo, hi, step) => SmallVec::from_slice(&[lo, hi, step]),
            Atom::Value(_) | Atom::Round(_) | Atom::Before(_) => SmallVec::new(),
        };
        parts.into_iter().flat_map(Poly::atoms)
    }
}

/// A sum of products with factors.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct Poly(BTreeMap<SmallVec<[AtomId; 2]>, i64>);

impl Poly {
    pub(super) fn int(n: i64) -> Poly {
        Poly([(SmallVec::new(), n)].into_iter().filter(|t| t.1 != 0).collect())
    }
    pub(super) fn atom(a: AtomId) -> Poly {
        Poly([(SmallVec::from_slice(&[a]), 1)].into_iter().collect())
    }
    fn atoms(&self) -> impl Iterator<Item = AtomId> + '_ {
        self.0.keys().flatten().copied()
    }
    pub(super) fn add(&self, other: &Poly) -> Poly {
        let mut out = self.clone();
        out.add_times(other, 1);
        out
    }
    pub(super) fn sub(&self, other: &Poly) -> Poly {
        let mut out = self.clone();
        out.add_times(other, -1);
        out
    }
    fn add_times(&mut self, other: &Poly, factor: i64) {
        for (atoms, n) in &other.0 {
            let sum = self.0.get(atoms).copied().unwrap_or(0).wrapping_add(n.wrapping_mul(factor));
            if sum == 0 {
                self.0.remove(atoms);
            } else {
                self.0.insert(atoms.clone(), sum);
            }
        }
    }
    pub(super) fn mul(&self, other: &Poly) -> Poly {
        let mut out = Poly::default();
        for (a, n) in &self.0 {
            for (b, m) in &other.0 {
                let mut atoms: SmallVec<[AtomId; 2]> = a.iter().chain(b).copied().collect();
                atoms.sort_unstable();
                out.add_times(&Poly([(atoms, 1)].into_iter().collect()), n.wrapping_mul(*m));
            }
        }
        out
    }
    fn degree(&self) -> usize {
        self.0.keys().map(|a| a.len()).max().unwrap_or(0)
    }
    /// True if there are more terms than anybody compares.
    pub(super) fn is_long(&self) -> bool {
        self.0.len() > MOST_TERMS
    }
    /// `None` if there are more terms, or longer ones, than anybody compares.
    fn short_sum(&self, other: &Poly, factor: i64) -> Option<Poly> {
        let mut out = self.clone();
        out.add_times(other, factor);
        (!out.is_long()).then_some(out)
    }
    fn short_product(&self, other: &Poly) -> Option<Poly> {
        let short = self.0.len() * other.0.len() <= MOST_TERMS && self.degree() + other.degree() <= MOST_FACTORS;
        short.then(|| self.mul(other))
    }
}

/// Terms of a polynomial, and factors of a term; what has more is a symbol.
const MOST_TERMS: usize = 64;
const MOST_FACTORS: usize = 8;

/// So many ops behind one another are looked at between a number and what was loaded for it.
const WHOLE: u8 = 6;

/// Where a carried value begins, and what each round adds; `None` if that is not always the same.
type Steps = Option<(Poly, Poly)>;

/// A value, and for a tile how many ops behind it are looked at.
type Node = (Value, u8);

/// Works out values of a kernel.
pub(super) struct Values<'k> {
    kernel: &'k Kernel,
    /// Views that the kernel writes.
    written: BTreeSet<Value>,
    /// Positions of an instruction and of the last one in its regions.
    spans: SecondaryMap<Inst, (u32, u32)>,
    atoms: IndexSet<Atom>,
    /// Values over what stands around them.
    within: BTreeMap<Node, Poly>,
    /// Of loops, per carried value.
    loops: BTreeMap<Inst, Vec<Steps>>,
    /// Atoms with nothing of a loop in them but its rounds.
    outside: BTreeMap<AtomId, Poly>,
    /// What was worked out.
    work: usize,
}

impl<'k> Values<'k> {
    pub(super) fn new(kernel: &'k Kernel) -> Values<'k> {
        let mut written = BTreeSet::new();
        kernel.walk(kernel.body, &mut |i| {
            let d = &kernel.insts[i];
            if matches!(d.op.info().effects.global(), Effects::Writes | Effects::Updates) {
                written.extend(d.args.iter().filter(|&&v| matches!(kernel.ty(v), Type::View(_))));
            }
        });
        let (mut spans, mut at) = (SecondaryMap::new(), 0);
        number(kernel, kernel.body, &mut at, &mut spans);
        Values {
            kernel,
            written,
            spans,
            atoms: IndexSet::default(),
            within: BTreeMap::new(),
            loops: BTreeMap::new(),
            outside: BTreeMap::new(),
            work: 0,
        }
    }

    /// The polynomial of an atom.
    pub(super) fn atom(&mut self, a: Atom) -> Poly {
        Poly::atom(AtomId(self.atoms.insert_full(a).0 as u32))
    }

    /// True if an atom of the kind stands anywhere in a polynomial.
    pub(super) fn has(&self, p: &Poly, of: impl Fn(&Atom) -> bool) -> bool {
        let mut seen: BTreeSet<AtomId> = p.atoms().collect();
        let mut work: Vec<AtomId> = seen.iter().copied().collect();
        while let Some(a) = work.pop().and_then(|a| self.atoms.get_index(a.0 as usize)) {
            if of(a) {
                return true;
            }
            work.extend(a.inner().filter(|&x| seen.insert(x)));
        }
        false
    }

    /// True if a polynomial may be another one in each round of a loop: what is in it stands in the loop, or counts its rounds.
    pub(super) fn varies(&self, p: &Poly, inst: Inst) -> bool {
        self.has(p, |a| match *a {
            Atom::Round(of) => of == inst,
            Atom::Value(v) => self.stands_in(v, inst),
            Atom::Op(..) | Atom::Rounds(..) | Atom::Before(_) => false,
        })
    }

    fn stands_in(&self, v: Value, inst: Inst) -> bool {
        let by = match self.kernel.values[v].def {
            ValueDef::KernelParam(_) => None,
            ValueDef::RegionParam(r, _) => self.kernel.holder(r),
            ValueDef::Result(i, _) => Some(i).filter(|&i| i != inst),
        };
        let (from, to) = self.spans[inst];
        by.is_some_and(|i| (from..=to).contains(&self.spans[i].0))
    }

    /// A number, over what no loop changes.
    pub(super) fn of(&mut self, v: Value) -> Poly {
        let p = self.within(v);
        match self.outside(&p) {
            Some(p) => p,
            None => self.atom(Atom::Value(v)),
        }
    }

    /// How many rounds a loop has, if its bounds are in order.
    pub(super) fn rounds(&mut self, inst: Inst) -> Poly {
        let [lo, hi, step] = [0, 1, 2].map(|n| self.kernel.insts[inst].args[n]).map(|v| self.of(v));
        self.rounds_between(lo, hi, step)
    }

    fn rounds_between(&mut self, lo: Poly, hi: Poly, step: Poly) -> Poly {
        if step == Poly::int(1)
            && let Some(rounds) = hi.short_sum(&lo, -1)
        {
            return rounds;
        }
        self.atom(Atom::Rounds(lo, hi, step))
    }

    fn is_index(&self, v: Value) -> bool {
        self.kernel.ty(v) == &Type::Scalar(Scalar::I32)
    }

    /// A value as it is looked at behind `depth` ops on tiles.
    fn node(&self, v: Value, depth: u8) -> Node {
        if self.is_index(v) { (v, 0) } else { (v, depth) }
    }

    /// The loop whose parameter a value is, and its number.
    fn param(&self, v: Value) -> Option<(Inst, usize)> {
        let ValueDef::RegionParam(r, n) = self.kernel.values[v].def else { return None };
        let inst = self.kernel.holder(r).filter(|&i| self.kernel.insts[i].op == Op::For)?;
        Some((inst, n as usize))
    }

    /// What a value is made of, one step back.
    fn behind(&self, (v, depth): Node) -> SmallVec<[Node; 4]> {
        let k = self.kernel;
        let all = |list: &[Value], depth| list.iter().map(|&a| self.node(a, depth)).collect();
        match k.values[v].def {
            ValueDef::KernelParam(_) => SmallVec::new(),
            ValueDef::RegionParam(..) => match self.param(v) {
                Some((inst, 0)) => all(&[k.insts[inst].args[0], k.insts[inst].args[2]], WHOLE),
                Some(_) | None => SmallVec::new(),
            },
            ValueDef::Result(inst, _) => {
                let d = &k.insts[inst];
                match d.op {
                    Op::For if self.is_index(v) => {
                        let yields = d.regions.first().map_or(&[][..], |&r| k.yields(r));
                        let index = |v: &&Value| self.is_index(**v);
                        d.args.iter().chain(yields).filter(index).map(|&a| (a, 0)).collect()
                    }
                    _ if self.is_index(v) && !(d.op.info().effects == Effects::Pure && d.regions.is_empty()) => SmallVec::new(),
                    _ if self.is_index(v) => all(&d.args, WHOLE),
                    _ if depth == 0 || !self.again(inst) => SmallVec::new(),
                    _ => all(&d.args, depth - 1),
                }
            }
        }
    }

    /// True if the same instruction in another task makes the same of the same operands.
    fn again(&self, inst: Inst) -> bool {
        let d = &self.kernel.insts[inst];
        let pure = d.op.info().effects == Effects::Pure && d.regions.is_empty();
        pure || d.op == Op::Load && !self.written.contains(&d.args[0])
    }

    /// A value over what stands around it.
    fn within(&mut self, v: Value) -> Poly {
        let first = self.node(v, WHOLE);
        let mut work = vec![first];
        while let Some(&node) = work.last() {
            if self.within.contains_key(&node) {
                work.pop();
                continue;
            }
            let open = work.len();
            work.extend(self.behind(node).into_iter().filter(|n| !self.within.contains_key(n)));
            if work.len() == open {
                self.work += 1;
                let made = match self.make(node) {
                    Some(p) => p,
                    None => self.atom(Atom::Value(node.0)),
                };
                self.within.insert(node, made);
                work.pop();
            }
        }
        self.within.get(&first).cloned().unwrap_or_default()
    }

    fn made(&self, v: Value, depth: u8) -> Poly {
        self.within.get(&self.node(v, depth)).cloned().unwrap_or_default()
    }

    /// A value of what is behind it, which is there; `None` for a symbol.
    fn make(&mut self, (v, depth): Node) -> Option<Poly> {
        let k = self.kernel;
        match k.values[v].def {
            ValueDef::KernelParam(_) => None,
            ValueDef::RegionParam(..) => {
                let (inst, n) = self.param(v)?;
                if n > 0 || !self.is_index(v) {
                    return None;
                }
                let round = self.atom(Atom::Round(inst));
                let d = &k.insts[inst];
                let (lo, step) = (self.made(d.args[0], WHOLE), self.made(d.args[2], WHOLE));
                lo.short_sum(&step.short_product(&round)?, 1)
            }
            ValueDef::Result(inst, n) => {
                let d = &k.insts[inst];
                let two = |s: &Self| (s.made(d.args[0], WHOLE), s.made(d.args[1], WHOLE));
                let index = self.is_index(v);
                match d.op {
                    Op::Const if index => match k.as_const(v) {
                        Some((Literal::Int(i), _)) => Some(Poly::int(i)),
                        _ => None,
                    },
                    Op::Add if index => {
                        let (a, b) = two(self);
                        a.short_sum(&b, 1)
                    }
                    Op::Sub if index => {
                        let (a, b) = two(self);
                        a.short_sum(&b, -1)
                    }
                    Op::Mul if index => {
                        let (a, b) = two(self);
                        a.short_product(&b)
                    }
                    Op::For if index => {
                        let (init, by) = self.steps(inst).get(n as usize).cloned().flatten()?;
                        let [lo, hi, step] = [0, 1, 2].map(|n| self.made(d.args[n], WHOLE));
                        let rounds = self.rounds_between(lo, hi, step);
                        init.short_sum(&by.short_product(&rounds)?, 1)
                    }
                    _ if index => {
                        if d.op.info().effects != Effects::Pure || !d.regions.is_empty() {
                            return None;
                        }
                        let args = d.args.iter().map(|&a| self.made(a, WHOLE)).collect();
                        Some(self.atom(Atom::Op(format!("{} {n} {:?}", d.op, d.attrs), args)))
                    }
                    // A tile, or a number of another type, as the op that makes it, if not too many are behind it.
                    _ if depth == 0 || !self.again(inst) => None,
                    _ => {
                        let args = d.args.iter().map(|&a| self.made(a, depth - 1)).collect();
                        Some(self.atom(Atom::Op(format!("{} {n} {} {:?}", d.op, k.ty(v), d.attrs), args)))
                    }
                }
            }
        }
    }

    /// What a loop does to the values that it carries, whose yields and initial values are worked out.
    fn steps(&mut self, inst: Inst) -> &[Steps] {
        if !self.loops.contains_key(&inst) {
            let found = self.work_out(inst);
            self.loops.insert(inst, found);
        }
        self.loops.get(&inst).map_or(&[], Vec::as_slice)
    }

    fn work_out(&mut self, inst: Inst) -> Vec<Steps> {
        let k = self.kernel;
        let d = &k.insts[inst];
        let Some(&region) = d.regions.first() else { return Vec::new() };
        let params = &k.regions[region].params;
        let mut next: Vec<Option<Poly>> = Vec::new();
        let mut kept: BTreeMap<AtomId, Poly> = BTreeMap::new();
        for (n, &y) in k.yields(region).iter().enumerate() {
            let index = params.get(n + 1).filter(|&&p| self.is_index(p));
            next.push(index.map(|_| self.within(y)));
            // What a round hands on as it came is what it was in the beginning.
            if let (Some(&p), Some(&init)) = (index, d.args.get(n + 3)) {
                let p = self.atom(Atom::Value(p));
                if next.last() == Some(&Some(p.clone())) {
                    let init = self.within(init);
                    kept.extend(p.atoms().map(|a| (a, init.clone())));
                }
            }
        }
        let mut out = Vec::new();
        for (n, next) in next.into_iter().enumerate() {
            let by = next.and_then(|next| {
                let own = self.atom(Atom::Value(params[n + 1]));
                let by = next.short_sum(&own, -1)?;
                let by = if kept.is_empty() { by } else { put_in(&by, &kept)? };
                (!self.varies(&by, inst)).then_some(by)
            });
            let init = d.args.get(n + 3).map(|&v| self.within(v));
            out.push(init.zip(by));
        }
        out
    }

    /// A polynomial with what loops do put in for the values that they carry; `None` if it gets long.
    fn outside(&mut self, p: &Poly) -> Option<Poly> {
        let mut work: Vec<AtomId> = p.atoms().collect();
        while let Some(&a) = work.last() {
            if self.outside.contains_key(&a) {
                work.pop();
                continue;
            }
            let Some(atom) = self.atoms.get_index(a.0 as usize).cloned() else {
                work.pop();
                continue;
            };
            let steps = self.steps_of(&atom);
            let parts = atom.inner().chain(steps.iter().flat_map(|(init, by)| init.atoms().chain(by.atoms())));
            let open = work.len();
            let missing: SmallVec<[AtomId; 8]> = parts.filter(|x| !self.outside.contains_key(x)).collect();
            work.extend(missing);
            if work.len() == open {
                self.work += 1;
                // What got long stays as it is: a symbol stands for what it is, whatever else is known of it.
                let made = self.atom_outside(&atom, steps).unwrap_or_else(|| Poly::atom(a));
                self.outside.insert(a, made);
                work.pop();
            }
        }
        put_in(p, &self.outside)
    }

    /// What a loop does to the value that an atom is.
    fn steps_of(&mut self, a: &Atom) -> Steps {
        let Atom::Value(v) = *a else { return None };
        let (inst, n) = self.param(v)?;
        if !self.is_index(v) {
            return None;
        }
        for yielded in self.kernel.yields(self.kernel.insts[inst].regions[0]) {
            if self.is_index(*yielded) {
                self.within(*yielded);
            }
        }
        self.steps(inst).get(n.checked_sub(1)?).cloned().flatten()
    }

    fn atom_outside(&mut self, a: &Atom, steps: Steps) -> Option<Poly> {
        match a {
            Atom::Value(v) => {
                let (init, by) = steps?;
                let (inst, _) = self.param(*v)?;
                let round = self.atom(Atom::Round(inst));
                let (init, by) = (put_in(&init, &self.outside)?, put_in(&by, &self.outside)?);
                init.short_sum(&by.short_product(&round)?, 1)
            }
            Atom::Op(name, args) => {
                let args = args.iter().map(|p| put_in(p, &self.outside)).collect::<Option<Vec<_>>>()?;
                Some(self.atom(Atom::Op(name.clone(), args)))
            }
            Atom::Rounds(lo, hi, step) => {
                let [lo, hi, step] = [lo, hi, step].map(|p| put_in(p, &self.outside));
                Some(self.rounds_between(lo?, hi?, step?))
            }
            Atom::Round(_) | Atom::Before(_) => None,
        }
    }
}

/// Numbers the instructions of a region and of those in it.
fn number(kernel: &Kernel, r: Region, at: &mut u32, out: &mut SecondaryMap<Inst, (u32, u32)>) {
    for &i in &kernel.regions[r].insts {
        *at += 1;
        let from = *at;
        kernel.insts[i].regions.iter().for_each(|&r| number(kernel, r, at, out));
        out[i] = (from, *at);
    }
}

/// A polynomial with others put in for its atoms; `None` if it gets long.
fn put_in(p: &Poly, parts: &BTreeMap<AtomId, Poly>) -> Option<Poly> {
    let stays = |a: AtomId| parts.get(&a).is_none_or(|q| *q == Poly::atom(a));
    if p.atoms().all(stays) {
        return Some(p.clone());
    }
    let mut out = Poly::default();
    for (atoms, &n) in &p.0 {
        let mut term = Poly::int(n);
        for &a in atoms {
            term = match parts.get(&a) {
                Some(q) => term.short_product(q)?,
                None => term.short_product(&Poly::atom(a))?,
            };
        }
        out = out.short_sum(&term, 1)?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{Poly, Values};
    use crate::kernel::Kernel;
    use crate::ops::Op;
    use crate::text;

    fn kernel(body: &str) -> Kernel {
        let source = format!("kernel @k(v0: i32, v1: i32) {{\n{body}\n}}");
        text::parse(&source).unwrap_or_else(|e| panic!("{e}")).kernels.remove(0)
    }

    /// The first operand of each `assume`, and what was worked out.
    fn worked_out(k: &Kernel) -> (Vec<Poly>, usize) {
        let mut values = Values::new(k);
        let mut out = Vec::new();
        k.walk(k.body, &mut |i| {
            if k.insts[i].op == Op::Assume {
                out.push(values.of(k.insts[i].args[0]));
            }
        });
        (out, values.work)
    }

    #[test]
    fn sums_and_loops_are_compared() {
        let k = kernel(
            "v2 = add v0, v1\nv3 = add v1, v0\nv4 = mul v2, v3\nv5 = mul v3, v2\nv6 = for v7 in 0..v1 step 1 carry v8 = v0 {
             v9 = add v8, 3\nv30 = assume v8, multiple 1\nyield v9\n}\nv10 = mul v1, 3\nv11 = add v0, v10
             v20 = assume v4, multiple 1\nv21 = assume v5, multiple 1\nv22 = assume v6, multiple 1\nv23 = assume v11, multiple 1",
        );
        let (p, _) = worked_out(&k);
        assert!(p[1] == p[2] && p[3] == p[4] && p[1] != p[3] && p[0] != p[3]);
    }

    /// What differs from round to round is no step, even where nothing else is known of it.
    #[test]
    fn what_varies_is_no_step() {
        let k = kernel(
            "v6 = for v7 in 0..v1 step 1 carry v8 = 0 {
             v20 = cmp lt v7, v0\nv21 = if v20 {\nyield 1\n} else {\nyield v7\n}\nv9 = add v8, v21
             v22 = mul v21, v7\nv30 = assume v8, multiple 1\nv31 = assume v22, multiple 1\nyield v9\n}",
        );
        let (p, _) = worked_out(&k);
        assert_ne!(p[0], p[1]);
    }

    /// Ops that use what is in front of them several times, in front of loops, in them, and loops in loops or behind each other: each
    /// value is worked out few times.
    #[test]
    fn chains_cost_what_they_are_long() {
        let n = 3000;
        for op in ["xor", "add", "mul", "minimum", "sub"] {
            let chain: String = (3..n).map(|v| format!("v{v} = {op} v{}, v{}\n", v - 1, v - 1)).collect();
            let k = kernel(&format!("v2 = add v0, v1\n{chain}v{n} = assume v{}, multiple 1", n - 1));
            let (_, work) = worked_out(&k);
            assert!(work <= 3 * k.insts.len(), "{op}: {work} for {}", k.insts.len());
        }
        let mixed: String = (4..n).map(|v| format!("v{v} = {} v{}, v{}\n", ["xor", "add"][v % 2], v - 1, v - 2)).collect();
        let k = kernel(&format!("v2 = add v0, v1\nv3 = add v2, v1\n{mixed}v{n} = assume v{}, multiple 1", n - 1));
        assert!(worked_out(&k).1 <= 3 * k.insts.len());
        // Loops behind each other, each of which begins and goes on with what the one before made.
        let rows: String = (0..300)
            .map(|i| {
                let v = 10 + 4 * i;
                let last = if i == 0 { 0 } else { v - 4 };
                let inner = format!("v{} = add v{}, v{last}\nyield v{}", v + 3, v + 2, v + 3);
                format!("v{v} = for v{} in 0..v{last} step 1 carry v{} = v{last} {{\n{inner}\n}}\n", v + 1, v + 2)
            })
            .collect();
        let k = kernel(&format!("{rows}v9999 = assume v{}, multiple 1", 10 + 4 * 299));
        assert!(worked_out(&k).1 <= 6 * k.insts.len(), "{} for {}", worked_out(&k).1, k.insts.len());
        // Loops in loops, each asked for at every depth; two values that need each other.
        let (mut head, mut tail) = (String::new(), String::new());
        for d in 0..16 {
            let v = 10 + 10 * d;
            let (a, b) = if d == 0 { (0, 1) } else { (v - 7, v - 6) };
            head += &format!("v{v}, v{} = for v{} in 0..v1 step 1 carry v{} = v{a}, v{} = v{b} {{\n", v + 1, v + 2, v + 3, v + 4);
            head += &format!("v{} = assume v{}, multiple 1\n", v + 8, v + 3);
            let ends = if d == 15 {
                "v900 = xor v163, v164\nyield v900, v163\n}\n".into()
            } else {
                format!("yield v{}, v{}\n}}\n", v + 11, v + 10)
            };
            tail = ends + &tail;
        }
        let k = kernel(&(head + &tail));
        assert!(worked_out(&k).1 <= 20 * k.insts.len(), "{} for {}", worked_out(&k).1, k.insts.len());
    }
}
