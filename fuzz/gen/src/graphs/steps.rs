//! What the kernels of a graph compute, apart from how: tensors, steps, and the numbers of a graph with their bounds.

use super::bounds::{Num, unit};
use super::expr::{Expr, Family, Where};
use tilelift_ir::{ReduceOp, Scalar};

/// A tensor: its extents are numbers of [`Plan::extents`].
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Tn {
    pub elem: Scalar,
    pub dims: Vec<usize>,
    /// The largest magnitude of its elements.
    pub most: f64,
    /// The caller fills it.
    pub filled: bool,
    /// The caller looks at it.
    pub seen: bool,
}

/// How an element of a step's result looks at another tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Same,
    /// A vector along the columns.
    Row,
    /// A vector along the rows.
    Col,
    /// The tensor the other way round.
    Turned,
}

/// What a kernel of whole rows does to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rows {
    /// `x - max`.
    LessMost,
    /// `x - sum`.
    LessSum,
    Softmax {
        causal: bool,
    },
    /// `x / sqrt(mean of squares + 1/64)`.
    Rms,
    /// `(x - mean) / sqrt(variance + 1/64)`.
    Layer,
}

/// A kernel.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Step {
    /// Element by element.
    Map { ins: Vec<(usize, Place)>, outs: Vec<(usize, Expr)> },
    /// Rows (or columns) to a number each; several at once.
    Fold { x: usize, pre: Expr, along: usize, outs: Vec<(usize, ReduceOp)> },
    /// Rows to rows.
    Norm { x: usize, kind: Rows, gain: Option<usize>, out: usize },
    /// A product of operands of a type, with what follows: input 0 is the sum.
    Product { a: usize, b: usize, turned: bool, operand: Scalar, ins: Vec<(usize, Place)>, outs: Vec<(usize, Expr)> },
}

impl Step {
    /// Tensors that it reads and writes, as they are passed; each once.
    pub fn tensors(&self) -> Vec<usize> {
        let mut all: Vec<usize> = match self {
            Step::Map { ins, outs } => ins.iter().map(|i| i.0).chain(outs.iter().map(|o| o.0)).collect(),
            Step::Fold { x, outs, .. } => [*x].into_iter().chain(outs.iter().map(|o| o.0)).collect(),
            Step::Norm { x, gain, out, .. } => [*x].into_iter().chain(*gain).chain([*out]).collect(),
            Step::Product { a, b, ins, outs, .. } => {
                [*a, *b].into_iter().chain(ins.iter().map(|i| i.0)).chain(outs.iter().map(|o| o.0)).collect()
            }
        };
        let mut seen = Vec::new();
        all.retain(|t| !seen.contains(t) && (seen.push(*t), true).1);
        all
    }

    /// The tensors that it writes.
    pub fn writes(&self) -> Vec<usize> {
        match self {
            Step::Map { outs, .. } | Step::Product { outs, .. } => outs.iter().map(|o| o.0).collect(),
            Step::Fold { outs, .. } => outs.iter().map(|o| o.0).collect(),
            Step::Norm { out, .. } => vec![*out],
        }
    }

    /// The tensors that it reads.
    pub fn reads(&self) -> Vec<usize> {
        match self {
            Step::Map { ins, .. } => ins.iter().map(|i| i.0).collect(),
            Step::Fold { x, .. } => vec![*x],
            Step::Norm { x, gain, .. } => [*x].into_iter().chain(*gain).collect(),
            Step::Product { a, b, ins, .. } => [*a, *b].into_iter().chain(ins.iter().map(|i| i.0)).collect(),
        }
    }

    /// Its name.
    pub fn word(&self) -> &'static str {
        match self {
            Step::Map { .. } => "map",
            Step::Fold { .. } => "fold",
            Step::Norm { kind, .. } => match kind {
                Rows::LessMost => "less_most",
                Rows::LessSum => "less_sum",
                Rows::Softmax { .. } => "softmax",
                Rows::Rms => "rms",
                Rows::Layer => "layer",
            },
            Step::Product { .. } => "product",
        }
    }
}

/// A graph as it was drawn: what is computed, without kernels.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Plan {
    pub family: Family,
    pub extents: Vec<usize>,
    pub tensors: Vec<Tn>,
    pub steps: Vec<Step>,
}

/// Numbers of a matrix, or of a vector as one row.
struct Matrix<'a> {
    all: &'a [Num],
    cols: usize,
}

