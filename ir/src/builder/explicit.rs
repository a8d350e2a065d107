//! Builder methods of explicit control: local memory, barriers, async copies and products, tasks, clusters, channels.

use super::{KernelBuilder, Operand};
use crate::entities::Value;
use crate::ops::{AtomicOp, Attr, Op, Precision, Task};
use crate::types::{ChannelType, Scalar, Shape, SharedType, TileType, Type};
use smallvec::SmallVec;

impl KernelBuilder {
    /// Makes `n` program instances that are neighbours along x a cluster.
    pub fn cluster(&mut self, n: u32) -> &mut Self {
        self.kernel.cluster = n;
        self
    }

    /// Makes each program instance stand for so many neighbouring positions of the launch grid along x, y and z.
    pub fn positions(&mut self, each: [u32; 3]) -> &mut Self {
        self.kernel.positions = each;
        self
    }

    /// Local memory of some extents; leading ones may serve as slots. Belongs in the kernel's body, outside of tasks and loops.
    #[track_caller]
    pub fn local_alloc(&mut self, shape: &[u32], elem: Scalar) -> Value {
        self.local_alloc_swizzled(shape, elem, 0)
    }

    /// Local memory of which so many bytes of a row, 32, 64 or 128, lie side by side where async units use it; 0 for as many as its rows permit.
    #[track_caller]
    pub fn local_alloc_swizzled(&mut self, shape: &[u32], elem: Scalar, swizzle: u32) -> Value {
        self.push(Op::LocalAlloc, &[], 0, &[Attr::Count(swizzle)], Some(Type::Shared(SharedType::new(shape, elem))))
    }

    /// Local memory that shares the bytes of a buffer, which is at least as large.
    #[track_caller]
    pub fn local_alloc_alias(&mut self, of: Value, shape: &[u32], elem: Scalar) -> Value {
        self.push(Op::LocalAlloc, &[of], 1, &[Attr::Count(0)], Some(Type::Shared(SharedType::new(shape, elem))))
    }

    /// The part of a buffer at a position of its first dimension: a slot.
    #[track_caller]
    pub fn local_index(&mut self, buffer: Value, i: impl Into<Operand>) -> Value {
        let i = self.value(i.into(), Some(Scalar::I32));
        self.push(Op::LocalIndex, &[buffer, i], 0, &[], None)
    }

    /// The part of a buffer at constant offsets.
    #[track_caller]
    pub fn local_slice(&mut self, buffer: Value, offsets: &[u32], shape: &[u32]) -> Value {
        let ty = Type::Shared(SharedType::new(shape, self.ty(buffer).elem()));
        self.push(Op::LocalSlice, &[buffer], 0, &[Attr::Offsets(Shape::from_slice(offsets))], Some(ty))
    }

    /// A buffer with its dimensions permuted; nothing moves.
    #[track_caller]
    pub fn local_transpose(&mut self, buffer: Value, perm: &[u32]) -> Value {
        self.push(Op::LocalTranspose, &[buffer], 0, &[Attr::Perm(Shape::from_slice(perm))], None)
    }

    /// The bytes of a buffer as another type of the same size.
    #[track_caller]
    pub fn local_reinterpret(&mut self, buffer: Value, shape: &[u32], elem: Scalar) -> Value {
        self.push(Op::LocalReinterpret, &[buffer], 0, &[], Some(Type::Shared(SharedType::new(shape, elem))))
    }

    /// The tile in a buffer.
    #[track_caller]
    pub fn local_load(&mut self, buffer: Value) -> Value {
        self.push(Op::LocalLoad, &[buffer], 0, &[], None)
    }

    /// Writes a tile to a buffer.
    #[track_caller]
    pub fn local_store(&mut self, buffer: Value, value: Value) {
        self.push(Op::LocalStore, &[buffer, value], 0, &[], None);
    }

    /// Writes the elements of a tile to a buffer whose mask is true.
    #[track_caller]
    pub fn local_store_masked(&mut self, buffer: Value, value: Value, mask: Value) {
        self.push(Op::LocalStore, &[buffer, value, mask], 0b100, &[], None);
    }

    /// So many barriers, each of which ends a phase after `arrivals` arrivals and all bytes it expects. Belongs in the kernel's body.
    #[track_caller]
    pub fn barrier_alloc(&mut self, arrivals: u32, barriers: u32) -> Value {
        self.push(Op::BarrierAlloc, &[], 0, &[Attr::Count(arrivals)], Some(Type::Barrier(barriers)))
    }

