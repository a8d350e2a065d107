//! Why it is not known how often a `while` goes round where it begins.

use crate::named::{Made, Named};
use std::fmt;
use tilelift_ir::CmpOp;

/// Why a `while` is no loop that counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UncountedLoop {
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
    /// It goes on until two numbers are equal, and may wrap, or step over the other one, before they are.
    MayWrap,
}

impl fmt::Display for UncountedLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UncountedLoop::Effect { by } => write!(f, "its condition does more than compute: {by}"),
            UncountedLoop::Decided { by } => write!(f, "{by} decides whether it goes on, and is no comparison of integers"),
            UncountedLoop::Several => f.write_str("several numbers that change decide whether it goes on"),
            UncountedLoop::Nothing => f.write_str("nothing that changes decides whether it goes on"),
            UncountedLoop::Counter { by: Some(by) } => {
                write!(f, "{by} makes the number that decides whether it goes on, and counting would add the same to it in each round")
            }
            UncountedLoop::Counter { by: None } => f.write_str("its condition compares no carried number with one that stays the same"),
            UncountedLoop::Comparison { op } => write!(f, "loops do not count by the comparison `{op}`"),
            UncountedLoop::Changes { step } => write!(f, "{step} is added in a round, and changes from round to round"),
            UncountedLoop::Sign { step } => {
                write!(f, "{step} is added in a round, and not known to be above or below zero; `maximum` with 1 says so")
            }
            UncountedLoop::Away => f.write_str("what it counts by goes away from what it is compared with"),
            UncountedLoop::MayWrap => {
                f.write_str("it goes on until two numbers are equal, and may wrap or step over the end on its way; `lt` and `gt` end there")
            }
        }
    }
}
