//! Matrix transposition: `y[c, r] = x[r, c]`.
//!
//! ```text
//!   program (p, q):  x[q*tile_rows.., p*tile_cols..]  ─transpose─►  y[p*tile_cols.., q*tile_rows..]
//! ```
//! Both sides are then read and written along rows; the exchange happens inside the tile.

use crate::facts::{ANY, known, matrix, programs};
use tilelift_ir::{BuildErrors, Extent, Kernel, KernelBuilder, Scalar, Value};

/// Elements from which on tiles are larger.
const LARGE: u64 = 1 << 25;

/// The transpose of a `rows x cols` matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct Transpose {
    /// Element type: any.
    pub elem: Scalar,
    /// Rows of the tile that is read.
    pub tile_rows: u32,
    /// Columns of the tile that is read.
    pub tile_cols: u32,
    /// Warps per program.
    pub warps: u32,
    /// Rows of tiles that are gone through together, so that programs that run at once write near one another; 1 goes row by row.
    pub group: u32,
    /// What is known of `rows`.
    pub rows: Extent,
    /// What is known of `cols`.
    pub cols: Extent,
}

impl Transpose {
    /// A configuration for any shape: tiles of 64 x 64.
    pub fn new(elem: Scalar) -> Transpose {
        Transpose { elem, tile_rows: 64, tile_cols: 64, warps: 4, group: 1, rows: ANY, cols: ANY }
    }

    /// States the facts of a shape, and takes larger tiles where there are enough of them for any machine: lines are then written whole and
    /// more of them are in flight.
    pub fn for_shape(mut self, rows: u32, cols: u32) -> Transpose {
        (self.rows, self.cols) = (known(rows), known(cols));
        if self.elem.bytes() == 2 && u64::from(rows) * u64::from(cols) >= LARGE {
            (self.tile_rows, self.tile_cols, self.warps) = (128, 128, 8);
        }
        self
    }

    /// The kernel; its parameters are the views `x[rows, cols]` and `y[cols, rows]`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new(&format!("transpose_{}", self.elem));
        b.warps(self.warps);
        let x = b.param(matrix(self.elem, self.rows, self.cols));
        let y = b.param(matrix(self.elem, self.cols, self.rows));
        let [p, q] = [0, 1].map(|axis| b.program_id(axis));
        let (p, q) = if self.group > 1 { grouped(&mut b, p, q, self.group) } else { (p, q) };
        let col = b.mul(p, self.tile_cols);
        let row = b.mul(q, self.tile_rows);
        let t = b.load(x, &[row, col], &[self.tile_rows, self.tile_cols]);
        let t = b.transpose(t, &[1, 0]);
        b.store(y, &[col, row], t);
        b.finish()
    }

    /// The grid for a shape.
    pub fn grid(&self, rows: u32, cols: u32) -> [u32; 3] {
        [programs(cols, self.tile_cols), programs(rows, self.tile_rows), 1]
    }
}

/// The tile of program `(p, q)`, column and row, where rows of tiles are gone through in groups.
fn grouped(b: &mut KernelBuilder, p: Value, q: Value, group: u32) -> (Value, Value) {
    let [across, down] = [0, 1].map(|axis| b.num_programs(axis));
    let before = b.mul(q, across);
    let at = b.add(before, p);
    let size = b.mul(across, group);
    let (which, within) = (b.div(at, size), b.rem(at, size));
    let first = b.mul(which, group);
    let left = b.sub(down, first);
    let rows = b.minimum(left, group);
    let (column, row) = (b.div(within, rows), b.rem(within, rows));
    (column, b.add(first, row))
}
