//! What a launch sets on the driver, beside what the [`Artifact`](crate::Artifact) holds: tensor maps of the CUDA driver, argument buffers of the
//! HIP library, and a description of it all for programs in other languages. The devices go by it, and so does whoever launches by other means.
//!
//! ```text
//! bound.rs     a launch with its arguments: bound once, changed a little, launched often
//! error.rs     why one is refused
//! check.rs     arguments against what the kernel promises, and memory that is lent twice
//! values.rs    parameters from arguments
//! tensor.rs    tensor maps
//! describe.rs  all of it as JSON (json.rs)
//! ```

mod bound;
mod check;
mod describe;
mod error;
mod json;
mod tensor;
mod values;

pub use crate::artifact::{Argument, GridError, GridRule, MAX_GRID, MAX_POSITIONS, Param, ParamSource, TensorBox};
pub use bound::{Bound, Lent};
pub use check::{Misaligned, check, misaligned, shared_by_address};
pub use describe::{VERSION, describe, document};
pub use error::{BindError, Unfilled};
pub use tensor::{TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES, TensorCodes};
pub use values::{Parameter, TensorParam, kernel_arguments, marshal};
