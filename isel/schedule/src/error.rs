//! Why a verified kernel does not lower: the target lacks something, or a resource runs out.

use crate::reason::{
    AtOdds, Lacking, Missing, NoAxis, NoBulkCopy, NoProduct, NoRegister, NotAddressed, NotSpecialised, OfScalar, Remedy, Resource, Unmet,
    Unsupported,
};
use std::fmt;
use tilelift_ir::layout::LayoutError;
use tilelift_ir::{LayoutSpec, Loc, Op};

/// A refusal to lower.
#[derive(Clone, PartialEq, Debug)]
pub enum LowerError {
    /// The target, or this version, has no way to do it.
    Unsupported {
        /// What was asked for, and why it can't be had.
        why: Box<Unsupported>,
        /// The instruction's place in the text, if it has one.
        loc: Loc,
    },
    /// The specialised schedule is asked for, and can't be had.
    NotSpecialised {
        /// Why not.
        why: Box<NotSpecialised>,
        /// The place of the instruction that is to blame, if one is.
        loc: Loc,
    },
    /// Bulk copies do not take what an instruction of the author's copies.
    NoBulkCopy {
        /// Its op.
        op: Op,
        /// Why not.
        why: Box<NoBulkCopy>,
        /// The instruction's place in the text, if it has one.
        loc: Loc,
    },
    /// Group matrix instructions do not take a product of the author's.
    NoProduct {
        /// Its op.
        op: Op,
        /// Why not.
        why: Box<NoProduct>,
        /// The instruction's place in the text, if it has one.
        loc: Loc,
    },
    /// A layout that the kernel requires can't be had.
    Requirement {
        /// The layout.
        what: Option<Box<LayoutSpec>>,
        /// Why it can't be had.
        why: Box<Unmet>,
        /// What it is at odds with, and where that stands.
        other: Box<AtOdds>,
        /// The place of the `require_layout` in the text, if it has one.
        loc: Loc,
    },
    /// The program would need more of something than the target has.
    ResourceExceeded {
        /// The resource.
        resource: Resource,
        /// How much the kernel needs, in the resource's unit.
        need: u64,
        /// How much there is.
        have: u64,
        /// What to do about it.
        remedy: Box<Remedy>,
        /// The instruction's place in the text, if one instruction is to blame.
        loc: Loc,
    },
}

impl LowerError {
    /// True if the program would need more of a resource than the target has.
    pub fn exceeds(&self, of: Resource) -> bool {
        matches!(self, LowerError::ResourceExceeded { resource, .. } if *resource == of)
    }

    /// True if the proof refuses how tasks, copies and barriers work together, or does not follow it.
    pub fn is_protocol(&self) -> bool {
        matches!(self, LowerError::Unsupported { why, .. } if why.is_protocol())
    }

    /// True if the kernel asks for a specialised loop, and the target has no units for it.
    pub fn needs_units(&self) -> bool {
        match self {
            LowerError::NotSpecialised { why, .. } => why.needs_units(),
            LowerError::Requirement { why, .. } => matches!(&**why, Unmet::NotSpecialised(why) if why.needs_units()),
            _ => false,
        }
    }

    /// The same error placed at an instruction, unless it has a place already.
    pub fn at(mut self, place: Loc) -> LowerError {
        let loc = self.place();
        if *loc == Loc::default() {
            *loc = place;
        }
        self
    }

    fn place(&mut self) -> &mut Loc {
        match self {
            LowerError::Unsupported { loc, .. }
            | LowerError::NotSpecialised { loc, .. }
            | LowerError::NoBulkCopy { loc, .. }
            | LowerError::NoProduct { loc, .. }
            | LowerError::Requirement { loc, .. }
            | LowerError::ResourceExceeded { loc, .. } => loc,
        }
    }

    /// Where the guilty instruction stands, in the text or in the program that built the kernel; line 0 if that is not known.
    pub fn loc(&self) -> Loc {
        match self {
            LowerError::Unsupported { loc, .. }
            | LowerError::NotSpecialised { loc, .. }
            | LowerError::NoBulkCopy { loc, .. }
            | LowerError::NoProduct { loc, .. }
            | LowerError::Requirement { loc, .. }
            | LowerError::ResourceExceeded { loc, .. } => *loc,
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
            LowerError::Unsupported { why, .. } if why.is_protocol() => write!(f, "protocol: {why}"),
            LowerError::Unsupported { why, .. } => write!(f, "unsupported: {why}"),
            LowerError::NotSpecialised { why, .. } => write!(f, "unsupported: the specialised schedule: {why}"),
            LowerError::NoBulkCopy { op, why, .. } => write!(f, "unsupported: `{op}`: {why}"),
            LowerError::NoProduct { op, why, .. } => write!(f, "unsupported: `{op}`: {why}"),
            LowerError::Requirement { what, why, other, .. } => {
                f.write_str("the required layout ")?;
                what.iter().try_for_each(|what| what.fmt(f))?;
                write!(f, " can't be had: {why}; it is at odds with {other}")
            }
            LowerError::ResourceExceeded { resource, need, have, remedy, .. } if resource.is_limit_of_compiler() => {
                write!(
                    f,
                    "too many {resource}: the kernel needs {need}, and this compiler makes at most {have}, whatever the target; {remedy}"
                )
            }
            LowerError::ResourceExceeded { resource, need, have, remedy, .. } => {
                write!(f, "not enough {resource}: the kernel needs {need}, the target has {have}; {remedy}")
            }
        }
    }
}

impl std::error::Error for LowerError {}

impl From<Unsupported> for LowerError {
    fn from(why: Unsupported) -> LowerError {
        LowerError::Unsupported { why: Box::new(why), loc: Loc::default() }
    }
}

macro_rules! reasons {
    ($($reason:ty => $variant:ident),* $(,)?) => {
        $(impl From<$reason> for LowerError {
            fn from(why: $reason) -> LowerError {
                LowerError::from(Unsupported::$variant(why))
            }
        })*
    };
}

reasons! {
    Lacking => Lacking,
    NotAddressed => Part,
    LayoutError => Layout,
    OfScalar => Scalar,
    NoAxis => Axis,
    NoRegister => Register,
    Missing => Missing,
}
