//! Workloads of [`Softmax`], [`RmsNorm`], [`Transpose`] and [`Gemm`].

use super::definition::{Ran, ScalarSpec, Workload, suffix, tile_rows, whole_rows};
use crate::activation::Activation;
use crate::facts::programs;
use crate::gemm::Gemm;
use crate::reference::{self, GemmReference, Reference};
use crate::rms_norm::RmsNorm;
use crate::softmax::Softmax;
use crate::tensor::{Init, Tensor, TensorSpec};
use crate::transpose::Transpose;
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel, Scalar};

/// [`Softmax`] of a shape.
#[derive(Clone, Debug)]
pub struct SoftmaxCase {
    /// The kernel.
    pub config: Softmax,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// How the matrix is filled.
    pub init: fn(u64) -> Init,
}

impl Workload for SoftmaxCase {
    fn name(&self) -> String {
        format!("softmax_{}_{}x{}{}", self.config.elem, self.rows, self.cols, suffix((self.init)(0)))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.rows)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let (elem, shape) = (self.config.elem, [self.rows, self.cols]);
        vec![TensorSpec::input("x", elem, &shape, (self.init)(1)), TensorSpec::output("y", elem, &shape)]
    }
    fn owned(&self, _: usize, program: [u32; 3]) -> Vec<Range<usize>> {
        whole_rows(program, self.config.tile_rows, self.rows, self.cols)
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::softmax(&tensors[0])
    }
}

/// [`RmsNorm`] of a shape.
#[derive(Clone, Debug)]
pub struct RmsNormCase {
    /// The kernel.
    pub config: RmsNorm,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// How the matrix is filled.
    pub init: fn(u64) -> Init,
}

impl RmsNormCase {
    /// The `eps` of the case.
    pub const EPS: f32 = 1e-5;
}

impl Workload for RmsNormCase {
    fn name(&self) -> String {
        format!("rms_norm_{}_{}x{}{}", self.config.elem, self.rows, self.cols, suffix((self.init)(0)))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.rows)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let (elem, shape) = (self.config.elem, [self.rows, self.cols]);
        vec![
            TensorSpec::input("x", elem, &shape, (self.init)(1)),
            TensorSpec::input("w", elem, &[self.cols], Init::Normal(2)),
            TensorSpec::output("y", elem, &shape),
        ]
    }
    fn scalars(&self) -> Vec<ScalarSpec> {
        vec![ScalarSpec { name: "eps", elem: Scalar::F32, value: f64::from(RmsNormCase::EPS) }]
    }
    fn owned(&self, _: usize, program: [u32; 3]) -> Vec<Range<usize>> {
        whole_rows(program, self.config.tile_rows, self.rows, self.cols)
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::rms_norm(&tensors[0], &tensors[1], f64::from(RmsNormCase::EPS))
    }
}

/// [`Transpose`] of a shape.
#[derive(Clone, Debug)]
pub struct TransposeCase {
    /// The kernel.
    pub config: Transpose,
    /// Rows of the input.
    pub rows: u32,
    /// Columns of the input.
    pub cols: u32,
    /// How the matrix is filled.
    pub init: fn(u64) -> Init,
}

impl Workload for TransposeCase {
    fn name(&self) -> String {
        format!("transpose_{}_{}x{}{}", self.config.elem, self.rows, self.cols, suffix((self.init)(0)))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.rows, self.cols)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let elem = self.config.elem;
        vec![TensorSpec::input("x", elem, &[self.rows, self.cols], (self.init)(1)), TensorSpec::output("y", elem, &[self.cols, self.rows])]
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let (tile_r, tile_c) = (self.config.tile_rows, self.config.tile_cols);
        let origin = [u64::from(x) * u64::from(tile_c), u64::from(y) * u64::from(tile_r)];
        if z == 0 { tile_rows(origin, [tile_c, tile_r], self.cols, self.rows) } else { Vec::new() }
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::transpose(&tensors[0])
    }
}

/// [`Gemm`] of a shape.
#[derive(Clone, Debug)]
pub struct GemmCase {
    /// The kernel.
    pub config: Gemm,
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// Depth.
    pub k: u32,
}

impl GemmCase {
    fn definition(&self) -> GemmReference {
        let Gemm { trans_a, trans_b, activation, out, elem, .. } = self.config;
        let shape = [self.m, self.n, self.k].map(|e| e as usize);
        GemmReference { shape, trans_a, trans_b, tf32: elem == Scalar::F32, activation, out }
    }
}

impl Workload for GemmCase {
    fn name(&self) -> String {
        let c = &self.config;
        let input = if c.elem == Scalar::F32 { "tf32".to_owned() } else { c.operands() };
        let mut name = format!("gemm_{}_{input}_{}_{}x{}x{}", c.order(), c.out, self.m, self.n, self.k);
        if let Some(t) = c.bias {
            name += &format!("_bias_{t}");
        }
        if c.activation != Activation::None {
            name += &format!("_{}", c.activation.name());
        }
        name
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.m, self.n)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let c = &self.config;
        let stored = |transposed: bool, rows, cols| if transposed { [cols, rows] } else { [rows, cols] };
        let mut list = vec![
            TensorSpec::input("a", c.elem, &stored(c.trans_a, self.m, self.k), Init::Normal(1)),
            TensorSpec::input("b", c.elem_b, &stored(c.trans_b, self.k, self.n), Init::Normal(2)),
        ];
        list.extend(c.bias.map(|t| TensorSpec::input("bias", t, &[self.n], Init::Normal(3))));
        list.push(TensorSpec::output("c", c.out, &[self.m, self.n]));
        list
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let Gemm { bm, bn, .. } = self.config;
        let tiles = programs(self.m, bm).saturating_mul(programs(self.n, bn));
        if x >= tiles || y > 0 || z > 0 {
            return Vec::new();
        }
        let (row, col) = self.config.tile_origin(x, self.m, self.n);
        tile_rows([u64::from(row), u64::from(col)], [bm, bn], self.m, self.n)
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        let bias = self.config.bias.map(|_| &tensors[2]);
        self.definition().of(&tensors[0], &tensors[1], bias)
    }
    fn rel_l2_bar(&self) -> Option<f64> {
        Some(self.definition().rel_l2())
    }
}
