//! What a slot of the ring holds, and what of a step reaches into the next one.

use super::asked::Asked;
use super::groups::Groups;
use super::holding::{Holding, most_held};
use crate::plan::budget::BESIDE_ACCUMULATORS;
use crate::plan::copied::computed_again;
use crate::plan::lane_tiles::lane_tile;
use crate::plan::overlap::Overlap;
use crate::plan::prefetched::prefetches;
use crate::plan::products::accumulator_shape;
use crate::plan::replay::Replay;
use crate::plan::sliced::only_sums;
use crate::plan::staged::{from_ring, mapped};
use crate::plan::tensor_boxes::{ALIGN, SwizzledTile};
use crate::reason::NotSpecialised;
use cranelift_entity::EntityRef;
use tilelift_ir::{Inst, Precision, Value};
use tilelift_lane::Registers;

/// What is decided.
pub(super) struct StepPlan {
    /// Whole tiles that lanes read of the ring.
    pub lane_tiles: Vec<(Inst, SwizzledTile)>,
    /// Bytes of a slot, and of what is brought in front of the loop.
    pub stage_bytes: u32,
    pub brought_bytes: u32,
    /// Products that end a step later.
    pub in_flight: u32,
    /// What lanes compute for products they compute a step ahead.
    pub converts_ahead: bool,
}

impl StepPlan {
    /// Also says which products run while lanes compute: none, where the ring has too few slots for that.
    pub fn of(
        g: &Groups<'_>,
        held: &Holding,
        (mut parts, by_columns): (Option<Overlap>, bool),
        replay: &mut Replay,
    ) -> Result<(StepPlan, Option<Overlap>), NotSpecialised> {
        let Asked { kernel, target, options, main, written, facts, .. } = g.sharing.asked;
        let lane_tiles = lane_tiles(g, replay);
        if g.loads.is_empty() && lane_tiles.is_empty() {
            return Err(NotSpecialised::Loops { count: 0 });
        }
        let stage_bytes: u32 = g.loads.iter().chain(&lane_tiles).map(|(_, t)| t.room()).sum();
        let brought_bytes: u32 = held.brought.iter().map(|b| b.tile.bytes().next_multiple_of(ALIGN)).sum();
        // Products that end a step later keep its slot: of two none is left to be filled meanwhile. Groups that compute the same without one another have
        // their lanes compute while others multiply as it is.
        let slots = target.shared_bytes.saturating_sub(brought_bytes) / stage_bytes.max(1);
        if (by_columns || slots < 3 && !g.sharing.copied.readers.is_empty()) && options.overlap.is_none() {
            parts = None;
        }
        // What multiplications read from registers is fetched anew when they are done.
        let waits = parts.is_none() && (facts.mixed || g.sharing.promoted || !facts.register_a.is_empty());
        let in_flight = if waits { 0 } else { 1 };
        let converts_ahead = parts.is_none() && converts_ahead(g, held, &lane_tiles);
        let places: Vec<Value> = held.brought.iter().flat_map(|b| kernel.operand(b.load, "indices")).copied().collect();
        replay.add(computed_again(kernel, (main, &facts.around), written, places)?);
        operands_fit(g, held)?;
        Ok((StepPlan { lane_tiles, stage_bytes, brought_bytes, in_flight, converts_ahead }, parts))
    }

    /// True for what consumers load or compute in a step, without what they read of the ring.
    pub fn computed(&self, g: &Groups<'_>, i: Inst) -> bool {
        g.computed(i) && self.lane_tiles.iter().all(|l| l.0 != i)
    }
}

/// Whole tiles that lanes read travel in the slots of the ring, too, where the producer can say from where.
fn lane_tiles(g: &Groups<'_>, replay: &mut Replay) -> Vec<(Inst, SwizzledTile)> {
    let Asked { kernel, units, main, written, facts, .. } = g.sharing.asked;
    let mut out = Vec::new();
    if !facts.mixed {
        return out;
    }
    for &i in g.sharing.asked.body().iter().filter(|&&i| g.computed(i)) {
        let Some(tile) = lane_tile(kernel, units, written, i) else { continue };
        if let Ok(places) = computed_again(kernel, (main, &facts.around), written, kernel.operand(i, "indices").to_vec()) {
            replay.add(places);
            out.push((i, tile));
        }
    }
    out
}

/// True where lanes compute for products a step ahead: registers hold it twice.
fn converts_ahead(g: &Groups<'_>, held: &Holding, lane_tiles: &[(Inst, SwizzledTile)]) -> bool {
    let Asked { kernel, units, main, written, facts, .. } = g.sharing.asked;
    let (region, body) = (g.sharing.asked.region(), g.sharing.asked.body());
    let twice = held.operands_a(g, &held.brought);
    // Operands B that they store have two buffers then.
    let in_turns = g.staged.iter().all(|s| s.moves && s.uses.iter().all(|u| u.operand == 1));
    let free = in_turns && facts.transposed_b.is_empty() && facts.register_a.is_empty();
    let made = |&i: &Inst| {
        let a = kernel.insts[i].args[0];
        held.stored_or_brought(g, i, a)
            || from_ring(kernel, &g.loads, a)
            || kernel.def_inst(a).is_some_and(|j| body.contains(&j)) && mapped(kernel, a)
    };
    let products = g.sharing.products();
    let sums = || products.iter().all(made) && only_sums(kernel, main, &products);
    // Words that are rounded where they are multiplied are not there a step ahead.
    let rounds = facts.dots.iter().any(|&(_, q)| units.matrix[q.index()].precision == Precision::Tf32);
    let computes = facts.mixed && !g.sharing.promoted && !g.sharing.repeated && (twice > 0 || !g.staged.is_empty());
    computes && free && !rounds && sums() && {
        // What the ring brings is loaded by nobody.
        let loaded = |i: Inst| g.computed(i) && lane_tiles.iter().all(|l| l.0 != i);
        let ahead: u32 = prefetches(kernel, region, written, &loaded, g.lanes).iter().map(|p| 2 * p.registers).sum();
        // Where tasks take steps in turns, one computes while another one's products run.
        held.slices == 1 && most_held(g, &held.brought) + twice + ahead + BESIDE_ACCUMULATORS <= held.have(g)
    }
}

/// Checks that a lane has the registers of each instruction: its columns of the accumulator, and an operand A that is not in shared memory.
fn operands_fit(g: &Groups<'_>, held: &Holding) -> Result<(), NotSpecialised> {
    let Asked { kernel, target, units, facts, .. } = g.sharing.asked;
    for &(i, q) in &facts.dots {
        let Some([_, n]) = accumulator_shape(kernel, i) else { continue };
        let a = kernel.insts[i].args[0];
        let elsewhere = from_ring(kernel, &g.loads, a) || held.stored_or_brought(g, i, a);
        let n = n / g.sharing.across((i, q), g.consumers).unwrap_or(1);
        let operands = units.matrix[q.index()].registers(n, facts.register_a.contains(&i) || !elsewhere);
        Registers::of(target, units, held.warps)
            .check_matrix(Some(operands), held.registers.map(|r| r[1]))
            .map_err(|[need, have]| NotSpecialised::ProductRegisters { columns: n, need, have })?;
    }
    Ok(())
}
