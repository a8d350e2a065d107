//! The front door: a lane program becomes a kernel, as text and as a code object.
//!
//! ```text
//! lane::Program ── select ─► schedule, allocate ─► finish (waits, wait states) ─► print ─► text
//!                                                                              └► encode ─► write ─► object
//! ```

use crate::alloc::{AllocError, Facts};
use crate::chip::Chip;
use crate::encode::{EncodeError, encode};
use crate::mir::KernArg;
use crate::select::{Reason, SelectError, select};
use crate::{kernel, object, order, text};
use std::fmt;
use tilelift_lane::{Param, Program};

/// A kernel, and what its launch needs.
#[derive(Clone, PartialEq, Debug)]
pub struct AmdKernel {
    /// The kernel as LLVM's assembler reads it.
    pub text: String,
    /// The code object that HIP loads: the same instructions.
    pub object: Vec<u8>,
    /// Name of the kernel in it.
    pub entry: String,
    /// Threads of a workgroup, along the first axis.
    pub threads: u32,
    /// Bytes of local data share, which the object asks for by itself.
    pub shared_bytes: u32,
    /// Launch parameters in order.
    pub params: Vec<Param>,
    /// Arguments in the segment: the launch parameters, then what the runtime fills in.
    pub args: Vec<KernArg>,
    /// Registers and spills.
    pub facts: Facts,
}

/// Why a lane program becomes no kernel.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum EmitError {
    /// It has no machine program.
    Select(SelectError),
    /// Its registers have no places.
    Allocate(AllocError),
    /// An instruction can't be encoded.
    Encode(EncodeError),
}

impl EmitError {
    /// True if the chip lacks what is asked for, which others of its family have: an instruction, or scratch memory that is set up.
    pub fn is_of_chip(&self) -> bool {
        matches!(
            self,
            EmitError::Select(SelectError::Computation(_, _, Reason::Chip(_)) | SelectError::Instruction(_, Reason::Chip(_)))
                | EmitError::Allocate(AllocError::NoScratch)
        )
    }
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmitError::Select(e) => e.fmt(f),
            EmitError::Allocate(e) => write!(f, "registers: {e}; use more warps, smaller tiles, or an even extent"),
            EmitError::Encode(e) => write!(f, "machine code: {e}"),
        }
    }
}

impl std::error::Error for EmitError {}

/// Makes a kernel of a lane program that was lowered for the chip's target.
///
/// # Errors
/// What has no instructions, does not fit the registers, or can't be encoded.
pub fn emit(program: &Program, chip: Chip) -> Result<AmdKernel, EmitError> {
    let selected = select(program, chip).map_err(EmitError::Select)?;
    let (_, allocated) = order::schedule_and_allocate(selected).map_err(EmitError::Allocate)?;
    let facts = allocated.facts;
    let finished = order::finish(allocated);
    let code = encode(&finished).map_err(EmitError::Encode)?;
    Ok(AmdKernel {
        text: text::file(&finished, &code),
        object: object::write(&finished, &code),
        threads: kernel::threads(&finished),
        shared_bytes: finished.lds_bytes,
        params: program.params.clone(),
        entry: finished.name,
        args: finished.args,
        facts,
    })
}
