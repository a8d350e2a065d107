//! `C = A · B` by clusters of two blocks that share an operand: each copies half of it into the slots of both (multicast).
//!
//! ```text
//!   pair of rows                 block 0: A₀ · B           block 0 copies A₀ and the first half of B, block 1 A₁ and the second half;
//!                                block 1: A₁ · B           a slot is free when the consumers of both blocks have given it back
//!   pair of columns              the same of A · B₀ and A · B₁
//! ```
//! A block fetches three quarters, or less, of what it multiplies, where the cache that all multiprocessors share is what bounds a product: rows that
//! begin anywhere in a line of it are fetched in two pieces, and neighbours' requests for them do not meet on their way.
//!
//! As many blocks as there are multiprocessors are launched, an even number; each cluster takes pairs of tiles one behind the other, and the ring does not stop
//! between them. A consumer is a warpgroup with 64 rows of the block's tile, or 128 of them in two halves.

use super::positions::slot_and_round;
use crate::facts::{matrix, vector};
use crate::gemm::Gemm;
use crate::launch::{Argument, Launches};
use tilelift_ir::{BuildError, BuildErrors, CmpOp, Kernel, KernelBuilder, Scalar, Task, Value};

pub use tilelift_schedule::gemm::Pair;

/// Blocks of a cluster.
const BLOCKS: u32 = 2;
/// Warps of a warpgroup.
const GROUP_WARPS: u32 = 4;
/// Bytes of a row of a swizzled tile: a part of a slot that begins at a multiple of it is a tile by itself.
const SWIZZLE: u32 = 128;
/// Rows that lie whole in one atom of a swizzled tile.
const ATOM: u32 = 8;
/// Registers per lane of the producer and of consumers where there are two of them.
const REGISTERS: [u32; 2] = [40, 232];

/// A matrix product by clusters of two blocks.
#[derive(Clone, PartialEq, Debug)]
pub struct ClusterGemm {
    /// The product: types, storage, epilogue, tile of a block, order of tiles, slots of the ring (`stages`).
    pub gemm: Gemm,
    /// The tiles of the blocks.
    pub pair: Pair,
    /// Consumer warpgroups, each with as many rows of a tile.
    pub consumers: u32,
}

impl ClusterGemm {
    /// A product with so many consumer warpgroups.
    pub fn new(gemm: Gemm, pair: Pair, consumers: u32) -> ClusterGemm {
        ClusterGemm { gemm, pair, consumers }
    }

    /// The tile of a cluster.
    fn pair_tile(&self) -> [u32; 2] {
        match self.pair {
            Pair::Rows => [self.gemm.bm.saturating_mul(BLOCKS), self.gemm.bn],
            Pair::Columns => [self.gemm.bm, self.gemm.bn.saturating_mul(BLOCKS)],
        }
    }

    /// The order of the clusters' tiles.
    fn order(&self) -> Gemm {
        let [bm, bn] = self.pair_tile();
        let group = if self.pair == Pair::Rows { self.gemm.group.div_ceil(BLOCKS) } else { self.gemm.group };
        Gemm { group, ..self.gemm.clone().tile(bm, bn, self.gemm.bk) }
    }

    /// Which blocks run for a shape on so many multiprocessors.
    pub fn grid(&self, m: u32, n: u32, processors: u32) -> [u32; 3] {
        let clusters = self.order().grid(m, n)[0].min(processors / BLOCKS).max(1);
        [clusters.saturating_mul(BLOCKS), 1, 1]
    }

    /// Where the tiles begin that one of so many blocks computes: row and column.
    pub(crate) fn tile_origins(&self, block: u32, blocks: u32, [m, n]: [u32; 2]) -> impl Iterator<Item = [u64; 2]> {
        let (order, rank) = (self.order(), u64::from(block % BLOCKS));
        let [down, right] = match self.pair {
            Pair::Rows => [u64::from(self.gemm.bm), 0],
            Pair::Columns => [0, u64::from(self.gemm.bn)],
        };
        let pairs = (block / BLOCKS..order.grid(m, n)[0]).step_by((blocks / BLOCKS).max(1) as usize);
        pairs.map(move |pair| {
            let (row, col) = order.tile_origin(pair, m, n);
            [u64::from(row) + rank * down, u64::from(col) + rank * right]
        })
    }