    /// One barrier of several.
    #[track_caller]
    pub fn barrier_index(&mut self, barriers: Value, i: impl Into<Operand>) -> Value {
        let i = self.value(i.into(), Some(Scalar::I32));
        self.push(Op::BarrierIndex, &[barriers, i], 0, &[], None)
    }

    /// One arrival, with so many bytes of async copies to come in this phase.
    #[track_caller]
    pub fn barrier_expect(&mut self, barrier: Value, bytes: u32) {
        self.push(Op::BarrierExpect, &[barrier], 0, &[Attr::Count(bytes)], None);
    }

    /// One arrival of the whole task.
    #[track_caller]
    pub fn barrier_arrive(&mut self, barrier: Value) {
        self.push(Op::BarrierArrive, &[barrier], 0, &[], None);
    }

    /// Waits for the end of the phase of a parity.
    #[track_caller]
    pub fn barrier_wait(&mut self, barrier: Value, parity: impl Into<Operand>) {
        let parity = self.value(parity.into(), Some(Scalar::I32));
        self.push(Op::BarrierWait, &[barrier, parity], 0, &[], None);
    }

    /// Waits until all lanes of the task are here.
    #[track_caller]
    pub fn task_barrier(&mut self) {
        self.push(Op::TaskBarrier, &[], 0, &[], None);
    }

    /// Waits until so many warps came to the barrier of a number from 1 to 15.
    #[track_caller]
    pub fn named_barrier_sync(&mut self, number: u32, warps: u32) {
        self.push(Op::NamedBarrierSync, &[], 0, &[Attr::Count(number), Attr::Count(warps)], None);
    }

    /// Comes to the barrier of a number without waiting.
    #[track_caller]
    pub fn named_barrier_arrive(&mut self, number: u32, warps: u32) {
        self.push(Op::NamedBarrierArrive, &[], 0, &[Attr::Count(number), Attr::Count(warps)], None);
    }

    /// Each warpgroup of the task waits for its first turn.
    #[track_caller]
    pub fn turn_first(&mut self) {
        self.push(Op::TurnFirst, &[], 0, &[], None);
    }

    /// Each warpgroup of the task waits for its next turn.
    #[track_caller]
    pub fn turn_wait(&mut self) {
        self.push(Op::TurnWait, &[], 0, &[], None);
    }

    /// Ends the turn of each warpgroup of the task.
    #[track_caller]
    pub fn turn_pass(&mut self) {
        self.push(Op::TurnPass, &[], 0, &[], None);
    }

    /// Ends the last turn of each warpgroup of the task.
    #[track_caller]
    pub fn turn_last(&mut self) {
        self.push(Op::TurnLast, &[], 0, &[], None);
    }

    /// What the task wrote to local memory before is seen by the async units behind it.
    #[track_caller]
    pub fn fence_async(&mut self) {
        self.push(Op::FenceAsync, &[], 0, &[], None);
    }

    /// Begins a copy of a box of a view into a buffer of its extents; the bytes arrive at the barrier.
    #[track_caller]
    pub fn async_load(&mut self, view: Value, at: &[Value], buffer: Value, barrier: Value) {
        self.copy(Op::AsyncLoad, &[], view, at, &[buffer, barrier], 0);
    }

    /// As [`KernelBuilder::async_load`] to each block of the cluster whose bit is set in the mask.
    #[track_caller]
    pub fn async_load_multicast(&mut self, view: Value, at: &[Value], buffer: Value, barrier: Value, mask: impl Into<Operand>) {
        let mask = self.value(mask.into(), Some(Scalar::I32));
        self.copy(Op::AsyncLoad, &[], view, at, &[buffer, barrier, mask], 0b1_0000);
    }

    /// Begins a copy of a tile of a view into a buffer of its extents by the task's lanes; elements outside the view are zeros.
    #[track_caller]
    pub fn copy_async(&mut self, view: Value, at: &[Value], buffer: Value) {
        self.copy(Op::CopyAsync, &[], view, at, &[buffer], 0);
    }

    /// As [`KernelBuilder::copy_async`]; elements whose mask is false are `other`, zeros without it.
    #[track_caller]
    pub fn copy_async_masked(&mut self, view: Value, at: &[Value], buffer: Value, mask: Value, other: Option<Value>) {
        let behind: SmallVec<[Value; 4]> = [buffer, mask].into_iter().chain(other).collect();
        self.copy(Op::CopyAsync, &[], view, at, &behind, if other.is_some() { 0b1_1000 } else { 0b0_1000 });
    }

