//! Warpgroups of a task that take turns: ping-pong without a task for each.
//!
//! ```text
//! group 0   first turn ─ passes ─┐                       ┌─ next turn ─ passes ─┐
//! group 1                        └─ first turn ─ passes ─┘                      └─ next turn ─ …
//! ```
//!
//! Each group of a task has a named barrier, to which the group in front of it comes when its turn is over.

use super::super::Lower;
use std::collections::BTreeMap;
use tilelift_ir::{Effects, Inst, Op, ProgramOrder, Region};
use tilelift_lane::{LaneBuilder, TurnEnd, Unit};
use tilelift_schedule::LowerError;
use tilelift_schedule::plan::{TaskPlan, takes_turns};

/// The first named barrier of each task whose groups take turns, behind so many others.
pub(super) fn barriers(order: &ProgramOrder, plan: &TaskPlan, group: u32, others: u32) -> BTreeMap<Region, u32> {
    let (mut next, mut out) = (others, BTreeMap::new());
    for r in plan.roles.iter().filter(|r| order.has(r.region, takes_turns)) {
        out.insert(r.region, next);
        next += r.warps[1] / group;
    }
    out
}

impl Lower<'_> {
    /// One of the four ends of turns. A group alone has all of them.
    pub(super) fn turn(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let end = match self.kernel.insts[i].op {
            Op::TurnFirst => TurnEnd::First,
            Op::TurnPass => TurnEnd::Pass,
            Op::TurnLast => TurnEnd::Last,
            _ => TurnEnd::Wait,
        };
        let task = self.task()?;
        let Some(id) = task.turn.filter(|_| task.groups > 1) else { return Ok(()) };
        let turn = Unit::Turn { id, groups: task.groups, end };
        match end {
            TurnEnd::First | TurnEnd::Wait => self.task_mut()?.begins = Some((turn, b.origin)),
            TurnEnd::Pass | TurnEnd::Last => b.unit(turn),
        }
        Ok(())
    }

    /// In front of an instruction the turn that was asked for begins: but what only computes or loads, for which groups may meet, comes in front of it, and so
    /// do a product's operands and the fence of its registers, and what a loop begins with.
    pub(in super::super) fn turn_is_due(&mut self, b: &mut LaneBuilder, op: Op) {
        let Some(task) = self.task.as_mut().filter(|_| !matches!(op.info().effects, Effects::Pure | Effects::Reads)) else { return };
        if let Some(turn) = task.begins.take() {
            task.due = Some(turn);
            if !matches!(op, Op::AsyncDot | Op::For) {
                self.begin_turn(b);
            }
        }
    }

    /// Begins the turn that is due.
    pub(in super::super) fn begin_turn(&mut self, b: &mut LaneBuilder) {
        if let Some((turn, origin)) = self.task.as_mut().and_then(|t| t.due.take()) {
            let around = std::mem::replace(&mut b.origin, origin);
            b.unit(turn);
            b.origin = around;
        }
    }
}
