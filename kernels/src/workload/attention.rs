//! The workload of [`Attention`], with its reference.

use super::definition::{Ran, ScalarSpec, Workload, block};
use crate::attention::Attention;
use crate::reference::{Expected, Reference, U, unit_roundoff};
use crate::tensor::{Init, Tensor, TensorSpec};
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel, Scalar, num};

/// [`Attention`] of a shape.
#[derive(Clone, Debug)]
pub struct AttentionCase {
    /// The kernel.
    pub config: Attention,
    /// Number of queries.
    pub queries: u32,
    /// Number of keys.
    pub keys: u32,
    /// Number of heads; 1 without heads.
    pub heads: u32,
}

impl AttentionCase {
    /// `scale`: the inverse square root of the row length, rounded to `f32`.
    fn scale(&self) -> f64 {
        num::round(1.0 / f64::from(self.config.dim).sqrt(), Scalar::F32)
    }
}

impl Workload for AttentionCase {
    fn name(&self) -> String {
        let c = &self.config;
        let heads = if c.heads.is_some() { format!("{}x", self.heads) } else { String::new() };
        format!("attention_{}_{heads}{}x{}x{}{}", c.elem, self.queries, self.keys, c.dim, if c.causal { "_causal" } else { "" })
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.queries, self.heads)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let elem = self.config.elem;
        let of = |rows: u32| -> Vec<u32> { self.config.heads.map(|_| self.heads).into_iter().chain([rows, self.config.dim]).collect() };
        vec![
            TensorSpec::input("q", elem, &of(self.queries), Init::Normal(1)),
            TensorSpec::input("k", elem, &of(self.keys), Init::Normal(2)),
            TensorSpec::input("v", elem, &of(self.keys), Init::Normal(3)),
            TensorSpec::output("o", elem, &of(self.queries)),
        ]
    }
    fn scalars(&self) -> Vec<ScalarSpec> {
        vec![ScalarSpec { name: "scale", elem: Scalar::F32, value: self.scale() }]
    }
    fn owned(&self, _: usize, program: [u32; 3]) -> Vec<Range<usize>> {
        let grid = self.grid();
        if program.iter().zip(grid).any(|(&p, g)| p >= g) {
            return Vec::new();
        }
        let (at, head) = self.config.place(self.queries, program);
        let rows = block(u64::from(at) * u64::from(self.config.tile_queries), self.config.tile_queries, self.queries);
        let (first, dim) = (head as usize * self.queries as usize, self.config.dim as usize);
        rows.map(|r| (first + r) * dim..(first + r + 1) * dim).collect()
    }

    /// The score `s` of a pair is a dot of `dim` products, scaled: its error is at most `(dim + 4) U scale sum |q| |k|`, which is a
    /// relative error of its weight; the exponential adds `2^-21` and `2 |s - max| U`, for its argument is a product with a constant of base
    /// 2. Weights are rounded to the element type before
    /// they meet the values. Per round the carried sums are scaled once: an exponential and a product. The sums of `keys` weights and
    /// products add `keys` roundings each, the division three.
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        let (dim, elem) = (self.config.dim as usize, self.config.elem);
        let all = |t: &Tensor| t.read(0..t.shape.iter().map(|&e| e as usize).product());
        let (all_keys, all_values) = (all(&tensors[1]), all(&tensors[2]));
        let scale = self.scale();
        let rounds = f64::from(self.keys.div_ceil(self.config.tile_keys.max(1)));
        Box::new(move |range| {
            let (row, per_head) = (range.start / dim, self.keys as usize * dim);
            let q = tensors[0].read(row * dim..(row + 1) * dim);
            let (head, first) = (row / self.queries.max(1) as usize, row * dim);
            let row = row % self.queries.max(1) as usize;
            let (keys, values) = (&all_keys[head * per_head..][..per_head], &all_values[head * per_head..][..per_head]);
            let last = if self.config.causal { (row + 1).min(self.keys as usize) } else { self.keys as usize };
            let key = |j: usize| &keys[j * dim..(j + 1) * dim];
            let dot = |j: usize, f: fn(f64) -> f64| q.iter().zip(key(j)).map(|(a, b)| f(a * b)).sum::<f64>() * scale;
            let scores: Vec<f64> = (0..last).map(|j| dot(j, |x| x)).collect();
            let doubt = (0..last).map(|j| dot(j, f64::abs)).fold(0.0, f64::max) * (dim as f64 + 4.0) * U;
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let spread = scores.iter().map(|s| most - s).fold(0.0, f64::max);
            let function = 2f64.powi(-21) + (2.0 * spread + 2.0) * U;
            let relative = unit_roundoff(elem) + 2.0 * (2.0 * doubt + function * (rounds + 1.0) + (last as f64 + 6.0) * U);
            // Half the smallest number of the type: what a tiny weight may lose.
            let least = num::from_bits(1, elem) / 2.0;
            // The kernel list allows no more, whatever the bound says.
            let asked = if elem == Scalar::BF16 { 1e-2 } else { 2e-3 };
            let one = |i: usize| {
                let column = |j: usize| values[j * dim + i - first];
                let value = (0..last).map(|j| weights[j] * column(j)).sum::<f64>() / sum;
                let size = (0..last).map(|j| weights[j] * column(j).abs()).sum::<f64>() / sum;
                let lost = (0..last).map(|j| column(j).abs()).sum::<f64>() * least / sum;
                let derived = Expected::rounded(value, size * relative + lost, elem);
                Expected { tolerance: derived.tolerance.min(asked), ..derived }
            };
            range.map(one).collect()
        })
    }
}
