//! Kernels that follow indices: rows by number, sums into rows by number, counts.
//!
//! ```text
//! GatherRows   y[i, :] = x[index[i], :]             an index outside gives zeros
//! ScatterAdd   y[index[i], :] += x[i, :]            atomically; an index outside is skipped
//! Bincount     y[v] = how many i have x[i] = v      each program counts its part of the numbers
//! ```

use crate::facts::{ANY, known, matrix, programs, vector};
use tilelift_ir::{Access, AtomicOp, BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, Scalar, Update};

/// Rows of a matrix by number.
#[derive(Clone, PartialEq, Debug)]
pub struct GatherRows {
    /// Element type.
    pub elem: Scalar,
    /// Indices per program.
    pub tile_rows: u32,
    /// Columns per program.
    pub tile_cols: u32,
    /// What is known of the columns.
    pub cols: Extent,
}

impl GatherRows {
    /// A configuration that works for any shape.
    pub fn new(elem: Scalar) -> GatherRows {
        GatherRows { elem, tile_rows: 16, tile_cols: 64, cols: ANY }
    }

    /// States the facts of a number of columns.
    pub fn for_shape(mut self, cols: u32) -> GatherRows {
        self.cols = known(cols);
        self
    }

    /// The kernel; its parameters are the views `x[rows, cols]`, `index[n]` (`i32`) and `y[n, cols]`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new(&format!("gather_rows_{}", self.elem));
        let x = b.param(matrix(self.elem, ANY, self.cols));
        let index = b.param(vector(Scalar::I32, ANY));
        let y = b.param(matrix(self.elem, ANY, self.cols));
        let (pc, pr) = (b.program_id(0), b.program_id(1));
        let (col, row) = (b.mul(pc, self.tile_cols), b.mul(pr, self.tile_rows));
        let which = b.load(index, &[row], &[self.tile_rows]);
        let which = b.expand_dims(which, 1);
        let across = b.iota(&[1, self.tile_cols], 1);
        let across = b.add(across, col);
        let t = b.gather(x, &[which, across], Access::default());
        b.store(y, &[row, col], t);
        b.finish()
    }

    /// The grid for a number of indices and columns.
    pub fn grid(&self, n: u32, cols: u32) -> [u32; 3] {
        [programs(cols, self.tile_cols), programs(n, self.tile_rows), 1]
    }
}

/// Sums of rows into rows by number.
#[derive(Clone, PartialEq, Debug)]
pub struct ScatterAdd {
    /// Element type: `f32`, `f64`, `f16`, `bf16`, `i32` or `i64`.
    pub elem: Scalar,
    /// Indices per program.
    pub tile_rows: u32,
    /// Columns per program.
    pub tile_cols: u32,
    /// What is known of the columns.
    pub cols: Extent,
}

impl ScatterAdd {
    /// A configuration that works for any shape.
    pub fn new(elem: Scalar) -> ScatterAdd {
        ScatterAdd { elem, tile_rows: 16, tile_cols: 64, cols: ANY }
    }

    /// States the facts of a number of columns.
    pub fn for_shape(mut self, cols: u32) -> ScatterAdd {
        self.cols = known(cols);
        self
    }

    /// The kernel; its parameters are the views `x[n, cols]`, `index[n]` (`i32`) and `y[rows, cols]`, which the caller has filled.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or elements without atomic sums.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new(&format!("scatter_add_{}", self.elem));
        let x = b.param(matrix(self.elem, ANY, self.cols));
        let index = b.param(vector(Scalar::I32, ANY));
        let y = b.param(matrix(self.elem, ANY, self.cols));
        let (pc, pr) = (b.program_id(0), b.program_id(1));
        let (col, row) = (b.mul(pc, self.tile_cols), b.mul(pr, self.tile_rows));
        // Rows behind the last have no index: -1 is outside.
        let nowhere = Access { other: Some((-1).into()), ..Access::default() };
        let which = b.load_with(index, &[row], &[self.tile_rows], nowhere);
        let which = b.expand_dims(which, 1);
        let across = b.iota(&[1, self.tile_cols], 1);
        let across = b.add(across, col);
        let t = b.load(x, &[row, col], &[self.tile_rows, self.tile_cols]);
        b.atomic(AtomicOp::Add, y, &[which, across], t, Update::default());
        b.finish()
    }

    /// The grid for a number of indices and columns.
    pub fn grid(&self, n: u32, cols: u32) -> [u32; 3] {
        [programs(cols, self.tile_cols), programs(n, self.tile_rows), 1]
    }
}

/// How often each number appears in a vector of `i32`.
#[derive(Clone, PartialEq, Debug)]
pub struct Bincount {
    /// Numbers that a program counts.
    pub bins: u32,
    /// Elements of the vector that it looks at at once.
    pub block: u32,
}

impl Default for Bincount {
    fn default() -> Bincount {
        Bincount { bins: 256, block: 1024 }
    }
}

impl Bincount {
    /// The kernel; its parameters are the views `x[n]` and `y[bins]`, both `i32`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new("bincount");
        let x = b.param(vector(Scalar::I32, ANY));
        let y = b.param(vector(Scalar::I32, ANY));
        let pid = b.program_id(0);
        let first = b.mul(pid, self.bins);
        let n = b.dim(x, 0);
        let zeros = b.full(&[self.bins], 0, Scalar::I32);
        let counts = b.for_loop(0, n, self.block, &[zeros], |b, at, sums| {
            let t = b.load(x, &[at], &[self.block]);
            let here = b.iota(&[self.block], 0);
            let here = b.add(here, at);
            let inside = b.cmp(CmpOp::Lt, here, n);
            let t = b.sub(t, first);
            let counts = b.histogram(t, Some(inside), self.bins);
            vec![b.add(sums[0], counts)]
        });
        b.store(y, &[first], counts[0]);
        b.finish()
    }

    /// The grid for a number of bins.
    pub fn grid(&self, bins: u32) -> [u32; 3] {
        [programs(bins, self.bins), 1, 1]
    }
}
