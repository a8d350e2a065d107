//! Kernels that fold rows or columns: whole lines at once, or piece by piece in loops.

use super::expr::{At, Expr, Where, condition};
use super::kernels::Maker;
use super::steps::{Place, Rows};
use tilelift::graph::Grid;
use tilelift_ir::builder::Access;
use tilelift_ir::{CmpOp, KernelBuilder, ReduceOp, Scalar, Value};

/// The number that changes nothing.
fn neutral(op: ReduceOp) -> f64 {
    match op {
        ReduceOp::Maximum => f64::NEG_INFINITY,
        ReduceOp::Minimum => f64::INFINITY,
        _ => 0.0,
    }
}

fn combine(b: &mut KernelBuilder, op: ReduceOp, x: Value, y: Value) -> Value {
    match op {
        ReduceOp::Maximum => b.maximum(x, y),
        ReduceOp::Minimum => b.minimum(x, y),
        _ => b.add(x, y),
    }
}

/// Lines of a tensor that a program takes.
#[derive(Clone, Copy)]
struct Lines {
    x: usize,
    /// The dimension that is folded.
    along: usize,
    /// Its first line.
    first: Value,
    /// The first index of all.
    zero: Value,
    /// Lines, and elements of a line that are taken at a time.
    shape: [u32; 2],
    /// The loop's step, if there is one.
    step: Option<u32>,
}

impl Lines {
    fn tile(self) -> [u32; 2] {
        let [lines, wide] = self.shape;
        if self.along == 1 { [lines, wide] } else { [wide, lines] }
    }

    fn at(self, tile: &[u32; 2], piece: Value) -> At<'_> {
        let (row, col) = if self.along == 1 { (self.first, piece) } else { (piece, self.first) };
        At { row, col, tile }
    }
}

