//! What can go wrong when a lane program becomes PTX.

use std::fmt;
use tilelift_isel::lane::RegisterError;

/// Why a lane program has no PTX text.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum EmitError {
    /// The program breaks a rule of the lane IR.
    Invalid {
        /// What is wrong and where.
        detail: String,
    },
    /// An operation that this backend does not offer.
    Unsupported {
        /// The operation and its type.
        what: String,
        /// Why, and what to do instead.
        reason: &'static str,
    },
    /// The program asks for more than the target has.
    TooLarge {
        /// The resource.
        what: &'static str,
        /// How much is asked for.
        need: u64,
        /// How much there is.
        have: u64,
        /// The target.
        target: &'static str,
    },
    /// Under the caller's limits, registers do not come together.
    Registers(RegisterError),
    /// The instructions need a newer PTX version than the caller allows.
    Version {
        /// Lowest version that covers the instructions and the target.
        need: (u8, u8),
        /// The caller's cap.
        cap: (u8, u8),
        /// The target.
        target: &'static str,
    },
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmitError::Invalid { detail } => write!(f, "not a lane program: {detail}"),
            EmitError::Unsupported { what, reason } => write!(f, "no PTX for {what}: {reason}"),
            EmitError::TooLarge { what, need, have, target } => {
                write!(f, "the program needs {need} {what}, {target} has {have}; use smaller tiles, fewer warps or fewer stages")
            }
            EmitError::Registers(e) => write!(f, "the caller's limits leave too few registers: {e}; raise or leave out the limits"),
            EmitError::Version { need, cap, target } => write!(
                f,
                "{target} needs PTX {}.{}, the driver takes {}.{} at most; update the driver or choose an older target",
                need.0, need.1, cap.0, cap.1
            ),
        }
    }
}

impl std::error::Error for EmitError {}
