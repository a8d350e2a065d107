//! LayerNorm of wide rows by clusters that stay: each goes through many rows, and copies the next ones while it waits for the sums of others.
//!
//! ```text
//! block   producer    for each row:              wait free[slot]   expect full[slot]   copy this block's columns to the slot
//!         set 0, 1   for every second row:      wait full[slot]
//!                     sum, squared distances from the block's own mean ──► every block's row of sums, whose bytes a barrier counts
//!                     wait for all of them: mean and variance of the whole row ─► result, and give the slot back
//! ```
//! While one set waits for other blocks the other computes, and copies never stop. Weight and bias lie in local memory for good. A set
//! goes through a row piece by piece, so that its registers hold a piece.
//!
//! A block's variance is taken about its own mean and moved to the row's (Chan, Golub, LeVeque 1979): one exchange a row, with none of the
//! cancellation of a mean of squares. A word of sums is sent to in every second of a set's rounds: whoever sends for round `n + 2` has
//! seen this block's sums of round `n + 1`, which leave after it is done with round `n`.

use super::positions::slot_and_round;
use crate::facts::ANY;
use tilelift_ir::{BuildError, BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, ReduceOp, Scalar, Task, Value, ViewType};

/// Bytes of a chunk of columns, which lie together in local memory.
const CHUNK_BYTES: u32 = 128;

/// Bytes of a ring that are worth while.
const RING_BYTES: u32 = 96 << 10;

/// Consumers, if nobody says otherwise.
const CONSUMER_SETS: u32 = 2;

/// Elements of a piece that a lane has.
const PIECE: u32 = 16;

/// Rounds of a set whose sums may be in flight.
const ROUNDS: u32 = 2;

/// Blocks of the largest cluster, and bytes of a row's part that a slot can hold.
const MOST_BLOCKS: u32 = 16;
const MOST_BYTES: u32 = 256 << 10;

/// LayerNorm of matrices whose rows are a multiple of 128 bytes long.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamNorm {
    /// Element type of the matrices, weight and bias: `f32`, `f16` or `bf16`.
    pub elem: Scalar,
    /// Blocks of a cluster: 2, 4 or 8.
    pub blocks: u32,
    /// Chunks of a block; all blocks together have at least the matrix's.
    pub tile_chunks: u32,
    /// Slots of the ring, of a row each: a multiple of the consumer sets. A slot is then always the same set's, which so waits for each phase of
    /// its barriers; where slots change hands a set could take a phase that it knows nothing of for one that it waits for.
    pub slots: u32,
    /// Consumers that take rows in ping-pong.
    pub consumer_sets: u32,
    /// Warps of a set.
    pub warps: u32,
    /// What is known of the rows.
    pub rows: Extent,
}

impl StreamNorm {
    /// For up to `cols` columns in the smallest clusters of two blocks or more whose blocks hold at most 32 KiB of a row; `None` if clusters
    /// of eight do not.
    pub fn for_cols(elem: Scalar, cols: u32) -> Option<StreamNorm> {
        let parts = (u64::from(cols) * u64::from(elem.bytes())).div_ceil(32 << 10).next_power_of_two().max(2);
        u32::try_from(parts).ok().filter(|&p| p <= 8).map(|blocks| StreamNorm::new(elem, blocks, cols))
    }

    /// For up to `cols` columns in clusters of so many blocks, two consumer sets of four to eight warps.
    pub fn new(elem: Scalar, blocks: u32, cols: u32) -> StreamNorm {
        let chunk = CHUNK_BYTES / elem.bytes().max(1);
        let tile_chunks = cols.div_ceil(chunk.max(1)).div_ceil(blocks.max(1)).max(1).next_power_of_two();
        // Some 96 KiB in flight are enough, and more are slower.
        let slots = (RING_BYTES / tile_chunks.saturating_mul(CHUNK_BYTES).max(1) / CONSUMER_SETS * CONSUMER_SETS)
            .clamp(2 * CONSUMER_SETS, 4 * CONSUMER_SETS);
        StreamNorm { elem, blocks, tile_chunks, slots, consumer_sets: CONSUMER_SETS, warps: (tile_chunks / 32).clamp(4, 8), rows: ANY }
    }

