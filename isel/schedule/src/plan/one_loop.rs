//! One loop of a specialised kernel: what is decided of it, in order. No part asks a later one.
//!
//! ```text
//! facts ─► sharing   how groups of warps may share its products: rows, columns, computed alike by each
//!       ─► groups    how many do, in sets; what is brought in front of the loop, stored by lanes, taken apart
//!       ─► holding   registers: what each lane holds, sets that take steps in turns, operands that move to shared memory
//!       ─► step      what a slot holds; products that end a step later; operands computed a step ahead
//!       ─► memory    results and updates through shared memory, the share of a program, slots
//!       ─► ahead     vectors in the ring, loads a step ahead, late products, tiles behind the loop ─► Specialised
//! ```
//!
//! What is decided says why it is refused; nothing has changed then. The numbers are those of one loop: loops that take one ring are put together by
//! [`super::one_ring`].

mod ahead;
mod asked;
mod groups;
mod holding;
mod memory;
mod sharing;
mod step;

use self::ahead::LoopAhead;
pub(super) use self::asked::Asked;
use self::groups::Groups;
use self::holding::Holding;
use self::memory::Memory;
use self::sharing::Sharing;
use self::step::StepPlan;
use super::specialised::Specialised;
use super::turns::turns;
use crate::reason::NotSpecialised;

/// Decides how a loop is specialised.
///
/// # Errors
/// Why it is not.
pub(super) fn specialised_loop(asked: Asked<'_>) -> Result<Specialised, NotSpecialised> {
    let facts = asked.facts;
    let mut replay = facts.replay.clone();
    let (groups, parts, columns) = Groups::of(Sharing::of(asked))?;
    let (held, parts) = Holding::of(&groups, parts)?;
    let (step, parts) = StepPlan::of(&groups, &held, (parts, columns.is_some()), &mut replay)?;
    let (memory, columns) = Memory::of(&groups, &held, &step, (parts.is_some(), columns))?;
    let ahead = LoopAhead::of((&groups, &held, &step, &memory), (parts.is_some(), columns.is_some()), &mut replay);
    let columns = columns.filter(|_| ahead.vectors.is_empty() && ahead.prefetched.is_empty());
    let epilogue = ahead.epilogue((&groups, &held, &step), parts.is_some() || columns.is_some(), &mut replay);
    let mut out = Specialised {
        turns: None,
        consumers: groups.consumers,
        consumer_sets: groups.consumer_sets,
        slices: held.slices,
        converts_ahead: step.converts_ahead,
        depth: memory.depth,
        in_flight: step.in_flight,
        registers: held.registers,
        persistent: groups.sharing.persistent,
        stage_bytes: step.stage_bytes,
        ring_bytes: memory.ring_bytes(),
        staging_bytes: memory.staging_bytes,
        staging_parts: memory.staging_parts,
        staging_shared: memory.staging_shared,
        results_over: memory.results_over,
        mixed: facts.mixed,
        overlap: parts,
        late: ahead.late,
        main: asked.main,
        around: facts.around.clone(),
        replay,
        carried: facts.carried.clone(),
        before: Vec::new(),
        masked: facts.masked.clone(),
        loads: groups.loads,
        by_lanes: facts.by_lanes.clone(),
        dots: facts.dots.clone(),
        register_a: facts.register_a.clone(),
        brought: held.brought,
        staged: groups.staged,
        columns,
        updates: memory.updates,
        transposed_b: facts.transposed_b.clone(),
        prefetched: ahead.prefetched,
        lane_tiles: step.lane_tiles,
        vectors: ahead.vectors,
        epilogue,
        promoted: groups.sharing.promoted,
        stores: memory.stores,
        share: memory.share,
    };
    out.turns = turns(asked.kernel, asked.target, &out);
    Ok(out)
}
