//! The time of a product: waves of tiles, each bounded by the unit that is busiest, and what stands in front of and behind them.
//!
//! ```text
//! launch ─┬─ tile ─ tile ─ … ─┬─ parts       tile = steps * max(matrix unit, shared memory, group hand-over, cache) + epilogue
//!         └─ as long as memory ┘              memory = bytes of all waves at the rate that bytes in flight allow
//! ```

use super::clusters::Pair;
use super::product::{Choice, Order, Product, instruction};
use super::rows::{Requests, Travel};
use super::stream_k::{Shares, unshared};
use crate::plan::{ALIGN, WIDE_RESULTS_LEAST};
use std::fmt;
use tilelift_lane::{GroupMatrix, Target};

/// What bounds the main part of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Bound {
    /// The matrix unit.
    Matrix,
    /// Operands on their way from shared memory to the matrix unit.
    Shared,
    /// Warpgroups between their multiplications.
    HandOver,
    /// Operands from the cache that all multiprocessors share.
    Cache,
    /// Slots of the ring, which are too few for the way of the operands.
    Ring,
    /// Memory.
    Memory,
    /// Results on their way out.
    Stores,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bound::Matrix => "matrix unit",
            Bound::Shared => "shared memory",
            Bound::HandOver => "hand-over",
            Bound::Cache => "cache",
            Bound::Ring => "ring",
            Bound::Memory => "memory",
            Bound::Stores => "stores",
        })
    }
}

/// What two rounds lose where the second one is not full: who has no tile asks for nothing, and the others don't ask for all of it instead. (H200, 16x28672x4096:
/// one round of 112 tiles 66.8 us, two with 224 68.4; both matrices of a gate 68.3 and 70.8.)
const RAGGED: f64 = 0.025;

/// A predicted time; all parts in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prediction {
    /// Rounds of tiles, one per multiprocessor each.
    pub waves: u32,
    /// Share of the multiprocessors that has a tile, over all rounds.
    pub filled: f64,
    /// The launch, until the first multiplication starts.
    pub launch: f64,
    /// The main loops of all rounds.
    pub main: f64,
    /// What of the epilogues nothing hides.
    pub epilogue: f64,
    /// Partial sums of the parts of the depth.
    pub parts: f64,
    /// What bounds the main loops.
    pub bound: Bound,
}

impl Prediction {
    /// The whole time.
    pub fn total(&self) -> f64 {
        self.launch + self.main + self.epilogue + self.parts
    }
}

/// The rate of a way that carries `peak`, the first byte taking `latency`, with `inside` bytes on it at a time.
fn rate(peak: f64, latency: f64, inside: f64) -> f64 {
    1.0 / (1.0 / peak).hypot(latency / inside.max(1.0))
}

