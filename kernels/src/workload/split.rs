//! The workload of [`SplitGemm`]: one launch or two, judged as the plain product.

use super::{Ran, Step, Workload, tile_rows};
use crate::facts::programs;
use crate::reference::{Expected, GemmReference, Reference, U, row_major, row_product, sum_error};
use crate::split_gemm::{Meeting, SplitGemm};
use crate::tensor::{Init, Tensor, TensorSpec};
use std::collections::BTreeSet;
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel, Scalar};

/// [`SplitGemm`] of a shape. A program of the workload's grid is a tile, with all parts of its depth.
#[derive(Clone, Debug)]
pub struct SplitGemmCase {
    /// The kernels.
    pub config: SplitGemm,
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// Depth.
    pub k: u32,
}

impl SplitGemmCase {
    fn definition(&self) -> GemmReference {
        let g = &self.config.gemm;
        let shape = [self.m, self.n, self.k].map(|e| e as usize);
        GemmReference { shape, trans_a: g.trans_a, trans_b: g.trans_b, tf32: g.elem == Scalar::F32, activation: g.activation, out: g.out }
    }

    fn atomics(&self) -> bool {
        self.config.meeting == Meeting::Atomics
    }

    /// The tile of an element.
    fn tile_of(&self, row: usize, col: usize) -> (u32, u32) {
        let g = &self.config.gemm;
        (row as u32 / g.bm * g.bm, col as u32 / g.bn * g.bn)
    }
}

impl Workload for SplitGemmCase {
    fn name(&self) -> String {
        let g = &self.config.gemm;
        let input = if g.elem == Scalar::F32 { "tf32".to_owned() } else { g.operands() };
        let how = if self.atomics() { "atomic" } else { "split" };
        let mut name = format!("gemm_{}_{input}_{}_{}x{}x{}_{how}{}", g.order(), g.out, self.m, self.n, self.k, self.config.splits);
        if let Some(t) = g.bias {
            name += &format!("_bias_{t}");
        }
        name
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.gemm.grid(self.m, self.n)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let g = &self.config.gemm;
        let stored = |transposed: bool, rows, cols| if transposed { [cols, rows] } else { [rows, cols] };
        let mut list = vec![
            TensorSpec::input("a", g.elem, &stored(g.trans_a, self.m, self.k), Init::Normal(1)),
            TensorSpec::input("b", g.elem_b, &stored(g.trans_b, self.k, self.n), Init::Normal(2)),
        ];
        if self.atomics() {
            list.push(TensorSpec::updated("c", g.out, &[self.m, self.n], Init::Normal(4)));
            return list;
        }
        list.extend(g.bias.map(|t| TensorSpec::input("bias", t, &[self.n], Init::Normal(3))));
        list.push(TensorSpec::scratch("parts", g.sum(), &[self.config.splits, self.m, self.n]));
        list.push(TensorSpec::output("c", g.out, &[self.m, self.n]));
        list
    }
    fn steps(&self) -> Result<Vec<Step>, BuildErrors> {
        let last = self.tensors().len() - 1;
        let products = |out| {
            let grid = self.config.grid(self.m, self.n);
            Ok(Step { kernel: self.config.build()?, grid, tensors: vec![0, 1, out], scalars: Vec::new() })
        };
        if self.atomics() {
            return Ok(vec![products(last)?]);
        }
        let bias = self.config.gemm.bias.map(|_| 2);
        let tensors = [last - 1].into_iter().chain(bias).chain([last]).collect();
        let sums = Step { kernel: self.config.build_sums()?, grid: self.config.grid_sums(self.m, self.n), tensors, scalars: Vec::new() };
        Ok(vec![products(last - 1)?, sums])
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let g = &self.config.gemm;
        let tiles = programs(self.m, g.bm).saturating_mul(programs(self.n, g.bn));
        // What atomics add to is shared.
        if self.atomics() || x >= tiles || y > 0 || z > 0 {
            return Vec::new();
        }
        let (row, col) = g.tile_origin(x, self.m, self.n);
        tile_rows([u64::from(row), u64::from(col)], [g.bm, g.bn], self.m, self.n)
    }

    /// The plain product's; atomics add it, in parts, to what was there, with a rounding each.
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], ran: Ran<'a>) -> Reference<'a> {
        let definition = self.definition();
        if !self.atomics() {
            return definition.of(&tensors[0], &tensors[1], self.config.gemm.bias.map(|_| &tensors[2]));
        }
        let [m, n, k] = definition.shape;
        let a = row_major(&tensors[0], m, k, definition.trans_a, definition.tf32);
        let b = row_major(&tensors[1], k, n, definition.trans_b, definition.tf32);
        let tiles: Option<BTreeSet<(u32, u32)>> =
            ran.map(|list| list.iter().map(|p| self.config.gemm.tile_origin(p[0], self.m, self.n)).collect());
        Box::new(move |range| {
            let (row, first) = (range.start / n, range.start % n);
            let (sum, size) = row_product(&a[row * k..(row + 1) * k], &b, n, first..first + range.len());
            let one = |(i, (s, z)): (usize, (f64, f64))| {
                let start = tensors[2].get(range.start + i);
                if tiles.as_ref().is_some_and(|t| !t.contains(&self.tile_of(row, first + i))) {
                    return Expected::exact(start);
                }
                if !definition.out.is_float() {
                    return Expected::exact(start + s);
                }
                let meeting = (f64::from(self.config.splits) + 1.0) * 2.0 * U * (start.abs() + z);
                Expected::rounded(start + s, sum_error(k, definition.tf32) * z + meeting, definition.out)
            };
            sum.into_iter().zip(size).enumerate().map(one).collect()
        })
    }
    fn rel_l2_bar(&self) -> Option<f64> {
        // A truncation for every 8 products of a part, and one for every part.
        let mut part = self.definition();
        if !part.out.is_float() {
            return Some(0.0);
        }
        part.shape[2] = part.shape[2].div_ceil(self.config.splits.max(1) as usize);
        Some(part.rel_l2() + f64::from(self.config.splits) * U)
    }
    fn deterministic(&self) -> bool {
        !self.atomics() || !self.config.gemm.out.is_float()
    }
}
