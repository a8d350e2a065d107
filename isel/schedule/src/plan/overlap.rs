//! Loops that compute between two products: which products may run while the lanes compute.
//!
//! ```text
//! early   a product of what arrives and what stands in front of the loop: it may be started a step ahead, as may one that adds to it alone
//! head    what the lanes make of it
//! late    a product whose accumulator the loop carries, and that nothing else in the step looks at: it may end a step later
//! tail    what is done to such accumulators before the next product is added
//!
//! step n:   start early(n) ─ start late(n-1) ─ wait for early(n) ─ head(n) ─ wait for late(n-1), give slot n-1 back ─ tail(n)
//! ```
//!
//! Attention is of this kind: scores are early, softmax is head, weighted values are late, and their rescaling is tail. The order of the
//! additions is the loop's, so no number changes (Tawa, section 4, calls the parts T, C and U).
//!
//! An assembler may move the wait for late products up in front of the head, where the lanes wait, too. While another group computes
//! that costs nothing, if the products are what a step takes; where the lanes are, the wait is held where it stands.
//!
//! A slot is read over two steps. Where there are only two, what early products read and what late ones read is filled and given back apart, each
//! under mbarriers of its own: else none is left to be filled while late products run.

use super::replay::looks_at;
use super::staged::StagedOperand;
use super::tensor_boxes::SwizzledTile;
use super::views::trace;
use crate::named::Named;
use crate::reason::NotOverlapped;
use tilelift_egraph::cost::Family;
use tilelift_ir::{Effects, Inst, Kernel, Literal, Op, Scalar, Value, ValueDef};
use tilelift_lane::Target;
use tilelift_lane::hash::Set;

impl Overlap {
    /// True for an early product on which another one adds.
    pub fn is_added_to(&self, kernel: &Kernel, i: Inst) -> bool {
        let made = &kernel.insts[i].results;
        self.early.iter().any(|&j| made.contains(&kernel.insts[j].args[2]))
    }
}

/// The parts of a loop; what is in none of the lists is head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overlap {
    /// Products that are started a step ahead, in program order: some add to what others make.
    pub early: Vec<Inst>,
    /// Products that end a step later.
    pub late: Vec<Inst>,
    /// What stands between late products of different steps, in program order.
    pub tail: Vec<Inst>,
    /// The lanes take longer than the products: their computations must not wait for late products.
    pub hold: bool,
    /// Loads that late products alone read, where early ones alone read all others.
    pub read_late: Vec<Inst>,
}

/// True for a tile that is a splat of zero.
pub fn is_zero(kernel: &Kernel, v: Value) -> bool {
    let Some(i) = kernel.def_inst(v) else { return false };
    let d = &kernel.insts[i];
    let zero = |v: Value| match kernel.as_const(v) {
        Some((Literal::Int(x), _)) => x == 0,
        Some((Literal::Float(bits), _)) => f64::from_bits(bits) == 0.0,
        None => false,
    };
    d.op == Op::Splat && zero(d.args[0])
}

