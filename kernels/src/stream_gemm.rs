//! GEMM dealt out by steps (stream-K): every worker gets as many steps of depth as the others, wherever tiles begin and end.
//!
//! ```text
//! tiles, one behind the other     |0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|       3 tiles of 8 steps
//! workers                         |    0    |    1    |    2    |    3    |   4   |       5 workers of 4 or 5 steps
//! segments                        |    0    |  1  | 1 |    2    |2|   3   |   4   |       of a worker in one tile: a grid position
//! ```
//!
//! Grid position `j * workers + w` is worker `w`'s `j`-th segment, so a persistent instance per worker runs its own steps one behind the
//! other. A segment's sums go to a slot of a workspace, `[slots, bm, bn]`; a second launch adds up, per tile, just the slots that have
//! steps of it, in order: every run gives the same bits. By atomics they go straight into C, in any order.
//!
//! * `in_flight` tiles, neighbours in the program order, go side by side: so many workers, a worker group, have them at the same depth and share what
//!   they read of A or B; without that, workers would be at as many depths as there are workers.
//! * With `keep_whole`, as many tiles as make up full rounds of the workers are theirs from end to end and leave for C at once; only the
//!   rest is dealt out by steps.

use crate::activation::Activation;
use crate::facts::{ANY, programs, vector};
use crate::fused_gemm::{Behind, Parts};
use crate::gemm::Gemm;
use crate::launch::{Argument, Launch, Launches, Workspace};
use crate::split_gemm::Meeting;
use tilelift_ir::{Access, BuildError, BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, Operand, Scalar, Value, ViewType};

/// A matrix product dealt out by steps of its depth. The number of workers is a parameter of the launch.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamGemm {
    /// The product: types, storage, epilogue, tile, program order.
    pub gemm: Gemm,
    /// Tiles, neighbours in the program order, that workers have at the same depth.
    pub in_flight: u32,
    /// Tiles of full rounds stay whole.
    pub keep_whole: bool,
    /// Where segments meet.
    pub meeting: Meeting,
    /// What is behind the sums, where they meet in a workspace; a gate wants all tiles dealt out.
    pub behind: Behind,
}

/// How the steps of a shape are dealt out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deal {
    /// Those who work at the same time.
    pub workers: u32,
    /// Tiles.
    pub tiles: u32,
    /// Whole tiles of each worker.
    pub rounds: u32,
    /// Steps of a tile.
    pub steps: u32,
    /// Tiles in flight that are dealt out by steps.
    pub stacks: u32,
    /// Worker groups that they are dealt to, of as many workers as tiles are in flight.
    pub worker_groups: u32,
    /// Steps of each worker group; the first `more` have one beside.
    pub each: u32,
    /// Worker groups with one step more.
    pub more: u32,
    /// Segments of a worker at most, beside its whole tiles.
    pub segments: u32,
}

impl Deal {
    /// Tiles that stay whole.
    pub fn whole(&self) -> u32 {
        self.rounds.saturating_mul(self.workers)
    }

    /// Tiles that are dealt out by steps.
    pub fn dealt(&self) -> u32 {
        self.tiles.saturating_sub(self.whole())
    }

    /// Segments that the workspace has room for.
    pub fn slots(&self) -> u32 {
        self.workers.saturating_mul(self.segments)
    }

    /// The scalars of both kernels, with their names: what all programs would have to find out for themselves, by quotients.
    pub fn scalars(&self) -> [(&'static str, u32); 7] {
        [
            ("workers", self.workers),
            ("tiles", self.tiles),
            ("rounds", self.rounds),
            ("steps", self.steps),
            ("worker_groups", self.worker_groups),
            ("each", self.each),
            ("more", self.more),
        ]
    }

    /// Segments of a tile at most.
    pub fn parts(&self) -> u32 {
        if self.stacks == 0 { 1 } else { self.worker_groups.saturating_sub(1).div_ceil(self.stacks).saturating_add(1) }
    }
}

/// Most workers: more than any machine has multiprocessors.
const MOST: u32 = 1 << 16;
/// Rows of a tile that a program of the second launch adds up, where they divide the tile's: few, so that many loads of many programs are
/// in flight at once.
const ROWS: u32 = 4;
/// Slots whose sums are in flight together in the second launch, at most.
const TOGETHER: u32 = 8;
/// Warps of a program of the second launch.
const SUM_WARPS: u32 = 4;
/// Registers of a lane for sums in flight: beside more of them the assembler, which would have as many programs on a multiprocessor as fit,
/// spills.
const IN_FLIGHT: u32 = 32;

impl StreamGemm {
    /// A product whose tiles are all dealt out by steps, with segments that meet in a workspace.
    pub fn new(gemm: Gemm) -> StreamGemm {
        StreamGemm { gemm, in_flight: 1, keep_whole: false, meeting: Meeting::Workspace, behind: Behind::default() }
    }

