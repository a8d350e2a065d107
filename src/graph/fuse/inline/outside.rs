//! What a producer's value is beyond the end of a tensor's row, where that is one number for all elements.
//!
//! A load reads `other` there; masks that ask for the row's end are false; ops on numbers give numbers. One step needs an argument: `x - m`
//! where `x` is `-inf` beyond the end and `m` is the maximum of `x`. It is `-inf` unless `m` is, and then every `x - m` is NaN anyway. Where
//! roundings may change, `0 / l` is 0 for one `l` of a whole row: a row with an `l` of 0 or NaN has no numbers.

use super::super::atoms::Sum;
use super::source::{Source, Sources};
use crate::graph::size::Size;
use std::cell::Cell;
use tilelift_egraph::Class;
use tilelift_interp::fold;
use tilelift_ir::ops::Rule;
use tilelift_ir::{Attr, CmpOp, Effects, Inst, InstData, Literal, Op, ReduceOp, Scalar, Type, Value, ValueDef};

/// Values that are looked at for one answer.
const MOST_VALUES: u32 = 2000;
/// Values upon values that are compared.
const DEEPEST: u32 = 200;

/// Looks at values of a producer.
pub(super) struct Outside<'a, 'g> {
    sources: &'a Sources<'g>,
    source: &'a Source<'g>,
    looked: Cell<u32>,
}

/// The end of a row: the dimension of the value that is asked for, the index of its first element, the row's extent.
#[derive(Clone, Copy)]
struct End<'e> {
    axis: Option<usize>,
    start: &'e Sum,
    size: &'e Size,
}

/// The element that changes nothing.
pub(super) fn neutral(op: ReduceOp, elem: Scalar) -> Option<Literal> {
    let float = |x: f64| Literal::Float(x.to_bits());
    let bits = || i64::MAX >> (64 - elem.bits());
    Some(match (op, elem.is_float()) {
        (ReduceOp::Add, true) => float(0.0),
        (ReduceOp::Mul, true) => float(1.0),
        (ReduceOp::Maximum, true) => float(f64::NEG_INFINITY),
        (ReduceOp::Minimum, true) => float(f64::INFINITY),
        (_, false) if elem == Scalar::I1 => return None,
        (ReduceOp::Add | ReduceOp::Or | ReduceOp::Xor, false) => Literal::Int(0),
        (ReduceOp::Mul, false) => Literal::Int(1),
        (ReduceOp::And, false) => Literal::Int(-1),
        (ReduceOp::Maximum, false) => Literal::Int(-bits() - 1),
        (ReduceOp::Minimum, false) => Literal::Int(bits()),
        (ReduceOp::And | ReduceOp::Or | ReduceOp::Xor, true) => return None,
    })
    .filter(|_| !elem.is_narrow() && elem.bits() >= 16)
}

impl<'a, 'g> Outside<'a, 'g> {
    pub fn new(sources: &'a Sources<'g>, source: &'a Source<'g>) -> Outside<'a, 'g> {
        Outside { sources, source, looked: Cell::new(0) }
    }

    fn more(&self) -> Option<()> {
        self.looked.set(self.looked.get() + 1);
        (self.looked.get() < MOST_VALUES).then_some(())
    }

