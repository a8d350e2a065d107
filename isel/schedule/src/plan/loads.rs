//! Loads that only dots read: candidates for shared memory, and what requirements of layouts leave to a loop.

use super::ring_layouts::is_view;
use crate::reason::NotSpecialised;
use cranelift_entity::SecondaryMap;
use tilelift_ir::require::{requirements, spec};
use tilelift_ir::{Inst, Kernel, LayoutSpec, Op, Value};

/// True if a reshape only adds or drops extents of 1, as a batch dimension is dropped: every staged map follows it.
pub fn keeps_extents(kernel: &Kernel, i: Inst) -> bool {
    let d = &kernel.insts[i];
    let real = |v: Value| kernel.ty(v).as_tile().map(|t| t.shape.iter().copied().filter(|&e| e != 1).collect::<Vec<u32>>());
    matches!((real(d.args[0]), real(d.results[0])), (Some(a), Some(b)) if a == b)
}

/// Loads without mask and `other` that are read by nothing but dots, through transposes and dropped extents of 1 at most.
pub fn staged_loads(kernel: &Kernel) -> SecondaryMap<Inst, bool> {
    loads_for_dots(kernel, Op::Load, &|_| false)
}

/// The same of tiles in buffers.
pub(super) fn local_loads(kernel: &Kernel) -> SecondaryMap<Inst, bool> {
    loads_for_dots(kernel, Op::LocalLoad, &|_| false)
}

/// The same where requirements say how they wait: those are other views of what a ring holds.
pub fn ring_loads(kernel: &Kernel) -> SecondaryMap<Inst, bool> {
    loads_for_dots(kernel, Op::Load, &|i| is_view(kernel, i))
}

fn loads_for_dots(kernel: &Kernel, load: Op, view: &dyn Fn(Inst) -> bool) -> SecondaryMap<Inst, bool> {
    let mut uses: SecondaryMap<Value, Vec<(Inst, usize)>> = SecondaryMap::new();
    let mut order = Vec::new();
    kernel.walk(kernel.body, &mut |i| order.push(i));
    for &i in &order {
        for (k, &a) in kernel.insts[i].args.iter().enumerate() {
            uses[a].push((i, k));
        }
    }
    // Whoever uses a value stands behind it, so that from the last instruction to the first all is known of what uses a value.
    let mut only_dots = SecondaryMap::with_default(false);
    for &i in order.iter().rev() {
        for &v in &kernel.insts[i].results {
            only_dots[v] = !uses[v].is_empty()
                && uses[v].iter().all(|&(i, k)| match kernel.insts[i].op {
                    // The matrices of a batch are taken from registers.
                    Op::Dot => k < 2 && kernel.ty(v).as_tile().is_some_and(|t| t.shape.len() == 2),
                    Op::Transpose => only_dots[kernel.insts[i].results[0]],
                    Op::Reshape => keeps_extents(kernel, i) && only_dots[kernel.insts[i].results[0]],
                    _ => view(i) && only_dots[kernel.insts[i].results[0]],
                });
        }
    }
    let mut staged = SecondaryMap::with_default(false);
    for &i in &order {
        let d = &kernel.insts[i];
        // Packed elements are unpacked in registers.
        let packed = d.op == load && kernel.ty(d.results[0]).elem().is_packed();
        staged[i] = d.op == load && !packed && d.present == 0 && only_dots[d.results[0]];
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
