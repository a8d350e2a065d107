//! What a kernel's author is told of the schedule: how the kernel runs, which loops missed the fast path, why, and what that costs by a simple estimate.
//!
//! ```text
//! kernel ─► lowered program ── loads and dots that are still done where they stand, by their places ─► waits of each loop, with reasons
//!
//! fast path    max(bytes, products)                                      loads some iterations ahead, products beside the lanes
//! as it stands chain * latency + exposed bytes + max(bytes ahead, products)
//! ```
//!
//! On the fast path loads are asynchronous some iterations ahead, and products are asynchronous where the target has units for them and they are
//! quicker so. Bytes that instances beside one another load, too (what is loaded follows from some of the grid's axes alone), come from the cache that all share.
//! All numbers are from the target's table of costs, for one program instance that has a multiprocessor for itself; what lanes compute
//! between loads and products is in neither number, nor are loops inside a loop. Whether a load waits is read off the program that is lowered, not off the plan.

use crate::lower::Lowered;
use crate::pipeline::{lower, planned};
use std::collections::BTreeSet;
use std::fmt;
use tilelift_ir::verify::Verified;
use tilelift_ir::{Attr, GridAxis, Inst, Kernel, Loc, Op, Region, Value, ValueDef};
use tilelift_lane::Target;
use tilelift_lane::hash::{Map, Set};
use tilelift_schedule::plan::{LowerOptions, Schedule};
use tilelift_schedule::program::{awaited_by, held_ahead, loads_ahead, not_ahead, without_places};
use tilelift_schedule::reason::{NotAhead, Outline};
use tilelift_schedule::{LowerError, Made};

/// Sixteenths of a cycle, in which tables count.
const SHARES: u64 = 16;
/// Estimates are not more exact than this part.
const SLACK: u64 = 20;
/// Bytes of a sector.
const SECTOR: u64 = 32;

/// How a kernel runs, and what that costs its loops.
#[derive(Clone, PartialEq, Debug)]
pub struct Exposure {
    /// The plan.
    pub outline: Outline,
    /// Loops that load or multiply, in the order of the text.
    pub loops: Vec<LoopExposure>,
}

/// A loop that loads or multiplies.
#[derive(Clone, PartialEq, Debug)]
pub struct LoopExposure {
    /// The loop.
    pub made: Made,
    /// Loads of its body, loops in it left out.
    pub loads: usize,
    /// Loads that wait where they are used, and why.
    pub waiting: Vec<(Made, NotAhead)>,
    /// Dots of its body.
    pub dots: usize,
    /// Dots for which lanes wait, and which would be quicker beside them.
    pub waiting_dots: Vec<Made>,
    /// What it costs.
    pub estimate: LoopEstimate,
}

impl LoopExposure {
    /// True if nothing of the loop waits that need not.
    pub fn is_fast(&self) -> bool {
        self.waiting.is_empty() && self.waiting_dots.is_empty()
    }
}

/// Cycles of an iteration of a loop, by the target's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoopEstimate {
    /// Loads that wait, each for the one before.
    pub chain: u64,
    /// Cycles until data is back from global memory.
    pub latency: u64,
    /// Bytes that are loaded, and those of them for which lanes wait.
    pub bytes: [u64; 2],
    /// Of all bytes those that instances beside one another load, too: they come from the cache that all share, others from memory.
    pub shared: u64,
    /// Cycles that bytes take: all, and those for which lanes wait.
    pub moving: [u64; 2],
    /// Multiply-adds of dots.
    pub multiply_adds: u64,
    /// Cycles that they take as they are done, and as quickly as the target does them.
    pub products: [u64; 2],
}

impl LoopEstimate {
    /// Cycles of an iteration on the fast path: the slower of bytes and products.
    pub fn fast(&self) -> u64 {
        self.moving[0].max(self.products[1])
    }

    /// True if what is priced here tells the two apart: bytes that take longer than all else take as long on either way.
    pub fn tells(&self) -> bool {
        let [now, fast] = [self.now(), self.fast()];
        now.saturating_sub(fast) > fast / SLACK
    }

    /// Cycles of an iteration as it stands.
    pub fn now(&self) -> u64 {
        let ahead = self.moving[0] - self.moving[1];
        self.chain * self.latency + self.moving[1] + ahead.max(self.products[0])
    }
}

