//! The workload of [`ScatterAdd`], with its reference.

use super::definition::{Ran, Workload, block};
use crate::indexed::ScatterAdd;
use crate::reference::{Expected, Reference, unit_roundoff};
use crate::tensor::{Init, Tensor, TensorSpec};
use std::collections::BTreeSet;
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel, Scalar, num};

/// [`ScatterAdd`] of a shape.
#[derive(Clone, Debug)]
pub struct ScatterAddCase {
    /// The kernel.
    pub config: ScatterAdd,
    /// Rows added.
    pub n: u32,
    /// Rows that they are added to.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
}

impl Workload for ScatterAddCase {
    fn name(&self) -> String {
        format!("scatter_add_{}_{}_{}x{}", self.config.elem, self.n, self.rows, self.cols)
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.n, self.cols)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let elem = self.config.elem;
        vec![
            TensorSpec::input("x", elem, &[self.n, self.cols], Init::Normal(1)),
            TensorSpec::input("index", Scalar::I32, &[self.n], Init::Index(2, self.rows)),
            TensorSpec::updated("y", elem, &[self.rows, self.cols], Init::Normal(3)),
        ]
    }
    /// Programs share the output.
    fn owned(&self, _: usize, _: [u32; 3]) -> Vec<Range<usize>> {
        Vec::new()
    }

    /// What was there and what the programs add; floats round once per addition, to the element type, in any order.
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], ran: Ran<'a>) -> Reference<'a> {
        let (elem, cols) = (self.config.elem, self.cols as usize);
        let (tile_rows, tile_cols) = (self.config.tile_rows.max(1), self.config.tile_cols.max(1) as usize);
        let mut lines: Vec<Vec<usize>> = vec![Vec::new(); self.rows as usize];
        for i in block(0, self.n, self.n) {
            let at = tensors[1].get(i);
            if at >= 0.0
                && let Some(line) = lines.get_mut(at as usize)
            {
                line.push(i);
            }
        }
        let ran: Option<BTreeSet<[u32; 3]>> = ran.map(|list| list.iter().copied().collect());
        Box::new(move |range| {
            let one = |i: usize| {
                let (row, col) = (i / cols, i % cols);
                let start = tensors[2].get(i);
                let took_part =
                    |&line: &usize| ran.as_ref().is_none_or(|r| r.contains(&[(col / tile_cols) as u32, line as u32 / tile_rows, 0]));
                let terms = lines[row].iter().copied().filter(took_part).map(|line| tensors[0].get(line * cols + col));
                let (s, size, count) = terms.fold((start, start.abs(), 0.0), |(s, z, n), x| (s + x, z + x.abs(), n + 1.0));
                if !elem.is_float() || count == 0.0 {
                    return Expected::exact(if elem.is_float() { s } else { num::wrap(s as i64, elem) as f64 });
                }
                Expected { value: s, tolerance: count * unit_roundoff(elem) * size }
            };
            range.map(one).collect()
        })
    }
    fn deterministic(&self) -> bool {
        !self.config.elem.is_float()
    }
}
