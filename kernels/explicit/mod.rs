//! Kernels that say who does what: tasks, rings of slots, barriers, clusters. They show the forms, and compete.
//!
//! ```text
//! Doubling       a producer and a consumer over one slot, two barriers; programs in clusters of 2     (the overview listing of TLX)
//! RingGemm       a producer and sets of consumers over a ring of slots: warpgroups that share a tile, or sets that take tiles in ping-pong
//! ClusterNorm    LayerNorm whose rows lie spread over the blocks of a cluster                          (the LayerNorm listing of TLX)
//! StreamNorm     the same by clusters that stay, with copies that go on while blocks wait for each other
//! ```

mod cases;
mod cluster_norm;
mod doubling;
mod ring_gemm;
mod stream_norm;

pub use cases::{BLOCKS, ClusterNormCase, DoublingCase, ROW, RingGemmCase, StreamNormCase, cases};
pub use cluster_norm::ClusterNorm;
pub use doubling::Doubling;
pub use ring_gemm::{Ring, RingGemm};
pub use stream_norm::StreamNorm;

use tilelift_ir::{KernelBuilder, Value};

/// Slot and parity of a step of a ring: the step modulo the slots, and how often the ring was gone around, of which a barrier's wait
/// takes the lowest bit.
fn turn(b: &mut KernelBuilder, step: Value, slots: u32) -> (Value, Value) {
    (b.rem(step, slots), b.div(step, slots))
}

/// The grid positions of a persistent kernel that a set of `[which, of how many]` takes, in their order: each worker begins at its own number, and
/// the sets of a worker take its positions in turn. `body` gets a position's x.
fn positions(
    b: &mut KernelBuilder,
    [set, sets]: [u32; 2],
    init: &[Value],
    body: impl FnOnce(&mut KernelBuilder, Value, &[Value]) -> Vec<Value>,
) {
    let [across, down, deep] = [0, 1, 2].map(|axis| b.num_programs(axis));
    let plane = b.mul(across, down);
    let end = b.mul(plane, deep);
    let (worker, workers) = (b.worker_id(), b.num_workers());
    let first = (0..set).fold(worker, |at, _| b.add(at, workers));
    let stride = if sets > 1 { b.mul(workers, sets) } else { workers };
    b.for_loop(first, end, stride, init, |b, at, carried| {
        let x = b.rem_u(at, across);
        body(b, x, carried)
    });
}
