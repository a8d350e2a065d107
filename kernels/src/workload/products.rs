//! Workloads of [`FusedGemm`] and [`Gemv`], with their references.

use super::definition::{Ran, ScalarSpec, Workload, block, tile_rows};
use crate::activation::Activation;
use crate::facts::programs;
use crate::fused_gemm::{FusedGemm, Residual};
use crate::gemv::{GROUP, Gemv, Weights};
use crate::reference::{Columns, Expected, GemmReference, Reference, TIES, U, row_major, sum_error, unit_roundoff};
use crate::tensor::{Init, Tensor, TensorSpec};
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel, Scalar};

/// [`FusedGemm`] of a shape.
#[derive(Clone, Debug)]
pub struct FusedGemmCase {
    /// The kernel.
    pub config: FusedGemm,
    /// Number of products; 1 without a batch.
    pub batch: u32,
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// Depth.
    pub k: u32,
}

impl FusedGemmCase {
    /// `alpha` of the case, if the kernel has one.
    pub const ALPHA: f64 = 0.75;
    /// `beta` of the case, if the kernel has one.
    pub const BETA: f64 = -1.5;

    fn shape(&self, rows: u32, cols: u32) -> Vec<u32> {
        self.config.batch.map(|_| self.batch).into_iter().chain([rows, cols]).collect()
    }

    fn stored(&self, transposed: bool, rows: u32, cols: u32) -> Vec<u32> {
        if transposed { self.shape(cols, rows) } else { self.shape(rows, cols) }
    }
}

/// One matrix of a batch.
fn matrix_of(t: &Tensor, index: usize, elements: usize) -> Tensor {
    let bytes = elements * t.elem.bytes() as usize;
    let at = index * bytes;
    Tensor { elem: t.elem, shape: t.shape.clone(), bytes: t.bytes.get(at..at + bytes).unwrap_or_default().to_vec() }
}