    /// Begins a copy of the elements that tiles of indices name into a buffer of their extents, by the task's lanes.
    #[track_caller]
    pub fn gather_async(&mut self, view: Value, indices: &[Value], buffer: Value, mask: Option<Value>) {
        let args: SmallVec<[Value; 6]> = [view].into_iter().chain(indices.iter().copied()).chain([buffer]).chain(mask).collect();
        self.push(Op::GatherAsync, &args, if mask.is_some() { 0b1000 } else { 0 }, &[], None);
    }

    /// Closes the group of copies by the task's lanes.
    #[track_caller]
    pub fn copy_async_commit(&mut self) {
        self.push(Op::CopyAsyncCommit, &[], 0, &[], None);
    }

    /// Waits until at most so many of the task's newest groups of copies by its lanes are in flight.
    #[track_caller]
    pub fn copy_async_wait(&mut self, pending: u32) {
        self.push(Op::CopyAsyncWait, &[], 0, &[Attr::Count(pending)], None);
    }

    /// One arrival of the whole task, when the copies that its lanes have begun are there.
    #[track_caller]
    pub fn copy_async_arrive(&mut self, barrier: Value) {
        self.push(Op::CopyAsyncArrive, &[barrier], 0, &[], None);
    }

    /// Begins a copy of a buffer to a box of a view.
    #[track_caller]
    pub fn async_store(&mut self, view: Value, at: &[Value], buffer: Value) {
        self.copy(Op::AsyncStore, &[], view, at, &[buffer], 0);
    }

    /// Begins an update of a box of a view by the elements of a buffer.
    #[track_caller]
    pub fn async_reduce(&mut self, op: AtomicOp, view: Value, at: &[Value], buffer: Value) {
        self.copy(Op::AsyncReduce, &[Attr::Atomic(op)], view, at, &[buffer], 0);
    }

    #[track_caller]
    fn copy(&mut self, op: Op, attrs: &[Attr], view: Value, at: &[Value], behind: &[Value], present: u8) {
        let args: SmallVec<[Value; 8]> = std::iter::once(view).chain(at.iter().copied()).chain(behind.iter().copied()).collect();
        self.push(op, &args, present, attrs, None);
    }

    /// Waits until at most so many of the task's newest async stores still read their buffers.
    #[track_caller]
    pub fn async_store_wait(&mut self, pending: u32) {
        self.push(Op::AsyncStoreWait, &[], 0, &[Attr::Count(pending)], None);
    }

    /// Begins a product of two buffers, or a tile and a buffer, onto an accumulator.
    #[track_caller]
    pub fn async_dot(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.async_dot_with(Precision::Exact, a, b, c)
    }

    /// As [`KernelBuilder::async_dot`] with a precision.
    #[track_caller]
    pub fn async_dot_with(&mut self, precision: Precision, a: Value, b: Value, c: Value) -> Value {
        self.push(Op::AsyncDot, &[a, b, c], 0, &[Attr::Precision(precision)], None)
    }

    /// Waits until at most so many of the task's newest products are in flight, and gives the product's value.
    #[track_caller]
    pub fn async_dot_wait(&mut self, product: Value, pending: u32) -> Value {
        self.push(Op::AsyncDotWait, &[product], 0, &[Attr::Count(pending)], None)
    }

    /// What stands in front is issued before what stands behind.
    #[track_caller]
    pub fn sched_barrier(&mut self) {
        self.push(Op::SchedBarrier, &[], 0, &[], None);
    }

    /// The tasks of the kernel, which are its last instruction; `body` gets each task's number in the list and the replica's number.
    #[track_caller]
    pub fn tasks(&mut self, tasks: &[Task], mut body: impl FnMut(&mut KernelBuilder, usize, Value)) {
        let mut regions = Vec::new();
        for n in 0..tasks.len() {
            let r = self.kernel.add_region();
            let replica = self.kernel.add_region_param(r, Type::Scalar(Scalar::I32));
            self.in_region(r, |b| {
                body(b, n, replica);
                Vec::new()
            });
            regions.push(r);
        }
        let inst = self.kernel.add_inst(Op::Tasks, &[], 0, &[Attr::Tasks(tasks.to_vec())], &regions, &[]);
        self.insert(inst);
    }

    /// The program instance's position in its cluster.
    #[track_caller]
    pub fn cluster_rank(&mut self) -> Value {
        self.push(Op::ClusterRank, &[], 0, &[], None)
    }

