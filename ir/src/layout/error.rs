//! Typed refusals of the layout algebra: each names the place and the remedy.

use std::error::Error;
use std::fmt;

/// Why a layout could not be built, viewed or compared.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// A tensor extent is zero.
    ZeroExtent {
        /// The dimension with extent zero.
        dim: usize,
    },
    /// The product of the extents is 2^31 or more.
    TooLarge {
        /// The extents.
        shape: Vec<u32>,
    },
    /// A parameter list has a length other than the rank of the tensor.
    Rank {
        /// Which parameter.
        what: &'static str,
        /// The rank of the tensor.
        expected: usize,
        /// The length that was given.
        found: usize,
    },
    /// A count that must be a power of two is not.
    NotPowerOfTwo {
        /// Which count.
        what: &'static str,
        /// The value that was given.
        value: u32,
    },
    /// A list of dimensions is not a permutation of `0..rank`.
    NotPermutation {
        /// Which parameter.
        what: &'static str,
        /// The list that was given.
        given: Vec<usize>,
    },
    /// A dimension index is not smaller than the rank.
    NoSuchDim {
        /// The index that was given.
        dim: usize,
        /// The rank of the tensor.
        rank: usize,
    },
    /// A dimension to be squeezed has an extent other than one.
    NotUnit {
        /// The dimension.
        dim: usize,
        /// Its extent.
        extent: u32,
    },
    /// A digit list does not multiply to the extent of its dimension.
    BadDigits {
        /// The dimension.
        dim: usize,
    },
    /// A column lies outside the tensor or uses an odd digit.
    BadColumn {
        /// The offending coordinate.
        column: Vec<u32>,
    },
    /// Some tensor element has no owner.
    NotSurjective {
        /// Rank of the matrix.
        rank: u32,
        /// Number of tensor bits that must be covered.
        needed: u32,
    },
    /// An odd digit of the tensor is not owned by exactly one hardware digit of its radix.
    OddDigitOwner {
        /// The dimension of the odd digit.
        dim: usize,
        /// The radix of the odd digit.
        radix: u32,
    },
    /// The columns of an instruction fragment are not a bijection onto the fragment.
    FragmentNotBijective {
        /// Extents of the fragment.
        shape: Vec<u32>,
    },
    /// A reshape changes the number of elements.
    ElementCount {
        /// Extents of the operand.
        from: Vec<u32>,
        /// Extents of the result.
        to: Vec<u32>,
    },
    /// A reshape cuts through a digit, or would leave bits above an odd digit.
    DigitsStraddle {
        /// Extents of the operand.
        from: Vec<u32>,
        /// Extents of the result.
        to: Vec<u32>,
        /// The result dimension that cannot be cut exactly.
        dim: usize,
    },
    /// Two layouts do not describe the same tensor with the same digits.
    TensorMismatch {
        /// Extents of the first layout.
        left: Vec<u32>,
        /// Extents of the second layout.
        right: Vec<u32>,
    },
    /// Two layouts have a different number of positions on a hardware axis.
    AxisMismatch {
        /// Name of the axis.
        axis: &'static str,
        /// Size in the first layout.
        left: u32,
        /// Size in the second layout.
        right: u32,
    },
    /// A map from tensor bits to offset bits is not invertible.
    NotInvertible,
    /// A parameter is outside what an algorithm covers.
    Unsupported {
        /// What was asked for and why it cannot be done.
        what: String,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroExtent { dim } => {
                write!(f, "dimension {dim} has extent 0; every extent must be at least 1")
            }
            Self::TooLarge { shape } => {
                write!(f, "tensor {shape:?} has 2^31 elements or more; use a smaller tile")
            }
            Self::Rank { what, expected, found } => {
                write!(f, "`{what}` has {found} entries but the tensor has rank {expected}; give one entry per dimension")
            }
            Self::NotPowerOfTwo { what, value } => {
                write!(f, "`{what}` is {value}, not a power of two; split it into a power of two and repetitions")
            }
            Self::NotPermutation { what, given } => write!(f, "`{what}` = {given:?} does not name every dimension exactly once"),
            Self::NoSuchDim { dim, rank } => {
                write!(f, "dimension {dim} does not exist in a tensor of rank {rank}")
            }
            Self::NotUnit { dim, extent } => {
                write!(f, "dimension {dim} has extent {extent}; only extent 1 can be squeezed, slice it instead")
            }
            Self::BadDigits { dim } => write!(f, "the digits of dimension {dim} must be 2 or odd and multiply to its extent"),
            Self::BadColumn { column } => {
                write!(f, "column {column:?} is outside the power-of-two part of the tensor; odd parts are owned by registers")
            }
            Self::NotSurjective { rank, needed } => {
                write!(f, "only {rank} of {needed} tensor bits are covered; add register columns for the others")
            }
            Self::OddDigitOwner { dim, radix } => {
                write!(f, "the factor {radix} of dimension {dim} needs exactly one owner of that radix among registers, warps and offsets")
            }
            Self::FragmentNotBijective { shape } => {
                write!(f, "the columns of the {shape:?} fragment do not reach each of its elements once; fix the target table")
            }
            Self::ElementCount { from, to } => {
                write!(f, "reshape from {from:?} to {to:?} changes the number of elements")
            }
            Self::DigitsStraddle { from, to, dim } => {
                write!(f, "reshape from {from:?} to {to:?} cuts dimension {dim} inside an odd factor; go through memory or pad the tile")
            }
            Self::TensorMismatch { left, right } => {
                write!(f, "layouts of different tensors {left:?} and {right:?}; reshape one of them first")
            }
            Self::AxisMismatch { axis, left, right } => {
                write!(f, "layouts with {left} and {right} positions on the {axis} axis; both must belong to the same role")
            }
            Self::NotInvertible => {
                write!(f, "the offset columns are not independent; each tensor bit needs its own offset bit")
            }
            Self::Unsupported { what } => write!(f, "unsupported: {what}"),
        }
    }
}

impl Error for LayoutError {}
