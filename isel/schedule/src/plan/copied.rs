//! What the producer of a specialised loop copies, and computes again for that.

use super::lane_copies::places;
use super::replay::{Replay, decisions, replay};
use super::swizzled_tile::SwizzledTile;
use super::views::is_view;
use crate::named::Named;
use crate::reason::NotSpecialised;
use std::collections::HashSet;
use tilelift_ir::{Inst, Kernel, Op, Value};

/// Views that are loaded by bulk copies must not be stored to: the copies run ahead.
pub(super) fn sole_views(kernel: &Kernel, loads: &[(Inst, SwizzledTile)], written: &HashSet<Value>) -> Result<(), NotSpecialised> {
    let view = loads.iter().map(|&(i, _)| kernel.insts[i].args[0]).find(|v| written.contains(v));
    view.map_or(Ok(()), |v| Err(NotSpecialised::Stored { view: Named::of(kernel, v) }))
}

/// What the producer computes again: how many copies there are, and from where.
pub(super) fn copied(
    kernel: &Kernel,
    (main, around): (Inst, &[Inst]),
    written: &HashSet<Value>,
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
    written: &HashSet<Value>,
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
