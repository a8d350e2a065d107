//! Ways to run a product whose warps copy and multiply for themselves, by the target's table of costs.
//!
//! ```text
//! a step of a tile = max(products, sectors from memory, passes over shared memory)      a tile = steps * step + latency + results
//! all = launches + rounds of tiles on so many multiprocessors + sums of parts
//! ```
//!
//! The model tells tiles that fill a machine from tiles that do not; what it says of two that do is within what it does not know, and the kernel's own tile
//! goes first.

use super::candidate::Candidate;
use super::device::DeviceFacts;
use super::problem::Problem;
use super::sharing::Sharing;
use crate::gemm::Gemm;
use tilelift_schedule::gemm::StreamK;
use tilelift_schedule::plan::LowerOptions;

/// Rows and columns of tiles beside the kernel's own, and their warps.
const TILES: [([u32; 2], u32); 7] =
    [([64, 128], 4), ([128, 64], 4), ([64, 64], 4), ([32, 128], 4), ([32, 64], 4), ([16, 128], 4), ([16, 64], 4)];
/// Parts of the depth.
const SPLITS: [u32; 6] = [2, 3, 4, 6, 8, 16];
/// Steps that a part of the depth, or a worker, has at least.
const LEAST_STEPS: u32 = 4;
/// What another tile than the kernel's own must gain, and sharing a tile.
const WORTH: [f64; 2] = [1.05, 1.05];
/// Sums that a lane holds at most.
const MOST_SUMS: u32 = 128;

/// Ways to run a product, best first; there is one at least: the kernel's own tile, or with a gate the first that has room for two sums.
pub(super) fn candidates(problem: &Problem, device: &DeviceFacts) -> Vec<Candidate> {
    let own = problem.gemm();
    let sums = if problem.behind.gate { 2 } else { 1 };
    let mut tiles = vec![own.clone()];
    tiles.extend(TILES.map(|([bm, bn], warps)| Gemm {
        bm,
        bn,
        warps: warps.max(if own.warps > 4 { 8.min(bm * bn / 512) } else { 4 }),
        ..own.clone()
    }));
    tiles.retain(|g| sums * g.bm * g.bn <= MOST_SUMS * g.warps * device.target().lanes || (sums == 1 && *g == own));
    let mut list: Vec<(f64, Candidate)> = Vec::new();
    for gemm in tiles {
        let model = Model::of(problem, device, &gemm);
        let padded = if gemm.bm == own.bm && gemm.bn == own.bn { 1.0 } else { WORTH[0] };
        let mut add = |sharing: Sharing, micros: f64, worth: f64| {
            let candidate = Candidate { gemm: gemm.clone(), sharing, options: LowerOptions::default(), micros, ranked: None };
            list.push((micros * worth, candidate));
        };
        add(Sharing::Whole, model.whole(1), padded);
        if problem.batch > 1 {
            continue;
        }
        for splits in SPLITS.into_iter().filter(|&s| model.steps / u64::from(s) >= u64::from(LEAST_STEPS)) {
            add(Sharing::SplitK(splits), model.whole(splits), padded * WORTH[1]);
        }
        for s in model.deals(gemm.group) {
            add(Sharing::StreamK(s), model.dealt(&s), padded * WORTH[1]);
        }
    }
    list.sort_by(|a, b| a.0.total_cmp(&b.0));
    list.into_iter().map(|(_, c)| c).collect()
}

/// The predicted time of a product with a candidate of these, in microseconds.
pub(super) fn predict(problem: &Problem, device: &DeviceFacts, candidate: &Candidate) -> f64 {
    let model = Model::of(problem, device, &candidate.gemm);
    match &candidate.sharing {
        Sharing::Whole | Sharing::Clusters(..) => model.whole(1),
        Sharing::SplitK(splits) => model.whole(*splits),
        Sharing::StreamK(s) => model.dealt(s),
    }
}

/// Numbers of a product in tiles, in microseconds of one multiprocessor.
struct Model {
    processors: u64,
    tiles: u64,
    steps: u64,
    /// One step of a tile, and what stands around its steps.
    step: f64,
    around: f64,
    /// Results of a tile, and one set of its partial sums on its way to memory or back.
    results: f64,
    sums: f64,
    launch: f64,
    /// Products of a tile: two with a gate.
    products: f64,
    gate: bool,
}

