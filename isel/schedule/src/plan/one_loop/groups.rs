//! How many groups of warps share a step, and in how many sets.

use super::asked::Asked;
use super::sharing::Sharing;
use crate::plan::columns::{ColumnTasks, column_tasks};
use crate::plan::copied::in_ring;
use crate::plan::lane_copies::copied_by_lanes;
use crate::plan::loads::suits;
use crate::plan::overlap::Overlap;
use crate::plan::ping_pong::can_ping_pong;
use crate::plan::products::BroughtOperand;
use crate::plan::sliced::slices;
use crate::plan::staged::StagedOperand;
use crate::plan::tensor_boxes::SwizzledTile;
use crate::plan::views::trace;
use crate::reason::NotSpecialised;
use tilelift_ir::{Inst, Value};

/// What is decided.
pub(super) struct Groups<'a> {
    pub sharing: Sharing<'a>,
    /// Groups that share a step, and sets of so many.
    pub consumers: u32,
    pub consumer_sets: u32,
    /// Sets of one group that may take steps in turns.
    pub most_slices: u32,
    /// Lanes that share a step.
    pub lanes: u32,
    /// What the ring brings, as they read it.
    pub loads: Vec<(Inst, SwizzledTile)>,
    /// What is brought in front of the loop, at least.
    pub needed: Vec<BroughtOperand>,
    /// What lanes store in each step.
    pub staged: Vec<StagedOperand>,
}

impl<'a> Groups<'a> {
    /// Also says which products run while lanes compute, and what one group computes for all.
    pub fn of(sharing: Sharing<'a>) -> Result<(Groups<'a>, Option<Overlap>, Option<ColumnTasks>), NotSpecialised> {
        let Asked { kernel, target, units, options, written, main, facts, .. } = sharing.asked;
        let mixed = facts.mixed;
        let asked = options.consumer_sets.unwrap_or(1);
        // Sets pass over one another's steps. Where positions have as many as each has, the same warpgroups share the rows of one position instead.
        let together = asked == 2 && !can_ping_pong(kernel, main);
        let consumer_sets = if together { 1 } else { asked };
        let sliced = sets_in_turns(&sharing);
        let alone = || sharing.split(1) && matches!(sharing.taken_apart(&sharing.given(1).1), Ok(Some(_)));
        let usual = match consumer_sets {
            1 if sharing.by_rows(2) => 2,
            1 if sliced > 1 => 1,
            1 if mixed && sharing.split(2) && !alone() => 2,
            _ => 1,
        };
        let consumers = match options.consumers {
            Some(each) if together && sharing.by_rows(asked * each) => asked * each,
            Some(consumers) => consumers,
            None => usual,
        };
        let most_slices = if consumers == 1 && !sharing.by_rows(2) { sliced } else { 1 };
        let shared = if mixed { sharing.split(consumers) } else { sharing.by_rows(consumers) && sharing.split(1) };
        if consumers == 0 || !shared {
            return Err(no_shares(&sharing, consumers));
        }
        suits(kernel, main, consumers * units.group_warps)?;
        let loads = narrow(&sharing, consumers)?;
        let lanes = consumers * units.group_warps * target.lanes;
        let (needed, staged) = sharing.given(consumers);
        let parts = match (sharing.taken_apart(&staged), options.overlap) {
            (Err(why), Some(true)) => return Err(NotSpecialised::Overlap { why }),
            (parts, _) => parts.unwrap_or(None),
        };
        // One group may compute what all would, and the others go on with what it hands over.
        let may_hand_over = facts.masked.is_empty()
            && consumers == sharing.several
            && consumer_sets == 1
            && !sharing.repeated
            && !sharing.promoted
            && options.overlap != Some(true);
        let all_held =
            staged.is_empty() && facts.register_a.is_empty() && facts.transposed_b.is_empty() && !sharing.copied.readers.is_empty();
        let columns = match may_hand_over && all_held {
            true => column_tasks(kernel, units, main, &sharing.copied, consumers, &|v| written.contains(&v)),
            false => None,
        };
        whole_atoms(&sharing, &loads, consumers)?;
        match consumer_sets {
            1 => {}
            2 if mixed || sharing.promoted => return Err(NotSpecialised::PingPongComputes),
            2 if !sharing.persistent => return Err(NotSpecialised::ConsumerSetsOnce),
            2 => {}
            consumer_sets => return Err(NotSpecialised::ConsumerSets { consumer_sets }),
        }
        Ok((Groups { sharing, consumers, consumer_sets, most_slices, lanes, loads, needed, staged }, parts, columns))
    }

