//! Attention: `o = softmax(scale * q k^T) v`, keys beyond the end (and, if causal, behind the query) left out; of one head or of many.
//!
//! A program holds a block of queries and goes over the keys once: the row maximum, the sum and the weighted values are carried and
//! rescaled when the maximum grows. Key 0 is seen by every query, so the maximum is finite from the first round on. Maxima are those of
//! the unscaled scores; the scale goes into the exponential, which is of base 2: a product and a sum in one step per score.
//!
//! A causal program ends at its diagonal, so programs take unequal times: the longest come first, some heads side by side.

use crate::facts::{ANY, known, programs};
use crate::pitch::{Pitch, PitchFacts, pitched};
use tilelift_ir::{BuildError, BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, ReduceOp, Scalar, Value, ViewType};

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
    /// Stages of the pipeline, where the loop is one.
    pub stages: u32,
    /// What is known of the number of queries.
    pub queries: Extent,
    /// What is known of the number of keys.
    pub keys: Extent,
    /// What is known of the number of heads, which is then the first dimension of all four; without it they are matrices.
    pub heads: Option<Extent>,
    /// Heads that a causal program order walks side by side; divides their number.
    pub group: u32,
    /// What is known of the strides of queries, of keys and values, and of the output, where they are not dense: a cache with room behind every
    /// sequence, heads side by side in a row.
    pub pitches: [Option<PitchFacts>; 3],
    /// Neighbouring heads of queries that share a head of keys and values (GQA); divides their number.
    pub per_key_head: u32,
    /// Queries are the last ones of a sequence, whose earlier keys are in the cache: query `i` stands at `i + keys - queries`. There are at least as many
    /// keys as queries.
    pub past: bool,
}

/// Bytes that rows are to be a multiple of where copies take boxes of tensors.
const ROW_ALIGN: u64 = 16;

/// Queries of a program on machines whose warpgroups multiply.
const QUERIES: u32 = 128;

/// Keys that one instruction multiplies.
const KEYS_OF_STEP: u32 = 16;

/// Registers of a lane that tiles may take there, beside addresses and what rows share.
const LANE_TILES: u32 = 196;

/// Bytes of shared memory that tiles may take there.
const SHARED_TILES: u32 = 225 << 10;

/// Most heads that [`Attention::heads`] walks side by side: their keys and values stay in a cache of tens of megabytes.
const MAX_GROUP: u32 = 16;

impl Attention {
    /// A configuration for any number of queries and keys.
    pub fn new(elem: Scalar, dim: u32, causal: bool) -> Attention {
        Attention {
            elem,
            dim,
            causal,
            tile_queries: 64,
            tile_keys: 64,
            warps: 4,
            stages: 3,
            queries: ANY,
            keys: ANY,
            heads: None,
            group: 1,
            pitches: [None; 3],
            per_key_head: 1,
            past: false,
        }
    }

    /// Another tile, and its warps.
    pub fn tile(mut self, queries: u32, keys: u32, warps: u32) -> Attention {
        (self.tile_queries, self.tile_keys, self.warps) = (queries, keys, warps);
        self
    }

    /// Chooses the tile for machines that copy whole tiles and multiply them by warpgroups: two groups of 64 queries, and as many
    /// keys as registers and shared memory hold. What a step does beside its scores is then done for more of them; but a causal program looks at
    /// more keys in vain, and of 128 dimensions 176 keys leave no register (H200: 1.6 to 1.9% slower than 128 keys to 4,096 keys, 0.7% quicker at 16,384).
    /// Rows that bulk copies do not take keep their tile.
    pub fn for_units(self) -> Attention {
        if !(u64::from(self.dim) * u64::from(self.elem.bytes())).is_multiple_of(ROW_ALIGN) {
            return self;
        }
        // A lane of two groups holds half a value per element of a row, half a score and a quarter of a rounded one per key.
        let by_registers = LANE_TILES.saturating_sub(self.dim / 2) * 4 / 3;
        // Two rounds of keys and values, and the queries.
        let row = self.dim * self.elem.bytes();
        let by_memory = SHARED_TILES.saturating_sub(QUERIES * row) / (4 * row);
        let most = if self.causal || self.dim <= 64 || self.dim == 128 { 128 } else { 176 };
        let keys = most.min(by_registers).min(by_memory) / KEYS_OF_STEP * KEYS_OF_STEP;
        Attention { stages: 2, ..self.tile(QUERIES, keys.max(KEYS_OF_STEP), 8) }
    }