    /// The first index along a dimension of a value, and the extent of the row that it is loaded from.
    pub fn origin(&self, v: Value, axis: usize) -> Option<(Sum, Size)> {
        self.more()?;
        let seen = &self.source.seen;
        let kernel = &seen.node.kernel;
        let ValueDef::Result(inst, n) = kernel.values[v].def else { return None };
        let d = &kernel.insts[inst];
        match (d.op, d.attrs.first()) {
            (Op::Load, _) => {
                let access = seen.accesses.iter().find(|a| a.inst == inst)?;
                let (t, place) = (&self.sources.graph.tensors[access.tensor.index()], access.place.as_ref()?);
                // A tile of one element along the way is the same for all.
                let extents = self.sources.graph.extents(t, place.flat);
                (place.shape[axis] > 1).then(|| (place.index[axis].clone(), extents[axis].clone()))
            }
            (Op::For, _) => self.origin(*kernel.yields(d.regions[0]).get(n as usize)?, axis),
            (Op::Dot, _) => self.origin(d.args[axis], axis),
            (Op::DotScaled, _) => self.origin(d.args[2 * axis], axis),
            _ if kernel.is_elementwise(inst) => {
                d.args.iter().filter(|&&a| kernel.ty(a).as_tile().is_some()).find_map(|&a| self.origin(a, axis))
            }
            _ => self.origin(d.args.first().copied()?, self.before(inst, axis)?),
        }
    }

    /// The dimension of the operand behind a dimension of a move's result.
    fn before(&self, inst: Inst, axis: usize) -> Option<usize> {
        let kernel = &self.source.seen.node.kernel;
        let d = &kernel.insts[inst];
        let from = kernel.ty(*d.args.first()?).shape()?;
        let to = kernel.ty(d.results[0]).shape()?;
        match (d.op.info().rule, d.attrs.last()) {
            (Rule::Broadcast, _) => (from[axis] == to[axis]).then_some(axis),
            (Rule::Transpose, Some(Attr::Perm(p))) => Some(p[axis] as usize),
            (Rule::Reduce, Some(Attr::Dim(a))) => Some(axis + usize::from(axis >= *a as usize)),
            (Rule::Reshape, _) if to[axis] != 1 => {
                let count = |s: &[u32]| s.iter().filter(|&&e| e != 1).count();
                let nth = count(&to[..axis]);
                let alike = from.iter().filter(|&&e| e != 1).eq(to.iter().filter(|&&e| e != 1));
                (0..from.len()).find(|&k| alike && from[k] != 1 && count(&from[..k]) == nth)
            }
            _ => None,
        }
    }

    /// True if all elements of a value that lie beyond the end along an axis are this number.
    pub fn is(&self, v: Value, axis: usize, (start, size): (&Sum, &Size), number: Literal) -> bool {
        let found = self.beyond(v, End { axis: Some(axis), start, size });
        match (found, number) {
            // Either zero, where roundings may change.
            (Some(Literal::Float(a)), Literal::Float(b)) if self.sources.allow >= Class::Reassoc => f64::from_bits(a) == f64::from_bits(b),
            (a, b) => a == Some(b),
        }
    }

    fn beyond(&self, v: Value, end: End<'_>) -> Option<Literal> {
        self.more()?;
        let seen = &self.source.seen;
        let kernel = &seen.node.kernel;
        if let Some((l, _)) = kernel.as_const(v) {
            return Some(l);
        }
        let inst = kernel.def_inst(v)?;
        let d = &kernel.insts[inst];
        let elem = kernel.ty(v).elem();
        match d.op {
            Op::Load => {
                let access = seen.accesses.iter().find(|a| a.inst == inst)?;
                let (t, place) = (&self.sources.graph.tensors[access.tensor.index()], access.place.as_ref()?);
                let axis = end.axis?;
                let extents = self.sources.graph.extents(t, place.flat);
                let ends = place.index[axis] == *end.start && extents[axis] == *end.size && place.shape[axis] > 1;
                match kernel.operand(inst, "other").first() {
                    _ if !ends => None,
                    Some(&o) => self.beyond(o, End { axis: None, ..end }),
                    None if elem.is_float() => Some(Literal::Float(0)),
                    None => Some(Literal::Int(0)),
                }
            }
            Op::Splat => self.beyond(d.args[0], End { axis: None, ..end }),
            Op::Cmp => self.compared(inst, end),
            Op::Select => match self.beyond(d.args[0], end) {
                Some(Literal::Int(c)) => self.beyond(d.args[if c != 0 { 1 } else { 2 }], end),
                _ => {
                    let a = self.beyond(d.args[1], end)?;
                    (self.beyond(d.args[2], end)? == a).then_some(a)
                }
            },
            Op::And if elem == Scalar::I1 => {
                let parts = [self.beyond(d.args[0], end), self.beyond(d.args[1], end)];
                parts.contains(&Some(Literal::Int(0))).then_some(Literal::Int(0))
            }
            Op::Sub if self.is_below(d.args[0], d.args[1], end) => Some(Literal::Float(f64::NEG_INFINITY.to_bits())),
            // A row that is divided by 0 or NaN has no numbers inside either.
            Op::Div if self.sources.allow >= Class::Reassoc && self.uniform(d.args[1], end) => match self.beyond(d.args[0], end)? {
                Literal::Float(bits) if f64::from_bits(bits) == 0.0 => Some(Literal::Float(0)),
                _ => None,
            },
            _ if kernel.is_elementwise(inst) => {
                let args: Option<Vec<(Literal, Scalar)>> =
                    d.args.iter().map(|&a| Some((self.beyond(a, end)?, kernel.ty(a).elem()))).collect();
                fold(d.op, &d.attrs, &args?, elem)
            }
            Op::Broadcast | Op::Reshape | Op::Transpose => {
                let axis = end.axis.and_then(|a| self.before(inst, a));
                self.beyond(d.args[0], End { axis, ..end })
            }
            _ => None,
        }
    }