/// Says how a kernel runs on a target.
///
/// # Errors
/// As [`lower`].
pub fn exposure(kernel: &Verified<'_>, target: &Target, options: &LowerOptions) -> Result<Exposure, LowerError> {
    let done = lower(kernel, target, options)?;
    let (kernel, plan) = planned(kernel, target, options)?;
    let looked = LoweredKernel { kernel: &kernel, target, done: &done, synchronous: synchronous(&kernel, &done) };
    let mut loops = Vec::new();
    kernel.walk(kernel.body, &mut |i| loops.extend(is_loop(&kernel, i).then(|| looked.at(i)).flatten()));
    let mut outline = done.plan.outline();
    if let Outline::Pipelined { ahead, .. } = &mut outline {
        let by_registers = || loads_ahead(&kernel, target, &plan).is_ok_and(|made| made.is_some());
        *ahead = matches!(done.written, Some(Ok(_))) || by_registers();
    }
    Ok(Exposure { outline, loops })
}

fn is_loop(kernel: &Kernel, i: Inst) -> bool {
    matches!(kernel.insts[i].op, Op::For | Op::While)
}

/// Places of the loads and dots that the lanes of the lowered program do in loops, each where it stands.
fn synchronous(kernel: &Kernel, done: &Lowered) -> Set<(Op, Loc)> {
    let made = match &done.written {
        Some(Ok(written)) => written.as_ref(),
        Some(Err(_)) | None => kernel,
    };
    let mut found = Set::default();
    made.walk(made.body, &mut |i| {
        if is_loop(made, i) {
            made.insts[i].regions.iter().for_each(|&r| {
                made.walk(r, &mut |j| {
                    found.insert((made.insts[j].op, made.locs[j]));
                });
            });
        }
    });
    found
}

/// A kernel that is looked at.
struct LoweredKernel<'a> {
    kernel: &'a Kernel,
    target: &'a Target,
    done: &'a Lowered,
    synchronous: Set<(Op, Loc)>,
}

