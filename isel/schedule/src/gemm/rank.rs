//! The choices that are considered, and their order by the model.

use super::clusters::{Clusters, Pair};
use super::model::{Prediction, predict, staging};
use super::product::{Choice, Order, Product, instruction};
use super::rows::Travel;
use super::stream_k::{self, LEAST_STEPS, StreamK};
use crate::plan::{ALIGN, Held, MAX_DEPTH, budget};
use tilelift_decisions::{Decision, Told, taken};
use tilelift_lane::Target;

/// A choice and what the model says of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ranked {
    /// The choice.
    pub choice: Choice,
    /// Its time and what makes it up.
    pub prediction: Prediction,
}

/// Rows of tiles that are considered.
const ROWS: [u32; 4] = [64, 128, 192, 256];
/// Columns of tiles that are considered.
const COLUMNS: [u32; 10] = [32, 64, 96, 112, 128, 160, 176, 192, 224, 256];
/// Depths of a step in bytes: one swizzle width, two, four.
const DEPTHS: [u32; 3] = [128, 256, 512];
/// Most tile rows per group of the order; of those that make no difference, the first.
const GROUPS: [u32; 5] = [8, 16, 4, 32, 1];
/// Parts of the depth.
const SPLITS: [u32; 7] = [1, 2, 3, 4, 6, 8, 16];
/// Rows of C below which the operands may be multiplied the other way round.
const FEW_ROWS: u32 = 128;
/// The largest tile: what each of its bytes in shared memory is used for is most.
const TALLEST: [u32; 2] = [192, 256];
/// The narrowest swizzle width that is considered, in bytes.
const NARROWEST: u32 = 64;

/// Accumulators of a lane beside which the lanes of the producer have registers for copies, and pieces of an operand that each copies in a step.
const MOST_HELD: u32 = 128;
const MOST_PIECES: u32 = 32;

/// What dealing out steps must gain, and equal parts of the depth, which the model knows less well, and clusters: less is within what it does not know.
const WORTH: [f64; 3] = [1.01, 1.03, 1.02];

