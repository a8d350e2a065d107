//! Where in a ring a step is, and which grid positions a worker takes.

use tilelift_ir::{KernelBuilder, Value};

/// Slot and parity of a step of a ring: the step modulo the slots, and how often the ring was gone around, of which a barrier's wait
/// takes the lowest bit.
pub(super) fn slot_and_round(b: &mut KernelBuilder, step: Value, slots: u32) -> (Value, Value) {
    (b.rem(step, slots), b.div(step, slots))
}

/// The grid positions of a persistent kernel that a set takes, one of how many, in their order: each worker begins at its own number, and
/// the sets of a worker take its positions in turn. `body` gets a position's x.
pub(super) fn positions(
    b: &mut KernelBuilder,
    (set, sets): (Value, u32),
    init: &[Value],
    body: impl FnOnce(&mut KernelBuilder, Value, &[Value]) -> Vec<Value>,
) {
    let [across, down, deep] = [0, 1, 2].map(|axis| b.num_programs(axis));
    let plane = b.mul(across, down);
    let end = b.mul(plane, deep);
    let (worker, workers) = (b.worker_id(), b.num_workers());
    let (mut first, mut stride) = (worker, workers);
    if sets > 1 {
        let before = b.mul(workers, set);
        (first, stride) = (b.add(worker, before), b.mul(workers, sets));
    }
    b.for_loop(first, end, stride, init, |b, at, carried| {
        let x = b.rem_u(at, across);
        body(b, x, carried)
    });
}
