//! What an optimisation says of itself.

use crate::fault::Fallback;
use crate::narrow::Narrowed;
use crate::options::{PhaseReport, RuleReport};
use crate::rules::Class;
use std::fmt;
use std::time::Duration;
use tilelift_ir::Kernel;

/// Instructions beyond which a program is taken in windows, a graph each ([`Report::windows`]): a graph takes about 1 KB and 4 us of one.
pub const MOST_INSTRUCTIONS: usize = 50_000;

/// Why no one graph is made of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skipped {
    /// Who does what, and in which order, is its author's business: it stays as it is.
    Explicit,
    /// It has more instructions than [`MOST_INSTRUCTIONS`], and is taken in windows: there is no one graph to look at.
    Size {
        /// As many.
        instructions: usize,
    },
}

impl Skipped {
    /// Why a program is not looked at, if it is not.
    pub(crate) fn of(kernel: &Kernel) -> Option<Skipped> {
        let instructions = kernel.insts.len();
        if kernel.is_explicit() {
            return Some(Skipped::Explicit);
        }
        (instructions > MOST_INSTRUCTIONS).then_some(Skipped::Size { instructions })
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Skipped::Explicit => f.write_str("its author says who does what"),
            Skipped::Size { instructions } => {
                write!(f, "it is taken in windows: one graph takes {MOST_INSTRUCTIONS} instructions, and the program has {instructions}")
            }
        }
    }
}

/// What an optimisation did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Set if the program was not looked at: nothing else is said then.
    pub skipped: Option<Skipped>,
    /// Windows that the program was taken in, for it has more than [`MOST_INSTRUCTIONS`]; 0 where one graph holds it. What is said of phases is the sum then, and of
    /// iterations and limits the most.
    pub windows: usize,
    /// Loops that go round less often, in front of all phases.
    pub narrowed: Vec<Narrowed>,
    /// The phases.
    pub phases: Vec<PhaseReport>,
    /// The rules that were tried, in table order.
    pub rules: Vec<RuleReport>,
    /// Cost of the program that was read, by the logical model.
    pub before: u64,
    /// Cost of the program that was made.
    pub after: u64,
    /// Set if a check failed and the input was returned: a bug, which the tests exclude.
    pub fallback: Option<Fallback>,
    /// Time of building, saturating, extracting and elaborating, in that order.
    pub times: [Duration; 4],
}

impl Report {
    /// Classes that rules made one.
    pub fn unions(&self) -> usize {
        self.rules.iter().map(|r| r.applied).sum()
    }
    /// How often a rule applied.
    pub fn applied(&self, name: &str) -> usize {
        self.rules.iter().find(|r| r.name == name).map_or(0, |r| r.applied)
    }
    /// The loosest class of a rule that applied, or of what else was done.
    pub fn loosest(&self) -> Class {
        let narrowed = if self.narrowed.is_empty() { Class::Exact } else { Class::Reassoc };
        self.rules.iter().filter(|r| r.applied > 0).map(|r| r.class).max().unwrap_or(Class::Exact).max(narrowed)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = self.skipped {
            return writeln!(f, "the program stays as it is: {why}");
        }
        if self.windows > 0 {
            writeln!(f, "taken in {} windows", self.windows)?;
        }
        for n in &self.narrowed {
            writeln!(f, "{n}")?;
        }
        for p in &self.phases {
            writeln!(f, "{:<10} {} after {} iterations: {} nodes in {} classes", p.name, p.stop, p.iterations, p.nodes, p.classes)?;
        }
        writeln!(f, "cost       {} before, {} after", self.before, self.after)?;
        for (name, t) in ["build", "saturate", "extract", "elaborate"].iter().zip(self.times) {
            writeln!(f, "{name:<10} {:.3} ms", t.as_secs_f64() * 1e3)?;
        }
        for r in self.rules.iter().filter(|r| r.applied > 0) {
            let ms = r.time.as_secs_f64() * 1e3;
            writeln!(f, "{:<32} {:<8} {} matches, {} applied, {ms:.3} ms", r.name, r.class.word(), r.matches, r.applied)?;
        }
        if let Some(why) = &self.fallback {
            writeln!(f, "the input was kept: {why}")?;
        }
        Ok(())
    }
}