    /// True if all elements of a row are one.
    fn uniform(&self, v: Value, end: End<'_>) -> bool {
        let kernel = &self.source.seen.node.kernel;
        let Some(inst) = kernel.def_inst(v) else { return false };
        let d = &kernel.insts[inst];
        match (d.op, end.axis) {
            (Op::Splat, _) => true,
            (Op::Broadcast, Some(axis)) => self.before(inst, axis).is_none(),
            (Op::Cast, _) => self.more().is_some() && self.uniform(d.args[0], end),
            _ => false,
        }
    }

    /// True if `x` is `-inf` beyond the end and `m` is the maximum of `x` along the row.
    fn is_below(&self, x: Value, m: Value, end: End<'_>) -> bool {
        let kernel = &self.source.seen.node.kernel;
        let mut m = m;
        let fold = loop {
            let Some(i) = kernel.def_inst(m) else { return false };
            let d = &kernel.insts[i];
            match d.op {
                Op::Broadcast | Op::Reshape => m = d.args[0],
                Op::For => match self.part(d, m) {
                    Some(part) => m = part,
                    None => return false,
                },
                Op::Reduce => break d,
                _ => return false,
            }
        };
        fold.attrs.first() == Some(&Attr::Reduce(ReduceOp::Maximum))
            && fold.attrs.last() == end.axis.map(|a| Attr::Dim(a as u32)).as_ref()
            && self.alike(fold.args[0], x, 0)
            && self.beyond(x, end) == Some(Literal::Float(f64::NEG_INFINITY.to_bits()))
    }

    /// What a loop takes the maximum of, to get this result.
    fn part(&self, d: &InstData, result: Value) -> Option<Value> {
        let kernel = &self.source.seen.node.kernel;
        let n = d.results.iter().position(|&r| r == result)?;
        let region = d.regions[0];
        let carried = *kernel.regions[region].params.get(n + 1)?;
        let last = kernel.def_inst(*kernel.yields(region).get(n)?)?;
        match kernel.insts[last].args[..] {
            [a, b] if kernel.insts[last].op == Op::Maximum && a == carried => Some(b),
            [a, b] if kernel.insts[last].op == Op::Maximum && b == carried => Some(a),
            _ => None,
        }
    }

