//! The specialised schedule: where it applies, and its numbers.
//!
//! ```text
//! a loop: loads that bulk copies take ─► transposes, merged rows ─► dots that group matrix instructions take ─► accumulators
//! its addresses, bounds and trip count, and those of what is around it: what the producer can compute, too (see [`super::replay`])
//! ```
//!
//! A loop that does more with its products (softmax between two of them, say) goes the same way: its loads are the producer's, all else
//! is the consumers', who then wait for each product where it stands. What they multiply from the left may be in their registers.
//!
//! Everything else of the kernel belongs to the consumers. What does not fit is declined with the reason; nothing has changed then.

use super::copied::{computed_again, stored_in_front};
use super::lane_copies::{copied_by_lanes, places};
use super::lane_tiles::{lane_tile, tile_loops};
use super::loads::ring_loads;
use super::loop_facts::{LoopFacts, loop_facts};
use super::masked::is_masked;
use super::no_loop::no_loop;
use super::one_loop::{Asked, specialised_loop};
use super::one_ring::together;
use super::options::LowerOptions;
use super::ping_pong::ping_pong_pays;
use super::replay::{around, written_views};
use super::ring_layouts::RingLayouts;
use super::specialised::Specialised;
use super::tensor_boxes::SwizzledTile;
use super::vectors::same_vectors;
use crate::named::Named;
use crate::reason::{CopyLimit, NoBulkCopy, NotSpecialised};
use cranelift_entity::SecondaryMap;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Inst, Kernel, Op, Value};
use tilelift_lane::hash::Set;
use tilelift_lane::{Target, Units};

/// Slots of a ring that loops in one ring ask for.
const FEW_SLOTS: u32 = 3;
/// Loops that take one ring at most.
pub(crate) const MAX_LOOPS: usize = 32;

/// Decides whether and how a kernel is specialised, with what is said of its layouts.
///
/// # Errors
/// Why it is not.
pub(super) fn specialise(
    kernel: &Kernel,
    target: &Target,
    options: &LowerOptions,
    ring_layouts: &RingLayouts,
) -> Result<Specialised, NotSpecialised> {
    let Some(units) = &target.units else { return Err(NotSpecialised::NoUnits { target: target.name }) };
    let written = written_views(kernel);
    let mut staged = ring_loads(kernel);
    let whole = with_ring(kernel, target, units, options, ring_layouts, (staged.clone(), &written));
    // What a mask leaves out of an operand lanes may leave out where they load it.
    let masked: Vec<Inst> = kernel.insts.keys().filter(|&i| staged[i] && is_masked(kernel, i)).collect();
    if whole.is_ok() || masked.is_empty() {
        return whole;
    }
    masked.into_iter().for_each(|i| staged[i] = false);
    with_ring(kernel, target, units, options, ring_layouts, (staged, &written))
}

/// The same, where these loads may come by the ring.
fn with_ring(
    kernel: &Kernel,
    target: &Target,
    units: &Units,
    options: &LowerOptions,
    ring_layouts: &RingLayouts,
    (mut staged, written): (SecondaryMap<Inst, bool>, &Set<Value>),
) -> Result<Specialised, NotSpecialised> {
    // A gather that the producer does not copy is the consumers'.
    let gathers: Vec<Inst> = kernel.insts.keys().filter(|&i| staged[i] && kernel.insts[i].op == Op::Gather).collect();
    for i in gathers {
        staged[i] = copied_by_lanes(kernel, target, units, written, i, None).is_ok() && found_again(kernel, written, i).is_ok();
    }
    let found = with_staged(kernel, target, units, options, ring_layouts, (&staged, written));
    let Err(why @ (NotSpecialised::Copy(_) | NotSpecialised::Stored { .. } | NotSpecialised::Address { .. })) = found else { return found };
    // The consumers load that beside what the ring brings.
    let brought = |i: Inst| left_to_consumers(kernel, target, units, written, i).is_none();
    let asked = |i: Inst| ring_layouts.swizzles.contains_key(&i);
    let own: Vec<Inst> = kernel.insts.keys().filter(|&i| staged[i] && !asked(i) && !brought(i)).collect();
    if own.is_empty() {
        return Err(why);
    }
    own.into_iter().for_each(|i| staged[i] = false);
    with_staged(kernel, target, units, options, ring_layouts, (&staged, written)).map_err(|_| why)
}

