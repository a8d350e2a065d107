//! What a specialised kernel takes of shared memory beside its ring, computed from its plan and its layouts before it is lowered.
//!
//! ```text
//! plan, layouts ── walk: which tile is wanted in which layout ─► scratch allocations, in order ── beside a ring of so many slots ─► fits, or not
//! ```
//!
//! Roles run side by side, so everything that one of them uses is there all along: sizes add up, and lifetimes do not matter. The walk goes the
//! way of the lowering with layouts for values; sizes are those of [`sizes`](super::sizes), which the lowering asks, too. It is an upper bound: a
//! scan counts registers that may turn out to hold equal totals, an arm that a constant condition leaves out counts, too. Where the
//! lowering refuses an instruction, the walk ends.

mod main_loop;
mod ops;
mod walk;

use super::sizes::{self, RingBytes};
use super::staged_of;
use crate::lane::Target;
use crate::layout::assign::Assignment;
use tilelift_ir::{Kernel, Loc};
use tilelift_schedule::LowerError;
use tilelift_schedule::channel::Channel;
use tilelift_schedule::plan::{Plan, Specialised};
use walk::Walk;

/// A scratch allocation.
struct Piece {
    bytes: u64,
    purpose: &'static str,
    /// The instruction that it is for.
    loc: Loc,
}

/// What a specialised kernel takes beside its ring.
pub(crate) struct Footprint<'a> {
    target: &'a Target,
    pieces: Vec<Piece>,
}

impl<'a> Footprint<'a> {
    /// The footprint of a kernel whose loop is specialised; `direct` if loads are done as they are wanted.
    ///
    /// # Errors
    /// A tile of which a lane would hold too much.
    pub fn of(
        kernel: &'a Kernel,
        target: &'a Target,
        plan: &'a Plan,
        assigned: &'a Assignment,
        direct: bool,
    ) -> Result<Footprint<'a>, LowerError> {
        sizes::check_registers(kernel, plan, assigned, &staged_of(kernel, plan, assigned))?;
        let mut pieces = Vec::new();
        if let Some(s) = plan.specialised() {
            for _ in 0..s.consumer_sets {
                let mut w = Walk::of(kernel, target, (plan, s), assigned, direct, &mut pieces);
                // The lowering says what it refuses.
                if w.region(kernel.body).is_err() {
                    break;
                }
            }
        }
        Ok(Footprint { target, pieces })
    }

    /// All of shared memory, with a ring.
    pub fn total(&self, ring: &Specialised) -> u64 {
        self.pieces.iter().fold(ring_end(ring), |at, p| sizes::behind(at, sizes::SCRATCH_ALIGN, p.bytes))
    }

    /// The first thing that does not fit beside a ring.
    ///
    /// # Errors
    /// That thing.
    pub fn fits(&self, ring: &Specialised) -> Result<(), LowerError> {
        let have = u64::from(self.target.shared_bytes);
        let mut end = ring_end(ring);
        for p in &self.pieces {
            if p.bytes.saturating_add(end) > have {
                return Err(sizes::no_room_for(p.bytes, end, p.purpose, self.target).at(p.loc));
            }
            end = sizes::behind(end, sizes::SCRATCH_ALIGN, p.bytes);
        }
        if end > have { Err(sizes::no_room_in_all(end, self.target)) } else { Ok(()) }
    }
}

fn ring_end(ring: &Specialised) -> u64 {
    RingBytes::of(ring, &Channel::new(ring.depth, ring.consumers, ring.stage_bytes, ring.in_flight)).end()
}
