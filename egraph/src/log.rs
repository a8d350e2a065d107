//! The log of a saturation: every equality in order, kept where an explanation or a proof is wanted.

use crate::language::Node;
use egg::Id;

/// An answer of a rule, or a constant that the graph folded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) rule: &'static str,
    /// The class in which the rule looked, and the node at which.
    pub(crate) class: Id,
    pub(crate) node: Node,
    /// The node as a term; the answer, unless it has no type.
    pub(crate) left: Id,
    pub(crate) right: Option<Id>,
}

/// An entry of the log that is kept for an explanation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The graph was brought in order, between two rounds of rules.
    Rebuild,
    Step(Step),
}

/// The name under which the analysis adds constants.
pub(crate) const FOLD: &str = "constant-fold";
