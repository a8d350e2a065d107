//! Sums of 16-bit floats as sums of `f32`, where the target's group matrix instructions make no others: a sum may be rounded to its type at any step, so
//! it may be rounded behind all of them.
//!
//! ```text
//! s = for … carry x = z {                         w = for … carry x = cast z : f32 {
//!     y = dot a, b, x : f16                           y = dot a, b, x : f32
//!     yield y                                ─►       yield y
//! }                                               }
//!                                                 s = cast w : f16
//! ```
//!
//! What else reads a sum reads it rounded. Loops and choices hand on what is not rounded, if nobody in them reads more of it. The rewrite is from tile IR
//! to tile IR.

use crate::plan::is_zero;
use crate::rewrite::Rewrite;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Attr, Inst, Kernel, Op, Precision, Region, Scalar, TileType, Type, Value};
use tilelift_lane::Target;

/// More sums than so many stay as they are: for each one the kernel is looked through.
const MOST: usize = 256;

/// The kernel with sums in `f32` that the target's group matrix instructions make in no narrower type; `None` if there are none or very many.
pub fn wide_sums(kernel: &Kernel, target: &Target) -> Option<Kernel> {
    let units = target.units.as_ref().filter(|_| !kernel.is_explicit())?;
    let makes = |factors: [Scalar; 2], acc: Scalar| units.matrix.iter().any(|m| m.takes(factors, acc, Precision::Exact));
    let wanted = |i: Inst| {
        let d = &kernel.insts[i];
        let of = |v: Value| kernel.ty(v).elem();
        let narrow = |v: Value, factors: [Scalar; 2]| of(v) == Scalar::F16 && !makes(factors, of(v)) && makes(factors, Scalar::F32);
        d.op == Op::Dot && d.results.first().is_some_and(|&v| narrow(v, [of(d.args[0]), of(d.args[1])]))
    };
    let mut dots = BTreeSet::new();
    kernel.walk(kernel.body, &mut |i| {
        if wanted(i) {
            dots.insert(i);
        }
    });
    if dots.is_empty() || dots.len() > MOST {
        return None;
    }
    taken(Decision::WideSums, || Told::of(format!("{} products of f16 sums are made in f32", dots.len())));
    let mut made = Widening { to: Rewrite::of(kernel), dots, rounded: BTreeMap::new(), casts: BTreeSet::new() };
    made.region(kernel.body);
    made.forget_casts();
    Some(made.to.finish())
}

/// A kernel whose sums become wide.
struct Widening {
    to: Rewrite,
    /// Products whose sums do.
    dots: BTreeSet<Inst>,
    /// What rounded sums are rounded of.
    rounded: BTreeMap<Value, Value>,
    /// Casts that were made.
    casts: BTreeSet<Inst>,
}

impl Widening {
    /// All of a region, what stands inside of an instruction in front of it.
    fn region(&mut self, region: Region) {
        for i in self.to.kernel.regions[region].insts.clone() {
            let d = self.to.kernel.insts[i].clone();
            d.regions.iter().for_each(|&r| self.region(r));
            if self.dots.contains(&i) {
                let sum = self.wide((region, i), d.args[2]);
                self.to.kernel.insts[i].args[2] = sum;
                self.widen_result((region, i), 0);
            }
            for n in 0..d.results.len() {
                match d.op {
                    Op::For => self.carried((region, i), n),
                    Op::If => self.chosen((region, i), n),
                    _ => {}
                }
            }
        }
    }

