//! Which tile, ring and order a product of matrices should run with, by a model of the machine: no product is ever looked up.
//!
//! ```text
//! Product ── candidates(target): what the planner would specialise ─► predict(…): time by what bounds it ─► rank(…): best first
//! ```
//!
//! An engine asks [`rank`] for a product's shape and builds the kernel with the first answer, or times the first few and keeps the best.

mod model;
mod stream_k;

pub use model::{Bound, Prediction, predict};
pub use stream_k::Streams;

use crate::plan::{ALIGN, MAX_DEPTH, budget};
use std::fmt;
use tilelift_ir::{Precision, Scalar};
use tilelift_lane::{GroupMatrix, Target, Units};

/// Products of matrices, `C[M, N] = A[M, K] B[K, N]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Product {
    /// How many, each with operands of its own.
    pub batch: u32,
    /// Rows of C, columns of C, depth.
    pub shape: [u32; 3],
    /// Element type of A and B.
    pub elem: Scalar,
    /// Element type of C.
    pub out: Scalar,
    /// Whether A is stored `KxM`, and B `NxK`.
    pub trans: (bool, bool),
}

/// How a product runs on a machine with units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Choice {
    /// Rows and columns of a tile, depth of a step.
    pub tile: [u32; 3],
    /// Warpgroups that share a tile.
    pub consumers: u32,
    /// Consumer sets of so many groups; two take tiles in ping-pong.
    pub consumer_sets: u32,
    /// The operands are multiplied the other way round, so that columns of C are the instruction's rows.
    pub swapped: bool,
    /// Slots of the ring.
    pub stages: u32,
    /// Tile rows per group of the order.
    pub group: u32,
    /// Parts of the depth, each summed by a program of its own.
    pub splits: u32,
    /// Steps of the depth are dealt out, as many to each worker, instead of tiles or equal parts of them.
    pub streams: Option<Streams>,
}

impl Choice {
    /// A second launch adds up what the first one left in a workspace.
    pub fn sums_apart(&self) -> bool {
        self.splits > 1 || self.streams.is_some()
    }

    /// All that the first launch leaves are sums in a workspace: its ring needs no room for results.
    fn only_sums(&self) -> bool {
        self.splits > 1 || self.streams.is_some_and(|s| !s.rest)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.tile;
        write!(f, "{m}x{n}x{k}{} c{} s{} g{}", if self.swapped { " swapped" } else { "" }, self.consumers, self.stages, self.group)?;
        if self.consumer_sets > 1 {
            write!(f, " t{}", self.consumer_sets)?;
        }
        if self.splits > 1 {
            write!(f, " k{}", self.splits)?;
        }
        self.streams.map_or(Ok(()), |s| write!(f, " d{s}"))
    }
}

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
/// Depths of a step in bytes: one panel, two, four.
const DEPTHS: [u32; 3] = [128, 256, 512];
/// Most tile rows per group of the order; of those that make no difference, the first.
const GROUPS: [u32; 5] = [8, 16, 4, 32, 1];
/// Parts of the depth.
const SPLITS: [u32; 7] = [1, 2, 3, 4, 6, 8, 16];
/// Rows of C below which the operands may be multiplied the other way round.
const FEW_ROWS: u32 = 128;
/// The largest tile: what each of its bytes in shared memory is used for is most.
const TALLEST: [u32; 2] = [192, 256];
/// Bytes across of the narrowest panels that are considered.
const NARROWEST: u32 = 64;
/// Steps that a part of the depth must have to be worth its sums.
const LEAST_STEPS: u32 = 4;

/// What dealing out steps must gain, and equal parts of the depth, which the model knows less well: less is within what it does not know.
const WORTH: [f64; 2] = [1.01, 1.03];

/// The instruction that multiplies a product's operands.
pub fn instruction<'t>(units: &'t Units, product: &Product) -> Option<&'t GroupMatrix> {
    let along_k = !product.trans.0 && product.trans.1;
    let precision = if product.elem == Scalar::F32 { Precision::Tf32 } else { Precision::Exact };
    units.matrix.iter().find(|r| r.operand == product.elem && r.precision == precision && (r.any_order || along_k))
}

