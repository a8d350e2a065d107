//! Which loops, and which of their loads, copies bring whose pieces lie side by side ([`Target::copies_in_rows`]).

use crate::access::GlobalAccess;
use crate::plan::summed;
use tilelift_ir::{Effects, Extent, Inst, Kernel, Literal, Op, Value, ValueDef};
use tilelift_lane::Target;
use tilelift_lane::hash::Set;

/// The largest step that two of them are made one of.
const MOST: i64 = 1 << 20;

/// The step of a loop that may go in pairs: it counts from zero by a power of two.
pub(super) fn pair_step(kernel: &Kernel, main: Inst) -> Option<i64> {
    let args = &kernel.insts[main].args;
    let constant = |v: Value| if let Some((Literal::Int(c), _)) = kernel.as_const(v) { Some(c) } else { None };
    let step = constant(args[2]).filter(|&s| (1..=MOST).contains(&s) && s.count_ones() == 1)?;
    (constant(args[0]) == Some(0)).then_some(step)
}

/// True if copies whose pieces lie side by side bring a load for its products: whole pieces, as many as there are lanes, in rows along the dimension
/// that is summed over, which may go through a window, whose bounds follow from parameters.
pub(super) fn copied_in_rows(kernel: &Kernel, target: &Target, warps: u32, load: Inst) -> bool {
    let Some(&size) = target.copy_async.iter().max().filter(|_| kernel.insts[load].op == Op::Load) else { return false };
    let access = GlobalAccess::of(kernel, load);
    let (elem, order) = (access.view.elem.bytes(), access.order());
    let result = kernel.insts[load].results[0];
    let (Some(shape), Some(last)) = (kernel.ty(result).shape(), access.view.rank().checked_sub(1)) else { return false };
    let zeros = kernel.operand(load, "other").iter().all(|&v| matches!(kernel.as_const(v), Some((Literal::Int(0), _))));
    let rows = shape[..last].iter().filter(|&&e| e > 1).count();
    let bytes = shape.iter().map(|&e| u64::from(e)).product::<u64>() * u64::from(elem);
    !access.packed
        && access.mask.is_none()
        && zeros
        && order.first() == Some(&last)
        && access.view.stride(last) == Extent::Fixed(1)
        && rows <= 1
        && shape.iter().all(|e| e.is_power_of_two())
        && access.vector_elements(size) * elem >= size
        && bytes >= u64::from(size * target.lanes * warps)
        && summed(kernel, result) == Some(last)
        && computed(kernel, &access.indices)
}

/// True if values follow from parameters, the place in the grid and indices of loops, and not from memory: the proof follows no choice on what is read.
fn computed(kernel: &Kernel, values: &[Value]) -> bool {
    let (mut open, mut seen): (Vec<Value>, Set<Value>) = (values.to_vec(), Set::default());
    while let Some(v) = open.pop() {
        if !seen.insert(v) {
            continue;
        }
        match kernel.values[v].def {
            ValueDef::KernelParam(_) => {}
            ValueDef::Result(i, _) if kernel.insts[i].op.info().effects == Effects::Pure && kernel.insts[i].regions.is_empty() => {
                open.extend(&kernel.insts[i].args);
            }
            ValueDef::RegionParam(r, 0) if kernel.holder(r).is_some_and(|i| kernel.insts[i].op == Op::For) => {
                open.extend(kernel.holder(r).iter().flat_map(|&i| [kernel.insts[i].args[0], kernel.insts[i].args[2]]));
            }
            ValueDef::Result(..) | ValueDef::RegionParam(..) => return false,
        }
    }
    true
}
