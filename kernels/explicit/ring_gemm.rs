//! `C = A · B` by a producer that copies and sets of consumer warpgroups that multiply, over a ring of slots.
//!
//! ```text
//! producer     each tile, each step of k:  wait empty[slot]   expect full[slot]   copy A and B to the slot
//! consumers    each of the set's tiles:    its turn ─► wait full[slot]   product   give back the slot of the product before
//!                                          the next set's turn ─► sums ─► staging ─► async stores, part by part
//!
//! one set      cooperative: its warpgroups share the rows of every tile
//! several      ping-pong: the sets take tiles in turn; while one multiplies, the others store
//! ```
//! Program instances are few and take tile after tile; the ring does not stop between tiles. With the numbers of an automatically specialised
//! product in its [`Ring`], it is compiled to the same instructions.

use super::positions::{positions, slot_and_round};
use crate::facts::{ANY, known, matrix};
use crate::gemm::Gemm;
use std::fmt;
use tilelift_ir::{BuildError, BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, Scalar, Task, Value};

/// Warps of a warpgroup, and most warpgroups of an instance.
const GROUP_WARPS: u32 = 4;
const MAX_GROUPS: u32 = 16;

/// Largest extent of a tile, and most slots: beyond it there is no room anywhere.
const MAX_EXTENT: u32 = 1024;

/// Shape of a ring GEMM: its tile, its ring, and who consumes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Ring {
    /// Rows and columns of a tile, depth of a slot.
    pub tile: [u32; 3],
    /// Tile rows per group of the order of tiles.
    pub group: u32,
    /// Slots of the ring.
    pub slots: u32,
    /// Consumer warpgroups that share a tile.
    pub consumers: u32,
    /// Sets of so many; several take tiles in ping-pong.
    pub consumer_sets: u32,
    /// The rows of a tile leave in so many parts, one behind the other through the same bytes.
    pub parts: u32,
    /// Registers per lane of the producer and of consumers, if they are shared out anew.
    pub registers: Option<[u32; 2]>,
}

impl Ring {
    /// Two warpgroups that share tiles of 128 x 256: what large products of 16-bit elements run with on an H200.
    pub const COOPERATIVE: Ring =
        Ring { tile: [128, 256, 64], group: 8, slots: 3, consumers: 2, consumer_sets: 1, parts: 1, registers: Some([40, 232]) };
    /// Two warpgroups that take tiles of 128 x 192 in ping-pong: the same of those whose depth is small.
    pub const PING_PONG: Ring =
        Ring { tile: [128, 192, 64], group: 8, slots: 4, consumers: 1, consumer_sets: 2, parts: 2, registers: Some([40, 232]) };

    /// True if several sets take tiles in turn.
    pub fn ping_pong(&self) -> bool {
        self.consumer_sets > 1
    }
}

impl fmt::Display for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ring { tile: [bm, bn, bk], group, slots, consumers, consumer_sets, parts, registers } = *self;
        write!(f, "{bm}x{bn}x{bk} c{consumers} s{slots} g{group} t{consumer_sets} p{parts}")?;
        registers.map_or(Ok(()), |[producer, consumers]| write!(f, " r{producer}/{consumers}"))
    }
}

/// A matrix product of `f16` or `bf16`, summed in `f32`.
#[derive(Clone, PartialEq, Debug)]
pub struct RingGemm {
    /// Element type of all three matrices.
    pub elem: Scalar,
    /// B is stored `NxK` instead of `KxN`.
    pub trans_b: bool,
    /// Tile, ring and consumers.
    pub ring: Ring,
    /// What is known of M, N and K.
    pub extents: [Extent; 3],
}

impl RingGemm {
    /// A product of any shape.
    pub fn new(elem: Scalar, ring: Ring) -> RingGemm {
        RingGemm { elem, trans_b: false, ring, extents: [ANY; 3] }
    }

    /// Chooses whether B is stored `NxK`.
    pub fn transposed(mut self, trans_b: bool) -> RingGemm {
        self.trans_b = trans_b;
        self
    }

    /// States the facts of a shape.
    pub fn for_shape(mut self, m: u32, n: u32, k: u32) -> RingGemm {
        self.extents = [known(m), known(n), known(k)];
        self
    }

