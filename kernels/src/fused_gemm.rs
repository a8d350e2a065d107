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
use crate::launch::{Argument, Launches};
use crate::pitch::{PitchFacts, pitched};
use tilelift_ir::{BuildError, BuildErrors, Extent, Kernel, KernelBuilder, Scalar, Value, ViewType};

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

/// What is behind biased and activated sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Behind {
    /// They are multiplied by a second product `A · U`; U is stored like B.
    pub gate: bool,
    /// What is added.
    pub residual: Option<Residual>,
}

impl Behind {
    /// Nothing is.
    pub fn is_nothing(&self) -> bool {
        *self == Behind::default()
    }

    /// The scalar parameters behind the views.
    pub(crate) fn scales(&self, b: &mut KernelBuilder) -> Option<[Value; 2]> {
        match self.residual {
            Some(Residual::Scaled(_)) => Some([(); 2].map(|()| b.param(Scalar::F32))),
            Some(Residual::Plain(_)) | None => None,
        }
    }

    /// What is passed for the residual, C and the scalars.
    pub(crate) fn arguments(&self) -> Vec<Argument> {
        let scales: &[Argument] = match self.residual {
            Some(Residual::Scaled(_)) => &[Argument::Alpha, Argument::Beta],
            Some(Residual::Plain(_)) | None => &[],
        };
        self.residual.map(|_| Argument::Residual).into_iter().chain([Argument::C]).chain(scales.iter().copied()).collect()
    }

    pub(crate) fn check(&self, gemm: &Gemm) -> Result<(), BuildErrors> {
        let float = |t: Scalar| matches!(t, Scalar::F16 | Scalar::BF16 | Scalar::F32);
        let error = |message: &str| Err(BuildErrors(vec![BuildError::new("FusedGemm::build", message)]));
        if !self.is_nothing() && !gemm.sum().is_float() {
            return error("products of integers have neither gate nor residual");
        }
        if self.residual.is_some_and(|r| !float(r.elem())) {
            return error("a residual is f16, bf16 or f32");
        }
        Ok(())
    }
}

/// The views and scalars behind sums, in a kernel.
pub(crate) struct Parts {
    pub bias: Option<Value>,
    pub residual: Option<Value>,
    pub scales: Option<[Value; 2]>,
    /// Which element of a batch.
    pub batch: Option<Value>,
}

impl Parts {
    /// Results of so many rows from `at` on, in C's type, of the sums of the product and of the gate's.
    pub(crate) fn finished(&self, b: &mut KernelBuilder, g: &Gemm, sums: &[Value], at: [Value; 2], rows: u32) -> Value {
        let mut t = g.activated(b, sums[0], self.bias, at[1]);
        if let Some(&gate) = sums.get(1) {
            t = b.mul(t, gate);
        }
        if let Some(r) = self.residual {
            let v = tile(b, r, self.batch, at, [rows, g.bn]);
            let mut v = b.cast(v, Scalar::F32);
            if let Some([alpha, beta]) = self.scales {
                t = b.mul(t, alpha);
                v = b.mul(v, beta);
            }
            t = b.add(t, v);
        }
        b.cast(t, g.out)
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

    fn view(&self, elem: Scalar, [rows, cols]: [Extent; 2], pitch: Option<PitchFacts>) -> ViewType {
        let dims: Vec<Extent> = self.batch.into_iter().chain([rows, cols]).collect();
        pitched(ViewType::dense(elem, &dims), pitch)
    }

    /// The kernel; its parameters are the views of A, B, U (if gated), the bias (`[N]`, if there is one), R (if there is one) and C,
    /// then `alpha` and `beta` (if scaled). With a batch every view but the bias has the batch as first dimension.
    ///
    /// # Errors
    /// As [`Gemm::build`]; integers with a gate or a residual.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        self.gemm.check()?;
        let (g, behind) = (&self.gemm, self.behind());
        behind.check(g)?;
        let mut b = KernelBuilder::new(&format!("fused_gemm_{}_{}_{}", g.order(), g.elem, g.out));
        b.warps(g.warps).stages(g.stages);
        let (left, right) = (if g.trans_a { [g.k, g.m] } else { [g.m, g.k] }, if g.trans_b { [g.n, g.k] } else { [g.k, g.n] });
        let a = b.param(self.view(g.elem, left, g.pitches.a));
        let right = self.view(g.elem_b, right, g.pitches.b);
        let factors: Vec<Value> = (0..1 + usize::from(self.gate)).map(|_| b.param(right.clone())).collect();
        let bias = g.bias.map(|t| b.param(ViewType::dense(t, &[g.n])));
        let residual = self.residual.map(|r| b.param(self.view(r.elem(), [g.m, g.n], g.pitches.residual)));
        let c = b.param(self.view(g.out, [g.m, g.n], g.pitches.c));
        let scales = behind.scales(&mut b);
        let batch = self.batch.map(|_| b.program_id(2));

        let (row, col) = g.origin(&mut b, c);
        let depth = b.dim(a, u32::from(!g.trans_a) + u32::from(batch.is_some()));
        let zero = b.full(&if g.swapped { [g.bn, g.bm] } else { [g.bm, g.bn] }, 0, g.sum());
        let sums = b.for_loop(0, depth, g.bk, &vec![zero; factors.len()], |b, k, acc| {
            let dot = |b: &mut KernelBuilder, x, y, s| if g.elem == Scalar::F32 { b.dot_tf32(x, y, s) } else { b.dot(x, y, s) };
            if g.swapped {
                let ys: Vec<Value> = factors.iter().map(|&w| operand(b, w, batch, !g.trans_b, [col, k], [g.bn, g.bk])).collect();
                let x = operand(b, a, batch, !g.trans_a, [k, row], [g.bk, g.bm]);
                return ys.into_iter().zip(acc).map(|(y, &s)| dot(b, y, x, s)).collect();
            }
            let x = operand(b, a, batch, g.trans_a, [row, k], [g.bm, g.bk]);
            let ys: Vec<Value> = factors.iter().map(|&w| operand(b, w, batch, g.trans_b, [k, col], [g.bk, g.bn])).collect();
            ys.into_iter().zip(acc).map(|(y, &s)| dot(b, x, y, s)).collect()
        });
        let sums: Vec<Value> = if g.swapped { sums.iter().map(|&s| b.transpose(s, &[1, 0])).collect() } else { sums.to_vec() };
        let t = Parts { bias, residual, scales, batch }.finished(&mut b, g, &sums, [row, col], g.bm);
        match batch {
            Some(z) => {
                let t = b.expand_dims(t, 0);
                b.store(c, &[z, row, col], t);
            }
            None => b.store(c, &[row, col], t),
        }
        b.finish()
    }

    /// What is behind the sums.
    pub const fn behind(&self) -> Behind {
        Behind { gate: self.gate, residual: self.residual }
    }

    /// The launch for a shape; `batch` is 1 without a batch.
    ///
    /// # Errors
    /// As [`FusedGemm::build`].
    pub fn launches(&self, m: u32, n: u32, batch: u32) -> Result<Launches, BuildErrors> {
        let (gate, bias) = (self.gate.then_some(Argument::Gate), self.gemm.bias.map(|_| Argument::Bias));
        let arguments = [Argument::A, Argument::B].into_iter().chain(gate).chain(bias).chain(self.behind().arguments()).collect();
        Ok(Launches::one(self.build()?, self.grid(m, n, batch), arguments))
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
