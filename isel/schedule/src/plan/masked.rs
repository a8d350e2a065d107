//! Operands under masks: a copy brings the tile whole, and lanes put zeros in its slot where the mask leaves it out.
//!
//! ```text
//! load x[t, m], mask = (t + iota < end)      ─►      a copy of all rows ─ in a step that the end cuts: zeros in the rest of the rows
//! ```
//!
//! What lies outside of the view a copy brings as zeros, so that a mask is all there is to add. It has to follow from the loop's index and from what
//! stands outside of the loop: the consumers compute it anew when a slot is full.

use super::overlap::is_zero;
use super::replay::{around, slice_by};
use std::collections::BTreeSet;
use tilelift_ir::{Effects, Inst, Kernel, Literal, Op, Region, Type, Value, ValueDef};

/// True for a load in a loop that says what it leaves out, where that is zero and can be put there behind a copy.
pub(super) fn applies_behind_copy(kernel: &Kernel, i: Inst) -> bool {
    let d = &kernel.insts[i];
    let &[mask] = kernel.operand(i, "mask") else { return false };
    let whole = d.op == Op::Load && !kernel.ty(d.results[0]).elem().is_packed() && zeros_instead(kernel, i);
    let Some(&main) = around(kernel, i).last() else { return false };
    let Some(&region) = kernel.insts[main].regions.first().filter(|_| kernel.insts[main].op == Op::For) else { return false };
    whole && kernel.regions[region].insts.contains(&i) && follows(kernel, region, mask)
}

/// True for a load that has zeros where its mask leaves it out, as a copy has outside of the view.
pub(super) fn zeros_instead(kernel: &Kernel, i: Inst) -> bool {
    kernel.operand(i, "other").iter().all(|&v| match kernel.as_const(v) {
        Some((Literal::Int(x), _)) => x == 0,
        Some((Literal::Float(bits), _)) => bits == 0,
        None => is_zero(kernel, v),
    })
}

/// True for a load of which a copy brings more than it asks for.
pub(crate) fn is_masked(kernel: &Kernel, i: Inst) -> bool {
    kernel.insts[i].op == Op::Load && !kernel.operand(i, "mask").is_empty()
}

/// What masks are made of in a loop, in program order.
pub(crate) fn mask_slice(kernel: &Kernel, region: Region, loads: &[Inst]) -> Vec<Inst> {
    let body = &kernel.regions[region].insts;
    let inside: BTreeSet<Inst> = body.iter().copied().collect();
    let open = loads.iter().flat_map(|&i| kernel.operand(i, "mask").iter().copied()).collect();
    let slice = slice_by(kernel, open, &|i, take| {
        if inside.contains(&i) {
            kernel.insts[i].args.iter().for_each(|&v| take(v));
        }
    });
    body.iter().copied().filter(|i| slice.contains(i)).collect()
}

/// True for what a step computes of its index, and of what it finds.
fn follows(kernel: &Kernel, region: Region, mask: Value) -> bool {
    let index = kernel.regions[region].params.first();
    let mut open = vec![mask];
    let mut seen = BTreeSet::new();
    while let Some(v) = open.pop() {
        match kernel.values[v].def {
            ValueDef::KernelParam(_) => {}
            ValueDef::RegionParam(r, _) => {
                if r == region && index != Some(&v) {
                    return false;
                }
            }
            ValueDef::Result(i, _) if kernel.regions[region].insts.contains(&i) => {
                let d = &kernel.insts[i];
                let pure = d.op.info().effects == Effects::Pure && d.regions.is_empty() && d.op != Op::Dot;
                if !pure || matches!(kernel.ty(v), Type::Tile(t) if t.elem.is_float()) {
                    return false;
                }
                if seen.insert(i) {
                    open.extend(&d.args);
                }
            }
            ValueDef::Result(..) => {}
        }
    }
    true
}
