//! What a caller may ask of the optimizer, and what phases and rules report.

use crate::rules::{Class, Rule};
use std::fmt;
use std::time::Duration;

/// Iterations of a phase over a large program: each looks at all of it.
const LARGE_ITERATIONS: usize = 3;

/// What the optimizer may do, and how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The loosest class of rules that may apply.
    pub allow: Class,
    /// Iterations of each phase.
    pub iterations: usize,
    /// Nodes of the graph, after which a phase ends.
    pub nodes: usize,
    /// Matches of each rule in each phase.
    pub matches: usize,
    /// Changes of a choice that are tried after extraction.
    pub trials: usize,
    /// Choices that are kept, and ranked by the cost of the whole kernel.
    pub keep: usize,
    /// Rules are timed ([`RuleReport::time`]).
    pub timed: bool,
    /// For tests: rules in random order, and a random program of the graph instead of the cheapest.
    pub chaos: Option<u64>,
    /// For tests: programs are taken in windows of so many instructions, however few they have.
    pub window: Option<usize>,
    /// For tests: this rule only; `narrow` for loops that go round less often.
    pub only: Option<&'static str>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            allow: Class::Free,
            iterations: 8,
            nodes: 6000,
            matches: 4000,
            trials: 200,
            keep: 4,
            timed: false,
            chaos: None,
            window: None,
            only: None,
        }
    }
}

impl Options {
    /// The same fuel per node for programs that are large from the start: room to grow by a quarter, in few iterations.
    pub(crate) fn scaled(&self, nodes: usize) -> Options {
        if nodes + nodes / 4 <= self.nodes {
            return self.clone();
        }
        Options {
            nodes: nodes + nodes / 4,
            matches: self.matches.max(nodes / 2),
            iterations: self.iterations.min(LARGE_ITERATIONS),
            ..self.clone()
        }
    }

    pub(crate) fn admits(&self, rule: &Rule) -> bool {
        rule.class <= self.allow && self.only.is_none_or(|n| n == rule.name)
    }
}

/// Why a phase ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Nothing was left to say.
    Saturated,
    /// The iterations were spent.
    Iterations,
    /// The graph has too many nodes.
    Nodes,
    /// A rule spent its matches.
    Matches,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stop::Saturated => "saturated",
            Stop::Iterations => "iterations spent",
            Stop::Nodes => "nodes spent",
            Stop::Matches => "matches spent",
        })
    }
}

/// What a phase did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PhaseReport {
    /// Its name.
    pub name: &'static str,
    /// Why it ended.
    pub stop: Stop,
    /// Iterations.
    pub iterations: usize,
    /// Nodes of the graph at its end.
    pub nodes: usize,
    /// Classes of the graph at its end.
    pub classes: usize,
}

/// What a rule did. Its time is for people and never decides anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleReport {
    /// Its name.
    pub name: &'static str,
    /// Its class.
    pub class: Class,
    /// Classes in which it had something to say.
    pub matches: usize,
    /// Equalities that were new.
    pub applied: usize,
    /// Time of searching and applying, where [`Options::timed`] asks for it.
    pub time: Duration,
}