    /// Chooses how many tiles go side by side.
    pub fn in_flight(mut self, tiles: u32) -> StreamGemm {
        self.in_flight = tiles;
        self
    }

    /// Lets tiles of full rounds stay whole.
    pub fn keep_whole(mut self) -> StreamGemm {
        self.keep_whole = true;
        self
    }

    /// Lets segments meet in C.
    pub fn by_atomics(mut self) -> StreamGemm {
        self.meeting = Meeting::Atomics;
        self
    }

    /// Chooses what is behind the sums.
    pub fn behind(mut self, behind: Behind) -> StreamGemm {
        self.behind = behind;
        self
    }

    fn check(&self) -> Result<(), BuildErrors> {
        self.gemm.check()?;
        self.behind.check(&self.gemm)?;
        if self.keep_whole && self.behind.gate {
            return error("build", "tiles are not kept whole where there is a gate: its sums are another launch's".to_owned());
        }
        let plain = self.gemm.bias.is_none() && self.gemm.activation == Activation::None && self.gemm.out == self.gemm.sum();
        if self.in_flight == 0 || self.in_flight > MOST {
            return error(
                "build",
                format!("`in_flight` is {}; it goes from 1 to {MOST}, and 1 is for tiles one behind the other", self.in_flight),
            );
        }
        if self.meeting == Meeting::Atomics && (!plain || self.keep_whole || !self.behind.is_nothing()) {
            return error(
                "build",
                "segments that meet by atomics have no epilogue, C has the type of the sums (f32, or i32 of integers), and no tile is kept whole"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// How the steps of a shape are dealt out to so many workers.
    ///
    /// # Errors
    /// As [`StreamGemm::build`]; no worker, fewer than tiles in flight, or too many; more steps than 32 bits count.
    pub fn deal(&self, [m, n, k]: [u32; 3], workers: u32) -> Result<Deal, BuildErrors> {
        self.check()?;
        let g = &self.gemm;
        if workers < self.in_flight || workers > MOST {
            return error(
                "deal",
                format!(
                    "{workers} workers; there are from {} (as many as tiles in flight) to {MOST}, best one per multiprocessor",
                    self.in_flight
                ),
            );
        }
        let tiles = u64::from(programs(m, g.bm)) * u64::from(programs(n, g.bn));
        let steps = programs(k, g.bk).max(1);
        let rounds = if self.keep_whole { tiles / u64::from(workers) } else { 0 };
        let stacks = (tiles - rounds * u64::from(workers)).div_ceil(u64::from(self.in_flight));
        let all = stacks.saturating_mul(u64::from(steps));
        let worker_groups = u64::from(workers / self.in_flight).min(all).max(1);
        let segments = if stacks == 0 { 0 } else { (all.div_ceil(worker_groups) - 1).div_ceil(u64::from(steps)) + 1 };
        let positions = (rounds + segments).saturating_mul(u64::from(workers));
        // Products of these numbers are taken in 32 bits; a stack may have tiles beyond the last one.
        if [tiles.saturating_add(u64::from(self.in_flight)), all, positions].iter().any(|&x| x > i32::MAX as u64) {
            return error(
                "deal",
                format!("{m}x{n}x{k} has {all} steps and {positions} segments, and 32 bits count them; use larger tiles or deeper steps"),
            );
        }
        let [each, more] = [all / worker_groups, all % worker_groups];
        let [tiles, rounds, stacks, worker_groups, each, more, segments] =
            [tiles, rounds, stacks, worker_groups, each, more, segments].map(|x| x as u32);
        Ok(Deal { workers, tiles, rounds, steps, stacks, worker_groups, each, more, segments })
    }

    /// The first kernel. Its parameters are the views of A and B, as [`Gemm::build`] has them; then, by atomics, the view of C, else that of the
    /// workspace (`[slots, bm, bn]`), and where tiles are kept whole the bias (`[N]`, only if there is one), R (only if there is one), C, and `alpha` and
    /// `beta` (if scaled); then the scalars of the [`Deal`], each an `i32`.
    ///
    /// # Errors
    /// As [`Gemm::build`]; no tile in flight; an epilogue or whole tiles beside atomics.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        self.check()?;
        let g = &self.gemm;
        let mut b = KernelBuilder::new(&format!("stream_gemm_{}_{}_{}", g.order(), g.operands(), g.sum()));
        b.warps(g.warps).stages(g.stages);
        let [a, w] = g.inputs(&mut b);
        let out = b.param(match self.meeting {
            Meeting::Workspace => self.workspace(),
            Meeting::Atomics => g.result(),
        });
        let bias = g.bias.filter(|_| self.keep_whole).map(|t| b.param(vector(t, g.n)));
        let residual = self.behind.residual.filter(|_| self.keep_whole).map(|r| b.param(g.added(r.elem())));
        let c = self.keep_whole.then(|| b.param(g.result()));
        let scales = if self.keep_whole { self.behind.scales(&mut b) } else { None };
        let behind = Parts { bias, residual, scales, batch: None };
        let d = Dealt::params(&mut b);
        let (m, n, depth) = (b.dim(a, u32::from(g.trans_a)), b.dim(w, u32::from(!g.trans_b)), b.dim(a, u32::from(!g.trans_a)));
        let tiles = [b.ceil_div(m, g.bm), b.ceil_div(n, g.bn)];

        // Which worker, and its how manieth position; a whole tile, or a segment.
        let pid = b.program_id(0);
        let (round, worker) = quotient(&mut b, pid, d.workers);
        let (worker_group, beside) = quotient(&mut b, worker, self.in_flight);
        let [start, end] = d.share(&mut b, worker_group);
        let (stack, _) = quotient(&mut b, start, d.steps);
        let nth = b.sub(round, d.rounds);
        let stack = b.add(stack, nth);
        let base = b.mul(stack, d.steps);
        let first = b.maximum(start, base);
        let first = b.sub(first, base);
        let last = b.sub(end, base);
        let last = b.minimum(last, d.steps);
        let tile = b.mul(stack, self.in_flight);
        let tile = b.add(tile, beside);
        let tile = b.add(tile, d.whole);
        // Workers beyond the worker groups, segments behind the last one, tiles of the last stack that are not there.
        let conditions = [b.cmp(CmpOp::Lt, worker_group, d.worker_groups), b.cmp(CmpOp::Lt, first, last), b.cmp(CmpOp::Lt, tile, d.tiles)];
        let live = b.and(conditions[0], conditions[1]);
        let live = b.and(live, conditions[2]);
        let zero = b.constant(0, Scalar::I32);
        let [tile, first, last] = [tile, first, last].map(|x| b.select(live, x, zero));
        let whole = b.cmp(CmpOp::Lt, round, d.rounds);
        let [tile, first, last] = if self.keep_whole {
            [(pid, tile), (zero, first), (d.steps, last)].map(|(x, y)| b.select(whole, x, y))
        } else {
            [tile, first, last]
        };
        let (row, col) = g.origin_among(&mut b, tiles, tile);
        let first = b.mul(first, g.bk);
        let last = b.mul(last, g.bk);
        let last = b.minimum(last, depth);
        let sum = g.products(&mut b, [a, w], [row, col], [first.into(), last.into()]);

        let slot = b.sub(pid, d.whole);
        let segment = |b: &mut KernelBuilder| {
            match self.meeting {
                Meeting::Workspace => {
                    let t = b.expand_dims(sum, 0);
                    b.store(out, &[slot, zero, zero], t);
                }
                Meeting::Atomics => g.add_to(b, out, [row, col], sum),
            }
            Vec::new()
        };
        match c {
            Some(c) => b.if_else(
                whole,
                |b| {
                    let t = behind.finished(b, g, &[sum], [row, col], g.bm);
                    b.store(c, &[row, col], t);
                    Vec::new()
                },
                |b| b.if_else(live, segment, |_| Vec::new()),
            ),
            None => b.if_else(live, segment, |_| Vec::new()),
        };
        b.finish()
    }

    /// The second kernel, of segments that meet in a workspace; its parameters are the views of the workspace, of the gate's (only if there is one), the
    /// bias (`[N]`, only if there is one), R (only if there is one) and C, `alpha` and `beta` (if scaled), then the scalars of the [`Deal`], each an `i32`.
    ///
    /// # Errors
    /// As [`StreamGemm::build`].
    pub fn build_sums(&self) -> Result<Kernel, BuildErrors> {
        self.check()?;
        let g = &self.gemm;
        let mut b = KernelBuilder::new(&format!("stream_gemm_sums_{}_{}", g.sum(), g.out));
        b.warps(SUM_WARPS);
        let workspaces: Vec<Value> = (0..1 + usize::from(self.behind.gate)).map(|_| b.param(self.workspace())).collect();
        let bias = g.bias.map(|t| b.param(vector(t, g.n)));
        let residual = self.behind.residual.map(|r| b.param(g.added(r.elem())));
        let c = b.param(g.result());
        let scales = self.behind.scales(&mut b);
        let d = Dealt::params(&mut b);
        let (m, n) = (b.dim(c, 0), b.dim(c, 1));
        let tiles = [b.ceil_div(m, g.bm), b.ceil_div(n, g.bn)];

        let pid = b.program_id(0);
        let (which, piece) = quotient(&mut b, pid, self.pieces());
        let (stack, beside) = quotient(&mut b, which, self.in_flight);
        let base = b.mul(stack, d.steps);
        let end = b.add(base, d.steps);
        let end = b.sub(end, 1);
        let [first, last] = [base, end].map(|step| d.owner(&mut b, step));
        // The tile may be a later one of the first worker group's; those behind begin in it.
        let [start, _] = d.share(&mut b, first);
        let (nth, _) = quotient(&mut b, start, d.steps);
        let nth = b.sub(stack, nth);
        let ahead = b.mul(nth, d.workers);

        let rows = g.bm / self.pieces();
        let tile = b.add(which, d.whole);
        let (row, col) = g.origin_among(&mut b, tiles, tile);
        let down = b.mul(piece, rows);
        let row = b.add(row, down);
        let zero = b.constant(0, Scalar::I32);
        let none = b.full(&[rows, g.bn], 0, g.sum());
        let past = b.add(last, 1);
        let together = self.together(rows);
        let sum_of = |b: &mut KernelBuilder, w: Value| {
            b.for_loop(first, past, together, &[none], |b, worker_group, sum| {
                let parts: Vec<Value> = (0..together)
                    .map(|n| {
                        let worker_group = b.add(worker_group, n);
                        let slot = b.mul(worker_group, self.in_flight);
                        let slot = b.add(slot, beside);
                        let leads = b.cmp(CmpOp::Eq, worker_group, first);
                        let more = b.select(leads, ahead, zero);
                        let slot = b.add(slot, more);
                        let shape = [1, rows, g.bn];
                        let there = b.cmp(CmpOp::Le, worker_group, last);
                        let access = Access { mask: (n > 0).then(|| b.splat(there, &shape)), ..Access::default() };
                        let part = b.load_with(w, &[slot, down, zero], &shape, access);
                        b.reshape(part, &[rows, g.bn])
                    })
                    .collect();
                vec![parts.into_iter().fold(sum[0], |t, part| b.add(t, part))]
            })[0]
        };
        let sums: Vec<Value> = workspaces.iter().map(|&w| sum_of(&mut b, w)).collect();
        let t = Parts { bias, residual, scales, batch: None }.finished(&mut b, g, &sums, [row, col], rows);
        b.store(c, &[row, col], t);
        b.finish()
    }

    /// The launches for a shape: the segments of the product, those of the gate's (if there is one), and, if tiles are dealt out, their sums; by atomics,
    /// the first one, into C as it was filled.
    ///
    /// # Errors
    /// As [`StreamGemm::deal`].
    pub fn launches(&self, shape: [u32; 3], workers: u32) -> Result<Launches, BuildErrors> {
        let (deal, kernel) = (self.deal(shape, workers)?, self.build()?);
        let counts = deal.scalars().map(|(name, value)| Argument::Count { name, value });
        let grid = self.grid(&deal);
        if self.meeting == Meeting::Atomics {
            let arguments = [Argument::A, Argument::B, Argument::C].into_iter().chain(counts).collect();
            return Ok(Launches::one(kernel, grid, arguments));
        }
        let factors: &[Argument] = if self.behind.gate { &[Argument::B, Argument::Gate] } else { &[Argument::B] };
        let finish: Vec<Argument> = self.gemm.bias.map(|_| Argument::Bias).into_iter().chain(self.behind.arguments()).collect();
        // A launch wants memory, even where nothing is dealt out.
        let slots = deal.slots().max(1);
        let workspaces = factors.iter().map(|_| Workspace::new(self.gemm.sum(), &[slots, self.gemm.bm, self.gemm.bn])).collect();
        let whole: &[Argument] = if self.keep_whole { &finish } else { &[] };
        let of = |(i, &right): (usize, &Argument)| {
            let first = [Argument::A, right, Argument::Workspace(i)];
            Launch { kernel: kernel.clone(), grid, arguments: first.iter().chain(whole).chain(&counts).copied().collect() }
        };
        let mut list: Vec<Launch> = factors.iter().enumerate().map(of).collect();
        if deal.dealt() > 0 || deal.tiles == 0 {
            let parts = (0..factors.len()).map(Argument::Workspace);
            let arguments = parts.chain(finish.iter().copied()).chain(counts).collect();
            list.push(Launch { kernel: self.build_sums()?, grid: self.grid_sums(&deal), arguments });
        }
        Ok(Launches { list, workspaces })
    }

    /// The workspace's view.
    fn workspace(&self) -> ViewType {
        ViewType::dense(self.gemm.sum(), &[ANY, Extent::Fixed(self.gemm.bm), Extent::Fixed(self.gemm.bn)])
    }

    /// Programs of the second launch per tile.
    fn pieces(&self) -> u32 {
        if self.gemm.bm.is_multiple_of(ROWS) { (self.gemm.bm / ROWS).max(1) } else { 1 }
    }

    /// Slots whose sums of so many rows are in flight together.
    fn together(&self, rows: u32) -> u32 {
        let words = self.gemm.sum().bytes() / 4;
        let lane = (rows * self.gemm.bn * words).div_ceil(SUM_WARPS * 32);
        (IN_FLIGHT / lane.max(1)).clamp(1, TOGETHER)
    }

    /// The first launch's grid.
    pub fn grid(&self, deal: &Deal) -> [u32; 3] {
        [deal.rounds.saturating_add(deal.segments).saturating_mul(deal.workers), 1, 1]
    }

    /// The second launch's grid; there is nothing to launch where it is empty.
    pub fn grid_sums(&self, deal: &Deal) -> [u32; 3] {
        [deal.dealt().saturating_mul(self.pieces()), 1, 1]
    }
}

/// A [`Deal`] in a kernel.
struct Dealt {
    workers: Value,
    tiles: Value,
    rounds: Value,
    whole: Value,
    steps: Value,
    worker_groups: Value,
    each: Value,
    more: Value,
}

impl Dealt {
    /// Its numbers as parameters, in the order of [`Deal::scalars`].
    fn params(b: &mut KernelBuilder) -> Dealt {
        let [workers, tiles, rounds, steps, worker_groups, each, more] = [(); 7].map(|()| b.param(Scalar::I32));
        let whole = b.mul(rounds, workers);
        Dealt { workers, tiles, rounds, whole, steps, worker_groups, each, more }
    }

    /// A worker group's first step, and the one behind its last.
    fn share(&self, b: &mut KernelBuilder, worker_group: Value) -> [Value; 2] {
        let next = b.add(worker_group, 1);
        [worker_group, next].map(|t| {
            let start = b.mul(t, self.each);
            let before = b.minimum(t, self.more);
            b.add(start, before)
        })
    }

    /// The worker group that has a step.
    fn owner(&self, b: &mut KernelBuilder, step: Value) -> Value {
        let long = b.add(self.each, 1);
        let front = b.mul(self.more, long);
        let in_front = b.cmp(CmpOp::Lt, step, front);
        let behind = b.sub(step, front);
        // One quotient for both. Without a step for each, no step is behind.
        let each = b.maximum(self.each, 1);
        let at = b.select(in_front, step, behind);
        let by = b.select(in_front, long, each);
        let worker_group = b.div(at, by);
        let late = b.add(worker_group, self.more);
        b.select(in_front, worker_group, late)
    }
}

/// Quotient and remainder; the latter by a product, which is quicker.
fn quotient(b: &mut KernelBuilder, x: Value, by: impl Into<Operand>) -> (Value, Value) {
    let by = by.into();
    let q = b.div(x, by);
    let whole = b.mul(q, by);
    (q, b.sub(x, whole))
}

fn error<T>(method: &str, message: String) -> Result<T, BuildErrors> {
    Err(BuildErrors(vec![BuildError::new(format!("StreamGemm::{method}"), message)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activation::Activation;

    #[test]
    fn shares_are_equal_and_every_step_has_an_owner() {
        let gemm = Gemm::new(Scalar::BF16).tile(16, 32, 16);
        for (shape, workers, in_flight, whole) in [
            ([48, 32, 128], 5, 1, false),
            ([48, 96, 128], 7, 3, false),
            ([48, 96, 130], 4, 1, true),
            ([64, 64, 16], 9, 2, false),
            ([0, 64, 16], 9, 2, false),
            ([16, 16, 0], 3, 1, true),
        ] {
            let mut s = StreamGemm::new(gemm.clone()).in_flight(in_flight);
            s.keep_whole = whole;
            let d = s.deal(shape, workers).unwrap();
            assert_eq!(d.tiles, shape[0].div_ceil(16) * shape[1].div_ceil(32));
            assert!(d.dealt() < workers || !whole, "{d:?}");
            assert!(d.stacks * in_flight >= d.dealt() && d.stacks * in_flight < d.dealt() + in_flight, "{d:?}");
            assert!(d.worker_groups * in_flight <= workers && d.worker_groups <= (d.stacks * d.steps).max(1), "{d:?}");
            // A worker group's steps touch no more tiles than it has segments.
            let (each, more) = (d.stacks * d.steps / d.worker_groups, d.stacks * d.steps % d.worker_groups);
            for t in 0..d.worker_groups {
                let [start, end] = [t, t + 1].map(|t| t * each + t.min(more));
                assert!(d.stacks == 0 || (end - 1) / d.steps - start / d.steps < d.segments, "{d:?} {t}");
            }
            assert_eq!(s.grid(&d)[0] % workers, 0);
        }
        assert_eq!(StreamGemm::new(gemm).deal([48, 32, 128], 5).unwrap().parts(), 3);
    }

    #[test]
    fn bad_numbers_and_epilogues_are_refused_with_a_remedy() {
        let plain = Gemm::new(Scalar::BF16).output(Scalar::F32);
        let s = StreamGemm::new(plain.clone());
        for (workers, in_flight) in [(0, 1), (1 << 20, 1), (2, 3)] {
            let e = s.clone().in_flight(in_flight).deal([128, 128, 128], workers).unwrap_err().to_string();
            assert!(e.contains("multiprocessor"), "{e}");
        }
        let e = s.clone().in_flight(0).build().unwrap_err().to_string();
        assert!(e.contains("`in_flight` is 0"), "{e}");
        let small = StreamGemm::new(plain.clone().tile(16, 16, 16));
        let e = small.deal([1 << 20, 1 << 20, 1 << 20], 132).unwrap_err().to_string();
        assert!(e.contains("larger tiles"), "{e}");
        let biased = plain.clone().epilogue(Some(Scalar::F32), Activation::None);
        for wrong in [StreamGemm::new(biased), StreamGemm::new(Gemm::new(Scalar::BF16)), s.keep_whole()] {
            let e = wrong.by_atomics().build().unwrap_err().to_string();
            assert!(e.contains("type of the sums"), "{e}");
        }
    }
}