/// Predicts the time of a product. None for a target without prices (for clusters, say), types that it does not multiply by warpgroups, and rows that
/// nothing copies; nor where nothing is to be done, or a choice's numbers are no machine's.
pub fn predict(target: &Target, product: &Product, choice: &Choice) -> Option<Prediction> {
    let (units, rates) = (target.units.as_ref()?, target.rates.as_ref()?);
    if product.is_empty() || !choice.is_possible() {
        return None;
    }
    let (row, order) = instruction(units, product)?;
    let [m, n, k] = product.shape.map(f64::from);
    let [bm, bn, bk] = choice.tile.map(f64::from);
    let (size, out) = (f64::from(product.elem.bytes()), f64::from(product.out.bytes()));
    let (groups, processors) = (f64::from(choice.consumers), f64::from(rates.multiprocessors));
    let splits = f64::from(choice.splits);
    // Blocks of a cluster have a tile each, even where one of them lies outside.
    let even = |x: f64, pair: Pair| if choice.clusters.is_some_and(|c| c.pair == pair) { 2.0 * (x / 2.0).ceil() } else { x };
    let (down, across) = (even((m / bm).ceil(), Pair::Rows), even((n / bn).ceil(), Pair::Columns));
    let batch = f64::from(product.batch);
    let (tiles, depth) = (batch * down * across, (k / bk).ceil());
    let shares = match &choice.stream_k {
        Some(s) => Shares::dealt(tiles as u64, depth as u64, s),
        None => Shares::equal(tiles, depth, splits, processors),
    };
    let steps = shares.steps;
    let [dealt, segments] = shares.dealt;
    // Steps of a worker, one behind the other.
    let run = shares.rounds * steps + dealt;

    // A step of one tile.
    let (rows, columns) = if choice.swapped { (bn, bm) } else { (bm, bn) };
    let instructions = rows / f64::from(row.m) * (bk * size / 32.0);
    let matrix = instructions * columns * rates.column;
    let shared = instructions * (rates.operands[0] + columns * rates.operands[1]);
    let accumulator = bm * bn / (groups * f64::from(units.group_warps * target.lanes));
    let busy = matrix.max(shared);
    // Accumulators that lanes add to wait for their products, and so do operands in registers for the ones before; else the next ones are started in time.
    let hand_over = match order {
        _ if row.promotion_depth.is_some() => busy / groups + rates.handover + rates.drain + accumulator,
        Order::AsTheyAre => 2.0 * rates.handover,
        Order::ThroughRegisters | Order::Exchanged => {
            busy / groups + rates.handover + rates.drain + rows * bk * size / rates.bytes_per_cycle
        }
    };
    // Rows beyond the matrix are not fetched, and a cluster's block fetches half of what it shares, for both.
    let own = match choice.clusters.map(|c| c.pair) {
        Some(Pair::Rows) => [1.0, rates.both?],
        Some(Pair::Columns) => [rates.both?, 1.0],
        None => [1.0; 2],
    };
    let slots = [bm.min(m) * bk * size, bn.min(n) * bk * size];
    let bytes = slots[0] + slots[1];
    let [Some(a), Some(b)] = [0, 1].map(|operand| Travel::of(target, units, product, operand)) else { return None };
    let requests = Requests::of([a, b], slots, own).cycles(rates.row, rates.piece);
    let inside = bytes * (f64::from(choice.stages) - 1.0).max(1.0);
    // Requests of neighbours for the same meet on their way: those who have one tile at different depths ask for nothing in common.
    let band = f64::from(choice.group).min(down);
    let alone = match &choice.stream_k {
        Some(s) => unshared([bm.min(m), bn.min(n)], f64::from(s.in_flight), band),
        None if splits > 2.0 => 1.0,
        None => 1.0 - 1.0 / splits,
    };
    let [together, dealt_alone] = [if choice.stream_k.is_some() { 0.0 } else { alone }, alone]
        .map(|alone| bytes * (rates.cache[2] + (1.0 - rates.cache[2]) * alone) / rate(rates.cache[0], rates.cache[1], inside));
    let cache = if shares.rounds > 0.0 { together } else { dealt_alone };
    // Rows of boxes that lie outside.
    let outside = ((bm - m).max(0.0) + (bn - n).max(0.0)) * (bk * size / 128.0) * rates.outside;
    // A slot must be back before it is filled again.
    let back = (rates.fetch[0] + requests.max(bytes / rates.fetch[1])) / (f64::from(choice.stages) - 1.0).max(1.0);
    let bounds = [
        (matrix, Bound::Matrix),
        (shared, Bound::Shared),
        (hand_over, Bound::HandOver),
        (cache.max(outside).max(requests), Bound::Cache),
        (back, Bound::Ring),
    ];
    let (step, mut bound) = bounds.into_iter().fold((0.0, Bound::Matrix), |best, b| if b.0 > best.0 { b } else { best });

    // Who is at a depth of his own gets copies when he multiplies, and both go through shared memory.
    let through = (instructions * (f64::from(row.m) + columns) * 32.0 + bytes) / rates.bytes_per_cycle;
    // A group by itself has nobody who multiplies while it waits.
    let penalty = if choice.consumers == 1 && choice.consumer_sets == 1 { rates.single_group_penalty } else { 0.0 };
    let dealt_step = step.max(dealt_alone).max(through) + penalty;

    // A tile: its main loop, its epilogue, and the way of all its bytes through the cache.
    let main = steps * step;
    let epilogue = rates.epilogue[0] + rates.epilogue[1] * accumulator * groups;
    let [leaving, part] = [if choice.only_partial_sums() { 4.0 } else { out }, 4.0].map(|size| bm * bn * size / rates.store);
    // Two consumer sets: one's epilogue runs beside the other's main loop.
    let wide = out > 2.0 && !choice.only_partial_sums() && staging(target, row, product, choice) == 0;
    let [alone, beside] = if wide { rates.wide_by_lanes } else { [0.0; 2] };
    let mut tile = if choice.consumer_sets > 1 {
        (main + rates.handover + rates.skew * (1.0 + beside) * leaving).max((main + epilogue) / 2.0)
    } else {
        main + epilogue + alone * leaving
    };
    if steps * cache + leaving > tile {
        (tile, bound) = (steps * cache + leaving, Bound::Stores);
    }
    // Segments of tiles leave as partial sums.
    let segment = if choice.consumer_sets > 1 { rates.handover + rates.skew * part } else { epilogue };
    let cycles = shares.rounds * tile + dealt * dealt_step + segments * segment;
    // Behind the last tile nothing hides anything.
    let last = if dealt > 0.0 { part } else { leaving } + if choice.consumer_sets > 1 { epilogue } else { 0.0 };

    // Memory: what each round of tiles reads first.
    let once = batch * (m * k + n * k) * size;
    let traffic = if once <= rates.cache_bytes {
        once
    } else {
        let beside = processors / splits;
        let together = (beside / f64::from(choice.group).min(down)).min(across).max(1.0);
        let group = f64::from(choice.group).max(beside / together).min(down);
        let rounds = if choice.stream_k.is_some() { shares.rounds } else { (tiles * splits / processors).max(1.0) };
        let whole = rounds * (group * bm.min(m) + together * bn.min(n)) * k * size;
        (whole + streamed(choice, [m, n, k], &shares, down, rates.cache_bytes / size) * size).max(once)
    } + batch * m * n * out;
    let active = shares.active;
    let [total, one, latency] = rates.memory;
    let each = rate((total / active / rates.memory_clock).min(one), latency, inside);
    let second_is_ragged = choice.stream_k.is_none() && shares.rounds == 2.0 && shares.filled < 1.0;
    let ragged = if second_is_ragged { 1.0 + RAGGED } else { 1.0 };
    let memory = ragged * traffic / (each * active * rates.memory_clock) + run * outside / rates.memory_clock;

    // The more bytes a product moves in a cycle, the slower the clock that power allows.
    let filled = shares.filled;
    let operands = instructions * (f64::from(row.m) + columns) * 32.0;
    let derating = [bytes / step, operands / step, traffic / (cycles * processors)];
    let slower: f64 = rates.power_derating.iter().zip(derating).map(|(price, amount)| price * amount).sum();
    let clock = rates.clock * (1.0 + rates.idle * (1.0 - filled)) / (1.0 + slower);
    let main = shares.rounds * main + dealt * dealt_step;
    let (mut main, mut behind) = (main / clock, (cycles - main + last) / clock);
    if memory > main + behind {
        bound = Bound::Memory;
    }
    // What neither hides: copies stop where slots are full, results leave in bursts.
    let (work, p) = (main + behind, rates.overlap_exponent);
    let whole = work.max(memory) * (1.0 + (work.min(memory) / work.max(memory)).powf(p)).powf(1.0 / p);
    if memory > work {
        (main, behind) = (whole, 0.0);
    } else {
        behind += whole - work;
    }
    let parts = if choice.sums_apart() && shares.parts[0] > 0.0 {
        // Written by all, read by the kernel that adds them up, beside what both launches cost.
        let [parts, of] = shares.parts;
        let area = if choice.stream_k.is_some() { bm * bn } else { m * n / tiles };
        rates.launch[1] + area * (parts * 4.0 + of * out) / (0.6 * total)
    } else {
        0.0
    };
    let waves = (shares.rounds + dealt / steps).ceil() as u32;
    Some(Prediction { waves, filled, launch: rates.launch[0], main, epilogue: behind, parts, bound })
}

