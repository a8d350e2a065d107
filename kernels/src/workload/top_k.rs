//! The first elements of long rows, with a shape.

use super::{Ran, Step, Workload, suffix, whole_rows};
use crate::reference::{self, Reference};
use crate::tensor::{Init, Tensor, TensorSpec};
use crate::top_k::{TopK, TopKArgument, TopKLaunch};
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel, Scalar, SortOrder};

/// [`TopK`] of a shape.
#[derive(Clone, Debug)]
pub struct TopKCase {
    /// The kernels.
    pub config: TopK,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// How the matrix is filled.
    pub init: fn(u64) -> Init,
}

impl Workload for TopKCase {
    fn name(&self) -> String {
        let c = &self.config;
        format!("long_top{}_{}_{}_{}x{}{}", c.k, c.order, c.elem, self.rows, self.cols, suffix((self.init)(0)))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.heads_kernel()?.map_or_else(|| self.config.first(), Ok)
    }
    fn grid(&self) -> [u32; 3] {
        [self.rows, 1, 1]
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let c = &self.config;
        let heads = c.workspaces(self.rows, self.cols);
        std::iter::once(TensorSpec::input("x", c.elem, &[self.rows, self.cols], (self.init)(1)))
            .chain(heads.iter().map(|w| TensorSpec::scratch("heads", w.elem, &w.shape)))
            .chain([
                TensorSpec::output("positions", Scalar::I32, &[self.rows, c.k]),
                TensorSpec::output("values", c.elem, &[self.rows, c.k]),
            ])
            .collect()
    }
    fn steps(&self) -> Result<Vec<Step>, BuildErrors> {
        let behind = self.tensors().len() - 2;
        let tensor = |a: &TopKArgument| match a {
            TopKArgument::Rows => Some(0),
            TopKArgument::Workspace(n) => Some(1 + n),
            TopKArgument::Positions => Some(behind),
            TopKArgument::Values => Some(behind + 1),
            TopKArgument::Number | TopKArgument::Next | TopKArgument::InverseTemperature | TopKArgument::TopP => None,
        };
        let step = |l: TopKLaunch| {
            let tensors = l.arguments.iter().filter_map(tensor).collect();
            Step { kernel: l.kernel, grid: l.grid, tensors, scalars: Vec::new() }
        };
        Ok(self.config.launches(self.rows, self.cols)?.into_iter().map(step).collect())
    }
    fn owned(&self, _: usize, program: [u32; 3]) -> Vec<Range<usize>> {
        whole_rows(program, 1, self.rows, self.config.k)
    }
    fn reference<'a>(&'a self, output: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::select(&tensors[0], self.config.order == SortOrder::Descending, output == 0, self.config.k as usize)
    }
}
