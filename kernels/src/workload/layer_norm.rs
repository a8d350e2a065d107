//! LayerNorm with a shape.

use super::{Ran, ScalarSpec, Workload, suffix, whole_rows};
use crate::layer_norm::LayerNorm;
use crate::reference::{self, Reference};
use crate::tensor::{Init, Tensor, TensorSpec};
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
