//! Kernels that say who does what: tasks, rings of slots, barriers, clusters. They show the forms, and compete.
//!
//! ```text
//! Doubling       a producer and a consumer over one slot, two barriers; programs in clusters of 2     (the overview listing of TLX)
//! RingGemm       a producer and two consumers over a ring of slots: halves of a tile together, or tiles in ping-pong
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
pub use ring_gemm::{Consumers, RingGemm};
pub use stream_norm::StreamNorm;

use tilelift_ir::{KernelBuilder, Value};

/// Slot and parity of a step of a ring: the step modulo the slots, and how often the ring was gone around, of which a barrier's wait
/// takes the lowest bit.
fn turn(b: &mut KernelBuilder, step: Value, slots: u32) -> (Value, Value) {
    (b.rem(step, slots), b.div(step, slots))
}