    /// Columns of a chunk.
    pub fn chunk(&self) -> u32 {
        CHUNK_BYTES / self.elem.bytes().max(1)
    }

    /// The kernel; its parameters are the views `x[rows, chunks, chunk]`, `w[chunks, chunk]`, `b[chunks, chunk]`, `y[rows, chunks, chunk]`
    /// and the `f32` scalar `eps`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, or integer elements; rows that no cluster holds.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let Self { elem, blocks, tile_chunks: held, slots, consumer_sets, .. } = *self;
        // The builder would find out, but only behind as many instructions as there are blocks and pieces.
        if blocks > MOST_BLOCKS || held.saturating_mul(CHUNK_BYTES) > MOST_BYTES {
            let message = format!(
                "{blocks} blocks that hold {held} chunks of {CHUNK_BYTES} bytes each: at most {MOST_BLOCKS} blocks of {MOST_BYTES} bytes; \
                 use fewer columns, or kernels that go through rows more than once"
            );
            return Err(BuildErrors(vec![BuildError::new("StreamNorm::build", message)]));
        }
        let words = consumer_sets.saturating_mul(ROUNDS);
        let chunk = self.chunk();
        let mut b = KernelBuilder::new(&format!("stream_norm_{elem}_{blocks}"));
        b.cluster(blocks);
        let matrix = ViewType::dense(elem, &[self.rows, ANY, Extent::Fixed(chunk)]);
        let vector = ViewType::dense(elem, &[ANY, Extent::Fixed(chunk)]);
        let x = b.param(matrix.clone());
        let affine = [b.param(vector.clone()), b.param(vector)];
        let y = b.param(matrix);
        let eps = b.param(Scalar::F32);
        let ring = b.local_alloc(&[slots, 1, held, chunk], elem);
        let kept = affine.map(|_| b.local_alloc(&[1, held, chunk], elem));
        let parts = [(); 2].map(|()| b.local_alloc(&[words, blocks, 1], Scalar::F32));
        let (full, free) = (b.barrier_alloc(1, slots), b.barrier_alloc(1, slots));
        let (loaded, met) = (b.barrier_alloc(1, 1), b.barrier_alloc(1, words));
        let bytes = held.saturating_mul(CHUNK_BYTES);
        let rank = b.cluster_rank();
        let (program, programs) = (b.program_id(0), b.num_programs(0));
        let (first, stride) = (b.div(program, blocks), b.div(programs, blocks));
        let rows = b.dim(x, 0);
        let chunks = b.dim(x, 1);
        let at = b.mul(rank, held);
        let zero = b.constant(0, Scalar::I32);
        // Nobody sends to a barrier that is not there yet.
        b.cluster_barrier();
        let tasks = [Task::new("producer", 1), Task::new("set", self.warps).replicas(consumer_sets)];
        b.tasks(&tasks, |b, task, set| {
            if task == 0 {
                b.barrier_expect(loaded, bytes.saturating_mul(2));
                for (from, to) in affine.into_iter().zip(kept) {
                    let to = b.local_index(to, 0);
                    b.async_load(from, &[at, zero], to, loaded);
                }
                b.for_loop(first, rows, stride, &[zero], |b, row, n| {
                    let (slot, lap) = slot_and_round(b, n[0], slots);
                    let (ready, empty) = (b.barrier_index(full, slot), b.barrier_index(free, slot));
                    let before = b.add(lap, 1);
                    b.barrier_wait(empty, before);
                    b.barrier_expect(ready, bytes);
                    let to = b.local_index(ring, slot);
                    b.async_load(x, &[row, at, zero], to, ready);
                    vec![b.add(n[0], 1)]
                });
                return;
            }
            let mine = b.mul(set, stride);
            let (first, stride) = (b.add(first, mine), b.mul(stride, consumer_sets));
            let columns = Columns::of(self, b, chunks, at);
            b.barrier_wait(loaded, 0);
            b.for_loop(first, rows, stride, &[set, zero], |b, row, carried| {
                let (n, round) = (carried[0], carried[1]);
                let (slot, lap) = slot_and_round(b, n, slots);
                let (ready, empty) = (b.barrier_index(full, slot), b.barrier_index(free, slot));
                b.barrier_wait(ready, lap);
                let here = b.local_index(ring, slot);
                let own = columns.own(b, here);
                let (half, lap) = slot_and_round(b, round, ROUNDS);
                let word = b.mul(set, ROUNDS);
                let word = b.add(word, half);
                let met = b.barrier_index(met, word);
                b.barrier_expect(met, blocks.saturating_mul(2 * 4));
                let parts = parts.map(|p| b.local_index(p, word));
                for (part, value) in parts.into_iter().zip(own) {
                    let value = b.reshape(value, &[1]);
                    let to = b.local_index(part, rank);
                    (0..blocks).for_each(|peer| b.remote_store_async(to, peer, value, met));
                }
                b.barrier_wait(met, lap);
                let [sums, squares] = parts.map(|p| {
                    let t = b.local_load(p);
                    b.reshape(t, &[blocks])
                });
                let (mean, var) = columns.all(b, sums, squares);
                let var = b.add(var, eps);
                let scale = b.rsqrt(var);
                for p in 0..columns.pieces {
                    let t = columns.piece(b, here, p);
                    let [weight, bias] = kept.map(|k| columns.piece(b, k, p));
                    let t = b.sub(t, mean);
                    let t = b.mul(t, scale);
                    let t = b.fma(t, weight, bias);
                    let t = b.cast(t, elem);
                    let to = b.add(at, p * columns.shape[1]);
                    b.store(y, &[row, to, zero], t);
                }
                b.barrier_arrive(empty);
                vec![b.add(n, consumer_sets), b.add(round, 1)]
            });
        });
        b.finish()
    }

    /// The grid of at most so many clusters for a number of rows.
    pub fn grid(&self, rows: u32, most: u32) -> [u32; 3] {
        [rows.clamp(1, most.max(1)).saturating_mul(self.blocks), 1, 1]
    }
}

