//! What is there a step ahead, and what ends a step later: vectors in the ring, loads into registers, late products; and tiles behind the loop.

use super::asked::Asked;
use super::groups::Groups;
use super::holding::{Holding, held_in, most_held};
use super::memory::Memory;
use super::step::StepPlan;
use crate::plan::budget::{BESIDE_ACCUMULATORS, matrices_behind};
use crate::plan::copied::computed_again;
use crate::plan::epilogue_operands::{Epilogue, epilogue_operands};
use crate::plan::late::{Operands, late};
use crate::plan::late_products::Late;
use crate::plan::prefetched::prefetches;
use crate::plan::replay::Replay;
use crate::plan::rounds::at_most_once;
use crate::plan::staged::from_ring;
use crate::plan::step_order::late_order;
use crate::plan::vectors::{may_be_copied, vector_bytes};
use tilelift_ir::{Inst, Value};

/// Registers per lane of what a loop that is taken apart, or whose sums lanes add up, loads a step ahead.
const BESIDE_OVERLAP: u32 = 4;

/// What is decided.
pub(super) struct LoopAhead {
    /// Vectors that go with the ring.
    pub vectors: Vec<Inst>,
    /// What else consumers load a step ahead.
    pub prefetched: Vec<Inst>,
    /// Products that end a step later.
    pub late: Option<Late>,
}

impl LoopAhead {
    /// `overlaps`: products run while lanes compute; `by_columns`: one group computes for all.
    pub fn of(
        (g, held, step, memory): (&Groups<'_>, &Holding, &StepPlan, &Memory),
        (overlaps, by_columns): (bool, bool),
        replay: &mut Replay,
    ) -> LoopAhead {
        let Asked { kernel, options, main, written, facts, .. } = g.sharing.asked;
        let region = g.sharing.asked.region();
        let vectors = vectors(g, step, memory, replay);
        let have = held.have(g);
        let computes = facts.mixed && !g.sharing.promoted && !overlaps;
        // Products that end a step later, as far as registers hold what two steps have in flight.
        let alone = !by_columns && held.slices == 1 && !step.converts_ahead;
        let may_be_late = computes && alone && facts.register_a.is_empty() && facts.transposed_b.is_empty();
        let a_in_memory = |i: Inst| {
            let a = kernel.insts[i].args[0];
            from_ring(kernel, &g.loads, a) || held.stored_or_brought(g, i, a)
        };
        let filled = g.staged.iter().filter(|s| s.moves).map(|s| s.uses.iter().map(|u| u.product).collect()).collect();
        let operands = Operands { staged: filled, a_in_memory: &a_in_memory };
        let computed = |i: Inst| g.computed(i);
        let found = match may_be_late && options.overlap.is_none() && !at_most_once(kernel, main) {
            true => late(kernel, region, written, &computed, operands),
            false => None,
        };
        let mut late = None;
        let mut most = if computes { most_held(g, &held.brought) } else { 0 };
        if let Some(all) = found
            && let Ok((order, _)) = late_order(kernel, region, written, &computed, &all)
            && let with = held_in(g, &held.brought, &order, Some(&all))
            && with + BESIDE_ACCUMULATORS <= have
        {
            (most, late) = (with, Some(all));
        }
        let computed = |i: Inst| step.computed(g, i) && !vectors.contains(&i);
        // What else a step loads is loaded a step ahead, as far as registers hold it beside what the step before looks at.
        let mut prefetched = Vec::new();
        if computes {
            most += BESIDE_ACCUMULATORS;
            for p in prefetches(kernel, region, written, &computed, g.lanes) {
                if most + 2 * p.registers <= have {
                    most += 2 * p.registers;
                    prefetched.push(p.load);
                }
            }
        }
        // Where products run meanwhile, or lanes add up what they leave, registers are full but for numbers and parts of short tiles.
        if overlaps || facts.mixed && g.sharing.promoted && !by_columns {
            let mut left = BESIDE_OVERLAP;
            for p in prefetches(kernel, region, written, &computed, g.lanes) {
                if p.registers <= left {
                    left -= p.registers;
                    prefetched.push(p.load);
                }
            }
        }
        LoopAhead { vectors, prefetched, late }
    }

    /// Tiles that stand behind the loop come through its ring, where every step of it is one of copies by units, and every task takes every step.
    pub fn epilogue(&self, (g, held, step): (&Groups<'_>, &Holding, &StepPlan), apart: bool, replay: &mut Replay) -> Epilogue {
        let Asked { kernel, units, main, written, sole, facts, .. } = g.sharing.asked;
        let units_alone = facts.by_lanes.is_empty() && self.vectors.is_empty() && facts.transposed_b.is_empty();
        let in_turn = sole && facts.around.is_empty() && held.slices == 1 && !apart && self.late.is_none() && !step.converts_ahead;
        if !units_alone || !in_turn {
            return Epilogue::default();
        }
        // Sets in ping-pong have more numbers to keep.
        let beside = matrices_behind(kernel, main, g.lanes);
        let full = beside > 0 && held.sums() + beside + g.consumer_sets * BESIDE_ACCUMULATORS > held.have(g);
        let (operands, again) = epilogue_operands(kernel, units, (main, full), written, &g.loads);
        replay.add(again);
        operands
    }
}

/// Vectors beside the operands go with the ring, where the producer can say from where, and bytes are left. The lanes of more warps than one are busy with
/// operands.
fn vectors(g: &Groups<'_>, step: &StepPlan, memory: &Memory, replay: &mut Replay) -> Vec<Inst> {
    let Asked { kernel, target, main, written, facts, .. } = g.sharing.asked;
    let mut out = Vec::new();
    let mut left = memory.ring_bytes().saturating_sub(memory.depth * step.stage_bytes) / memory.depth;
    if !facts.mixed || !facts.by_lanes.is_empty() {
        return out;
    }
    let free = |i: Inst| facts.live.contains(&i) && step.lane_tiles.iter().all(|l| l.0 != i);
    for &i in g.sharing.asked.body().iter().filter(|&&i| free(i) && may_be_copied(kernel, target, written, i)) {
        let (places, bytes): (Vec<Value>, u32) = (kernel.operand(i, "indices").to_vec(), vector_bytes(kernel, i));
        if let (true, Ok(places)) = (bytes <= left, computed_again(kernel, (main, &facts.around), written, places)) {
            left -= bytes;
            replay.add(places);
            out.push(i);
        }
    }
    out
}
