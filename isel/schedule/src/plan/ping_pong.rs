//! Loops whose number of steps is the same at every grid position, as consumers that take positions in ping-pong need it.

use super::replay::slice;
use std::collections::BTreeSet;
use tilelift_ir::{Effects, Inst, Kernel, Literal, Op, Scalar};

/// What the bounds of a loop are made of, and its step, if it has as many steps at every grid position, and these are an `i32`.
pub(crate) fn alike(kernel: &Kernel, main: Inst) -> Option<(BTreeSet<Inst>, u32)> {
    // In other loops and choices it may not run at all, or more than once.
    if !kernel.regions[kernel.body].insts.contains(&main) {
        return None;
    }
    let bounds = &kernel.insts[main].args[..3];
    let made = slice(kernel, bounds.to_vec());
    let everywhere = |&i: &Inst| {
        let d = &kernel.insts[i];
        d.op != Op::ProgramId && d.op.info().effects == Effects::Pure && d.regions.is_empty()
    };
    let step = kernel.as_const(bounds[2]).and_then(|c| if let (Literal::Int(n), Scalar::I32) = c { Some(n) } else { None });
    // With steps of 2 or more the number is an `i32`.
    let by = step.and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 1)?;
    made.iter().all(everywhere).then_some((made, by))
}

/// True if tasks that take grid positions in ping-pong may pass over one another's steps of a loop by their number.
pub(crate) fn can_ping_pong(kernel: &Kernel, main: Inst) -> bool {
    alike(kernel, main).is_some()
}
