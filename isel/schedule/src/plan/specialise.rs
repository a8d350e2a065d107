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

use super::brought::{narrowed, over_brought, shared_as_quick, used_only_by};
use super::budget::{BESIDE_ACCUMULATORS, Held, budget, loaded_behind, matrices_behind};
use super::columns::column_tasks;
use super::copied::{behind, computed_again, in_ring, stored_in_front};
use super::epilogue_operands::{Epilogue, epilogue_operands};
use super::lane_copies::{copied_by_lanes, places};
use super::lane_tiles::{lane_tile, tile_loops};
use super::late::{Operands, late};
use super::late_products::Late;
use super::loads::{ring_loads, suits};
use super::loop_facts::{LoopFacts, loop_facts};
use super::masked::is_masked;
use super::no_loop::no_loop;
use super::one_ring::together;
use super::options::LowerOptions;
use super::overlap::overlap;
use super::ping_pong::{can_ping_pong, wide_enough};
use super::prefetched::prefetches;
use super::pressure::pressure;
use super::products::{BroughtOperand, a_from_registers, accumulator_shape, column_share, invariant, operand_registers};
use super::replay::{Replay, around, written_views};
use super::results::bulk_results;
use super::ring_layouts::RingLayouts;
use super::rounds::at_most_once;
use super::shares::{Copies, cheaper, copies};
use super::sliced::{only_sums, slice_bytes, slices};
use super::specialised::{MAX_DEPTH, Specialised, TRANSPOSED_SLOTS, WIDE_RESULTS_LEAST};
use super::staged::{StagedOperand, from_ring, in_rows, mapped, staged_operands};
use super::step_order::{StepPart, in_place, late_order, step_order};
use super::swizzled_tile::{ALIGN, SwizzledTile};
use super::updates::{BulkUpdate, bulk_update};
use super::vectors::{may_be_copied, same_vectors, vector_bytes};
use super::views::trace;
use crate::named::Named;
use crate::reason::{CopyLimit, NoBulkCopy, NotOverlapped, NotSpecialised};
use cranelift_entity::{EntityRef, SecondaryMap};
use std::collections::BTreeMap;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Inst, Kernel, Op, Precision, Value};
use tilelift_lane::hash::Set;
use tilelift_lane::{GroupMatrixId, Registers, Target, Units};

/// Programs of a multiprocessor that share its memory, at most.
const MOST_PROGRAMS: u32 = 3;
/// Bytes of shared memory that each takes for itself, and for its mbarriers.
const BYTES_OF_PROGRAM: u32 = 2048;
/// Slots that each of them wants.
const SLOTS_OF_SHARES: u32 = 3;
/// Slots of a ring that loops in one ring ask for.
const FEW_SLOTS: u32 = 3;
/// Slots of a ring below which results take the place of operands: with a fourth, copies are ahead of products that end a step later.
const SLOTS_BESIDE_RESULTS: u32 = 4;

/// Slots of loops that memory keeps waiting, as those are whose steps are taken in turns, and the bytes that they are to have in flight.
const DEEPEST: u32 = 16;
const IN_FLIGHT: u32 = 1 << 17;

/// Registers per lane of what a loop that is taken apart loads a step ahead.
const BESIDE_OVERLAP: u32 = 4;

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
    let found_again = |i: Inst| {
        let from = |main: Inst, around: &[Inst]| computed_again(kernel, (main, around), written, places(kernel, i).collect());
        around(kernel, i).split_last().is_some_and(|(&main, around)| from(main, around).is_ok())
    };
    for i in gathers {
        staged[i] = copied_by_lanes(kernel, target, units, written, i, None).is_ok() && found_again(i);
    }
    let found = with_staged(kernel, target, units, options, ring_layouts, (&staged, written));
    let Err(why @ (NotSpecialised::Copy(_) | NotSpecialised::Stored { .. } | NotSpecialised::Address { .. })) = found else { return found };
    // What begins anywhere, what has to be stored first, and what lies where the consumers alone know, they load beside what the ring brings. Rows that
    // begin anywhere they would load in pieces that are no better than those of a pipelined loop.
    let brought = |i: Inst| {
        let shape = kernel.insts[i].results.first().and_then(|&v| kernel.ty(v).shape());
        let boxes = shape.map(|shape| SwizzledTile::of(kernel, i, shape, units, None));
        let anywhere = matches!(boxes, Some(Err(NoBulkCopy { limit: CopyLimit::Start { .. }, .. })))
            && copied_by_lanes(kernel, target, units, written, i, None).is_err();
        let stored = written.contains(&kernel.insts[i].args[0]) && stored_in_front(kernel, i);
        !stored && !anywhere && (around(kernel, i).is_empty() || found_again(i))
    };
    let asked = |i: Inst| ring_layouts.swizzles.contains_key(&i);
    let own: Vec<Inst> = kernel.insts.keys().filter(|&i| staged[i] && !asked(i) && !brought(i)).collect();
    if own.is_empty() {
        return Err(why);
    }
    own.into_iter().for_each(|i| staged[i] = false);
    with_staged(kernel, target, units, options, ring_layouts, (&staged, written)).map_err(|_| why)
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
        specialised_loop(kernel, target, units, options, ring_layouts, written, (main, sole, facts.clone()))
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
            (Some(o), _) => format!("{} products a step ahead, {} a step later", o.early.len(), o.late.len()),
            (None, Some(_)) => "products that end a step later".to_owned(),
            (None, None) if s.converts_ahead => "operands of the next step are computed while products run".to_owned(),
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