/// Bytes of shared memory through which results leave in bulk; none if lanes store them.
pub(super) fn staging(target: &Target, row: &GroupMatrix, product: &Product, choice: &Choice) -> u32 {
    let (Choice { tile: [bm, bn, bk], consumers, consumer_sets, swapped, stages, .. }, out) = (*choice, product.out.bytes());
    let Some(units) = &target.units else { return 0 };
    let [rows, columns] = if swapped { [bn, bm] } else { [bm, bn] };
    // Bulk copies take their rows; wide results are worth the room where one consumer set's leave while the other multiplies.
    let taken = (u64::from(product.shape[1]) * u64::from(out)).is_multiple_of(u64::from(units.bulk.align));
    let (worth, least) = if out > 2 { (consumer_sets > 1 && !swapped, WIDE_RESULTS_LEAST) } else { (!swapped || bm == bn, 2) };
    // Consumer sets let the rows of one instruction leave at a time.
    let bytes = |factors: [u32; 4]| factors.iter().fold(1, |all: u64, &x| all.saturating_mul(u64::from(x)));
    let leaving = if consumer_sets > 1 { [consumer_sets, row.m, consumers] } else { [rows, 1, 1] };
    let [results, slots] = [
        bytes([leaving[0], leaving[1], leaving[2], columns]).saturating_mul(u64::from(out)),
        bytes([stages.max(least), bm + bn, bk, product.elem.bytes()]),
    ];
    let fits = results.saturating_add(slots).saturating_add(u64::from(ALIGN)) <= u64::from(target.shared_bytes);
    if taken && worth && fits { results as u32 } else { 0 }
}

/// Elements of operands that come from memory for the tiles whose steps are dealt out: what stacks in flight read comes once, and so does
/// everything if the cache has room for all of it. Worker groups at the same depth drift apart: half of what they share comes again.
fn streamed(choice: &Choice, [m, n, k]: [f64; 3], shares: &Shares, down: f64, room: f64) -> f64 {
    if shares.dealt[0] == 0.0 {
        return 0.0;
    }
    let [bm, bn, bk] = choice.tile.map(f64::from);
    let [depths, stacks, in_flight] = shares.depths;
    let band = f64::from(choice.group).min(down);
    let (high, wide) = (in_flight.min(band), (in_flight / band).ceil());
    let all = (band * bm).min(m) + ((shares.parts[1] / band).ceil() * bn).min(n);
    if all * k <= room {
        return all * k;
    }
    // Stacks as high as the matrix share all its rows.
    let rows = if high >= down { high * (1.0 + stacks) / 2.0 } else { high * stacks };
    depths * (rows * bm.min(m) + stacks * wide * bn.min(n)) * shares.dealt[0] * bk
}