/// How many columns a row and the blocks have, and in which pieces a set takes its block's.
struct Columns {
    /// One by those of the row.
    row: Value,
    /// Those of this block.
    here: Value,
    /// One by them, or 1.
    inverse: Value,
    /// True if this block has as many as it can hold.
    whole: Value,
    /// Those of each block.
    each: Value,
    /// One by them, or 1.
    inverses: Value,
    /// A piece.
    shape: [u32; 3],
    pieces: u32,
    /// The number of each of the first piece's columns in the block.
    index: Value,
}

impl Columns {
    fn of(norm: &StreamNorm, b: &mut KernelBuilder, chunks: Value, at: Value) -> Columns {
        let (held, chunk) = (norm.tile_chunks, norm.chunk());
        let count = |b: &mut KernelBuilder, begin: Value| {
            let left = b.sub(chunks, begin);
            let left = b.maximum(left, 0);
            let mine = b.minimum(left, held);
            b.mul(mine, chunk)
        };
        let invert = |b: &mut KernelBuilder, n: Value| {
            let n = b.cast(n, Scalar::F32);
            let n = b.maximum(n, 1.0f32);
            b.rcp(n)
        };
        let here = count(b, at);
        let ranks = b.iota(&[norm.blocks], 0);
        let begins = b.mul(ranks, held);
        let each = count(b, begins);
        let row = b.mul(chunks, chunk);
        let piece = (norm.warps.saturating_mul(32 * PIECE) / chunk).min(held).max(1);
        let index = b.iota(&[1, piece * chunk], 1);
        let shape = [1, piece, chunk];
        Columns {
            row: invert(b, row),
            here,
            inverse: invert(b, here),
            whole: b.cmp(CmpOp::Eq, here, held.saturating_mul(chunk)),
            inverses: invert(b, each),
            each: b.cast(each, Scalar::F32),
            shape,
            pieces: held / piece,
            index: b.reshape(index, &shape),
        }
    }

