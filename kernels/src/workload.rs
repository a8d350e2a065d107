//! Workloads: a kernel configuration with a shape, which together say everything about a launch and its right result.
//!
//! ```text
//!   programs ─owned─► ranges of an output ─reference─► expected values
//! ```
//! Ownership lets a slow device run a few programs of a large launch, and the check look only at what these must have written.

mod attention;
mod definition;
mod indexed;
mod layer_norm;
mod matrices;
mod pointwise;
mod products;
mod quantise;
mod rotary;
mod rows;
mod scatter;
mod select;
mod split;
mod stream;
mod top_k;

pub use attention::AttentionCase;
pub use definition::{Ran, ScalarSpec, Step, Workload};
pub(crate) use definition::{block, suffix, tile_rows, whole_rows};
pub use indexed::{BincountCase, GatherRowsCase};
pub use layer_norm::LayerNormCase;
pub use matrices::{GemmCase, RmsNormCase, SoftmaxCase, TransposeCase};
pub use pointwise::{SiluMulCase, VectorAddCase};
pub use products::{FusedGemmCase, GemvCase};
pub use quantise::QuantiseCase;
pub use rotary::RotaryCase;
pub use rows::{CumSumCase, LongSortCase, RowFoldCase};
pub use scatter::ScatterAddCase;
pub use select::SelectCase;
pub use split::SplitGemmCase;
pub use stream::StreamGemmCase;
pub use top_k::TopKCase;
