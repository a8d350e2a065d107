//! The workload of [`SplitGemm`]: one launch or two, judged as the plain product.

use super::definition::{Ran, ScalarSpec, Step, Workload, tile_rows};
use crate::facts::programs;
use crate::gemm::Gemm;
use crate::launch::{Argument, Launch};
use crate::reference::{Columns, Expected, GemmReference, Reference, U, row_major, sum_error};
use crate::split_gemm::{Meeting, SplitGemm};
use crate::tensor::{Init, Tensor, TensorSpec};
use std::collections::BTreeSet;
use std::ops::Range;
use tilelift_ir::{BuildError, BuildErrors, Kernel, Scalar, num};

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
    fn atomics(&self) -> bool {
        self.config.meeting == Meeting::Atomics
    }

    /// The tile of an element.
    fn tile_of(&self, row: usize, col: usize) -> (u32, u32) {
        let g = &self.config.gemm;
        (row as u32 / g.bm * g.bm, col as u32 / g.bn * g.bn)
    }
}

/// What a product is by definition.
pub(super) fn definition_of(g: &Gemm, shape: [u32; 3]) -> GemmReference {
    let shape = shape.map(|e| e as usize);
    GemmReference { shape, trans_a: g.trans_a, trans_b: g.trans_b, tf32: g.elem == Scalar::F32, activation: g.activation, out: g.out }
}

/// What a product is called.
pub(super) fn name_of(g: &Gemm, [m, n, k]: [u32; 3], how: &str) -> String {
    let input = if g.elem == Scalar::F32 { "tf32".to_owned() } else { g.operands() };
    let bias = g.bias.map_or_else(String::new, |t| format!("_bias_{t}"));
    format!("gemm_{}_{input}_{}_{m}x{n}x{k}_{how}{bias}", g.order(), g.out)
}

/// The operands of a product.
pub(super) fn operands_of(g: &Gemm, [m, n, k]: [u32; 3]) -> Vec<TensorSpec> {
    let stored = |transposed: bool, rows, cols| if transposed { [cols, rows] } else { [rows, cols] };
    vec![
        TensorSpec::input("a", g.elem, &stored(g.trans_a, m, k), Init::Normal(1)),
        TensorSpec::input("b", g.elem_b, &stored(g.trans_b, k, n), Init::Normal(2)),
    ]
}

/// A launch of a product with these tensors: factors, the bias if there is one, the workspace if there is one, C.
///
/// # Errors
/// It has a gate or a residual, which no case has tensors for.
pub(super) fn step_of(launch: Launch, tensors: &[TensorSpec]) -> Result<Step, BuildErrors> {
    let more = |a: &Argument| matches!(a, Argument::Gate | Argument::Residual | Argument::Alpha | Argument::Beta);
    if launch.arguments.iter().any(more) {
        return Err(BuildErrors(vec![BuildError::new("steps", "cases of split products have neither a gate nor a residual")]));
    }
    let last = tensors.len().saturating_sub(1);
    let place = |&a: &Argument| match a {
        Argument::A => Some(0),
        Argument::B => Some(1),
        Argument::Bias => Some(2),
        Argument::Workspace(_) => Some(last.saturating_sub(1)),
        Argument::C => Some(last),
        Argument::Gate | Argument::Residual | Argument::Alpha | Argument::Beta | Argument::Count { .. } => None,
    };
    let count = |&a: &Argument| match a {
        Argument::Count { name, value } => Some(ScalarSpec { name, elem: Scalar::I32, value: f64::from(value) }),
        _ => None,
    };
    Ok(Step {
        tensors: launch.arguments.iter().filter_map(place).collect(),
        scalars: launch.arguments.iter().filter_map(count).collect(),
        kernel: launch.kernel,
        grid: launch.grid,
    })
}

/// A product that atomics add, in so many parts, to what was there, with a rounding each; `ran` says of elements whether they are.
pub(super) fn added<'a>(
    definition: GemmReference,
    tensors: &'a [Tensor],
    parts: u32,
    ran: impl Fn(usize, usize) -> bool + Send + Sync + 'a,
) -> Reference<'a> {
    let [m, n, k] = definition.shape;
    let a = row_major(&tensors[0], m, k, definition.trans_a, definition.tf32);
    let b = Columns::of(&tensors[1], k, n, definition.trans_b, definition.tf32);
    Box::new(move |range| {
        let (row, first) = (range.start / n, range.start % n);
        let (sum, size) = b.times(&a[row * k..(row + 1) * k], first..first + range.len());
        let one = |(i, (s, z)): (usize, (f64, f64))| {
            let start = tensors[2].get(range.start + i);
            if !ran(row, first + i) {
                return Expected::exact(start);
            }
            if !definition.out.is_float() {
                // Sums of integers wrap.
                return Expected::exact(num::wrap((start + s) as i64, definition.out) as f64);
            }
            let meeting = (f64::from(parts) + 1.0) * 2.0 * U * (start.abs() + z);
            Expected::rounded(start + s, sum_error(k, definition.tf32) * z + meeting, definition.out)
        };
        sum.into_iter().zip(size).enumerate().map(one).collect()
    })
}

/// The bar of a product in so many parts: a truncation for every 8 products of a part, and one for every part.
pub(super) fn bar_of_parts(mut definition: GemmReference, parts: u32) -> f64 {
    if !definition.out.is_float() {
        return 0.0;
    }
    definition.shape[2] = definition.shape[2].div_ceil(parts.max(1) as usize);
    definition.rel_l2() + f64::from(parts) * U
}

impl Workload for SplitGemmCase {
    fn name(&self) -> String {
        let how = format!("{}{}", if self.atomics() { "atomic" } else { "split" }, self.config.splits);
        name_of(&self.config.gemm, [self.m, self.n, self.k], &how)
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.gemm.grid(self.m, self.n)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let g = &self.config.gemm;
        let mut list = operands_of(g, [self.m, self.n, self.k]);
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
        let launches = self.config.launches(self.m, self.n)?;
        launches.list.into_iter().map(|l| step_of(l, &self.tensors())).collect()
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

    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], ran: Ran<'a>) -> Reference<'a> {
        let definition = definition_of(&self.config.gemm, [self.m, self.n, self.k]);
        if !self.atomics() {
            return definition.of(&tensors[0], &tensors[1], self.config.gemm.bias.map(|_| &tensors[2]));
        }
        let tiles: Option<BTreeSet<(u32, u32)>> =
            ran.map(|list| list.iter().map(|p| self.config.gemm.tile_origin(p[0], self.m, self.n)).collect());
        added(definition, tensors, self.config.splits, move |row, col| tiles.as_ref().is_none_or(|t| t.contains(&self.tile_of(row, col))))
    }
    fn rel_l2_bar(&self) -> Option<f64> {
        Some(bar_of_parts(definition_of(&self.config.gemm, [self.m, self.n, self.k]), self.config.splits))
    }
    fn deterministic(&self) -> bool {
        !self.atomics() || !self.config.gemm.out.is_float()
    }
}