    /// True if two values are one, or one at the indices of two loops over one range in one iteration.
    fn alike(&self, a: Value, b: Value, depth: u32) -> bool {
        let kernel = &self.source.seen.node.kernel;
        if a == b {
            return true;
        }
        if self.more().is_none() || depth > DEEPEST {
            return false;
        }
        match (kernel.values[a].def, kernel.values[b].def) {
            (ValueDef::Result(i, m), ValueDef::Result(j, n)) => {
                let (p, q) = (&kernel.insts[i], &kernel.insts[j]);
                let same = p.op == q.op && m == n && p.attrs == q.attrs && p.present == q.present && kernel.ty(a) == kernel.ty(b);
                let plain = p.regions.is_empty() && matches!(p.op.info().effects, Effects::Pure | Effects::Reads);
                same && plain && p.args.len() == q.args.len() && p.args.iter().zip(&q.args).all(|(&a, &b)| self.alike(a, b, depth + 1))
            }
            (ValueDef::RegionParam(r, 0), ValueDef::RegionParam(s, 0)) => {
                let range = |r| kernel.holder(r).map(|i| &kernel.insts[i]).filter(|d| d.op == Op::For).map(|d| &d.args[..3]);
                let sum = |v: &Value| self.source.seen.sums.get(v);
                let same = |(x, y): (&Value, &Value)| sum(x).is_some() && sum(x) == sum(y);
                matches!((range(r), range(s)), (Some(x), Some(y)) if x.iter().zip(y).all(same))
            }
            _ => false,
        }
    }

    /// A comparison of the index along the row with the row's end.
    fn compared(&self, inst: Inst, end: End<'_>) -> Option<Literal> {
        let kernel = &self.source.seen.node.kernel;
        let d = &kernel.insts[inst];
        let Some(Attr::Cmp(op)) = d.attrs.first() else { return None };
        let (a, b) = (d.args[0], d.args[1]);
        let answer = match op {
            CmpOp::Lt if self.is_index(a, end) && self.is_end(b, end) => 0,
            CmpOp::Ge if self.is_index(a, end) && self.is_end(b, end) => 1,
            CmpOp::Gt if self.is_end(a, end) && self.is_index(b, end) => 0,
            CmpOp::Le if self.is_end(a, end) && self.is_index(b, end) => 1,
            _ => return None,
        };
        Some(Literal::Int(answer))
    }

    fn is_end(&self, v: Value, end: End<'_>) -> bool {
        let kernel = &self.source.seen.node.kernel;
        let Some(i) = kernel.def_inst(v).filter(|&i| kernel.insts[i].op == Op::Splat) else { return false };
        let sum = self.source.seen.sums.get(&kernel.insts[i].args[0]);
        sum.is_some_and(|s| self.sources.is_size(s, end.size))
    }

    fn is_index(&self, v: Value, end: End<'_>) -> bool {
        let kernel = &self.source.seen.node.kernel;
        let (Some(axis), Some(i)) = (end.axis, kernel.def_inst(v)) else { return false };
        let d = &kernel.insts[i];
        if *kernel.ty(v) != Type::tile(kernel.ty(v).shape().unwrap_or(&[]), Scalar::I32) {
            return false;
        }
        let iota = |v: Value| {
            kernel.def_inst(v).is_some_and(|i| {
                let d = &kernel.insts[i];
                d.op == Op::Iota && d.attrs.first() == Some(&Attr::Dim(axis as u32))
            })
        };
        let start = |v: Value| {
            let splat = kernel.def_inst(v).map(|i| &kernel.insts[i]).filter(|d| d.op == Op::Splat);
            splat.and_then(|d| self.source.seen.sums.get(&d.args[0])) == Some(end.start)
        };
        match d.op {
            Op::Iota => end.start.as_number() == Some(0) && iota(v),
            Op::Add => (iota(d.args[0]) && start(d.args[1])) || (iota(d.args[1]) && start(d.args[0])),
            Op::Broadcast | Op::Reshape => match self.before(i, axis) {
                Some(inner) => self.is_index(d.args[0], End { axis: Some(inner), ..end }),
                None => false,
            },
            _ => false,
        }
    }
}