    /// A value that a loop carries, if in the loop it is nothing but added to, and handed on.
    fn carried(&mut self, at: (Region, Inst), n: usize) {
        let kernel = &self.to.kernel;
        let (d, body) = (&kernel.insts[at.1], kernel.insts[at.1].regions[0]);
        let (Some(&param), Some(end)) = (kernel.regions[body].params.get(n + 1), kernel.terminator(body)) else { return };
        if !self.rounded.contains_key(&kernel.insts[end].args[n]) {
            return;
        }
        let (mut own, mut others) = (Vec::new(), false);
        kernel.walk(body, &mut |i| {
            if kernel.insts[i].args.contains(&param) {
                if self.casts.contains(&i) { own.push(i) } else { others = true }
            }
        });
        if others {
            return;
        }
        let first = d.args[3 + n];
        let first = self.wide(at, first);
        self.to.kernel.insts[at.1].args[3 + n] = first;
        self.widen_end(end, n, body);
        self.to.kernel.values[param].ty = self.to.kernel.ty(first).clone();
        for i in own {
            let wide = self.to.kernel.insts[i].results[0];
            self.to.replace(wide, param);
            self.casts.remove(&i);
            let holder = self.to.kernel.regions.iter().find(|r| r.1.insts.contains(&i)).map(|r| r.0);
            if let Some(r) = holder {
                self.to.kernel.regions[r].insts.retain(|&j| j != i);
            }
        }
        self.to.settle();
        self.widen_result(at, n);
    }

    /// What a choice gives, if an arm gives a rounded sum.
    fn chosen(&mut self, at: (Region, Inst), n: usize) {
        let regions = self.to.kernel.insts[at.1].regions.clone();
        let ends: Vec<(Region, Inst)> = regions.iter().filter_map(|&r| Some((r, self.to.kernel.terminator(r)?))).collect();
        if ends.iter().any(|&(_, end)| self.rounded.contains_key(&self.to.kernel.insts[end].args[n])) {
            ends.iter().for_each(|&(r, end)| self.widen_end(end, n, r));
            self.widen_result(at, n);
        }
    }

    /// Has a region hand on what is not rounded.
    fn widen_end(&mut self, end: Inst, n: usize, region: Region) {
        let given = self.to.kernel.insts[end].args[n];
        let wide = self.wide((region, end), given);
        self.to.kernel.insts[end].args[n] = wide;
    }

    /// A result in `f32`, which everybody but the sums reads rounded.
    fn widen_result(&mut self, (region, i): (Region, Inst), n: usize) {
        let kernel = &mut self.to.kernel;
        let v = kernel.insts[i].results[n];
        let narrow = kernel.ty(v).clone();
        kernel.values[v].ty = in_type(&narrow, Scalar::F32);
        let insts = &kernel.regions[region].insts;
        let Some(&behind) = insts.iter().position(|&j| j == i).and_then(|at| insts.get(at + 1)) else { return };
        let made = self.cast((region, behind), v, narrow);
        self.rounded.insert(made, v);
        let users: Vec<Inst> = self.to.kernel.insts.keys().filter(|j| !self.casts.contains(j)).collect();
        for j in users {
            self.to.kernel.insts[j].args.iter_mut().filter(|a| **a == v).for_each(|a| *a = made);
        }
    }

    /// A value in `f32`, in front of an instruction: what it is rounded of, if it is.
    fn wide(&mut self, at: (Region, Inst), v: Value) -> Value {
        if let Some(&of) = self.rounded.get(&v) {
            return of;
        }
        let ty = in_type(self.to.kernel.ty(v), Scalar::F32);
        match is_zero(&self.to.kernel, v) {
            true => self.to.nothing(at, &ty).unwrap_or(v),
            false => self.cast(at, v, ty),
        }
    }

    fn cast(&mut self, at: (Region, Inst), v: Value, ty: Type) -> Value {
        let made = self.to.put(at, (Op::Cast, &[v], &[] as &[Attr]), ty);
        self.casts.extend(self.to.kernel.def_inst(made));
        made
    }

    /// Takes casts out that nobody reads.
    fn forget_casts(&mut self) {
        let kernel = &mut self.to.kernel;
        let mut read = BTreeSet::new();
        kernel.walk(kernel.body, &mut |i| read.extend(kernel.insts[i].args.iter().copied()));
        let dead: BTreeSet<Inst> = self.casts.iter().copied().filter(|&i| !read.contains(&kernel.insts[i].results[0])).collect();
        kernel.regions.values_mut().for_each(|r| r.insts.retain(|i| !dead.contains(i)));
    }
}

/// A type with other elements.
fn in_type(ty: &Type, elem: Scalar) -> Type {
    match ty {
        Type::Tile(t) => Type::Tile(TileType { elem, ..t.clone() }),
        _ => ty.clone(),
    }
}
