//! A word for every kind of fault, for programs that read reports, and what its author can do about it.

use crate::fault::{Counter, FaultKind, LaunchError, Shared, Use};

impl FaultKind {
    /// The kind as a word of small letters and dashes, which stays the same when messages change.
    pub fn word(&self) -> &'static str {
        match self {
            FaultKind::NoKernel(_) => "no-kernel",
            FaultKind::BadLaunch(_) => "bad-launch",
            FaultKind::Unsupported { .. } => "unsupported-instruction",
            FaultKind::UnsupportedField(_) => "unsupported-field",
            FaultKind::OutsideCode { .. } => "outside-code",
            FaultKind::RegisterCount { .. } => "register-count",
            FaultKind::TupleAlignment { .. } => "tuple-alignment",
            FaultKind::InFlight { .. } => "register-in-flight",
            FaultKind::Hazard { .. } => "wait-states",
            FaultKind::Undefined { .. } => "undefined-value",
            FaultKind::OutOfBounds { .. } => "out-of-bounds",
            FaultKind::Misaligned { .. } => "misaligned",
            FaultKind::LdsOutOfBounds { .. } => "lds-out-of-bounds",
            FaultKind::Race { .. } => "race",
            FaultKind::ScratchAddress { .. } => "scratch-address",
            FaultKind::ScratchOffset { .. } => "scratch-offset",
            FaultKind::LdsInFlight { .. } => "lds-in-flight",
            FaultKind::StepLimit { .. } => "step-limit",
            FaultKind::Deadlock { .. } => "deadlock",
            FaultKind::Trap => "trap",
        }
    }

    /// The address of the other instruction, which this one met too early.
    pub fn other(&self) -> Option<u64> {
        match self {
            FaultKind::InFlight { from, .. } => Some(*from),
            FaultKind::Hazard { first, .. } => Some(*first),
            FaultKind::NoKernel(_)
            | FaultKind::BadLaunch(_)
            | FaultKind::Unsupported { .. }
            | FaultKind::UnsupportedField(_)
            | FaultKind::OutsideCode { .. }
            | FaultKind::RegisterCount { .. }
            | FaultKind::TupleAlignment { .. }
            | FaultKind::Undefined { .. }
            | FaultKind::OutOfBounds { .. }
            | FaultKind::Misaligned { .. }
            | FaultKind::LdsOutOfBounds { .. }
            | FaultKind::Race { .. }
            | FaultKind::ScratchAddress { .. }
            | FaultKind::ScratchOffset { .. }
            | FaultKind::LdsInFlight { .. }
            | FaultKind::StepLimit { .. }
            | FaultKind::Deadlock { .. }
            | FaultKind::Trap => None,
        }
    }

    /// What helps.
    pub fn remedy(&self) -> &'static str {
        match self {
            FaultKind::NoKernel(_) => "launch one of the object's kernels",
            FaultKind::BadLaunch(e) => launch(e),
            FaultKind::Unsupported { .. } | FaultKind::UnsupportedField(_) => {
                "compile for a chip that is simulated (gfx90a, gfx942, gfx950), and without what the message names"
            }
            FaultKind::OutsideCode { .. } => "end every path with s_endpgm, and look at the branch before",
            FaultKind::RegisterCount { .. } => "raise the descriptor's register count (.amdhsa_next_free_vgpr, .amdhsa_next_free_sgpr)",
            FaultKind::TupleAlignment { .. } => "begin the tuple at an even register",
            FaultKind::InFlight { counter: Counter::Vm, .. } => "put an s_waitcnt vmcnt between the two instructions",
            FaultKind::InFlight { counter: Counter::Lgkm, .. } => "put an s_waitcnt lgkmcnt between the two instructions",
            FaultKind::Hazard { .. } => "put s_nop, or instructions that have nothing to do with the register, between the two",
            FaultKind::Undefined { used_as, .. } => undefined(*used_as),
            FaultKind::OutOfBounds { .. } => "mask the lanes that lie outside, or pass a larger buffer",
            FaultKind::Misaligned { .. } => "align the address, or access in smaller pieces",
            FaultKind::LdsOutOfBounds { .. } => "ask for more LDS (.amdhsa_group_segment_fixed_size, or shared_bytes at the launch)",
            FaultKind::Race { other_pending: true, .. } => "wait for the other access (s_waitcnt) before the barrier",
            FaultKind::Race { memory: Shared::Lds, .. } => "put an s_barrier between the two accesses",
            FaultKind::Race { memory: Shared::Global, .. } => {
                "order the two accesses: a barrier within a workgroup, atomics of the device's scope between workgroups"
            }
            FaultKind::ScratchAddress { .. } => SCRATCH,
            FaultKind::ScratchOffset { .. } => "add the offset to the scalar register, or to that of the lanes",
            FaultKind::LdsInFlight { .. } => "put an s_waitcnt vmcnt, and a barrier where other waves read, behind the load to LDS",
            FaultKind::StepLimit { .. } => "look for a loop that does not end, or launch less",
            FaultKind::Deadlock { .. } => "let all waves of a workgroup reach the same barriers",
            FaultKind::Trap => "look at what the program checks before it traps",
        }
    }
}

/// What helps where a kernel makes the address of its scratch memory.
const SCRATCH: &str =
    "before the first access, add the wave's bytes to the address that the kernel begins with: the lower halves, then the carry";

fn launch(e: &LaunchError) -> &'static str {
    match e {
        LaunchError::Shape { .. } => "choose a block within the kernel's limit, and no side of zero",
        LaunchError::Lds { .. } => "ask for less LDS",
        LaunchError::Arguments { .. } => "give every argument that the metadata declare",
        LaunchError::Register(_) => "compile without what the message names",
        LaunchError::UserRegisters { .. } => "count every user SGPR that is asked for (.amdhsa_user_sgpr_count)",
    }
}

fn undefined(used_as: Use) -> &'static str {
    match used_as {
        Use::Store => "write the value in every lane that stores it; buffers without contents count as never written",
        Use::M0 => "set m0 before the instruction",
        Use::FlatScratch => SCRATCH,
        Use::Address | Use::Condition | Use::Exec | Use::Lane => "write the register on every path that leads here",
    }
}
