//! What the producer of a specialised loop copies, and computes again for that.

use super::lane_copies::places;
use super::replay::{Replay, around, decisions, replay};
use super::tensor_boxes::SwizzledTile;
use super::views::is_view;
use crate::named::Named;
use crate::reason::NotSpecialised;
use tilelift_ir::{Effects, Inst, Kernel, Op, Value};
use tilelift_lane::hash::Set;

/// Views that are loaded by copies must not be stored to before the load may be done: the copies run ahead.
pub(super) fn sole_views(kernel: &Kernel, loads: &[(Inst, SwizzledTile)], written: &Set<Value>) -> Result<(), NotSpecialised> {
    let stored = |i: &Inst| written.contains(&kernel.insts[*i].args[0]) && stored_in_front(kernel, *i);
    let found = loads.iter().map(|l| l.0).find(stored);
    found.map_or(Ok(()), |i| Err(NotSpecialised::Stored { view: Named::of(kernel, kernel.insts[i].args[0]) }))
}

/// True if a program may write the view of a load before that: stores stand in front of it, or in a loop around it.
pub(super) fn stored_in_front(kernel: &Kernel, load: Inst) -> bool {
    let (view, around) = (kernel.insts[load].args[0], around(kernel, load));
    let writes = |i: Inst| {
        matches!(kernel.insts[i].op.info().effects.global(), Effects::Writes | Effects::Updates)
            && kernel.insts[i].args.first() == Some(&view)
    };
    let mut found = false;
    // What a loop around the load does once more, and then what stands in front of that.
    let outermost = around.iter().copied().find(|&i| matches!(kernel.insts[i].op, Op::For | Op::While)).unwrap_or(load);
    kernel.insts[outermost].regions.iter().for_each(|&r| kernel.walk(r, &mut |i| found |= writes(i)));
    let mut passed = false;
    kernel.walk(kernel.body, &mut |i| {
        passed |= i == outermost;
        found |= !passed && writes(i);
    });
    found
}

/// What the producer computes again: how many copies there are, and from where.
pub(super) fn copied(
    kernel: &Kernel,
    (main, around): (Inst, &[Inst]),
    written: &Set<Value>,
    loads: &[(Inst, SwizzledTile)],
) -> Result<Replay, NotSpecialised> {
    let mut wanted = decisions(kernel, main);
    around.iter().for_each(|&i| wanted.extend(decisions(kernel, i)));
    wanted.extend(loads.iter().flat_map(|&(i, _)| places(kernel, i)));
    computed_again(kernel, (main, around), written, wanted)
}

/// What the producer computes again for these.
pub(super) fn computed_again(
    kernel: &Kernel,
    at: (Inst, &[Inst]),
    written: &Set<Value>,
    wanted: Vec<Value>,
) -> Result<Replay, NotSpecialised> {
    replay(kernel, at, written, wanted, &|_| false).map_err(|v| NotSpecialised::Address { value: Named::of(kernel, v) })
}

/// True for loads that fill a ring, and other views of what they bring.
pub(crate) fn in_ring(kernel: &Kernel, loads: &[(Inst, SwizzledTile)], i: Inst) -> bool {
    let d = &kernel.insts[i];
    match d.op {
        Op::Load | Op::Gather => loads.iter().any(|l| l.0 == i),
        Op::Transpose | Op::Reshape => kernel.def_inst(d.args[0]).is_some_and(|j| in_ring(kernel, loads, j)),
        _ => is_view(kernel, i) && kernel.def_inst(d.args[0]).is_some_and(|j| in_ring(kernel, loads, j)),
    }
}

/// True if a value is another one, or what that is a view of.
pub(super) fn behind(kernel: &Kernel, mut v: Value, of: Value) -> bool {
    while v != of {
        match kernel.def_inst(v).filter(|&i| matches!(kernel.insts[i].op, Op::Transpose | Op::Reshape) || is_view(kernel, i)) {
            Some(i) => v = kernel.insts[i].args[0],
            None => return false,
        }
    }
    true
}
