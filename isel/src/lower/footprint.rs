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
        let first = (0..self.pieces.len()).find(|&n| self.end(n + 1) > have).unwrap_or(0);
        let p = &self.pieces[first];
        let meets = |q: &&Piece| q.life.first <= p.life.last && p.life.first <= q.life.last;
        let takers = Taker::list(self.pieces.iter().filter(meets).map(|q| (q.purpose, q.bytes)));
        Err(sizes::no_room(need, self.target, takers).at(p.loc))
    }
}
