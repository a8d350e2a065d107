//! RMSNorm (Zhang and Sennrich 2019): `y[r, c] = x[r, c] * w[c] / sqrt(mean_c x[r, c]^2 + eps)`, computed in `f32`.
//!
//! A program holds whole rows in one tile; columns beyond the row read 0 and add nothing to the sum of squares.

use crate::facts::{ANY, known, matrix, programs, vector};
use crate::softmax::row_warps;
use tilelift_ir::{BuildErrors, Extent, Kernel, KernelBuilder, ReduceOp, Scalar};

/// RMSNorm along the columns of a `rows x cols` matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct RmsNorm {
    /// Element type of the matrices and the weight: `f32`, `f16` or `bf16`.
    pub elem: Scalar,
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

impl RmsNorm {
    /// A configuration for matrices of up to `cols` columns: one row per program, a tile of the next power of two.
    pub fn new(elem: Scalar, cols: u32) -> RmsNorm {
        let tile_cols = cols.max(1).next_power_of_two();
        RmsNorm { elem, tile_rows: 1, tile_cols, warps: row_warps(tile_cols), rows: ANY, cols: ANY }
    }

    /// States the facts of a shape.
    pub fn for_shape(mut self, rows: u32, cols: u32) -> RmsNorm {
        (self.rows, self.cols) = (known(rows), known(cols));
        self
    }

    /// The kernel; its parameters are the views `x[rows, cols]`, `w[cols]`, `y[rows, cols]` and the `f32` scalar `eps`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or integer elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new(&format!("rms_norm_{}", self.elem));
        b.warps(self.warps);
        let x = b.param(matrix(self.elem, self.rows, self.cols));
        let w = b.param(vector(self.elem, self.cols));
        let y = b.param(matrix(self.elem, self.rows, self.cols));
        let eps = b.param(Scalar::F32);
        let pid = b.program_id(0);
        let row = b.mul(pid, self.tile_rows);
        let col = b.constant(0, Scalar::I32);
        let t = b.load(x, &[row, col], &[self.tile_rows, self.tile_cols]);
        let t = b.cast(t, Scalar::F32);
        let weight = b.load(w, &[col], &[self.tile_cols]);
        let weight = b.cast(weight, Scalar::F32);
        let weight = b.expand_dims(weight, 0);
        let square = b.mul(t, t);
        let sum = b.reduce_keep(ReduceOp::Add, square, 1);
        let cols = b.dim(x, 1);
        let cols = b.cast(cols, Scalar::F32);
        let mean = b.div(sum, cols);
        let mean = b.add(mean, eps);
        let scale = b.rsqrt(mean);
        let t = b.mul(t, scale);
        let t = b.mul(t, weight);
        let t = b.cast(t, self.elem);
        b.store(y, &[row, col], t);
        b.finish()
    }

    /// The grid for a number of rows.
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        [programs(rows, self.tile_rows), 1, 1]
    }
}
