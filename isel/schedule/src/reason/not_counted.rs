//! Why it is not known how often a `while` goes round where it begins.

use crate::named::{Made, Named};
use std::fmt;
use tilelift_ir::CmpOp;

/// Why a `while` is no loop that counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotCounted {
    /// Its condition does more than compute.
    Effect {
        /// What it does.
        by: Made,
    },
    /// What decides whether it goes on is no comparison of integers.
    Decided {
        /// The value that decides.
        by: Named,
    },
    /// Several numbers that change decide whether it goes on.
    Several,
    /// Nothing that changes decides whether it goes on.
    Nothing,
    /// What its condition compares is not carried, or carried and made otherwise than by adding to it.
    Counter {
        /// What makes the next number, if one is carried.
        by: Option<Made>,
    },
    /// Whether it goes on asks for a comparison by which loops do not count.
    Comparison {
        /// The comparison.
        op: CmpOp,
    },
    /// What a round adds changes from round to round.
    Changes {
        /// What is added.
        step: Named,
    },
    /// What a round adds is not known to be above or below zero.
    Sign {
        /// What is added.
        step: Named,
    },
    /// The counter goes away from what it is compared with.
    Away,
}

impl fmt::Display for NotCounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotCounted::Effect { by } => write!(f, "its condition does more than compute: {by}"),
            NotCounted::Decided { by } => write!(f, "{by} decides whether it goes on, and is no comparison of integers"),
            NotCounted::Several => f.write_str("several numbers that change decide whether it goes on"),
            NotCounted::Nothing => f.write_str("nothing that changes decides whether it goes on"),
            NotCounted::Counter { by: Some(by) } => {
                write!(f, "{by} makes the number that decides whether it goes on, and counting would add the same to it in each round")
            }
            NotCounted::Counter { by: None } => f.write_str("its condition compares no carried number with one that stays the same"),
            NotCounted::Comparison { op } => write!(f, "loops do not count by the comparison `{op}`"),
            NotCounted::Changes { step } => write!(f, "{step} is added in a round, and changes from round to round"),
            NotCounted::Sign { step } => {
                write!(f, "{step} is added in a round, and not known to be above or below zero; `maximum` with 1 says so")
            }
            NotCounted::Away => f.write_str("what it counts by goes away from what it is compared with"),
        }
    }
}
