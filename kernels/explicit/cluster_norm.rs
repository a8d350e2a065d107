//! LayerNorm of wide rows: the blocks of a cluster hold a part of the rows each, and exchange their sums through each other's local memory.
//!
//! ```text
//! rank 0  │ x[:, 0..w] ─► sum ──┐ remote_store_async to every block's row of sums, whose bytes a barrier counts
//! rank 1  │ x[:, w..2w] ─► sum ─┤ then each adds the same sums in the same order: every block has the same mean
//! …       │                     └ and once more for the squared distances from it
//! ```
//! `x` is read once: it stays in local memory between the sums and the result. As in [`LayerNorm`](crate::LayerNorm), the variance is the mean
//! of squared distances from the mean.

use crate::facts::{ANY, known, matrix, programs, vector};
use tilelift_ir::{BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, ReduceOp, Scalar, Value};

/// LayerNorm along the columns of a `rows x cols` matrix by clusters.
#[derive(Clone, PartialEq, Debug)]
pub struct ClusterNorm {
    /// Element type of the matrices, weight and bias: `f32`, `f16` or `bf16`.
    pub elem: Scalar,
    /// Blocks of a cluster: 2, 4 or 8.
    pub blocks: u32,
    /// Rows of a cluster.
    pub tile_rows: u32,
    /// Columns of a block; all blocks together have at least the matrix's columns.
    pub tile_cols: u32,
    /// Warps of a block.
    pub warps: u32,
    /// What is known of `rows`.
    pub rows: Extent,
    /// What is known of `cols`.
    pub cols: Extent,
}

impl ClusterNorm {
    /// One row per cluster of so many blocks, for up to `cols` columns.
    pub fn new(elem: Scalar, blocks: u32, cols: u32) -> ClusterNorm {
        let tile_cols = cols.div_ceil(blocks.max(1)).max(1).next_power_of_two();
        let warps = (tile_cols / 1024).next_power_of_two().clamp(4, 16);
        ClusterNorm { elem, blocks, tile_rows: 1, tile_cols, warps, rows: ANY, cols: ANY }
    }

    /// States the facts of a shape.
    pub fn for_shape(mut self, rows: u32, cols: u32) -> ClusterNorm {
        (self.rows, self.cols) = (known(rows), known(cols));
        self
    }

    /// The kernel; its parameters are the views `x[rows, cols]`, `w[cols]`, `b[cols]`, `y[rows, cols]` and the `f32` scalar `eps`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or integer elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let Self { elem, blocks, tile_rows, tile_cols, .. } = *self;
        let mut b = KernelBuilder::new(&format!("cluster_norm_{elem}_{blocks}"));
        b.warps(self.warps).cluster(blocks);
        let x = b.param(matrix(elem, self.rows, self.cols));
        let w = b.param(vector(elem, self.cols));
        let bias = b.param(vector(elem, self.cols));
        let y = b.param(matrix(elem, self.rows, self.cols));
        let eps = b.param(Scalar::F32);
        let shape = [tile_rows, tile_cols];
        let kept = b.local_alloc(&shape, elem);
        let sums: Vec<Value> = (0..2).map(|_| b.local_alloc(&[blocks, tile_rows], Scalar::F32)).collect();
        let bars = b.barrier_alloc(1, 2);
        let rank = b.cluster_rank();
        let arrived: Vec<Value> = (0..2).map(|i| b.barrier_index(bars, i)).collect();
        if blocks > 1 {
            arrived.iter().for_each(|&bar| b.barrier_expect(bar, (blocks - 1) * tile_rows * 4));
            b.cluster_barrier();
        }
        let pid = b.program_id(0);
        let which = b.div(pid, blocks);
        let row = b.mul(which, tile_rows);
        let col = b.mul(rank, tile_cols);
        let t = b.load(x, &[row, col], &shape);
        b.local_store(kept, t);
        let n = b.dim(x, 1);
        let cols = b.cast(n, Scalar::F32);
        let all_sum = |b: &mut KernelBuilder, tile: Value, n: usize| {
            let mine = b.reduce(ReduceOp::Add, tile, 1);
            let mine = if b.ty(mine).as_tile().is_some() { mine } else { b.reshape(mine, &[tile_rows]) };
            let own = b.local_index(sums[n], rank);
            b.local_store(own, mine);
            for peer in 0..blocks {
                let other = b.cmp(CmpOp::Ne, rank, peer);
                b.if_else(
                    other,
                    |b| {
                        b.remote_store_async(own, peer, mine, arrived[n]);
                        vec![]
                    },
                    |_| vec![],
                );
            }
            if blocks > 1 {
                b.barrier_wait(arrived[n], 0);
            }
            let mut total = b.full(&[tile_rows], 0, Scalar::F32);
            for peer in 0..blocks {
                let part = b.local_index(sums[n], peer);
                let part = b.local_load(part);
                total = b.add(total, part);
            }
            let mean = b.div(total, cols);
            b.reshape(mean, &[tile_rows, 1])
        };
        let h = b.cast(t, Scalar::F32);
        let mean = all_sum(&mut b, h, 0);
        let d = b.sub(h, mean);
        let at = b.iota(&shape, 1);
        let at = b.add(at, col);
        let inside = b.cmp(CmpOp::Lt, at, n);
        let d = b.select(inside, d, 0.0f32);
        let square = b.mul(d, d);
        let var = all_sum(&mut b, square, 1);
        let var = b.add(var, eps);
        let scale = b.rsqrt(var);
        let t = b.local_load(kept);
        let t = b.cast(t, Scalar::F32);
        let d = b.sub(t, mean);
        let mut vector_of = |v| {
            let t = b.load(v, &[col], &[tile_cols]);
            let t = b.cast(t, Scalar::F32);
            b.expand_dims(t, 0)
        };
        let (weight, bias) = (vector_of(w), vector_of(bias));
        let t = b.mul(d, scale);
        let t = b.mul(t, weight);
        let t = b.add(t, bias);
        let t = b.cast(t, elem);
        b.store(y, &[row, col], t);
        b.finish()
    }

    /// The grid for a number of rows.
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        [programs(rows, self.tile_rows).saturating_mul(self.blocks), 1, 1]
    }
}
