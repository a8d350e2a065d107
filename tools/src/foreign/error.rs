//! How a foreign launch ends.

use std::fmt;
use tilelift_amdgcn_sim as amd;
use tilelift_nvptx_sim::{ErrorKind, MemoryError, ParseError, SimError};

/// Why a foreign launch gave no result.
#[derive(Clone, PartialEq, Debug)]
pub enum ForeignError {
    /// The text does not parse, or uses an instruction that is not modelled.
    Parse(ParseError),
    /// There is no such kernel, or more than one and none was named.
    Entry {
        /// The name asked for; empty for the only one.
        wanted: String,
        /// The names in the code.
        known: Vec<String>,
    },
    /// Initial contents are not as long as their buffer.
    Contents {
        /// The argument.
        arg: usize,
        /// The buffer's size.
        want: usize,
        /// The size of the contents.
        got: usize,
    },
    /// More or fewer arguments than the code object declares.
    Count {
        /// The arguments that it declares.
        declared: Vec<String>,
        /// How many the launch has.
        got: usize,
    },
    /// An argument of another size than the code object declares.
    Size {
        /// The argument.
        arg: usize,
        /// What is declared.
        declared: String,
        /// The argument's bytes.
        got: usize,
    },
    /// Fewer bytes of arguments than the kernel asks for, of an object that does not declare them one by one.
    Bytes {
        /// Bytes that the kernel asks for.
        want: usize,
        /// Bytes of the launch.
        got: usize,
    },
    /// The simulator of PTX found a fault.
    Fault(Box<SimError>),
    /// Simulated memory could not be read back.
    Memory(MemoryError),
    /// The simulator of AMD chips found a fault.
    ObjectFault(Box<amd::Fault>),
    /// Memory of the simulated AMD chip could not be read back.
    ObjectMemory(amd::MemoryError),
}

impl fmt::Display for ForeignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForeignError::Parse(e) => write!(f, "the simulator does not understand the text: {e}"),
            ForeignError::Entry { known, .. } if known.is_empty() => f.write_str("the code has no kernel"),
            ForeignError::Entry { wanted, known } if wanted.is_empty() => {
                write!(f, "the code has {} kernels ({}); name one as `entry`", known.len(), known.join(", "))
            }
            ForeignError::Entry { wanted, known } => write!(f, "the code has no kernel `{wanted}`; it has {}", known.join(", ")),
            ForeignError::Contents { arg, want, got } => write!(f, "args[{arg}]: the buffer has {want} bytes, its contents {got}"),
            ForeignError::Count { declared, got } => {
                write!(f, "the kernel takes {} arguments ({}), and `args` has {got}", declared.len(), declared.join(", "))
            }
            ForeignError::Size { arg, declared, got } => write!(f, "args[{arg}]: the kernel declares {declared}, and this has {got} bytes"),
            ForeignError::Bytes { want, got } => {
                write!(f, "the kernel asks for {want} bytes of arguments without saying which, and `args` has {got}")
            }
            ForeignError::Fault(e) => e.fmt(f),
            ForeignError::Memory(e) => e.fmt(f),
            ForeignError::ObjectFault(e) => e.fmt(f),
            ForeignError::ObjectMemory(e) => e.fmt(f),
        }
    }
}
impl std::error::Error for ForeignError {}

impl ForeignError {
    /// The kind of fault, if the simulator of PTX found one.
    pub fn fault(&self) -> Option<ErrorKind> {
        match self {
            ForeignError::Fault(e) => Some(e.kind),
            ForeignError::Parse(_)
            | ForeignError::Entry { .. }
            | ForeignError::Contents { .. }
            | ForeignError::Count { .. }
            | ForeignError::Size { .. }
            | ForeignError::Bytes { .. }
            | ForeignError::Memory(_)
            | ForeignError::ObjectFault(_)
            | ForeignError::ObjectMemory(_) => None,
        }
    }
}

/// A foreign launch that ran to its end without a finding.
#[derive(Clone, PartialEq, Debug)]
pub struct ForeignRun<R> {
    /// What the simulator counted.
    pub report: R,
    /// Contents of the buffers after the run, one per argument; empty for scalars.
    pub buffers: Vec<Vec<u8>>,
}

/// The entry that a launch asks for, among those that the code has.
pub(super) fn entry<'k>(wanted: &'k str, known: &'k [String]) -> Result<&'k str, ForeignError> {
    match (wanted, known) {
        ("", [only]) => Ok(only),
        (name, all) if all.iter().any(|k| k == name) => Ok(name),
        (name, _) => Err(ForeignError::Entry { wanted: name.to_owned(), known: known.to_vec() }),
    }
}

/// The initial contents of a buffer: `None` for one that nobody has written.
pub(super) fn contents(all: &[Option<Vec<u8>>], arg: usize, bytes: usize) -> Result<Option<Vec<u8>>, ForeignError> {
    match all.get(arg).cloned().flatten() {
        Some(c) if c.len() != bytes => Err(ForeignError::Contents { arg, want: bytes, got: c.len() }),
        other => Ok(other),
    }
}