    /// The order of tiles, which is that of [`Gemm`].
    fn order(&self) -> Gemm {
        let [bm, bn, bk] = self.ring.tile;
        Gemm { group: self.ring.group, ..Gemm::new(self.elem).tile(bm, bn, bk) }
    }

    /// The kernel; its parameters are the views of A (`[M, K]`), B (`[K, N]`, or `[N, K]` if `trans_b`) and C (`[M, N]`).
    ///
    /// # Errors
    /// For element types without such a product, no slots, consumers or parts, rows that parts do not divide, and the builder's for tiles of no
    /// or too many elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        self.check()?;
        let Self { elem, trans_b, ring, extents: [m, n, k] } = *self;
        let [bm, bn, bk] = ring.tile;
        let way = if ring.ping_pong() { "ping_pong" } else { "cooperative" };
        let mut b = KernelBuilder::new(&format!("ring_gemm_{way}_{}_{elem}", if trans_b { "nt" } else { "nn" }));
        let views = [matrix(elem, m, k), if trans_b { matrix(elem, n, k) } else { matrix(elem, k, n) }, matrix(elem, m, n)];
        let [a, w, c] = views.map(|view| b.param(view));
        let slots_a = b.local_alloc(&[ring.slots, bm, bk], elem);
        let slots_b = b.local_alloc(&if trans_b { [ring.slots, bn, bk] } else { [ring.slots, bk, bn] }, elem);
        let part = [bm / ring.parts, bn];
        let staging = if ring.ping_pong() { b.local_alloc(&[ring.consumer_sets, part[0], bn], elem) } else { b.local_alloc(&part, elem) };
        let full = b.barrier_alloc(1, ring.slots);
        let empty = b.barrier_alloc(1, ring.slots);
        let ping_pong = ring.ping_pong().then(|| {
            let barriers = b.barrier_alloc(1, ring.consumer_sets);
            let depth = b.dim(a, 1);
            let end = b.add(depth, bk - 1);
            PingPong { barriers, steps: b.div_u(end, bk) }
        });
        let program =
            Program { gemm: self, order: self.order(), views: [a, w, c], slots: [slots_a, slots_b], staging, full, empty, ping_pong };
        let task = |name: &str, groups: u32, role: usize| {
            let task = Task::new(name, groups * GROUP_WARPS);
            ring.registers.map_or(task.clone(), |r| task.registers(r[role]))
        };
        let tasks = [task("producer", 1, 0), task("consumers", ring.consumers, 1).replicas(ring.consumer_sets)];
        b.tasks(&tasks, |b, task, set| match task {
            0 => program.produce(b),
            _ => program.consume(b, set),
        });
        b.finish()
    }

    fn check(&self) -> Result<(), BuildErrors> {
        self.order().check()?;
        let Ring { tile, slots, consumers, consumer_sets, parts, .. } = self.ring;
        let fields = [
            ("elem", matches!(self.elem, Scalar::F16 | Scalar::BF16), "use f16 or bf16"),
            ("tile", tile.iter().all(|e| (1..=MAX_EXTENT).contains(e)), "use extents from 1 to 1024"),
            ("slots", (1..=MAX_EXTENT).contains(&slots), "use 2 at least, so that copies run beside products"),
            ("consumers", (1..=MAX_GROUPS).contains(&consumers), "use 1 at least, and no more than an instance has room for"),
            ("consumer_sets", (1..=MAX_GROUPS).contains(&consumer_sets), "use 1 at least, and no more than an instance has room for"),
            ("parts", parts > 0 && tile[0].is_multiple_of(parts), "use 1 or what divides a tile's rows"),
        ];
        let wrong = fields.into_iter().filter(|f| !f.1);
        let errors: Vec<BuildError> =
            wrong.map(|(field, _, how)| BuildError::new("RingGemm::build", format!("field `{field}` is of no use here; {how}"))).collect();
        if errors.is_empty() { Ok(()) } else { Err(BuildErrors(errors)) }
    }

    /// The launch grid for a shape: a position for each tile.
    pub fn grid(&self, m: u32, n: u32) -> [u32; 3] {
        self.order().grid(m, n)
    }

    /// First row and column of a tile.
    pub fn tile_origin(&self, tile: u32, m: u32, n: u32) -> (u32, u32) {
        self.order().tile_origin(tile, m, n)
    }
}

