//! How a command ends, and where what it says goes.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// How the tool ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// All well.
    Done,
    /// An input is wrong, or a check failed.
    Failed,
    /// The command line is wrong.
    Usage,
    /// A file or device can't be used.
    Unusable,
}

impl Status {
    /// The exit code.
    pub const fn code(self) -> u8 {
        match self {
            Status::Done => 0,
            Status::Failed => 1,
            Status::Usage => 2,
            Status::Unusable => 3,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(s: Status) -> ExitCode {
        ExitCode::from(s.code())
    }
}

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum CliError {
    /// The command line is wrong.
    Usage(String),
    /// A file or device can't be used.
    Unusable(String),
    /// An input is wrong or a check failed; the sentence (possibly empty, if all is said) goes to standard error.
    Failed(String),
    /// Output could not be written.
    Output(io::Error),
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CliError::Usage(m) | CliError::Unusable(m) | CliError::Failed(m) => f.write_str(m),
            CliError::Output(e) => write!(f, "output can't be written: {e}"),
        }
    }
}

impl From<io::Error> for CliError {
    fn from(e: io::Error) -> CliError {
        CliError::Output(e)
    }
}
impl From<lexopt::Error> for CliError {
    fn from(e: lexopt::Error) -> CliError {
        CliError::Usage(e.to_string())
    }
}

pub(crate) type Outcome = Result<(), CliError>;

/// The streams of a command.
pub(crate) struct Streams<'s> {
    pub(crate) out: &'s mut dyn Write,
    pub(crate) err: &'s mut dyn Write,
    /// Standard error is a terminal, on which something may be drawn over.
    pub(crate) terminal: bool,
}
