//! `C = A · B` by a producer that copies and two consumers that multiply, over a ring of slots.
//!
//! ```text
//! producer   for each tile, each step of k:      wait empty[slot]   expect full[slot]   copy A and B to the slot
//! consumer   for each of its tiles:  its turn ─► wait full[slot]    product             give back the slot of the product before
//!                                    the other's turn ─► sums ─► staging ─► async store of the tile
//!
//! Consumers::PingPong     the consumers take whole tiles in ping-pong: one multiplies while the other stores
//! Consumers::Cooperative    each has half the rows of every tile
//! ```
//! Programs are few and take tile after tile; the ring does not stop between tiles.

use super::turn;
use crate::facts::{ANY, known, matrix, programs};
use crate::gemm::Gemm;
use tilelift_ir::{BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, Scalar, Task, Value};

/// How the consumers share the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consumers {
    /// tiles in ping-pong.
    PingPong,
    /// Half the rows of each tile.
    Cooperative,
}

/// Consumers of a program.
const CONSUMERS: u32 = 2;

/// A matrix product of `f16` or `bf16`, summed in `f32`.
#[derive(Clone, PartialEq, Debug)]
pub struct RingGemm {
    /// Element type of all three matrices.
    pub elem: Scalar,
    /// B is stored `NxK` instead of `KxN`.
    pub trans_b: bool,
    /// How the consumers share the work.
    pub consumers: Consumers,
    /// Rows of a tile.
    pub bm: u32,
    /// Columns of a tile.
    pub bn: u32,
    /// Depth of a slot.
    pub bk: u32,
    /// Slots of the ring.
    pub slots: u32,
    /// Tile rows per group of the order of tiles.
    pub group: u32,
    /// What is known of M, N and K.
    pub extents: [Extent; 3],
}

impl RingGemm {
    /// Tiles of 128 x 128 in turns and a ring of four slots of depth 64, or tiles of 128 x 256 in halves and one of three.
    pub fn new(elem: Scalar, consumers: Consumers) -> RingGemm {
        let (bn, slots) = if consumers == Consumers::PingPong { (128, 4) } else { (256, 3) };
        RingGemm { elem, trans_b: false, consumers, bm: 128, bn, bk: 64, slots, group: 8, extents: [ANY; 3] }
    }

    /// Chooses whether B is stored `NxK`.
    pub fn transposed(mut self, trans_b: bool) -> RingGemm {
        self.trans_b = trans_b;
        self
    }

    /// Chooses the tile and the ring.
    pub fn tile(mut self, bm: u32, bn: u32, bk: u32, slots: u32) -> RingGemm {
        (self.bm, self.bn, self.bk, self.slots) = (bm, bn, bk, slots);
        self
    }

    /// States the facts of a shape.
    pub fn for_shape(mut self, m: u32, n: u32, k: u32) -> RingGemm {
        self.extents = [known(m), known(n), known(k)];
        self
    }

    /// The order of tiles, which is that of [`Gemm`].
    fn order(&self) -> Gemm {
        Gemm { group: self.group, ..Gemm::new(self.elem).tile(self.bm, self.bn, self.bk) }
    }

