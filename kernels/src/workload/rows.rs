//! Workloads of [`RowFold`], [`CumSum`] and [`LongSort`], with their references.

use super::definition::{Ran, ScalarSpec, Step, Workload, block, suffix, whole_rows};
use crate::long_sort::{LongSort, Pass};
use crate::reference::{self, Expected, Reference, U};
use crate::row_fold::{CumSum, Fold, RowFold};
use crate::tensor::{Init, Tensor, TensorSpec};
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel, Scalar, SortOrder, num};

/// [`RowFold`] of a shape.
#[derive(Clone, Debug)]
pub struct RowFoldCase {
    /// The kernel.
    pub config: RowFold,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// How the matrix is filled.
    pub init: fn(u64) -> Init,
}

/// The sum of some elements: exact and wrapped for integers; for floats within `levels` roundings of the magnitudes' sum.
fn sum(values: impl Iterator<Item = f64>, levels: f64, elem: Scalar) -> Expected {
    let (s, size) = values.fold((0.0, 0.0), |(s, z), x| (s + x, z + x.abs()));
    if !elem.is_float() {
        // Sums of fewer than 2^21 numbers of 32 bits are exact in `f64`.
        return Expected::exact(num::wrap(s as i64, elem) as f64);
    }
    let error = levels * U * size;
    Expected::rounded(s, if error.is_finite() { error } else { 0.0 }, elem)
}

/// Position of the best element: the first NaN, else the first of those that nothing beats.
fn best(row: &[f64], max: bool) -> usize {
    let better = |a: f64, b: f64| if max { a > b } else { a < b };
    let first_nan = row.iter().position(|v| v.is_nan());
    first_nan.unwrap_or_else(|| (1..row.len()).fold(0, |at, i| if better(row[i], row[at]) { i } else { at }))
}

impl Workload for RowFoldCase {
    fn name(&self) -> String {
        format!("{}_{}_{}x{}{}", self.config.fold.name(), self.config.elem, self.rows, self.cols, suffix((self.init)(0)))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.rows)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        vec![
            TensorSpec::input("x", self.config.elem, &[self.rows, self.cols], (self.init)(1)),
            TensorSpec::output("y", self.config.out(), &[self.rows]),
        ]
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let r = block(u64::from(x) * u64::from(self.config.tile_rows), self.config.tile_rows, self.rows);
        if y > 0 || z > 0 || r.is_empty() { Vec::new() } else { vec![r] }
    }

    /// A sum rounds once a step and once a level of the tree; one more covers the second order.
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        let RowFold { fold, elem, tile_cols, .. } = self.config;
        let cols = self.cols as usize;
        let levels = f64::from(self.cols.div_ceil(tile_cols.max(1))) + f64::from(tile_cols.max(1).ilog2()) + 2.0;
        Box::new(move |range| {
            let one = |r: usize| {
                let row = tensors[0].read(r * cols..(r + 1) * cols);
                let at = best(&row, fold.is_max());
                match fold {
                    Fold::Sum => sum(row.into_iter(), levels, elem),
                    Fold::ArgMax | Fold::ArgMin => Expected::exact(at as f64),
                    Fold::Max | Fold::Min => {
                        // Of zeros only, the one whose sign wins.
                        let zero = |v: &&f64| **v == 0.0 && v.is_sign_positive() == fold.is_max();
                        let signed = if row[at] == 0.0 { row.iter().find(zero).copied() } else { None };
                        Expected::exact(signed.unwrap_or(row[at]))
                    }
                }
            };
            range.map(one).collect()
        })
    }
}

/// [`CumSum`] of a shape.
#[derive(Clone, Debug)]
pub struct CumSumCase {
    /// The kernel.
    pub config: CumSum,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
}

impl Workload for CumSumCase {
    fn name(&self) -> String {
        format!("cumsum_{}_{}x{}", self.config.elem, self.rows, self.cols)
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.rows)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let (elem, shape) = (self.config.elem, [self.rows, self.cols]);
        vec![TensorSpec::input("x", elem, &shape, Init::Normal(1)), TensorSpec::output("y", elem, &shape)]
    }
    fn owned(&self, _: usize, program: [u32; 3]) -> Vec<Range<usize>> {
        whole_rows(program, self.config.tile_rows, self.rows, self.cols)
    }

    /// A running sum passes a rounding per level of its tile's tree, one per tile before, and one where they meet.
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        let CumSum { elem, tile_cols, .. } = self.config;
        let cols = self.cols as usize;
        let tree = 2.0 * f64::from(tile_cols.max(1).ilog2()) + 3.0;
        Box::new(move |range| {
            let start = range.start / cols * cols;
            let (mut s, mut size, mut list) = (0.0, 0.0, Vec::with_capacity(range.len()));
            for i in start..range.end {
                let x = tensors[0].get(i);
                s += x;
                size += x.abs();
                if i >= range.start {
                    let levels = tree + ((i - start) / tile_cols.max(1) as usize) as f64;
                    list.push(if elem.is_float() {
                        Expected::rounded(s, levels * U * size, elem)
                    } else {
                        Expected::exact(num::wrap(s as i64, elem) as f64)
                    });
                }
            }
            list
        })
    }
}

/// [`LongSort`] of a shape.
#[derive(Clone, Debug)]
pub struct LongSortCase {
    /// The kernels.
    pub config: LongSort,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// How the matrix is filled.
    pub init: fn(u64) -> Init,
}

impl Workload for LongSortCase {
    fn name(&self) -> String {
        let c = &self.config;
        let what = if c.positions { "long_argsort" } else { "long_sort" };
        format!("{what}_{}_{}_{}x{}{}", c.order, c.elem, self.rows, self.cols, suffix((self.init)(0)))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build(Pass::Tiles)
    }
    fn grid(&self) -> [u32; 3] {
        [1, self.rows, 1]
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let shape = [self.rows, self.cols];
        let mut list = vec![TensorSpec::input("x", self.config.elem, &shape, (self.init)(1))];
        if self.config.positions {
            list.push(TensorSpec::scratch("keys", Scalar::I64, &shape));
        }
        list.push(TensorSpec::output("y", self.config.out(), &shape));
        list
    }
    fn steps(&self) -> Result<Vec<Step>, BuildErrors> {
        let one = |(pass, span, programs): (Pass, u32, u32)| {
            let tensors = match pass {
                Pass::Tiles => vec![0, 1],
                Pass::Mirror | Pass::Apart | Pass::Finish => vec![1],
                Pass::Unpack => vec![1, 2],
            };
            let scalars = match pass {
                Pass::Mirror | Pass::Apart => vec![ScalarSpec { name: "span", elem: Scalar::I32, value: f64::from(span) }],
                Pass::Tiles | Pass::Finish | Pass::Unpack => Vec::new(),
            };
            Ok(Step { kernel: self.config.build(pass)?, grid: self.config.grid(self.rows, programs), tensors, scalars })
        };
        self.config.passes(self.cols).into_iter().map(one).collect()
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let cols = self.cols as usize;
        let row = y as usize * cols;
        if x > 0 || y >= self.rows || z > 0 { Vec::new() } else { std::iter::once(row..row + cols).collect() }
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::select(&tensors[0], self.config.order == SortOrder::Descending, self.config.positions, self.cols as usize)
    }
}