impl LoweredKernel<'_> {
    /// What is said of a loop; nothing of one that neither loads nor multiplies.
    fn at(&self, main: Inst) -> Option<LoopExposure> {
        let kernel = self.kernel;
        let mut body = Vec::new();
        kernel.insts[main].regions.iter().for_each(|&r| direct(kernel, r, &mut body));
        let of = |ops: &[Op]| body.iter().copied().filter(|&i| ops.contains(&kernel.insts[i].op)).collect::<Vec<Inst>>();
        let (loads, dots) = (of(&[Op::Load, Op::Gather]), of(&[Op::Dot, Op::DotScaled]));
        if loads.is_empty() && dots.is_empty() {
            return None;
        }
        let ahead = |i: &Inst| match &self.done.plan.schedule {
            Schedule::Specialised(s) => s.loops().any(|s| s.prefetched.contains(i)),
            Schedule::Pipelined { .. } | Schedule::Explicit(_) => held_ahead(kernel, self.target, &self.done.plan, main, *i),
        };
        let waits = |i: &Inst| self.synchronous.contains(&(kernel.insts[*i].op, kernel.locs[*i])) && !ahead(i);
        let mut waiting: Vec<Inst> = loads.iter().copied().filter(waits).collect();
        without_places(kernel, main, &mut waiting);
        waiting.extend(loads.iter().filter(|&&i| awaited_by(kernel, &self.done.plan, main, i).is_some()));
        waiting.sort_by_key(|i| loads.iter().position(|l| l == i));
        waiting.dedup();
        let c = &self.target.costs;
        let (mut taken, mut quickest, mut multiply_adds, mut waiting_dots) = (0, 0, 0, Vec::new());
        for &i in &dots {
            let [work, by_lanes, beside] = self.products(i);
            let best = by_lanes.min(beside);
            let own = if waits(&i) { by_lanes } else { beside };
            if own > best {
                waiting_dots.push(Made::of(kernel, i));
            }
            (taken, quickest, multiply_adds) = (taken + own, quickest + best, multiply_adds + work);
        }
        let axes = self.axes();
        let shared = |i: &Inst| self.axes_of(*i) != axes;
        let bytes = |list: &[Inst]| list.iter().map(|&i| self.bytes(i)).sum::<u64>();
        let sector = |i: &Inst| if shared(i) && c.box_sector > 0 { c.box_sector } else { c.sector };
        let moving = |list: &[Inst]| list.iter().map(|i| self.bytes(*i) * sector(i)).sum::<u64>().div_ceil(SECTOR * SHARES);
        let estimate = LoopEstimate {
            chain: self.chain(&body, &waiting),
            latency: c.global_latency / SHARES,
            bytes: [bytes(&loads), bytes(&waiting)],
            shared: loads.iter().filter(|i| shared(i)).map(|&i| self.bytes(i)).sum(),
            moving: [moving(&loads), moving(&waiting)],
            multiply_adds,
            products: [taken, quickest].map(|n| n.div_ceil(SHARES)),
        };
        let why = |&i: &Inst| (Made::of(kernel, i), not_ahead(kernel, self.target, &self.done.plan, main, i));
        let waiting = waiting.iter().map(why).collect();
        Some(LoopExposure { made: Made::of(kernel, main), loads: loads.len(), waiting, dots: dots.len(), waiting_dots, estimate })
    }
    /// Multiply-adds of a dot, and what they take, in sixteenths of a cycle: by the lanes' own instructions, and beside the lanes, which is the same where
    /// the target has no units for them. Tables are of operands of 16 bits; others take as long as their bytes.
    fn products(&self, i: Inst) -> [u64; 3] {
        let (kernel, target, c) = (self.kernel, self.target, &self.target.costs);
        let d = &kernel.insts[i];
        let factors = d.op.factors().map(|[a, b, _]| [a, b].map(|at| kernel.ty(d.args[at]).as_tile()));
        let Some([Some(a), Some(b)]) = factors else { return [0; 3] };
        let extent = |shape: &[u32], back: usize| shape.len().checked_sub(back).map_or(1, |n| u64::from(shape[n]));
        let batch: u64 = a.shape.iter().rev().skip(2).map(|&e| u64::from(e)).product();
        let (m, k, n) = (extent(&a.shape, 2), extent(&a.shape, 1), extent(&b.shape, 1));
        let work = batch * m * k * n;
        let of_bytes = |price: u64, work: u64| (work * price * u64::from(a.elem.bits().max(8))).div_ceil(1024 * 16);
        let by_lanes = match target.matrix.iter().any(|r| r.operand == a.elem && r.operand_b == b.elem) {
            true => of_bytes(c.product, work),
            false => work * c.alu / u64::from(target.lanes.max(1)),
        };
        let rows = target.units.iter().flat_map(|u| &u.matrix).filter(|r| [r.operand, r.operand_b] == [a.elem, b.elem]);
        let beside = rows.map(|r| of_bytes(c.group_product, batch * m.next_multiple_of(u64::from(r.m)) * k * n)).min();
        [work, by_lanes, beside.unwrap_or(by_lanes)]
    }

    /// Bytes that a load brings.
    fn bytes(&self, i: Inst) -> u64 {
        let d = &self.kernel.insts[i];
        let tile = d.results.first().and_then(|&v| self.kernel.ty(v).as_tile());
        tile.map_or(0, |t| t.elem.storage(usize::try_from(t.elements()).unwrap_or(usize::MAX)) as u64)
    }

    /// The axes of the grid that the kernel asks for its position along.
    fn axes(&self) -> BTreeSet<GridAxis> {
        let all = self.kernel.insts.keys().filter_map(|i| self.axis(i));
        all.collect()
    }

    fn axis(&self, i: Inst) -> Option<GridAxis> {
        let d = &self.kernel.insts[i];
        match d.attrs.first() {
            Some(&Attr::Grid(axis)) if d.op == Op::ProgramId => Some(axis),
            Some(_) | None => None,
        }
    }

    /// Those that decide what a load brings: instances that differ along others alone bring the same.
    fn axes_of(&self, load: Inst) -> BTreeSet<GridAxis> {
        let kernel = self.kernel;
        let (mut seen, mut axes) = (Set::default(), BTreeSet::new());
        let mut open: Vec<Value> = kernel.insts[load].args.to_vec();
        while let Some(v) = open.pop() {
            let made = match kernel.values[v].def {
                ValueDef::KernelParam(_) => None,
                ValueDef::Result(i, _) => Some(i),
                // Of a loop's index its bounds alone.
                ValueDef::RegionParam(r, 0) if kernel.holder(r).is_some_and(|i| kernel.insts[i].op == Op::For) => {
                    open.extend(kernel.holder(r).iter().flat_map(|&i| &kernel.insts[i].args[..3]));
                    None
                }
                ValueDef::RegionParam(r, _) => kernel.holder(r),
            };
            if let Some(i) = made.filter(|&i| seen.insert(i)) {
                axes.extend(self.axis(i));
                open.extend(&kernel.insts[i].args);
                kernel.insts[i].regions.iter().for_each(|&r| open.extend(kernel.terminator(r).map_or(&[][..], |_| kernel.yields(r))));
            }
        }
        axes
    }

    /// The longest chain of loads of a body, each of which waits for what the one before brought.
    fn chain(&self, body: &[Inst], waiting: &[Inst]) -> u64 {
        let kernel = self.kernel;
        let mut behind: Map<Value, u64> = Map::default();
        let mut longest = 0;
        // Operands stand in front of their users.
        for &i in body {
            let d = &kernel.insts[i];
            let before = d.args.iter().filter_map(|v| behind.get(v)).max().copied().unwrap_or(0);
            let here = before + u64::from(waiting.contains(&i));
            longest = longest.max(here);
            d.results.iter().for_each(|&v| {
                behind.insert(v, here);
            });
        }
        longest
    }
}