/// Everything that the planner would specialise, for a product on a target: none if it has no units, none for these types, or rows that
/// bulk copies do not take.
pub fn candidates(target: &Target, product: &Product) -> Vec<Choice> {
    let (Some(units), Some(machine)) = (&target.units, &target.machine) else { return Vec::new() };
    let Some(row) = instruction(units, product) else { return Vec::new() };
    let [m, n, k] = product.shape;
    let (size, out) = (product.elem.bytes(), product.out.bytes());
    // Bulk copies take rows that are so many bytes apart.
    let aligned = |row: u32| (u64::from(row) * u64::from(size)).is_multiple_of(u64::from(units.bulk.align));
    if !aligned(if product.trans.0 { m } else { k }) || !aligned(if product.trans.1 { k } else { n }) {
        return Vec::new();
    }
    let mut list = Vec::new();
    let mut push = |tile: [u32; 3], consumer_sets: u32, swapped: bool| {
        let [bm, bn, bk] = tile;
        let [rows, columns] = if swapped { [bn, bm] } else { [bm, bn] };
        let consumers = if consumer_sets == 1 && rows.is_multiple_of(2 * row.m) { 2 } else { 1 };
        let sums = bm * bn / (consumers * units.group_warps * target.lanes);
        let held = if row.kept_depth.is_some() { 2 * sums } else { sums };
        let whole = rows.is_multiple_of(row.m) && columns.is_multiple_of(row.n_step) && columns <= row.n_max;
        // Results leave in panels of 64 bytes across at least: narrower ones are not measured.
        let whole = whole && (swapped || (columns * out).is_multiple_of(NARROWEST));
        let fits = whole && row.kept_depth.is_none_or(|most| bk <= most);
        // Operands that do not run along K come in panels of 128 bytes across.
        let across = (!product.trans.0 || (bm * size).is_multiple_of(128)) && (product.trans.1 || (bn * size).is_multiple_of(128));
        // Sums that lanes add leave nothing to take turns for.
        let takes_turns = consumer_sets == 1 || row.kept_depth.is_none();
        if !fits || !across || !takes_turns || budget(target, units, consumer_sets * consumers, [held, 0]).is_err() {
            return;
        }
        let stage = (bm + bn) * bk * size;
        let room = |staging: u32| target.shared_bytes.saturating_sub(staging + ALIGN) / stage;
        let slots = |staging: u32| if room(staging) < 2 { room(0) } else { room(staging) }.min(MAX_DEPTH);
        // Consumer sets let the rows of one instruction leave at a time.
        let leaving = if consumer_sets > 1 { consumer_sets * row.m * consumers } else { rows };
        let staging = if out == 2 && (!swapped || bm == bn) { leaving * columns * out } else { 0 };
        if slots(staging) < 2 {
            return;
        }
        let tiles = u64::from(product.batch) * u64::from(m.div_ceil(bm)) * u64::from(n.div_ceil(bn));
        // Groups of about as many rows each: a last one of few rows fetches columns for little.
        let rows = m.div_ceil(bm);
        let mut groups: Vec<u32> = Vec::new();
        for g in GROUPS.map(|g| rows.div_ceil(rows.div_ceil(g.min(rows)))) {
            if !groups.contains(&g) {
                groups.push(g);
            }
        }
        let mut add = |group: u32, splits: u32, streams: Option<Streams>| {
            let c = Choice { tile, consumers, consumer_sets, swapped, stages: 0, group, splits, streams };
            list.push(Choice { stages: slots(if c.only_sums() { 0 } else { staging }), ..c });
        };
        // Tiles for which the operands are exchanged for the sake of registers leave by lanes, column by column: as sums only.
        let for_sums = swapped && m > FEW_ROWS;
        for splits in SPLITS.into_iter().filter(|_| !for_sums) {
            let steps = k.div_ceil(bk).div_ceil(splits);
            // More parts than make up for idle multiprocessors only add sums.
            if splits > 1
                && (product.batch > 1
                    || consumer_sets > 1
                    || steps < LEAST_STEPS
                    || tiles * u64::from(splits - 1) >= 2 * u64::from(machine.multiprocessors))
            {
                break;
            }
            groups.iter().for_each(|&group| add(group, splits, None));
        }
        // Segments have as many steps as each has, and consumer sets pass over one another's by their number.
        if product.batch == 1 && consumer_sets == 1 {
            for &group in &groups {
                let mut push = |s: Streams| {
                    if !(s.rest && for_sums) {
                        add(group, 1, Some(s));
                    }
                };
                stream_k::candidates(tiles, k.div_ceil(bk), machine.multiprocessors, group, &mut push);
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
                // Deep steps are for narrow tiles, whose copies would be small.
                if depth == DEPTHS[0] || bm * bn <= 64 * 128 {
                    push([bm, bn, depth / size], 1, false);
                    push([bm, bn, depth / size], 2, false);
                }
            }
        }
    }
    // The largest tile whose sums two groups hold, 128 rows of the exchanged product and 192 columns each.
    if m > FEW_ROWS && m > TALLEST[0] / 2 && product.batch == 1 {
        push([TALLEST[0], TALLEST[1], DEPTHS[0] / size], 1, true);
    }
    // Few rows: the other way round none of the instruction's are wasted.
    if m <= FEW_ROWS && product.batch == 1 {
        for bm in [16, 32, 64, 128].into_iter().filter(|&bm| bm < 2 * m.max(16)) {
            for bn in [64, 128] {
                for depth in DEPTHS {
                    push([bm, bn, depth / size], 1, true);
                }
            }
        }
    }
    list
}

/// The choices for a product by predicted time, best first; of those that differ in their order alone, the best one.
pub fn rank(target: &Target, product: &Product) -> Vec<Ranked> {
    let mut list: Vec<Ranked> = candidates(target, product)
        .into_iter()
        .filter_map(|choice| Some(Ranked { choice, prediction: predict(target, product, &choice)? }))
        .collect();
    let worth = |c: &Choice| match c.streams {
        Some(_) => WORTH[0],
        None if c.splits > 1 => WORTH[1],
        None => 1.0,
    };
    let promised = |r: &Ranked| r.prediction.total() * worth(&r.choice);
    list.sort_by(|a, b| promised(a).total_cmp(&promised(b)));
    let mut seen = Vec::new();
    list.retain(|r| {
        let what = (r.choice.tile, r.choice.swapped, r.choice.consumer_sets, r.choice.splits, r.choice.streams.is_some());
        let new = !seen.contains(&what);
        seen.push(what);
        new
    });
    list
}
