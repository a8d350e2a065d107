//! LayerNorm (Ba, Kiros and Hinton 2016): `y[r, c] = (h - mean h) / sqrt(var h + eps) * w[c] + b[c]` with `h = x` or `h = x + residual`,
//! along the columns, computed in `f32`.
//!
//! A program holds whole rows in one tile. The variance is the mean of squared distances from the mean, which loses nothing when the
//! mean is large; columns beyond the row are kept out of it by a mask.

use crate::facts::{ANY, known, matrix, programs, vector};
use crate::softmax::row_warps_wide;
use tilelift_ir::{BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, ReduceOp, Scalar};

/// LayerNorm along the columns of a `rows x cols` matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct LayerNorm {
    /// Element type of the matrices, weight and bias: `f32`, `f16` or `bf16`.
    pub elem: Scalar,
    /// A second matrix is added to the first.
    pub residual: bool,
    /// Rows per program.
    pub tile_rows: u32,
    /// Columns of the tile; at least the matrix's columns.
    pub tile_cols: u32,
    /// Warps per program.
    pub warps: u32,
    /// What is known of `rows`.
    pub rows: Extent,
    /// What is known of `cols`.
    pub cols: Extent,
}

impl LayerNorm {
    /// A configuration for matrices of up to `cols` columns: one row per program, a tile of the next power of two.
    pub fn new(elem: Scalar, cols: u32, residual: bool) -> LayerNorm {
        let tile_cols = cols.max(1).next_power_of_two();
        LayerNorm { elem, residual, tile_rows: 1, tile_cols, warps: row_warps_wide(tile_cols), rows: ANY, cols: ANY }
    }

    /// States the facts of a shape.
    pub fn for_shape(mut self, rows: u32, cols: u32) -> LayerNorm {
        (self.rows, self.cols) = (known(rows), known(cols));
        self
    }

    /// The kernel; its parameters are the views `x[rows, cols]`, with a residual `residual[rows, cols]`, `w[cols]`, `b[cols]`,
    /// `y[rows, cols]` and the `f32` scalar `eps`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or integer elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let tail = if self.residual { "_residual" } else { "" };
        let mut b = KernelBuilder::new(&format!("layer_norm_{}{tail}", self.elem));
        b.warps(self.warps);
        let x = b.param(matrix(self.elem, self.rows, self.cols));
        let residual = self.residual.then(|| b.param(matrix(self.elem, self.rows, self.cols)));
        let w = b.param(vector(self.elem, self.cols));
        let bias = b.param(vector(self.elem, self.cols));
        let y = b.param(matrix(self.elem, self.rows, self.cols));
        let eps = b.param(Scalar::F32);
        let shape = [self.tile_rows, self.tile_cols];
        let pid = b.program_id(0);
        let row = b.mul(pid, self.tile_rows);
        let col = b.constant(0, Scalar::I32);
        let t = b.load(x, &[row, col], &shape);
        let mut h = b.cast(t, Scalar::F32);
        if let Some(r) = residual {
            let r = b.load(r, &[row, col], &shape);
            let r = b.cast(r, Scalar::F32);
            h = b.add(h, r);
        }
        let n = b.dim(x, 1);
        let cols = b.cast(n, Scalar::F32);
        let sum = b.reduce_keep(ReduceOp::Add, h, 1);
        let mean = b.div(sum, cols);
        let d = b.sub(h, mean);
        let at = b.iota(&shape, 1);
        let inside = b.cmp(CmpOp::Lt, at, n);
        let d = b.select(inside, d, 0.0f32);
        let square = b.mul(d, d);
        let sum = b.reduce_keep(ReduceOp::Add, square, 1);
        let var = b.div(sum, cols);
        let var = b.add(var, eps);
        let scale = b.rsqrt(var);
        let mut vector_of = |v| {
            let t = b.load(v, &[col], &[self.tile_cols]);
            let t = b.cast(t, Scalar::F32);
            b.expand_dims(t, 0)
        };
        let (weight, bias) = (vector_of(w), vector_of(bias));
        let t = b.mul(d, scale);
        let t = b.mul(t, weight);
        let t = b.add(t, bias);
        let t = b.cast(t, self.elem);
        b.store(y, &[row, col], t);
        b.finish()
    }

    /// The grid for a number of rows.
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        [programs(rows, self.tile_rows), 1, 1]
    }
}
