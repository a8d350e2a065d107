//! The artifact.

use super::arguments::Argument;
use super::grid::GridRule;
use super::params::Param;
use crate::key::Key;

/// Dynamic shared memory that a block may have without asking for more, in bytes.
const PLAIN_SHARED: u32 = 48 * 1024;

/// A compiled kernel: text or code for the driver, and what a launch must know. Plain data; holds no handle of any device, and can be
/// written down ([`Artifact::to_bytes`]).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Artifact {
    /// What it is found by; absent of one that no [`crate::Compiler`] made.
    pub key: Option<Key>,
    /// Name of the kernel.
    pub name: String,
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
    /// Neighbouring positions of the launch grid that a program instance stands for, along each axis: the grid's extents are multiples.
    pub positions: [u32; 3],
    /// Launch parameters in order; [`crate::launch::marshal`] fills them from a kernel's arguments.
    pub params: Vec<Param>,
    /// The kernel's arguments in order, and what they promise: every launch is checked against it.
    pub arguments: Vec<Argument>,
    /// Extents that belong together, as [`crate::Settings::same_extent`] was told: pairs of an argument and its dimension.
    pub together: Vec<Vec<(u32, u32)>>,
    /// View arguments that have to be one, an output and the input in whose place it is, as [`crate::Settings::in_place`] was told.
    pub in_place: Vec<(u32, u32)>,
    /// How the kernel runs, as a `.tile` text with tasks; empty where it runs as it is written.
    pub schedule: String,
}

impl Artifact {
    /// Which grids may be launched.
    pub fn grid_rule(&self) -> GridRule {
        GridRule::of(self.cluster, self.positions, &self.params)
    }

    /// The value of `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES` that a function needs in front of its first launch; `None` where it
    /// needs none.
    pub fn shared_opt_in(&self) -> Option<u32> {
        (self.shared_bytes > PLAIN_SHARED).then_some(self.shared_bytes)
    }
}
