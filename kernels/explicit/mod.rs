//! Kernels that say who does what: tasks, rings of slots, barriers, clusters. They show the forms, and compete.
//!
//! ```text
//! Doubling       a producer and a consumer over one slot, two barriers; programs in clusters of 2     (the overview listing of TLX)
//! RingGemm       a producer and sets of consumers over a ring of slots: warpgroups that share a tile, or sets that take tiles in ping-pong
//! ClusterGemm    clusters of two blocks that share an operand, of which each copies half to both (multicast)
//! ClusterNorm    LayerNorm whose rows lie spread over the blocks of a cluster                          (the LayerNorm listing of TLX)
//! StreamNorm     the same by clusters that stay, with copies that go on while blocks wait for each other
//! ```

mod cases;
mod cluster_gemm;
mod cluster_norm;
mod doubling;
mod positions;
mod ring_gemm;
mod stream_norm;

pub use cases::{BLOCKS, ClusterGemmCase, ClusterNormCase, DoublingCase, ROW, RingGemmCase, StreamNormCase, cases};
pub use cluster_gemm::{ClusterGemm, Pair};
pub use cluster_norm::ClusterNorm;
pub use doubling::Doubling;
pub use ring_gemm::{Ring, RingGemm};
pub use stream_norm::StreamNorm;
