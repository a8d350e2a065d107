//! Kernels written with the public builder of [`tilelift_ir`], their `f64` references, and the cases that every device must pass.
//!
//! ```text
//!   config (VectorAdd, …, RmsNorm, LayerNorm, Rotary, Select, GatherRows, …, Gemm) ── build() ─► Kernel
//!        └── with a shape: Workload ── case list: acceptance::cases() ─► grid, tensors, reference, tolerance
//! ```
//!
//! `explicit/` beside `src/` holds kernels that say which warps do what; their cases are a list of their own. `plan/` chooses among products;
//! `plain/` has graphs of kernels, one an operator, as an engine's tracer emits them.
//!
//! Every configuration has `new` (works for any shape), `for_shape` (states the facts of one shape, so that wide accesses become
//! legal), `build` and `grid`.

#![deny(missing_docs)]

pub mod acceptance;
pub mod activation;
pub mod attention;
#[path = "../explicit/mod.rs"]
pub mod explicit;
pub mod facts;
pub mod fused_gemm;
pub mod gemm;
pub mod gemv;
pub mod indexed;
pub mod launch;
pub mod layer_norm;
pub mod long_sort;
pub mod pitch;
#[path = "../plain/mod.rs"]
pub mod plain;
#[path = "../plan/mod.rs"]
pub mod plan;
pub mod quantise;
pub mod reference;
pub mod rms_norm;
pub mod rng;
pub mod rotary;
pub mod row_fold;
pub mod select;
pub mod silu_mul;
pub mod softmax;
pub mod split_gemm;
pub mod stream_gemm;
pub mod tensor;
pub mod top_k;
pub mod transpose;
pub mod vector_add;
pub mod workload;

pub use acceptance::{Case, CaseLaunch, CheckError, Size, Verdict, cases};
pub use activation::Activation;
pub use attention::Attention;
pub use facts::{ANY, known};
pub use fused_gemm::{Behind, FusedGemm, Residual};
pub use gemm::Gemm;
pub use gemv::{Gemv, Weights};
pub use indexed::{Bincount, GatherRows, ScatterAdd};
pub use launch::{Argument, Launch, Launches, Workspace};
pub use layer_norm::LayerNorm;
pub use long_sort::LongSort;
pub use pitch::{Pitch, PitchFacts, Pitches};
pub use quantise::Quantise;
pub use rms_norm::RmsNorm;
pub use rotary::Rotary;
pub use row_fold::{CumSum, Fold, RowFold};
pub use select::Select;
pub use silu_mul::SiluMul;
pub use softmax::Softmax;
pub use split_gemm::{Meeting, SplitGemm};
pub use stream_gemm::{Deal, StreamGemm};
pub use tensor::{Init, Role, Tensor, TensorSpec};
pub use top_k::{TopK, TopKArgument, TopKLaunch};
pub use transpose::Transpose;
pub use vector_add::VectorAdd;
pub use workload::{ScalarSpec, Workload};
