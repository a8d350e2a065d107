//! What goes wrong where the optimizer has a bug: a choice that is none, or that becomes no kernel. The input is kept then.

use egg::Id;
use std::fmt;
use tilelift_ir::{Op, Region, Value, VerifyErrors};

/// Why a kernel is kept as it was, although it was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// Nothing could be extracted.
    NoProgram,
    /// The choice does not become a kernel.
    Broken(Broken),
    /// The kernel that was made does not verify.
    Invalid(Box<VerifyErrors>),
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fallback::NoProgram => f.write_str("no program could be extracted"),
            Fallback::Broken(why) => why.fmt(f),
            Fallback::Invalid(why) => why.fmt(f),
        }
    }
}

/// Why a choice does not become a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// A class that is needed has no choice.
    NoChoice {
        /// The class.
        class: usize,
    },
    /// The choice goes in a circle.
    Cycle,
    /// Nothing is written to the region.
    Closed(Region),
    /// There is no place for the op.
    NoPlace(Op),
    /// The op is used in front of its place.
    Early(Op),
    /// A value of the input is used where it is not visible.
    Hidden(Value),
    /// A class that was computed is not visible where it is used.
    Unseen {
        /// The class.
        class: usize,
    },
    /// A value of the input stands where an instruction should.
    Leaf,
    /// The op lacks an operand.
    Lacks(Op),
    /// A state of a fold is used outside of its loop.
    State,
    /// Folds of one loop wait for each other.
    Knot,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::NoChoice { class } => write!(f, "class {class} has no choice"),
            Broken::Cycle => f.write_str("the choice has a cycle"),
            Broken::Closed(region) => write!(f, "{region} is not open"),
            Broken::NoPlace(op) => write!(f, "no place for {op}"),
            Broken::Early(op) => write!(f, "{op} is used in front of its place"),
            Broken::Hidden(v) => write!(f, "{v} is used where it is not visible"),
            Broken::Unseen { class } => write!(f, "{class} is not visible where it is used"),
            Broken::Leaf => f.write_str("a leaf is no instruction"),
            Broken::Lacks(op) => write!(f, "{op} lacks an operand"),
            Broken::State => f.write_str("a state of a fold is used outside of its loop"),
            Broken::Knot => f.write_str("folds of one loop wait for each other"),
        }
    }
}

/// What is wrong with a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadChoice {
    /// A class has no candidate of that number.
    Alien { class: Id, candidate: u32 },
    /// It goes in a circle, or misses a class.
    Circle,
    /// A class is computed behind that event, later than it may be used.
    Late { class: Id, event: u32 },
    /// It costs something else.
    Cost { real: u64, stated: u64 },
}

impl fmt::Display for BadChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadChoice::Alien { class, candidate } => write!(f, "class {class} has no candidate {candidate}"),
            BadChoice::Circle => f.write_str("the choice has a cycle or misses a class"),
            BadChoice::Late { class, event } => write!(f, "class {class} is computed behind event {event}, too late"),
            BadChoice::Cost { real, stated } => write!(f, "the choice costs {real}, not {stated}"),
        }
    }
}
