//! What a kernel can do wrong: each fault names the instruction, the wave, and what it met.

use std::fmt;

/// What an instruction answers: a value, or what is wrong.
pub(crate) type Result<T> = std::result::Result<T, FaultKind>;

/// A fault and where it happened.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// Where, if an instruction was at fault.
    pub site: Option<Site>,
}

/// An instruction of a wave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// The address in the code object.
    pub pc: u64,
    /// The instruction.
    pub text: String,
    /// The workgroup.
    pub workgroup: [u32; 3],
    /// The wave in the workgroup.
    pub wave: u32,
}

/// A counter of operations in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counter {
    /// Vector memory.
    Vm,
    /// LDS and scalar memory.
    Lgkm,
}

/// Memory that waves share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shared {
    /// Of a workgroup.
    Lds,
    /// Of the launch.
    Global,
}

/// What an undefined value was used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// An address, a descriptor or an offset.
    Address,
    /// The condition of a branch.
    Condition,
    /// The mask of active lanes.
    Exec,
    /// A value stored to global memory.
    Store,
    /// The lane of a read or write of a lane.
    Lane,
    /// M0 as an LDS address.
    M0,
    /// The address of the wave's scratch memory.
    FlatScratch,
}

/// A rule of the hardware about instructions that follow each other too closely.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// A matrix result read by a vector or memory instruction.
    MatrixResultRead,
    /// A matrix result overwritten by a vector instruction.
    MatrixResultOverwritten,
    /// A matrix result as A or B of the next.
    MatrixResultAsFactor,
    /// A matrix result as the addend of the next.
    MatrixResultAsAddend,
    /// The addend of a matrix instruction overwritten by a vector instruction.
    MatrixAddendOverwritten,
    /// A vector result read by a matrix instruction.
    VectorResultInMatrix,
    /// EXEC written by a vector instruction before a matrix instruction.
    ExecBeforeMatrix,
    /// A vector result permuted by DPP.
    VectorResultInDpp,
    /// EXEC written by a vector instruction before DPP.
    ExecBeforeDpp,
    /// EXEC written by a vector instruction before a read or write of a lane.
    ExecBeforeLane,
    /// An SGPR of a vector instruction in an address.
    ScalarInAddress,
    /// An SGPR of a vector instruction as the number of a lane.
    ScalarAsLane,
    /// An SGPR of a vector instruction as a constant or mask of the next.
    ScalarInVector,
    /// A vector result in a read of one of its lanes.
    VectorResultInLane,
    /// A result that is a part of its register, read by a vector instruction.
    PartialResult,
    /// A result of the transcendental unit in another instruction.
    Transcendental,
    /// A result of a dot product in another instruction.
    DotProduct,
    /// VCC of a vector instruction in `v_div_fmas`.
    DivFmas,
    /// M0 before a load to LDS.
    M0BeforeLds,
    /// Data of a wide store overwritten by a vector instruction.
    StoreDataOverwritten,
}

/// What happened.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum FaultKind {
    /// There is no such kernel.
    NoKernel(String),
    /// The launch asks for what the kernel or chip does not have.
    BadLaunch(LaunchError),
    /// Dwords that are no instruction, or one that is not simulated.
    Unsupported {
        /// The dwords.
        words: Vec<u32>,
    },
    /// A field of an instruction that is not simulated.
    UnsupportedField(&'static str),
    /// The program runs outside the code.
    OutsideCode {
        /// Where.
        pc: u64,
    },
    /// A register beyond those that the descriptor asks for.
    RegisterCount {
        /// The register.
        register: String,
        /// How many there are.
        available: u32,
    },
    /// A tuple that does not begin at a multiple that it must.
    TupleAlignment {
        /// The first register.
        register: String,
    },
    /// A register that an operation in flight still writes.
    InFlight {
        /// The register.
        register: String,
        /// The counter to wait for.
        counter: Counter,
        /// The address of the instruction that writes it.
        from: u64,
    },
    /// An instruction too soon after another.
    Hazard {
        /// The rule.
        rule: Rule,
        /// The register.
        register: String,
        /// The first instruction's address.
        first: u64,
        /// Wait states that must be between the two.
        needed: u32,
        /// Wait states that are.
        had: u32,
    },
    /// An undefined value where it matters.
    Undefined {
        /// What for.
        used_as: Use,
        /// The first lane, if lanes have values of their own.
        lane: Option<u32>,
    },
    /// An access outside every buffer.
    OutOfBounds {
        /// The address.
        address: u64,
        /// Bytes.
        bytes: u32,
        /// The buffer that is nearest, and the distance to its end.
        near: Option<(String, i64)>,
        /// The lane.
        lane: Option<u32>,
    },
    /// An access at no multiple of its size.
    Misaligned {
        /// The address.
        address: u64,
        /// What it must be a multiple of.
        align: u32,
        /// The lane.
        lane: Option<u32>,
    },
    /// An access outside the LDS of the workgroup.
    LdsOutOfBounds {
        /// The address.
        address: u32,
        /// Bytes.
        bytes: u32,
        /// Bytes that there are.
        available: u32,
        /// The lane.
        lane: u32,
    },
    /// Two accesses, one of them a write, that nothing orders.
    Race {
        /// In which memory.
        memory: Shared,
        /// The address.
        address: u64,
        /// The lane.
        lane: u32,
        /// This access is a write.
        write: bool,
        /// The other access was a write.
        other_write: bool,
        /// The other access has not been waited for.
        other_pending: bool,
        /// The other access: the workgroup by its number, and the wave.
        other: Option<(u32, u32)>,
    },
    /// The address that the kernel made of its wave's scratch memory is not that of the wave's.
    ScratchAddress {
        /// The address that the kernel made.
        made: u64,
        /// Where the wave's scratch memory is.
        own: u64,
    },
    /// A negative offset of a scratch access with a scalar address, at which these chips fault.
    ScratchOffset {
        /// The offset.
        offset: i32,
    },
    /// LDS that a load is still filling.
    LdsInFlight {
        /// The address.
        address: u32,
        /// The lane.
        lane: u32,
    },
    /// More steps than the limit.
    StepLimit {
        /// The limit.
        steps: u64,
    },
    /// Waves wait at a barrier that others of their workgroup never reach.
    Deadlock {
        /// Waves that wait.
        waiting: Vec<u32>,
        /// Waves that have ended.
        ended: Vec<u32>,
    },
    /// The program asked to trap.
    Trap,
}

