//! A graph of kernels over tensors, and the fusion of kernels whose tiles line up.
//!
//! ```text
//!            x, w ─► [norm] ─► h ─► [gemm] ─► t ─► [bias, silu] ─► u ─► [add] ─► y          four kernels, three tensors in between
//!  fuse ─►   x, w ─► [norm] ─► h ─► [gemm + bias, silu + add] ───────────────────► y          two kernels, one
//! ```
//!
//! A *tensor* has a name, elements, extents and perhaps strides; extents are numbers or *symbols* that are known at launch. A *node* is a
//! verified kernel with a grid and an argument per parameter. Nodes run in the order in which they were added, so two writers of a tensor
//! are always ordered and there are no cycles. Tensor number `i` lives in buffer number `i` of a [`tilelift_interp::Memory`].
//!
//! [`Graph::add`] checks everything that can be checked before launch: kinds, element types, ranks, what the kernel's parameters promise
//! of extents and strides, and that nothing is read that was never written. [`Graph::fuse`] is in [`fuse`]; `docs/graph.md` is its page.

mod error;
pub mod fuse;
mod nodes;
mod run;
mod size;

pub use error::GraphError;
pub use fuse::{Decision, Effort, FuseOptions, FuseReport, FuseRule, Fused, How, Outcome, Refusal, RefusalKind};
pub use nodes::{Graph, Node, NodeArg, Role, ScalarId, Tensor, TensorId};
pub use run::{Bound, Launch, RunError};
pub use size::{Count, Grid, Size, Symbol};