impl Maker<'_> {
    /// Some lines of a tensor for each program.
    fn lines(&mut self, b: &mut KernelBuilder, x: usize, along: usize) -> (Lines, Grid) {
        let whole = self.extent(x, along).n.next_power_of_two();
        let step = if self.src.chance(110) { self.src.pick(&[16, 32, 8]).copied() } else { None };
        let wide = step.unwrap_or(if self.src.chance(40) { 2 * whole } else { whole });
        let lines = self.usual_lines();
        let id = b.program_id(0);
        let (first, zero) = (b.mul(id, lines), b.constant(0, Scalar::I32));
        (Lines { x, along, first, zero, shape: [lines, wide], step }, Grid::row(self.tiles(x, 1 - along, lines)))
    }

    /// Whether elements of a tile lie inside of the line.
    fn inside(&self, b: &mut KernelBuilder, l: Lines, piece: Value) -> Value {
        let steps = b.iota(&l.tile(), l.along as u32);
        let steps = if l.step.is_some() { b.add(steps, piece) } else { steps };
        let end = b.dim(self.view(l.x), l.along as u32);
        b.cmp(CmpOp::Lt, steps, end)
    }

    /// Folds of what a body makes of a piece of the lines, each kept as an extent of 1.
    fn folds(
        &self,
        b: &mut KernelBuilder,
        l: Lines,
        ops: &[ReduceOp],
        mut body: impl FnMut(&Self, &mut KernelBuilder, Value) -> Vec<Value>,
    ) -> Vec<Value> {
        let reduce = |b: &mut KernelBuilder, all: Vec<Value>| -> Vec<Value> {
            ops.iter().zip(all).map(|(&op, v)| b.reduce_keep(op, v, l.along as u32)).collect()
        };
        let Some(step) = l.step else {
            let all = body(self, b, l.zero);
            return reduce(b, all);
        };
        let mut one = l.tile();
        one[l.along] = 1;
        let init: Vec<Value> = ops.iter().map(|&op| b.full(&one, neutral(op), Scalar::F32)).collect();
        let end = b.dim(self.view(l.x), l.along as u32);
        b.for_loop(0, end, step, &init, |b, piece, sums| {
            let all = body(self, b, piece);
            let all = reduce(b, all);
            ops.iter().zip(sums.iter().zip(all)).map(|(&op, (&s, v))| combine(b, op, s, v)).collect()
        })
    }

    /// Rows or columns to a number each.
    pub(super) fn fold(&mut self, b: &mut KernelBuilder, x: usize, pre: &Expr, along: usize, outs: &[(usize, ReduceOp)]) -> Grid {
        let (l, grid) = self.lines(b, x, along);
        let ops: Vec<ReduceOp> = outs.iter().map(|o| o.1).collect();
        // What lies outside of the tensor reads as what changes nothing, where that is one number for all.
        let same = ops.iter().all(|op| *op == ops[0]);
        let other = (same && *pre == Expr::In(0) && self.src.chance(200)).then(|| neutral(ops[0]));
        let folded = self.folds(b, l, &ops, |m, b, piece| {
            let tile = l.tile();
            let at = l.at(&tile, piece);
            let access = Access { other: other.map(Into::into), ..Access::default() };
            let t = b.load_with(m.view(x), &[at.row, at.col], &tile, access);
            let t = b.cast(t, Scalar::F32);
            let t = pre.tile(b, &[t], at);
            if other.is_some() {
                return vec![t; ops.len()];
            }
            let there = m.inside(b, l, piece);
            let masked = |b: &mut KernelBuilder, op: ReduceOp| {
                let none = b.full(&tile, neutral(op), Scalar::F32);
                b.select(there, t, none)
            };
            ops.iter().map(|&op| masked(b, op)).collect()
        });
        for (&(out, _), v) in outs.iter().zip(folded) {
            let v = b.reshape(v, &[l.shape[0]]);
            let v = b.cast(v, self.plan.tensors[out].elem);
            b.store(self.view(out), &[l.first], v);
        }
        grid
    }

    /// Rows to rows.
    pub(super) fn norm(&mut self, b: &mut KernelBuilder, x: usize, kind: Rows, gain: Option<usize>, out: usize) -> Grid {
        let (l, grid) = self.lines(b, x, 1);
        let tile = l.tile();
        let count = b.dim(self.view(x), 1);
        let count = b.cast(count, Scalar::F32);
        // Beyond the row -inf is read, or a mask says what is there.
        let low = matches!(kind, Rows::LessMost | Rows::Softmax { .. }) && self.src.chance(128);
        let load = move |m: &Maker<'_>, b: &mut KernelBuilder, piece: Value| {
            let at = l.at(&tile, piece);
            let other = low.then(|| f64::NEG_INFINITY.into());
            let t = b.load_with(m.view(x), &[at.row, at.col], &tile, Access { other, ..Access::default() });
            let t = b.cast(t, Scalar::F32);
            let causal = matches!(kind, Rows::Softmax { causal: true });
            let there = causal.then(|| condition(b, Where::Causal, at));
            there.map_or(t, |c| {
                let none = b.full(&tile, f64::NEG_INFINITY, Scalar::F32);
                b.select(c, t, none)
            })
        };
        let masked = move |m: &Maker<'_>, b: &mut KernelBuilder, t: Value, piece: Value, other: f64| {
            let there = m.inside(b, l, piece);
            let none = b.full(&tile, other, Scalar::F32);
            b.select(there, t, none)
        };
        let highs = move |m: &Maker<'_>, b: &mut KernelBuilder, piece: Value| {
            let t = load(m, b, piece);
            if low { t } else { masked(m, b, t, piece, f64::NEG_INFINITY) }
        };
        let squares = |b: &mut KernelBuilder, sum: Value| {
            let mean = b.div(sum, count);
            let mean = b.add(mean, 1.0 / 64.0);
            b.rsqrt(mean)
        };
        // What the rows come to.
        let stats: Vec<Value> = match kind {
            Rows::LessMost => self.folds(b, l, &[ReduceOp::Maximum], |m, b, piece| vec![highs(m, b, piece)]),
            Rows::LessSum => self.folds(b, l, &[ReduceOp::Add], |m, b, piece| vec![load(m, b, piece)]),
            Rows::Softmax { .. } => {
                let most = self.folds(b, l, &[ReduceOp::Maximum], |m, b, piece| vec![highs(m, b, piece)])[0];
                let sum = self.folds(b, l, &[ReduceOp::Add], |m, b, piece| {
                    let t = highs(m, b, piece);
                    let t = b.sub(t, most);
                    vec![b.exp(t)]
                });
                vec![most, sum[0]]
            }
            Rows::Rms => {
                let sum = self.folds(b, l, &[ReduceOp::Add], |m, b, piece| {
                    let t = load(m, b, piece);
                    vec![b.mul(t, t)]
                });
                vec![squares(b, sum[0])]
            }
            Rows::Layer => {
                let sum = self.folds(b, l, &[ReduceOp::Add], |m, b, piece| vec![load(m, b, piece)]);
                let mean = b.div(sum[0], count);
                let sum = self.folds(b, l, &[ReduceOp::Add], |m, b, piece| {
                    let t = load(m, b, piece);
                    let t = b.sub(t, mean);
                    let t = masked(m, b, t, piece, 0.0);
                    vec![b.mul(t, t)]
                });
                vec![mean, squares(b, sum[0])]
            }
        };
        let write = |m: &Maker<'_>, b: &mut KernelBuilder, piece: Value| {
            let t = load(m, b, piece);
            let t = match kind {
                Rows::LessMost | Rows::LessSum => b.sub(t, stats[0]),
                Rows::Softmax { .. } => {
                    let t = b.sub(t, stats[0]);
                    let e = b.exp(t);
                    b.div(e, stats[1])
                }
                Rows::Rms => b.mul(t, stats[0]),
                Rows::Layer => {
                    let t = b.sub(t, stats[0]);
                    b.mul(t, stats[1])
                }
            };
            let at = l.at(&tile, piece);
            let t = gain.map_or(t, |g| {
                let g = m.load(b, (g, Place::Row), at);
                b.mul(t, g)
            });
            let t = b.cast(t, m.plan.tensors[out].elem);
            b.store(m.view(out), &[at.row, at.col], t);
        };
        match l.step {
            None => write(self, b, l.zero),
            Some(step) => {
                let end = b.dim(self.view(x), 1);
                b.for_loop(0, end, step, &[], |b, piece, _| {
                    write(self, b, piece);
                    vec![]
                });
            }
        }
        grid
    }
}