/// Everything that the planner would specialise, for a product on a target: none if it has no units, none for these types, or rows that
/// neither bulk copies nor asynchronous copies by lanes take. A product with an extent of 0 is no work, and has none.
pub fn candidates(target: &Target, product: &Product) -> Vec<Choice> {
    let (Some(units), Some(rates)) = (&target.units, &target.rates) else { return Vec::new() };
    let Some((row, order)) = instruction(units, product) else { return Vec::new() };
    if product.is_empty() {
        return Vec::new();
    }
    let [m, n, k] = product.shape;
    let (size, out) = (product.elem.bytes(), product.out.bytes());
    let [Some(a), Some(b)] = [0, 1].map(|operand| Travel::of(target, units, product, operand)) else { return Vec::new() };
    let by_lanes = [a, b].iter().any(Travel::by_lanes);
    // Lanes round what goes through registers, and nobody rounds the other operand where they copy it.
    if by_lanes && order != Order::AsTheyAre {
        return Vec::new();
    }
    // Results leave in bulk where bulk copies take their rows.
    let in_bulk = (u64::from(n) * u64::from(out)).is_multiple_of(u64::from(units.bulk.align));
    let mut list = Vec::new();
    let mut push = |tile: [u32; 3], consumer_sets: u32, swapped: bool| {
        let [bm, bn, bk] = tile;
        let [rows, columns] = if swapped { [bn, bm] } else { [bm, bn] };
        let consumers = if consumer_sets == 1 && rows.is_multiple_of(2 * row.m) { 2 } else { 1 };
        let accumulator = bm * bn / (consumers * units.group_warps * target.lanes);
        let operand_a = rows * bk / (consumers * units.group_warps * target.lanes);
        let held = match order {
            _ if row.promotion_depth.is_some() => 2 * accumulator,
            Order::AsTheyAre => accumulator,
            Order::ThroughRegisters | Order::Exchanged => accumulator + operand_a,
        };
        let whole = rows.is_multiple_of(row.m) && columns.is_multiple_of(row.n_step) && columns <= row.n_max;
        // Results leave in swizzles of 64 bytes at least: narrower ones are not measured.
        let whole = whole && (swapped || (columns * out).is_multiple_of(NARROWEST));
        let fits = whole && row.promotion_depth.is_none_or(|most| bk <= most);
        // Operands that do not run along K come in swizzles of 128 bytes.
        let across = (!product.trans.0 || (bm * size).is_multiple_of(128)) && (product.trans.1 || (bn * size).is_multiple_of(128));
        // Accumulators that lanes add to leave nothing to ping-pong for.
        let ping_pongs = consumer_sets == 1 || row.promotion_depth.is_none();
        // Lanes that copy take registers, and the time of one tile after the other.
        let copied = !by_lanes
            || consumer_sets == 1 && held <= MOST_HELD && [(a, bm), (b, bn)].iter().all(|(t, e)| t.pieces(e * bk * size) <= MOST_PIECES);
        if !fits
            || !across
            || !ping_pongs
            || !copied
            || budget(target, units, [consumer_sets * consumers, 0], Held::summed(held, 0)).is_err()
        {
            return;
        }
        let stage = (bm + bn) * bk * size;
        let slots = |staging: u32| (target.shared_bytes.saturating_sub(staging + ALIGN) / stage).min(MAX_DEPTH);
        let plain = Choice { tile, consumers, consumer_sets, swapped, stages: 0, group: 1, splits: 1, stream_k: None, clusters: None };
        let staging = staging(target, row, product, &plain);
        if slots(staging) < 2 {
            return;
        }
        let tiles = product.tiles([bm, bn]);
        // Groups of about as many rows each: a last one of few rows fetches columns for little.
        let rows = m.div_ceil(bm);
        let mut groups: Vec<u32> = Vec::new();
        for g in GROUPS.map(|g| rows.div_ceil(rows.div_ceil(g.min(rows)))) {
            if !groups.contains(&g) {
                groups.push(g);
            }
        }
        let mut add = |group: u32, splits: u32, stream_k: Option<StreamK>, clusters: Option<Clusters>| {
            let c = Choice { group, splits, stream_k, clusters, ..plain };
            list.push(Choice { stages: slots(if c.only_partial_sums() { 0 } else { staging }), ..c });
        };
        // Tiles for which the operands are exchanged for the sake of registers leave by lanes, column by column: as partial sums only.
        let for_parts = swapped && m > FEW_ROWS && order != Order::Exchanged;
        for splits in SPLITS.into_iter().filter(|_| !for_parts) {
            let steps = k.div_ceil(bk).div_ceil(splits);
            // More parts than make up for idle multiprocessors only add partial sums.
            if splits > 1
                && (product.batch > 1
                    || consumer_sets > 1
                    || steps < LEAST_STEPS
                    || tiles.saturating_mul(u64::from(splits - 1)) >= 2 * u64::from(rates.multiprocessors))
            {
                break;
            }
            groups.iter().for_each(|&group| add(group, splits, None, None));
        }
        // Clusters take pairs of tiles that are whole operands of theirs.
        let shared = rates.both.is_some()
            && rates.multiprocessors > 1
            && product.batch == 1
            && consumer_sets == 1
            && !swapped
            && !by_lanes
            && in_bulk
            && size == 2
            && out == 2;
        let own = bm / consumers;
        if shared && row.any_order && own.is_multiple_of(row.m) && (!product.trans.0 || (own * size).is_multiple_of(128)) {
            for (pair, wide, half) in [(Pair::Rows, m > bm, bn), (Pair::Columns, n > bn, bm)] {
                if wide && half.is_multiple_of(16) {
                    let clusters = Some(Clusters { workers: rates.multiprocessors / 2 * 2, pair });
                    groups.iter().for_each(|&group| add(group, 1, None, clusters));
                }
            }
        }
        // Segments have as many steps as each has, and consumer sets pass over one another's by their number.
        if product.batch == 1 && consumer_sets == 1 {
            for &group in &groups {
                let mut push = |s: StreamK| {
                    if !(s.rest && for_parts) {
                        add(group, 1, Some(s), None);
                    }
                };
                stream_k::candidates(tiles, k.div_ceil(bk), rates.multiprocessors, group, &mut push);
            }
        }
    };
    for bm in ROWS {
        for bn in COLUMNS {
            // A tile that is mostly padding is never best.
            if (bm > row.m && bm / 2 >= m) || bn / 2 >= n.max(32) {
                continue;
            }
            for depth in DEPTHS {
                // Deep steps are for narrow tiles, whose copies would be small; those of lanes are as small in any step.
                if depth == DEPTHS[0] || !by_lanes && bm * bn <= 64 * 128 {
                    push([bm, bn, depth / size], 1, order == Order::Exchanged);
                    if order == Order::AsTheyAre {
                        push([bm, bn, depth / size], 2, false);
                    }
                }
            }
        }
    }
    // The largest tile whose accumulators two groups hold, 128 rows of the exchanged product and 192 columns each.
    if m > FEW_ROWS && m > TALLEST[0] / 2 && product.batch == 1 && order == Order::AsTheyAre {
        push([TALLEST[0], TALLEST[1], DEPTHS[0] / size], 1, true);
    }
    // Few rows: the other way round none of the instruction's are wasted.
    if m <= FEW_ROWS && product.batch == 1 && order == Order::AsTheyAre {
        for bm in [16, 32, 64, 128].into_iter().filter(|&bm| bm < 2 * m.max(16)) {
            // The widest ones are measured for 16 and 32 rows, none of which lie outside.
            let widest = if m <= 32 && m.is_multiple_of(bm) { 256 } else { 128 };
            for bn in [64, 128, 256].into_iter().filter(|&bn| bn <= widest) {
                for depth in DEPTHS.into_iter().filter(|&d| d == DEPTHS[0] || !by_lanes) {
                    push([bm, bn, depth / size], 1, true);
                }
            }
        }
    }
    list
}

