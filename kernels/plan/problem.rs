//! The product that is planned.

use super::error::PlanError;
use crate::activation::Activation;
use crate::fused_gemm::{Behind, Residual};
use crate::gemm::Gemm;
use crate::pitch::{Pitch, Pitches};
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
    /// Strides of matrices that are not dense.
    pub pitches: Pitches,
}

/// The largest extent of a matrix, beside which positions of tiles are counted in 32 bits, and of a batch, which is the grid's.
const MOST: [u32; 2] = [1 << 30, 65535];
/// The largest stride in elements: bulk copies take 2^40 bytes.
const MOST_PITCH: u64 = 1 << 36;

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
            pitches: Pitches::DENSE,
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

    /// Chooses strides of matrices that are not dense.
    pub fn pitched(mut self, pitches: Pitches) -> Problem {
        self.pitches = pitches;
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
                self.check_pitches()
            }
        }
    }

    /// The kernel's configuration with its own tile, and the facts of the shape.
    pub(super) fn gemm(&self) -> Gemm {
        let [m, n, k] = self.shape;
        let plain = Gemm::new(self.elem).weights(self.weights).output(self.out).transposed(self.trans.0, self.trans.1);
        plain.epilogue(self.bias, self.activation).for_shape(m, n, k).pitched(self.pitches.facts())
    }

    /// Rows and columns of the matrices of A, B and C, as they are stored.
    pub(super) fn stored(&self) -> [[u32; 2]; 3] {
        let [m, n, k] = self.shape;
        [if self.trans.0 { [k, m] } else { [m, k] }, if self.trans.1 { [n, k] } else { [k, n] }, [m, n]]
    }

    /// Rows lie behind one another, and matrices of a batch neither on one another nor too far apart.
    fn check_pitches(&self) -> Result<(), PlanError> {
        let ([a, b, c], p) = (self.stored(), self.pitches);
        for (name, pitch, [rows, columns]) in [("a", p.a, a), ("b", p.b, b), ("c", p.c, c), ("residual", p.residual, c)] {
            let Some(Pitch { row, batch }) = pitch else { continue };
            let (rows, columns, count) = (u64::from(rows), u64::from(columns), u64::from(self.batch));
            if row < columns.max(1) || row > MOST_PITCH {
                return Err(PlanError::Pitch { name, found: row, least: columns.max(1), most: MOST_PITCH });
            }
            // Behind one another, or side by side in one row.
            let one = rows.saturating_sub(1).saturating_mul(row).saturating_add(columns);
            let beside = batch >= columns && count.saturating_sub(1).saturating_mul(batch).saturating_add(columns) <= row;
            if count > 1 && !beside && (batch < one || batch > MOST_PITCH) {
                return Err(PlanError::Pitch { name, found: batch, least: one, most: MOST_PITCH });
            }
        }
        Ok(())
    }

    /// True if copies take the rows of A and B: they begin at multiples of so many bytes.
    pub(super) fn rows_at(&self, bytes: u64) -> bool {
        let at = |pitch: Option<Pitch>, elem: Scalar| {
            let aligned = |n: u64| (n * u64::from(elem.storage(2) as u32 * 4)).is_multiple_of(8 * bytes);
            pitch.is_none_or(|p| aligned(p.row) && (self.batch <= 1 || aligned(p.batch)))
        };
        at(self.pitches.a, self.elem) && at(self.pitches.b, self.weights)
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
