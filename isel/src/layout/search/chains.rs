//! What lanes compute around the products of a specialised loop.
//!
//! Two warpgroups at most are there, so nothing hides how long a function takes from its operand to its result: a lane's elements
//! go through it one behind the other. Simple ops of neighbouring elements run side by side, but beside such a function they wait with it.

use tilelift_egraph::cost::Family;
use tilelift_ir::{Inst, Kernel, Op, Region, Scalar, Type, Work};
use tilelift_lane::{Costs, Target};

/// Steps of a function, each of which needs the one before: instructions of the H200's code for it.
fn steps(op: Op, elem: Scalar) -> u64 {
    match op.info().work {
        Some(Work::Division) if elem.is_float() => 14,
        Some(Work::Special(n) | Work::Composite(n)) => n.into(),
        _ => 1,
    }
}

/// Functions of this many steps are not taken apart and mixed with those of the next element.
const LONG: u64 = 9;

fn elements(kernel: &Kernel, i: Inst) -> Option<(u64, Scalar)> {
    let d = &kernel.insts[i];
    let v = *d.results.first()?;
    match kernel.ty(v) {
        Type::Tile(t) if d.op.computes_elements() => Some((t.elements(), t.elem)),
        _ => None,
    }
}

/// The cost of the ops of a region, those of its own regions left out, as chains of a lane's elements over so many warps; nothing where no
/// function is long.
pub(super) fn chains(kernel: &Kernel, region: Region, target: &Target, warps: u32) -> u64 {
    let lanes = u64::from(warps * target.lanes);
    let list: Vec<(u64, u64)> = (kernel.regions[region].insts.iter())
        .filter_map(|&i| elements(kernel, i).map(|(n, elem)| (n, steps(kernel.insts[i].op, elem))))
        .collect();
    if list.iter().all(|x| x.1 < LONG) {
        return 0;
    }
    list.iter().map(|&(n, steps)| n.div_ceil(lanes) * steps).sum::<u64>() * target.costs.chain
}

/// The cost of the ops of a region by the instructions that they issue.
pub(super) fn issued(kernel: &Kernel, region: Region, costs: &Costs, lanes: u32) -> u64 {
    let each = |i: Inst| -> Option<u64> {
        let d = &kernel.insts[i];
        let (n, elem) = match d.op {
            Op::Reduce => (kernel.ty(d.args[0]).as_tile()?.elements(), kernel.ty(d.args[0]).elem()),
            _ => elements(kernel, i)?,
        };
        let price = match Family::of(d.op, elem) {
            Family::Function => costs.special,
            Family::Fold => costs.alu,
            f => f.price() * costs.alu / 16,
        };
        Some(n.div_ceil(u64::from(lanes)) * price)
    };
    kernel.regions[region].insts.iter().filter_map(|&i| each(i)).sum()
}
