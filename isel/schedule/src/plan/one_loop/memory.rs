//! Shared memory: results and updates that leave through it, the share of a program, and the slots of the ring.

use super::asked::Asked;
use super::groups::Groups;
use super::holding::Holding;
use super::step::StepPlan;
use crate::named::Named;
use crate::plan::brought::over_brought;
use crate::plan::budget::BESIDE_ACCUMULATORS;
use crate::plan::columns::ColumnTasks;
use crate::plan::results::bulk_results;
use crate::plan::sliced::slice_bytes;
use crate::plan::specialised::{MAX_DEPTH, TRANSPOSED_SLOTS, WIDE_RESULTS_LEAST};
use crate::plan::tensor_boxes::{ALIGN, SwizzledTile};
use crate::plan::updates::{BulkUpdate, bulk_update};
use crate::reason::NotSpecialised;
use std::collections::BTreeMap;
use tilelift_ir::Inst;
use tilelift_lane::{Target, Units};

/// Programs of a multiprocessor that share its memory, at most.
const MOST_PROGRAMS: u32 = 3;
/// Bytes of shared memory that each takes for itself, and for its mbarriers.
const BYTES_OF_PROGRAM: u32 = 2048;
/// Slots that each of them wants.
const SLOTS_OF_SHARES: u32 = 3;
/// Slots of a ring below which results take the place of operands: with a fourth, copies are ahead of products that end a step later.
const SLOTS_BESIDE_RESULTS: u32 = 4;

/// Slots of loops that memory keeps waiting, as those are whose steps are taken in turns, and the bytes that they are to have in flight.
const DEEPEST: u32 = 16;
const IN_FLIGHT: u32 = 1 << 17;

/// What is decided.
pub(super) struct Memory {
    /// Results that leave through shared memory.
    pub stores: Vec<(Inst, SwizzledTile)>,
    /// Sums that are added to memory from it.
    pub updates: Vec<BulkUpdate>,
    /// Bytes in which results lie, in parts that leave one behind the other; those of all are the same bytes.
    pub staging_bytes: u32,
    pub staging_parts: u32,
    pub staging_shared: bool,
    /// Results that take the place of what was brought in front of the loop.
    pub results_over: BTreeMap<Inst, usize>,
    /// Bytes beside the ring and the results.
    beside: u32,
    /// Bytes of a program.
    pub share: u32,
    /// Slots of the ring.
    pub depth: u32,
}

/// How results leave.
struct ResultStaging {
    stores: Vec<(Inst, SwizzledTile)>,
    bytes: u32,
    parts: u32,
    shared: bool,
    over: BTreeMap<Inst, usize>,
}

impl Memory {
    /// Also says what one group computes for all: nothing, where something else is in the way.
    pub fn of(
        g: &Groups<'_>,
        held: &Holding,
        step: &StepPlan,
        (overlaps, columns): (bool, Option<ColumnTasks>),
    ) -> Result<(Memory, Option<ColumnTasks>), NotSpecialised> {
        let Asked { kernel, target, units, options, ring_layouts, main, facts, .. } = g.sharing.asked;
        // Results that leave through shared memory, unless each task stores its own columns.
        // Wide ones where one consumer set's leave while the other multiplies: lanes that store them take longer than that.
        let wide = options.bulk_stores.unwrap_or(g.consumer_sets > 1);
        let stores = match facts.dots.is_empty() {
            true => Vec::new(),
            false => bulk_results(kernel, units, ring_layouts, &facts.around, &g.sharing.accumulators, [columns.is_some(), wide])?,
        };
        let bytes_of = |t: &SwizzledTile| t.bytes().next_multiple_of(ALIGN);
        let transposed_bytes = TRANSPOSED_SLOTS * facts.transposed_b.iter().map(|(_, t)| bytes_of(t)).sum::<u32>();
        let staged_bytes = g.staged.iter().map(|s| bytes_of(&s.tile)).sum::<u32>() * if step.converts_ahead { 2 } else { 1 };
        // Sums that leave through shared memory, if a ring of some slots is left.
        let updated = |i: &Inst| if overlaps { None } else { bulk_update(kernel, units, *i) };
        let mut updates: Vec<BulkUpdate> = g.sharing.asked.body().iter().filter_map(updated).collect();
        let all = |list: &[BulkUpdate]| list.iter().map(|u| bytes_of(&u.tile)).sum::<u32>();
        let plain = step.lane_tiles.is_empty() && held.slices == 1 && !step.converts_ahead;
        let columns = columns.filter(|_| plain && updates.is_empty() && stores.is_empty());
        let handed_bytes = columns.as_ref().map_or(0, |c| c.bytes(kernel));
        let others = step.brought_bytes + transposed_bytes + staged_bytes + handed_bytes + ALIGN;
        if target.shared_bytes.saturating_sub(others + all(&updates)) / step.stage_bytes.max(1) < 2 {
            updates.clear();
        }
        let beside = others + all(&updates) + slice_bytes(kernel, main, held.slices);
        let results = stores.iter().map(|(_, t)| t.bytes()).sum::<u32>();
        let share = share(g, held, |bytes| bytes.saturating_sub(beside + results) / step.stage_bytes.max(1) >= SLOTS_OF_SHARES);
        let room = |staging: u32| share.saturating_sub(staging + beside) / step.stage_bytes.max(1);
        let staging = staging(g, held, stores, step.stage_bytes, &room)?;
        let room = room(staging.bytes);
        let most = if held.slices > 1 { DEEPEST.min(IN_FLIGHT / step.stage_bytes.max(1)).max(MAX_DEPTH) } else { MAX_DEPTH };
        let depth = options.stages.unwrap_or(room.min(most) / held.slices * held.slices);
        if depth < 2 || depth > room {
            return Err(NotSpecialised::Ring { depth, room, slot: step.stage_bytes });
        }
        let ResultStaging { stores, bytes, parts, shared, over } = staging;
        let (staging_bytes, staging_parts, staging_shared, results_over) = (bytes, parts, shared, over);
        Ok((Memory { stores, updates, staging_bytes, staging_parts, staging_shared, results_over, beside, share, depth }, columns))
    }

