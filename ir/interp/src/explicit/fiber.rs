//! The state of a task that runs: the regions that it is in, what it waits for, what it has in flight.

use super::local::{Clock, Mark, Site};
use super::shape::Handle;
use crate::data::{Bundle, Data};
use crate::explicit::local::Buf;
use cranelift_entity::SecondaryMap;
use tilelift_ir::{Inst, Region, Value};

/// Whether a fiber can go on.
#[derive(Debug, Default)]
pub(super) enum State {
    /// As far as is known.
    #[default]
    Ready,
    /// At an instruction, for something.
    Waits(Inst, String),
    /// Behind its last instruction.
    Ended,
}

/// What happens at the end of a region.
pub(super) enum Then {
    /// The fiber ends.
    End,
    /// The next round of a `for` at this index, with this bound and step; this one began behind so many products.
    For(Inst, i128, i64, i64, u64),
    /// The test of a `while` that has this many rounds left, what it carries, and the products that were begun before.
    Test(Inst, u64, Bundle, u64),
    /// The body of a `while`, whose test began behind so many products.
    Body(Inst, u64, u64),
    /// The results of an `if`.
    If(Inst),
}

/// A region that is running.
pub(super) struct Frame {
    pub(super) region: Region,
    pub(super) at: usize,
    pub(super) then: Then,
}

/// How far a fiber got in its turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Moved {
    /// It waits where it waited.
    No,
    /// Through a round of a `while`, which may itself wait for something.
    Around,
    /// To another wait, or its end.
    Far,
}

/// What an instruction did.
pub(super) enum Step {
    /// It is done; its results are set.
    Done,
    /// It waits for something.
    Wait(String),
}

#[derive(Default)]
pub(super) struct Fiber {
    pub(super) id: usize,
    pub(super) block: usize,
    pub(super) agent: usize,
    /// The task's name, with the replica's number if it has several; empty outside of tasks.
    pub(super) name: String,
    pub(super) warps: u32,
    /// Shares of the cluster's barrier.
    pub(super) shares: u32,
    pub(super) env: SecondaryMap<Value, Option<Data>>,
    pub(super) handles: SecondaryMap<Value, Option<Handle>>,
    pub(super) frames: Vec<Frame>,
    pub(super) state: State,
    pub(super) clock: Clock,
    /// Products that were begun, and those in flight, with their numbers.
    pub(super) begun: u64,
    pub(super) products: Vec<Product>,
    /// Async stores that were begun.
    pub(super) stores: u64,
    /// Groups of copies by its lanes that were closed, and copies that not all lanes see.
    pub(super) groups: u64,
    pub(super) copies: Vec<LaneCopy>,
    /// The time at which its lanes met last.
    pub(super) met_at: u32,
    /// The round of a numbered barrier that it came to and waits for.
    pub(super) came: Option<u64>,
    /// The round of the cluster's barrier that it came to.
    pub(super) met: Option<u64>,
    /// Of the turns of its groups: whether one is on, and whether a further one may follow.
    pub(super) turns: (bool, bool),
}

impl Fiber {
    pub(super) fn new(
        block: usize,
        region: Region,
        env: SecondaryMap<Value, Option<Data>>,
        handles: SecondaryMap<Value, Option<Handle>>,
    ) -> Fiber {
        Fiber { block, env, handles, warps: 1, shares: 1, frames: vec![Frame { region, at: 0, then: Then::End }], ..Fiber::default() }
    }

    /// What it does now.
    pub(super) fn mark(&self, inst: Inst) -> Mark {
        Mark { agent: self.agent, time: self.clock.get(self.agent), site: self.here(inst) }
    }

    pub(super) fn here(&self, inst: Inst) -> Site {
        Site { fiber: self.id, inst }
    }

    /// What comes later is no longer before what was told to others.
    pub(super) fn tick(&mut self) {
        let now = self.clock.get(self.agent);
        self.clock.set(self.agent, now + 1);
    }
}

/// A copy by a task's lanes that not all of them see.
pub(super) struct LaneCopy {
    /// Its number among the copies of the cluster.
    pub(super) number: u64,
    pub(super) data: Data,
    pub(super) to: Buf,
    pub(super) inst: Inst,
    /// The number of its group among the task's.
    pub(super) group: u64,
    /// Each lane has waited for its share.
    pub(super) waited: bool,
}

/// A product in flight.
pub(super) struct Product {
    /// Its number among its task's.
    pub(super) number: u64,
    pub(super) inst: Inst,
    pub(super) data: Data,
    /// Another one goes on from it.
    pub(super) further: bool,
    /// Its operand A, where that is a tile.
    pub(super) tile: Option<Value>,
}

impl Fiber {
    /// True for the result of a product in flight.
    pub(super) fn in_flight(&self, data: &Data) -> bool {
        self.products.iter().any(|p| p.data.is(data))
    }
}
