//! What is said of a load in a loop: whether it is begun ahead, or why it is done where it is used.

use super::pipelined::carried::{self, Programs};
use super::pipelined::lane_tiles::brings_lane_tile;
use super::pipelined::{content, slice_of};
use crate::named::Named;
use crate::plan::{Plan, Schedule, copied_loads, is_masked, left_to_consumers, not_operand, places_alone, slice_ahead, written_views};
use crate::reason::NotAhead;
use tilelift_ir::{Inst, Kernel, Op};
use tilelift_lane::Target;

/// True for a load of a loop that is begun ahead in registers (`pipelined/carried.rs`), by a plan.
pub fn held_ahead(kernel: &Kernel, target: &Target, plan: &Plan, main: Inst, load: Inst) -> bool {
    matches!(plan.schedule, Schedule::Pipelined { .. })
        && kernel.insts[main].op == Op::For
        && !kernel.is_explicit()
        && carried::held(kernel, Programs::of(target, plan), main, load).is_ok()
}

/// Takes from loads that wait in a loop those that say where others stand which are begun ahead, and nothing else: they are read a step ahead of these.
pub fn without_places(kernel: &Kernel, main: Inst, waiting: &mut Vec<Inst>) {
    let Some(&region) = kernel.insts[main].regions.last().filter(|_| kernel.insts[main].op == Op::For) else { return };
    let (inside, _) = content(kernel, region);
    // A list may say where another one is read.
    for i in waiting.clone().into_iter().rev() {
        if places_alone(kernel, region, &inside, i, &|other| !waiting.contains(&other)) {
            waiting.retain(|&j| j != i);
        }
    }
}

/// The load that stands where this one says, if consumers of a specialised loop begin both in one step: they wait for this one there.
pub fn awaited_by(kernel: &Kernel, plan: &Plan, main: Inst, load: Inst) -> Option<Inst> {
    let ahead = &plan.specialised()?.loops().find(|s| s.main == main)?.prefetched;
    let region = *kernel.insts[main].regions.last().filter(|_| ahead.contains(&load))?;
    ahead.iter().copied().find(|&i| i != load && slice_ahead(kernel, region, &[i]).contains(&load))
}

/// Why a load of a loop's body is done where it is used, by a plan that does so.
pub fn not_ahead(kernel: &Kernel, target: &Target, plan: &Plan, main: Inst, load: Inst) -> NotAhead {
    match plan.schedule {
        Schedule::Explicit(_) => return NotAhead::Tasks,
        _ if kernel.insts[main].op == Op::While => return NotAhead::While,
        Schedule::Specialised(ref s) if s.loops().any(|s| s.around.contains(&main)) => return NotAhead::Outside,
        Schedule::Specialised(ref s) if s.loops().all(|s| s.main != main) => return NotAhead::Elsewhere,
        Schedule::Specialised(_) | Schedule::Pipelined { .. } => {}
    }
    if let Some(other) = awaited_by(kernel, plan, main, load) {
        return NotAhead::Place { of: Named::of(kernel, kernel.insts[other].args[0]) };
    }
    let region = *kernel.insts[main].regions.last().unwrap_or(&kernel.body);
    let copies = || slice_of(kernel, target, plan.warps, load, (main, &content(kernel, region), &written_views(kernel)));
    if !kernel.regions[region].insts.contains(&load) {
        NotAhead::Choice
    } else if !copied_loads(kernel)[load] {
        match (&plan.schedule, carried::held(kernel, Programs::of(target, plan), main, load)) {
            // What is too much for registers is copied, if there are copies for how it lies.
            (Schedule::Pipelined { .. }, Err(why)) if !target.moves_by_lanes() && brings_lane_tile(kernel, load) => {
                copies().err().unwrap_or(why)
            }
            (Schedule::Pipelined { .. }, Err(why)) => why,
            _ => NotAhead::Beside { why: not_operand(kernel, load) },
        }
    } else if let (Schedule::Specialised(_), Some(units)) = (&plan.schedule, &target.units) {
        match left_to_consumers(kernel, target, units, &written_views(kernel), load) {
            Some(why) => NotAhead::Consumers { why: Box::new(why) },
            None if is_masked(kernel, load) => NotAhead::Masked,
            None => copies().err().unwrap_or(NotAhead::AtUse),
        }
    } else if plan.stages < 2 {
        NotAhead::Stages
    } else {
        copies().err().unwrap_or(NotAhead::Unwritten)
    }
}
