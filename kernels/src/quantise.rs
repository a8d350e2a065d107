//! Quantisation to 8-bit floats with a scale per token and group of 128 channels.
//!
//! ```text
//!   s[t, g] = max(max over the group of |x|, 1e-4) / largest(to)          f32
//!   q[t, c] = cast(x[t, c] / s[t, c / 128])                               nearest even, saturating
//! ```
//!
//! A program holds `tile_rows` tokens of one group.

use crate::facts::{ANY, known, matrix, programs};
use tilelift_ir::{BuildErrors, Extent, Kernel, KernelBuilder, ReduceOp, Scalar, num};

/// Channels that share a scale.
pub const GROUP: u32 = 128;

/// Magnitudes below this count as this, so that a scale is never 0.
pub const LEAST: f64 = 1e-4;

/// What the kernel writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Output {
    /// `cast(x)`, without a scale.
    Cast,
    /// The codes `q`.
    Codes,
    /// The scales `s`.
    Scales,
    /// Both.
    Both,
}

/// A cast or quantisation of a `tokens x channels` matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct Quantise {
    /// Element type of `x`.
    pub from: Scalar,
    /// Element type of `q`.
    pub to: Scalar,
    /// What is written.
    pub output: Output,
    /// Tokens per program.
    pub tile_rows: u32,
    /// Warps per program.
    pub warps: u32,
    /// What is known of the tokens.
    pub rows: Extent,
    /// What is known of the channels.
    pub cols: Extent,
}

impl Quantise {
    /// A configuration for any shape; scales need a multiple of [`GROUP`] channels.
    pub fn new(from: Scalar, to: Scalar, output: Output) -> Quantise {
        Quantise { from, to, output, tile_rows: 32, warps: 4, rows: ANY, cols: ANY }
    }

    /// States the facts of a shape.
    pub fn for_shape(mut self, rows: u32, cols: u32) -> Quantise {
        (self.rows, self.cols) = (known(rows), known(cols));
        self
    }

    /// The kernel; its parameters are the views `x[tokens, channels]`, then `s[tokens, channels / 128]` (`f32`) if scales are
    /// written, and `q[tokens, channels]` if codes are.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or integer elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new(&format!("quantise_{}_{}", self.from, self.to));
        b.warps(self.warps);
        let x = b.param(matrix(self.from, self.rows, self.cols));
        let s = matches!(self.output, Output::Scales | Output::Both).then(|| b.param(matrix(Scalar::F32, self.rows, ANY)));
        let q = (self.output != Output::Scales).then(|| b.param(matrix(self.to, self.rows, self.cols)));
        let (group, token) = (b.program_id(0), b.program_id(1));
        let row = b.mul(token, self.tile_rows);
        let col = b.mul(group, GROUP);
        let t = b.load(x, &[row, col], &[self.tile_rows, GROUP]);
        let mut t = b.cast(t, Scalar::F32);
        if self.output != Output::Cast {
            let size = b.abs(t);
            let most = b.reduce_keep(ReduceOp::Maximum, size, 1);
            let most = b.maximum(most, LEAST);
            let scale = b.div(most, num::largest(self.to));
            if let Some(s) = s {
                b.store(s, &[row, group], scale);
            }
            t = b.div(t, scale);
        }
        if let Some(q) = q {
            let t = b.cast(t, self.to);
            b.store(q, &[row, col], t);
        }
        b.finish()
    }

    /// The grid for a shape.
    pub fn grid(&self, rows: u32, cols: u32) -> [u32; 3] {
        [programs(cols, GROUP), programs(rows, self.tile_rows), 1]
    }
}