    /// The kernel; its parameters are the views of A (`[M, K]`), B (`[K, N]`, or `[N, K]` if `trans_b`) and C (`[M, N]`).
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements, and elements without a product.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let Self { elem, bm, bn, bk, slots, extents: [m, n, k], .. } = *self;
        let halves = self.consumers == Consumers::Cooperative;
        let rows = if halves { bm / CONSUMERS } else { bm };
        let name = if halves { "cooperative" } else { "ping_pong" };
        let mut b = KernelBuilder::new(&format!("ring_gemm_{name}_{}_{elem}", if self.trans_b { "nt" } else { "nn" }));
        let a = b.param(matrix(elem, m, k));
        let w = b.param(if self.trans_b { matrix(elem, n, k) } else { matrix(elem, k, n) });
        let c = b.param(matrix(elem, m, n));
        // Each consumer's rows of A lie together, so that it may name them by its number.
        let parts = bm / rows.max(1);
        let slots_a = b.local_alloc(&[slots, parts, rows, bk], elem);
        let slots_b = b.local_alloc(&if self.trans_b { [slots, bn, bk] } else { [slots, bk, bn] }, elem);
        let staging = b.local_alloc(&[CONSUMERS, rows, bn], elem);
        let full = b.barrier_alloc(1, slots);
        let empty = b.barrier_alloc(if halves { CONSUMERS } else { 1 }, slots);
        let turns = (!halves).then(|| b.barrier_alloc(1, CONSUMERS));
        let bytes = (bm + bn) * bk * elem.bytes();
        let depth = b.dim(a, 1);
        let end = b.add(depth, bk - 1);
        let steps = b.div_u(end, bk);
        let (rows_all, cols_all) = (b.dim(c, 0), b.dim(c, 1));
        let (down, across) = (b.ceil_div(rows_all, bm), b.ceil_div(cols_all, bn));
        let tiles = b.mul(down, across);
        let (first, stride) = (b.program_id(0), b.num_programs(0));
        let zero = b.constant(0, Scalar::I32);
        let order = self.order();
        let tasks = [Task::new("producer", 1).registers(24), Task::new("consumer", 4).registers(232).replicas(CONSUMERS)];
        b.tasks(&tasks, |b, task, set| {
            if task == 0 {
                b.for_loop(first, tiles, stride, &[zero], |b, tile, done| {
                    let (row, col) = order.origin_of(b, c, tile);
                    b.for_loop(0, steps, 1, done, |b, i, step| {
                        let (slot, around) = turn(b, step[0], slots);
                        let (free, ready) = (b.barrier_index(empty, slot), b.barrier_index(full, slot));
                        let before = b.add(around, 1);
                        b.barrier_wait(free, before);
                        b.barrier_expect(ready, bytes);
                        let at = b.mul(i, bk);
                        let to = b.local_index(slots_a, slot);
                        for part in 0..parts {
                            let to = b.local_index(to, part);
                            let from = b.add(row, part * rows);
                            b.async_load(a, &[from, at], to, ready);
                        }
                        let to = b.local_index(slots_b, slot);
                        b.async_load(w, &if self.trans_b { [col, at] } else { [at, col] }, to, ready);
                        vec![b.add(step[0], 1)]
                    })
                });
                return;
            }
            // In turns a consumer skips the other's tiles, and their steps.
            let (first, stride, skipped) = if halves {
                (first, stride, None)
            } else {
                let mine = b.mul(set, stride);
                let before = b.mul(set, steps);
                (b.add(first, mine), b.mul(stride, CONSUMERS), Some(before))
            };
            let begin = skipped.unwrap_or(zero);
            let hand_over = |b: &mut KernelBuilder| {
                if let Some(turns) = turns {
                    let other = b.sub(1, set);
                    let theirs = b.barrier_index(turns, other);
                    b.barrier_arrive(theirs);
                }
            };
            // One step's product; its slot is given back when the next one's has begun.
            let multiply = |b: &mut KernelBuilder, i: Value, acc: Value, step: Value| {
                let (slot, around) = turn(b, step, slots);
                let ready = b.barrier_index(full, slot);
                b.barrier_wait(ready, around);
                let x = b.local_index(slots_a, slot);
                let x = if halves { b.local_index(x, set) } else { b.local_index(x, 0) };
                let y = b.local_index(slots_b, slot);
                let y = if self.trans_b { b.local_transpose(y, &[1, 0]) } else { y };
                let sum = b.async_dot(x, y, acc);
                let sum = b.async_dot_wait(sum, 1);
                let later = b.cmp(CmpOp::Ne, i, 0);
                let give = |b: &mut KernelBuilder| {
                    give_back(b, empty, step, slots);
                    vec![]
                };
                b.if_else(later, give, |_| vec![]);
                vec![sum, b.add(step, 1)]
            };
            b.for_loop(first, tiles, stride, &[begin, zero], |b, tile, state| {
                let (done, round) = (state[0], state[1]);
                if let Some(turns) = turns {
                    let mine = b.barrier_index(turns, set);
                    let parity = b.add(round, set);
                    let parity = b.add(parity, 1);
                    b.barrier_wait(mine, parity);
                }
                let none = b.full(&[rows, bn], 0, Scalar::F32);
                // A loop that is known to run needs no zeros to begin with.
                let some = b.cmp(CmpOp::Lt, zero, steps);
                let run = |b: &mut KernelBuilder| {
                    let ends = b.for_loop(zero, steps, 1, &[none, done], |b, i, at| multiply(b, i, at[0], at[1]));
                    hand_over(b);
                    let sums = b.async_dot_wait(ends[0], 0);
                    give_back(b, empty, ends[1], slots);
                    vec![sums, ends[1]]
                };
                let pass = |b: &mut KernelBuilder| {
                    hand_over(b);
                    vec![none, done]
                };
                let ends = b.if_else(some, run, pass);
                let (sums, next) = (ends[0], ends[1]);
                let (row, col) = order.origin_of(b, c, tile);
                let row = if halves {
                    let part = b.mul(set, rows);
                    b.add(row, part)
                } else {
                    row
                };
                let stage = b.local_index(staging, set);
                b.async_store_wait(0);
                let t = b.cast(sums, elem);
                b.local_store(stage, t);
                b.fence_async();
                b.task_barrier();
                b.async_store(c, &[row, col], stage);
                let next = if halves { next } else { b.add(next, steps) };
                vec![next, b.add(round, 1)]
            });
        });
        b.finish()
    }

    /// The grid of at most so many programs for a shape.
    pub fn grid(&self, m: u32, n: u32, most: u32) -> [u32; 3] {
        [self.order().grid(m, n)[0].clamp(1, most.max(1)), 1, 1]
    }

    /// First row and column of a tile.
    pub fn tile_origin(&self, tile: u32, m: u32, n: u32) -> (u32, u32) {
        self.order().tile_origin(tile, m, n)
    }

    /// Tiles of a shape.
    pub fn tiles(&self, m: u32, n: u32) -> u32 {
        programs(m, self.bm).saturating_mul(programs(n, self.bn))
    }
}

/// Arrives at the barrier of the slot of the step before one.
fn give_back(b: &mut KernelBuilder, empty: Value, step: Value, slots: u32) {
    let before = b.sub(step, 1);
    let (slot, _) = turn(b, before, slots);
    let free = b.barrier_index(empty, slot);
    b.barrier_arrive(free);
}
