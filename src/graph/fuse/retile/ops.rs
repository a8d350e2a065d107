//! Which ops combine or move elements.

use tilelift_ir::ops::Rule;
use tilelift_ir::{Inst, Kernel, Op, Value};

/// True for ops that combine or move elements along one axis and do to each line the same.
pub(super) fn along_axis(op: Op) -> bool {
    matches!(
        op.info().rule,
        Rule::Reduce
            | Rule::ArgReduce
            | Rule::Scan
            | Rule::Sort
            | Rule::ArgSort
            | Rule::TopK
            | Rule::ArgTopK
            | Rule::Flip
            | Rule::Concat
            | Rule::GatherTile
    )
}

/// True for instructions in which elements outside of a tensor may get to others.
pub(super) fn moves_elements(kernel: &Kernel, inst: Inst) -> bool {
    let d = &kernel.insts[inst];
    let long = |v: Value| kernel.ty(v).shape().unwrap_or(&[]).iter().copied().filter(|&e| e != 1).collect::<Vec<_>>();
    match d.op.info().rule {
        Rule::Slice => true,
        Rule::Reshape => long(d.args[0]) != long(d.results[0]),
        _ => along_axis(d.op),
    }
}
