//! A recording of a launch: where waves wait for one another and what they have in flight, in order. Nothing is recorded unless a launch is given one.
//!
//! The clock is the simulator's own: the instructions of all waves so far, as on a machine that issues one at a time. It says in which order things
//! happened, not how long anything takes. An operation is in flight from its issue to the wait that covers it, since results land as late as waits allow.

/// Events that a recording holds at most; what comes behind them is counted.
pub const MAX_EVENTS: usize = 1 << 20;

/// What an operation in flight moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moves {
    /// Memory to vector registers.
    Load,
    /// Vector registers to memory, and atomics.
    Store,
    /// Memory to LDS.
    ToLds,
    /// Vector registers to LDS or back.
    Lds,
    /// Memory to scalar registers.
    Scalar,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A workgroup begins, with so many waves.
    Begin {
        /// Its waves.
        waves: u32,
    },
    /// A wave waits at the barrier.
    Waits {
        /// The wave.
        wave: u32,
    },
    /// All waves of the workgroup are at the barrier, and go on.
    Passed,
    /// A wave has ended.
    Ended {
        /// The wave.
        wave: u32,
    },
    /// A wave issues an operation.
    Issued {
        /// Its number in the launch.
        id: u64,
        /// The wave.
        wave: u32,
        /// What it moves.
        moves: Moves,
        /// How many bytes, of all lanes.
        bytes: u64,
    },
    /// The wave has waited for it.
    Landed {
        /// Its number in the launch.
        id: u64,
    },
}

/// Something that happened, when, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Instructions that the launch had issued before.
    pub at: u64,
    /// Number of the workgroup.
    pub group: u64,
    /// Address of the instruction in the code object; 0 if none did it.
    pub pc: u64,
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
    /// Instructions of the launch.
    pub instructions: u64,
    /// Operations that were issued.
    issued: u64,
}

impl Recording {
    /// An empty recording.
    pub fn new() -> Recording {
        Recording::default()
    }

    /// Takes an event down, at the present time.
    pub(crate) fn push(&mut self, group: u64, pc: u64, what: What) {
        if self.events.len() < MAX_EVENTS {
            self.events.push(Event { at: self.instructions, group, pc, what });
        } else {
            self.dropped += 1;
        }
    }

    /// An operation is issued; its number.
    pub(crate) fn issued(&mut self, (group, wave): (u64, u32), pc: u64, moves: Moves, bytes: u64) -> u64 {
        let id = self.issued;
        self.issued += 1;
        self.push(group, pc, What::Issued { id, wave, moves, bytes });
        id
    }
}
