//! Rows of any length folded to a number, or summed up along the way: a program walks its rows in column tiles.
//!
//! ```text
//! RowFold   y[r] = sum | max | min | argmax | argmin of x[r, :]
//! CumSum    y[r, c] = x[r, 0] + … + x[r, c]
//! ```
//!
//! Sums of 16-bit floats are computed in `f32`. Positions are those of the op table: the lowest of equal ones, the first NaN.

use crate::facts::{ANY, known, known_columns, matrix, programs, vector};
use tilelift_ir::{Access, BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, ReduceOp, Scalar, Value};

/// What a row is folded to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Fold {
    /// The sum.
    Sum,
    /// The largest element; NaN if there is one.
    Max,
    /// The smallest element; NaN if there is one.
    Min,
    /// The position of the largest element.
    ArgMax,
    /// The position of the smallest element.
    ArgMin,
}

impl Fold {
    /// Every fold.
    pub const ALL: &'static [Fold] = &[Fold::Sum, Fold::Max, Fold::Min, Fold::ArgMax, Fold::ArgMin];
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Fold::Sum => "sum",
            Fold::Max => "max",
            Fold::Min => "min",
            Fold::ArgMax => "argmax",
            Fold::ArgMin => "argmin",
        }
    }
    /// True if the result is a position.
    pub const fn is_position(self) -> bool {
        matches!(self, Fold::ArgMax | Fold::ArgMin)
    }
    /// True if large elements win.
    pub const fn is_max(self) -> bool {
        matches!(self, Fold::Max | Fold::ArgMax)
    }
}

/// A fold of every row of a `rows x cols` matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct RowFold {
    /// Element type: any float of 16 bits or more, or an integer.
    pub elem: Scalar,
    /// What a row is folded to.
    pub fold: Fold,
    /// Rows per program.
    pub tile_rows: u32,
    /// Columns per step.
    pub tile_cols: u32,
    /// Warps per program.
    pub warps: u32,
    /// What is known of `rows`.
    pub rows: Extent,
    /// What is known of `cols`.
    pub cols: Extent,
}

/// What a loop over column tiles starts from: columns beyond a row read it, and change nothing.
fn neutral(b: &mut KernelBuilder, elem: Scalar, fold: Fold) -> Value {
    let low = i64::MIN >> (64 - elem.bits());
    match (fold, elem.is_float()) {
        (Fold::Sum, _) => b.constant(0, elem),
        (Fold::Max | Fold::ArgMax, true) => b.constant(f64::NEG_INFINITY, elem),
        (Fold::Min | Fold::ArgMin, true) => b.constant(f64::INFINITY, elem),
        (Fold::Max | Fold::ArgMax, false) => b.constant(low, elem),
        (Fold::Min | Fold::ArgMin, false) => b.constant(!low, elem),
    }
}

/// The type that sums of an element are computed in.
fn wide(elem: Scalar) -> Scalar {
    if elem.is_float() && elem.bits() < 32 { Scalar::F32 } else { elem }
}

impl RowFold {
    /// A configuration for any shape.
    pub fn new(elem: Scalar, fold: Fold) -> RowFold {
        RowFold { elem, fold, tile_rows: 1, tile_cols: 2048, warps: 4, rows: ANY, cols: ANY }
    }

    /// States the facts of a shape: what divides its extents, and of columns that one step covers how many there are.
    pub fn for_shape(mut self, rows: u32, cols: u32) -> RowFold {
        (self.rows, self.cols) = (known(rows), known_columns(cols, self.tile_cols));
        self
    }

    /// Element type of the output.
    pub fn out(&self) -> Scalar {
        if self.fold.is_position() { Scalar::I32 } else { self.elem }
    }

