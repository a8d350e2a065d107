//! GEMV: `y[n] = sum_k x[k] W[n, k]`, and the same with W in 4 bits.
//!
//! ```text
//!   a program: `rows` rows of W, `depth` columns a step
//!   plain       acc[r, k] += W[n + r, k0 + k] * x[k0 + k]
//!   unsigned    W[n, k] = (q[n, k] - z[n, k / 128]) * s[n, k / 128]        q: two to a byte, even k in the low bits
//!   i4          W[n, k] = q[n, k] * s[n, k / 128]
//! ```
//!
//! Products gather in an accumulator tile; the axis is summed once behind the loop.

use crate::facts::{ANY, known, matrix, programs, vector};
use tilelift_ir::{BuildErrors, Extent, Kernel, KernelBuilder, ReduceOp, Scalar};

/// Columns that share a scale and a zero point.
pub const GROUP: u32 = 128;

/// How the matrix of a [`Gemv`] is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Weights {
    /// In the type of the vectors.
    Plain,
    /// Unsigned 4-bit numbers, two to an `i8`, with a scale and a zero point per [`GROUP`] columns.
    Unsigned4,
    /// `i4` with a scale per [`GROUP`] columns.
    Signed4,
}

/// A matrix times a vector.
#[derive(Clone, PartialEq, Debug)]
pub struct Gemv {
    /// Element type of `x`, `y`, and of W or its scales.
    pub elem: Scalar,
    /// How W is stored.
    pub weights: Weights,
    /// Rows of W per program.
    pub rows: u32,
    /// Columns per step; [`GROUP`] unless W is plain.
    pub depth: u32,
    /// Warps per program.
    pub warps: u32,
    /// What is known of the rows of W.
    pub n: Extent,
    /// What is known of the columns of W.
    pub k: Extent,
}

impl Gemv {
    /// A configuration for any shape; a quantised W needs a multiple of [`GROUP`] columns.
    pub fn new(elem: Scalar, weights: Weights) -> Gemv {
        let (rows, depth) = match weights {
            Weights::Plain => (8, 512),
            Weights::Unsigned4 => (16, GROUP),
            // 16 bytes of weights per lane and step.
            Weights::Signed4 => (32, GROUP),
        };
        Gemv { elem, weights, rows, depth, warps: 4, n: ANY, k: ANY }
    }

    /// States the facts of a shape.
    pub fn for_shape(mut self, n: u32, k: u32) -> Gemv {
        (self.n, self.k) = (known(n), known(k));
        self
    }