impl Workload for FusedGemmCase {
    fn name(&self) -> String {
        let g = &self.config.gemm;
        let input = if g.elem == Scalar::F32 { "tf32" } else { g.elem.name() };
        let mut name = format!("gemm_{}_{input}_{}_{}x{}x{}", g.order(), g.out, self.m, self.n, self.k);
        if self.config.batch.is_some() {
            name = format!("b{}_{name}", self.batch);
        }
        if let Some(t) = g.bias {
            name += &format!("_bias_{t}");
        }
        if g.activation != Activation::None {
            name += &format!("_{}", g.activation.name());
        }
        if self.config.gate {
            name += "_glu";
        }
        match self.config.residual {
            Some(Residual::Plain(t)) => name + &format!("_plus_{t}"),
            Some(Residual::Scaled(t)) => name + &format!("_addmm_{t}"),
            None => name + "_fused",
        }
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.m, self.n, self.batch)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let g = &self.config.gemm;
        let right = self.stored(g.trans_b, self.k, self.n);
        let mut list = vec![
            TensorSpec::input("a", g.elem, &self.stored(g.trans_a, self.m, self.k), Init::Normal(1)),
            TensorSpec::input("b", g.elem, &right, Init::Normal(2)),
        ];
        if self.config.gate {
            list.push(TensorSpec::input("u", g.elem, &right, Init::Normal(5)));
        }
        list.extend(g.bias.map(|t| TensorSpec::input("bias", t, &[self.n], Init::Normal(3))));
        list.extend(self.config.residual.map(|r| TensorSpec::input("r", r.elem(), &self.shape(self.m, self.n), Init::Normal(4))));
        list.push(TensorSpec::output("c", g.out, &self.shape(self.m, self.n)));
        list
    }
    fn scalars(&self) -> Vec<ScalarSpec> {
        let scalar = |name, value| ScalarSpec { name, elem: Scalar::F32, value };
        match self.config.residual {
            Some(Residual::Scaled(_)) => vec![scalar("alpha", Self::ALPHA), scalar("beta", Self::BETA)],
            Some(Residual::Plain(_)) | None => Vec::new(),
        }
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let g = &self.config.gemm;
        let tiles = programs(self.m, g.bm).saturating_mul(programs(self.n, g.bn));
        if x >= tiles || y > 0 || z >= self.batch {
            return Vec::new();
        }
        let (row, col) = g.tile_origin(x, self.m, self.n);
        let first = z as usize * self.m as usize * self.n as usize;
        let ranges = tile_rows([u64::from(row), u64::from(col)], [g.bm, g.bn], self.m, self.n);
        ranges.into_iter().map(|r| r.start + first..r.end + first).collect()
    }

    /// The products and the activation as [`GemmReference`]; a gate multiplies errors with the other factor, with one rounding;
    /// a residual adds two roundings of its terms and one of their sum.
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        let g = &self.config.gemm;
        let [m, n, k] = [self.m, self.n, self.k].map(|e| e as usize);
        let tf32 = g.elem == Scalar::F32;
        let mut rest = tensors[1..].iter();
        let factors: Vec<&Tensor> = rest.by_ref().take(1 + usize::from(self.config.gate)).collect();
        let bias = if g.bias.is_some() { rest.next() } else { None };
        let residual = if self.config.residual.is_some() { rest.next() } else { None };
        let (alpha, beta) = match self.config.residual {
            Some(Residual::Scaled(_)) => (Self::ALPHA, Self::BETA),
            Some(Residual::Plain(_)) | None => (1.0, 1.0),
        };
        let matrices: Vec<(Vec<f64>, Vec<Columns>)> = (0..self.batch as usize)
            .map(|z| {
                let a = row_major(&matrix_of(&tensors[0], z, m * k), m, k, g.trans_a, tf32);
                (a, factors.iter().map(|t| Columns::of(&matrix_of(t, z, k * n), k, n, g.trans_b, tf32)).collect())
            })
            .collect();
        Box::new(move |range| {
            let (line, first) = (range.start / n, range.start % n);
            let (a, factors) = &matrices[line / m];
            let a = &a[line % m * k..(line % m + 1) * k];
            let products: Vec<_> = factors.iter().map(|b| b.times(a, first..first + range.len())).collect();
            let one = |i: usize| {
                let (at, j) = (i - range.start, first + i - range.start);
                let (mut s, mut z) = (products[0].0[at], products[0].1[at]);
                if let Some(bias) = bias {
                    s += bias.get(j);
                    z += bias.get(j).abs();
                }
                let before = sum_error(k, tf32) * z;
                let mut error = g.activation.lipschitz() * before + g.activation.error() * (s.abs() + before);
                let mut value = g.activation.eval(s);
                if let Some((t, y)) = products.get(1) {
                    let (t, y) = (t[at], y[at]);
                    let other = sum_error(k, tf32) * y;
                    error = error * (t.abs() + other) + other * value.abs();
                    value *= t;
                    error += U * (value.abs() + error);
                }
                if let Some(r) = residual {
                    let (t, r) = (alpha * value, beta * r.get(i));
                    error = alpha.abs() * error + 3.0 * U * (t.abs() + r.abs() + alpha.abs() * error);
                    value = t + r;
                }
                Expected::rounded(value, error, g.out)
            };
            range.clone().map(one).collect()
        })
    }
    fn rel_l2_bar(&self) -> Option<f64> {
        let g = &self.config.gemm;
        let shape = [self.m, self.n, self.k].map(|e| e as usize);
        let tf32 = g.elem == Scalar::F32;
        let plain = GemmReference { shape, trans_a: g.trans_a, trans_b: g.trans_b, tf32, activation: g.activation, out: g.out };
        // A gate has the errors of two products.
        let other = f64::from(self.k) / 8.0 * U + 2f64.powi(-19) + if tf32 { TIES } else { 0.0 };
        Some(plain.rel_l2() + if self.config.gate { other } else { 0.0 })
    }
}

