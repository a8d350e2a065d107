//! Rotary position embedding (Su et al. 2021): pairs of elements of a head are turned by an angle that grows with the position.
//!
//! ```text
//! neox          pair i = elements i and i + D/2       y1 = x1 cos - x2 sin
//! interleaved   pair i = elements 2i and 2i + 1       y2 = x2 cos + x1 sin
//! ```
//!
//! The interleaved form finds an element's partner by a gather inside the tile.

use crate::facts::{ANY, known, programs};
use tilelift_ir::{BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, Scalar, Value, ViewType};

/// Rotary embedding of `x[heads, length, dim]` (heads of all batches) by tables `cos` and `sin` of `[length, dim / 2]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Rotary {
    /// Element type of all tensors: `f32`, `f16` or `bf16`.
    pub elem: Scalar,
    /// Pairs are neighbours, not half a head apart.
    pub interleaved: bool,
    /// Elements of a head; a power of two, at least 2.
    pub dim: u32,
    /// Positions per program.
    pub tile_rows: u32,
    /// Warps per program.
    pub warps: u32,
    /// What is known of the length.
    pub length: Extent,
}

impl Rotary {
    /// A configuration for heads of a size.
    pub fn new(elem: Scalar, dim: u32, interleaved: bool) -> Rotary {
        Rotary { elem, interleaved, dim, tile_rows: 32, warps: 4, length: ANY }
    }

    /// States the facts of a length.
    pub fn for_shape(mut self, length: u32) -> Rotary {
        self.length = known(length);
        self
    }

    /// The kernel; its parameters are the views `x[heads, length, dim]`, `cos[length, dim / 2]`, `sin[length, dim / 2]` and
    /// `y[heads, length, dim]`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or integer elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let form = if self.interleaved { "interleaved" } else { "neox" };
        let mut b = KernelBuilder::new(&format!("rotary_{form}_{}_{}", self.elem, self.dim));
        b.warps(self.warps);
        let half = self.dim / 2;
        let heads = ViewType::dense(self.elem, &[ANY, self.length, Extent::Fixed(self.dim)]);
        let table = ViewType::dense(self.elem, &[self.length, Extent::Fixed(half)]);
        let x = b.param(heads.clone());
        let (cos, sin) = (b.param(table.clone()), b.param(table));
        let y = b.param(heads);
        let block = b.program_id(0);
        let row = b.mul(block, self.tile_rows);
        let head = b.program_id(1);
        let zero = b.constant(0, Scalar::I32);
        let [c, s] = [cos, sin].map(|t| {
            let t = b.load(t, &[row, zero], &[self.tile_rows, half]);
            b.cast(t, Scalar::F32)
        });
        if self.interleaved {
            self.pairs(&mut b, x, y, [head, row, zero], c, s);
        } else {
            let middle = b.constant(half, Scalar::I32);
            let [x1, x2] = [zero, middle].map(|at| {
                let t = b.load(x, &[head, row, at], &[1, self.tile_rows, half]);
                let t = b.reshape(t, &[self.tile_rows, half]);
                b.cast(t, Scalar::F32)
            });
            let (a, d) = (b.mul(x1, c), b.mul(x2, s));
            let y1 = b.sub(a, d);
            let (a, d) = (b.mul(x2, c), b.mul(x1, s));
            let y2 = b.add(a, d);
            for (at, t) in [(zero, y1), (middle, y2)] {
                let t = b.cast(t, self.elem);
                let t = b.reshape(t, &[1, self.tile_rows, half]);
                b.store(y, &[head, row, at], t);
            }
        }
        b.finish()
    }

    /// The interleaved form: element `2i` is `x cos - partner sin`, element `2i + 1` is `x cos + partner sin`.
    fn pairs(&self, b: &mut KernelBuilder, x: Value, y: Value, at: [Value; 3], c: Value, s: Value) {
        let shape = [self.tile_rows, self.dim];
        let t = b.load(x, &at, &[1, self.tile_rows, self.dim]);
        let t = b.reshape(t, &shape);
        let t = b.cast(t, Scalar::F32);
        let col = b.iota(&shape, 1);
        let pair = b.shr_u(col, 1);
        let other = b.xor(col, 1);
        let (c, s) = (b.gather_tile(c, pair, 1), b.gather_tile(s, pair, 1));
        let partner = b.gather_tile(t, other, 1);
        let odd = b.and(col, 1);
        let even = b.cmp(CmpOp::Eq, odd, 0);
        let minus = b.neg(s);
        let s = b.select(even, minus, s);
        let (a, d) = (b.mul(t, c), b.mul(partner, s));
        let t = b.add(a, d);
        let t = b.cast(t, self.elem);
        let t = b.reshape(t, &[1, self.tile_rows, self.dim]);
        b.store(y, &at, t);
    }

    /// The grid for a length and a number of heads.
    pub fn grid(&self, length: u32, heads: u32) -> [u32; 3] {
        [programs(length, self.tile_rows), heads, 1]
    }
}
