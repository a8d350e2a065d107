//! Rows that indices name, and counts of numbers, with a shape.

use super::{Ran, Workload, block, tile_rows};
use crate::indexed::{Bincount, GatherRows};
use crate::reference::{self, Reference};
use crate::tensor::{Init, Tensor, TensorSpec};
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel, Scalar};

/// [`GatherRows`] of a shape.
#[derive(Clone, Debug)]
pub struct GatherRowsCase {
    /// The kernel.
    pub config: GatherRows,
    /// Rows of the matrix.
    pub rows: u32,
    /// Indices.
    pub n: u32,
    /// Columns.
    pub cols: u32,
}

impl Workload for GatherRowsCase {
    fn name(&self) -> String {
        format!("gather_rows_{}_{}x{}_{}", self.config.elem, self.rows, self.cols, self.n)
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.n, self.cols)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        vec![
            TensorSpec::input("x", self.config.elem, &[self.rows, self.cols], Init::Normal(1)),
            TensorSpec::input("index", Scalar::I32, &[self.n], Init::Index(2, self.rows)),
            TensorSpec::output("y", self.config.elem, &[self.n, self.cols]),
        ]
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let (tile_r, tile_c) = (self.config.tile_rows, self.config.tile_cols);
        let origin = [u64::from(y) * u64::from(tile_r), u64::from(x) * u64::from(tile_c)];
        if z == 0 { tile_rows(origin, [tile_r, tile_c], self.n, self.cols) } else { Vec::new() }
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::gather_rows(&tensors[0], &tensors[1])
    }
}

/// [`Bincount`] of a shape.
#[derive(Clone, Debug)]
pub struct BincountCase {
    /// The kernel.
    pub config: Bincount,
    /// Elements counted.
    pub n: u32,
    /// Numbers.
    pub bins: u32,
}

impl Workload for BincountCase {
    fn name(&self) -> String {
        format!("bincount_{}_{}", self.n, self.bins)
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.bins)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        vec![TensorSpec::input("x", Scalar::I32, &[self.n], Init::Index(1, self.bins)), TensorSpec::output("y", Scalar::I32, &[self.bins])]
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let range = block(u64::from(x) * u64::from(self.config.bins), self.config.bins, self.bins);
        if y == 0 && z == 0 && !range.is_empty() { vec![range] } else { Vec::new() }
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::bincount(&tensors[0])
    }
}
