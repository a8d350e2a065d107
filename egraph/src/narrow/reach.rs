//! Where a comparison of coordinates is the same in all elements: bounds of a loop's index.
//!
//! ```text
//! a value = factor * index + sum of factors * values in front + number + sum of steps * position in the tile
//! x <= y is false everywhere  <=>  min (x - y) >= 1        the minimum over positions is a line of the index
//! ```

use crate::hash::IndexSet;
use cranelift_entity::SecondaryMap;
use smallvec::{SmallVec, smallvec};
use tilelift_ir::{Attr, CmpOp, Effects, Inst, Kernel, Literal, Op, Scalar, Type, Value};

/// Values that are looked at for a coordinate.
const MOST: usize = 256;

/// The largest factor, and the largest number: lines of such stay in 32 bits where coordinates do.
const LARGEST_FACTOR: u64 = 1 << 20;
const LARGEST_NUMBER: u64 = 1 << 29;

/// An end of a loop's range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The first rounds.
    First,
    /// The last ones.
    Last,
}

/// `index * i + sum of terms + number`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Line {
    index: i64,
    /// By value; no factor is 0.
    pub terms: SmallVec<[(Value, i64); 4]>,
    pub number: i64,
}

impl Line {
    fn plus(mut self, other: &Line, times: i64) -> Option<Line> {
        self.index = self.index.checked_add(other.index.checked_mul(times)?)?;
        self.number = self.number.checked_add(other.number.checked_mul(times)?)?;
        for &(v, factor) in &other.terms {
            let more = factor.checked_mul(times)?;
            match self.terms.iter_mut().find(|t| t.0 == v) {
                Some(t) => t.1 = t.1.checked_add(more)?,
                None => self.terms.push((v, more)),
            }
        }
        self.terms.retain(|t| t.1 != 0);
        self.terms.sort_unstable();
        Some(self)
    }

    fn times(&self, factor: i64) -> Option<Line> {
        Line::default().plus(self, factor)
    }

    fn is_small(&self) -> bool {
        let small = |f: i64| f.unsigned_abs() <= LARGEST_FACTOR;
        small(self.index) && self.terms.iter().all(|t| small(t.1)) && self.number.unsigned_abs() <= LARGEST_NUMBER
    }
}

/// A coordinate: a line, and what a step along each dimension of the tile adds.
#[derive(Clone)]
struct Form {
    line: Line,
    steps: SmallVec<[i64; 4]>,
}

/// Which rounds stay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bound {
    /// Which ones go.
    pub end: End,
    /// Those stay whose index is below `line / by`, or not below it.
    pub line: Line,
    pub by: i64,
    pub ty: Scalar,
}

/// Positions in the grid and extents, each by the first value that is the same.
pub(super) struct Same {
    first: SecondaryMap<Value, Option<Value>>,
}

/// Ops whose results are the same everywhere in a program.
pub(super) fn is_fixed(op: Op) -> bool {
    matches!(op, Op::ProgramId | Op::NumPrograms | Op::Dim)
}

impl Same {
    pub(super) fn new(kernel: &Kernel) -> Same {
        let (mut first, mut seen): (SecondaryMap<Value, Option<Value>>, Vec<Inst>) = (SecondaryMap::new(), Vec::new());
        kernel.walk(kernel.body, &mut |i| {
            let d = &kernel.insts[i];
            if is_fixed(d.op) {
                let same = |&&s: &&Inst| (kernel.insts[s].op, &kernel.insts[s].attrs, &kernel.insts[s].args) == (d.op, &d.attrs, &d.args);
                match seen.iter().find(same) {
                    Some(&s) => first[d.results[0]] = Some(kernel.insts[s].results[0]),
                    None => seen.push(i),
                }
            }
        });
        Same { first }
    }

    fn of(&self, v: Value) -> Value {
        self.first[v].unwrap_or(v)
    }
}

