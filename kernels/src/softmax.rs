//! Row softmax: `y[r, c] = e^(x[r, c] - m[r]) / sum_c e^(x[r, c] - m[r])` with `m[r] = max_c x[r, c]`, computed in `f32`.
//!
//! A program holds whole rows in one tile; columns beyond the row read `-inf`, whose exponential is 0.

use crate::facts::{ANY, known, matrix, programs};
use tilelift_ir::{Access, BuildErrors, Extent, Kernel, KernelBuilder, ReduceOp, Scalar};

/// Softmax along the columns of a `rows x cols` matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct Softmax {
    /// Element type of both matrices: `f32`, `f16` or `bf16`.
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

impl Softmax {
    /// A configuration for matrices of up to `cols` columns: one row per program, a tile of the next power of two.
    pub fn new(elem: Scalar, cols: u32) -> Softmax {
        let tile_cols = cols.max(1).next_power_of_two();
        Softmax { elem, tile_rows: 1, tile_cols, warps: row_warps(tile_cols), rows: ANY, cols: ANY }
    }

    /// States the facts of a shape.
    pub fn for_shape(mut self, rows: u32, cols: u32) -> Softmax {
        (self.rows, self.cols) = (known(rows), known(cols));
        self
    }

    /// The kernel; its parameters are the views `x[rows, cols]` and `y[rows, cols]`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or integer elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new(&format!("softmax_{}", self.elem));
        b.warps(self.warps);
        let [x, y] = [(); 2].map(|()| b.param(matrix(self.elem, self.rows, self.cols)));
        let pid = b.program_id(0);
        let row = b.mul(pid, self.tile_rows);
        let col = b.constant(0, Scalar::I32);
        let other = Access { other: Some(f64::NEG_INFINITY.into()), ..Access::default() };
        let t = b.load_with(x, &[row, col], &[self.tile_rows, self.tile_cols], other);
        let t = b.cast(t, Scalar::F32);
        let max = b.reduce_keep(ReduceOp::Maximum, t, 1);
        let t = b.sub(t, max);
        let e = b.exp(t);
        let sum = b.reduce_keep(ReduceOp::Add, e, 1);
        // One division a row; the sum is at least 1, so its inverse is a normal number.
        let one = b.full(&[self.tile_rows, 1], 1.0, Scalar::F32);
        let inverse = b.div(one, sum);
        let p = b.mul(e, inverse);
        let p = b.cast(p, self.elem);
        b.store(y, &[row, col], p);
        b.finish()
    }

    /// The grid for a number of rows.
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        [programs(rows, self.tile_rows), 1, 1]
    }
}

/// Warps for rows of `cols` elements that a kernel keeps in one tile: 32 elements a lane up to 4 warps, 64 beyond, at most 16 warps.
/// Few warps with long runs leave room for more programs on a multiprocessor.
pub(crate) fn row_warps(cols: u32) -> u32 {
    let short = row_warps_wide(cols);
    if short <= 4 { short } else { (cols / 2048).clamp(4, 16).next_power_of_two() }
}

/// As [`row_warps`] for kernels that keep several tiles of a row: 32 elements a lane, 1 to 16 warps.
pub(crate) fn row_warps_wide(cols: u32) -> u32 {
    (cols / 1024).clamp(1, 16)
}
