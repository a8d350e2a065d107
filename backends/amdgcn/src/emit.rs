//! The front door: a lane program becomes a kernel, as text and as a code object.
//!
//! ```text
//! lane::Program ── select ─► schedule, allocate ─► finish (waits, wait states) ─► print ─► text
//!                                                                              └► encode ─► write ─► object
//! ```

use crate::alloc::{self, AllocError, Facts};
use crate::chip::Chip;
use crate::encode::{self, EncodeError, encode};
use crate::mir::KernArg;
use crate::order::{Made, Order, Orders};
use crate::select::{Reach, Reason, SelectError, Source, select_within};
use crate::{kernel, object, order, text};
use std::fmt;
use tilelift_decisions::{Decision, Told, taken};
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
    /// True if the chip lacks an instruction, which others of its family have.
    pub fn is_of_chip(&self) -> bool {
        matches!(self, EmitError::Select(SelectError::Computation(_, _, Reason::Chip(_)) | SelectError::Instruction(_, Reason::Chip(_))))
    }

    /// True if the program is well-formed, but larger than the chip's registers, scratch memory, or the reach of its branches.
    pub fn is_resource(&self) -> bool {
        match self {
            EmitError::Select(_) => false,
            EmitError::Allocate(e) => e.is_resource(),
            EmitError::Encode(e) => matches!(e.reason, encode::EncodeReason::Branch(_)),
        }
    }
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmitError::Select(e) => e.fmt(f),
            EmitError::Allocate(e) => write!(f, "registers: {e}; use more warps, smaller tiles, or an even extent"),
            EmitError::Encode(e) if self.is_resource() => {
                write!(f, "machine code: {e}, too far for a branch and its bridges; use more warps, smaller tiles, or less in a loop")
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
    let (order, allocated) = allocated(program, chip)?;
    if let Order::PingPong(found) = order {
        let halves = || format!("the workgroup's halves are a stretch apart, {} stretches of products a step", found.stretches);
        taken(Decision::PingPong, || Told::at(halves(), found.slots.into()).before("all in step", Some(found.in_step.into())));
    }
    let facts = allocated.facts;
    let finished = order::finish(allocated);
    let code = encode(&finished).map_err(EmitError::Encode)?;
    taken(Decision::Text, || Told::of(format!("{facts:?}")));
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

/// Registers of a lane that live in scratch memory, and how many of both vector files there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spill {
    /// Bytes of scratch memory per lane.
    pub bytes: u32,
    /// Registers per lane, of both files.
    pub has: u32,
}

/// What of a program does not fit the registers; nothing if all does, or if it becomes no kernel.
pub fn spill(program: &Program, chip: Chip) -> Option<Spill> {
    let made = allocated(program, chip).ok()?.1.program;
    (made.scratch_bytes > 0).then(|| Spill { bytes: made.scratch_bytes, has: alloc::registers(made.waves) })
}

/// Registers for the program. Where loads far from one another went in pairs, and there are too few registers for that, they stay nearer.
fn allocated(program: &Program, chip: Chip) -> Result<Made, EmitError> {
    let source = Source::new(program, chip).map_err(EmitError::Select)?;
    let select = |reach| select_within(&source, reach).map(Orders::new).map_err(EmitError::Select);
    let refuse = |e: AllocError| EmitError::Allocate(e);
    let mut far = select(Reach::Far)?;
    if let Some(made) = far.without_spills().map_err(refuse)? {
        return Ok(made);
    }
    let far = |enough| far.with_spills(enough).map_err(refuse);
    let none = EmitError::Allocate(AllocError::Spilling);
    if !source.reaches_far() {
        return far(None)?.ok_or(none);
    }
    let near = select(Reach::Near).and_then(|mut near| Ok((near.without_spills().map_err(refuse)?, near)));
    if let Ok((Some(made), _)) = near {
        return Ok(made);
    }
    let far = far(None);
    if far == Err(EmitError::Allocate(AllocError::TooMuchWork)) {
        return far?.ok_or(none);
    }
    let enough = far.as_ref().ok().and_then(|a| a.as_ref()).map(|a| a.1.facts.spills);
    let near = near.and_then(|(_, near)| near.with_spills(enough).map_err(refuse));
    match (far, near) {
        (Ok(Some(a)), Ok(Some(b))) => Ok(if a.1.facts.spills.order() <= b.1.facts.spills.order() { a } else { b }),
        (Ok(Some(a)), _) => Ok(a),
        (_, near) => near?.ok_or(none),
    }
}
