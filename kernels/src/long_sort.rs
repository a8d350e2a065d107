//! Sorts of rows that no tile holds: sorted tiles, then a bitonic network over memory, in several launches.
//!
//! ```text
//! tiles      x ─► y     every tile sorted
//! merge of runs of length L (in tiles: 1, 2, 4, …), in place:
//!   mirror   element i of the first run against element L-1-i of the second: both runs become bitonic
//!   apart    distances L/2, L/4, … down to a tile
//!   finish   every tile sorted
//! ```
//!
//! Every step leaves the first of two elements in the lower place, so what stands behind the row (and is never stored) would not move.
//! Positions are sorted as 64-bit keys: the element's order above, its position below, which makes equal elements differ.

use crate::facts::{ANY, known, matrix};
use crate::select::beyond;
use tilelift_ir::{Access, BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, Scalar, SortOrder, Value};

/// A sort of every row of a `rows x cols` matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct LongSort {
    /// Element type: `f16`, `bf16`, `f32` or `i32`.
    pub elem: Scalar,
    /// The direction.
    pub order: SortOrder,
    /// Positions (`i32`) instead of elements.
    pub positions: bool,
    /// Columns of a tile, a power of two.
    pub tile: u32,
    /// Warps per program.
    pub warps: u32,
    /// What is known of `rows`.
    pub rows: Extent,
    /// What is known of `cols`.
    pub cols: Extent,
}

/// A kernel of a sort.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Pass {
    /// Sorts tiles, from `x` into `y`; for positions it makes the keys first.
    Tiles,
    /// The first step of a merge; takes the run's length in tiles.
    Mirror,
    /// A later step of a merge; takes the distance in tiles.
    Apart,
    /// Sorts tiles in place.
    Finish,
    /// Takes positions out of keys.
    Unpack,
}

impl LongSort {
    /// A configuration for any shape.
    pub fn new(elem: Scalar, order: SortOrder, positions: bool) -> LongSort {
        LongSort { elem, order, positions, tile: 2048, warps: 8, rows: ANY, cols: ANY }
    }

    /// States the facts of a shape.
    pub fn for_shape(mut self, rows: u32, cols: u32) -> LongSort {
        (self.rows, self.cols) = (known(rows), known(cols));
        self
    }

    /// Element type of the output.
    pub fn out(&self) -> Scalar {
        if self.positions { Scalar::I32 } else { self.elem }
    }

    /// Element type that is sorted, and the direction: keys ascend.
    fn key(&self) -> (Scalar, SortOrder) {
        if self.positions { (Scalar::I64, SortOrder::Ascending) } else { (self.elem, self.order) }
    }

    /// The launches for rows of `cols` elements: passes with their scalar, and programs per row.
    pub fn passes(&self, cols: u32) -> Vec<(Pass, u32, u32)> {
        let tiles = cols.div_ceil(self.tile.max(1)).max(1);
        let mut list = vec![(Pass::Tiles, 0, tiles)];
        let mut run = 1;
        while run < tiles {
            let pairs = |distance: u32| tiles.div_ceil(2 * distance) * distance;
            list.push((Pass::Mirror, run, pairs(run)));
            let mut distance = run / 2;
            while distance > 0 {
                list.push((Pass::Apart, distance, pairs(distance)));
                distance /= 2;
            }
            list.push((Pass::Finish, 0, tiles));
            run *= 2;
        }
        if self.positions {
            list.push((Pass::Unpack, 0, tiles));
        }
        list
    }