impl Model {
    fn of(problem: &Problem, device: &DeviceFacts, g: &Gemm) -> Model {
        let costs = &device.target().costs;
        let [m, n, k] = problem.shape;
        let [bm, bn, bk] = [g.bm, g.bn, g.bk].map(f64::from);
        let size = f64::from(problem.elem.bytes());
        let products = if problem.behind.gate { 2.0 } else { 1.0 };
        let micros = |sixteenths: f64| sixteenths / 16.0 / (costs.megahertz.max(1) as f64);
        let sectors = |bytes: f64| bytes / 32.0 * costs.sector as f64;
        // A price is that of 16-bit operands.
        let matrix = bm * bn * bk / 1024.0 * costs.product as f64 * size / 2.0 * products;
        let bytes = (bm + products * bn) * bk * size;
        // Operands are written once and read by several warps.
        let shared = 3.0 * bytes / 128.0 * costs.wavefront as f64;
        let step = matrix.max(sectors(bytes)).max(shared) + costs.barrier[0] as f64;
        let tile = bm * bn;
        Model {
            processors: u64::from(device.multiprocessors()).max(1),
            tiles: (u64::from(m.div_ceil(g.bm)) * u64::from(n.div_ceil(g.bn))).saturating_mul(u64::from(problem.batch)),
            steps: u64::from(k.div_ceil(g.bk)),
            step: micros(step),
            around: micros((costs.global_latency + costs.shared_latency) as f64),
            results: micros(sectors(tile * f64::from(problem.out.bytes()))),
            sums: micros(sectors(tile * 4.0)),
            launch: costs.launch as f64 * 1e-3,
            products,
            gate: problem.behind.gate,
        }
    }

    /// Launches of products whose sums are added up apart: with a gate, each has its own.
    fn apart(&self) -> f64 {
        if self.gate { 3.0 } else { 2.0 }
    }

    /// Adding up so many sets of sums of so many tiles, and writing those.
    fn added(&self, sets: f64, tiles: f64) -> f64 {
        let one = (sets * self.products * self.sums + tiles * self.results) / self.processors as f64;
        one.max(self.sums + self.results)
    }

    /// Tiles in so many parts of the depth.
    fn whole(&self, splits: u32) -> f64 {
        let splits = u64::from(splits.max(1));
        let all = self.tiles.saturating_mul(splits);
        let rounds = all.div_ceil(self.processors) as f64;
        let run = self.steps.div_ceil(splits) as f64 * self.step + self.around;
        if splits == 1 {
            return self.launch + rounds * (run + self.results);
        }
        let tiles = self.tiles as f64;
        self.apart() * self.launch + rounds * (run + self.products * self.sums) + self.added(tiles * splits as f64, tiles)
    }

    /// Ways to deal out the steps that are worth a look.
    fn deals(&self, group: u32) -> Vec<StreamK> {
        let all = self.tiles.saturating_mul(self.steps);
        let even = self.tiles.is_multiple_of(self.processors);
        if even || all < self.processors * u64::from(LEAST_STEPS) || all > 1 << 30 {
            return Vec::new();
        }
        let workers = self.processors as u32;
        let rest = self.tiles > self.processors && !self.gate;
        let in_flight = [1, group.min(workers)].into_iter().filter(|&t| u64::from(t) <= self.tiles && workers % t <= workers / 16);
        let mut list: Vec<StreamK> = in_flight.map(|in_flight| StreamK { workers, in_flight, rest }).collect();
        list.dedup();
        list
    }

    /// Tiles whose steps are dealt out.
    fn dealt(&self, s: &StreamK) -> f64 {
        let workers = u64::from(s.workers.max(1));
        let rounds = if s.rest { self.tiles / workers } else { 0 };
        let left = self.tiles - rounds * workers;
        let groups = (workers / u64::from(s.in_flight.max(1))).max(1);
        let stacks = left.div_ceil(u64::from(s.in_flight.max(1)));
        let each = stacks.saturating_mul(self.steps).div_ceil(groups);
        let segments = each.div_ceil(self.steps.max(1)) + 1;
        let whole = rounds as f64 * (self.steps as f64 * self.step + self.around + self.results);
        let run = each as f64 * self.step + segments as f64 * (self.around + self.products * self.sums);
        // Neighbours that share nothing fetch all by themselves.
        let alone = if s.in_flight > 1 { 0.0 } else { 0.1 * each as f64 * self.step };
        self.apart() * self.launch + whole + run + alone + self.added((left + groups) as f64, left as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::Scalar;

    fn best(shape: [u32; 3], multiprocessors: u32) -> Candidate {
        let device = DeviceFacts::new(&tilelift_lane::testing::target(), multiprocessors);
        candidates(&Problem::new(Scalar::BF16, shape), &device).remove(0)
    }

    #[test]
    fn many_tiles_take_the_kernels_own_and_few_are_shared() {
        let large = best([8192, 8192, 4096], 108);
        assert_eq!((large.gemm.bm, large.gemm.bn, large.sharing), (128, 128, Sharing::Whole));
        // Two tiles for so many multiprocessors, or one for each of two.
        assert_ne!(best([128, 256, 1 << 15], 108).sharing, Sharing::Whole);
        assert_eq!(best([128, 256, 1 << 15], 1).sharing, Sharing::Whole);
        assert!(best([16, 8192, 8192], 108).gemm.bm <= 32, "few rows are not padded to many");
    }

    #[test]
    fn with_a_gate_two_sums_have_room() {
        let device = DeviceFacts::new(&tilelift_lane::testing::target(), 108);
        for c in candidates(&Problem::new(Scalar::BF16, [4096, 4096, 4096]).gated(), &device) {
            assert!(2 * c.gemm.bm * c.gemm.bn <= MOST_SUMS * c.gemm.warps * device.target().lanes, "{c}");
        }
    }
}
