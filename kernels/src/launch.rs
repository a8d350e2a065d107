//! What a kernel of products is launched with: which buffer stands for which argument, and the workspaces between several launches.

use tilelift_ir::{Kernel, Scalar};

/// What is passed for a parameter of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Argument {
    /// The view of A.
    A,
    /// The view of B.
    B,
    /// The view of the second right factor, whose product is the gate.
    Gate,
    /// The view of the bias.
    Bias,
    /// The view of the matrix that is added.
    Residual,
    /// The view of the result.
    C,
    /// The view of a workspace, by its number.
    Workspace(usize),
    /// The scalar by which the product is multiplied, an `f32`.
    Alpha,
    /// The scalar by which the residual is multiplied, an `f32`.
    Beta,
    /// A number of the launch, an `i32`.
    Count {
        /// Its name, as in the kernel's documentation.
        name: &'static str,
        /// The number.
        value: u32,
    },
}

/// A launch: its arguments are in parameter order.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel.
    pub kernel: Kernel,
    /// Its grid.
    pub grid: [u32; 3],
    /// What is passed.
    pub arguments: Vec<Argument>,
}

/// Memory between launches: a dense tensor that nobody else uses meanwhile. It may hold anything at first: what is read has been written.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Workspace {
    /// Element type.
    pub elem: Scalar,
    /// Extents, outermost first.
    pub shape: Vec<u32>,
}

impl Workspace {
    /// A workspace that may hold anything.
    pub fn new(elem: Scalar, shape: &[u32]) -> Workspace {
        Workspace { elem, shape: shape.to_vec() }
    }

    /// Its bytes; the largest number where there are more.
    pub fn bytes(&self) -> u64 {
        self.shape.iter().fold(u64::from(self.elem.bytes()), |all, &e| all.saturating_mul(u64::from(e)))
    }
}

/// Launches in order, and the workspaces that they share.
#[derive(Clone, Debug, Default)]
pub struct Launches {
    /// The launches, one behind the other.
    pub list: Vec<Launch>,
    /// The workspaces, by their numbers.
    pub workspaces: Vec<Workspace>,
}

impl Launches {
    /// A launch that needs no workspace.
    pub(crate) fn one(kernel: Kernel, grid: [u32; 3], arguments: Vec<Argument>) -> Launches {
        Launches { list: vec![Launch { kernel, grid, arguments }], workspaces: Vec::new() }
    }
}
