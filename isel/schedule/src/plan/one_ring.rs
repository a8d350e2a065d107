//! Loops that run one behind the other through one ring.

use super::specialised::Specialised;
use super::tensor_boxes::SwizzledTile;
use crate::reason::NotSpecialised;

/// Loops that run one behind the other through one ring: each finds there what it needs.
///
/// # Errors
/// They don't agree on its slots, or on who computes.
pub(super) fn together(mut found: Vec<Specialised>) -> Result<Specialised, NotSpecialised> {
    let count = found.len();
    let Some(mut all) = found.pop() else { return Err(NotSpecialised::Loops { count }) };
    let alike = |s: &Specialised| (s.consumers, s.consumer_sets) == (all.consumers, all.consumer_sets);
    if !found.iter().all(alike) || !found.is_empty() && all.consumer_sets > 1 {
        return Err(NotSpecialised::Loops { count });
    }
    // A step of any of them fills one slot of the ring of transposed operands, with the same tiles.
    let transposes_alike = |s: &Specialised| s.transposed_b.iter().map(|t| &t.1).eq(all.transposed_b.iter().map(|t| &t.1));
    if !found.iter().all(transposes_alike) {
        return Err(NotSpecialised::TransposedLoops { count });
    }
    // What only one of them loads has slots of its own.
    let bytes = found.iter().map(|s| s.ring_bytes).chain([all.ring_bytes]).min().unwrap_or(0);
    all.stage_bytes = slot_bytes(found.iter().chain([&all]));
    let depth = found.iter().map(|s| s.depth).chain([all.depth]).min().unwrap_or(all.depth);
    all.depth = depth.min(bytes / all.stage_bytes.max(1));
    let depth = all.depth;
    all = all.with_slots(depth);
    if all.depth < 2 {
        return Err(NotSpecialised::Ring { depth: 2, room: all.depth, slot: all.stage_bytes });
    }
    // Registers that one of them needs are there for all.
    all.registers = found.iter().map(|s| s.registers).chain([all.registers]).max_by_key(|r| r.map(|r| r[1])).flatten();
    all.persistent = found.is_empty() && all.persistent;
    if !found.is_empty() {
        // Another loop waits for all slots of the one in front of it; nobody does for those of the last one.
        found.iter_mut().chain([&mut all]).for_each(|s| s.columns = None);
        found.iter_mut().for_each(|s| s.converts_ahead = false);
        // Who is done with his turns in one of them would begin those of the next.
        found.iter_mut().chain([&mut all]).for_each(|s| s.turns = None);
    }
    all.before = found;
    Ok(all)
}

/// Bytes of a slot that holds what any of these loops loads in a step: like tiles lie in the same place.
fn slot_bytes<'s>(loops: impl Iterator<Item = &'s Specialised>) -> u32 {
    let mut all: Vec<(&SwizzledTile, [bool; 2])> = Vec::new();
    for s in loops {
        let operands = s.loads.iter().map(|l| (&l.1, [s.by_lanes.contains(&l.0), false]));
        let tiles = operands.chain(s.lane_tiles.iter().map(|l| (&l.1, [false, true])));
        let mut have = all.clone();
        for t in tiles {
            match have.iter().position(|h| *h == t) {
                Some(n) => _ = have.swap_remove(n),
                None => all.push(t),
            }
        }
    }
    all.iter().map(|(t, _)| t.room()).sum()
}
