//! Folds of rows that are longer than a tile: a program has one row and walks along it.

use super::operators::{Id, Operators, tile_of};
use crate::facts::programs;
use tilelift_ir::{Access, BuildErrors, CmpOp, KernelBuilder, Operand, ReduceOp, Scalar, Value};

/// Columns of a step for each warp.
const WIDTH: u32 = 1024;
/// Rows below which a machine has fewer programs than it wants, and warps of a program then, and of one of many rows.
const FEW: u32 = 1024;
const WARPS: [u32; 2] = [16, 4];

/// Warps of a program and columns of a step for a number of rows.
fn step(rows: u32) -> [u32; 2] {
    let warps = WARPS[usize::from(rows >= FEW)];
    [warps, warps * WIDTH]
}

/// A piece of a row in `f32`; `other` beyond its end.
fn piece(b: &mut KernelBuilder, x: Value, at: [Value; 2], width: u32, other: f64) -> Value {
    let t = b.load_with(x, &at, &[1, width], Access { other: Some(other.into()), ..Access::default() });
    b.cast(t, Scalar::F32)
}

/// `to[row, 0] = op of from[row, :]`.
///
/// # Errors
/// The builder's.
pub(super) fn fold(g: &mut Operators, name: &'static str, op: ReduceOp, [from, to]: [Id; 2]) -> Result<(), BuildErrors> {
    let mut b = KernelBuilder::new(name);
    let rows = g.matrix(from)[0];
    let [warps, width] = step(rows);
    b.warps(warps);
    let (x, y) = (b.param(g.view(from)), b.param(g.view(to)));
    let (row, zero) = (b.program_id(0), b.constant(0, Scalar::I32));
    let neutral = if op == ReduceOp::Add { 0.0 } else { f64::NEG_INFINITY };
    let cols = b.dim(x, 1);
    let start = b.full(&[1, 1], neutral, Scalar::F32);
    let all = b.for_loop(0, cols, width, &[start], |b, j, so_far| {
        let t = piece(b, x, [row, j], width, neutral);
        let t = b.reduce_keep(op, t, 1);
        vec![if op == ReduceOp::Add { b.add(so_far[0], t) } else { b.maximum(so_far[0], t) }]
    })[0];
    b.store(y, &[row, zero], all);
    g.step(name, b.finish()?, [programs(rows, 1), 1, 1], &[from.into(), to.into()]);
    Ok(())
}

/// `to[row, 0]` = the position of the largest element of `from[row, :]`, the first of equal ones.
///
/// # Errors
/// The builder's.
pub(super) fn largest(g: &mut Operators, name: &'static str, [from, to]: [Id; 2]) -> Result<(), BuildErrors> {
    let mut b = KernelBuilder::new(name);
    let rows = g.matrix(from)[0];
    let [warps, width] = step(rows);
    b.warps(warps);
    let (x, y) = (b.param(g.view(from)), b.param(g.view(to)));
    let (row, zero) = (b.program_id(0), b.constant(0, Scalar::I32));
    let cols = b.dim(x, 1);
    let low = b.full(&[1, 1], f64::NEG_INFINITY, Scalar::F32);
    let nowhere = b.full(&[1, 1], Operand::from(0), Scalar::I32);
    let found = b.for_loop(0, cols, width, &[low, nowhere], |b, j, best| {
        let t = piece(b, x, [row, j], width, f64::NEG_INFINITY);
        let value = b.reduce_keep(ReduceOp::Maximum, t, 1);
        let here = b.argmax(t, 1);
        let here = b.expand_dims(here, 1);
        let here = b.add(here, j);
        let wins = b.cmp(CmpOp::Gt, value, best[0]);
        vec![b.maximum(value, best[0]), b.select(wins, here, best[1])]
    });
    b.store(y, &[row, zero], found[1]);
    g.step(name, b.finish()?, [programs(rows, 1), 1, 1], &[from.into(), to.into()]);
    Ok(())
}

/// Exponential noise, a number for each element's place: `-log(1 - u)` with `u` from `seed`, at least 1e-10.
///
/// # Errors
/// The builder's.
pub(super) fn noise(g: &mut Operators, name: &'static str, seed: i32, to: Id) -> Result<(), BuildErrors> {
    let shape = g.matrix(to);
    let tile = tile_of(&shape);
    let mut b = KernelBuilder::new(name);
    b.warps(4);
    let y = b.param(g.view(to));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, tile[1]), b.mul(py, tile[0]));
    let cols = b.dim(y, 1);
    let [r, c] = [(row, 0), (col, 1)].map(|(first, axis)| {
        let steps = b.iota(&tile, axis);
        b.add(steps, first)
    });
    let at = b.mul(r, cols);
    let at = b.add(at, c);
    let seed = b.constant(seed, Scalar::I32);
    let u = b.uniform(seed, at);
    let rest = b.full(&tile, 1.0, Scalar::F32);
    let rest = b.sub(rest, u);
    let l = b.log(rest);
    let l = b.neg(l);
    let t = b.maximum(l, 1e-10);
    b.store(y, &[row, col], t);
    g.step(name, b.finish()?, [programs(shape[1], tile[1]), programs(shape[0], tile[0]), 1], &[to.into()]);
    Ok(())
}
