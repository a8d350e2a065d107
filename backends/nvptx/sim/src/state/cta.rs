//! A CTA in flight: its memory, its barriers, its warps, and what it owes before it leaves.

use super::wgmma::Group;
use crate::memory::Shared;
use crate::state::mbar::Mbar;
use crate::state::race::{Clocks, Shadow};
use crate::state::warp::Warp;
use std::collections::BTreeMap;

/// A CTA barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Barrier {
    /// Threads named by the arrivals so far, and threads arrived.
    pub(crate) expected: u32,
    pub(crate) arrived: u32,
    /// Lanes of warps that arrived in part.
    pub(crate) partial: BTreeMap<u32, u32>,
    /// (warp, instruction, whole warp) of this generation's arrivals.
    pub(crate) log: Vec<(u32, u32, bool)>,
    pub(crate) clocks: Clocks,
    pub(crate) popc: u32,
    pub(crate) and: bool,
    pub(crate) or: bool,
}

impl Barrier {
    pub(crate) fn new(warps: usize, threads: usize) -> Barrier {
        Barrier { clocks: Clocks::new(warps, threads), and: true, ..Barrier::default() }
    }

    pub(crate) fn reset(&mut self, warps: usize, threads: usize) {
        *self = Barrier::new(warps, threads);
    }
}

/// A CTA in flight.
pub(crate) struct Cta {
    pub(crate) id: [u32; 3],
    pub(crate) linear: u32,
    pub(crate) shared: Shared,
    pub(crate) shadow: Shadow,
    pub(crate) bars: Vec<Barrier>,
    /// Per barrier: generations completed, and the stream that counts them.
    pub(crate) generations: [(u32, Option<u32>); 16],
    pub(crate) warps: Vec<Warp>,
    /// Linear number of its cluster and its rank there. CTAs of a cluster are neighbours in `Simulator::ctas`.
    pub(crate) cluster: u32,
    pub(crate) rank: u32,
    pub(crate) mbars: Vec<Mbar>,
    /// Per warpgroup.
    pub(crate) groups: Vec<Group>,
    /// Registers that `setmaxnreg` can give out.
    pub(crate) free_regs: u64,
    /// What this CTA must know before its last warp leaves.
    pub(crate) owed: Owed,
    /// Of the whole cluster; used in the CTA of rank 0.
    pub(crate) streams: u32,
    pub(crate) barrier: ClusterBar,
}

impl Cta {
    /// No thread is left.
    pub(crate) fn done(&self) -> bool {
        self.warps.iter().all(Warp::done)
    }
}

/// Instruction, CTA (linear) and warp of an event.
pub(crate) type Origin = (u32, u32, u32);

/// Events that touch a CTA's shared memory from outside its program order, and what its exited warps knew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owed {
    /// Per warp of the cluster: clock and place of its newest remote operation here.
    pub(crate) remote: Vec<(u32, Option<Origin>)>,
    /// (stream, clock, instruction): asynchronous accesses to this shared memory.
    pub(crate) streams: Vec<(u32, u32, u32)>,
    /// What the warps knew when they left.
    pub(crate) known: Clocks,
}

/// `barrier.cluster` of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterBar {
    /// Per warp of the cluster: lanes that have arrived in this generation, and lanes that have arrived but not waited.
    pub(crate) arrived: Vec<u32>,
    pub(crate) unwaited: Vec<u32>,
    pub(crate) now: Clocks,
    pub(crate) last: Clocks,
}

impl ClusterBar {
    pub(crate) fn new(warps: usize, threads: usize) -> ClusterBar {
        let c = Clocks::new(warps, threads);
        ClusterBar { arrived: vec![0; warps], unwaited: vec![0; warps], now: c.clone(), last: c }
    }
}
