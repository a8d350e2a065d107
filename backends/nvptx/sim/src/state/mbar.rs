//! The state of one mbarrier.

use crate::state::race::Clocks;

/// A waiting warp: (warp of the cluster, phase, its clock when it passed).
pub(crate) type Waiter = (u32, u64, Option<u32>);

/// What the arrivals of a phase released.
#[derive(Clone, Debug, Default)]
pub(crate) struct Released {
    /// For every waiter, and for those with cluster scope.
    pub(crate) near: Clocks,
    pub(crate) far: Clocks,
}

/// One initialised mbarrier.
#[derive(Clone, Debug)]
pub(crate) struct Mbar {
    /// Offset in the CTA's shared memory.
    pub(crate) off: u64,
    pub(crate) stream: u32,
    pub(crate) dense: u32,
    pub(crate) count: i64,
    pub(crate) pending: i64,
    pub(crate) tx: i64,
    /// Phases completed.
    pub(crate) phase: u64,
    /// A fence has made the initialisation visible to the cluster and to asynchronous operations.
    pub(crate) fenced: bool,
    /// Initialising warp, its clock, instruction.
    pub(crate) init: (u32, u32, u32),
    pub(crate) now: Released,
    pub(crate) last: Released,
    pub(crate) waiters: Vec<Waiter>,
    /// (warp of the cluster, instruction, arrivals) of the current phase.
    pub(crate) log: Vec<(u32, u32, u32)>,
    /// Copies in flight that will complete here: (count, instruction and warp of the newest).
    pub(crate) in_flight: u32,
}

/// Where an mbarrier is: CTA position, index in its table.
pub(crate) type At = (usize, usize);