    /// Bytes of the ring.
    pub fn ring_bytes(&self) -> u32 {
        self.share.saturating_sub(self.staging_bytes + self.beside)
    }
}

/// Bytes of a program that has its share of a multiprocessor, if `suffices` says so, or all. One group alone leaves the units to nobody while its lanes
/// compute: where registers and memory permit, other programs have their share.
fn share(g: &Groups<'_>, held: &Holding, suffices: impl Fn(u32) -> bool) -> u32 {
    let Asked { target, units, options, facts, .. } = g.sharing.asked;
    if held.groups == 1 && !g.sharing.persistent && held.registers.is_none() && options.stages.is_none() {
        let need = held.beside_computing(g, &held.brought) + facts.pieces + BESIDE_ACCUMULATORS / 2;
        return share_of_programs(target, units, held.warps, need, &suffices);
    }
    target.shared_bytes
}

/// Bytes of shared memory of a program of so many warps whose lanes need so many registers: those of as many programs of a multiprocessor as registers are
/// there for, and `suffices` says that memory is; all of it for one.
fn share_of_programs(target: &Target, units: &Units, warps: u32, need: u32, suffices: &dyn Fn(u32) -> bool) -> u32 {
    let registers = |programs: u32| units.registers.total / (warps * target.lanes * programs) / 8 * 8;
    let bytes = |programs: u32| target.shared_bytes / programs - BYTES_OF_PROGRAM;
    let share = (2..=MOST_PROGRAMS).rev().filter(|&n| need <= registers(n)).map(bytes).find(|&b| suffices(b));
    share.unwrap_or(target.shared_bytes)
}

/// How results leave, where `room` says how many slots so many bytes leave.
fn staging(
    g: &Groups<'_>,
    held: &Holding,
    mut stores: Vec<(Inst, SwizzledTile)>,
    slot: u32,
    room: &dyn Fn(u32) -> u32,
) -> Result<ResultStaging, NotSpecialised> {
    let Asked { kernel, options, ring_layouts, main, sole, facts, .. } = g.sharing.asked;
    let (accumulators, rows) = (&g.sharing.accumulators, g.consumers * g.sharing.rows);
    let repetitions = accumulators.iter().map(|s| s[0] / rows).min().unwrap_or(1);
    let parted = stores.iter().all(|(_, t)| t.shape[t.down()].is_multiple_of(repetitions));
    let alike = accumulators.iter().all(|s| s[0] == repetitions * rows);
    let parts = if g.consumer_sets > 1 && alike && parted { repetitions } else { 1 };
    let mut bytes: u32 = g.consumer_sets * stores.iter().map(|(_, t)| t.bytes() / parts).sum::<u32>();
    // Where that leaves the ring few slots, results take the place of operands that were brought.
    let mut over = BTreeMap::new();
    if room(bytes) < SLOTS_BESIDE_RESULTS && sole && !g.sharing.persistent {
        let rows_apart = facts.dots.iter().all(|&d| g.sharing.across(d, g.consumers).unwrap_or(1) == 1);
        if rows_apart {
            over = over_brought(kernel, (main, &facts.around), &stores, &held.brought, &g.sharing.products());
        }
        let left = stores.iter().filter(|(i, _)| !over.contains_key(i)).map(|(_, t)| t.bytes() / parts).sum::<u32>();
        if room(left) > room(bytes) {
            bytes = left;
        } else {
            over.clear();
        }
    }
    // Results that leave one behind the other may do so through the same bytes; those of replicas lie side by side, so that all take as many.
    let largest = g.consumer_sets * stores.iter().map(|(_, t)| t.bytes() / parts).max().unwrap_or(0);
    let alike = stores.windows(2).all(|pair| pair[0].1.bytes() == pair[1].1.bytes());
    let shared = room(bytes) < 2 && room(largest) >= 2 && (g.consumer_sets == 1 || alike);
    if shared {
        bytes = largest;
    }
    // A ring of as many slots as are asked for goes before; wide results take much of what copies need to be ahead.
    let wide = stores.iter().any(|(i, t)| t.elem.bytes() > 2 && !ring_layouts.epilogue.contains_key(i));
    let least = if wide { options.stages.unwrap_or(WIDE_RESULTS_LEAST) } else { 2 };
    if room(bytes) < least {
        if let Some((i, _)) = stores.iter().find(|(i, _)| ring_layouts.epilogue.contains_key(i)) {
            let value = Named::of(kernel, kernel.operand(*i, "value")[0]);
            return Err(NotSpecialised::Staging { bytes, value, slot });
        }
        stores.clear();
        over.clear();
        bytes = 0;
    }
    Ok(ResultStaging { stores, bytes, parts, shared, over })
}
