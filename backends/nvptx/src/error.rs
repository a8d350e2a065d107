//! What can go wrong when a lane program becomes PTX.

use crate::rules::{Key, NoRule};
use std::fmt;
use tilelift_isel::lane::{LTy, LaneVerifyError, RegisterError};

/// Why a lane program has no PTX text.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum EmitError {
    /// The program breaks a rule of the lane IR.
    Invalid(Invalid),
    /// Something that this backend does not offer.
    Unsupported(NoText),
    /// The program asks for more than the target has.
    TooLarge {
        /// The resource.
        what: Limit,
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
            EmitError::Invalid(why) => write!(f, "not a lane program: {why}"),
            EmitError::Unsupported(what) => write!(f, "no PTX for {what}"),
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

/// Why a program is none of the target's.
#[derive(Clone, PartialEq, Debug)]
pub enum Invalid {
    /// It is for warps of another width.
    Lanes {
        /// Lanes per warp of the program.
        got: u32,
        /// Lanes per warp of the target.
        want: u32,
        /// The target.
        target: &'static str,
    },
    /// Its verifier refuses it.
    Program(Box<LaneVerifyError>),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Lanes { got, want, target } => {
                write!(f, "{got} lanes per warp; {target} has {want}, lower the kernel for it")
            }
            Invalid::Program(why) => why.fmt(f),
        }
    }
}

/// What a target has so much of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Warps of a block.
    Warps,
    /// Bytes of shared memory of a block.
    SharedBytes,
    /// Named barriers for the roles of a program.
    RoleBarriers,
    /// Named barriers of a block.
    Barriers,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Warps => "warps",
            Limit::SharedBytes => "bytes of shared memory",
            Limit::RoleBarriers => "barriers of roles",
            Limit::Barriers => "barriers",
        })
    }
}

/// What has no PTX.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoText {
    /// A computation.
    Computation(Computation, NoRule),
    /// A group matrix instruction of a target without units.
    GroupMatrix,
    /// A target that is not NVIDIA's, by its name.
    Target(&'static str),
}

impl fmt::Display for NoText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoText::Computation(what, why) => write!(f, "{what}: {why}"),
            NoText::GroupMatrix => f.write_str("a group matrix instruction: the target has none"),
            NoText::Target(name) => {
                write!(f, "target {name}: it is no NVIDIA target; take one from tilelift_nvptx::by_name")
            }
        }
    }
}

/// A lane operation and its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Computation {
    pub(crate) key: Key,
    pub(crate) ty: LTy,
}

impl fmt::Display for Computation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{:?} on {}", self.key, self.ty).to_lowercase())
    }
}