/// What the tasks share.
struct Program<'g> {
    gemm: &'g RingGemm,
    order: Gemm,
    /// A, B and C.
    views: [Value; 3],
    /// The slots of A and B.
    slots: [Value; 2],
    /// A buffer through which results leave, one per set if there are several.
    staging: Value,
    /// A slot has been filled; it may be.
    full: Value,
    empty: Value,
    /// Where sets take tiles in turn.
    ping_pong: Option<PingPong>,
}

/// What sets in ping-pong go by.
#[derive(Clone, Copy)]
struct PingPong {
    /// A barrier per set: it may multiply.
    barriers: Value,
    /// Steps of a tile, by which a set passes over those of others.
    steps: Value,
}

/// A set that waits to multiply.
#[derive(Clone, Copy)]
struct HandOver {
    barriers: Value,
    /// The set, and the one that comes behind it.
    own: Value,
    next: Value,
    /// The phase of its barrier that has to be over.
    phase: Value,
}

impl HandOver {
    fn take(self, b: &mut KernelBuilder) {
        let own = b.barrier_index(self.barriers, self.own);
        b.barrier_wait(own, self.phase);
    }

    fn give(self, b: &mut KernelBuilder) {
        let next = b.barrier_index(self.barriers, self.next);
        b.barrier_arrive(next);
    }
}

