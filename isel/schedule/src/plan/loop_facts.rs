//! What is known of a loop however its consumers are chosen, so that it is found once for all choices.

use super::contents::{Contents, contents};
use super::copied::{copied, sole_views};
use super::live::{computed_carried, live};
use super::masked::is_masked;
use super::no_loop::uncounted;
use super::products::{accumulates, multiplication, unstaged};
use super::replay::{Replay, around};
use super::ring_layouts::RingLayouts;
use super::staged::{from_ring, in_rows};
use super::sums::sums;
use super::tensor_boxes::SwizzledTile;
use super::views::trace;
use crate::access::GlobalAccess;
use crate::named::Named;
use crate::reason::{CopyLimit, NoBulkCopy, NoProduct, NotSpecialised};
use cranelift_entity::SecondaryMap;
use std::collections::BTreeSet;
use tilelift_ir::{Attr, Inst, Kernel, Op, Precision, Value};
use tilelift_lane::hash::Set;
use tilelift_lane::{GroupMatrixId, Target, Units};

/// What is known of a loop.
#[derive(Clone)]
pub(super) struct LoopFacts {
    /// The control around it, outermost first.
    pub around: Vec<Inst>,
    /// The instructions of its body that the consumers do.
    pub live: BTreeSet<Inst>,
    /// Loads and gathers that the ring brings, in program order.
    pub loads: Vec<(Inst, SwizzledTile)>,
    /// Those of them of which a mask leaves something out.
    pub masked: Vec<Inst>,
    /// Those of them that the producer's lanes copy.
    pub by_lanes: Vec<Inst>,
    /// Pieces that each lane copies in a step.
    pub pieces: u32,
    /// Products and their matrix instructions.
    pub dots: Vec<(Inst, GroupMatrixId)>,
    /// Of products into one accumulator the last one.
    pub last: Vec<Inst>,
    /// The loop does more than multiply and add up.
    pub mixed: bool,
    /// What the producer computes again.
    pub replay: Replay,
    /// The values that consumers carry, by number.
    pub carried: Vec<usize>,
    /// Products that take operand A from registers, which fetch it from the ring.
    pub register_a: Vec<Inst>,
    /// Products whose operand B is transposed on its way, and how it lies then.
    pub transposed_b: Vec<(Inst, SwizzledTile)>,
}

/// Looks at a loop of which these loads come by the ring.
///
/// # Errors
/// Why no consumers can take it.
pub(super) fn loop_facts(
    kernel: &Kernel,
    target: &Target,
    units: &Units,
    ring_layouts: &RingLayouts,
    (staged, written): (&SecondaryMap<Inst, bool>, &Set<Value>),
    main: Inst,
) -> Result<LoopFacts, NotSpecialised> {
    let around = around(kernel, main);
    if let Some(&i) = around.iter().find(|&&i| !matches!(kernel.insts[i].op, Op::For | Op::If)) {
        return Err(uncounted(kernel, i).unwrap_or(NotSpecialised::Inside { op: kernel.insts[i].op }));
    }
    let region = kernel.insts[main].regions[0];
    let body = &kernel.regions[region].insts;
    let live = live(kernel, region, &|i| staged[i], &[]);
    let Contents { mut loads, by_lanes, pieces, dots, mut mixed } =
        contents(kernel, target, units, ring_layouts, (staged, written), (body, &live))?;
    sole_views(kernel, &loads, written)?;
    // Of a chain of products into one accumulator the last one is looked at.
    let feeds = |i: Inst| dots.iter().any(|&j| kernel.insts[j].args[2] == kernel.insts[i].results[0]);
    let last: Vec<Inst> = dots.iter().copied().filter(|&i| !feeds(i)).collect();
    let replay = copied(kernel, (main, &around), written, &loads)?;
    // The consumers don't carry what only says where copies come from.
    let carried = computed_carried(kernel, main, &replay, &|i| staged[i]);
    // So it is where products have to be waited for one by one, or take an operand A that lanes hold.
    let a_in_ring = |i: Inst| from_ring(kernel, &loads, kernel.insts[i].args[0]);
    let b_in_ring = |i: Inst| from_ring(kernel, &loads, kernel.insts[i].args[1]);
    mixed |= carried.len() != last.len() || dots.iter().any(|&i| !accumulates(kernel, region, i) || !a_in_ring(i) || !b_in_ring(i));
    // A loop that takes the ring beside others may have none.
    if !dots.is_empty() {
        sums(kernel, region, &dots)?;
    }
    let (mut register_a, mut transposed_b, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for i in dots {
        if let Some(why) = better_ahead(kernel, units, written, (body, &loads), i) {
            return Err(why);
        }
        let by = multiplication(kernel, units, i, &mut loads, &by_lanes, ring_layouts).map_err(|why| unstaged(kernel, i, staged, why))?;
        found.push((i, by.row));
        register_a.extend(by.through.then_some(i));
        if by.transposed {
            let b = kernel.ty(kernel.insts[i].args[1]).as_tile();
            let tile = b.and_then(|t| SwizzledTile::filled([t.shape[1], t.shape[0]], t.elem, units, u32::MAX));
            transposed_b.push((i, tile.ok_or(NoProduct::AlongK { elem: kernel.ty(kernel.insts[i].args[1]).elem(), through: false })?));
        }
    }
    // Who transposes operands waits until products have read the ones before.
    mixed |= !transposed_b.is_empty();
    let masked: Vec<Inst> = loads.iter().map(|l| l.0).filter(|&i| is_masked(kernel, i)).collect();
    if !masked.is_empty() && !transposed_b.is_empty() {
        // It would find what the mask leaves out.
        return Err(NotSpecialised::Copy(NoBulkCopy {
            view: Named::of(kernel, kernel.insts[masked[0]].args[0]),
            limit: CopyLimit::Masked,
        }));
    }
    Ok(LoopFacts { around, live, loads, masked, by_lanes, pieces, dots: found, last, mixed, replay, carried, register_a, transposed_b })
}

/// Why no ring brings an operand of tf32 that a step loads and does not hold in registers: lanes would wait for it and store it for the unit, where those of a
/// pipelined loop copy words ahead, wherever they lie.
fn better_ahead(
    kernel: &Kernel,
    units: &Units,
    written: &Set<Value>,
    (body, loads): (&[Inst], &[(Inst, SwizzledTile)]),
    dot: Inst,
) -> Option<NotSpecialised> {
    let d = &kernel.insts[dot];
    let plain = |j: Inst| kernel.insts[j].op == Op::Load && body.contains(&j) && loads.iter().all(|l| l.0 != j);
    let along = |j: Inst| if plain(j) { GlobalAccess::of(kernel, j).contiguous() } else { None };
    let rounds = d.attrs.first() == Some(&Attr::Precision(Precision::Tf32));
    let mut stored = [1, 0].into_iter().filter(|&n| rounds && (n == 1 || !in_rows(kernel, d.args[0])));
    let (load, _) = stored.find_map(|n| trace(kernel, d.args[n], &along))?;
    let view = kernel.insts[load].args[0];
    if written.contains(&view) {
        return Some(NotSpecialised::Stored { view: Named::of(kernel, view) });
    }
    let shape = kernel.ty(kernel.insts[load].results[0]).shape()?;
    SwizzledTile::of(kernel, load, shape, units, None).err().map(NotSpecialised::from)
}
