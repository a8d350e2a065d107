//! What scalars of kernels are: sums of integer multiples of *atoms*, so that equal scalars of different kernels compare equal.
//!
//! ```text
//! v5 = mul (program_id x), 128 ; v6 = add v5, 64         64 + 128 * program x
//! dim of a tensor                                        the extent that the graph states: a number, or an atom
//! div, rem, minimum, …                                   an atom of op and operands; folded where these are numbers
//! ```
//!
//! The sums are of `i32` and wrap, as the IR's arithmetic does, so equality of sums is equality of values. Other types are atoms.

use super::atoms::{Atom, Atoms, ScalarKey, Sum};
use super::programs::Programs;
use crate::graph::nodes::{Graph, Node, NodeArg};
use crate::graph::size::{Grid, Size};
use std::collections::BTreeMap;
use tilelift_interp::{ScalarArg, fold};
use tilelift_ir::{Attr, Literal, Op, Region, Scalar, Type, Value};

/// Ops upon ops that are followed at most.
const DEEPEST: u32 = 256;

impl Atoms {
    fn opaque(&mut self) -> Sum {
        self.opaque += 1;
        self.intern(Atom::Opaque(self.opaque))
    }

    /// The scalars of a kernel, and the indices of its loops.
    pub fn scalars(&mut self, graph: &Graph, node: &Node) -> BTreeMap<Value, Sum> {
        let kernel = &node.kernel;
        let mut known = BTreeMap::new();
        for (&v, arg) in kernel.params.iter().zip(&node.args) {
            let sum = match arg {
                NodeArg::Scalar(s) if s.elem() == Scalar::I32 => Some(Sum::number(number(s))),
                _ => ScalarKey::of(arg).map(|k| self.intern(Atom::Argument(k))),
            };
            known.extend(sum.map(|s| (v, s)));
        }
        self.region(graph, node, kernel.body, &mut known);
        known
    }

    /// Remembers the index of a loop that never is negative.
    fn counted(&mut self, op: Op, args: &[Value], index: Option<&Value>, node: &Node, known: &BTreeMap<Value, Sum>) {
        let sum = |n: usize| args.get(n).and_then(|v| known.get(v));
        let index = index.and_then(|v| known.get(v)).and_then(|s| s.terms.first()).map(|t| t.0);
        let number = |n: usize| sum(n).and_then(Sum::as_number);
        if let (Op::For, Some(index), Some(0), Some(end), Some(step)) = (op, index, number(0), sum(1), number(2)) {
            self.steps.insert(index, (end.clone(), step));
        }
        if let (Op::For, Some(index), Some(lo), Some(step)) = (op, index, sum(0), sum(2))
            && self.not_negative(lo, &node.grid)
            && step.as_number().is_some_and(|n| n > 0)
        {
            self.counts.insert(index);
        }
    }

    /// True if a sum is the index of a loop over an extent in steps that divide it and are as wide as a tile: the tile lies inside.
    pub fn walks(&self, sum: &Sum, tile: u32, size: &Size, divisor: u32) -> bool {
        let (0, &[(a, 1)]) = (sum.offset, &sum.terms[..]) else { return false };
        let Some((end, step)) = self.steps.get(&a) else { return false };
        let whole = match size.fixed() {
            Some(n) => end.as_number() == i32::try_from(n).ok(),
            None => self.is_size(end, size),
        };
        whole && u32::try_from(*step).is_ok_and(|s| s > 0 && s >= tile && divisor.is_multiple_of(s))
    }

    /// True if a number, not 0, divides a sum; nothing wraps in a sum of `i32` that a power of two divides.
    pub fn is_multiple(&self, sum: &Sum, n: u32) -> bool {
        let divides = |f: i64| f % i64::from(n) == 0;
        let term = |&(a, f): &(u32, i32)| divides(i64::from(f) * self.steps.get(&a).map_or(1, |s| i64::from(s.1)));
        n != 0 && n.is_power_of_two() && divides(i64::from(sum.offset)) && sum.terms.iter().all(term)
    }

    /// True if a sum is known to be 0 or more in every program of a grid: by its parts, or by looking at each program.
    pub fn not_negative(&self, sum: &Sum, grid: &Grid) -> bool {
        if self.parts_not_negative(sum, grid, DEEPEST) {
            return true;
        }
        let Some(mut programs) = Programs::of(self, grid) else { return false };
        programs.numbers().all(|n| programs.value(sum, n).is_some_and(|v| v >= 0))
    }

