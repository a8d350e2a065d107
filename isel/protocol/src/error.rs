//! What a proof says that fails.

use crate::problem::Problem;
use std::fmt;
use tilelift_ir::{Loc, Op};
use tilelift_lane::{Inst, Program, inst_shortened};

/// Why a program is not proved, with the instructions that take part.
#[derive(Clone, PartialEq, Debug)]
pub struct ProtocolError {
    /// What may happen.
    pub problem: Problem,
    /// Where it shows.
    pub here: Box<Spot>,
    /// The other place that takes part.
    pub other: Option<Box<Spot>>,
}

/// A place that an error speaks of.
#[derive(Clone, PartialEq, Debug)]
pub enum Spot {
    /// The program as a whole, or a part of it.
    Program(String),
    /// An instruction.
    Inst {
        /// The instruction.
        inst: Box<Inst>,
        /// Its text in short.
        text: String,
        /// The role that it stands in, and of which block.
        role: String,
    },
    /// What an author wrote.
    Written {
        /// The op, if it is known.
        op: Option<Op>,
        /// Where it stands.
        at: Loc,
        /// The role that it stands in, and of which block.
        role: String,
    },
}

impl Spot {
    pub(crate) fn program(what: &str) -> Box<Spot> {
        Box::new(Spot::Program(what.to_owned()))
    }

    /// Where it stands, if an author wrote it.
    fn loc(&self) -> Loc {
        if let Spot::Written { at, .. } = self { *at } else { Loc::default() }
    }

    pub(crate) fn inst(program: &Program, inst: &Inst, role: impl Into<String>) -> Box<Spot> {
        Box::new(Spot::Inst { inst: Box::new(inst.clone()), text: inst_shortened(program, inst), role: role.into() })
    }
}

impl ProtocolError {
    /// Where it shows, or else where the other place that takes part stands; unknown if neither is written.
    pub fn loc(&self) -> Loc {
        let places = [Some(&self.here), self.other.as_ref()].into_iter().flatten();
        places.map(|spot| spot.loc()).find(|at| at.is_known()).unwrap_or_default()
    }
}

/// A place for a reader: the line of the text, or of the builder call.
fn place(at: Loc) -> String {
    if at.is_text() { format!("line {}", at.line) } else { at.to_string() }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spot::Program(what) => f.write_str(what),
            Spot::Inst { text, role, .. } => write!(f, "`{text}` of {role}"),
            Spot::Written { op: Some(op), at, role } => write!(f, "`{op}` of {role} ({})", place(*at)),
            Spot::Written { op: None, at, role } => write!(f, "a step of {role} ({})", place(*at)),
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.problem, self.here)?;
        match &self.other {
            Some(other) => write!(f, "; see {other}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ProtocolError {}