/// The instructions of a region and of the choices in it, in order.
fn direct(kernel: &Kernel, r: Region, out: &mut Vec<Inst>) {
    for &i in &kernel.regions[r].insts {
        if kernel.insts[i].op == Op::If {
            kernel.insts[i].regions.iter().for_each(|&r| direct(kernel, r, out));
        }
        out.push(i);
    }
}

/// What the numbers of [`LoopEstimate`] are, for people.
pub const ESTIMATE: &str = "an estimate from the target's table, for one program instance that has a multiprocessor for itself: instances beside it hide a part of what \
waits; what lanes compute between loads and dots is in neither number";

impl fmt::Display for LoopExposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.made)?;
        if self.is_fast() {
            return write!(f, "{} loads and {} dots, none of which waits that need not", self.loads, self.dots);
        }
        write!(
            f,
            "every iteration waits for {} of {} loads and {} of {} dots",
            self.waiting.len(),
            self.loads,
            self.waiting_dots.len(),
            self.dots
        )?;
        for (load, why) in &self.waiting {
            write!(f, "\n  {load} waits: {why}")?;
        }
        if !self.waiting_dots.is_empty() {
            let places: Vec<String> = self.waiting_dots.iter().map(|d| d.loc.to_string()).collect();
            let what = "are done by the lanes' own matrix instructions, for which lanes wait, and not beside them by those of warpgroups";
            write!(f, "\n  dots at {} {what}: the loop is not specialised", places.join(", "))?;
        }
        write!(f, "\n  {}", self.estimate)
    }
}

impl fmt::Display for LoopEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [now, fast] = [self.now(), self.fast()];
        if !self.tells() {
            return write!(
                f,
                "no estimate of what that costs: {} bytes take {} cycles an iteration either way, and what lanes compute has no price here",
                self.bytes[0], self.moving[0]
            );
        }
        write!(f, "estimate: {now} cycles an iteration as it stands, {fast} on the fast path")?;
        if fast > 0 {
            write!(f, " ({:.1} times)", now as f64 / fast as f64)?;
        }
        let ahead = self.moving[0] - self.moving[1];
        let [bytes, waits] = self.bytes;
        write!(
            f,
            "\n    as it stands: {} * {} (loads one behind the other) + {} ({waits} bytes)",
            self.chain, self.latency, self.moving[1]
        )?;
        write!(f, " + the slower of {ahead} ({} bytes ahead) and {} (dots as they are)", bytes - waits, self.products[0])?;
        write!(f, "\n    fast path: the slower of {} ({bytes} bytes, {} of them from the cache, ", self.moving[0], self.shared)?;
        write!(f, "where neighbours load them, too) and {} ({} multiply-adds)", self.products[1], self.multiply_adds)
    }
}
