//! Fits a plan to the machine: how many slots its ring has, how loads beside it are done, or that the loop is pipelined instead.
//!
//! ```text
//! specialised ── footprint beside the ring ─┬─ fits ────────────────────────────────────────► as planned
//!                                           ├─ fits beside fewer slots ─────────────────────► fewer slots
//!                                           ├─ few are left, and whole tiles are in the way ► loads at their use, all slots
//!                                           └─ does not ────────────────────────────────────► pipelined, or an error
//! ```
//!
//! All of it is decided from sizes. The lowering allocates by the same sizes, and finds room.

use crate::lane::Target;
use crate::layout::assign::{Assignment, assign};
use crate::lower::{Footprint, exceeds_registers};
use std::rc::Rc;
use tilelift_ir::Kernel;
use tilelift_schedule::plan::{LowerOptions, Plan, Schedule, ScheduleKind, Specialised, plan};
use tilelift_schedule::{LowerError, Resource};

/// Slots of a ring below which copies are no longer far enough ahead.
pub(crate) const FEW_SLOTS: u32 = 4;

/// A plan that fits the machine, with its layouts.
pub(crate) struct Fitted {
    pub plan: Plan,
    pub assigned: Assignment,
    /// Loads are done in the layout in which their tile is wanted.
    pub direct: bool,
    /// Bytes of shared memory at most, of a specialised kernel.
    pub need: Option<u64>,
    /// Slots of its ring before it was fitted.
    slots: u32,
}

impl Fitted {
    /// The specialised plan before it was fitted.
    pub fn planned(&self) -> Option<Plan> {
        self.plan.specialised().map(|ring| with_depth(&self.plan, ring, self.slots))
    }
}

/// Fits a plan to the machine.
///
/// # Errors
/// What does not fit, where the caller leaves no other way; what layouts say.
pub(crate) fn fit(kernel: &Kernel, target: &Target, options: &LowerOptions, planned: Plan) -> Result<Fitted, LowerError> {
    let assigned = assign(kernel, target, &planned)?;
    let Some(ring) = planned.specialised().cloned() else {
        return Ok(Fitted { plan: planned, assigned, direct: false, need: None, slots: 0 });
    };
    let why = match beside_ring(kernel, target, options, &planned, &ring, &assigned) {
        Ok(Slots { depth, direct, need }) => {
            let plan = with_depth(&planned, &ring, depth);
            return Ok(Fitted { plan, assigned, direct, need: Some(need), slots: ring.depth });
        }
        Err(why) => why,
    };
    if options.schedule.is_some() || !matches!(why, LowerError::ResourceExceeded { .. }) {
        return Err(why);
    }
    // What else the kernel holds does not fit beside the ring.
    let plan = plan(kernel, target, &LowerOptions { schedule: Some(ScheduleKind::Pipelined), ..*options })?;
    let assigned = assign(kernel, target, &plan)?;
    Ok(Fitted { plan, assigned, direct: false, need: None, slots: 0 })
}

/// A ring that fits.
struct Slots {
    depth: u32,
    direct: bool,
    need: u64,
}

/// The ring that fits beside the rest of its kernel: it took what the plan knew to be free, and gives back as many slots as are needed.
///
/// # Errors
/// What does not fit beside the fewest slots.
fn beside_ring(
    kernel: &Kernel,
    target: &Target,
    options: &LowerOptions,
    plan: &Plan,
    ring: &Rc<Specialised>,
    assigned: &Assignment,
) -> Result<Slots, LowerError> {
    let direct = loads_exceed_registers(kernel, plan, assigned);
    let footprint = Footprint::of(kernel, target, plan, assigned, direct)?;
    let with = |depth: u32| Specialised { depth, ..(**ring).clone() };
    let mut depth = ring.depth;
    let mut tried = false;
    loop {
        let smaller = with(depth);
        let Err(why) = footprint.fits(&smaller) else {
            return Ok(Slots { depth, direct, need: footprint.total(&smaller) });
        };
        let Some(fewer) = fewer(&why, depth, ring.stage_bytes).filter(|_| options.stages.is_none()) else { return Err(why) };
        // Where few would remain, what is loaded beside it is loaded as it is wanted and needs no way through shared memory, if
        // that is enough.
        if fewer < FEW_SLOTS && !std::mem::replace(&mut tried, true) {
            let at_use = Footprint::of(kernel, target, plan, assigned, true)?;
            if at_use.fits(ring).is_ok() {
                return Ok(Slots { depth: ring.depth, direct: true, need: at_use.total(ring) });
            }
        }
        if fewer < 2 {
            return Err(why);
        }
        depth = fewer;
    }
}

/// The slots, of so many bytes, that would be left of a ring of so many if it gave back what did not fit beside it; `None` if that is not
/// what is in the way.
pub(crate) fn fewer(why: &LowerError, depth: u32, bytes: u32) -> Option<u32> {
    match why {
        LowerError::ResourceExceeded { resource: Resource::SharedMemory, need, have, .. } => {
            let over = need.saturating_sub(*have).div_ceil(u64::from(bytes.max(1))).max(1);
            Some(u64::from(depth).saturating_sub(over) as u32)
        }
        _ => None,
    }
}

/// The same plan with so many slots.
pub(crate) fn with_depth(plan: &Plan, ring: &Specialised, depth: u32) -> Plan {
    let ring = Specialised { depth, ..ring.clone() };
    Plan { warps: plan.warps, stages: depth, schedule: Schedule::Specialised(Rc::new(ring)) }
}

/// True if the sums of a specialised loop and whole tiles that are loaded beside it do not fit a lane's registers together. What is loaded
/// as it is wanted need not be there all at once.
fn loads_exceed_registers(kernel: &Kernel, plan: &Plan, assigned: &Assignment) -> bool {
    let Some(s) = plan.specialised() else { return false };
    let Some([_, most]) = s.registers else { return false };
    exceeds_registers(kernel, assigned, &kernel.regions[kernel.body].insts, |i| i == s.main, most)
}