    /// The kernel. Its parameters are the views `x[K]`, then `W[N, K]`, or `q[N, K / 2]` (`i8`), `s[N, K / 128]` and
    /// `z[N, K / 128]` (`i8`), or `q[N, K]` (`i4`) and `s[N, K / 128]`, then `y[N]`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or integer elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        match self.weights {
            Weights::Plain => self.build_plain(),
            Weights::Unsigned4 => self.build_unsigned(),
            Weights::Signed4 => self.build_signed(),
        }
    }

    fn build_plain(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new(&format!("gemv_{}", self.elem));
        b.warps(self.warps);
        let x = b.param(vector(self.elem, self.k));
        let w = b.param(matrix(self.elem, self.n, self.k));
        let y = b.param(vector(self.elem, self.n));
        let pid = b.program_id(0);
        let row = b.mul(pid, self.rows);
        let k = b.dim(x, 0);
        let zero = b.full(&[self.rows, self.depth], 0, Scalar::F32);
        let sums = b.for_loop(0, k, self.depth, &[zero], |b, at, acc| {
            let v = b.load(x, &[at], &[self.depth]);
            let v = b.cast(v, Scalar::F32);
            let v = b.expand_dims(v, 0);
            let v = b.broadcast(v, &[self.rows, self.depth]);
            let t = b.load(w, &[row, at], &[self.rows, self.depth]);
            let t = b.cast(t, Scalar::F32);
            vec![b.fma(t, v, acc[0])]
        });
        let sum = b.reduce(ReduceOp::Add, sums[0], 1);
        let sum = b.cast(sum, self.elem);
        b.store(y, &[row], sum);
        b.finish()
    }

    fn build_unsigned(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new(&format!("gemv_{}_u4", self.elem));
        b.warps(self.warps);
        let half = |e: Extent, by: u32| match e {
            Extent::Dynamic(d) => Extent::Dynamic((d / by).max(1)),
            Extent::Fixed(n) => Extent::Fixed(n / by),
        };
        let x = b.param(vector(self.elem, self.k));
        let q = b.param(matrix(Scalar::I8, self.n, half(self.k, 2)));
        let s = b.param(matrix(self.elem, self.n, ANY));
        let z = b.param(matrix(Scalar::I8, self.n, ANY));
        let y = b.param(vector(self.elem, self.n));
        let pid = b.program_id(0);
        let row = b.mul(pid, self.rows);
        let groups = b.dim(s, 1);
        let (rows, bytes) = (self.rows, GROUP / 2);
        let zero = b.full(&[rows, GROUP], 0, Scalar::F32);
        let sums = b.for_loop(0, groups, 1, &[zero], |b, group, acc| {
            let first = b.mul(group, GROUP);
            let v = b.load(x, &[first], &[GROUP]);
            let v = b.cast(v, Scalar::F32);
            let v = b.expand_dims(v, 0);
            let v = b.broadcast(v, &[rows, GROUP]);
            // A byte twice, shifted by 0 and by 4.
            let first = b.mul(group, bytes);
            let t = b.load(q, &[row, first], &[rows, bytes]);
            let t = b.cast(t, Scalar::I32);
            let t = b.reshape(t, &[rows, bytes, 1]);
            let t = b.broadcast(t, &[rows, bytes, 2]);
            let shift = b.iota(&[rows, bytes, 2], 2);
            let shift = b.mul(shift, 4);
            let t = b.shr_u(t, shift);
            let t = b.and(t, 15);
            let t = b.reshape(t, &[rows, GROUP]);
            let zero = b.load(z, &[row, group], &[rows, 1]);
            let zero = b.cast(zero, Scalar::I32);
            let t = b.sub(t, zero);
            let t = b.cast(t, Scalar::F32);
            let scale = b.load(s, &[row, group], &[rows, 1]);
            let scale = b.cast(scale, Scalar::F32);
            let t = b.mul(t, scale);
            vec![b.fma(t, v, acc[0])]
        });
        let sum = b.reduce(ReduceOp::Add, sums[0], 1);
        let sum = b.cast(sum, self.elem);
        b.store(y, &[row], sum);
        b.finish()
    }

    fn build_signed(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new(&format!("gemv_{}_i4", self.elem));
        b.warps(self.warps);
        // Whole groups, so that a lane reads 16 bytes of weights at once.
        let columns = match self.k {
            Extent::Dynamic(_) => Extent::Dynamic(GROUP),
            Extent::Fixed(n) => Extent::Fixed(n),
        };
        let x = b.param(vector(self.elem, columns));
        let q = b.param(matrix(Scalar::I4, self.n, columns));
        let s = b.param(matrix(self.elem, self.n, ANY));
        let y = b.param(vector(self.elem, self.n));
        let pid = b.program_id(0);
        let row = b.mul(pid, self.rows);
        let groups = b.dim(s, 1);
        let rows = self.rows;
        let zero = b.full(&[rows, GROUP], 0, Scalar::F32);
        let sums = b.for_loop(0, groups, 1, &[zero], |b, group, acc| {
            let first = b.mul(group, GROUP);
            let v = b.load(x, &[first], &[GROUP]);
            let v = b.cast(v, Scalar::F32);
            let v = b.expand_dims(v, 0);
            let v = b.broadcast(v, &[rows, GROUP]);
            let t = b.load(q, &[row, first], &[rows, GROUP]);
            let t = b.cast(t, Scalar::F32);
            let scale = b.load(s, &[row, group], &[rows, 1]);
            let scale = b.cast(scale, Scalar::F32);
            let t = b.mul(t, scale);
            vec![b.fma(t, v, acc[0])]
        });
        let sum = b.reduce(ReduceOp::Add, sums[0], 1);
        let sum = b.cast(sum, self.elem);
        b.store(y, &[row], sum);
        b.finish()
    }

    /// The grid for a number of rows of W.
    pub fn grid(&self, n: u32) -> [u32; 3] {
        [programs(n, self.rows), 1, 1]
    }
}
