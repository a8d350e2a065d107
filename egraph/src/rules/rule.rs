//! What a rule is: what it may change, when it joins in, at which nodes it looks.

use super::types::Types;
use crate::graph::{Graph, Read};
use crate::language::{Head, Node};
use crate::term::Term;
use egg::Id;
use tilelift_ir::{Op, Scalar};

/// What a rule may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Nothing: every bit is the same.
    Exact,
    /// What the op itself leaves free: the order of a `dot`'s sum.
    Free,
    /// The order and number of roundings of float sums, products and quotients, and of a function's argument; a quotient is off by 2^-21 at most.
    Reassoc,
    /// A function for another of the same stated error.
    Approx,
}

impl Class {
    /// Every class, strictest first.
    pub const ALL: &'static [Class] = &[Class::Exact, Class::Free, Class::Reassoc, Class::Approx];
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Class::Exact => "exact",
            Class::Free => "free",
            Class::Reassoc => "reassoc",
            Class::Approx => "approx",
        }
    }
}

/// When a rule joins in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Only shrinks.
    Simplify,
    /// Moves ops past each other.
    Move,
}

impl Phase {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Phase::Simplify => "simplify",
            Phase::Move => "move",
        }
    }
}

/// The ops at whose nodes a rule looks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Roots {
    /// These.
    Ops(&'static [Op]),
    /// Folds.
    Folds,
    /// Every node whose elements follow from the operands' at the same place.
    Elementwise,
}

impl Roots {
    /// True if a rule looks at the node.
    pub(crate) fn has(self, g: &Graph, node: &Node) -> bool {
        match self {
            Roots::Ops(list) => node.op().is_some_and(|op| list.contains(&op)),
            Roots::Folds => matches!(node.head, Head::Fold { .. }),
            Roots::Elementwise => g.is_elementwise(node),
        }
    }
}

/// A rule of the table.
pub struct Rule {
    /// Its name: family, what, detail.
    pub name: &'static str,
    /// What it may change.
    pub class: Class,
    /// The identity, for readers.
    pub says: &'static str,
    pub(crate) phase: Phase,
    pub(crate) roots: Roots,
    pub(crate) apply: fn(&Graph, Id, &Node) -> Option<Term>,
    /// Types of `T` (and `U`) in the programs.
    pub over: Types,
    /// A program in which it applies; `tests/suite/common` says what its letters mean.
    pub fires: &'static str,
    /// A program in which it does not.
    pub keeps: &'static str,
}

pub(crate) const INTS: &[Scalar] = &[Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64];

pub(crate) const FLOATS: &[Scalar] = &[Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64];

pub(crate) const NUMBERS: &[Scalar] =
    &[Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64, Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64];
