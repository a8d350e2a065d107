//! Sorts and the greatest of each row, with a shape.

use super::{Ran, Workload, suffix, whole_rows};
use crate::reference::{self, Reference};
use crate::select::Select;
use crate::tensor::{Init, Tensor, TensorSpec};
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel};

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
