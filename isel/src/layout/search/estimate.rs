//! How long a launch should take: the prices behind the choice of layouts, summed up.
//!
//! ```text
//! time = launch + programs * cost of one / processors          but at least one program's cost
//! ```
//!
//! The search's price of a program adds up what it issues and what it moves. Here they run side by side, for many programs share a
//! multiprocessor: each is priced with the other for nothing, and the dearer counts whole, of the other a quarter. Specialised loops are not
//! priced by the search: their copies run beside the matrix unit, so the products' price is that of the loop, or what lanes compute between them if
//! that is more, and what is stored, loaded and computed around it comes on top.

use super::chains;
use super::solve::Search;
use crate::layout::assign::Assignment;
use tilelift_ir::{Inst, Kernel, Literal, Op, Value, iterations};
use tilelift_lane::{Costs, Target};
use tilelift_schedule::access::GlobalAccess;
use tilelift_schedule::plan::{LayoutChoice, Plan, Specialised};

/// Bytes of a sector.
const SECTOR: u64 = 32;
/// Rounds of a loop whose bounds are not known.
const ROUNDS: u64 = 16;

/// The cost of a program whose layouts are searched, or would be; `None` where the machine has no price for it. Loops count with the rounds that
/// constant bounds give them.
pub(crate) fn work(kernel: &Kernel, target: &Target, (plan, plain): (&Plan, &Assignment), layouts: LayoutChoice) -> Option<u64> {
    let priced = |costs: Costs| {
        let machine = Target { costs, ..target.clone() };
        let found = Search::new(kernel, &machine, plan, plain).solve()?;
        if layouts == LayoutChoice::Searched { Some(found.cost) } else { found.plain }
    };
    let c = target.costs;
    let issues = priced(Costs { sector: 0, line: 0, ..c });
    let nothing = Costs {
        alu: 0,
        special: 0,
        product: 0,
        shuffle: 0,
        redux: [0; 2],
        step_latency: [0; 2],
        wavefront: 0,
        shared_latency: 0,
        global_latency: 0,
        barrier: [0; 2],
        spill: 0,
        ..c
    };
    let moves = priced(nothing);
    issues.zip(moves).map(|(a, b)| a.max(b) + a.min(b) / 4)
}

/// The cost of a specialised loop with what stands around it; `None` where the machine has no price for its products.
pub(crate) fn specialised(kernel: &Kernel, target: &Target, plan: &Specialised, warps: u32) -> Option<u64> {
    let c = &target.costs;
    let product = |i: Inst| {
        let shape = |n: usize| kernel.ty(kernel.insts[i].args[n]).as_tile().map(|t| t.shape.clone());
        let (a, b) = (shape(0)?, shape(1)?);
        Some(u64::from(a[0]) * u64::from(a[1]) * u64::from(b[1]) * c.group_product / 1024)
    };
    if c.group_product == 0 {
        return None;
    }
    let products: u64 = plan.dots.iter().map(|d| product(d.0)).sum::<Option<u64>>()?;
    let lanes = chains::issued(kernel, kernel.insts[plan.main].regions[0], c, target.lanes);
    let step = match plan.overlap {
        Some(_) => products.max(lanes) + products.min(lanes) / 4,
        None => products + lanes,
    };
    let bounds = &kernel.insts[plan.main].args;
    let known = |v: Value| match kernel.as_const(v) {
        Some((Literal::Int(x), _)) => Some(x),
        _ => None,
    };
    let rounds = match (known(bounds[0]), known(bounds[1]), known(bounds[2])) {
        (Some(lo), Some(hi), Some(by)) => iterations(lo, hi, by).unwrap_or(ROUNDS),
        _ => ROUNDS,
    };
    let moved = |i: Inst| {
        let d = &kernel.insts[i];
        let v = match d.op {
            Op::Load => *d.results.first()?,
            Op::Store => *kernel.operand(i, "value").first()?,
            _ => return None,
        };
        let t = kernel.ty(v).as_tile()?;
        let bytes = t.elements() * u64::from(GlobalAccess::of(kernel, i).view.elem.bytes());
        Some(bytes.div_ceil(SECTOR) * c.sector)
    };
    let around: u64 = kernel.regions[kernel.body].insts.iter().filter_map(|&i| moved(i)).sum();
    Some(step.saturating_mul(rounds).saturating_add(around) + chains::chains(kernel, kernel.body, target, warps))
}

/// The seconds that a launch of so many programs of a cost takes.
pub fn seconds(cost: u64, programs: u64, target: &Target) -> f64 {
    let c = &target.costs;
    let cycles = (cost as f64 / 16.0) * (programs as f64 / c.processors as f64).max(1.0);
    c.launch as f64 * 1e-9 + cycles / (c.megahertz as f64 * 1e6)
}