    /// The kernel; its parameters are the views of A, B, the bias (only if there is one) and C, as [`Gemm::build`] has them.
    ///
    /// # Errors
    /// As [`Gemm::build`]; operands that are exchanged or are no 16-bit floats; halves of a slot that are no tiles by themselves.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        self.check()?;
        let g = &self.gemm;
        let mut b = KernelBuilder::new(&format!("cluster_gemm_{}_{}_{}", g.order(), g.operands(), g.out));
        b.cluster(BLOCKS);
        let [a, w] = g.inputs(&mut b);
        let bias = g.bias.map(|t| b.param(vector(t, g.n)));
        let c = b.param(matrix(g.out, g.m, g.n));
        let stored = |transposed: bool, [rows, cols]: [u32; 2]| if transposed { [g.stages, cols, rows] } else { [g.stages, rows, cols] };
        let slots = [b.local_alloc(&stored(g.trans_a, [g.bm, g.bk]), g.elem), b.local_alloc(&stored(g.trans_b, [g.bk, g.bn]), g.elem)];
        let rows = g.bm / self.consumers;
        let staging: Vec<Value> = (0..self.consumers).map(|_| b.local_alloc(&[rows, g.bn], g.out)).collect();
        let full = b.barrier_alloc(1, g.stages);
        let empty = b.barrier_alloc(BLOCKS * self.consumers, g.stages);
        // Barriers and slots of the other block are reached into when it is there.
        b.cluster_barrier();
        let program = Program { config: self, order: self.order(), views: [a, w, c], bias, slots, staging, full, empty };
        let task = |name: &str, role: usize| {
            let task = Task::new(name, GROUP_WARPS);
            if self.consumers > 1 { task.registers(REGISTERS[role]) } else { task }
        };
        let consumers = (0..self.consumers).map(|n| task(&format!("consumer_{n}"), 1));
        let tasks: Vec<Task> = [task("producer", 0)].into_iter().chain(consumers).collect();
        b.tasks(&tasks, |b, task, _| match task {
            0 => program.produce(b),
            n => program.consume(b, n as u32 - 1),
        });
        b.finish()
    }

    /// The launch for a shape on so many multiprocessors.
    ///
    /// # Errors
    /// As [`ClusterGemm::build`].
    pub fn launches(&self, m: u32, n: u32, processors: u32) -> Result<Launches, BuildErrors> {
        let bias = self.gemm.bias.map(|_| Argument::Bias);
        let arguments = [Argument::A, Argument::B].into_iter().chain(bias).chain([Argument::C]).collect();
        Ok(Launches::one(self.build()?, self.grid(m, n, processors), arguments))
    }

    /// How the shared operand is halved: the dimension of its slot.
    fn half(&self) -> Option<usize> {
        let g = &self.gemm;
        let [rows, cols] = match self.pair {
            Pair::Rows if g.trans_b => [g.bn, g.bk],
            Pair::Rows => [g.bk, g.bn],
            Pair::Columns if g.trans_a => [g.bk, g.bm],
            Pair::Columns => [g.bm, g.bk],
        };
        let bytes = cols.saturating_mul(g.elem.bytes());
        let columns = bytes.is_multiple_of(BLOCKS * SWIZZLE) && bytes > SWIZZLE;
        if columns { Some(1) } else { rows.is_multiple_of(BLOCKS * ATOM).then_some(0) }
    }

    fn check(&self) -> Result<(), BuildErrors> {
        let g = &self.gemm;
        g.check()?;
        let whole = |e: u32| (u64::from(e) * u64::from(g.elem.bytes())).is_multiple_of(u64::from(SWIZZLE));
        let fields = [
            ("elem", matches!(g.elem, Scalar::F16 | Scalar::BF16) && g.elem_b == g.elem, "use f16 or bf16 for both operands"),
            ("swapped", !g.swapped, "clusters multiply operands as they are"),
            ("stages", (2..=64).contains(&g.stages), "use 2 slots at least, so that copies run beside products"),
            ("consumers", self.consumers > 0 && g.bm.is_multiple_of(self.consumers.saturating_mul(ATOM)), "use what divides a tile's rows"),
            ("bm", !g.trans_a || whole(g.bm / self.consumers.max(1)), "use rows of 128 bytes for each consumer"),
            ("bk", self.half().is_some(), "use halves of rows that lie whole in a swizzled tile"),
        ];
        let wrong = fields.into_iter().filter(|f| !f.1);
        let errors: Vec<BuildError> = wrong
            .map(|(field, _, how)| BuildError::new("ClusterGemm::build", format!("field `{field}` is of no use here; {how}")))
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(BuildErrors(errors)) }
    }
}

