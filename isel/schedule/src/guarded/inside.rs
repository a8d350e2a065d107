//! What only one arm of a choice reads goes there: operands of its products are loaded where these are, or not at all.
//!
//! ```text
//! t = load …                       if c {
//! if c { … dot t … }      ─►           t = load …
//!                                      … dot t … }
//! ```

use crate::rewrite::Rewrite;
use std::collections::BTreeSet;
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Value};
use tilelift_lane::hash::Set;

impl Rewrite {
    /// Moves computations, and loads of memory that nobody writes, from in front of a choice into an arm that alone reads them.
    pub(super) fn take_inside(&mut self, (region, choice): (Region, Inst), arm: Region, written: &Set<Value>) {
        let kernel = &mut self.kernel;
        let insts = &kernel.regions[region].insts;
        let Some(at) = insts.iter().position(|&i| i == choice) else { return };
        let mut wanted: BTreeSet<Value> = kernel.insts[choice].args.iter().copied().collect();
        kernel.insts[choice].regions.iter().filter(|r| **r != arm).for_each(|&r| read_in(kernel, r, &mut wanted));
        insts[at + 1..].iter().for_each(|&i| read_by(kernel, i, &mut wanted));
        let mut taken: Vec<Inst> = Vec::new();
        // From the last one on: who reads what goes there stands behind it.
        for &i in insts[..at].iter().rev() {
            let d = &kernel.insts[i];
            let loads = d.op == Op::Load && !written.contains(&d.args[0]);
            let moves = (loads || d.op.info().effects == Effects::Pure) && d.regions.is_empty();
            if moves && d.results.iter().all(|v| !wanted.contains(v)) {
                taken.push(i);
            } else {
                read_by(kernel, i, &mut wanted);
            }
        }
        taken.reverse();
        kernel.regions[region].insts.retain(|i| !taken.contains(i));
        kernel.regions[arm].insts.splice(0..0, taken);
    }
}

/// Notes what an instruction reads, and those in its regions.
fn read_by(kernel: &Kernel, inst: Inst, out: &mut BTreeSet<Value>) {
    let d = &kernel.insts[inst];
    out.extend(d.args.iter().copied());
    d.regions.iter().for_each(|&r| read_in(kernel, r, out));
}

/// Notes what the instructions of a region read.
fn read_in(kernel: &Kernel, region: Region, out: &mut BTreeSet<Value>) {
    kernel.walk(region, &mut |i| out.extend(kernel.insts[i].args.iter().copied()));
}
