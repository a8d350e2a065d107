//! Sorts of rows: in whole, or the first few, by value or by position.
//!
//! Columns of the tile beyond the row hold what comes last in either direction, NaN, or for integers the extreme value; positions
//! beyond the row come behind equal ones inside it.

use crate::facts::{ANY, known, matrix, programs};
use tilelift_ir::{Access, BuildErrors, Extent, Kernel, KernelBuilder, Scalar, SortOrder};

/// The first `k` elements of every row of a `rows x cols` matrix in order.
#[derive(Clone, PartialEq, Debug)]
pub struct Select {
    /// Element type.
    pub elem: Scalar,
    /// The direction.
    pub order: SortOrder,
    /// Positions (`i32`) instead of elements.
    pub positions: bool,
    /// Elements kept of a row; all of them if it is the number of columns.
    pub k: u32,
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

impl Select {
    /// A configuration for matrices of up to `cols` columns.
    pub fn new(elem: Scalar, order: SortOrder, positions: bool, cols: u32, k: u32) -> Select {
        let tile_cols = cols.max(1).next_power_of_two();
        let warps = (tile_cols / 256).clamp(1, 16);
        Select { elem, order, positions, k, tile_rows: (256 / tile_cols).max(1), tile_cols, warps, rows: ANY, cols: ANY }
    }

    /// States the facts of a shape.
    pub fn for_shape(mut self, rows: u32, cols: u32) -> Select {
        (self.rows, self.cols) = (known(rows), known(cols));
        self
    }

    /// Element type of the output.
    pub fn out(&self) -> Scalar {
        if self.positions { Scalar::I32 } else { self.elem }
    }

    /// The kernel; its parameters are the views `x[rows, cols]` and `y[rows, k]`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let what = if self.positions { "positions" } else { "values" };
        let mut b = KernelBuilder::new(&format!("select_{}_{what}_{}", self.order, self.elem));
        b.warps(self.warps);
        let x = b.param(matrix(self.elem, self.rows, self.cols));
        let y = b.param(matrix(self.out(), self.rows, known(self.k)));
        let pid = b.program_id(0);
        let row = b.mul(pid, self.tile_rows);
        let col = b.constant(0, Scalar::I32);
        let last = beyond(&mut b, self.elem, self.order);
        let t = b.load_with(x, &[row, col], &[self.tile_rows, self.tile_cols], last);
        // A power of two spreads over lanes; the view drops what is beyond `k`.
        let (values, positions) = b.top_k(self.order, t, 1, self.k.next_power_of_two().min(self.tile_cols));
        b.store(y, &[row, col], if self.positions { positions } else { values });
        b.finish()
    }

    /// The grid for a number of rows.
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        [programs(rows, self.tile_rows), 1, 1]
    }
}

/// What columns beyond a row read: what comes last in an order. NaN does in either, and of integers the extreme value.
pub(crate) fn beyond(b: &mut KernelBuilder, elem: Scalar, order: SortOrder) -> Access {
    let value = if elem.is_float() {
        b.constant(f64::NAN, elem)
    } else {
        let high = i64::MAX >> (64 - elem.bits());
        b.constant(if order == SortOrder::Ascending { high } else { !high }, elem)
    };
    Access { other: Some(value.into()), ..Access::default() }
}