    /// States the facts of a shape.
    pub fn for_shape(mut self, queries: u32, keys: u32) -> Attention {
        (self.queries, self.keys) = (known(queries), known(keys));
        self
    }

    /// States the facts of strides, of queries, of keys and values, and of the output: from row to row, and from head to head.
    pub fn pitched(mut self, queries: Option<Pitch>, cache: Option<Pitch>, output: Option<Pitch>) -> Attention {
        self.pitches = [queries, cache, output].map(|p| p.map(Pitch::facts));
        self
    }

    /// Makes it attention of a number of heads.
    pub fn heads(mut self, heads: u32) -> Attention {
        self.heads = Some(known(heads));
        self.group = (1..=MAX_GROUP).rev().find(|g| heads.is_multiple_of(*g)).unwrap_or(1);
        self
    }

    /// Lets so many neighbouring heads of queries share a head of keys and values.
    pub fn sharing(mut self, queries_per_key_head: u32) -> Attention {
        self.per_key_head = queries_per_key_head;
        self
    }

    /// Lets queries stand at the end of the keys.
    pub fn with_past(mut self) -> Attention {
        self.past = true;
        self
    }

    /// The kernel; its parameters are the views `q[queries, dim]`, `k[keys, dim]`, `v[keys, dim]`, `o[queries, dim]`, each with its heads
    /// in front if there are any, and the scalar `scale`, an `f32` above zero.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or other element types; heads of keys that none of the queries has.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let (rows, cols, dim) = (self.tile_queries, self.tile_keys, self.dim);
        let mut b = KernelBuilder::new(&format!("attention_{}{}", self.elem, if self.causal { "_causal" } else { "" }));
        b.warps(self.warps).stages(self.stages);
        if self.per_key_head == 0 {
            return Err(BuildErrors(vec![BuildError::new(
                "Attention::build",
                "no head of queries has a head of keys; `per_key_head` is 1 or more",
            )]));
        }
        // Of the heads of keys nothing is known but that there are some.
        let heads = |pitch: usize| if pitch == 1 && self.per_key_head > 1 { self.heads.map(|_| ANY) } else { self.heads };
        let view = |n: Extent, pitch: usize| {
            let dims: Vec<Extent> = heads(pitch).into_iter().chain([n, Extent::Fixed(dim)]).collect();
            pitched(ViewType::dense(self.elem, &dims), self.pitches[pitch])
        };
        let (q, k) = (b.param(view(self.queries, 0)), b.param(view(self.keys, 1)));
        let (v, o) = (b.param(view(self.keys, 1)), b.param(view(self.queries, 2)));
        let scale = b.param(Scalar::F32);
        let (head, row) = self.origin(&mut b);
        let zero = b.constant(0, Scalar::I32);
        let queries = tile(&mut b, q, head, row, [rows, dim]);
        let key_head = head.map(|h| if self.per_key_head > 1 { b.div(h, self.per_key_head) } else { h });
        let log2_e = b.constant(std::f64::consts::LOG2_E, Scalar::F32);
        let scale = b.mul(scale, log2_e);
        let keys_end = b.dim(k, u32::from(head.is_some()));
        // The position of the first query.
        let first = if self.causal && self.past {
            let ends = b.dim(q, u32::from(head.is_some()));
            let past = b.sub(keys_end, ends);
            b.add(row, past)
        } else {
            row
        };
        let end = if self.causal {
            let diagonal = b.add(first, rows);
            b.minimum(keys_end, diagonal)
        } else {
            keys_end
        };
        let most = b.full(&[rows, 1], f64::NEG_INFINITY, Scalar::F32);
        let sum = b.full(&[rows, 1], 0.0, Scalar::F32);
        let acc = b.full(&[rows, dim], 0.0, Scalar::F32);
        let carried = b.for_loop(0, end, cols, &[most, sum, acc], |b, at, carried| {
            let keys = tile(b, k, key_head, at, [cols, dim]);
            let keys = b.transpose(keys, &[1, 0]);
            let none = b.full(&[rows, cols], 0.0, Scalar::F32);
            let s = b.dot(queries, keys, none);
            let key = b.iota(&[rows, cols], 1);
            let key = b.add(key, at);
            let mut seen = b.cmp(CmpOp::Lt, key, keys_end);
            if self.causal {
                let query = b.iota(&[rows, cols], 0);
                let query = b.add(query, first);
                let before = b.cmp(CmpOp::Le, key, query);
                seen = b.and(seen, before);
            }
            let hidden = b.full(&[rows, cols], f64::NEG_INFINITY, Scalar::F32);
            let s = b.select(seen, s, hidden);
            let top = b.reduce_keep(ReduceOp::Maximum, s, 1);
            let most = b.maximum(carried[0], top);
            let shift = b.mul(most, scale);
            let shift = b.neg(shift);
            let s = b.fma(s, scale, shift);
            let p = b.exp2(s);
            let fade = b.sub(carried[0], most);
            let fade = b.mul(fade, scale);
            let fade = b.exp2(fade);
            let old = b.mul(carried[1], fade);
            let new = b.reduce_keep(ReduceOp::Add, p, 1);
            let sum = b.add(old, new);
            let acc = b.mul(carried[2], fade);
            let p = b.cast(p, self.elem);
            let values = tile(b, v, key_head, at, [cols, dim]);
            let acc = b.dot(p, values, acc);
            vec![most, sum, acc]
        });
        let share = b.rcp(carried[1]);
        let out = b.mul(carried[2], share);
        let out = b.cast(out, self.elem);
        match head {
            Some(h) => {
                let out = b.expand_dims(out, 0);
                b.store(o, &[h, row, zero], out);
            }
            None => b.store(o, &[row, zero], out),
        }
        b.finish()
    }

    /// The head, if there are any, and the first query of a program.
    fn origin(&self, b: &mut KernelBuilder) -> (Option<Value>, Value) {
        let axis = usize::from(self.causal && self.heads.is_some());
        let mut block = b.program_id(axis);
        if self.causal {
            let all = b.num_programs(axis);
            let last = b.sub(all, 1);
            block = b.sub(last, block);
        }
        let row = b.mul(block, self.tile_queries);
        let head = match (self.heads, self.causal) {
            (None, _) => None,
            (Some(_), false) => Some(b.program_id(1)),
            (Some(_), true) => {
                let (inside, group) = (b.program_id(0), b.program_id(2));
                let first = b.mul(group, self.group);
                Some(b.add(first, inside))
            }
        };
        (head, row)
    }

    /// The block of queries and the head of a program, for a number of queries.
    pub fn place(&self, queries: u32, program: [u32; 3]) -> (u32, u32) {
        let blocks = programs(queries, self.tile_queries);
        let last = |block: u32| if self.causal { blocks.wrapping_sub(1).wrapping_sub(block) } else { block };
        match (self.heads, self.causal) {
            (Some(_), true) => (last(program[1]), program[2] * self.group + program[0]),
            (Some(_), false) | (None, _) => (last(program[0]), program[1]),
        }
    }

    /// The grid for a number of queries and of heads, which is 1 for matrices.
    pub fn grid(&self, queries: u32, heads: u32) -> [u32; 3] {
        let blocks = programs(queries, self.tile_queries);
        match (self.heads, self.causal) {
            (Some(_), true) => [self.group, blocks, heads / self.group.max(1)],
            (Some(_), false) | (None, _) => [blocks, heads, 1],
        }
    }
}

/// A tile of a head's matrix.
fn tile(b: &mut KernelBuilder, view: Value, head: Option<Value>, row: Value, shape: [u32; 2]) -> Value {
    let zero = b.constant(0, Scalar::I32);
    match head {
        Some(h) => {
            let t = b.load(view, &[h, row, zero], &[1, shape[0], shape[1]]);
            b.reshape(t, &shape)
        }
        None => b.load(view, &[row, zero], &shape),
    }
}