    /// The kernel of a pass, for a grid of programs per row by rows. Parameters: views `x[rows, cols]` and `y[rows, cols]` of `Tiles`
    /// and `Unpack`, `y` alone of the others; then the `i32` of `Mirror` and `Apart`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or elements without an order.
    pub fn build(&self, pass: Pass) -> Result<Kernel, BuildErrors> {
        let (key, order) = self.key();
        let mut b = KernelBuilder::new(&format!("sort_{pass:?}_{key}_{order}").to_lowercase());
        b.warps(self.warps);
        let view = |elem| matrix(elem, self.rows, self.cols);
        let tile = [1, self.tile];
        match pass {
            Pass::Tiles => {
                let (x, y) = (b.param(view(self.elem)), b.param(view(key)));
                let (at, row) = self.place(&mut b);
                let t = if self.positions {
                    let t = b.load(x, &[row, at], &tile);
                    self.keys(&mut b, x, t, at)
                } else {
                    let other = self.last(&mut b);
                    b.load_with(x, &[row, at], &tile, other)
                };
                let t = b.sort(order, t, 1);
                b.store(y, &[row, at], t);
            }
            Pass::Finish => {
                let y = b.param(view(key));
                let (at, row) = self.place(&mut b);
                let other = self.last(&mut b);
                let t = b.load_with(y, &[row, at], &tile, other);
                let t = b.sort(order, t, 1);
                b.store(y, &[row, at], t);
            }
            Pass::Unpack => {
                let (x, y) = (b.param(view(key)), b.param(view(self.out())));
                let (at, row) = self.place(&mut b);
                let t = b.load(x, &[row, at], &tile);
                let t = b.cast(t, Scalar::I32);
                b.store(y, &[row, at], t);
            }
            Pass::Mirror | Pass::Apart => {
                let y = b.param(view(key));
                let span = b.param(Scalar::I32);
                let (pid, row) = (b.program_id(0), b.program_id(1));
                // Which pair of runs, and which tile of the first run.
                let (block, within) = (b.div(pid, span), b.rem(pid, span));
                let twice = b.mul(span, 2);
                let first = b.mul(block, twice);
                let low = b.add(first, within);
                let high = if pass == Pass::Mirror {
                    let end = b.add(first, twice);
                    let end = b.sub(end, 1);
                    b.sub(end, within)
                } else {
                    b.add(low, span)
                };
                let (low, high) = (b.mul(low, self.tile), b.mul(high, self.tile));
                let other = self.last(&mut b);
                let p = b.load_with(y, &[row, low], &tile, other);
                let mut q = b.load_with(y, &[row, high], &tile, other);
                if pass == Pass::Mirror {
                    q = b.flip(q, 1);
                }
                let (p, mut q) = Self::exchange(&mut b, key, order, p, q);
                if pass == Pass::Mirror {
                    q = b.flip(q, 1);
                }
                b.store(y, &[row, low], p);
                b.store(y, &[row, high], q);
            }
        }
        b.finish()
    }

    /// Column and row of a program's tile.
    fn place(&self, b: &mut KernelBuilder) -> (Value, Value) {
        let (pid, row) = (b.program_id(0), b.program_id(1));
        (b.mul(pid, self.tile), row)
    }

    /// What columns beyond the row read: the last of all.
    fn last(&self, b: &mut KernelBuilder) -> Access {
        let (key, order) = self.key();
        beyond(b, key, order)
    }

    /// The two elements in order, NaN last in either direction.
    fn exchange(b: &mut KernelBuilder, key: Scalar, order: SortOrder, p: Value, q: Value) -> (Value, Value) {
        match (key.is_float(), order) {
            (false, SortOrder::Ascending) => (b.minimum(p, q), b.maximum(p, q)),
            (false, SortOrder::Descending) => (b.maximum(p, q), b.minimum(p, q)),
            // The `num` forms give the number if there is one, the others the NaN if there is one.
            (true, SortOrder::Ascending) => (b.minnum(p, q), b.maximum(p, q)),
            (true, SortOrder::Descending) => (b.maxnum(p, q), b.minimum(p, q)),
        }
    }

    /// Keys of a tile: above an integer that orders as the elements do, below the position; beyond the row the largest key.
    fn keys(&self, b: &mut KernelBuilder, x: Value, t: Value, at: Value) -> Value {
        let shape = [1, self.tile];
        let descending = self.order == SortOrder::Descending;
        let order = if self.elem.is_float() {
            let t = b.cast(t, Scalar::F32);
            let bits = b.bitcast(t, Scalar::I32);
            // Negative numbers run backwards.
            let negative = b.cmp(CmpOp::Lt, bits, 0);
            let turned = b.xor(bits, i32::MAX);
            let mut order = b.select(negative, turned, bits);
            if descending {
                order = b.not(order);
            }
            let nan = b.cmp(CmpOp::Ne, t, t);
            b.select(nan, i32::MAX, order)
        } else if descending {
            b.not(t)
        } else {
            t
        };
        let order = b.cast(order, Scalar::I64);
        let order = b.mul(order, 1i64 << 32);
        let here = b.iota(&shape, 1);
        let here = b.add(here, at);
        let cols = b.dim(x, 1);
        let inside = b.cmp(CmpOp::Lt, here, cols);
        let position = b.cast(here, Scalar::I64);
        let key = b.add(order, position);
        b.select(inside, key, i64::MAX)
    }

    /// The grid of a pass.
    pub fn grid(&self, rows: u32, programs: u32) -> [u32; 3] {
        [programs, rows, 1]
    }
}
