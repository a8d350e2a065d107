//! What a kernel takes of shared memory, computed from its plan and its layouts before it is lowered.
//!
//! ```text
//! plan, layouts ── walk: buffers, and which tile is wanted in which layout ─► allocations with their lives ── placed ─► fits, or not
//! ```
//!
//! Tasks run side by side, so everything that one of them uses is there all along; without tasks, what is done with gives its bytes to others.
//! The walk goes the way of the lowering with layouts for values; sizes are those of [`sizes`](super::sizes), which the lowering asks, too, and
//! places are found as it finds them. It is an upper bound: a scan counts registers that may turn out to hold equal totals, an arm that a
//! constant condition leaves out counts, too. Where the lowering refuses an instruction, the walk ends.

mod ops;
mod piece;
mod walk;

use super::facts::staged_of;
use super::sizes;
use crate::layout::assign::Assignment;
use piece::Piece;
use tilelift_ir::Kernel;
use tilelift_lane::{Room, Target, placed};
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

    /// The most bytes that are in use at one time: no way to place them takes less.
    pub fn alive(&self) -> u64 {
        let pieces = self.pieces.iter().flat_map(|p| [(p.life.first, true, p.bytes), (p.life.last + 1, false, p.bytes)]);
        let mut changes: Vec<(u32, bool, u64)> = pieces.collect();
        changes.sort_unstable();
        let (mut now, mut most) = (0u64, 0);
        for (_, begins, bytes) in changes {
            now = if begins { now + bytes } else { now - bytes };
            most = most.max(now);
        }
        most
    }

    /// The end of the first so many allocations.
    fn end(&self, count: usize) -> u64 {
        let rooms = self.pieces[..count].iter().map(|p| Room { bytes: p.bytes.min(1 << 30) as u32, align: p.align, life: p.life });
        placed(&rooms.collect::<Vec<Room>>()).into()
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
        let meets = |q: &&Piece| q.life.first <= p.life.last && p.life.first <= q.life.last;
        let takers = Taker::list(self.pieces.iter().filter(meets).map(|q| (q.purpose, q.bytes)));
        Err(sizes::no_room(need, self.target, takers).at(p.loc))
    }
}
