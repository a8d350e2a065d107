//! Loads that only dots read: candidates for shared memory, and what requirements of layouts leave to a loop.

use super::masked::applies_behind_copy;
use super::views::{is_view, keeps_extents, merges_rows};
use crate::reason::NotSpecialised;
use cranelift_entity::SecondaryMap;
use tilelift_ir::require::{requirements, spec};
use tilelift_ir::{Inst, Kernel, LayoutSpec, Op, Value};

/// Loads without mask and `other` that are read by nothing but dots, through transposes and dropped extents of 1 at most.
pub fn staged_loads(kernel: &Kernel) -> SecondaryMap<Inst, bool> {
    loads_for_dots(kernel, &[Op::Load], &|_| false, &|_| false)
}

/// The same, and those with a mask and `other`: lanes that copy a tile leave out what these say.
pub(crate) fn copied_loads(kernel: &Kernel) -> SecondaryMap<Inst, bool> {
    loads_for_dots(kernel, &[Op::Load, Op::Gather], &|_| true, &|_| false)
}

/// The same of tiles in buffers.
pub(super) fn local_loads(kernel: &Kernel) -> SecondaryMap<Inst, bool> {
    loads_for_dots(kernel, &[Op::LocalLoad], &|_| false, &|_| false)
}

/// The same, and gathers, and loads under masks that may be applied behind a copy, where requirements say how they wait, or rows are merged: those are
/// other views of what a ring holds.
pub fn ring_loads(kernel: &Kernel) -> SecondaryMap<Inst, bool> {
    loads_for_dots(kernel, &[Op::Load, Op::Gather], &|i| applies_behind_copy(kernel, i), &|i| is_view(kernel, i) || merges_rows(kernel, i))
}

fn loads_for_dots(kernel: &Kernel, loads: &[Op], masked: &dyn Fn(Inst) -> bool, view: &dyn Fn(Inst) -> bool) -> SecondaryMap<Inst, bool> {
    let mut staged = SecondaryMap::with_default(false);
    // Without the one or the other there is nothing to find.
    let has = |op: Op| kernel.insts.values().any(|d| d.op == op);
    if !(has(Op::Dot) || has(Op::DotScaled)) || !loads.iter().any(|&op| has(op)) {
        return staged;
    }
    let mut order = Vec::with_capacity(kernel.insts.len());
    kernel.walk(kernel.body, &mut |i| order.push(i));
    // Whoever uses a value stands behind it, so that from the last instruction to the first all is known of what uses a value: whether dots do, and
    // whether anything else does.
    let mut users: SecondaryMap<Value, [bool; 2]> = SecondaryMap::new();
    users.resize(kernel.values.len());
    staged.resize(kernel.insts.len());
    let only_dots =
        |users: &SecondaryMap<Value, [bool; 2]>, i: Inst| kernel.insts[i].results.first().is_some_and(|&v| users[v] == [true, false]);
    for &i in order.iter().rev() {
        let d = &kernel.insts[i];
        // Packed elements are unpacked in registers.
        staged[i] = loads.contains(&d.op)
            && only_dots(&users, i)
            && !kernel.ty(d.results[0]).elem().is_packed()
            && (d.present == 0 || d.op == Op::Gather || masked(i));
        let passes = match d.op {
            Op::Dot | Op::DotScaled => false,
            Op::Transpose => only_dots(&users, i),
            Op::Reshape if keeps_extents(kernel, i) => only_dots(&users, i),
            _ => only_dots(&users, i) && view(i),
        };
        for (k, &v) in d.args.iter().enumerate() {
            // The matrices of a batch are taken from registers.
            let matrix = || kernel.ty(v).as_tile().is_some_and(|t| t.shape.len() == 2);
            let factor = || matches!(d.op, Op::Dot | Op::DotScaled) && d.op.factors().is_some_and(|[a, b, _]| k == a || k == b);
            let dots = passes || factor() && matrix();
            users[v][usize::from(!dots)] = true;
        }
    }
    staged
}

/// Whether a specialised loop leaves requirements their layouts: it has its own in the loop, and so many warps behind it.
///
/// # Errors
/// It does not.
pub(super) fn suits(kernel: &Kernel, main: Inst, warps: u32) -> Result<(), NotSpecialised> {
    let Ok(held) = requirements(kernel) else { return Ok(()) };
    let d = &kernel.insts[main];
    let other_view = |s: Inst| is_view(kernel, s) && kernel.regions[d.regions[0]].insts.contains(&s);
    let holds = |list: &[Value]| list.iter().any(|&v| held[v].is_some_and(|s| !other_view(s)));
    let mut inside = holds(&d.results);
    for &r in &d.regions {
        inside |= holds(&kernel.regions[r].params);
        kernel.walk(r, &mut |i| inside |= holds(&kernel.insts[i].results));
    }
    if inside {
        return Err(NotSpecialised::RequiredInside);
    }
    let mut other = None;
    kernel.walk(kernel.body, &mut |i| {
        if kernel.insts[i].op == Op::RequireLayout
            && let Some([_, n]) = spec(kernel, i).and_then(LayoutSpec::spread)
            && n != u64::from(warps)
        {
            other.get_or_insert(n);
        }
    });
    other.map_or(Ok(()), |required| Err(NotSpecialised::RequiredWarps { required, warps }))
}
