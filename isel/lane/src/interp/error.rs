//! Errors of the lane interpreter.

use crate::abi::AbiError;
use crate::value::Space;
use crate::verify::LaneVerifyError;
use std::fmt;

/// Why a lane program ended without an answer.
#[derive(Clone, PartialEq, Debug)]
pub enum LaneError {
    /// The program is malformed.
    Verify(LaneVerifyError),
    /// The arguments don't fill the program's parameters.
    Abi(AbiError),
    /// A pointer parameter names a buffer that the memory lacks.
    Buffer {
        /// The buffer's index.
        buffer: usize,
        /// Number of buffers.
        count: usize,
    },
    /// A grid extent is above `i32::MAX`.
    Grid {
        /// The grid asked for.
        grid: [u32; 3],
    },
    /// The grid is no multiple of the program's clusters along x.
    Cluster {
        /// The grid.
        grid: [u32; 3],
        /// Program instances of a cluster.
        cluster: u32,
    },
    /// The grid is no multiple of the positions that an instance stands for.
    Positions {
        /// The grid.
        grid: [u32; 3],
        /// Positions of an instance along each axis.
        positions: [u32; 3],
    },
    /// A program of [`super::LaneOptions::programs`] is not in the grid.
    Program {
        /// The program.
        program: [u32; 3],
        /// The grid.
        grid: [u32; 3],
    },
    /// A matrix instruction of the target's table can't be executed by one warp, or contradicts itself.
    Table {
        /// The matrix instruction.
        name: &'static str,
        /// What is wrong.
        problem: &'static str,
    },
    /// An instruction could not be executed.
    Fault {
        /// What happened.
        fault: LaneFault,
        /// The instruction as printed.
        inst: String,
        /// The program instance.
        program: [u32; 3],
        /// The thread of the program instance.
        thread: usize,
    },
}

/// What can go wrong at an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LaneFault {
    /// The fuel of [`super::LaneOptions::fuel`] is spent.
    Fuel {
        /// The fuel that was given.
        limit: u64,
    },
    /// A `while` did not end within [`super::LaneOptions::steps`].
    Rounds {
        /// The rounds that were allowed.
        limit: u64,
    },
    /// A condition or bound of control flow differs between threads.
    Divergent {
        /// The value of thread 0, as bits.
        first: u64,
        /// The value of this thread, as bits.
        here: u64,
    },
    /// The step of a loop is not positive.
    Step {
        /// The step.
        step: i64,
    },
    /// An access outside any buffer, or outside the program's shared memory.
    Outside {
        /// Which memory.
        space: Space,
        /// The address.
        addr: u64,
        /// Bytes accessed.
        bytes: usize,
    },
    /// A vector access whose address is no multiple of its width.
    Misaligned {
        /// Which memory.
        space: Space,
        /// The address.
        addr: u64,
        /// The width in bytes.
        bytes: usize,
    },
    /// A read of a byte that was never written.
    Uninitialised {
        /// Which memory.
        space: Space,
        /// The address of the byte.
        addr: u64,
    },
    /// An access to the destination of an asynchronous copy that no wait covers yet.
    PendingCopy {
        /// The address of the byte.
        addr: u64,
        /// The thread that started the copy.
        owner: usize,
    },
    /// Two accesses to a byte of shared memory, one of them a write, by different warps (or, of an asynchronous copy, by different threads) without a
    /// barrier in between; or two threads that write different values at once.
    Race {
        /// The address of the byte.
        addr: u64,
        /// The warp that accessed the byte before; `None` if several did.
        other: Option<usize>,
        /// True if the access before was a write.
        wrote: bool,
    },
    /// An assertion fails.
    Assertion,
    /// All roles wait, and nothing is in flight that could wake one; this is the wait of one of them.
    Deadlock {
        /// Address of the mbarrier that is waited for.
        mbarrier: u64,
        /// Parity waited for.
        parity: u64,
        /// The phase of the mbarrier.
        phase: u64,
        /// Arrivals and bytes that the phase still expects.
        missing: (u32, i64),
    },
    /// All roles wait, this one for others to come to a barrier.
    Alone(&'static str),
    /// A rank beyond the cluster.
    ClusterRank {
        /// The rank.
        rank: i64,
        /// Blocks of the cluster.
        size: u32,
    },
    /// An mbarrier that was not made, or gets more arrivals than its phase expects.
    Mbarrier {
        /// Its address.
        addr: u64,
        /// What is wrong.
        problem: &'static str,
    },
    /// A write to memory that a multiplication or bulk store in flight still reads.
    InUse {
        /// Address of a byte.
        addr: u64,
    },
    /// A unit reads bytes that a lane wrote without a fence behind the write.
    Unfenced {
        /// Address of a byte.
        addr: u64,
    },
    /// A read of a result whose multiplication is not waited for, or of an undefined value.
    NotReady,
    /// The program ends while a unit still uses its shared memory.
    UnderWay(&'static str),
    /// The program breaks an invariant that the verifier guarantees.
    Malformed(&'static str),
}

impl fmt::Display for LaneFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaneFault::Fuel { limit } => {
                write!(
                    f,
                    "no more than {limit} thread instructions are allowed; does the loop end? otherwise allow more (`--steps`, `LaneOptions::fuel`)"
                )
            }
            LaneFault::Rounds { limit } => {
                write!(f, "the loop ran {limit} rounds and goes on; mend its condition, or allow more (`--steps`, `LaneOptions::steps`)")
            }
            LaneFault::Divergent { first, here } => {
                write!(f, "control flow must be uniform, but thread 0 has {first:#x} and this one {here:#x}; use select or a guard")
            }
            LaneFault::Step { step } => write!(f, "the step of the loop is {step}; steps are positive"),
            LaneFault::Outside { space, addr, bytes } => {
                write!(f, "{bytes} bytes at {space} address {addr:#x} are outside of what was allocated; guard the access")
            }
            LaneFault::Misaligned { space, addr, bytes } => {
                write!(f, "{space} address {addr:#x} is no multiple of the access's {bytes} bytes; use narrower accesses")
            }
            LaneFault::Uninitialised { space, addr } => write!(f, "the byte at {space} address {addr:#x} was never written"),
            LaneFault::PendingCopy { addr, owner } => write!(
                f,
                "shared address {addr:#x} is the destination of a copy that thread {owner} started and that no wait covers yet; wait for its group first"
            ),
            LaneFault::Race { addr, other, wrote } => {
                let what = if *wrote { "written" } else { "read" };
                match other {
                    Some(w) => {
                        write!(f, "shared address {addr:#x} was {what} by warp {w} since the last barrier; put a barrier in between")
                    }
                    None => {
                        write!(f, "shared address {addr:#x} was {what} by several warps since the last barrier; put a barrier in between")
                    }
                }
            }
            LaneFault::Deadlock { mbarrier, parity, phase, missing: (arrivals, bytes) } => write!(
                f,
                "all roles wait: this one for the phase of parity {parity} of the mbarrier at {mbarrier:#x}, which is in phase {phase} and \
                 lacks {arrivals} arrivals and {bytes} bytes"
            ),
            LaneFault::Alone(what) => write!(f, "all roles wait, this one at {what}, where too few others come"),
            LaneFault::ClusterRank { rank, size } => write!(f, "there is no block of rank {rank} in a cluster of {size}"),
            LaneFault::Mbarrier { addr, problem } => write!(f, "the mbarrier at {addr:#x} {problem}"),
            LaneFault::InUse { addr } => {
                write!(f, "byte {addr:#x} is written while a multiplication or bulk store still reads it; wait for that first")
            }
            LaneFault::Unfenced { addr } => {
                write!(f, "byte {addr:#x} is read by a unit, but no `fence_units` of the lane that wrote it came after the write")
            }
            LaneFault::NotReady => f.write_str("a value is read that nothing has made yet; wait for its multiplication first"),
            LaneFault::UnderWay(what) => write!(f, "the program ends while {what} in flight; wait for it first"),
            LaneFault::Assertion => f.write_str("the assertion fails"),
            LaneFault::Malformed(what) => write!(f, "the program is malformed ({what}); run the verifier"),
        }
    }
}

