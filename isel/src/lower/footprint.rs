//! What a kernel takes of shared memory, computed from its plan and its layouts before it is lowered.
//!
//! ```text
//! plan, layouts ── walk: buffers, and which tile is wanted in which layout ─► allocations with their lives ── placed ─► fits, or not
//! ```
//!
//! What is done with gives its bytes to others. Tasks run side by side, so buffers are there all along then, and scratch memory of a task gives its bytes to
//! others of the same task. The walk goes the way of the lowering with layouts for values; sizes are those of [`sizes`](super::sizes), which the lowering asks, too, and
//! places are found as it finds them. It is an upper bound: a scan counts registers that may turn out to hold equal totals, an arm that a
//! constant condition leaves out counts, too. Where the lowering refuses an instruction, the walk ends.

mod ops;
mod piece;
mod walk;

use super::facts::staged_of;
use super::sizes;
use crate::layout::assign::Assignment;
use piece::Piece;
use std::collections::BTreeSet;
use tilelift_ir::Kernel;
use tilelift_lane::{Life, Owner, Room, Target, placed};
use tilelift_schedule::LowerError;
use tilelift_schedule::plan::Plan;
use tilelift_schedule::reason::Taker;
use walk::Walk;

/// What a kernel takes of shared memory.
pub(crate) struct Footprint<'a> {
    target: &'a Target,
    pieces: Vec<Piece>,
}

impl<'a> Footprint<'a> {
    /// The footprint of a kernel; `direct` if loads are done as they are wanted.
    ///
    /// # Errors
    /// A tile of which a lane would hold too much.
    pub fn of(kernel: &Kernel, target: &'a Target, plan: &Plan, assigned: &Assignment, direct: bool) -> Result<Footprint<'a>, LowerError> {
        let staged = staged_of(kernel, assigned);
        sizes::check_registers(kernel, plan, assigned, &staged)?;
        let mut w = Walk::of(kernel, target, plan, (assigned, &staged), direct);
        // The lowering says what it refuses.
        let _ = w.whole();
        Ok(Footprint { target, pieces: w.pieces })
    }

    /// All of shared memory.
    pub fn total(&self) -> u64 {
        self.end(self.pieces.len())
    }

    /// All of it if nothing that a task takes lay where something else of that task lay.
    pub fn apart(&self) -> u64 {
        let alone = |p: &Piece| {
            if p.owner.is_some() { Room { owner: None, life: Life { first: 0, last: u32::MAX }, ..p.room() } } else { p.room() }
        };
        placed(&self.pieces.iter().map(alone).collect::<Vec<Room>>()).into()
    }

    /// The most bytes that are in use at one time: no way to place them takes less.
    pub fn alive(&self) -> u64 {
        owners(&self.pieces).into_iter().map(|o| most_alive(self.pieces.iter().filter(|p| p.owner == o)).1).sum()
    }

    /// The end of the first so many allocations.
    fn end(&self, count: usize) -> u64 {
        placed(&self.pieces[..count].iter().map(Piece::room).collect::<Vec<Room>>()).into()
    }

    /// Who takes shared memory while a piece is in use. Of other tasks nobody knows where they are then: it is the most that each takes.
    fn takers(&self, piece: &Piece) -> Vec<Taker> {
        let all = owners(&self.pieces).into_iter().flat_map(|o| {
            let of_owner = || self.pieces.iter().filter(move |p| p.owner == o);
            let at = if o == piece.owner { piece.life } else { most_alive(of_owner()).0 };
            of_owner().filter(move |p| p.life.first <= at.last && at.first <= p.life.last).map(|p| (p.purpose, p.bytes))
        });
        Taker::list(all)
    }

    /// What does not fit the target.
    ///
    /// # Errors
    /// All of it, at the first allocation that is too much.
    pub fn fits(&self) -> Result<(), LowerError> {
        let (need, have) = (self.total(), u64::from(self.target.shared_bytes));
        if need <= have {
            return Ok(());
        }
        // The first so many fit, and one more does not.
        let (mut first, mut over) = (0, self.pieces.len());
        while first + 1 < over {
            let middle = first.midpoint(over);
            if self.end(middle) > have { over = middle } else { first = middle }
        }
        let p = &self.pieces[first];
        Err(sizes::no_room(need, self.target, self.takers(p)).at(p.loc))
    }
}

/// Who makes pieces, each once.
fn owners(pieces: &[Piece]) -> BTreeSet<Option<Owner>> {
    pieces.iter().map(|p| p.owner).collect()
}

/// When most bytes are in use at one time of a clock, and how many they are.
fn most_alive<'p>(pieces: impl Iterator<Item = &'p Piece>) -> (Life, u64) {
    let changes = pieces.flat_map(|p| [(p.life.first, true, p.bytes), (p.life.last + 1, false, p.bytes)]);
    let mut changes: Vec<(u32, bool, u64)> = changes.collect();
    changes.sort_unstable();
    let (mut now, mut most) = (0u64, (Life { first: 0, last: 0 }, 0));
    for (at, begins, bytes) in changes {
        now = if begins { now + bytes } else { now - bytes };
        if now > most.1 {
            most = (Life { first: at, last: at }, now);
        }
    }
    most
}