    /// The kernel; its parameters are the views `x[rows, cols]` and `y[rows]`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or elements without arithmetic.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new(&format!("row_{}_{}", self.fold.name(), self.elem));
        b.warps(self.warps);
        let x = b.param(matrix(self.elem, self.rows, self.cols));
        let y = b.param(vector(self.out(), self.rows));
        let pid = b.program_id(0);
        let row = b.mul(pid, self.tile_rows);
        let cols = b.dim(x, 1);
        let other = neutral(&mut b, self.elem, self.fold);
        let tile = [self.tile_rows, self.tile_cols];
        let load = |b: &mut KernelBuilder, at| b.load_with(x, &[row, at], &tile, Access { other: Some(other.into()), ..Access::default() });
        let result = match self.fold {
            Fold::Sum => {
                let acc = wide(self.elem);
                let zero = b.full(&tile, 0, acc);
                let sums = b.for_loop(0, cols, self.tile_cols, &[zero], |b, at, sums| {
                    let t = load(b, at);
                    let t = b.cast(t, acc);
                    vec![b.add(sums[0], t)]
                });
                let sum = b.reduce(ReduceOp::Add, sums[0], 1);
                b.cast(sum, self.elem)
            }
            Fold::Max | Fold::Min => {
                let start = b.splat(other, &tile);
                let best = b.for_loop(0, cols, self.tile_cols, &[start], |b, at, best| {
                    let t = load(b, at);
                    vec![if self.fold.is_max() { b.maximum(best[0], t) } else { b.minimum(best[0], t) }]
                });
                let op = if self.fold.is_max() { ReduceOp::Maximum } else { ReduceOp::Minimum };
                b.reduce(op, best[0], 1)
            }
            Fold::ArgMax | Fold::ArgMin => {
                let start = b.splat(other, &[self.tile_rows]);
                let nowhere = b.full(&[self.tile_rows], 0, Scalar::I32);
                let found = b.for_loop(0, cols, self.tile_cols, &[start, nowhere], |b, at, best| {
                    let t = load(b, at);
                    self.step(b, t, at, best)
                });
                found[1]
            }
        };
        b.store(y, &[row], result);
        b.finish()
    }

    /// The best of a tile against the best so far, which comes first and so wins ties; the first NaN wins.
    fn step(&self, b: &mut KernelBuilder, t: Value, at: Value, best: &[Value]) -> Vec<Value> {
        let (op, better) = if self.fold.is_max() { (ReduceOp::Maximum, CmpOp::Gt) } else { (ReduceOp::Minimum, CmpOp::Lt) };
        let here = if self.fold.is_max() { b.argmax(t, 1) } else { b.argmin(t, 1) };
        let value = b.reduce(op, t, 1);
        let position = b.add(here, at);
        let mut wins = b.cmp(better, value, best[0]);
        if self.elem.is_float() {
            let (new, old) = (b.cmp(CmpOp::Ne, value, value), b.cmp(CmpOp::Eq, best[0], best[0]));
            let first_nan = b.and(new, old);
            wins = b.or(wins, first_nan);
        }
        vec![b.select(wins, value, best[0]), b.select(wins, position, best[1])]
    }

    /// The grid for a number of rows.
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        [programs(rows, self.tile_rows), 1, 1]
    }
}

/// Running sums of every row of a `rows x cols` matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct CumSum {
    /// Element type: any float of 16 bits or more, or an integer.
    pub elem: Scalar,
    /// Rows per program.
    pub tile_rows: u32,
    /// Columns per step.
    pub tile_cols: u32,
    /// Warps per program.
    pub warps: u32,
    /// What is known of `rows`.
    pub rows: Extent,
    /// What is known of `cols`.
    pub cols: Extent,
}

impl CumSum {
    /// A configuration for any shape.
    pub fn new(elem: Scalar) -> CumSum {
        CumSum { elem, tile_rows: 1, tile_cols: 2048, warps: 4, rows: ANY, cols: ANY }
    }

    /// States the facts of a shape: what divides its extents, and of columns that one step covers how many there are.
    pub fn for_shape(mut self, rows: u32, cols: u32) -> CumSum {
        (self.rows, self.cols) = (known(rows), known_columns(cols, self.tile_cols));
        self
    }

    /// The kernel; its parameters are the views `x[rows, cols]` and `y[rows, cols]`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or elements without arithmetic.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new(&format!("cumsum_{}", self.elem));
        b.warps(self.warps);
        let [x, y] = [(); 2].map(|()| b.param(matrix(self.elem, self.rows, self.cols)));
        let pid = b.program_id(0);
        let row = b.mul(pid, self.tile_rows);
        let cols = b.dim(x, 1);
        let (acc, tile) = (wide(self.elem), [self.tile_rows, self.tile_cols]);
        let zero = b.full(&[self.tile_rows, 1], 0, acc);
        b.for_loop(0, cols, self.tile_cols, &[zero], |b, at, before| {
            let t = b.load(x, &[row, at], &tile);
            let t = b.cast(t, acc);
            let sums = b.scan(ReduceOp::Add, t, 1);
            let sums = b.add(sums, before[0]);
            let out = b.cast(sums, self.elem);
            b.store(y, &[row, at], out);
            let total = b.reduce_keep(ReduceOp::Add, t, 1);
            vec![b.add(before[0], total)]
        });
        b.finish()
    }

    /// The grid for a number of rows.
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        [programs(rows, self.tile_rows), 1, 1]
    }
}
