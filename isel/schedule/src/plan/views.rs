//! Other views of a tile: the same elements, transposed, with other extents of 1, or as a ring sees them.

use tilelift_ir::require::spec;
use tilelift_ir::{Attr, DotPart, Inst, Kernel, LayoutSpec, Op, Value};

/// True if a reshape only adds or drops extents of 1, as a batch dimension is dropped: every staged map follows it.
pub fn keeps_extents(kernel: &Kernel, i: Inst) -> bool {
    let d = &kernel.insts[i];
    let real = |v: Value| kernel.ty(v).as_tile().map(|t| t.shape.iter().copied().filter(|&e| e != 1).collect::<Vec<u32>>());
    matches!((real(d.args[0]), real(d.results[0])), (Some(a), Some(b)) if a == b)
}

/// True for a reshape of what a load brings that merges or parts its rows, as image rows become rows of a matrix: the same bytes in the same
/// order, in rows of the same length.
pub fn merges_rows(kernel: &Kernel, i: Inst) -> bool {
    let d = &kernel.insts[i];
    let row = |v: Value| kernel.ty(v).as_tile().and_then(|t| t.shape.iter().copied().rfind(|&e| e != 1));
    let loaded = || kernel.def_inst(d.args[0]).is_some_and(|j| kernel.insts[j].op == Op::Load);
    d.op == Op::Reshape && !keeps_extents(kernel, i) && loaded() && row(d.args[0]).is_some() && row(d.args[0]) == row(d.results[0])
}

/// True for a reshape of a matrix that parts its rows, as those of a matrix become image rows: its columns stay what they are.
pub fn parts_rows(kernel: &Kernel, i: Inst) -> bool {
    let d = &kernel.insts[i];
    if d.op != Op::Reshape {
        return false;
    }
    let shape = |v: Value| kernel.ty(v).as_tile().map(|t| t.shape.clone());
    let (Some(from), Some(to)) = (shape(d.args[0]), shape(d.results[0])) else { return false };
    from.len() == 2 && !keeps_extents(kernel, i) && to.last() == from.last()
}

/// True for a requirement that says how an operand of a ring is read: another view of it, as the ring sees it.
pub fn is_view(kernel: &Kernel, i: Inst) -> bool {
    kernel.insts[i].op == Op::RequireLayout && matches!(spec(kernel, i), Some(LayoutSpec::Swizzle(_) | LayoutSpec::Mma(DotPart::A)))
}

/// True for a requirement of a swizzle.
pub fn is_swizzle(kernel: &Kernel, i: Inst) -> bool {
    kernel.insts[i].op == Op::RequireLayout && matches!(spec(kernel, i), Some(LayoutSpec::Swizzle(_)))
}

/// The load behind a dot's operand, through transposes and dropped extents, and the operand's dimension that is contiguous in memory.
pub fn trace(kernel: &Kernel, v: Value, contiguous: &dyn Fn(Inst) -> Option<usize>) -> Option<(Inst, usize)> {
    let i = kernel.def_inst(v)?;
    let d = &kernel.insts[i];
    match (d.op, d.attrs.first()) {
        (Op::Load | Op::Gather, _) => Some((i, contiguous(i)?)),
        (Op::Transpose, Some(Attr::Perm(p))) => {
            let (load, c) = trace(kernel, d.args[0], contiguous)?;
            Some((load, p.iter().position(|&x| x as usize == c)?))
        }
        (Op::Reshape, _) if keeps_extents(kernel, i) => {
            let (load, c) = trace(kernel, d.args[0], contiguous)?;
            let from = &kernel.ty(d.args[0]).as_tile()?.shape;
            let to = &kernel.ty(v).as_tile()?.shape;
            let nth = from[..c].iter().filter(|&&e| e != 1).count();
            let real = to.iter().enumerate().filter(|(_, e)| **e != 1).nth(nth)?;
            Some((load, real.0))
        }
        (Op::Reshape, _) if merges_rows(kernel, i) => {
            let (load, c) = trace(kernel, d.args[0], contiguous)?;
            let last = |v: Value| kernel.ty(v).as_tile()?.shape.iter().rposition(|&e| e != 1);
            if Some(c) == last(d.args[0]) { Some((load, last(v)?)) } else { None }
        }
        _ if is_view(kernel, i) => trace(kernel, d.args[0], contiguous),
        _ => None,
    }
}

/// The value of which a tile is another view: the same elements in the same order, with other extents of 1.
pub fn behind_reshapes(kernel: &Kernel, mut v: Value) -> Value {
    let same = |i: &Inst| (kernel.insts[*i].op == Op::Reshape && keeps_extents(kernel, *i)) || is_swizzle(kernel, *i);
    while let Some(i) = kernel.def_inst(v).filter(same) {
        v = kernel.insts[i].args[0];
    }
    v
}