/// Checks that the producer can say where a load of a loop is done, as the consumers do.
fn found_again(kernel: &Kernel, written: &Set<Value>, load: Inst) -> Result<(), NotSpecialised> {
    let around = around(kernel, load);
    let Some((&main, around)) = around.split_last() else { return Err(NotSpecialised::Loops { count: 0 }) };
    computed_again(kernel, (main, around), written, places(kernel, load).collect()).map(drop)
}

/// Why consumers load what the ring of their loop does not bring, if they do: what has to be stored first, what begins anywhere, and what lies where they
/// alone know. Rows that begin anywhere the producer would load in pieces that are no better than those of a pipelined loop.
pub(crate) fn left_to_consumers(
    kernel: &Kernel,
    target: &Target,
    units: &Units,
    written: &Set<Value>,
    load: Inst,
) -> Option<NotSpecialised> {
    let view = kernel.insts[load].args[0];
    if written.contains(&view) && stored_in_front(kernel, load) {
        return Some(NotSpecialised::Stored { view: Named::of(kernel, view) });
    }
    let shape = kernel.insts[load].results.first().and_then(|&v| kernel.ty(v).shape());
    match shape.map(|shape| SwizzledTile::of(kernel, load, shape, units, None)) {
        Some(Err(why @ NoBulkCopy { limit: CopyLimit::Start { .. }, .. }))
            if copied_by_lanes(kernel, target, units, written, load, None).is_err() =>
        {
            Some(NotSpecialised::Copy(why))
        }
        _ if around(kernel, load).is_empty() => None,
        _ => found_again(kernel, written, load).err(),
    }
}

/// The same, where these loads come by the ring.
fn with_staged(
    kernel: &Kernel,
    target: &Target,
    units: &Units,
    options: &LowerOptions,
    ring_layouts: &RingLayouts,
    (staged, written): (&SecondaryMap<Inst, bool>, &Set<Value>),
) -> Result<Specialised, NotSpecialised> {
    let of = |i: Inst| kernel.insts[i].regions.first().map(|&r| &kernel.regions[r].insts);
    let with = |brings: &dyn Fn(Inst) -> bool| {
        let mut loops = Vec::new();
        kernel.walk(kernel.body, &mut |i| {
            // What is loaded in a loop around it is there before.
            let both = |l: &Vec<Inst>| l.iter().any(|&j| kernel.insts[j].op == Op::Dot) && l.iter().any(|&j| brings(j));
            loops.extend((kernel.insts[i].op == Op::For && of(i).is_some_and(both)).then_some(i));
        });
        loops
    };
    let mut loops = with(&|j| staged[j]);
    // Where lanes compute all operands, the ring brings what they compute them of.
    if loops.is_empty() {
        loops = with(&|j| lane_tile(kernel, units, written, j).is_some());
    }
    if loops.is_empty() {
        return Err(no_loop(kernel, target, units, written));
    }
    // What other loops read goes through the ring, too.
    let own = in_one_ring(kernel, target, units, options, ring_layouts, (staged, written), &loops)?;
    // Those that bring most stay behind until the slots of the others fit.
    let mut beside = tile_loops(kernel, units, written, &loops);
    while !beside.is_empty() && loops.len() + beside.len() <= MAX_LOOPS {
        let mut all = Vec::new();
        kernel.walk(kernel.body, &mut |i| all.extend((loops.contains(&i) || beside.contains(&i)).then_some(i)));
        let found = in_one_ring(kernel, target, units, options, ring_layouts, (staged, written), &all);
        if let Some(found) = found.ok().filter(|f| f.consumer_sets == own.consumer_sets && f.depth >= own.depth.min(FEW_SLOTS)) {
            return Ok(found);
        }
        beside.pop();
    }
    Ok(own)
}