/// [`Gemv`] of a shape.
#[derive(Clone, Debug)]
pub struct GemvCase {
    /// The kernel.
    pub config: Gemv,
    /// Rows of W.
    pub n: u32,
    /// Columns of W.
    pub k: u32,
}

impl Workload for GemvCase {
    fn name(&self) -> String {
        format!(
            "gemv_{}{}_{}x{}",
            self.config.elem,
            match self.config.weights {
                Weights::Plain => "",
                Weights::Unsigned4 => "_u4",
                Weights::Signed4 => "_i4",
            },
            self.n,
            self.k
        )
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.n)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let (elem, n, k) = (self.config.elem, self.n, self.k);
        let mut list = vec![TensorSpec::input("x", elem, &[k], Init::Normal(1))];
        match self.config.weights {
            Weights::Unsigned4 => {
                list.push(TensorSpec::input("q", Scalar::I8, &[n, k / 2], Init::Normal(2)));
                list.push(TensorSpec::input("s", elem, &[n, k / GROUP], Init::Normal(3)));
                list.push(TensorSpec::input("z", Scalar::I8, &[n, k / GROUP], Init::Normal(4)));
            }
            Weights::Signed4 => {
                list.push(TensorSpec::input("q", Scalar::I4, &[n, k], Init::Normal(2)));
                list.push(TensorSpec::input("s", elem, &[n, k / GROUP], Init::Normal(3)));
            }
            Weights::Plain => list.push(TensorSpec::input("w", elem, &[n, k], Init::Normal(2))),
        }
        list.push(TensorSpec::output("y", elem, &[n]));
        list
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let r = if y == 0 && z == 0 { block(u64::from(x) * u64::from(self.config.rows), self.config.rows, self.n) } else { 0..0 };
        if r.is_empty() { Vec::new() } else { vec![r] }
    }

    /// Products are exact in a fused operation (a weight of 4 bits times a scale of 11 is exact, and so is its product with `x`);
    /// a sum passes one rounding a step, one a level of the tree, and two more cover second order terms.
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        let Gemv { weights, depth, elem, .. } = self.config;
        let k = self.k as usize;
        let x = tensors[0].read(0..k);
        let roundings = f64::from(self.k.div_ceil(depth.max(1))) + f64::from(depth.max(1).ilog2()) + 3.0;
        Box::new(move |range| {
            let one = |n: usize| {
                let (mut s, mut z) = (0.0, 0.0);
                let mut add = |x: f64, weight: f64| {
                    s += x * weight;
                    z += (x * weight).abs();
                };
                for (g, x) in x.chunks(GROUP as usize).enumerate() {
                    let (first, group) = (n * k + g * GROUP as usize, n * (k / GROUP as usize) + g);
                    match weights {
                        Weights::Plain => x.iter().zip(first..).for_each(|(&x, p)| add(x, tensors[1].get(p))),
                        Weights::Signed4 => {
                            let scale = tensors[2].get(group);
                            x.iter().zip(first..).for_each(|(&x, p)| add(x, tensors[1].get(p) * scale));
                        }
                        Weights::Unsigned4 => {
                            let (scale, zero) = (tensors[2].get(group), tensors[3].get(group));
                            for (&x, p) in x.iter().zip(first..) {
                                let byte = tensors[1].bytes.get(p / 2).copied().unwrap_or_default();
                                add(x, (f64::from(byte >> (4 * (p % 2)) & 15) - zero) * scale);
                            }
                        }
                    }
                }
                Expected::rounded(s, roundings * U * z, elem)
            };
            range.map(one).collect()
        })
    }
    fn rel_l2_bar(&self) -> Option<f64> {
        Some(f64::from(self.k) / 8.0 * U + 2f64.powi(-19) + unit_roundoff(self.config.elem))
    }
}