    /// Lanes that share what is computed: of what each group computes its lanes have all.
    pub fn lanes_of(&self, i: Option<Inst>) -> u32 {
        let alone = self.consumers == self.sharing.several && i.is_some_and(|i| self.sharing.copied.made.contains(&i));
        if alone { self.lanes / self.consumers } else { self.lanes }
    }

    /// True for an operand of a product that lanes store.
    pub fn stored(&self, product: Inst, v: Value) -> bool {
        let kernel = self.sharing.asked.kernel;
        self.staged.iter().any(|s| s.uses.iter().any(|u| u.product == product && kernel.insts[product].args[u.operand] == v))
    }

    /// True for what consumers compute in a step.
    pub fn computed(&self, i: Inst) -> bool {
        self.sharing.asked.facts.live.contains(&i) && !in_ring(self.sharing.asked.kernel, &self.loads, i)
    }
}

/// So many sets of one group may take steps in turns.
fn sets_in_turns(sharing: &Sharing<'_>) -> u32 {
    let Asked { kernel, options, main, sole, facts, .. } = sharing.asked;
    let open = options.consumers.is_none() && options.consumer_sets.is_none() && options.stages.is_none();
    let plain = facts.mixed && !sharing.promoted && !sharing.repeated && facts.transposed_b.is_empty();
    if open && sole && plain && sharing.split(1) && sharing.given(1).1.is_empty() {
        return slices(kernel, main, &sharing.products()).min(options.slices.unwrap_or(u32::MAX)).max(1);
    }
    1
}

fn no_shares(sharing: &Sharing<'_>, consumers: u32) -> NotSpecialised {
    NotSpecialised::Shares { consumers, rows: sharing.accumulators[0][0], each: sharing.rows }
}

/// What the ring brings, in swizzle atoms of which each group's columns are whole ones.
fn narrow(sharing: &Sharing<'_>, consumers: u32) -> Result<Vec<(Inst, SwizzledTile)>, NotSpecialised> {
    let Asked { kernel, target, units, ring_layouts, written, facts, .. } = sharing.asked;
    let shares: Vec<(Inst, u32)> = facts.dots.iter().filter_map(|&d| sharing.share_of(d, consumers)).collect();
    let narrow = |(load, tile): &(Inst, SwizzledTile)| {
        let most = shares.iter().filter(|s| s.0 == *load).map(|s| s.1).min();
        let Some(most) = most.filter(|&most| most < tile.swizzle) else { return Ok((*load, tile.clone())) };
        let fit = units.bulk.swizzles.iter().copied().find(|&s| most.is_multiple_of(s));
        let asked = ring_layouts.swizzles.get(load).copied().or(fit).filter(|&s| most.is_multiple_of(s));
        let asked = asked.ok_or_else(|| no_shares(sharing, consumers))?;
        let narrow = match facts.by_lanes.contains(load) {
            true => copied_by_lanes(kernel, target, units, written, *load, Some(asked))?.tile,
            false => SwizzledTile::of(kernel, *load, &tile.shape, units, Some(asked))?,
        };
        Ok((*load, SwizzledTile { tf32: tile.tf32, ..narrow }))
    };
    facts.loads.iter().map(narrow).collect()
}

/// Checks that parts of the rows of operands A in registers, as the groups share them, are whole swizzle atoms, one behind the other.
fn whole_atoms(sharing: &Sharing<'_>, loads: &[(Inst, SwizzledTile)], consumers: u32) -> Result<(), NotSpecialised> {
    let Asked { kernel, facts, .. } = sharing.asked;
    let contiguous = |j: Inst| loads.iter().find(|l| l.0 == j).map(|l| l.1.contiguous());
    for &i in &facts.register_a {
        let found = trace(kernel, kernel.insts[i].args[0], &contiguous).and_then(|(l, c)| Some((&loads.iter().find(|x| x.0 == l)?.1, c)));
        if let Some((tile, 0)) = found {
            let (share, depth) = (consumers * sharing.rows, tile.rows);
            if tile.per > share || (tile.per < share && !depth.is_power_of_two()) {
                return Err(NotSpecialised::Boxes { swizzle: tile.swizzle, depth, share });
            }
        }
    }
    Ok(())
}
