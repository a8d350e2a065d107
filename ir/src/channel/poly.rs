//! Integer expressions over what loops do not change: polynomials, so that `base + k` and the number of puts so far can be compared.

use crate::entities::{Inst, Value};
use crate::kernel::{Kernel, ValueDef};
use crate::ops::{Effects, Literal, Op};
use crate::types::{Scalar, Type};
use std::collections::{BTreeMap, BTreeSet};

/// What a polynomial is made of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
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

/// A sum of products with factors.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Poly(BTreeMap<Vec<Atom>, i64>);

impl Poly {
    pub(super) fn int(n: i64) -> Poly {
        Poly([(Vec::new(), n)].into_iter().filter(|t| t.1 != 0).collect())
    }
    pub(super) fn atom(a: Atom) -> Poly {
        Poly([(vec![a], 1)].into_iter().collect())
    }
    pub(super) fn add(&self, other: &Poly) -> Poly {
        let mut out = self.clone();
        for (atoms, n) in &other.0 {
            let sum = out.0.entry(atoms.clone()).or_insert(0);
            *sum = sum.wrapping_add(*n);
        }
        out.0.retain(|_, n| *n != 0);
        out
    }
    pub(super) fn sub(&self, other: &Poly) -> Poly {
        self.add(&other.mul(&Poly::int(-1)))
    }
    pub(super) fn mul(&self, other: &Poly) -> Poly {
        let mut out = Poly::default();
        for (a, n) in &self.0 {
            for (b, m) in &other.0 {
                let mut atoms: Vec<Atom> = a.iter().chain(b).cloned().collect();
                atoms.sort();
                out = out.add(&Poly([(atoms, n.wrapping_mul(*m))].into_iter().filter(|t| t.1 != 0).collect()));
            }
        }
        out
    }
    /// True if an atom of the kind stands anywhere in it.
    pub(super) fn has(&self, of: &dyn Fn(&Atom) -> bool) -> bool {
        self.0.keys().flatten().any(|a| {
            of(a)
                || match a {
                    Atom::Op(_, args) => args.iter().any(|p| p.has(of)),
                    Atom::Rounds(lo, hi, step) => [lo, hi, step].iter().any(|p| p.has(of)),
                    Atom::Value(_) | Atom::Round(_) | Atom::Before(_) => false,
                }
        })
    }
}

/// Works out values of a kernel.
pub(super) struct Values<'k> {
    pub(super) kernel: &'k Kernel,
    /// Carried values that are being worked out.
    open: BTreeSet<Value>,
    /// Views that the kernel writes.
    written: BTreeSet<Value>,
}

/// So many ops behind one another are looked at between a number and what was loaded for it.
const WHOLE: u32 = 6;

impl<'k> Values<'k> {
    pub(super) fn new(kernel: &'k Kernel) -> Values<'k> {
        let mut written = BTreeSet::new();
        kernel.walk(kernel.body, &mut |i| {
            let d = &kernel.insts[i];
            if matches!(d.op.info().effects.global(), Effects::Writes | Effects::Updates) {
                written.extend(d.args.iter().filter(|&&v| matches!(kernel.ty(v), Type::View(_))));
            }
        });
        Values { kernel, open: BTreeSet::new(), written }
    }

    pub(super) fn of(&mut self, v: Value) -> Poly {
        let opaque = Poly::atom(Atom::Value(v));
        if self.kernel.ty(v) != &Type::Scalar(Scalar::I32) {
            return self.whole(v, WHOLE).unwrap_or(opaque);
        }
        match self.kernel.values[v].def {
            ValueDef::KernelParam(_) => opaque,
            ValueDef::RegionParam(r, n) => {
                let holder = self.kernel.insts.iter().find(|(_, d)| d.op == Op::For && d.regions.first() == Some(&r));
                let Some((inst, d)) = holder else { return opaque };
                if n == 0 {
                    let (lo, step) = (self.of(d.args[0]), self.of(d.args[2]));
                    return lo.add(&step.mul(&Poly::atom(Atom::Round(inst))));
                }
                self.carried(inst, n as usize - 1).map_or(opaque, |(init, by)| init.add(&by.mul(&Poly::atom(Atom::Round(inst)))))
            }
            ValueDef::Result(inst, n) => {
                let d = &self.kernel.insts[inst];
                match d.op {
                    Op::Const => match self.kernel.as_const(v) {
                        Some((Literal::Int(i), _)) => Poly::int(i),
                        _ => opaque,
                    },
                    Op::Add => self.of(d.args[0]).add(&self.of(d.args[1])),
                    Op::Sub => self.of(d.args[0]).sub(&self.of(d.args[1])),
                    Op::Mul => self.of(d.args[0]).mul(&self.of(d.args[1])),
                    Op::For => {
                        let rounds = self.rounds(inst);
                        self.carried(inst, n as usize).map_or(opaque, |(init, by)| init.add(&by.mul(&rounds)))
                    }
                    op if op.info().effects == Effects::Pure && d.regions.is_empty() => {
                        let args = d.args.iter().map(|&a| self.of(a)).collect();
                        Poly::atom(Atom::Op(format!("{op} {n} {:?}", d.attrs), args))
                    }
                    _ => opaque,
                }
            }
        }
    }

    /// A tile, or a number of another type, as the op that makes it: in another task the same op makes the same one of the same operands.
    /// `None` if it is not known to, or so many ops are behind it that nobody wants to look.
    fn whole(&mut self, v: Value, depth: u32) -> Option<Poly> {
        let ValueDef::Result(inst, n) = self.kernel.values[v].def else { return None };
        let kernel = self.kernel;
        let d = &kernel.insts[inst];
        let pure = d.op.info().effects == Effects::Pure && d.regions.is_empty();
        if depth == 0 || !(pure || d.op == Op::Load && !self.written.contains(&d.args[0])) {
            return None;
        }
        let mut args = Vec::new();
        for &a in &d.args {
            let index = kernel.ty(a) == &Type::Scalar(Scalar::I32);
            let made = if index { Some(self.of(a)) } else { self.whole(a, depth - 1) };
            args.push(made.unwrap_or_else(|| Poly::atom(Atom::Value(a))));
        }
        Some(Poly::atom(Atom::Op(format!("{} {n} {} {:?}", d.op, kernel.ty(v), d.attrs), args)))
    }

    /// How many rounds a loop has, if its bounds are in order.
    pub(super) fn rounds(&mut self, inst: Inst) -> Poly {
        let args = &self.kernel.insts[inst].args;
        let (lo, hi, step) = (self.of(args[0]), self.of(args[1]), self.of(args[2]));
        if step == Poly::int(1) { hi.sub(&lo) } else { Poly::atom(Atom::Rounds(lo, hi, step)) }
    }

    /// Where a carried value begins, and what each round adds, if that is always the same.
    fn carried(&mut self, inst: Inst, n: usize) -> Option<(Poly, Poly)> {
        let kernel = self.kernel;
        let d = &kernel.insts[inst];
        let region = *d.regions.first()?;
        let param = *kernel.regions[region].params.get(n + 1)?;
        if !self.open.insert(param) {
            return None;
        }
        let next = kernel.yields(region).get(n).map(|&v| self.of(v));
        self.open.remove(&param);
        let by = next?.sub(&Poly::atom(Atom::Value(param)));
        let params = &kernel.regions[region].params;
        let changes = |a: &Atom| *a == Atom::Round(inst) || matches!(a, Atom::Value(v) if params.contains(v));
        if by.has(&changes) { None } else { Some((self.of(d.args[n + 3]), by)) }
    }
}