impl Matrix<'_> {
    fn at(&self, [row, col]: [usize; 2], place: Place) -> Num {
        match place {
            Place::Same => self.all[row * self.cols + col],
            Place::Row => self.all[col],
            Place::Col => self.all[row],
            Place::Turned => self.all[col * self.cols + row],
        }
    }
}

impl Plan {
    /// Extents of a tensor.
    pub fn shape(&self, t: usize) -> Vec<usize> {
        self.tensors[t].dims.iter().map(|&d| self.extents[d]).collect()
    }

    /// Elements of a tensor.
    pub fn count(&self, t: usize) -> usize {
        self.shape(t).iter().product()
    }

    /// The tensors that follow from products of which sums may round: an exact fusion may change their order.
    pub fn open(&self) -> Vec<bool> {
        let mut open = vec![false; self.tensors.len()];
        for step in &self.steps {
            let follows = matches!(step, Step::Product { .. }) && self.family == Family::Real || step.reads().iter().any(|&t| open[t]);
            step.writes().into_iter().for_each(|t| open[t] |= follows);
        }
        open
    }

    fn matrix<'a>(&self, numbers: &'a [Vec<Num>], t: usize) -> Matrix<'a> {
        Matrix { all: &numbers[t], cols: self.shape(t).last().copied().unwrap_or(1) }
    }

    /// What the tensors hold at the end, from what the caller filled in.
    pub fn numbers(&self, filled: &[Vec<f64>]) -> Vec<Vec<Num>> {
        let mut numbers: Vec<Vec<Num>> = filled.iter().map(|t| t.iter().map(|&x| Num::exact(x)).collect()).collect();
        for step in &self.steps {
            for (t, made) in self.step(step, &numbers) {
                numbers[t] = made;
            }
        }
        numbers
    }

    fn step(&self, step: &Step, numbers: &[Vec<Num>]) -> Vec<(usize, Vec<Num>)> {
        match step {
            Step::Map { ins, outs } => self.mapped(numbers, None, ins, outs),
            Step::Fold { x, pre, along, outs } => {
                outs.iter().map(|&(out, op)| (out, self.folded(numbers, *x, pre, *along, op, out))).collect()
            }
            Step::Norm { x, kind, gain, out } => vec![(*out, self.normed(numbers, *x, *kind, *gain, *out))],
            Step::Product { a, b, turned, operand, ins, outs } => {
                let sums = self.product(numbers, [*a, *b], *turned, *operand);
                self.mapped(numbers, Some(&sums), ins, outs)
            }
        }
    }

    fn mapped(
        &self,
        numbers: &[Vec<Num>],
        first: Option<&[Num]>,
        ins: &[(usize, Place)],
        outs: &[(usize, Expr)],
    ) -> Vec<(usize, Vec<Num>)> {
        let r = self.family.rounding();
        let made = |&(out, ref expr): &(usize, Expr)| {
            let shape = self.shape(out);
            let (rows, cols) = (shape[0], shape[1]);
            let mut all = Vec::with_capacity(rows * cols);
            for at in (0..rows).flat_map(|r| (0..cols).map(move |c| [r, c])) {
                let sum = first.map(|s| s[at[0] * cols + at[1]]);
                let of: Vec<Num> = sum.into_iter().chain(ins.iter().map(|&(t, p)| self.matrix(numbers, t).at(at, p))).collect();
                all.push(expr.number(&of, at, r).stored(self.tensors[out].elem, r));
            }
            (out, all)
        };
        outs.iter().map(made).collect()
    }

    fn folded(&self, numbers: &[Vec<Num>], x: usize, pre: &Expr, along: usize, op: ReduceOp, out: usize) -> Vec<Num> {
        let r = self.family.rounding();
        let shape = self.shape(x);
        let lines = shape[1 - along];
        let line = |line: usize| {
            let x = self.matrix(numbers, x);
            (0..shape[along]).map(move |i| {
                let at = if along == 1 { [line, i] } else { [i, line] };
                pre.number(&[x.at(at, Place::Same)], at, r)
            })
        };
        let most = |n: usize, of: fn(Num, Num) -> Num| line(n).reduce(of).unwrap_or(Num::exact(0.0));
        let folded = |n: usize| match op {
            ReduceOp::Maximum => most(n, Num::max),
            ReduceOp::Minimum => most(n, Num::min),
            _ => Num::sum(line(n), r),
        };
        (0..lines).map(|n| folded(n).stored(self.tensors[out].elem, r)).collect()
    }

    fn normed(&self, numbers: &[Vec<Num>], x: usize, kind: Rows, gain: Option<usize>, out: usize) -> Vec<Num> {
        let r = self.family.rounding();
        let shape = self.shape(x);
        let (rows, cols) = (shape[0], shape[1]);
        let mut all = Vec::with_capacity(rows * cols);
        for row in 0..rows {
            let line = &numbers[x][row * cols..(row + 1) * cols];
            let made = normal(line, row, kind, r);
            all.extend(made.into_iter().enumerate().map(|(col, n)| {
                let n = gain.map_or(n, |g| n.mul(numbers[g][col], r));
                n.stored(self.tensors[out].elem, r)
            }));
        }
        all
    }

    fn product(&self, numbers: &[Vec<Num>], [a, b]: [usize; 2], turned: bool, operand: Scalar) -> Vec<Num> {
        let r = self.family.rounding();
        let cast = |t: usize| -> Vec<Num> {
            let narrow = unit(operand)[0] > unit(self.tensors[t].elem)[0] || operand != self.tensors[t].elem && operand != Scalar::F32;
            numbers[t].iter().map(|n| if narrow { n.stored(operand, r) } else { *n }).collect()
        };
        let (p, q) = (cast(a), cast(b));
        let [rows, depth] = [self.shape(a)[0], self.shape(a)[1]];
        let cols = self.shape(b)[usize::from(!turned)];
        let of = |row: usize, col: usize| {
            let terms = (0..depth).map(|k| {
                let y = if turned { q[col * depth + k] } else { q[k * cols + col] };
                let x = p[row * depth + k];
                // Products of a dot are exact; taken apart, they are not.
                x.mul(y, r)
            });
            Num::sum(terms, r)
        };
        (0..rows).flat_map(|i| (0..cols).map(move |j| of(i, j))).collect()
    }
}