impl Program<'_> {
    fn ring(&self) -> Ring {
        self.gemm.ring
    }

    /// Fills slot after slot, for all tiles of the worker.
    fn produce(&self, b: &mut KernelBuilder) {
        let ([a, w, c], [slots_a, slots_b]) = (self.views, self.slots);
        let [bm, bn, bk] = self.ring().tile;
        let none = b.constant(0, Scalar::I32);
        positions(b, (none, 1), &[none], |b, tile, done| {
            let (row, col) = self.order.origin_of(b, c, tile);
            self.over_depth(b, done, |b, i, done| {
                let at = if self.ping_pong.is_some() { b.mul(i, bk) } else { i };
                let (slot, round) = slot_and_round(b, done[0], self.ring().slots);
                let free = b.barrier_index(self.empty, slot);
                // The phase before the one that is filled: a wait for that passes a fresh barrier.
                let before = b.add(round, 1);
                b.barrier_wait(free, before);
                let ready = b.barrier_index(self.full, slot);
                b.barrier_expect(ready, (bm + bn) * bk * self.gemm.elem.bytes());
                let to = b.local_index(slots_a, slot);
                b.async_load(a, &[row, at], to, ready);
                let to = b.local_index(slots_b, slot);
                b.async_load(w, &if self.gemm.trans_b { [col, at] } else { [at, col] }, to, ready);
                vec![b.add(done[0], 1)]
            })
        });
    }

    /// Multiplies and stores the tiles of a set. Steps count through all tiles of the worker, whoever takes them.
    fn consume(&self, b: &mut KernelBuilder, set: Value) {
        let sets = self.ring().consumer_sets;
        let none = b.constant(0, Scalar::I32);
        let Some(PingPong { barriers, steps }) = self.ping_pong else {
            positions(b, (none, 1), &[none], |b, tile, done| vec![self.tile(b, tile, done[0], self.staging, None)]);
            return;
        };
        let stage = b.local_index(self.staging, set);
        let begin = b.mul(steps, set);
        let others = if sets == 2 { steps } else { b.mul(steps, sets - 1) };
        let one = b.constant(1, Scalar::I32);
        // The set behind, and 1 for the first one alone.
        let (next, is_first) = if sets == 2 {
            let other = b.sub(one, set);
            (other, other)
        } else {
            let behind = b.add(set, 1);
            let first = b.minimum(set, 1);
            (b.rem(behind, sets), b.sub(one, first))
        };
        positions(b, (set, sets), &[begin, none], |b, tile, carried| {
            // The nth tile waits for the nth that was handed over; the first of all needs nobody to do that, so the first set waits for the one before.
            let phase = b.add(carried[1], is_first);
            let hand_over = HandOver { barriers, own: set, next, phase };
            let done = self.tile(b, tile, carried[0], stage, Some(hand_over));
            vec![b.add(done, others), b.add(carried[1], 1)]
        });
    }

    /// A tile of a set, whose first step has number `done`, and whose results leave through `stage`; gives the number of the step behind.
    fn tile(&self, b: &mut KernelBuilder, tile: Value, done: Value, stage: Value, hand_over: Option<HandOver>) -> Value {
        let [bm, bn, _] = self.ring().tile;
        let (row, col) = self.order.origin_of(b, self.views[2], tile);
        let none = b.full(&[bm, bn], 0, Scalar::F32);
        if let Some(hand_over) = hand_over {
            hand_over.take(b);
        }
        let hand_over = |b: &mut KernelBuilder| {
            if let Some(hand_over) = hand_over {
                hand_over.give(b);
            }
        };
        // A loop that is known to run needs no zeros to begin with.
        let end = self.end(b);
        let zero = b.constant(0, Scalar::I32);
        let some = b.cmp(CmpOp::Lt, zero, end);
        let run = |b: &mut KernelBuilder| {
            let ends = self.over_depth(b, &[none, done], |b, i, carried| self.multiply(b, i, carried[0], carried[1]));
            // All products have begun.
            hand_over(b);
            let sums = b.async_dot_wait(ends[0], 0);
            self.give_back(b, ends[1]);
            vec![sums, ends[1]]
        };
        let pass = |b: &mut KernelBuilder| {
            hand_over(b);
            vec![none, done]
        };
        let ends = b.if_else(some, run, pass);
        self.store(b, ends[0], [row, col], stage);
        ends[1]
    }

    /// One step's product; the slot of the step before is given back when this one's has begun.
    fn multiply(&self, b: &mut KernelBuilder, i: Value, sums: Value, done: Value) -> Vec<Value> {
        let [slots_a, slots_b] = self.slots;
        let (slot, round) = slot_and_round(b, done, self.ring().slots);
        let ready = b.barrier_index(self.full, slot);
        b.barrier_wait(ready, round);
        let x = b.local_index(slots_a, slot);
        let y = b.local_index(slots_b, slot);
        let y = if self.gemm.trans_b { b.local_transpose(y, &[1, 0]) } else { y };
        let sums = b.async_dot(x, y, sums);
        let sums = b.async_dot_wait(sums, 1);
        let later = b.cmp(CmpOp::Ne, i, 0);
        b.if_then(later, |b| self.give_back(b, done));
        vec![sums, b.add(done, 1)]
    }

    /// Gives back the slot of the step before one.
    fn give_back(&self, b: &mut KernelBuilder, step: Value) {
        let before = b.sub(step, 1);
        let slot = b.rem(before, self.ring().slots);
        let free = b.barrier_index(self.empty, slot);
        b.barrier_arrive(free);
    }

    /// Sums leave for a tile of C, part by part: what the set's buffer holds is read before it is written again.
    fn store(&self, b: &mut KernelBuilder, sums: Value, [row, col]: [Value; 2], stage: Value) {
        let Ring { tile: [bm, bn, _], parts, .. } = self.ring();
        let results = b.cast(sums, self.gemm.elem);
        let rows = bm / parts;
        for part in 0..parts {
            let leaving = if parts == 1 { results } else { b.slice(results, &[part * rows, 0], &[rows, bn]) };
            b.async_store_wait(0);
            b.local_store(stage, leaving);
            b.fence_async();
            b.task_barrier();
            let row = if part == 0 { row } else { b.add(row, part * rows) };
            b.async_store(self.views[2], &[row, col], stage);
        }
    }

    /// What the loop over the depth counts up to: steps where sets ping-pong, else elements.
    fn end(&self, b: &mut KernelBuilder) -> Value {
        self.ping_pong.map_or_else(|| b.dim(self.views[0], 1), |t| t.steps)
    }

    /// The loop over the depth; `body` gets what it counts, which is 0 in the first step.
    fn over_depth(
        &self,
        b: &mut KernelBuilder,
        init: &[Value],
        body: impl FnOnce(&mut KernelBuilder, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let end = self.end(b);
        b.for_loop(0, end, if self.ping_pong.is_some() { 1 } else { self.ring().tile[2] }, init, body)
    }
}