    /// A piece of local memory that holds a block's columns.
    fn piece(&self, b: &mut KernelBuilder, from: Value, p: u32) -> Value {
        let part = b.local_slice(from, &[0, p * self.shape[1], 0], &self.shape);
        let t = b.local_load(part);
        b.cast(t, Scalar::F32)
    }

    /// Sum of all elements of a piece.
    fn total(&self, b: &mut KernelBuilder, t: Value) -> Value {
        let flat = b.reshape(t, &[self.shape[1] * self.shape[2]]);
        b.reduce(ReduceOp::Add, flat, 0)
    }

    /// Sum, and sum of squared distances from their mean, of this block's columns; those beyond the row's end are zeros.
    fn own(&self, b: &mut KernelBuilder, from: Value) -> [Value; 2] {
        let sums = (1..self.pieces).fold(self.piece(b, from, 0), |sums, p| {
            let t = self.piece(b, from, p);
            b.add(sums, t)
        });
        let sum = self.total(b, sums);
        let mean = b.mul(sum, self.inverse);
        let squares = |b: &mut KernelBuilder, masked: bool| {
            let none = b.full(&self.shape, 0, Scalar::F32);
            let squares = (0..self.pieces).fold(none, |squares, p| {
                let t = self.piece(b, from, p);
                let mut d = b.sub(t, mean);
                if masked {
                    let left = b.sub(self.here, p * self.shape[1] * self.shape[2]);
                    let inside = b.cmp(CmpOp::Lt, self.index, left);
                    d = b.select(inside, d, 0.0f32);
                }
                b.fma(d, d, squares)
            });
            vec![self.total(b, squares)]
        };
        let squares = b.if_else(self.whole, |b| squares(b, false), |b| squares(b, true))[0];
        [sum, squares]
    }

    /// Mean and variance of the row, from every block's sums.
    fn all(&self, b: &mut KernelBuilder, sums: Value, squares: Value) -> (Value, Value) {
        let sum = b.reduce(ReduceOp::Add, sums, 0);
        let mean = b.mul(sum, self.row);
        let means = b.mul(sums, self.inverses);
        let d = b.sub(means, mean);
        let d = b.mul(d, d);
        let moved = b.fma(d, self.each, squares);
        let square = b.reduce(ReduceOp::Add, moved, 0);
        (mean, b.mul(square, self.row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_sizes_are_no_panic() {
        for elem in [Scalar::F32, Scalar::BF16, Scalar::I4] {
            for (blocks, cols) in [(0, 0), (1, 64), (2, u32::MAX), (8, u32::MAX), (u32::MAX, 1)] {
                let norm = StreamNorm::new(elem, blocks, cols);
                for norm in [
                    norm.clone(),
                    StreamNorm { tile_chunks: 0, ..norm.clone() },
                    StreamNorm { consumer_sets: u32::MAX, warps: u32::MAX, ..norm },
                ] {
                    // Whatever it says, it says it as a value.
                    let built = norm.build();
                    assert!(built.is_err() || blocks > 0, "{norm:?}");
                    assert!(norm.grid(u32::MAX, 4)[0] >= norm.blocks.min(1), "{norm:?}");
                }
            }
        }
        assert_eq!(StreamNorm::for_cols(Scalar::BF16, 131_072).map(|n| n.blocks), Some(8));
        assert_eq!(StreamNorm::for_cols(Scalar::BF16, u32::MAX), None);
    }
}
