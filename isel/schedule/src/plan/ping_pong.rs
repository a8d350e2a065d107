//! Whether two sets of consumers take grid positions in ping-pong: one multiplies while the other one stores. It is asked where a loop's plan is made
//! (`specialise.rs`); `program/ping_pong.rs` writes the program. Loops of such consumers have as many steps at every
//! grid position. (Warpgroups that multiply in turns, which FlashAttention-3 calls ping-pong, too, are in `turns.rs`.)

use super::budget::loaded_behind;
use super::products::accumulator_shape;
use super::replay::slice;
use super::specialised::Specialised;
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
    // With steps of 2 or more the number is an `i32`, and so it is from 0 on.
    let from_zero = kernel.as_const(bounds[0]).is_some_and(|c| matches!(c.0, Literal::Int(0)));
    let by = step.and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 1 || n == 1 && from_zero)?;
    made.iter().all(everywhere).then_some((made, by))
}

/// True if tasks that take grid positions in ping-pong may pass over one another's steps of a loop by their number.
pub(crate) fn can_ping_pong(kernel: &Kernel, main: Inst) -> bool {
    alike(kernel, main).is_some()
}

/// Columns of a result from which on two sets are quicker: a set begins so many products with a slot that the unit is at work until its next one is full.
/// (H200, 128x128x64 in 12 to 64 waves: 2 to 5% quicker than cooperative warpgroups; in one wave 1 to 3% slower. Narrower tiles are slower.)
const COLUMNS: u32 = 128;

/// True for a product that gives one warpgroup work enough in each step.
pub(crate) fn wide_enough(kernel: &Kernel, dot: Inst) -> bool {
    accumulator_shape(kernel, dot).is_some_and(|[_, n]| n >= COLUMNS)
}

/// True for a loop of plain products whose consumers would better take grid positions in ping-pong than share the rows of one: one warpgroup has work
/// enough in each step, and the other one stores meanwhile.
pub(super) fn ping_pong_pays(kernel: &Kernel, s: &Specialised) -> bool {
    let plain = s.persistent && !s.mixed && !s.promoted && s.register_a.is_empty() && s.transposed_b.is_empty();
    let [(dot, _)] = s.dots[..] else { return false };
    // One warpgroup holds all accumulators, and has nothing to spare for tiles beside them; sets that wait for tiles behind their loops hold up one another (log §42).
    plain
        && loaded_behind(kernel, s.main, 1) == 0
        && s.consumers == 2
        && s.consumer_sets == 1
        && wide_enough(kernel, dot)
        && can_ping_pong(kernel, s.main)
}
