//! Sliced K: loops whose steps several sets of consumers take in turns, each into accumulators of its own.
//!
//! Where a product has the rows of one instruction, a second warpgroup could only share its columns, and would compute operand A once more. Steps of a
//! loop that does nothing but add up products may be taken by anybody, in any order (`dot` sums in any order), so that one warpgroup converts while
//! another one multiplies.

use super::overlap::is_zero;
use super::products::accumulates;
use tilelift_ir::{Effects, Inst, Kernel, Literal, Op, Scalar};

/// Sets that take steps in turns at most. Slots are a multiple of their number, so that each set finds its steps in the same ones, and waits for each
/// of their phases.
const MOST_SETS: u32 = 4;

/// The largest distance of two steps of a set.
const MOST: i64 = 1 << 24;

/// True for a loop that does nothing but add up products, as far as anybody sees.
pub(super) fn only_sums(kernel: &Kernel, main: Inst, dots: &[Inst]) -> bool {
    let region = kernel.insts[main].regions[0];
    let sums = |i: &Inst| accumulates(kernel, region, *i) && !is_zero(kernel, kernel.insts[*i].args[2]);
    let quiet = |&i: &Inst| {
        let d = &kernel.insts[i];
        matches!(d.op.info().effects, Effects::Pure | Effects::Reads) && d.regions.is_empty() || d.op == Op::Yield
    };
    let yields = kernel.yields(region).iter().all(|&v| kernel.def_inst(v).is_some_and(|i| dots.contains(&i)));
    yields && dots.iter().all(sums) && kernel.regions[region].insts.iter().all(quiet)
}

/// True for what others see of an instruction, or of those inside of it: writes, updates, stops and reports.
fn is_seen(kernel: &Kernel, i: Inst) -> bool {
    let acts = |i: Inst| !matches!(kernel.insts[i].op.info().effects, Effects::Pure | Effects::Reads | Effects::Control);
    let mut seen = acts(i);
    kernel.insts[i].regions.iter().for_each(|&r| kernel.walk(r, &mut |j| seen |= acts(j)));
    seen
}

/// How many sets of consumers may take the steps of a loop in turns at most; 1 if that may not be.
pub(super) fn slices(kernel: &Kernel, main: Inst, dots: &[Inst]) -> u32 {
    let d = &kernel.insts[main];
    let literal = |n: usize| match kernel.as_const(d.args[n]) {
        Some((Literal::Int(x), Scalar::I32)) => Some(x),
        _ => None,
    };
    // Their first steps are numbers that no sum leaves.
    let counted = literal(0).is_some_and(|lo| (0..MOST).contains(&lo)) && literal(2).is_some_and(|by| (1..MOST).contains(&by));
    let results = d.results.iter().all(|&v| kernel.ty(v).as_tile().is_some());
    // Each set comes by what stands in front of the loop.
    let block = &kernel.regions[kernel.body].insts;
    let alone = block.iter().position(|&i| i == main).is_some_and(|at| !block[..at].iter().any(|&i| is_seen(kernel, i)));
    if !(alone && counted && results && only_sums(kernel, main, dots)) {
        return 1;
    }
    MOST_SETS
}

/// Bytes of what so many sets hand over.
pub(super) fn slice_bytes(kernel: &Kernel, main: Inst, slices: u32) -> u32 {
    let tiles = kernel.insts[main].results.iter().filter_map(|&v| kernel.ty(v).as_tile());
    tiles.map(|t| (t.elements() * u64::from(t.elem.bytes())) as u32).sum::<u32>() * (slices - 1)
}
