//! Loads that the consumers do a step ahead, into registers: what no ring holds (gathers, vectors beside products), and what follows from the
//! loop's index and from memory that nobody writes.
//!
//! ```text
//! a step:   products begin ─ loads of the next step begin ─ wait for the products
//! ```
//!
//! What several steps share, as scales of groups that are longer than a step, is loaded where its place changes (see [`renewed_by`]).

use super::products::operand_registers;
use super::replay::{needs, slice_by};
use std::collections::BTreeSet;
use tilelift_ir::{Effects, Inst, Kernel, Literal, Op, Region, Value, ValueDef};
use tilelift_lane::hash::Set;

/// Lanes over which the columns of a row are spread.
pub(crate) const LANES_OF_ROW: u32 = 4;

/// A load that may be done a step ahead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Prefetch {
    /// The load.
    pub load: Inst,
    /// Registers per lane of what it brings.
    pub registers: u32,
}

/// True for a shape with two extents at least.
pub(crate) fn is_matrix(shape: &[u32]) -> bool {
    shape.iter().filter(|&&e| e > 1).count() > 1
}

/// Lanes, of so many, that have parts of their own of what lies as a product's sums do: the lanes of a row hold the same of what its columns share, and all
/// rows the same of what they share.
pub(crate) fn spread(shape: &[u32], lanes: u32) -> u32 {
    match shape {
        _ if is_matrix(shape) => lanes,
        [.., 1] => lanes / LANES_OF_ROW,
        _ => LANES_OF_ROW,
    }
}

/// The loads of a loop's body, among those that are `computed` there, that may be done a step ahead by so many lanes.
pub(super) fn prefetches(
    kernel: &Kernel,
    region: Region,
    written: &Set<Value>,
    computed: &dyn Fn(Inst) -> bool,
    lanes: u32,
) -> Vec<Prefetch> {
    let body = &kernel.regions[region].insts;
    let loads = body.iter().copied().filter(|&i| computed(i) && matches!(kernel.insts[i].op, Op::Load | Op::Gather));
    let ahead = loads.filter(|&i| slice_ahead(kernel, region, &[i]).iter().all(|&j| again(kernel, region, j, written)));
    let registers = |i: Inst| {
        let v = kernel.insts[i].results[0];
        let Some(shape) = kernel.ty(v).shape() else { return 1 };
        operand_registers(kernel, v, spread(shape, lanes)).max(1)
    };
    ahead.map(|load| Prefetch { load, registers: registers(load) }).collect()
}

/// What loads need in the loop's body, themselves included, in program order.
pub(crate) fn slice_ahead(kernel: &Kernel, region: Region, loads: &[Inst]) -> Vec<Inst> {
    let body = &kernel.regions[region].insts;
    let inside: BTreeSet<Inst> = body.iter().copied().collect();
    let open = loads.iter().filter_map(|&i| kernel.insts[i].results.first().copied()).collect();
    let slice = slice_by(kernel, open, &|i, take| {
        if inside.contains(&i) {
            needs(kernel, i, take);
        }
    });
    body.iter().copied().filter(|i| slice.contains(i)).collect()
}

/// The quotient of a loop's index from which alone the places of loads follow, if neighbouring steps share it: scales of groups that are longer than
/// a step.
pub(crate) fn renewed_by(kernel: &Kernel, main: Inst, loads: &[Inst]) -> Option<Inst> {
    let region = kernel.insts[main].regions[0];
    let number = |v: Value| match kernel.as_const(v) {
        Some((Literal::Int(n), _)) => Some(n),
        _ => None,
    };
    let index = *kernel.regions[region].params.first()?;
    let mut found = slice_ahead(kernel, region, loads).into_iter().filter(|&i| kernel.insts[i].args.contains(&index));
    let (quotient, step) = (found.next()?, number(kernel.insts[main].args[2])?);
    let d = &kernel.insts[quotient];
    let span = match (d.op, d.args.as_slice()) {
        (Op::Div, &[x, by]) if x == index => number(by)?,
        (Op::ShrU, &[x, by]) if x == index => 1i64.checked_shl(number(by)?.try_into().ok()?)?,
        _ => return None,
    };
    (found.next().is_none() && step > 0 && step < span).then_some(quotient)
}

/// True for what may be done for the next step, too: it follows from the loop's index alone, and reads what nobody writes.
fn again(kernel: &Kernel, region: Region, i: Inst, written: &Set<Value>) -> bool {
    let d = &kernel.insts[i];
    let free = match d.op.info().effects {
        Effects::Pure => d.op != Op::Dot,
        Effects::Reads => d.args.first().is_some_and(|v| !written.contains(v)),
        Effects::Control
        | Effects::Writes
        | Effects::Updates
        | Effects::Observes
        | Effects::Shared
        | Effects::AsyncReads
        | Effects::AsyncWrites
        | Effects::AsyncUpdates => false,
    };
    let carried = |v: &Value| matches!(kernel.values[*v].def, ValueDef::RegionParam(r, n) if r == region && n > 0);
    free && d.regions.is_empty() && !d.args.iter().any(carried)
}