/// What is made in a loop.
pub(super) fn made_in(kernel: &Kernel, inst: Inst) -> IndexSet<Value> {
    let body = kernel.insts[inst].regions[0];
    let mut made: IndexSet<Value> = kernel.regions[body].params.iter().copied().collect();
    kernel.walk(body, &mut |i| {
        let d = &kernel.insts[i];
        made.extend(d.results.iter().chain(d.regions.iter().flat_map(|&r| &kernel.regions[r].params)));
    });
    made
}

/// Looks at the coordinates of a loop; one of them each.
#[derive(Clone, Copy)]
pub(super) struct Reach<'k> {
    kernel: &'k Kernel,
    same: &'k Same,
    inst: Inst,
    index: Value,
    /// What is made in the loop.
    inside: &'k IndexSet<Value>,
    left: usize,
}

impl<'k> Reach<'k> {
    pub(super) fn new(kernel: &'k Kernel, same: &'k Same, inst: Inst, inside: &'k IndexSet<Value>) -> Reach<'k> {
        let body = kernel.insts[inst].regions[0];
        Reach { kernel, same, inst, index: kernel.regions[body].params[0], inside, left: MOST }
    }

    /// A bound of the loop as a line.
    pub(super) fn line(mut self, v: Value) -> Line {
        let own = || Line { terms: smallvec![(v, 1)], ..Line::default() };
        self.form(v).map_or_else(own, |f| f.line)
    }

    /// The bounds behind which a comparison is `holds` in all elements.
    pub(super) fn bounds(mut self, mask: CmpOp, [x, y]: [Value; 2], holds: bool) -> Vec<Bound> {
        use CmpOp::*;
        let shape: SmallVec<[u32; 4]> = self.kernel.ty(x).shape().unwrap_or(&[]).iter().copied().collect();
        let (Some(x), Some(y)) = (self.form(x), self.form(y)) else { return Vec::new() };
        // Differences that are at least 1 in all elements where it is so: either of them, for what is equal nowhere.
        let sides: SmallVec<[(&Form, &Form, i64); 2]> = match (mask, holds) {
            (Le, false) | (Gt, true) => smallvec![(&x, &y, 0)],
            (Lt, false) | (Ge, true) => smallvec![(&x, &y, 1)],
            (Ge, false) | (Lt, true) => smallvec![(&y, &x, 0)],
            (Gt, false) | (Le, true) => smallvec![(&y, &x, 1)],
            (Eq, false) | (Ne, true) => smallvec![(&x, &y, 0), (&y, &x, 0)],
            _ => smallvec![],
        };
        sides.into_iter().filter_map(|(a, b, more)| self.bound(least(a, b, &shape)?, more)).collect()
    }

    /// Rounds go where `line + more >= 1`.
    fn bound(&self, line: Line, more: i64) -> Option<Bound> {
        let Type::Scalar(ty) = *self.kernel.ty(self.index) else { return None };
        let factor = line.index;
        let rest = Line { index: 0, number: line.number.checked_add(more)?, ..line };
        if factor == 0
            || !rest.is_small()
            || factor.unsigned_abs() > LARGEST_FACTOR
            || rest.terms.iter().any(|t| *self.kernel.ty(t.0) != Type::Scalar(ty))
        {
            return None;
        }
        // Rounding toward zero keeps a round too many at most, where the quotient is below zero. The first index is rounded up where none is.
        let more = |line: Line, number: i64| line.plus(&Line { number, ..Line::default() }, 1);
        let line = match factor {
            1.. => more(rest.times(-1)?, factor)?,
            _ if self.begins_at_zero() => more(rest, -factor - 1)?,
            _ => rest,
        };
        let bound = Bound { end: if factor > 0 { End::Last } else { End::First }, line, by: factor.abs(), ty };
        (!self.is_known(&bound) && bound.line.terms.iter().all(|t| self.is_there(t.0, 4))).then_some(bound)
    }

    /// True if no index is negative.
    fn begins_at_zero(&self) -> bool {
        matches!(self.kernel.as_const(self.kernel.insts[self.inst].args[0]), Some((Literal::Int(lo), _)) if lo >= 0)
    }

    /// True if the loop ends there anyway.
    fn is_known(&self, bound: &Bound) -> bool {
        let kernel = self.kernel;
        let args = &kernel.insts[self.inst].args;
        let of = |v: Value| Reach { ..*self }.form(v).map(|f| f.line);
        let number = |v: Value| match kernel.as_const(v) {
            Some((Literal::Int(n), _)) => Some(n),
            _ => None,
        };
        // Positions and extents are not negative.
        let positive = |&(v, factor): &(Value, i64)| factor > 0 && kernel.def_inst(v).is_some_and(|i| is_fixed(kernel.insts[i].op));
        let most = |l: Line| l.number >= 0 && l.index == 0 && l.terms.iter().all(positive);
        let least = bound.line.terms.iter().all(positive).then(|| bound.line.number / bound.by);
        match bound.end {
            End::Last => {
                let hi = args[1];
                if let (Some(hi), Some(least)) = (number(hi), least) {
                    return hi <= least;
                }
                let quotient = || {
                    let d = &kernel.insts[kernel.def_inst(hi)?];
                    let same = matches!(d.op, Op::Div | Op::DivU) && number(d.args[1]) == Some(bound.by);
                    same.then(|| of(d.args[0]))?
                };
                let line = if bound.by == 1 { of(hi) } else { quotient() };
                line.and_then(|l| bound.line.clone().plus(&l, -1)).is_some_and(most)
            }
            End::First => match number(args[0]) {
                Some(lo) if bound.line.terms.is_empty() => bound.line.number / bound.by <= lo,
                _ => bound.by == 1 && of(args[0]).and_then(|lo| lo.plus(&bound.line, -1)).is_some_and(most),
            },
        }
    }

    /// True if a value is known in front of the loop, or can be made there again.
    fn is_there(&self, v: Value, deep: usize) -> bool {
        let d = self.kernel.def_inst(v).map(|i| &self.kernel.insts[i]);
        if !self.inside.contains(&v) || d.is_some_and(|d| is_fixed(d.op)) {
            return true;
        }
        let Some(d) = d else { return false };
        let pure = d.op.info().effects == Effects::Pure && d.regions.is_empty() && d.results.len() == 1 && d.op != Op::Assume;
        let scalar = matches!(self.kernel.ty(v), Type::Scalar(_));
        pure && scalar && deep > 0 && d.args.iter().all(|&a| self.is_there(a, deep - 1))
    }

    fn form(&mut self, v: Value) -> Option<Form> {
        self.left = self.left.checked_sub(1)?;
        let kernel = self.kernel;
        let ty = kernel.ty(v);
        // Narrow numbers wrap where coordinates do not.
        if !ty.elem().is_int() || ty.elem().bits() < 32 || matches!(ty, Type::View(_)) {
            return None;
        }
        let rank = ty.shape().map_or(0, <[u32]>::len);
        let flat = |line: Line| Form { line, steps: SmallVec::from_elem(0, rank) };
        if v == self.index {
            return Some(flat(Line { index: 1, ..Line::default() }));
        }
        if let Some((Literal::Int(number), _)) = kernel.as_const(v) {
            return Some(flat(Line { number, ..Line::default() }));
        }
        self.made(v, rank).or_else(|| {
            // A scalar stands for itself.
            (matches!(ty, Type::Scalar(_)) && self.is_there(v, 4))
                .then(|| flat(Line { terms: smallvec![(self.same.of(v), 1)], ..Line::default() }))
        })
    }

    fn made(&mut self, v: Value, rank: usize) -> Option<Form> {
        let kernel = self.kernel;
        let d = &kernel.insts[kernel.def_inst(v)?];
        let arg = |n: usize| d.args[n];
        let shape = kernel.ty(v).shape().unwrap_or(&[]);
        match d.op {
            Op::Splat => Some(Form { steps: SmallVec::from_elem(0, rank), ..self.form(arg(0))? }),
            Op::Iota => match d.attrs.first() {
                Some(&Attr::Dim(dim)) => {
                    let mut steps = SmallVec::from_elem(0, rank);
                    steps[dim as usize] = 1;
                    Some(Form { line: Line::default(), steps })
                }
                _ => None,
            },
            Op::Add => sum(self.form(arg(0))?, &self.form(arg(1))?, 1),
            Op::Sub => sum(self.form(arg(0))?, &self.form(arg(1))?, -1),
            Op::Mul => {
                let (a, b) = (self.form(arg(0))?, self.form(arg(1))?);
                match (a.constant(), b.constant()) {
                    (_, Some(n)) => a.times(n),
                    (Some(n), _) => b.times(n),
                    _ => None,
                }
            }
            Op::Shl => {
                let by = self.form(arg(1))?.constant().filter(|n| (0..20).contains(n))?;
                self.form(arg(0))?.times(1 << by)
            }
            Op::Assume | Op::RequireLayout | Op::ReleaseLayout => self.form(arg(0)),
            Op::Cast => {
                let (from, to) = (kernel.ty(arg(0)).elem(), kernel.ty(v).elem());
                (from.is_int() && from.bits() <= to.bits()).then(|| self.form(arg(0)))?
            }
            Op::Broadcast => {
                let a = self.form(arg(0))?;
                let from = kernel.ty(arg(0)).shape()?;
                let steps = (0..rank).map(|n| if from[n] == shape[n] { a.steps[n] } else { 0 }).collect();
                Some(Form { steps, ..a })
            }
            Op::Transpose => match d.attrs.first() {
                Some(Attr::Perm(perm)) => {
                    let a = self.form(arg(0))?;
                    Some(Form { steps: perm.iter().map(|&n| a.steps[n as usize]).collect(), ..a })
                }
                _ => None,
            },
            Op::Reshape => {
                // Extents of 1 come and go; the others keep their order.
                let a = self.form(arg(0))?;
                let from = kernel.ty(arg(0)).shape()?;
                let long = |s: &[u32]| s.iter().copied().filter(|&e| e != 1).collect::<SmallVec<[u32; 4]>>();
                if long(from) != long(shape) {
                    return None;
                }
                let mut old = (0..from.len()).filter(|&n| from[n] != 1).map(|n| a.steps[n]);
                let steps = shape.iter().map(|&e| if e == 1 { 0 } else { old.next().unwrap_or(0) }).collect();
                Some(Form { line: a.line, steps })
            }
            _ => None,
        }
    }
}

impl Form {
    fn constant(&self) -> Option<i64> {
        (self.line.index == 0 && self.line.terms.is_empty() && self.steps.iter().all(|&s| s == 0)).then_some(self.line.number)
    }

    fn times(&self, factor: i64) -> Option<Form> {
        let steps = self.steps.iter().map(|s| s.checked_mul(factor)).collect::<Option<_>>()?;
        Some(Form { line: self.line.times(factor)?, steps })
    }
}

/// The sum of a form and a multiple of another one.
fn sum(a: Form, b: &Form, times: i64) -> Option<Form> {
    let steps = a.steps.iter().zip(&b.steps).map(|(x, y)| x.checked_add(y.checked_mul(times)?)).collect::<Option<_>>()?;
    Some(Form { line: a.line.plus(&b.line, times)?, steps })
}

/// The least of `a - b` in a tile.
fn least(a: &Form, b: &Form, shape: &[u32]) -> Option<Line> {
    let mut d = sum(a.clone(), b, -1)?;
    for (&step, &extent) in d.steps.iter().zip(shape) {
        d.line.number = d.line.number.checked_add(step.min(0).checked_mul(i64::from(extent) - 1)?)?;
    }
    Some(d.line)
}
