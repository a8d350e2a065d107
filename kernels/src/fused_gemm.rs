//! GEMM with what models put behind it: gated units, residuals, scaled sums, batches.
//!
//! ```text
//!   t = act(A · B + bias)                    one product, or with a gate
//!   t = act(A · B + bias) * (A · U)          two, of one tile of A
//!   C = t,  t + R,  or  alpha * t + beta * R
//! ```
//!
//! A batch is the grid's z axis: every view gets a leading dimension, of which a program takes one element.

use crate::activation::Activation;
use crate::facts::known;
use crate::gemm::Gemm;
use tilelift_ir::{BuildErrors, Extent, Kernel, KernelBuilder, Scalar, Value, ViewType};

/// How a third matrix `R`, of the shape of C, is added to the product.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Residual {
    /// `t + R`.
    Plain(Scalar),
    /// `alpha * t + beta * R`, with scalar parameters `alpha` and `beta` of type `f32` (addmm).
    Scaled(Scalar),
}

impl Residual {
    /// Element type of R.
    pub const fn elem(self) -> Scalar {
        match self {
            Residual::Plain(t) | Residual::Scaled(t) => t,
        }
    }
}

/// A matrix product with more than a bias behind it.
#[derive(Clone, PartialEq, Debug)]
pub struct FusedGemm {
    /// Element types, storage, bias, activation, tile.
    pub gemm: Gemm,
    /// Multiply by a second product `A · U`; U is stored like B.
    pub gate: bool,
    /// What is added.
    pub residual: Option<Residual>,
    /// What is known of the number of products, if there are several.
    pub batch: Option<Extent>,
}

impl FusedGemm {
    /// The plain product of a configuration.
    pub fn new(gemm: Gemm) -> FusedGemm {
        FusedGemm { gemm, gate: false, residual: None, batch: None }
    }

    /// Adds a gate.
    pub fn gated(mut self) -> FusedGemm {
        self.gate = true;
        self
    }

    /// Adds a residual.
    pub fn plus(mut self, residual: Residual) -> FusedGemm {
        self.residual = Some(residual);
        self
    }

    /// Makes it a batch.
    pub fn batched(mut self, batch: u32) -> FusedGemm {
        self.batch = Some(known(batch));
        self
    }

    fn view(&self, elem: Scalar, rows: Extent, cols: Extent) -> ViewType {
        let dims: Vec<Extent> = self.batch.into_iter().chain([rows, cols]).collect();
        ViewType::dense(elem, &dims)
    }

    /// The kernel; its parameters are the views of A, B, U (if gated), the bias (`[N]`, if there is one), R (if there is one) and C,
    /// then `alpha` and `beta` (if scaled). With a batch every view but the bias has the batch as first dimension.
    ///
    /// # Errors
    /// As [`Gemm::build`].
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        self.gemm.check()?;
        let g = &self.gemm;
        let mut b = KernelBuilder::new(&format!("fused_gemm_{}_{}_{}", g.order(), g.elem, g.out));
        b.warps(g.warps).stages(g.stages);
        let a = b.param(if g.trans_a { self.view(g.elem, g.k, g.m) } else { self.view(g.elem, g.m, g.k) });
        let right = if g.trans_b { self.view(g.elem_b, g.n, g.k) } else { self.view(g.elem_b, g.k, g.n) };
        let factors: Vec<Value> = (0..1 + usize::from(self.gate)).map(|_| b.param(right.clone())).collect();
        let bias = g.bias.map(|t| b.param(ViewType::dense(t, &[g.n])));
        let residual = self.residual.map(|r| b.param(self.view(r.elem(), g.m, g.n)));
        let c = b.param(self.view(g.out, g.m, g.n));
        let scales = match self.residual {
            Some(Residual::Scaled(_)) => Some([(); 2].map(|()| b.param(Scalar::F32))),
            Some(Residual::Plain(_)) | None => None,
        };
        let batch = self.batch.map(|_| b.program_id(2));

        let (row, col) = g.origin(&mut b, c);
        let depth = b.dim(a, u32::from(!g.trans_a) + u32::from(batch.is_some()));
        let zero = b.full(&[g.bm, g.bn], 0, g.sum());
        let sums = b.for_loop(0, depth, g.bk, &vec![zero; factors.len()], |b, k, acc| {
            let x = operand(b, a, batch, g.trans_a, [row, k], [g.bm, g.bk]);
            let ys: Vec<Value> = factors.iter().map(|&w| operand(b, w, batch, g.trans_b, [k, col], [g.bk, g.bn])).collect();
            let dot = |(y, &s): (Value, &Value)| if g.elem == Scalar::F32 { b.dot_tf32(x, y, s) } else { b.dot(x, y, s) };
            ys.into_iter().zip(acc).map(dot).collect()
        });
        let mut t = sums[0];
        if let Some(bias) = bias {
            let v = b.load(bias, &[col], &[g.bn]);
            let v = b.cast(v, Scalar::F32);
            let v = b.expand_dims(v, 0);
            t = b.add(t, v);
        }
        t = g.activation.apply(&mut b, t);
        if let Some(&gate) = sums.get(1) {
            t = b.mul(t, gate);
        }
        if let Some(r) = residual {
            let v = tile(&mut b, r, batch, [row, col], [g.bm, g.bn]);
            let mut v = b.cast(v, Scalar::F32);
            if let Some([alpha, beta]) = scales {
                t = b.mul(t, alpha);
                v = b.mul(v, beta);
            }
            t = b.add(t, v);
        }
        let t = b.cast(t, g.out);
        match batch {
            Some(z) => {
                let t = b.expand_dims(t, 0);
                b.store(c, &[z, row, col], t);
            }
            None => b.store(c, &[row, col], t),
        }
        b.finish()
    }

    /// The grid for a shape; `batch` is 1 without a batch.
    pub fn grid(&self, m: u32, n: u32, batch: u32) -> [u32; 3] {
        let [x, y, _] = self.gemm.grid(m, n);
        [x, y, batch]
    }

    /// What is applied to the biased sum.
    pub const fn activation(&self) -> Activation {
        self.gemm.activation
    }
}

/// A tile of one matrix of a view that may be a batch.
fn tile(b: &mut KernelBuilder, view: Value, batch: Option<Value>, at: [Value; 2], shape: [u32; 2]) -> Value {
    match batch {
        Some(z) => {
            let t = b.load(view, &[z, at[0], at[1]], &[1, shape[0], shape[1]]);
            b.reshape(t, &shape)
        }
        None => b.load(view, &at, &shape),
    }
}

/// As [`tile`], `at` and `shape` in the formula's order, from a matrix that may be stored transposed.
fn operand(b: &mut KernelBuilder, view: Value, batch: Option<Value>, transposed: bool, at: [Value; 2], shape: [u32; 2]) -> Value {
    if transposed {
        let t = tile(b, view, batch, [at[1], at[0]], [shape[1], shape[0]]);
        b.transpose(t, &[1, 0])
    } else {
        tile(b, view, batch, at, shape)
    }
}
