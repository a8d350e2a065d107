//! Facts of a kernel that several ops ask for.

use crate::layout::assign::Assignment;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use tilelift_egraph::physical::InstLayouts;
use tilelift_ir::{Attr, Effects, Inst, Kernel, Op, ProgramOrder};
use tilelift_lane::Target;
use tilelift_schedule::plan::{Fetches, staged_loads};

/// Loads that go to shared memory for dots.
pub(crate) fn staged_of(kernel: &Kernel, assigned: &Assignment) -> SecondaryMap<Inst, bool> {
    let mut staged = staged_loads(kernel);
    // Operands that were found to be better off in registers are multiplied from there.
    let waits = |i: Inst| assigned.runs[i].iter().all(|f| f.results.iter().flatten().all(|l| l.in_memory()));
    kernel.insts.keys().for_each(|i| {
        if staged[i] && (assigned.kept[i] || !waits(i)) {
            staged[i] = false;
        }
    });
    staged
}

/// The products that loads of their operands stand right in front of, where lanes bring those: what else they take comes into its layout before the operand has
/// shared memory, which both may use then. Nothing but views and other loads stands between.
pub(crate) fn products_behind(kernel: &Kernel, target: &Target, staged: &SecondaryMap<Inst, bool>) -> SecondaryMap<Inst, Option<Inst>> {
    let mut behind = kernel.by_inst();
    if !target.moves_by_lanes() {
        return behind;
    }
    for region in kernel.regions.values() {
        let mut loads: SmallVec<[Inst; 2]> = SmallVec::new();
        for &i in &region.insts {
            match kernel.insts[i].op {
                Op::Load if staged[i] => loads.push(i),
                Op::Transpose | Op::Reshape => {}
                Op::Dot => loads.drain(..).for_each(|load| behind[load] = Some(i)),
                _ => loads.clear(),
            }
        }
    }
    behind
}

/// True if a load of local memory leaves its tile there, for products to fetch: if they may, and its run says nothing else.
pub(crate) fn is_fetched(fetches: &Fetches, running: Option<&(Inst, InstLayouts)>, i: Inst) -> bool {
    let run = running.filter(|r| r.0 == i).map(|r| &r.1);
    fetches.loads[i] && run.is_none_or(|f| f.results.iter().flatten().all(|l| l.in_memory()))
}

/// The dimension attribute of an instruction, 0 if it has none (the verifier sees to it that it has).
pub(crate) fn dim_of(kernel: &Kernel, i: Inst) -> usize {
    let attr = kernel.insts[i].attrs.iter().find_map(|a| if let Attr::Dim(d) = a { Some(*d as usize) } else { None });
    attr.unwrap_or(0)
}

/// True if no view that is read by a program is written by one.
pub(crate) fn loads_what_it_leaves(kernel: &Kernel, order: &ProgramOrder) -> bool {
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for i in order.with(kernel.body, |op| op.info().effects.global() != Effects::Pure) {
        let d = &kernel.insts[i];
        match d.op.info().effects.global() {
            Effects::Reads => read.push(d.args[0]),
            Effects::Writes => written.push(d.args[0]),
            Effects::Updates => {
                read.push(d.args[0]);
                written.push(d.args[0]);
            }
            _ => {}
        }
    }
    written.iter().all(|w| !read.contains(w))
}

pub(crate) fn count(kernel: &Kernel, i: Inst, n: usize) -> u32 {
    let numbers = kernel.insts[i].attrs.iter().filter_map(|a| if let Attr::Count(c) = a { Some(*c) } else { None });
    numbers.into_iter().nth(n).unwrap_or(0)
}