/// The same of these loops, which run one behind the other.
fn in_one_ring(
    kernel: &Kernel,
    target: &Target,
    units: &Units,
    options: &LowerOptions,
    ring_layouts: &RingLayouts,
    (staged, written): (&SecondaryMap<Inst, bool>, &Set<Value>),
    loops: &[Inst],
) -> Result<Specialised, NotSpecialised> {
    // Each is looked at beside the whole kernel.
    if loops.len() > MAX_LOOPS {
        return Err(NotSpecialised::ManyLoops { count: loops.len(), most: MAX_LOOPS });
    }
    let sole = loops.len() == 1;
    let planned = |main: Inst, facts: &LoopFacts, options: &LowerOptions| {
        specialised_loop(Asked { kernel, target, units, options, ring_layouts, written, main, sole, facts })
    };
    let (mut known, mut found) = (Vec::with_capacity(loops.len()), Vec::with_capacity(loops.len()));
    for &main in loops {
        let facts = loop_facts(kernel, target, units, ring_layouts, (staged, written), main)?;
        found.push(planned(main, &facts, options)?);
        known.push(facts);
    }
    let each = |options: &LowerOptions| loops.iter().zip(&known).map(|(&main, facts)| planned(main, facts, options)).collect();
    // Loops that take one ring have the same consumers.
    let alike = |s: &[Specialised]| s.windows(2).all(|w| (w[0].consumers, w[0].consumer_sets) == (w[1].consumers, w[1].consumer_sets));
    if !alike(&found) && options.consumers.is_none() {
        let all = |groups| {
            let made: Result<Vec<Specialised>, NotSpecialised> =
                each(&LowerOptions { consumers: Some(groups), consumer_sets: Some(1), ..*options });
            made.ok().filter(|s| alike(s))
        };
        found = [2, 1].into_iter().find_map(all).unwrap_or(found);
    }
    if let ([one], [main], [facts], (None, None)) = (&mut found[..], loops, &known[..], (options.consumer_sets, options.consumers))
        && ping_pong_pays(kernel, one)
    {
        let options = LowerOptions { consumer_sets: Some(2), ..*options };
        let sets = planned(*main, facts, &options);
        let alike = |s: &Specialised| s.consumer_sets == 2 && s.epilogue.operands.len() == one.epilogue.operands.len();
        let as_deep = |s: Specialised| {
            let depth = s.depth;
            s.with_slots(depth)
        };
        if let Some(sets) = sets.ok().map(as_deep).filter(alike) {
            *one = sets;
        }
    }
    // Loops that take one ring have the same vectors, or none.
    if found.windows(2).any(|w| !same_vectors(kernel, &w[0].vectors, &w[1].vectors)) {
        found.iter_mut().for_each(|s| s.vectors.clear());
    }
    together(found)
}

/// Tells what was decided of a loop.
pub(super) fn told(s: &Specialised) {
    taken(Decision::Consumers, || Told::of(format!("{} sets of {}", s.consumer_sets, s.consumers)));
    taken(Decision::Persistence, || Told::of(if s.persistent { "several positions" } else { "one position" }));
    taken(Decision::Overlap, || {
        Told::of(match (&s.overlap, &s.late) {
            (Some(o), _) => {
                let turns = if s.turns.is_some() { ", in turns of the warpgroups" } else { "" };
                format!("{} products a step ahead, {} a step later{turns}", o.early.len(), o.late.len())
            }
            (None, Some(_)) => "products that end a step later".to_owned(),
            (None, None) if s.converts_ahead => "operands of the next step are computed while products run".to_owned(),
            (None, None) if s.turns.is_some() => "warpgroups multiply in turns".to_owned(),
            (None, None) => "none".to_owned(),
        })
    });
    taken(Decision::Promotion, || Told::of(if s.promoted { "lanes add up what the unit sums" } else { "the unit sums" }));
    taken(Decision::Registers, || {
        Told::of(s.registers.map_or("as they start".to_owned(), |[producer, consumers]| format!("{producer} and {consumers}")))
    });
    taken(Decision::Dequantisation, || {
        let (stored, ahead) = (s.staged.len(), if s.converts_ahead { ", a step ahead" } else { "" });
        Told::of(format!("{stored} operands through shared memory, the others in registers{ahead}"))
    });
}