/// Why a launch cannot begin.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LaunchError {
    /// A side of the grid or block is zero, or the block is larger than the kernel allows.
    Shape {
        /// Work items of a workgroup.
        items: u64,
        /// The most there may be.
        most: u32,
    },
    /// More LDS than the chip has.
    Lds {
        /// Bytes asked for.
        bytes: u64,
    },
    /// Fewer bytes of arguments than the kernel's segment has explicit arguments.
    Arguments {
        /// Bytes given.
        given: usize,
        /// Bytes needed.
        needed: usize,
    },
    /// A user SGPR that is not simulated.
    Register(&'static str),
    /// The descriptor counts fewer user SGPRs than it asks for: what comes behind them would lie in them.
    UserRegisters {
        /// How many it counts.
        counted: u32,
        /// How many it asks for.
        asked: u32,
    },
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaunchError::Shape { items, most } => write!(f, "workgroups of {items} work items; there can be 1 to {most}"),
            LaunchError::Lds { bytes } => write!(f, "{bytes} bytes of LDS are more than the chip has"),
            LaunchError::Arguments { given, needed } => write!(f, "{given} bytes of arguments; the kernel needs {needed}"),
            LaunchError::Register(what) => write!(f, "the kernel wants {what} in SGPRs, which is not simulated"),
            LaunchError::UserRegisters { counted, asked } => {
                write!(f, "the descriptor asks for {asked} user SGPRs, and counts {counted} (compute_pgm_rsrc2)")
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(s) = &self.site {
            write!(f, "at {:#x} `{}` in workgroup {:?}, wave {}: ", s.pc, s.text, s.workgroup, s.wave)?;
        }
        self.kind.fmt(f)
    }
}

impl std::error::Error for Fault {}

struct Lane(Option<u32>);

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |l| write!(f, " in lane {l}"))
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::NoKernel(name) => write!(f, "there is no kernel `{name}`"),
            FaultKind::BadLaunch(e) => e.fmt(f),
            FaultKind::Unsupported { words } => write!(f, "no instruction that is simulated: {words:08x?}"),
            FaultKind::UnsupportedField(what) => write!(f, "{what} is not simulated"),
            FaultKind::OutsideCode { pc } => write!(f, "the program runs to {pc:#x}, outside the code"),
            FaultKind::RegisterCount { register, available } => {
                write!(f, "{register} is beyond the {available} registers of the descriptor")
            }
            FaultKind::TupleAlignment { register } => write!(f, "a tuple must not begin at {register}"),
            FaultKind::InFlight { register, counter, from } => {
                let counter = if *counter == Counter::Vm { "vmcnt" } else { "lgkmcnt" };
                write!(f, "{register} is used before a wait for {counter} covers the instruction at {from:#x} that writes it")
            }
            FaultKind::Hazard { rule, register, first, needed, had } => {
                write!(f, "{rule:?}: {register} needs {needed} wait states after the instruction at {first:#x}, and there are {had}")
            }
            FaultKind::Undefined { used_as, lane } => write!(f, "an undefined value is used as {used_as:?}{}", Lane(*lane)),
            FaultKind::OutOfBounds { address, bytes, near, lane } => {
                write!(f, "{bytes} bytes at {address:#x}{} are outside every buffer", Lane(*lane))?;
                near.as_ref().map_or(Ok(()), |(name, d)| write!(f, " ({d} bytes from the end of `{name}`)"))
            }
            FaultKind::Misaligned { address, align, lane } => write!(f, "address {address:#x}{} is no multiple of {align}", Lane(*lane)),
            FaultKind::LdsOutOfBounds { address, bytes, available, lane } => {
                write!(f, "{bytes} bytes of LDS at {address:#x} in lane {lane}; the workgroup has {available}")
            }
            FaultKind::Race { memory, address, lane, write, other_write, other_pending, other } => {
                let kind = |w: bool| if w { "write" } else { "read" };
                write!(f, "the {} of {memory:?} {address:#x} in lane {lane} races with a {}", kind(*write), kind(*other_write))?;
                other.map_or(Ok(()), |(g, w)| write!(f, " of workgroup {g}, wave {w}"))?;
                f.write_str(if *other_pending { " that was not waited for" } else { " in the same barrier interval" })
            }
            FaultKind::ScratchAddress { made, own } => {
                write!(f, "the kernel's address of scratch memory is {made:#x}, and the wave's memory is at {own:#x}")
            }
            FaultKind::ScratchOffset { offset } => write!(f, "the offset {offset} beside a scalar address of scratch memory"),
            FaultKind::LdsInFlight { address, lane } => write!(f, "LDS {address:#x} in lane {lane} is still being filled by a load to LDS"),
            FaultKind::StepLimit { steps } => write!(f, "more than {steps} instructions: the program hangs, or the limit is too low"),
            FaultKind::Deadlock { waiting, ended } => write!(f, "waves {waiting:?} wait at a barrier for ever; waves {ended:?} have ended"),
            FaultKind::Trap => f.write_str("the program trapped"),
        }
    }
}
