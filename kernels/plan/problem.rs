//! The product that is planned.

use super::error::PlanError;
use crate::activation::Activation;
use crate::fused_gemm::{Behind, Residual};
use crate::gemm::Gemm;
use tilelift_ir::Scalar;
use tilelift_schedule::gemm::Product;

/// A product of matrices with its epilogue, `C = act(A · B + bias) [* (A · U)] [+ R]`; with a scaled
/// residual `C = alpha * (…) + beta * R`.
///
/// ```
/// use tilelift_ir::Scalar;
/// use tilelift_kernels::Activation;
/// use tilelift_kernels::plan::Problem;
/// let p = Problem::new(Scalar::BF16, [512, 4096, 1024]).transposed(false, true).epilogue(Some(Scalar::F32), Activation::Silu);
/// assert_eq!(p.out, Scalar::BF16);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    /// Products, each with matrices of its own; 1 for matrices without a batch.
    pub batch: u32,
    /// Rows of C, columns of C, depth.
    pub shape: [u32; 3],
    /// Element type of A.
    pub elem: Scalar,
    /// Element type of B (and U).
    pub weights: Scalar,
    /// Element type of C.
    pub out: Scalar,
    /// Whether A is stored `KxM`, and B (and U) `NxK`.
    pub trans: (bool, bool),
    /// Element type of a bias per column, if there is one.
    pub bias: Option<Scalar>,
    /// Applied to the biased sum.
    pub activation: Activation,
    /// A gate and a residual, if there are any.
    pub behind: Behind,
    /// `alpha` and `beta` of a scaled residual.
    pub scales: [f32; 2],
}

/// The largest extent of a matrix, beside which positions of tiles are counted in 32 bits, and of a batch, which is the grid's.
const MOST: [u32; 2] = [1 << 30, 65535];

impl Problem {
    /// A plain product of M, N and K, with the types that [`Gemm::new`] has.
    pub fn new(elem: Scalar, shape: [u32; 3]) -> Problem {
        Problem {
            batch: 1,
            shape,
            elem,
            weights: elem,
            out: Gemm::new(elem).out,
            trans: (false, false),
            bias: None,
            activation: Activation::None,
            behind: Behind::default(),
            scales: [1.0; 2],
        }
    }

    /// Chooses how the operands are stored: A as `KxM` if `trans_a`, B as `NxK` if `trans_b`.
    pub fn transposed(mut self, trans_a: bool, trans_b: bool) -> Problem {
        self.trans = (trans_a, trans_b);
        self
    }

    /// Chooses the element type of B.
    pub fn weights(mut self, elem: Scalar) -> Problem {
        self.weights = elem;
        self
    }

    /// Chooses the element type of C.
    pub fn output(mut self, out: Scalar) -> Problem {
        self.out = out;
        self
    }

    /// Makes it so many products.
    pub fn batched(mut self, batch: u32) -> Problem {
        self.batch = batch;
        self
    }

    /// Adds a bias per column and an activation.
    pub fn epilogue(mut self, bias: Option<Scalar>, activation: Activation) -> Problem {
        (self.bias, self.activation) = (bias, activation);
        self
    }

    /// Multiplies by a second product of A.
    pub fn gated(mut self) -> Problem {
        self.behind.gate = true;
        self
    }

    /// Adds a matrix.
    pub fn plus(mut self, residual: Residual) -> Problem {
        self.behind.residual = Some(residual);
        self
    }

    /// Chooses `alpha` and `beta` of a scaled residual.
    pub fn scaled(mut self, alpha: f32, beta: f32) -> Problem {
        self.scales = [alpha, beta];
        self
    }

    /// The same with another number of rows.
    pub fn rows(mut self, m: u32) -> Problem {
        self.shape[0] = m;
        self
    }

    /// C has no elements: nothing is launched.
    pub fn is_empty(&self) -> bool {
        self.batch == 0 || self.shape[..2].contains(&0)
    }

    pub(super) fn check(&self) -> Result<(), PlanError> {
        let [m, n, k] = self.shape;
        let extents = [("m", m, MOST[0]), ("n", n, MOST[0]), ("k", k, MOST[0]), ("batch", self.batch, MOST[1])];
        match extents.into_iter().find(|&(_, found, most)| found > most) {
            Some((name, found, most)) => Err(PlanError::Extent { name, found, most }),
            None => {
                let gemm = self.gemm();
                gemm.check()?;
                self.behind.check(&gemm)?;
                Ok(())
            }
        }
    }

    /// The kernel's configuration with its own tile, and the facts of the shape.
    pub(super) fn gemm(&self) -> Gemm {
        let [m, n, k] = self.shape;
        let plain = Gemm::new(self.elem).weights(self.weights).output(self.out).transposed(self.trans.0, self.trans.1);
        plain.epilogue(self.bias, self.activation).for_shape(m, n, k)
    }

    /// What the model calls it.
    pub(super) fn product(&self) -> Product {
        Product { batch: self.batch, shape: self.shape, elem: self.elem, out: self.out, trans: self.trans }
    }
}

impl From<&Product> for Problem {
    fn from(p: &Product) -> Problem {
        Problem::new(p.elem, p.shape).output(p.out).transposed(p.trans.0, p.trans.1).batched(p.batch)
    }
}
