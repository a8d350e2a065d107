//! Tiles that a task loads beside the accumulators of its products: where they do not fit a lane's registers together, they are loaded piece by
//! piece, each as it is wanted.

use super::Lower;
use crate::layout::assign::Assignment;
use tilelift_ir::layout::Axis;
use tilelift_ir::{Inst, Kernel, Op, ProgramOrder, Value};
use tilelift_lane::{LaneBuilder, Registers, SPARE};
use tilelift_schedule::plan::TaskRole;

/// Registers of a lane that a tile takes.
fn taken(kernel: &Kernel, assigned: &Assignment, v: Value) -> u32 {
    assigned.layout(v).map_or(0, |l| (l.size(Axis::Reg) * kernel.ty(v).elem().bytes()).div_ceil(4))
}

/// True if what so many instructions have summed up and whole tiles that the list loads behind the first of them do not fit so many registers
/// of a lane together. What is loaded as it is wanted need not be there all at once.
fn exceeds_registers(kernel: &Kernel, assigned: &Assignment, list: &[Inst], accumulates: impl Fn(Inst) -> bool, most: u32) -> bool {
    let (mut held, mut loaded) = (0, 0);
    for &i in list {
        let d = &kernel.insts[i];
        let all: u32 = d.results.iter().map(|&v| taken(kernel, assigned, v)).sum();
        if accumulates(i) {
            held += all;
        } else if held > 0 && d.op == Op::Load {
            loaded += all;
        }
    }
    loaded > 0 && held + loaded + SPARE >= most
}

/// True if a task loads its tiles as they are wanted: if all do, or if they do not fit beside its products.
pub(in super::super) fn loads_at_use(kernel: &Kernel, order: &ProgramOrder, assigned: &Assignment, r: &TaskRole, all: bool) -> bool {
    let product = |op: Op| op == Op::AsyncDot;
    let (false, Some(most), true) = (all, r.registers, order.has(r.region, product)) else { return all };
    let accumulates = |i: Inst| product(kernel.insts[i].op) || kernel.insts[i].regions.iter().any(|&inner| order.has(inner, product));
    let mut lists = vec![r.region];
    order.insts(r.region).iter().for_each(|&i| lists.extend(&kernel.insts[i].regions));
    lists.iter().any(|&list| exceeds_registers(kernel, assigned, &kernel.regions[list].insts, accumulates, most))
}

impl Lower<'_> {
    /// Decides for a task how it loads tiles.
    pub(super) fn beside_products(&mut self, b: &mut LaneBuilder, r: &TaskRole, direct: bool, sinks: bool) {
        let multiplies = self.order.has(r.region, |op| op == Op::AsyncDot);
        let entry = self.target.units.as_ref().map_or(self.target.registers, |u| Registers::of(self.target, u, b.warps()).entry);
        b.sink_loads = (multiplies && sinks).then_some(entry);
        self.direct = loads_at_use(self.kernel, &self.order, &self.assigned, r, direct);
    }
}
