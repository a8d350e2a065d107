//! Rotary embedding with a shape.

use super::{Ran, Workload, block};
use crate::reference::{self, Reference};
use crate::rotary::Rotary;
use crate::tensor::{Init, Tensor, TensorSpec};
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel};

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