/// True for a loop of plain products whose consumers would better take grid positions in ping-pong than share the rows of one: one warpgroup has work
/// enough in each step, and the other one stores meanwhile.
fn ping_pong_pays(kernel: &Kernel, s: &Specialised) -> bool {
    let plain = s.persistent && !s.mixed && !s.promoted && s.register_a.is_empty() && s.transposed_b.is_empty();
    let [(dot, _)] = s.dots[..] else { return false };
    // One warpgroup holds all accumulators, and has nothing to spare for tiles beside them; sets that wait for tiles behind their loops hold up one another (log §42).
    plain
        && loaded_behind(kernel, s.main, 1) == 0
        && s.consumers == 2
        && s.consumer_sets == 1
        && wide_enough(kernel, dot)
        && can_ping_pong(kernel, s.main)
}

/// The same of one loop of which so much is known, `sole` if no other one takes the ring.
fn specialised_loop(
    kernel: &Kernel,
    target: &Target,
    units: &Units,
    options: &LowerOptions,
    ring_layouts: &RingLayouts,
    written: &Set<Value>,
    (main, sole, facts): (Inst, bool, LoopFacts),
) -> Result<Specialised, NotSpecialised> {
    let named = |v: Value| Named::of(kernel, v);
    let LoopFacts { around, live, loads, masked, by_lanes, pieces, dots, last, mixed, mut replay, carried, register_a, transposed_b } =
        facts;
    let region = kernel.insts[main].regions[0];
    let body = &kernel.regions[region].insts;

    // Shares of the consumers.
    let accumulators: Vec<[u32; 2]> = dots.iter().filter_map(|&(i, _)| accumulator_shape(kernel, i)).collect();
    let rows = dots.iter().map(|&(_, q)| units.matrix[q.index()].m).max().unwrap_or(1);
    let asked = options.consumer_sets.unwrap_or(1);
    // Sets pass over one another's steps. Where positions have as many as each has, the same warpgroups share the rows of one position instead.
    let together = asked == 2 && !can_ping_pong(kernel, main);
    let consumer_sets = if together { 1 } else { asked };
    let shared_by = |groups: u32| accumulators.iter().all(|s| s[0].is_multiple_of(groups * rows));
    // Accumulators that lanes add to beside the instruction are there twice.
    let promoted = dots.iter().any(|&(_, q)| units.matrix[q.index()].promotion_depth.is_some());
    // Groups of a loop that computes share columns where there are too few rows. What stands behind an operand A of such a product each may compute.
    let several = options.consumers.unwrap_or(2).max(2);
    let by_inst: BTreeMap<Inst, GroupMatrixId> = dots.iter().copied().collect();
    let by_itself = dots.iter().all(|&(i, _)| from_ring(kernel, &loads, kernel.insts[i].args[1]));
    let copied = match mixed {
        true => copies(kernel, units, &by_inst, several, &|i, slice| cheaper(kernel, target, &by_inst, (i, slice, by_itself), several)),
        false => Copies::default(),
    };
    let across = |(i, q): (Inst, GroupMatrixId), groups: u32| {
        let (row, shape) = (&units.matrix[q.index()], accumulator_shape(kernel, i)?);
        if groups == several { copied.shares(row, i, shape, groups) } else { row.shares(shape, groups) }.map(|s| s[1])
    };
    // Their shares are whole swizzle atoms.
    let share_of =
        |d: (Inst, GroupMatrixId), groups: u32, loads: &[(Inst, SwizzledTile)]| column_share(kernel, d.0, across(d, groups)?, loads);
    let least = units.bulk.swizzles.iter().copied().min().unwrap_or(0);
    let atoms = |d: (Inst, GroupMatrixId), groups: u32| share_of(d, groups, &loads).is_none_or(|s| s.1 >= least);
    let split = |groups: u32| dots.iter().all(|&d| across(d, groups).is_some() && atoms(d, groups));
    let persistent = persistent_positions(kernel, options, mixed, &replay, &around);
    let single = persistent || !around.is_empty();
    let given = |loads: &[(Inst, SwizzledTile)], groups: u32| {
        let columns = |(i, q): (Inst, GroupMatrixId)| across((i, q), groups).unwrap_or(1);
        // Operand A that lanes would store.
        let not_held = |d: &(Inst, GroupMatrixId)| columns(*d) > 1 || !in_rows(kernel, kernel.insts[d.0].args[0]);
        let rows = |n: usize| if n == 1 { dots.clone() } else { dots.iter().copied().filter(not_held).collect::<Vec<_>>() };
        let brought: Vec<BroughtOperand> = match persistent {
            true => Vec::new(),
            false => {
                let mut all = invariant(kernel, units, (main, written), &rows(1), loads, 1);
                for a in invariant(kernel, units, (main, written), &rows(0), loads, 0) {
                    if all.iter().all(|b| b.value != a.value) {
                        all.push(a);
                    }
                }
                all.iter_mut().for_each(|b| narrowed(kernel, units, b, &dots, &columns));
                all
            }
        };
        let elsewhere = |v: Value| from_ring(kernel, loads, v) || brought.iter().any(|b| b.value == v);
        let whole = |i: Inst| groups == several && copied.readers.contains(&i);
        let staged = staged_operands(kernel, units, region, &dots, &elsewhere, (&columns, &whole));
        (brought, staged)
    };
    let insts: Vec<Inst> = dots.iter().map(|d| d.0).collect();
    let taken_apart = |staged: &[StagedOperand]| match (mixed && !promoted, options.overlap) {
        (false, Some(true)) => Err(NotOverlapped::OneAccumulator),
        (false, _) | (true, Some(false)) => Ok(None),
        // There is no step behind the first one.
        (true, None) if at_most_once(kernel, main) => Ok(None),
        (true, _) => overlap(kernel, target, main, &insts, &loads, staged).map(Some),
    };
    // So many sets of one group may take steps in turns.
    let sliced = match (options.consumers, options.consumer_sets) {
        (None, None)
            if sole
                && mixed
                && !promoted
                && !single
                && split(1)
                && options.stages.is_none()
                && transposed_b.is_empty()
                && given(&loads, 1).1.is_empty() =>
        {
            slices(kernel, main, &insts)
        }
        _ => 1,
    };
    let alone = || split(1) && matches!(taken_apart(&given(&loads, 1).1), Ok(Some(_)));
    let usual = match consumer_sets {
        1 if shared_by(2) => 2,
        1 if sliced > 1 => 1,
        1 if mixed && split(2) && !alone() => 2,
        _ => 1,
    };
    let consumers = match options.consumers {
        Some(each) if together && shared_by(asked * each) => asked * each,
        Some(consumers) => consumers,
        None => usual,
    };
    let most_slices = if consumers == 1 && !shared_by(2) { sliced } else { 1 };
    let shared = if mixed { split(consumers) } else { shared_by(consumers) && split(1) };
    if consumers == 0 || !shared {
        return Err(NotSpecialised::Shares { consumers, rows: accumulators[0][0], each: rows });
    }
    suits(kernel, main, consumers * units.group_warps)?;
    let shares: Vec<(Inst, u32)> = dots.iter().filter_map(|&d| share_of(d, consumers, &loads)).collect();
    let narrow = |(load, tile): &(Inst, SwizzledTile)| {
        let most = shares.iter().filter(|s| s.0 == *load).map(|s| s.1).min();
        let Some(most) = most.filter(|&most| most < tile.swizzle) else { return Ok((*load, tile.clone())) };
        let fit = units.bulk.swizzles.iter().copied().find(|&s| most.is_multiple_of(s));
        let asked = ring_layouts.swizzles.get(load).copied().or(fit).filter(|&s| most.is_multiple_of(s));
        let asked = asked.ok_or(NotSpecialised::Shares { consumers, rows: accumulators[0][0], each: rows })?;
        let narrow = match by_lanes.contains(load) {
            true => copied_by_lanes(kernel, target, units, written, *load, Some(asked))?.tile,
            false => SwizzledTile::of(kernel, *load, &tile.shape, units, Some(asked))?,
        };
        Ok((*load, SwizzledTile { tf32: tile.tf32, ..narrow }))
    };
    let narrow = loads.iter().map(narrow).collect::<Result<Vec<(Inst, SwizzledTile)>, NotSpecialised>>()?;
    let lanes = consumers * units.group_warps * target.lanes;
    let (needed, staged_operands) = given(&loads, consumers);
    let mut parts = match (taken_apart(&staged_operands), options.overlap) {
        (Err(why), Some(true)) => return Err(NotSpecialised::Overlap { why }),
        (parts, _) => parts.unwrap_or(None),
    };
    let loads = narrow;
    // One group may compute what all would, and the others go on with what it hands over.
    let may_hand_over =
        masked.is_empty() && consumers == several && consumer_sets == 1 && !single && !promoted && options.overlap != Some(true);
    let all_held = staged_operands.is_empty() && register_a.is_empty() && transposed_b.is_empty() && !copied.readers.is_empty();
    let columns = match may_hand_over && all_held {
        true => column_tasks(kernel, units, main, &copied, consumers, &|v| written.contains(&v)),
        false => None,
    };
    let contiguous = |j: Inst| loads.iter().find(|l| l.0 == j).map(|l| l.1.contiguous());
    for &i in &register_a {
        let found = trace(kernel, kernel.insts[i].args[0], &contiguous).and_then(|(l, c)| Some((&loads.iter().find(|x| x.0 == l)?.1, c)));
        if let Some((tile, 0)) = found {
            // Parts of the rows, as the groups share them, are whole swizzle atoms, one behind the other.
            let (share, depth) = (consumers * rows, tile.rows);
            if tile.per > share || (tile.per < share && !depth.is_power_of_two()) {
                return Err(NotSpecialised::Boxes { swizzle: tile.swizzle, depth, share });
            }
        }
    }
    match consumer_sets {
        1 => {}
        2 if mixed || promoted => return Err(NotSpecialised::PingPongComputes),
        2 if !persistent => return Err(NotSpecialised::ConsumerSetsOnce),
        2 => {}
        consumer_sets => return Err(NotSpecialised::ConsumerSets { consumer_sets }),
    }
    // Of what each group computes its lanes have all.
    let lanes_of = |i: Option<Inst>| {
        if consumers == several && i.is_some_and(|i| copied.made.contains(&i)) { lanes / consumers } else { lanes }
    };
    let held = dots.iter().filter_map(|&(i, _)| accumulator_shape(kernel, i).map(|s| s[0] * s[1] / lanes_of(Some(i)))).sum::<u32>();
    let last_registers = last.iter().filter_map(|&i| accumulator_shape(kernel, i)).map(|s| s[0] * s[1] / lanes).sum::<u32>();
    let transposers = u32::from(!transposed_b.is_empty());
    let stored =
        |i: Inst, v: Value| staged_operands.iter().any(|s| s.uses.iter().any(|u| u.product == i && kernel.insts[i].args[u.operand] == v));
    let share_of_groups = |groups: u32, brought: &[BroughtOperand]| {
        let elsewhere = |i: Inst, v: Value| stored(i, v) || brought.iter().any(|b| b.value == v);
        // What stands between the products of a mixed loop takes as much beside them as addresses and the epilogue do.
        let held = match (mixed, promoted) {
            (true, _) => held + a_from_registers(kernel, &dots, &loads, &elsewhere, &lanes_of) + BESIDE_ACCUMULATORS,
            (false, true) => held + last_registers,
            (false, false) => last_registers,
        };
        let held = held + register_a.iter().map(|&i| operand_registers(kernel, kernel.insts[i].args[0], lanes)).sum::<u32>();
        let held = Held { copied: pieces, ..Held::summed(held, loaded_behind(kernel, main, lanes)) };
        budget(target, units, [groups, transposers], held)
    };
    let each = consumer_sets * consumers;
    let warps_of = |slices: u32| (each * slices + 1 + transposers) * units.group_warps;
    // As many sets as there are registers for: what one waits for, the others have the time to compute.
    let held_by = |&n: &u32| warps_of(n) <= target.max_warps && share_of_groups(each * n, &needed).is_ok();
    let slices = (2..=most_slices).rev().find(held_by).unwrap_or(most_slices.min(2));
    let (groups, warps) = (each * slices, warps_of(slices));
    if warps > target.max_warps {
        return Err(NotSpecialised::TooManyWarps { warps, most: target.max_warps, target: target.name });
    }
    let share = |brought: &[BroughtOperand]| share_of_groups(groups, brought);
    // What products hold in a step of which none reaches into the next one, where that is most.
    let computed = |i: Inst| live.contains(&i) && !in_ring(kernel, &loads, i);
    let held_in = |brought: &[BroughtOperand], order: &[StepPart], late: Option<&Late>| {
        let in_ring = |v: Value| kernel.def_inst(v).is_some_and(|i| in_ring(kernel, &loads, i));
        let elsewhere = |v: Value| in_ring(v) || brought.iter().any(|b| b.value == v || behind(kernel, b.value, v));
        pressure(kernel, region, order, &lanes_of, promoted, late, (&elsewhere, &stored))
    };
    let most_held = |brought: &[BroughtOperand]| {
        let order = if promoted { in_place(kernel, region, &computed) } else { step_order(kernel, region, written, &computed) };
        held_in(brought, &order, None)
    };
    let one_step = |brought: &[BroughtOperand]| {
        let held = Held { all: most_held(brought), spare: 0, beside: loaded_behind(kernel, main, lanes), copied: pieces };
        budget(target, units, [groups, transposers], held)
    };
    // Of a loop that is taken apart: what all its products hold at once. Lanes compute in place of that.
    let at_once = |brought: &[BroughtOperand]| {
        let elsewhere = |i: Inst, v: Value| stored(i, v) || brought.iter().any(|b| b.value == v);
        let all = held + a_from_registers(kernel, &dots, &loads, &elsewhere, &lanes_of);
        let beside = loaded_behind(kernel, main, lanes);
        let with = |spare| budget(target, units, [groups, transposers], Held { all, spare, beside, copied: pieces });
        with(BESIDE_ACCUMULATORS).or_else(|_| with(BESIDE_ACCUMULATORS / 2))
    };
    // Where lanes are the longer half, they don't load what bulk copies bring meanwhile, and pass it through shared memory to the registers of products.
    // Elsewhere products are quicker with it there.
    let mut needed = needed;
    if parts.as_ref().is_some_and(|p| p.hold) && !persistent {
        let as_quick = |&(i, q): &(Inst, GroupMatrixId)| shared_as_quick(target, &units.matrix[q.index()], accumulator_shape(kernel, i));
        let quick: Vec<(Inst, GroupMatrixId)> = dots.iter().copied().filter(as_quick).collect();
        for a in invariant(kernel, units, (main, written), &quick, &loads, 0) {
            if needed.iter().all(|b| b.value != a.value) && used_only_by(kernel, a.value, &quick) {
                needed.push(a);
            }
        }
    }
    let (registers, brought) = match share(&needed) {
        Ok(registers) => (registers, needed),
        Err(why) => {
            // At one grid position, once: nobody has to wait until what was brought before is read.
            let mut brought = needed;
            if !persistent {
                let more = invariant(kernel, units, (main, written), &dots, &loads, 0);
                let stored = |a: &BroughtOperand| dots.iter().any(|d| stored(d.0, a.value));
                let more: Vec<BroughtOperand> =
                    more.into_iter().filter(|a| brought.iter().all(|b| b.value != a.value) && !stored(a)).collect();
                brought.extend(more);
            }
            match share(&brought) {
                Ok(registers) => (registers, brought),
                Err(_) => match parts.as_ref().map(|_| at_once(&brought)) {
                    Some(Ok(registers)) => (registers, brought),
                    _ if mixed && options.overlap != Some(true) => {
                        parts = None;
                        (one_step(&brought).map_err(|_| why)?, brought)
                    }
                    _ => return Err(why),
                },
            }
        }
    };
    // Whole tiles that lanes read travel in the slots of the ring, too, where the producer can say from where.
    let mut lane_tiles: Vec<(Inst, SwizzledTile)> = Vec::new();
    if mixed {
        for &i in body.iter().filter(|&&i| computed(i)) {
            let Some(tile) = lane_tile(kernel, units, written, i) else { continue };
            if let Ok(places) = computed_again(kernel, (main, &around), written, kernel.operand(i, "indices").to_vec()) {
                replay.add(places);
                lane_tiles.push((i, tile));
            }
        }
    }
    if loads.is_empty() && lane_tiles.is_empty() {
        return Err(NotSpecialised::Loops { count: 0 });
    }
    let stage_bytes: u32 = loads.iter().chain(&lane_tiles).map(|(_, t)| t.room()).sum();
    let brought_bytes: u32 = brought.iter().map(|b| b.tile.bytes().next_multiple_of(ALIGN)).sum();
    // Products that end a step later keep its slot: of two none is left to be filled meanwhile. Groups that compute the same without one another have
    // their lanes compute while others multiply as it is.
    let slots = target.shared_bytes.saturating_sub(brought_bytes) / stage_bytes.max(1);
    if (columns.is_some() || slots < 3 && !copied.readers.is_empty()) && options.overlap.is_none() {
        parts = None;
    }
    // What multiplications read from registers is fetched anew when they are done.
    let in_flight = if parts.is_none() && (mixed || promoted || !register_a.is_empty()) { 0 } else { 1 };
    // What lanes compute for products they may compute a step ahead, where registers hold it twice.
    let a_elsewhere = |i: Inst, v: Value| stored(i, v) || brought.iter().any(|b| b.value == v);
    let twice = a_from_registers(kernel, &dots, &loads, &a_elsewhere, &lanes_of);
    let have = registers.map_or(Registers::of(target, units, warps).entry, |r| r[1]);
    // Operands B that they store have two buffers then.
    let in_turns = staged_operands.iter().all(|s| s.moves && s.uses.iter().all(|u| u.operand == 1));
    let free = in_turns && transposed_b.is_empty() && register_a.is_empty();
    let made = |&i: &Inst| {
        let a = kernel.insts[i].args[0];
        a_elsewhere(i, a) || from_ring(kernel, &loads, a) || kernel.def_inst(a).is_some_and(|j| body.contains(&j)) && mapped(kernel, a)
    };
    let sums = || insts.iter().all(made) && only_sums(kernel, main, &insts);
    // Words that are rounded where they are multiplied are not there a step ahead.
    let rounds = dots.iter().any(|&(_, q)| units.matrix[q.index()].precision == Precision::Tf32);
    let converts_ahead =
        mixed && !promoted && !single && parts.is_none() && (twice > 0 || !staged_operands.is_empty()) && free && !rounds && sums() && {
            // What the ring brings is loaded by nobody.
            let loaded = |i: Inst| computed(i) && lane_tiles.iter().all(|l| l.0 != i);
            let ahead: u32 = prefetches(kernel, region, written, &loaded, lanes).iter().map(|p| 2 * p.registers).sum();
            // Where tasks take steps in turns, one computes while another one's products run.
            slices == 1 && most_held(&brought) + twice + ahead + BESIDE_ACCUMULATORS <= have
        };
    let places: Vec<Value> = brought.iter().flat_map(|b| kernel.operand(b.load, "indices")).copied().collect();
    replay.add(computed_again(kernel, (main, &around), written, places)?);
    for &(i, q) in &dots {
        // The operands of one instruction: its columns of the accumulator, and an operand A that is not in shared memory.
        let Some([_, n]) = accumulator_shape(kernel, i) else { continue };
        let a = kernel.insts[i].args[0];
        let elsewhere = from_ring(kernel, &loads, a) || stored(i, a) || brought.iter().any(|b| b.value == a);
        let n = n / across((i, q), consumers).unwrap_or(1);
        let operands = units.matrix[q.index()].registers(n, register_a.contains(&i) || !elsewhere);
        Registers::of(target, units, warps)
            .check_matrix(Some(operands), registers.map(|r| r[1]))
            .map_err(|[need, have]| NotSpecialised::ProductRegisters { columns: n, need, have })?;
    }

    // Results that leave through shared memory, unless each task stores its own columns.
    // Wide ones where one consumer set's leave while the other multiplies: lanes that store them take longer than that.
    let wide = options.bulk_stores.unwrap_or(consumer_sets > 1);
    let mut stores = match dots.is_empty() {
        true => Vec::new(),
        false => bulk_results(kernel, units, ring_layouts, &around, &accumulators, [columns.is_some(), wide])?,
    };
    let transposed_bytes = TRANSPOSED_SLOTS * transposed_b.iter().map(|(_, t)| t.bytes().next_multiple_of(ALIGN)).sum::<u32>();
    let staged_bytes: u32 =
        staged_operands.iter().map(|s| s.tile.bytes().next_multiple_of(ALIGN)).sum::<u32>() * if converts_ahead { 2 } else { 1 };
    // Sums that leave through shared memory, if a ring of some slots is left.
    let updated = |i: &Inst| if parts.is_none() { bulk_update(kernel, units, *i) } else { None };
    let mut updates: Vec<BulkUpdate> = body.iter().filter_map(updated).collect();
    let bytes_of = |list: &[BulkUpdate]| list.iter().map(|u| u.tile.bytes().next_multiple_of(ALIGN)).sum::<u32>();
    let columns = columns.filter(|_| lane_tiles.is_empty() && slices == 1 && !converts_ahead && updates.is_empty() && stores.is_empty());
    let handed_bytes = columns.as_ref().map_or(0, |c| c.bytes(kernel));
    let others = brought_bytes + transposed_bytes + staged_bytes + handed_bytes + ALIGN;
    if target.shared_bytes.saturating_sub(others + bytes_of(&updates)) / stage_bytes.max(1) < 2 {
        updates.clear();
    }
    let beside = others + bytes_of(&updates) + slice_bytes(kernel, main, slices);
    // One group alone leaves the units to nobody while its lanes compute: where registers and memory permit, other programs have their share.
    let shared = if groups == 1 && !persistent && registers.is_none() && options.stages.is_none() {
        let elsewhere = |i: Inst, v: Value| stored(i, v) || brought.iter().any(|b| b.value == v);
        let need = match (mixed, promoted) {
            (true, _) => held + a_from_registers(kernel, &dots, &loads, &elsewhere, &lanes_of) + BESIDE_ACCUMULATORS,
            (false, true) => held + last_registers,
            (false, false) => last_registers,
        };
        let results = stores.iter().map(|(_, t)| t.bytes()).sum::<u32>();
        let slots = |bytes: u32| bytes.saturating_sub(beside + results) / stage_bytes.max(1);
        share_of_programs(target, units, warps, need + pieces + BESIDE_ACCUMULATORS / 2, &|bytes| slots(bytes) >= SLOTS_OF_SHARES)
    } else {
        target.shared_bytes
    };
    let room = |staging: u32| shared.saturating_sub(staging + beside) / stage_bytes.max(1);
    let repetitions = accumulators.iter().map(|s| s[0] / (consumers * rows)).min().unwrap_or(1);
    let parted = stores.iter().all(|(_, t)| t.shape[t.down()].is_multiple_of(repetitions));
    let staging_parts =
        if consumer_sets > 1 && accumulators.iter().all(|s| s[0] == repetitions * consumers * rows) && parted { repetitions } else { 1 };
    let mut staging_bytes: u32 = consumer_sets * stores.iter().map(|(_, t)| t.bytes() / staging_parts).sum::<u32>();
    // Where that leaves the ring few slots, results take the place of operands that were brought.
    let mut results_over = BTreeMap::new();
    if room(staging_bytes) < SLOTS_BESIDE_RESULTS && sole && !persistent {
        let rows_apart = dots.iter().all(|&d| across(d, consumers).unwrap_or(1) == 1);
        let over = if rows_apart { over_brought(kernel, (main, &around), &stores, &brought, &insts) } else { BTreeMap::new() };
        let left = stores.iter().filter(|(i, _)| !over.contains_key(i)).map(|(_, t)| t.bytes() / staging_parts).sum::<u32>();
        if room(left) > room(staging_bytes) {
            (staging_bytes, results_over) = (left, over);
        }
    }
    // Results that leave one behind the other may do so through the same bytes; those of replicas lie side by side, so that all take as many.
    let largest = consumer_sets * stores.iter().map(|(_, t)| t.bytes() / staging_parts).max().unwrap_or(0);
    let alike = stores.windows(2).all(|pair| pair[0].1.bytes() == pair[1].1.bytes());
    let staging_shared = room(staging_bytes) < 2 && room(largest) >= 2 && (consumer_sets == 1 || alike);
    if staging_shared {
        staging_bytes = largest;
    }
    // A ring of as many slots as are asked for goes before; wide results take much of what copies need to be ahead.
    let wide = stores.iter().any(|(i, t)| t.elem.bytes() > 2 && !ring_layouts.epilogue.contains_key(i));
    let least = if wide { options.stages.unwrap_or(WIDE_RESULTS_LEAST) } else { 2 };
    if room(staging_bytes) < least {
        if let Some((i, _)) = stores.iter().find(|(i, _)| ring_layouts.epilogue.contains_key(i)) {
            let value = named(kernel.operand(*i, "value")[0]);
            return Err(NotSpecialised::Staging { bytes: staging_bytes, value, slot: stage_bytes });
        }
        stores.clear();
        results_over.clear();
        staging_bytes = 0;
    }
    let room = room(staging_bytes);
    let most = if slices > 1 { DEEPEST.min(IN_FLIGHT / stage_bytes.max(1)).max(MAX_DEPTH) } else { MAX_DEPTH };
    let depth = options.stages.unwrap_or(room.min(most) / slices * slices);
    if depth < 2 || depth > room {
        return Err(NotSpecialised::Ring { depth, room, slot: stage_bytes });
    }
    // Vectors beside the operands go with the ring, where the producer can say from where, and bytes are left.
    let mut vectors = Vec::new();
    let mut left = shared.saturating_sub(staging_bytes + beside + depth * stage_bytes) / depth;
    // The lanes of more warps than one are busy with operands.
    if mixed && by_lanes.is_empty() {
        for &i in
            body.iter().filter(|&&i| live.contains(&i) && lane_tiles.iter().all(|l| l.0 != i) && may_be_copied(kernel, target, written, i))
        {
            let (places, bytes) = (kernel.operand(i, "indices").to_vec(), vector_bytes(kernel, i));
            if let (true, Ok(places)) = (bytes <= left, computed_again(kernel, (main, &around), written, places)) {
                left -= bytes;
                replay.add(places);
                vectors.push(i);
            }
        }
    }
    let have = registers.map_or(Registers::of(target, units, warps).entry, |r| r[1]);
    // Products that end a step later, as far as registers hold what two steps have in flight.
    let alone = parts.is_none() && columns.is_none() && slices == 1 && !converts_ahead;
    let may_be_late = mixed && !promoted && alone && register_a.is_empty() && transposed_b.is_empty();
    let a_in_memory = |i: Inst| {
        let a = kernel.insts[i].args[0];
        from_ring(kernel, &loads, a) || stored(i, a) || brought.iter().any(|b| b.value == a)
    };
    let filled = staged_operands.iter().filter(|s| s.moves).map(|s| s.uses.iter().map(|u| u.product).collect()).collect();
    let operands = Operands { staged: filled, a_in_memory: &a_in_memory };
    let mut late = if may_be_late && options.overlap.is_none() && !at_most_once(kernel, main) {
        late(kernel, region, written, &computed, operands)
    } else {
        None
    };
    let mut held = if mixed && !promoted && parts.is_none() { most_held(&brought) } else { 0 };
    if let Some(all) = late.take()
        && let Ok((order, _)) = late_order(kernel, region, written, &computed, &all)
        && let most = held_in(&brought, &order, Some(&all))
        && most + BESIDE_ACCUMULATORS <= have
    {
        (held, late) = (most, Some(all));
    }
    let computed = |i: Inst| computed(i) && !vectors.contains(&i) && lane_tiles.iter().all(|l| l.0 != i);
    // What else a step loads is loaded a step ahead, as far as registers hold it beside what the step before looks at.
    let mut prefetched = Vec::new();
    if mixed && !promoted && parts.is_none() {
        let all = prefetches(kernel, region, written, &computed, lanes);
        held += BESIDE_ACCUMULATORS;
        for p in all {
            if held + 2 * p.registers <= have {
                held += 2 * p.registers;
                prefetched.push(p.load);
            }
        }
    }
    // Where products run meanwhile, registers are full but for numbers and parts of short tiles.
    if parts.is_some() {
        let mut left = BESIDE_OVERLAP;
        for p in prefetches(kernel, region, written, &computed, lanes) {
            if p.registers <= left {
                left -= p.registers;
                prefetched.push(p.load);
            }
        }
    }
    let columns = columns.filter(|_| vectors.is_empty() && prefetched.is_empty());
    // Tiles that stand behind the loop come through its ring, where every step of it is one of copies by units, and every task takes every step.
    let units_alone = by_lanes.is_empty() && vectors.is_empty() && transposed_b.is_empty();
    let in_turn = sole && around.is_empty() && slices == 1 && columns.is_none() && parts.is_none() && late.is_none() && !converts_ahead;
    let mut epilogue = Epilogue::default();
    if units_alone && in_turn {
        // Sets in ping-pong have more numbers to keep.
        let beside = matrices_behind(kernel, main, lanes);
        let held = beside > 0 && last_registers + beside + consumer_sets * BESIDE_ACCUMULATORS > have;
        let (operands, again) = epilogue_operands(kernel, units, (main, held), written, &loads);
        replay.add(again);
        epilogue = operands;
    }
    Ok(Specialised {
        consumers,
        consumer_sets,
        slices,
        converts_ahead,
        depth,
        in_flight,
        registers,
        persistent,
        stage_bytes,
        ring_bytes: shared.saturating_sub(staging_bytes + beside),
        staging_bytes,
        staging_parts,
        staging_shared,
        results_over,
        mixed,
        overlap: parts,
        late,
        main,
        around,
        replay,
        carried,
        before: Vec::new(),
        masked,
        loads,
        by_lanes,
        dots,
        register_a,
        brought,
        staged: staged_operands,
        columns,
        updates,
        transposed_b,
        prefetched,
        lane_tiles,
        vectors,
        epilogue,
        promoted,
        stores,
        share: shared,
    })
}

/// Bytes of shared memory of a program of so many warps whose lanes need so many registers: those of as many programs of a multiprocessor as registers are
/// there for, and `suffices` says that memory is; all of it for one.
fn share_of_programs(target: &Target, units: &Units, warps: u32, need: u32, suffices: &dyn Fn(u32) -> bool) -> u32 {
    let registers = |programs: u32| units.registers.total / (warps * target.lanes * programs) / 8 * 8;
    let bytes = |programs: u32| target.shared_bytes / programs - BYTES_OF_PROGRAM;
    let share = (2..=MOST_PROGRAMS).rev().filter(|&n| need <= registers(n)).map(bytes).find(|&b| suffices(b));
    share.unwrap_or(target.shared_bytes)
}

/// True where an instance runs several grid positions. Positions that take long drift apart where nothing deals them out, and no longer share what is in
/// the cache; tiles that tasks need are computed in front of them, for one position.
fn persistent_positions(kernel: &Kernel, options: &LowerOptions, mixed: bool, replay: &Replay, around: &[Inst]) -> bool {
    let repeated = around.iter().any(|&i| kernel.insts[i].op == Op::For);
    options.persistent.unwrap_or(!mixed && !replay.tiles && !repeated)
}
