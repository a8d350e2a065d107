//! Workloads of the kernels that normalise with a mean, turn, sort and follow indices.

use crate::indexed::{Bincount, GatherRows};
use crate::layer_norm::LayerNorm;
use crate::reference::{self, Reference};
use crate::rotary::Rotary;
use crate::select::Select;
use crate::tensor::{Init, Tensor, TensorSpec};
use crate::workload::{Ran, ScalarSpec, Workload, block, suffix, tile_rows, whole_rows};
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel, Scalar};

/// [`LayerNorm`] of a shape.
#[derive(Clone, Debug)]
pub struct LayerNormCase {
    /// The kernel.
    pub config: LayerNorm,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// How the matrix is filled.
    pub init: fn(u64) -> Init,
}

impl LayerNormCase {
    /// The `eps` of the case.
    pub const EPS: f32 = 1e-5;
}

impl Workload for LayerNormCase {
    fn name(&self) -> String {
        let tail = if self.config.residual { "_residual" } else { "" };
        format!("layer_norm_{}_{}x{}{tail}{}", self.config.elem, self.rows, self.cols, suffix((self.init)(0)))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.rows)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let (elem, shape) = (self.config.elem, [self.rows, self.cols]);
        let mut list = vec![TensorSpec::input("x", elem, &shape, (self.init)(1))];
        if self.config.residual {
            list.push(TensorSpec::input("residual", elem, &shape, Init::Normal(4)));
        }
        list.push(TensorSpec::input("w", elem, &[self.cols], Init::Normal(2)));
        list.push(TensorSpec::input("b", elem, &[self.cols], Init::Normal(3)));
        list.push(TensorSpec::output("y", elem, &shape));
        list
    }
    fn scalars(&self) -> Vec<ScalarSpec> {
        vec![ScalarSpec { name: "eps", elem: Scalar::F32, value: f64::from(LayerNormCase::EPS) }]
    }
    fn owned(&self, _: usize, program: [u32; 3]) -> Vec<Range<usize>> {
        whole_rows(program, self.config.tile_rows, self.rows, self.cols)
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        let (residual, at) = if self.config.residual { (Some(&tensors[1]), 2) } else { (None, 1) };
        reference::layer_norm(&tensors[0], residual, &tensors[at], &tensors[at + 1], f64::from(LayerNormCase::EPS))
    }
}

/// [`Rotary`] of a shape.
#[derive(Clone, Debug)]
pub struct RotaryCase {
    /// The kernel.
    pub config: Rotary,
    /// Heads of all batches.
    pub heads: u32,
    /// Positions.
    pub length: u32,
}

impl Workload for RotaryCase {
    fn name(&self) -> String {
        let form = if self.config.interleaved { "interleaved" } else { "neox" };
        format!("rotary_{form}_{}_{}x{}x{}", self.config.elem, self.heads, self.length, self.config.dim)
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.length, self.heads)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let (elem, dim) = (self.config.elem, self.config.dim);
        let (heads, table) = ([self.heads, self.length, dim], [self.length, dim / 2]);
        vec![
            TensorSpec::input("x", elem, &heads, Init::Normal(1)),
            TensorSpec::input("cos", elem, &table, Init::Normal(2)),
            TensorSpec::input("sin", elem, &table, Init::Normal(3)),
            TensorSpec::output("y", elem, &heads),
        ]
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let dim = self.config.dim as usize;
        if y >= self.heads || z > 0 {
            return Vec::new();
        }
        let first = y as usize * self.length as usize;
        let rows = block(u64::from(x) * u64::from(self.config.tile_rows), self.config.tile_rows, self.length);
        rows.map(|r| (first + r) * dim..(first + r + 1) * dim).collect()
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::rotary(&tensors[0], &tensors[1], &tensors[2], self.config.interleaved)
    }
}

/// [`Select`] of a shape.
#[derive(Clone, Debug)]
pub struct SelectCase {
    /// The kernel.
    pub config: Select,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// How the matrix is filled.
    pub init: fn(u64) -> Init,
}

impl Workload for SelectCase {
    fn name(&self) -> String {
        let c = &self.config;
        let what = match (c.k == self.cols, c.positions) {
            (true, true) => "argsort".to_owned(),
            (true, false) => "sort".to_owned(),
            (false, true) => format!("arg_top{}", c.k),
            (false, false) => format!("top{}", c.k),
        };
        format!("{what}_{}_{}_{}x{}{}", c.order, c.elem, self.rows, self.cols, suffix((self.init)(0)))
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
            TensorSpec::output("y", self.config.out(), &[self.rows, self.config.k]),
        ]
    }
    fn owned(&self, _: usize, program: [u32; 3]) -> Vec<Range<usize>> {
        whole_rows(program, self.config.tile_rows, self.rows, self.config.k)
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        let descending = self.config.order == tilelift_ir::SortOrder::Descending;
        reference::select(&tensors[0], descending, self.config.positions, self.config.k as usize)
    }
}

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
