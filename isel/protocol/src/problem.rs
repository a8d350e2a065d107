//! What may go wrong with a program's protocol: problems as data, and their sentences.
//!
//! ```text
//! mbarriers, named barriers, clusters ── phases, rounds, ranks
//! local memory                        ── written while it is read or in flight, read before it is there
//! the end, waits for ever             ── what is left open
//! products in flight                  ── registers that an asynchronous product uses
//! what is not followed                ── the proof can't tell; the program may be right
//! ```

use std::fmt;
use tilelift_lane::RegisterError;

macro_rules! problems {
    ($($name:ident = $says:literal,)*) => {
        /// What may happen.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Problem {
            $(#[doc = $says] $name,)*
            /// An address that lies outside of what it was made from.
            Outside(Outside),
            /// More arrivals than a phase expects.
            Arrivals {
                /// Lanes that arrive.
                lanes: u32,
                /// Arrivals that the phase lacks.
                pending: u32,
            },
            /// A wait for a phase that never ends.
            ForEver {
                /// Arrivals that it lacks.
                pending: u32,
                /// Bytes that it lacks; below 0, those that are too many.
                bytes: i64,
                /// Bytes that its only arrival expects, if it has one.
                expected: Option<u32>,
            },
            /// An mbarrier is used where none is made.
            NoBarrier {
                /// Its address in shared memory.
                at: i64,
            },
            /// A named barrier is used by different numbers of warps.
            Warps {
                /// Warps here and elsewhere.
                meet: [u32; 2],
            },
            /// Nobody can tell how many lanes do something.
            Lanes(Doing),
            /// Registers that the pool never has.
            Registers(RegisterError),
            /// More to follow than is followed.
            TooComplex(Many),
        }

        impl fmt::Display for Problem {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Problem::$name => f.write_str($says),)*
                    Problem::Outside(what) => what.fmt(f),
                    Problem::Arrivals { lanes, pending } => write!(f, "{lanes} arrivals where a phase expects {pending} more"),
                    Problem::ForEver { pending: 0, bytes, expected: Some(expected) } => write!(
                        f,
                        "a wait for ever, for a phase that expects {expected} bytes where {} arrive,",
                        i64::from(*expected) - bytes
                    ),
                    Problem::ForEver { pending, bytes, .. } if *bytes < 0 => write!(
                        f,
                        "a wait for ever, for a phase that lacks {pending} arrivals and gets {} bytes more than it expects,",
                        bytes.unsigned_abs()
                    ),
                    Problem::ForEver { pending, bytes, .. } => write!(
                        f,
                        "a wait for ever, for a phase that lacks {pending} arrivals and {bytes} bytes (or for a parity that is not its phase's),"
                    ),
                    Problem::NoBarrier { at } => write!(f, "no mbarrier is made at {at:#x}, used"),
                    Problem::Warps { meet: [here, others] } => write!(
                        f,
                        "a named barrier is one of {here} warps here and of {others} elsewhere, but has to be of as many everywhere,"
                    ),
                    Problem::Lanes(what) => write!(f, "how many lanes {what} is not understood"),
                    Problem::Registers(why) => write!(f, "{why},"),
                    Problem::TooComplex(what) => write!(
                        f,
                        "there are {what} to follow: fewer slots, barriers, blocks and iterations of loops between constants make fewer,"
                    ),
                }
            }
        }
    };
}

