//! Why an oracle has no answer.

use std::fmt;
use std::io;

/// Why there is no report.
#[derive(Debug)]
pub enum AsmError {
    /// The assembler is not installed.
    Missing,
    /// The disassembler is not installed.
    NoDisassembler,
    /// A tool could not be run.
    Io(io::Error),
    /// What the assembler made is no object.
    Object(elf::ParseError),
    /// The text was refused; what the assembler says.
    Refused(String),
}

impl fmt::Display for AsmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AsmError::Missing => f.write_str("ptxas not found; set TILELIFT_PTXAS or `pip install nvidia-cuda-nvcc` into .oracles"),
            AsmError::NoDisassembler => {
                f.write_str("nvdisasm not found; set TILELIFT_NVDISASM or `pip install nvidia-cuda-nvdisasm` into .oracles")
            }
            AsmError::Io(e) => write!(f, "ptxas or nvdisasm could not be run: {e}"),
            AsmError::Object(e) => write!(f, "what ptxas made can't be read: {e}"),
            AsmError::Refused(log) => write!(f, "ptxas or nvdisasm refused the text:\n{log}"),
        }
    }
}

impl std::error::Error for AsmError {}

impl From<io::Error> for AsmError {
    fn from(e: io::Error) -> AsmError {
        AsmError::Io(e)
    }
}
