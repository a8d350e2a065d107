//! Why a launch is refused.

use super::check::Misaligned;
use crate::artifact::GridError;
use std::fmt;
use tilelift_interp::ArgError;
use tilelift_isel::abi::AbiError;

/// Arguments that do not fill the launch parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unfilled(AbiError);

impl fmt::Display for Unfilled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Unfilled {}

impl From<AbiError> for Unfilled {
    fn from(e: AbiError) -> Unfilled {
        Unfilled(e)
    }
}

/// Why arguments can't be launched with.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BindError {
    /// The grid.
    Grid(GridError),
    /// An argument breaks what the kernel promises of it, or shares memory with another.
    Args(ArgError),
    /// A pointer is less aligned than a view promises.
    Misaligned(Misaligned),
    /// Two extents that belong together differ.
    Together {
        /// An argument and its dimension.
        one: (usize, usize),
        /// The other.
        other: (usize, usize),
        /// Their extents.
        extents: [i64; 2],
    },
    /// The arguments do not fill the launch parameters.
    Unfilled(Unfilled),
    /// There is no such argument, or it is of another kind.
    NoArgument {
        /// The argument.
        param: usize,
        /// What it should be.
        want: &'static str,
    },
}

/// Code and remedy of each class of refusals.
const GRID: (&str, &str) = ("B0101", "ask for a grid that the artifact's rule allows");
const OTHER: (&str, &str) = ("B0201", "pass the arguments that the kernel has");
const PROMISE: (&str, &str) = ("B0202", "pad or copy the tensor, or build the kernel with fewer promises");
const OUTSIDE: (&str, &str) = ("B0203", "lend memory that holds the whole view");
const SHARED: (&str, &str) = ("B0204", "give what is written memory of its own, or declare it to be in place");
const TOGETHER: (&str, &str) = ("B0205", "make the extents equal");

impl BindError {
    /// A stable code: `B01…` of the grid, `B02…` of the arguments.
    pub fn code(&self) -> &'static str {
        self.class().0
    }

    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        self.class().1
    }

    fn class(&self) -> (&'static str, &'static str) {
        match self {
            BindError::Grid(_) => GRID,
            BindError::Misaligned(_) => PROMISE,
            BindError::Together { .. } => TOGETHER,
            BindError::Unfilled(_) | BindError::NoArgument { .. } => OTHER,
            BindError::Args(e) => match e {
                ArgError::Count { .. } | ArgError::Kind { .. } | ArgError::Element { .. } | ArgError::Rank { .. } => OTHER,
                ArgError::ExtentRange { .. }
                | ArgError::Extent { .. }
                | ArgError::StrideRange { .. }
                | ArgError::Stride { .. }
                | ArgError::NotDense { .. }
                | ArgError::Multiple { .. }
                | ArgError::Alignment { .. } => PROMISE,
                ArgError::Buffer { .. } | ArgError::Outside { .. } => OUTSIDE,
                ArgError::SelfOverlap { .. } | ArgError::Overlap { .. } | ArgError::NotInPlace { .. } => SHARED,
            },
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::Grid(e) => e.fmt(f),
            BindError::Args(e) => e.fmt(f),
            BindError::Misaligned(Misaligned { param, address, align }) => {
                write!(f, "argument {param} is at {address:#x}, but its parameter promises an address that is a multiple of {align}")
            }
            BindError::Together { one, other, extents } => write!(
                f,
                "dimension {} of argument {} is {}, and dimension {} of argument {} is {}; they belong together, so make them equal",
                one.1, one.0, extents[0], other.1, other.0, extents[1]
            ),
            BindError::Unfilled(e) => e.fmt(f),
            BindError::NoArgument { param, want } => write!(f, "the kernel has no argument {param} that is a {want}"),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BindError::Grid(e) => Some(e),
            BindError::Args(e) => Some(e),
            BindError::Unfilled(e) => Some(e),
            BindError::Misaligned(_) | BindError::Together { .. } | BindError::NoArgument { .. } => None,
        }
    }
}
