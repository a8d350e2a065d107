//! The one error of an embedded compiler.

use crate::compile::{CompileError, Stage};
use crate::targets;
use std::fmt;
use tilelift_ir::Loc;
use tilelift_ir::text::ParseErrors;
use tilelift_isel::LowerError;

/// Why there is no artifact. Every error has a stable [code](Error::code), the [stage](Error::stage) that failed, a [place](Error::place) where one
/// is to blame, and a [remedy](Error::remedy).
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no target of that name, or nothing prints code for it.
    Target {
        /// The name.
        name: String,
    },
    /// The text is none of the language.
    Text(ParseErrors),
    /// The text has no such kernel, or several where none is named.
    NoKernel {
        /// The name that was asked for.
        name: Option<String>,
        /// The names of those that there are.
        found: Vec<String>,
    },
    /// The settings do not fit the kernel.
    Settings {
        /// What does not fit.
        why: String,
    },
    /// The kernel is refused.
    Refused(Refusal),
    /// The system gave no thread to compile on.
    NoThread {
        /// What the system says.
        why: String,
    },
    /// The compiler failed: a bug of it.
    Internal {
        /// What it said.
        message: String,
    },
}

/// A kernel that is refused.
#[derive(Clone, PartialEq, Debug)]
pub struct Refusal {
    kernel: String,
    error: Box<CompileError>,
}

impl Refusal {
    pub(crate) fn new(kernel: &str, error: CompileError) -> Refusal {
        Refusal { kernel: kernel.to_owned(), error: Box::new(error) }
    }
    /// Name of the kernel.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }
}

impl Error {
    /// A stable code: `P…` of a text (listed in `docs/language.md`), `V…` of the rules of the language, `L…` of the lowering, `E…` of the code
    /// for the target, `C…` of the compiler itself.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Target { .. } => "C0101",
            Error::NoKernel { .. } => "C0102",
            Error::Settings { .. } => "C0103",
            Error::NoThread { .. } => "C0201",
            Error::Internal { .. } => "C0901",
            Error::Text(e) => e.errors.first().map_or("P0000", |e| e.code.text()),
            Error::Refused(r) => match &*r.error {
                CompileError::Verify(e) => e.errors.first().map_or("V0000", |e| e.code.text()),
                CompileError::Lower(e) if e.is_protocol() => "L0104",
                CompileError::Lower(
                    LowerError::Unsupported { .. }
                    | LowerError::NotSpecialised { .. }
                    | LowerError::NoBulkCopy { .. }
                    | LowerError::NoProduct { .. },
                ) => "L0101",
                CompileError::Lower(LowerError::Requirement { .. }) => "L0102",
                CompileError::Lower(LowerError::ResourceExceeded { .. }) => "L0103",
                CompileError::Lane(_) => "L0901",
                CompileError::Emit(_) | CompileError::Code(_) => "E0101",
                CompileError::Registers { .. } => "E0102",
                CompileError::NoBackend { .. } => "C0101",
            },
        }
    }

    /// The stage of the compile that failed; none if it never began.
    pub fn stage(&self) -> Option<Stage> {
        match self {
            Error::Refused(r) => Some(r.error.stage()),
            Error::Target { .. }
            | Error::Text(_)
            | Error::NoKernel { .. }
            | Error::Settings { .. }
            | Error::NoThread { .. }
            | Error::Internal { .. } => None,
        }
    }

    /// Where the reason stands, in the text or in the program that built the kernel; none if it belongs to no place.
    pub fn place(&self) -> Option<Loc> {
        let place = match self {
            Error::Text(e) => e.errors.first().map(|e| e.loc),
            Error::Refused(r) => Some(r.error.loc()),
            Error::Target { .. } | Error::NoKernel { .. } | Error::Settings { .. } | Error::NoThread { .. } | Error::Internal { .. } => {
                None
            }
        };
        place.filter(|loc| loc.is_known())
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Error::Target { .. } => format!("use one of {}", targets::with_text().join(", ")),
            Error::NoKernel { found, .. } => format!("name one of {}", found.join(", ")),
            Error::Settings { .. } => "settle for what the kernel has".to_owned(),
            Error::NoThread { .. } => "free memory or threads, and compile again".to_owned(),
            Error::Internal { .. } => "report the kernel".to_owned(),
            Error::Text(_) => "mend the text where the message points".to_owned(),
            Error::Refused(r) => match &*r.error {
                CompileError::Verify(_) => "mend the kernel where the message points".to_owned(),
                CompileError::Lower(LowerError::ResourceExceeded { remedy, .. }) => remedy.to_string(),
                CompileError::Lower(LowerError::Requirement { .. }) => "drop one of the layouts that are at odds".to_owned(),
                CompileError::Lower(_) => "write the instruction at that place another way, or compile for another target".to_owned(),
                CompileError::Registers { .. } => "use more warps, smaller tiles, or an even extent".to_owned(),
                CompileError::Lane(_) | CompileError::Code(_) => "report the kernel".to_owned(),
                CompileError::Emit(_) => "allow a newer version of the text, or compile for another target".to_owned(),
                CompileError::NoBackend { .. } => format!("use one of {}", targets::with_text().join(", ")),
            },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Target { name } => write!(f, "there is no target `{name}`; {}", self.remedy()),
            Error::Text(e) => e.fmt(f),
            Error::NoKernel { name: Some(name), found } if found.is_empty() => {
                write!(f, "the text has no kernel @{name}: it has none at all")
            }
            Error::NoKernel { name: Some(name), .. } => write!(f, "the text has no kernel @{name}; {}", self.remedy()),
            Error::NoKernel { name: None, found } if found.is_empty() => f.write_str("the text has no kernel"),
            Error::NoKernel { name: None, found } => write!(f, "the text has {} kernels; {}", found.len(), self.remedy()),
            Error::Settings { why } => write!(f, "the settings do not fit the kernel: {why}"),
            Error::Refused(r) => r.error.fmt(f),
            Error::NoThread { why } => write!(f, "there is no thread to compile on ({why}); {}", self.remedy()),
            Error::Internal { message } => write!(f, "the compiler failed: {message}; this is a bug of tilelift, please report the kernel"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Text(e) => Some(e),
            Error::Refused(_)
            | Error::Target { .. }
            | Error::NoKernel { .. }
            | Error::Settings { .. }
            | Error::NoThread { .. }
            | Error::Internal { .. } => None,
        }
    }
}
