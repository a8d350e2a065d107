//! What an oracle answers: a verdict or a failure; a panic of the compiler is one of these.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tilelift_isel::LowerError;

/// A case was answered rightly, or refused with a reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Both ways agree.
    Pass,
    /// The compiler refuses, for this reason (without numbers, so that reasons can be counted).
    Refused(String),
}

/// What kind of bug a failure shows; the reducer keeps the kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Kind {
    /// The generator made a kernel that does not build, verify or run.
    Generator,
    /// Printing and parsing change a kernel, or the text does not parse.
    Text,
    /// A panic.
    Panic,
    /// What was made is malformed: the lane verifier or a text parser refuses it.
    Malformed,
    /// A fault while it ran, such as a race.
    Fault,
    /// Wrong numbers.
    Mismatch,
}

/// A bug.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Its kind.
    pub kind: Kind,
    /// What was tried, such as `lane gfx942`.
    pub at: String,
    /// What happened.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}): {}", self.kind, self.at, self.message)
    }
}
impl std::error::Error for Failure {}

pub(crate) fn failure(kind: Kind, at: &str, message: impl fmt::Display) -> Failure {
    Failure { kind, at: at.to_owned(), message: message.to_string() }
}

/// Runs a part of the compiler; a panic becomes a failure.
pub(crate) fn guarded<T>(at: &str, f: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<String>().cloned().or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(failure(Kind::Panic, at, message.unwrap_or_else(|| "a panic without a message".into())))
    })
}

/// The reason of a refusal, with numbers and types blotted out.
pub fn reason(e: &LowerError) -> String {
    let text = match e {
        LowerError::Unsupported { why, .. } => format!("unsupported: {why}"),
        LowerError::NotSpecialised { why, .. } => format!("unsupported: the specialised schedule: {why}"),
        LowerError::NoBulkCopy { op, why, .. } => format!("unsupported: `{op}`: {why}"),
        LowerError::NoProduct { op, why, .. } => format!("unsupported: `{op}`: {why}"),
        LowerError::Requirement { why, .. } => format!("a required layout: {why}"),
        LowerError::ResourceExceeded { resource, .. } => format!("not enough {resource}"),
    };
    let mut out = String::new();
    for c in text.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}