/// What the tasks share.
struct Program<'g> {
    config: &'g ClusterGemm,
    order: Gemm,
    /// A, B and C.
    views: [Value; 3],
    bias: Option<Value>,
    /// The slots of A and B.
    slots: [Value; 2],
    /// A buffer per consumer, through which results leave.
    staging: Vec<Value>,
    /// A slot has been filled; it may be.
    full: Value,
    empty: Value,
}

impl Program<'_> {
    /// The tiles of a cluster, one behind the other; `body` gets the first row and column of this block's.
    fn tiles(&self, b: &mut KernelBuilder, body: impl FnOnce(&mut KernelBuilder, [Value; 2], Value, Value) -> Value) {
        let g = &self.config.gemm;
        let [all, own] = [b.num_programs(0), b.program_id(0)];
        let clusters = b.div(all, BLOCKS);
        let cluster = b.div(own, BLOCKS);
        let rank = b.cluster_rank();
        let (m, n) = (b.dim(self.views[2], 0), b.dim(self.views[2], 1));
        let [bm, bn] = self.config.pair_tile();
        let extents = [b.ceil_div(m, bm), b.ceil_div(n, bn)];
        let tiles = b.mul(extents[0], extents[1]);
        let none = b.constant(0, Scalar::I32);
        b.for_loop(cluster, tiles, clusters, &[none], |b, tile, done| {
            let (row, col) = self.order.origin_among(b, extents, tile);
            let at = match self.config.pair {
                Pair::Rows => {
                    let below = b.mul(rank, g.bm);
                    [b.add(row, below), col]
                }
                Pair::Columns => {
                    let beside = b.mul(rank, g.bn);
                    [row, b.add(col, beside)]
                }
            };
            vec![body(b, at, rank, done[0])]
        });
    }

    /// Fills slot after slot.
    fn produce(&self, b: &mut KernelBuilder) {
        let g = &self.config.gemm;
        let [a, w, _] = self.views;
        self.tiles(b, |b, [row, col], rank, done| {
            let depth = b.dim(a, u32::from(!g.trans_a));
            b.for_loop(0, depth, g.bk, &[done], |b, i, done| {
                let (slot, round) = slot_and_round(b, done[0], g.stages);
                let free = b.barrier_index(self.empty, slot);
                // The phase before the one that is filled: a wait for that passes a fresh barrier.
                let before = b.add(round, 1);
                b.barrier_wait(free, before);
                let ready = b.barrier_index(self.full, slot);
                b.barrier_expect(ready, (g.bm + g.bn) * g.bk * g.elem.bytes());
                let [to_a, to_b] = self.slots.map(|s| b.local_index(s, slot));
                let at_a = if g.trans_a { [i, row] } else { [row, i] };
                let at_b = if g.trans_b { [col, i] } else { [i, col] };
                let stored = |transposed: bool, [rows, cols]: [u32; 2]| if transposed { [cols, rows] } else { [rows, cols] };
                let (shape_a, shape_b) = (stored(g.trans_a, [g.bm, g.bk]), stored(g.trans_b, [g.bk, g.bn]));
                match self.config.pair {
                    Pair::Rows => {
                        b.async_load(a, &at_a, to_a, ready);
                        self.halves(b, w, at_b, (to_b, shape_b), (ready, rank));
                    }
                    Pair::Columns => {
                        b.async_load(w, &at_b, to_b, ready);
                        self.halves(b, a, at_a, (to_a, shape_a), (ready, rank));
                    }
                }
                vec![b.add(done[0], 1)]
            })[0]
        });
    }

    /// This block's half of the operand that both share, to both.
    fn halves(&self, b: &mut KernelBuilder, view: Value, at: [Value; 2], (to, shape): (Value, [u32; 2]), (ready, rank): (Value, Value)) {
        let along = self.config.half().unwrap_or(0);
        let mut half = shape;
        half[along] /= BLOCKS;
        let mut from = at;
        let beyond = b.mul(rank, half[along]);
        from[along] = b.add(at[along], beyond);
        let first = b.cmp(CmpOp::Eq, rank, 0);
        let copy = |b: &mut KernelBuilder, offset: u32| {
            let mut offsets = [0; 2];
            offsets[along] = offset;
            let part = b.local_slice(to, &offsets, &half);
            b.async_load_multicast(view, &from, part, ready, (1 << BLOCKS) - 1);
            Vec::new()
        };
        b.if_else(first, |b| copy(b, 0), |b| copy(b, half[along]));
    }

    /// Multiplies and stores a consumer's rows of each tile.
    fn consume(&self, b: &mut KernelBuilder, n: u32) {
        let g = &self.config.gemm;
        let rows = g.bm / self.config.consumers;
        self.tiles(b, |b, [row, col], rank, done| {
            let other = b.sub(1, rank);
            let none = b.full(&[rows, g.bn], 0, Scalar::F32);
            let depth = b.dim(self.views[0], u32::from(!g.trans_a));
            // A loop that is known to run needs no zeros to begin with.
            let some = b.cmp(CmpOp::Lt, 0, depth);
            let run = |b: &mut KernelBuilder| {
                let ends = b.for_loop(0, depth, g.bk, &[none, done], |b, i, carried| {
                    let sums = self.multiply(b, n * rows, carried[0], carried[1]);
                    let later = b.cmp(CmpOp::Ne, i, 0);
                    b.if_then(later, |b| self.give_back(b, carried[1], other));
                    vec![sums, b.add(carried[1], 1)]
                });
                let sums = b.async_dot_wait(ends[0], 0);
                self.give_back(b, ends[1], other);
                vec![sums, ends[1]]
            };
            let ends = b.if_else(some, run, |_| vec![none, done]);
            let results = g.finished(b, ends[0], self.bias, col);
            let stage = self.staging[n as usize];
            b.async_store_wait(0);
            b.local_store(stage, results);
            b.fence_async();
            b.task_barrier();
            let row = b.add(row, n * rows);
            b.async_store(self.views[2], &[row, col], stage);
            ends[1]
        });
    }

    /// One step's product of the rows from `first` on.
    fn multiply(&self, b: &mut KernelBuilder, first: u32, sums: Value, done: Value) -> Value {
        let g = &self.config.gemm;
        let rows = g.bm / self.config.consumers;
        let (slot, round) = slot_and_round(b, done, g.stages);
        let ready = b.barrier_index(self.full, slot);
        b.barrier_wait(ready, round);
        let [x, y] = self.slots.map(|s| b.local_index(s, slot));
        let x = match (self.config.consumers, g.trans_a) {
            (1, _) => x,
            (_, true) => b.local_slice(x, &[0, first], &[g.bk, rows]),
            (_, false) => b.local_slice(x, &[first, 0], &[rows, g.bk]),
        };
        let x = if g.trans_a { b.local_transpose(x, &[1, 0]) } else { x };
        let y = if g.trans_b { b.local_transpose(y, &[1, 0]) } else { y };
        let sums = b.async_dot(x, y, sums);
        b.async_dot_wait(sums, 1)
    }

    /// Gives back the slot of the step before one, to the producers of both blocks.
    fn give_back(&self, b: &mut KernelBuilder, step: Value, other: Value) {
        let before = b.sub(step, 1);
        let slot = b.rem(before, self.config.gemm.stages);
        let free = b.barrier_index(self.empty, slot);
        b.barrier_arrive(free);
        b.remote_arrive(free, other);
    }
}