impl fmt::Display for LaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaneError::Verify(e) => e.fmt(f),
            LaneError::Abi(e) => e.fmt(f),
            LaneError::Buffer { buffer, count } => {
                write!(f, "an argument names buffer {buffer}, but there are {count}; add the buffer to the memory first")
            }
            LaneError::Grid { grid } => write!(f, "the grid is {grid:?}; its extents are at most {}", i32::MAX),
            LaneError::Cluster { grid, cluster } => write!(f, "the grid {grid:?} is no multiple of clusters of {cluster} along x; pad it"),
            LaneError::Positions { grid, positions } => {
                write!(f, "the grid {grid:?} is no multiple of {positions:?}, the positions of an instance; pad it")
            }
            LaneError::Program { program, grid } => write!(f, "program {program:?} is outside the grid {grid:?}"),
            LaneError::Table { name, problem } => write!(f, "{name} can't be interpreted: {problem}; correct the target's table"),
            LaneError::Fault { fault, inst, program, thread } => write!(f, "`{inst}` in program {program:?}, thread {thread}: {fault}"),
        }
    }
}

impl std::error::Error for LaneFault {}
impl std::error::Error for LaneError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LaneError::Verify(e) => Some(e),
            LaneError::Abi(e) => Some(e),
            LaneError::Fault { fault, .. } => Some(fault),
            LaneError::Buffer { .. }
            | LaneError::Grid { .. }
            | LaneError::Cluster { .. }
            | LaneError::Positions { .. }
            | LaneError::Program { .. }
            | LaneError::Table { .. } => None,
        }
    }
}

impl From<LaneVerifyError> for LaneError {
    fn from(e: LaneVerifyError) -> LaneError {
        LaneError::Verify(e)
    }
}
impl From<AbiError> for LaneError {
    fn from(e: AbiError) -> LaneError {
        LaneError::Abi(e)
    }
}
