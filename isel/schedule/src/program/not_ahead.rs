//! What is said of a load in a loop: whether it is begun ahead, or why it is done where it is used.

use super::pipelined::{carried, content, slice_of};
use crate::plan::{Plan, Schedule, copied_loads, not_operand, written_views};
use crate::reason::NotAhead;
use tilelift_ir::{Inst, Kernel, Op, Region};
use tilelift_lane::Target;

/// True for a load of a loop that is begun ahead in registers (`pipelined/carried.rs`), by a plan.
pub fn held_ahead(kernel: &Kernel, target: &Target, plan: &Plan, main: Inst, load: Inst) -> bool {
    matches!(plan.schedule, Schedule::Pipelined { .. })
        && kernel.insts[main].op == Op::For
        && !kernel.is_explicit()
        && carried::held(kernel, (plan.warps * target.lanes, plan.stages), main, load).is_ok()
}

/// Why a load of a loop's body is done where it is used, by a plan that does so.
pub fn not_ahead(kernel: &Kernel, target: &Target, plan: &Plan, main: Inst, load: Inst) -> NotAhead {
    match plan.schedule {
        Schedule::Explicit(_) => return NotAhead::Tasks,
        Schedule::Specialised(ref s) if s.loops().all(|s| s.main != main) => return NotAhead::Elsewhere,
        Schedule::Specialised(_) | Schedule::Pipelined { .. } => {}
    }
    let region = *kernel.insts[main].regions.last().unwrap_or(&kernel.body);
    if kernel.insts[main].op != Op::For {
        NotAhead::While
    } else if !kernel.regions[region].insts.contains(&load) {
        NotAhead::Choice
    } else if !copied_loads(kernel)[load] {
        match (&plan.schedule, carried::held(kernel, (plan.warps * target.lanes, plan.stages), main, load)) {
            // Of a loop with products it is told what else takes the tile.
            (Schedule::Pipelined { .. }, Err(why)) if !multiplies(kernel, region) => why,
            _ => NotAhead::Beside { why: not_operand(kernel, load) },
        }
    } else if plan.stages < 2 {
        NotAhead::Stages
    } else {
        let found = slice_of(kernel, target, plan.warps, load, (main, &content(kernel, region), &written_views(kernel)));
        found.err().unwrap_or(NotAhead::Unwritten)
    }
}

/// True for a region with products, loops in it left out.
fn multiplies(kernel: &Kernel, region: Region) -> bool {
    kernel.regions[region].insts.iter().any(|&i| {
        let d = &kernel.insts[i];
        d.op.factors().is_some() || d.op == Op::If && d.regions.iter().any(|&r| multiplies(kernel, r))
    })
}
