//! The front door: a lane program becomes a kernel, as text and as a code object.
//!
//! ```text
//! lane::Program ── select ─► schedule, allocate ─► finish (waits, wait states) ─► print ─► text
//!                                                                              └► encode ─► write ─► object
//! ```

use crate::alloc::{AllocError, Allocated, Facts};
use crate::chip::Chip;
use crate::encode::{self, EncodeError, encode};
use crate::mir::KernArg;
use crate::select::{Reach, Reason, SelectError, reaches_far, select_within};
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

    /// True if the program is well-formed, but larger than the chip's registers, scratch memory, or the reach of its branches.
    pub fn is_resource(&self) -> bool {
        match self {
            EmitError::Select(_) => false,
            EmitError::Allocate(e) => e.is_resource(),
            EmitError::Encode(e) => matches!(e.reason, encode::Reason::Branch(_)),
        }
    }
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmitError::Select(e) => e.fmt(f),
            EmitError::Allocate(e) => write!(f, "registers: {e}; use more warps, smaller tiles, or an even extent"),
            EmitError::Encode(e) if self.is_resource() => {
                write!(f, "machine code: {e}, and branches reach 32768; use more warps, smaller tiles, or less in a loop")
            }
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
    let allocated = allocated(program, chip)?;
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

/// Registers for the program. Where loads far from one another went in pairs, and there are too few registers for that, they stay nearer.
fn allocated(program: &Program, chip: Chip) -> Result<Allocated, EmitError> {
    let within = |reach| {
        let selected = select_within(program, chip, reach).map_err(EmitError::Select)?;
        order::schedule_and_allocate(selected).map(|made| made.1).map_err(EmitError::Allocate)
    };
    let words = |a: &Allocated| (a.facts.spills.to_scratch, a.facts.spills.to_acc, a.facts.spills.to_lanes);
    let first = within(Reach::Far);
    let short = match &first {
        Ok(a) => words(a) != (0, 0, 0),
        Err(e) => matches!(e, EmitError::Allocate(e) if *e != AllocError::TooMuchWork),
    };
    if !short || !reaches_far(program) {
        return first;
    }
    match (first, within(Reach::Near)) {
        (Ok(a), Ok(b)) => Ok(if words(&a) <= words(&b) { a } else { b }),
        (Ok(a), Err(_)) => Ok(a),
        (Err(_), second) => second,
    }
}
