//! A recording of a launch: what warps waited for and what was in flight, in order. Nothing is recorded unless a launch is given one.
//!
//! ```text
//! run/turns ── a warp blocks, goes on, ends ─┐
//! units ── an operation begins, lands ───────┼─► Recording: events with the number of warp instructions that were executed before them
//! exec, units ── barriers, phases, groups ───┘
//! ```
//!
//! The clock is the simulator's own: the warp instructions of the launch so far, as on a machine that issues one at a time. It says in which order things
//! happened, and how much was executed between them; it does not say how long anything takes.

use std::collections::BTreeMap;

/// Events that a recording holds at most; what comes behind them is counted.
pub const MAX_EVENTS: usize = 1 << 20;

/// What a warp waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitFor {
    /// A barrier of the block, by its number.
    Barrier(u32),
    /// A phase of the mbarrier at this offset of shared memory.
    Mbarrier {
        /// Where it is.
        offset: u64,
        /// The phase.
        phase: u64,
    },
    /// The barrier of the cluster.
    Cluster,
    /// Registers, at `setmaxnreg`.
    Registers,
    /// Matrix products that other warps of its group have not issued.
    Products,
    /// Its other lanes.
    Lanes,
}

/// What an asynchronous operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// Brings bytes to shared memory.
    In,
    /// Takes bytes from shared memory.
    Out,
    /// Arrives at an mbarrier when copies of a lane have landed.
    Arrival,
    /// Brings bytes from memory to registers of lanes: what a wave of an AMD chip has in flight until it waits; here and below.
    Load,
    /// Takes bytes from registers of lanes to memory.
    Store,
    /// Moves bytes between registers of lanes and shared memory.
    Shared,
    /// Brings bytes from memory to scalar registers.
    Scalar,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A block begins, with so many warps.
    Begin {
        /// Its warps.
        warps: u32,
    },
    /// A warp can't go on.
    Blocked {
        /// The warp.
        warp: u32,
        /// What for.
        on: WaitFor,
    },
    /// A warp that was blocked runs again.
    Resumed {
        /// The warp.
        warp: u32,
    },
    /// The last lane of a warp has left.
    Exited {
        /// The warp.
        warp: u32,
    },
    /// A bulk copy, an asynchronous store, or the arrival that counts copies begins.
    TookOff {
        /// Its number in the launch.
        id: u64,
        /// The warp that issued it.
        warp: u32,
        /// What it does.
        transfer: Transfer,
        /// Bytes that it moves.
        bytes: u64,
    },
    /// It has landed.
    Landed {
        /// Its number in the launch.
        id: u64,
    },
    /// A `cp.async` of a warp, which belongs to a group.
    Copy {
        /// The warp.
        warp: u32,
        /// The group's number in the warp.
        group: u32,
        /// Bytes that it moves.
        bytes: u64,
    },
    /// A warp has waited for its `cp.async` groups up to one, or they were counted on an mbarrier.
    CopiesDone {
        /// The warp.
        warp: u32,
        /// The newest of the groups.
        group: u32,
    },
    /// A matrix product that all four warps of a group have issued.
    Product {
        /// The warpgroup.
        warpgroup: u32,
        /// The number of its commit group.
        group: u32,
    },
    /// A warp has waited for the products of its warpgroup up to a commit group.
    ProductsDone {
        /// The warpgroup.
        warpgroup: u32,
        /// The newest of the groups.
        group: u32,
    },
    /// An mbarrier is initialised.
    Mbarrier {
        /// Its offset in shared memory.
        offset: u64,
    },
    /// A phase of an mbarrier is complete.
    Phase {
        /// Its offset in shared memory.
        offset: u64,
        /// The phase.
        phase: u64,
    },
}

/// Something that happened, when, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Warp instructions that the launch had executed before.
    pub at: u64,
    /// Linear number of the block.
    pub block: u32,
    /// The line of the text that did it; 0 if none did.
    pub line: u32,
    /// What.
    pub what: What,
}

/// What a launch did.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// In order.
    pub events: Vec<Event>,
    /// Events behind the last one that found no room.
    pub dropped: u64,
    /// Warp instructions of the launch.
    pub instructions: u64,
    /// The operations in flight, beside the simulator's own list.
    flying: Vec<(u64, u32)>,
    /// Operations that have begun.
    begun: u64,
    /// Warps that are blocked, by block and number.
    blocked: BTreeMap<(u32, u32), WaitFor>,
}

impl Recording {
    /// An empty recording.
    pub fn new() -> Recording {
        Recording::default()
    }

    /// Takes an event down, at the present time.
    pub(crate) fn push(&mut self, block: u32, line: u32, what: What) {
        if self.events.len() < MAX_EVENTS {
            self.events.push(Event { at: self.instructions, block, line, what });
        } else {
            self.dropped += 1;
        }
    }

    /// An operation begins, at the end of the simulator's list.
    pub(crate) fn took_off(&mut self, (block, warp): (u32, u32), line: u32, transfer: Transfer, bytes: u64) {
        let id = self.begun;
        self.begun += 1;
        self.flying.push((id, block));
        self.push(block, line, What::TookOff { id, warp, transfer, bytes });
    }

    /// The operation at a position of the simulator's list has landed, and the last one takes its place.
    pub(crate) fn landed(&mut self, position: usize) {
        if position < self.flying.len() {
            let (id, block) = self.flying.swap_remove(position);
            self.push(block, 0, What::Landed { id });
        }
    }

    /// How a warp stands behind its turn: what it is blocked on, if it is.
    pub(crate) fn turned(&mut self, (block, warp): (u32, u32), line: u32, on: Option<WaitFor>) {
        if let Some(on) = on
            && self.blocked.insert((block, warp), on).is_none()
        {
            self.push(block, line, What::Blocked { warp, on });
        }
    }

    /// A warp has a turn: if it was blocked, it is no more.
    pub(crate) fn turns(&mut self, block: u32, warp: u32) {
        if self.blocked.remove(&(block, warp)).is_some() {
            self.push(block, 0, What::Resumed { warp });
        }
    }
}