    /// The number of program instances of a cluster.
    #[track_caller]
    pub fn cluster_size(&mut self) -> Value {
        self.push(Op::ClusterSize, &[], 0, &[], None)
    }

    /// The number of this program instance among those that run, of a persistent kernel.
    pub fn worker_id(&mut self) -> Value {
        self.push(Op::WorkerId, &[], 0, &[], None)
    }

    /// The number of program instances that run, of a persistent kernel.
    pub fn num_workers(&mut self) -> Value {
        self.push(Op::NumWorkers, &[], 0, &[], None)
    }

    /// Waits for all tasks of all blocks of the cluster.
    #[track_caller]
    pub fn cluster_barrier(&mut self) {
        self.push(Op::ClusterBarrier, &[], 0, &[], None);
    }

    /// The first half of [`KernelBuilder::cluster_barrier`].
    #[track_caller]
    pub fn cluster_arrive(&mut self) {
        self.push(Op::ClusterArrive, &[], 0, &[], None);
    }

    /// The second half of [`KernelBuilder::cluster_barrier`].
    #[track_caller]
    pub fn cluster_wait(&mut self) {
        self.push(Op::ClusterWait, &[], 0, &[], None);
    }

    /// The tile in the same buffer of another block of the cluster.
    #[track_caller]
    pub fn remote_load(&mut self, buffer: Value, rank: impl Into<Operand>) -> Value {
        let rank = self.value(rank.into(), Some(Scalar::I32));
        self.push(Op::RemoteLoad, &[buffer, rank], 0, &[], None)
    }

    /// Writes a tile to the same buffer of another block of the cluster.
    #[track_caller]
    pub fn remote_store(&mut self, buffer: Value, rank: impl Into<Operand>, value: Value) {
        let rank = self.value(rank.into(), Some(Scalar::I32));
        self.push(Op::RemoteStore, &[buffer, rank, value], 0, &[], None);
    }

    /// Begins to write a tile to the same buffer of another block; the bytes arrive at the same barrier of that block.
    #[track_caller]
    pub fn remote_store_async(&mut self, buffer: Value, rank: impl Into<Operand>, value: Value, barrier: Value) {
        let rank = self.value(rank.into(), Some(Scalar::I32));
        self.push(Op::RemoteStoreAsync, &[buffer, rank, value, barrier], 0, &[], None);
    }

    /// One arrival at the same barrier of another block of the cluster.
    #[track_caller]
    pub fn remote_arrive(&mut self, barrier: Value, rank: impl Into<Operand>) {
        let rank = self.value(rank.into(), Some(Scalar::I32));
        self.push(Op::RemoteArrive, &[barrier, rank], 0, &[], None);
    }

    /// A ring of slots that each hold these tiles; `consumers` tasks take every step. Belongs in the kernel's body.
    #[track_caller]
    pub fn channel_alloc(&mut self, depth: u32, tiles: &[TileType], consumers: u32) -> Value {
        let ty = Type::Channel(ChannelType { depth, tiles: tiles.to_vec() });
        self.push(Op::ChannelAlloc, &[], 0, &[Attr::Count(consumers)], Some(ty))
    }

    /// Waits until the slot of a step is free, and fills it.
    #[track_caller]
    pub fn channel_put(&mut self, channel: Value, step: impl Into<Operand>, tiles: &[Value]) {
        let step = self.value(step.into(), Some(Scalar::I32));
        let args: SmallVec<[Value; 8]> = [channel, step].into_iter().chain(tiles.iter().copied()).collect();
        self.push(Op::ChannelPut, &args, 0, &[], None);
    }

    /// Waits until the slot of a step is full, and gives its tiles.
    #[track_caller]
    pub fn channel_get(&mut self, channel: Value, step: impl Into<Operand>) -> Vec<Value> {
        let step = self.value(step.into(), Some(Scalar::I32));
        let first = self.push(Op::ChannelGet, &[channel, step], 0, &[], None);
        let by = self.kernel.def_inst(first).map(|i| &self.kernel.insts[i]).filter(|d| d.op == Op::ChannelGet);
        by.map_or_else(|| vec![first], |d| d.results.to_vec())
    }

    /// This consumer needs the slot of a step no longer.
    #[track_caller]
    pub fn channel_consumed(&mut self, channel: Value, step: impl Into<Operand>) {
        let step = self.value(step.into(), Some(Scalar::I32));
        self.push(Op::ChannelConsumed, &[channel, step], 0, &[], None);
    }
}