/// Takes a loop apart.
///
/// # Errors
/// Why its products have to wait for one another.
pub(super) fn overlap(
    kernel: &Kernel,
    target: &Target,
    main: Inst,
    dots: &[Inst],
    loads: &[(Inst, SwizzledTile)],
    staged: &[StagedOperand],
) -> Result<Overlap, NotOverlapped> {
    if let Some(s) = staged.iter().find(|s| s.moves) {
        return Err(NotOverlapped::Staged { value: Named::of(kernel, s.value) });
    }
    let region = kernel.insts[main].regions[0];
    let (body, params, yields) = (&kernel.regions[region].insts, &kernel.regions[region].params, kernel.yields(region));
    let contiguous = |j: Inst| loads.iter().find(|l| l.0 == j).map(|l| l.1.contiguous());
    let from_ring = |v: Value| trace(kernel, v, &contiguous).is_some();
    let inside: Set<Inst> = body.iter().copied().collect();
    let outside = |v: Value| match kernel.values[v].def {
        ValueDef::KernelParam(_) => true,
        ValueDef::RegionParam(r, _) => r != region,
        ValueDef::Result(i, _) => !inside.contains(&i),
    };

    let mut parts = Overlap { early: Vec::new(), late: Vec::new(), tail: Vec::new(), hold: false, read_late: Vec::new() };
    let mut after: Set<Value> = Set::default();
    let taken_by = |v: Value, i: Inst| body.iter().all(|&j| j == i || !looks_at(kernel, j, |x| x == v));
    for &i in dots {
        let d = &kernel.insts[i];
        let result = d.results[0];
        let [a, c] = [d.args[0], d.args[2]];
        let on_early = kernel.def_inst(c).is_some_and(|j| parts.early.contains(&j)) && taken_by(c, i);
        if (from_ring(a) || outside(a)) && (outside(c) || is_zero(kernel, c) || on_early) {
            parts.early.push(i);
            continue;
        }
        // The yield is an instruction of the region, too.
        let only = body.iter().all(|&j| kernel.insts[j].op == Op::Yield || !looks_at(kernel, j, |v| v == result));
        let place = yields.iter().position(|&y| y == result);
        match place {
            Some(k) if only && !from_ring(a) && yields.iter().filter(|&&y| y == result).count() == 1 => {
                parts.late.push(i);
                after.insert(params[k + 1]);
            }
            Some(_) | None => return Err(NotOverlapped::LookedAt { result: Named::of(kernel, result) }),
        }
    }
    if parts.early.is_empty() || parts.late.is_empty() {
        return Err(NotOverlapped::OneProduct);
    }
    for &i in body {
        let d = &kernel.insts[i];
        if parts.late.contains(&i) || d.op == Op::Yield {
            continue;
        }
        if looks_at(kernel, i, |v| after.contains(&v)) {
            if parts.early.contains(&i) || !pure(kernel, i) {
                return Err(NotOverlapped::Needs { op: d.op });
            }
            parts.tail.push(i);
            after.extend(d.results.iter().copied());
        }
    }
    for &i in &parts.late {
        let d = &kernel.insts[i];
        if d.args[..2].iter().any(|a| after.contains(a)) {
            return Err(NotOverlapped::Operand { result: Named::of(kernel, d.results[0]) });
        }
    }
    for (k, y) in yields.iter().enumerate() {
        if after.contains(y) {
            return Err(NotOverlapped::Carried { value: Named::of(kernel, params[k + 1]) });
        }
    }
    let products: u64 = dots.iter().map(|&i| product_cost(kernel, target, i)).sum();
    let head: Vec<Inst> = body
        .iter()
        .copied()
        .filter(|i| ![&parts.early, &parts.late, &parts.tail].iter().any(|part| part.contains(i)))
        .filter(|&i| kernel.insts[i].results.iter().any(|&r| !from_ring(r)))
        .collect();
    parts.hold = lane_cost(kernel, target, &head) > products;
    parts.read_late = read_late(kernel, &parts, loads);
    Ok(parts)
}

/// True for what only computes, a choice between such things among it.
fn pure(kernel: &Kernel, i: Inst) -> bool {
    let d = &kernel.insts[i];
    match d.op {
        Op::If => d.regions.iter().all(|&r| kernel.regions[r].insts.iter().all(|&j| kernel.insts[j].op == Op::Yield || pure(kernel, j))),
        Op::Dot => false,
        op => op.info().effects == Effects::Pure,
    }
}

/// The loads that late products alone read, if early ones alone read all others.
fn read_late(kernel: &Kernel, parts: &Overlap, loads: &[(Inst, SwizzledTile)]) -> Vec<Inst> {
    let contiguous = |j: Inst| loads.iter().find(|l| l.0 == j).map(|l| l.1.contiguous());
    let read = |dots: &[Inst]| -> Set<Inst> {
        let operands = dots.iter().flat_map(|&i| kernel.insts[i].args[..2].iter());
        operands.filter_map(|&v| trace(kernel, v, &contiguous).map(|found| found.0)).collect()
    };
    let [early, late] = [read(&parts.early), read(&parts.late)];
    match loads.iter().all(|l| early.contains(&l.0) != late.contains(&l.0)) {
        true => loads.iter().map(|l| l.0).filter(|i| late.contains(i)).collect(),
        false => Vec::new(),
    }
}

/// What the unit takes for a product, by the target's prices.
pub(super) fn product_cost(kernel: &Kernel, target: &Target, i: Inst) -> u64 {
    let d = &kernel.insts[i];
    let extent = |v: Value, n: usize| kernel.ty(v).as_tile().and_then(|t| t.shape.get(n).copied()).map_or(0, u64::from);
    extent(d.args[0], 0) * extent(d.args[0], 1) * extent(d.args[1], 1) * target.costs.group_product / 1024
}

/// What the lanes take for a head, by the target's prices. Masks do not count: most steps leave them out.
pub(crate) fn lane_cost(kernel: &Kernel, target: &Target, head: &[Inst]) -> u64 {
    let c = &target.costs;
    let cost = |&i: &Inst| {
        let d = &kernel.insts[i];
        let float = |v: &Value| kernel.ty(*v).as_tile().filter(|t| t.elem.is_float()).map(|t| t.elements());
        let elem = d.results.first().map_or(Scalar::I32, |&r| kernel.ty(r).elem());
        let each = match Family::of(d.op, elem) {
            _ if d.op == Op::Select => return 0,
            Family::Free | Family::Rename | Family::Matrix | Family::Read => return 0,
            Family::Function => c.special,
            // A lane holds long parts of rows, and folds them in its registers.
            Family::Fold => c.alu,
            other => other.price() * c.alu / 16,
        };
        let elements = d.args.iter().chain(&d.results).filter_map(float).max().unwrap_or(0);
        elements * each / u64::from(target.lanes)
    };
    head.iter().map(cost).sum()
}
