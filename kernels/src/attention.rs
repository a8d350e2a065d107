//! Attention of one head: `o = softmax(scale * q k^T) v`, keys beyond the end (and, if causal, behind the query) left out.
//!
//! A program holds a block of queries and goes over the keys once: the row maximum, the sum and the weighted values are carried and
//! rescaled when the maximum grows. Key 0 is seen by every query, so the maximum is finite from the first round on.

use crate::facts::{ANY, known, programs};
use tilelift_ir::{BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, ReduceOp, Scalar, ViewType};

/// Attention of `queries` rows to `keys` rows of `dim` elements.
#[derive(Clone, PartialEq, Debug)]
pub struct Attention {
    /// Element type of all four matrices: `f16` or `bf16`.
    pub elem: Scalar,
    /// Elements of a row of the matrices.
    pub dim: u32,
    /// True if a query sees the keys up to its own position only.
    pub causal: bool,
    /// Queries of a program.
    pub tile_queries: u32,
    /// Keys of a round.
    pub tile_keys: u32,
    /// Warps per program.
    pub warps: u32,
    /// What is known of the number of queries.
    pub queries: Extent,
    /// What is known of the number of keys.
    pub keys: Extent,
}

impl Attention {
    /// A configuration for any number of queries and keys.
    pub fn new(elem: Scalar, dim: u32, causal: bool) -> Attention {
        Attention { elem, dim, causal, tile_queries: 64, tile_keys: 64, warps: 4, queries: ANY, keys: ANY }
    }

    /// Another tile, and its warps.
    pub fn tile(mut self, queries: u32, keys: u32, warps: u32) -> Attention {
        (self.tile_queries, self.tile_keys, self.warps) = (queries, keys, warps);
        self
    }

    /// States the facts of a shape.
    pub fn for_shape(mut self, queries: u32, keys: u32) -> Attention {
        (self.queries, self.keys) = (known(queries), known(keys));
        self
    }

    /// The kernel; its parameters are the views `q[queries, dim]`, `k[keys, dim]`, `v[keys, dim]`, `o[queries, dim]` and the scalar
    /// `scale`, an `f32`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or other element types.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let (rows, cols, dim) = (self.tile_queries, self.tile_keys, self.dim);
        let mut b = KernelBuilder::new(&format!("attention_{}{}", self.elem, if self.causal { "_causal" } else { "" }));
        b.warps(self.warps);
        let view = |n: Extent| ViewType::dense(self.elem, &[n, Extent::Fixed(dim)]);
        let (q, k) = (b.param(view(self.queries)), b.param(view(self.keys)));
        let (v, o) = (b.param(view(self.keys)), b.param(view(self.queries)));
        let scale = b.param(Scalar::F32);
        let pid = b.program_id(0);
        let row = b.mul(pid, rows);
        let zero = b.constant(0, Scalar::I32);
        let queries = b.load(q, &[row, zero], &[rows, dim]);
        let end = b.dim(k, 0);
        let most = b.full(&[rows, 1], f64::NEG_INFINITY, Scalar::F32);
        let sum = b.full(&[rows, 1], 0.0, Scalar::F32);
        let acc = b.full(&[rows, dim], 0.0, Scalar::F32);
        let carried = b.for_loop(0, end, cols, &[most, sum, acc], |b, at, carried| {
            let keys = b.load(k, &[at, zero], &[cols, dim]);
            let keys = b.transpose(keys, &[1, 0]);
            let none = b.full(&[rows, cols], 0.0, Scalar::F32);
            let s = b.dot(queries, keys, none);
            let s = b.mul(s, scale);
            let key = b.iota(&[rows, cols], 1);
            let key = b.add(key, at);
            let mut seen = b.cmp(CmpOp::Lt, key, end);
            if self.causal {
                let query = b.iota(&[rows, cols], 0);
                let query = b.add(query, row);
                let before = b.cmp(CmpOp::Le, key, query);
                seen = b.and(seen, before);
            }
            let hidden = b.full(&[rows, cols], f64::NEG_INFINITY, Scalar::F32);
            let s = b.select(seen, s, hidden);
            let top = b.reduce_keep(ReduceOp::Maximum, s, 1);
            let most = b.maximum(carried[0], top);
            let s = b.sub(s, most);
            let p = b.exp(s);
            let fade = b.sub(carried[0], most);
            let fade = b.exp(fade);
            let old = b.mul(carried[1], fade);
            let new = b.reduce_keep(ReduceOp::Add, p, 1);
            let sum = b.add(old, new);
            let acc = b.mul(carried[2], fade);
            let p = b.cast(p, self.elem);
            let values = b.load(v, &[at, zero], &[cols, dim]);
            let acc = b.dot(p, values, acc);
            vec![most, sum, acc]
        });
        let out = b.div(carried[2], carried[1]);
        let out = b.cast(out, self.elem);
        b.store(o, &[row, zero], out);
        b.finish()
    }

    /// The grid for a number of queries.
    pub fn grid(&self, queries: u32) -> [u32; 3] {
        [programs(queries, self.tile_queries), 1, 1]
    }
}