/// Pieces of a row that a loop takes are at least so wide.
const NARROWEST: usize = 8;

/// A row, less or divided by what its elements come to.
fn normal(line: &[Num], row: usize, kind: Rows, r: super::bounds::Rounding) -> Vec<Num> {
    let n = Num::exact(line.len() as f64);
    let small = Num::exact(1.0 / 64.0);
    match kind {
        Rows::LessMost => {
            let most = line.iter().copied().reduce(Num::max).unwrap_or(n);
            line.iter().map(|x| x.sub(most, r)).collect()
        }
        Rows::LessSum => {
            let sum = Num::sum(line.iter().copied(), r);
            line.iter().map(|x| x.sub(sum, r)).collect()
        }
        Rows::Softmax { causal } => {
            let there = |col: usize| !causal || Where::Causal.holds([row, col]);
            let seen = || line.iter().enumerate().filter(|(col, _)| there(*col)).map(|(_, x)| *x);
            let most = seen().reduce(Num::max).unwrap_or(n);
            // A sum that follows the maximum as it grows is multiplied by another exponential for each piece of the row.
            let pieces = line.len().div_ceil(NARROWEST) as f64;
            let e = |x: Num| {
                let p = x.sub(most, r).exp();
                let again = pieces * (2.0 * super::bounds::function(tilelift_ir::Op::Exp) + r.op * (1.0 + 2.0 * (x.m + most.m)));
                Num { e: p.e + again * p.m, ..p }
            };
            let sum = Num::sum(seen().map(e), r);
            let weight = |(col, x): (usize, &Num)| if there(col) { e(*x).div(sum, r) } else { Num::exact(0.0) };
            line.iter().enumerate().map(weight).collect()
        }
        Rows::Rms => {
            let mean = Num::sum(line.iter().map(|x| x.mul(*x, r)), r).div(n, r);
            let scale = mean.add(small, r).rsqrt();
            line.iter().map(|x| x.mul(scale, r)).collect()
        }
        Rows::Layer => {
            let mean = Num::sum(line.iter().copied(), r).div(n, r);
            let less: Vec<Num> = line.iter().map(|x| x.sub(mean, r)).collect();
            let scale = Num::sum(less.iter().map(|x| x.mul(*x, r)), r).div(n, r).add(small, r).rsqrt();
            less.iter().map(|x| x.mul(scale, r)).collect()
        }
    }
}