/// What copies by lanes may take of that at most: both times are rough.
const LANES_WORTH: f64 = 0.75;

/// The time of a product that runs pipelined with the kernel's own tile, in microseconds.
fn pipelined(target: &Target, product: &Product) -> Option<f64> {
    const TILE: u32 = 128;
    let rates = target.rates.as_ref()?;
    let rounds = product.tiles([TILE; 2]).div_ceil(u64::from(rates.multiprocessors.max(1)));
    let each = f64::from(TILE * TILE) * f64::from(product.shape[2]) * f64::from(product.elem.bytes()) / 2.0;
    Some(rates.launch[0] + rounds as f64 * each / (rates.pipelined * rates.clock))
}

/// The choices for a product by predicted time, best first; of those that differ in their order alone, the best one. Where lanes copy, none that takes
/// longer than the product would pipelined.
pub fn rank(target: &Target, product: &Product) -> Vec<Ranked> {
    let mut list: Vec<Ranked> = candidates(target, product)
        .into_iter()
        .filter_map(|choice| Some(Ranked { choice, prediction: predict(target, product, &choice)? }))
        .collect();
    // Piece by piece may be the longer way.
    let by_lanes =
        target.units.as_ref().is_some_and(|u| [0, 1].iter().any(|&o| Travel::of(target, u, product, o).is_some_and(|t| t.by_lanes())));
    if let Some(limit) = pipelined(target, product).filter(|_| by_lanes) {
        list.retain(|r| r.prediction.total() <= LANES_WORTH * limit);
    }
    let worth = |c: &Choice| match c.stream_k {
        Some(_) => WORTH[0],
        None if c.splits > 1 => WORTH[1],
        None if c.clusters.is_some() => WORTH[2],
        None => 1.0,
    };
    let promised = |r: &Ranked| r.prediction.total() * worth(&r.choice);
    list.sort_by(|a, b| promised(a).total_cmp(&promised(b)));
    let mut seen = Vec::new();
    list.retain(|r| {
        let what =
            (r.choice.tile, r.choice.swapped, r.choice.consumer_sets, r.choice.splits, r.choice.stream_k.is_some(), r.choice.clusters);
        let new = !seen.contains(&what);
        seen.push(what);
        new
    });
    told(&list);
    list
}

/// Tells which choice is first, and which would have been.
fn told(list: &[Ranked]) {
    let nanoseconds = |r: &Ranked| (r.prediction.total() * 1e3) as u64;
    let tell = |decision: Decision, what: &dyn Fn(&Choice) -> String| {
        taken(decision, || {
            let Some(first) = list.first() else { return Told::of("none: pipelined") };
            let chosen = what(&first.choice);
            let next = list.iter().find(|r| what(&r.choice) != chosen);
            let told = Told::at(&chosen, nanoseconds(first));
            next.map_or(told.clone(), |n| told.before(what(&n.choice), Some(nanoseconds(n))))
        });
    };
    tell(Decision::ProductTile, &|c| {
        let ([m, n, k], swapped) = (c.tile, if c.swapped { ", exchanged" } else { "" });
        format!("{m}x{n}x{k}, {} stages, {} x {} consumers, groups of {}{swapped}", c.stages, c.consumer_sets, c.consumers, c.group)
    });
    tell(Decision::DepthSplit, &|c| match &c.stream_k {
        Some(s) => format!("stream-K {s}"),
        None => format!("{} parts", c.splits),
    });
    tell(Decision::Cluster, &|c| c.clusters.map_or("no clusters".to_owned(), |c| format!("clusters {c}")));
}
