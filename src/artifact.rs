//! The artifact: what a compile leaves behind, as plain data.

use tilelift_ir::Kernel;
use tilelift_isel::lane::Param;

/// A compiled kernel: text or code for the driver, and what a launch must know. Plain data; holds no handle of any device.
#[derive(Clone, PartialEq, Debug)]
pub struct Artifact {
    /// Name of the target that the text is for, such as `sm_80`.
    pub target: String,
    /// The assembly text.
    pub text: String,
    /// A loadable code object, for targets whose machine code is encoded here; empty where the driver assembles the text.
    pub object: Vec<u8>,
    /// Name of the entry point in the text.
    pub entry: String,
    /// Threads per program instance, along the first axis of a block.
    pub threads: u32,
    /// Shared memory per program instance, in bytes: what a launch asks the driver for, or what the code object declares if there is one.
    pub shared_bytes: u32,
    /// A launch may begin while the one in front of it on its stream ends: the text waits for that before it touches global memory.
    pub early_launch: bool,
    /// Program instances of a cluster, along x: the grid's extent there is a multiple.
    pub cluster: u32,
    /// Launch parameters in order; [`tilelift_isel::abi::marshal`] fills them from a kernel's arguments.
    pub params: Vec<Param>,
    /// The kernel that was compiled: its parameter types carry the facts that every launch is checked against.
    pub kernel: Kernel,
}
