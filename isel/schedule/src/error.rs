//! Why a verified kernel does not lower: the target lacks something, or a resource runs out.

use std::fmt;
use tilelift_ir::Loc;
use tilelift_ir::layout::LayoutError;

/// A refusal to lower.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LowerError {
    /// The target, or this version, has no way to do it.
    Unsupported {
        /// What was asked for.
        what: String,
        /// Why it can't be had, and what to do instead.
        why: String,
        /// The instruction's place in the text, if it has one.
        loc: Loc,
    },
    /// A layout that the kernel requires can't be had.
    Requirement {
        /// The layout.
        what: String,
        /// Why it can't be had.
        why: String,
        /// What it is at odds with, and where that stands.
        other: String,
        /// The place of the `require_layout` in the text, if it has one.
        loc: Loc,
    },
    /// The program would need more of something than the target has.
    ResourceExceeded {
        /// The resource, such as `shared memory`.
        resource: &'static str,
        /// How much the kernel needs, in the resource's unit.
        need: u64,
        /// How much there is.
        have: u64,
        /// What to do about it.
        remedy: String,
        /// The instruction's place in the text, if one instruction is to blame.
        loc: Loc,
    },
}

impl LowerError {
    /// A refusal: what was asked for, and why it can't be had.
    pub fn unsupported(what: impl Into<String>, why: impl Into<String>) -> LowerError {
        LowerError::Unsupported { what: what.into(), why: why.into(), loc: Loc::default() }
    }

    /// The same error placed at an instruction, unless it has a place already.
    pub fn at(mut self, place: Loc) -> LowerError {
        match &mut self {
            LowerError::Unsupported { loc, .. } | LowerError::Requirement { loc, .. } | LowerError::ResourceExceeded { loc, .. } => {
                if *loc == Loc::default() {
                    *loc = place;
                }
            }
        }
        self
    }

    /// Where the guilty instruction stands, in the text or in the program that built the kernel; line 0 if that is not known.
    pub fn loc(&self) -> Loc {
        match self {
            LowerError::Unsupported { loc, .. } | LowerError::Requirement { loc, .. } | LowerError::ResourceExceeded { loc, .. } => *loc,
        }
    }
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loc = self.loc();
        if loc.is_known() {
            write!(f, "{loc}: ")?;
        }
        match self {
            LowerError::Unsupported { what, why, .. } => write!(f, "unsupported: {what}: {why}"),
            LowerError::Requirement { what, why, other, .. } => {
                write!(f, "the required layout {what} can't be had: {why}; it is at odds with {other}")
            }
            LowerError::ResourceExceeded { resource, need, have, remedy, .. } => {
                write!(f, "not enough {resource}: the kernel needs {need}, the target has {have}; {remedy}")
            }
        }
    }
}

impl std::error::Error for LowerError {}

impl From<LayoutError> for LowerError {
    fn from(e: LayoutError) -> LowerError {
        LowerError::unsupported("the layout of a tile", e.to_string())
    }
}
