//! Why there is no plan.

use super::sharing::Sharing;
use std::fmt;
use tilelift_ir::BuildErrors;

/// Why there is no plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PlanError {
    /// The device has no multiprocessors, or more than any machine.
    Multiprocessors {
        /// How many it was said to have.
        found: u32,
    },
    /// An extent is larger than kernels count.
    Extent {
        /// `m`, `n`, `k` or `batch`.
        name: &'static str,
        /// The extent.
        found: u32,
        /// The largest one.
        most: u32,
    },
    /// Rows, or matrices of a batch, that lie on one another, or too far apart.
    Pitch {
        /// `a`, `b`, `c` or `residual`.
        name: &'static str,
        /// The stride in elements.
        found: u64,
        /// The least one.
        least: u64,
        /// The largest one.
        most: u64,
    },
    /// A launch has more positions than a grid.
    Grid {
        /// The grid.
        grid: [u32; 3],
    },
    /// A candidate that has no batches, or not what is behind the sums of the problem.
    Candidate {
        /// How it shares out the work.
        sharing: Sharing,
    },
    /// No kernel for these types, or this epilogue.
    Kernel(BuildErrors),
    /// No kernels were asked for, or for no rows.
    NoRows,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Multiprocessors { found } => {
                write!(f, "a device of {found} multiprocessors; say how many it has, from 1 to {MOST_MULTIPROCESSORS}")
            }
            PlanError::Extent { name, found, most } => {
                write!(f, "`{name}` is {found}, and kernels count to {most}; take the product in several parts")
            }
            PlanError::Pitch { name, found, least, most } => {
                write!(f, "a stride of `{name}` is {found} elements; it is from {least}, where nothing lies on one another, to {most}")
            }
            PlanError::Grid { grid } => write!(f, "a grid of {grid:?} has more positions than a launch; take the product in several parts"),
            PlanError::Candidate { sharing } => {
                write!(
                    f,
                    "a candidate with {sharing:?} does not have the batch, the gate or the residual of this product; take one that `ranked` gives for it"
                )
            }
            PlanError::Kernel(e) => e.fmt(f),
            PlanError::NoRows => {
                f.write_str("no kernel, or no number of rows; ask for one kernel at least, and for a range that has numbers")
            }
        }
    }
}

impl std::error::Error for PlanError {}

impl From<BuildErrors> for PlanError {
    fn from(e: BuildErrors) -> PlanError {
        PlanError::Kernel(e)
    }
}

/// Most multiprocessors: more than any machine has.
pub(super) const MOST_MULTIPROCESSORS: u32 = 1 << 16;
