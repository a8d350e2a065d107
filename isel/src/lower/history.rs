//! Accesses of views since the last barrier.

use cranelift_entity::SecondaryMap;
use std::rc::Rc;
use tilelift_ir::layout::Layout;
use tilelift_ir::{Effects, Kernel, Op, Region, Value};
use tilelift_lane::LVal;

/// An access since the last barrier: which lane touches which element follows from layout and indices.
#[derive(Clone)]
pub(crate) struct Seen {
    pub store: bool,
    pub layout: Rc<Layout>,
    pub indices: Vec<LVal>,
}

/// What is known of a view's accesses since the last barrier.
#[derive(Clone, Default)]
pub(crate) struct History {
    /// False for views that need no order.
    pub matters: bool,
    /// Accesses of unknown lanes may have happened (a loop's other iterations, the arms of a choice).
    pub unknown: bool,
    pub seen: Vec<Seen>,
}

/// Histories of all views at the kernel's start.
pub(crate) fn histories(kernel: &Kernel) -> SecondaryMap<Value, History> {
    pub fn visit(kernel: &Kernel, r: Region, in_loop: bool, loads: &mut SecondaryMap<Value, u32>, stores: &mut SecondaryMap<Value, u32>) {
        for &i in &kernel.regions[r].insts {
            let d = &kernel.insts[i];
            let weight = if in_loop { 2 } else { 1 };
            // The table says what an op does to memory; its first operand is then the view.
            match d.op.info().effects.global() {
                Effects::Reads => loads[d.args[0]] += weight,
                Effects::Writes | Effects::Updates => stores[d.args[0]] += weight,
                _ => {}
            }
            for &inner in &d.regions {
                visit(kernel, inner, in_loop || d.op != Op::If, loads, stores);
            }
        }
    }
    let (mut loads, mut stores) = (SecondaryMap::new(), SecondaryMap::new());
    visit(kernel, kernel.body, false, &mut loads, &mut stores);
    let mut out: SecondaryMap<Value, History> = SecondaryMap::new();
    for &p in &kernel.params {
        out[p].matters = stores[p] > 0 && loads[p] + stores[p] > 1;
    }
    out
}