problems! {
    // Mbarriers.
    Unpublished = "mbarriers are not published to the units",
    NotMade = "warps do not wait until mbarriers are made",
    MadeInRole = "an mbarrier is made in a role",
    MadeTwice = "an mbarrier is made twice",
    MadeByLanes = "an mbarrier is not made by one lane",
    RemoteNotMade = "an mbarrier of another block is used that may not be made yet,",
    TurnOrder = "turns of warpgroups do not begin and end by turns, on all paths alike,",
    MeetingInTurn = "all warpgroups meet while one has its turn,",
    TurnsOfOne = "warpgroups take turns that also meet other tasks as a whole,",
    EarlyArrival = "an arrival may come before the phase in front of its own has ended,",
    UnseenPhase = "a phase may end before the one in front of it has been seen by all that wait for it,",
    EarlyWait = "a wait may come before the phase in front of the one it is for, and can't tell them apart by their parity,",
    Parity = "the parity is not understood: it has to be a constant, a number that counts (of which the lowest bit is taken), or a quotient, remainder or mask of one by constants; `add n, 1` is the other phase of a number that counts;",
    ManyExpect = "several lanes expect bytes",
    DifferentBarriers = "lanes arrive at different mbarriers,",
    // Named barriers and clusters.
    EarlyRound = "warps may come to a named barrier before all have come to its round before,",
    TooManyWarps = "more warps come to a named barrier than it has,",
    ClusterArrivalTwice = "lanes arrive at the cluster's barrier and have not waited for its last round,",
    ClusterWaitFirst = "lanes wait at the cluster's barrier and have not arrived,",
    ClusterApart = "warps go their own ways between an arrival at the cluster's barrier and its wait,",
    ClusterEnd = "lanes end between an arrival at the cluster's barrier and its wait",
    NoSuchBlock = "the cluster has no block of that rank,",
    RemoteNotRunning = "the memory of another block is touched that may not run yet,",
    CopyNotRunning = "a copy goes to another block that may not run yet,",
    // Local memory.
    LanesWhereUnits = "local memory is written by lanes where units write,",
    UnderWay = "local memory is written while what was written before may still be in flight,",
    StillRead = "local memory is written while it may still be read,",
    UnitOverLanes = "local memory is written by a unit while lanes may still write it,",
    CopyOverLanes = "local memory is copied to while other lanes may still write it,",
    Missed = "local memory is read where the last write has not been,",
    Unwritten = "local memory is read before anybody has written it,",
    CopyNotWaited = "local memory is read before its copy is closed and waited for,",
    CopiesNotWaited = "local memory is read before all lanes are known to have waited for their copies,",
    NotThere = "local memory is read before what was written is known to be there,",
    UnitBeforeLanes = "local memory is read by a unit before all lanes are known to have written it,",
    UnitWithoutFence = "local memory is read by a unit, and `fence_async` of the writer does not come between,",
    UnitBeforeFences = "local memory is read by a unit before the fences of all lanes that wrote it are known to be done,",
    UnitOverUnfenced = "local memory is written by a unit, and `fence_async` of a reader, or of one whom it told, does not come between,",
    // The end.
    InUseAtEnd = "local memory is in use at the end",
    CopiesAtEnd = "lanes may still copy at the end, for no `copy_async_wait` covers what they began,",
    BytesAtEnd = "bytes may still be on their way at the end: nobody waits for the phase that counts them,",
    // Waits for ever.
    NamedForEver = "a wait for ever at a named barrier",
    ClusterForEver = "a wait for ever at the cluster's barrier",
    NobodyGoesOn = "no role can go on",
    // Products in flight.
    ProductAtEnd = "a multiplication is in flight at the end; `async_dot_wait` for it has to come before,",
    ReadInFlight = "a value is read while a multiplication in flight takes it from its register,",
    ResultInFlight = "a result is read before the multiplication that makes it is waited for,",
    WrittenInFlight = "a value is written while a multiplication in flight uses its register: a wait for that has to come before,",
    NoRegisterFence = "no fence of the registers comes before a multiplication,",
    WrittenBehindFence = "an operand was written by ordinary instructions after the last fence of the registers,",
    ProductInChoice = "a product is in flight where a choice that multiplies begins or ends,",
    // What the proof does not follow.
    Address = "the address of local memory is not understood",
    RemoteAddress = "a remote address is not understood",
    BarrierAddress = "the address of an mbarrier is not understood",
    StoreTarget = "where the bytes of an asynchronous store go is not understood",
    CopyTarget = "where a copy goes is not understood",
    CopyBlocks = "which blocks get a copy is not understood",
    WhichBlock = "which block is meant is not understood",
    Access = "an access of local memory is not followed",
    Choice = "a choice that is not understood",
    WaitInChoice = "a wait for others in one of two blocks that let results leave",
    EndlessProducts = "multiplications are used in a loop without a count, which the proof does not follow,",
    EndlessCopies = "lanes copy in a loop without a count, which the proof does not follow",
    EndlessBarriers = "mbarriers are used in a loop without a count, which the proof does not follow",
}

/// An address outside of the buffer, or of the mbarriers, that it was made from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outside {
    /// An mbarrier.
    Barrier {
        /// What the author calls them.
        name: String,
        /// Its number.
        index: i64,
        /// How many there are.
        all: i64,
    },
    /// Bytes of a buffer.
    Bytes {
        /// What the author calls it.
        name: String,
        /// The first byte, and the one behind the last.
        range: [i64; 2],
        /// Its bytes.
        size: i64,
        /// The slot that they begin in, and how many there are, of a ring.
        slot: Option<[i64; 2]>,
    },
}

/// What lanes do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// Make an mbarrier.
    Make,
    /// Arrive.
    Arrive,
    /// Expect bytes.
    Expect,
    /// Copy.
    Copy,
    /// Store.
    Store,
}

/// What there are too many of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Many {
    /// States.
    States(usize),
    /// MiB of states.
    MiB(usize),
    /// Steps.
    Steps(u64),
}

impl Problem {
    /// True for what the proof does not follow, or not to the end: it says nothing against a program.
    pub fn is_limit(&self) -> bool {
        matches!(self, Problem::TooComplex(_) | Problem::EndlessProducts | Problem::EndlessCopies | Problem::EndlessBarriers)
    }
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outside::Barrier { name, index, all } => write!(
                f,
                "barrier {index} of {name} is used, which has {all}: the index has to be at least 0 and below {all}, say `rem n, {all}`,"
            ),
            Outside::Bytes { name, range: [from, to], size, slot } => {
                write!(f, "bytes {from} to {to}")?;
                if let Some([slot, _]) = slot {
                    write!(f, " (slot {slot})")?;
                }
                write!(f, " of {name} are touched, which has {size}: ")?;
                match slot {
                    Some([_, n]) => write!(f, "the slot has to be at least 0 and below {n}, say `rem n, {n}`,"),
                    None => f.write_str("keep indices at least 0 and below its extents, or make it larger,"),
                }
            }
        }
    }
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doing::Make => "make an mbarrier",
            Doing::Arrive => "arrive",
            Doing::Expect => "expect bytes",
            Doing::Copy => "copy",
            Doing::Store => "store",
        })
    }
}

impl fmt::Display for Many {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Many::States(most) => write!(f, "more than {most} states"),
            Many::MiB(most) => write!(f, "states of more than {most} MiB"),
            Many::Steps(most) => write!(f, "more than {most} steps"),
        }
    }
}
