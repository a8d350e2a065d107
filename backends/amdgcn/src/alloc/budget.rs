//! How many registers a program may use.

use super::plan;
use super::words::file_size;
use crate::mir::File;

/// Registers that may be used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Scalar registers.
    pub scalars: usize,
    /// Registers of one vector file.
    pub file: usize,
    /// Registers of both vector files together.
    pub pool: usize,
}

impl Budget {
    /// What a wavefront of a workgroup of so many may use.
    pub(super) fn of(waves: u32) -> Budget {
        Budget { scalars: file_size(File::Scalar), file: file_size(File::Vector), pool: plan::pool(waves) }
    }
}