    /// The same by what the sum is made of. Positions on a grid of known extents are bounded; of others a launch has no more tiles than
    /// elements, so nothing wraps there.
    fn parts_not_negative(&self, sum: &Sum, grid: &Grid, depth: u32) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        let mut most = i64::from(sum.offset);
        for &(a, factor) in &sum.terms {
            if factor < 0 || !self.atom_not_negative(a, grid, depth) {
                return false;
            }
            if let (Atom::Program(axis), Some(fixed)) = (self.atom(a), grid.fixed()) {
                most = most.saturating_add(i64::from(factor).saturating_mul(i64::from(fixed[*axis as usize])));
            }
        }
        sum.offset >= 0 && i32::try_from(most).is_ok()
    }

    fn atom_not_negative(&self, a: u32, grid: &Grid, depth: u32) -> bool {
        match self.atom(a) {
            Atom::Program(_) | Atom::Programs(_) | Atom::Size(_) => true,
            Atom::Opaque(_) => self.counts.contains(&a),
            Atom::Op(op, _, sums, Scalar::I32) => {
                let all = || sums.iter().all(|s| self.parts_not_negative(s, grid, depth));
                let first = || sums.first().is_some_and(|s| self.parts_not_negative(s, grid, depth));
                match op {
                    Op::Div | Op::DivU | Op::Minimum => all(),
                    Op::Rem | Op::RemU | Op::ShrU | Op::ShrS => first(),
                    Op::And | Op::Maximum => sums.iter().any(|s| self.parts_not_negative(s, grid, depth)),
                    _ => false,
                }
            }
            Atom::Op(..) | Atom::Argument(_) | Atom::Literal(..) => false,
        }
    }

    fn region(&mut self, graph: &Graph, node: &Node, region: Region, known: &mut BTreeMap<Value, Sum>) {
        let kernel = &node.kernel;
        for &p in &kernel.regions[region].params {
            known.insert(p, self.opaque());
        }
        for &i in &kernel.regions[region].insts {
            let d = &kernel.insts[i];
            for &r in &d.regions {
                self.region(graph, node, r, known);
                self.counted(d.op, &d.args, kernel.regions[r].params.first(), node, known);
            }
            for &r in &d.results {
                if let Type::Scalar(elem) = kernel.ty(r) {
                    let sum = self.result(graph, node, d.op, &d.attrs, &d.args, *elem, known);
                    known.insert(r, sum.unwrap_or_else(|| self.opaque()));
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "an instruction in its parts")]
    fn result(
        &mut self,
        graph: &Graph,
        node: &Node,
        op: Op,
        attrs: &[Attr],
        args: &[Value],
        elem: Scalar,
        known: &BTreeMap<Value, Sum>,
    ) -> Option<Sum> {
        let word = elem == Scalar::I32;
        match (op, attrs.first()) {
            (Op::Const, Some(Attr::Literal(Literal::Int(n)))) if word => return Some(Sum::number(*n as i32)),
            (Op::Const, Some(Attr::Literal(l))) => return Some(self.intern(Atom::Literal(*l, elem))),
            (Op::ProgramId, Some(Attr::Grid(axis))) => return Some(self.intern(Atom::Program(*axis))),
            (Op::NumPrograms, Some(Attr::Grid(axis))) => return Some(self.intern(Atom::Programs(*axis))),
            (Op::Dim, Some(Attr::Dim(d))) => {
                let param = node.kernel.params.iter().position(|p| Some(p) == args.first())?;
                let (id, flat) = node.args[param].tensor()?;
                let size = graph.extents(&graph.tensors()[id.index()], flat).get(*d as usize)?.clone();
                return Some(self.size(&size));
            }
            _ => {}
        }
        let sums: Vec<Sum> = args.iter().map(|a| known.get(a).cloned()).collect::<Option<_>>()?;
        match (op, &sums[..]) {
            (Op::Add, [a, b]) if word => return Some(a.add(b, 1)),
            (Op::Sub, [a, b]) if word => return Some(a.add(b, -1)),
            (Op::Neg, [a]) if word => return Some(Sum::number(0).add(a, -1)),
            (Op::Assume, [a]) => return Some(a.clone()),
            (Op::Mul, [a, b]) if word && b.as_number().is_some() => return Some(Sum::number(0).add(a, b.offset)),
            (Op::Mul, [a, b]) if word && a.as_number().is_some() => return Some(Sum::number(0).add(b, a.offset)),
            _ => {}
        }
        if !op.computes_elements() {
            return None;
        }
        let literals: Option<Vec<(Literal, Scalar)>> =
            sums.iter().zip(args).map(|(s, &a)| self.literal(s, node.kernel.ty(a).elem())).collect();
        if let Some(l) = literals.and_then(|l| fold(op, attrs, &l, elem)) {
            return Some(match l {
                Literal::Int(n) if word => Sum::number(n as i32),
                l => self.intern(Atom::Literal(l, elem)),
            });
        }
        Some(self.intern(Atom::Op(op, attrs.to_vec(), sums, elem)))
    }

    fn literal(&self, sum: &Sum, elem: Scalar) -> Option<(Literal, Scalar)> {
        if let Some(n) = sum.as_number().filter(|_| elem == Scalar::I32) {
            return Some((Literal::Int(i64::from(n)), elem));
        }
        match (&sum.terms[..], sum.offset) {
            (&[(a, 1)], 0) => match self.atom(a) {
                Atom::Literal(l, t) => Some((*l, *t)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The value, if every program of a grid has the same; only small grids are looked through.
    pub fn constant(&self, sum: &Sum, grid: &Grid) -> Option<i32> {
        let mut programs = self.moves(sum).then(|| Programs::of(self, grid))??;
        let first = programs.value(sum, 0)?;
        // The last one first: it differs, if any does, as a rule.
        programs.numbers().rev().all(|n| programs.value(sum, n) == Some(first)).then_some(first)
    }
}

/// The number of an `i32` argument.
fn number(s: &ScalarArg) -> i32 {
    s.bits() as i32
}
