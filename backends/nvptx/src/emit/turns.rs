//! Warpgroups of a role that take turns: each group waits at a named barrier of its own, to which the group in front of it comes.

use super::state::{Emitter, Turns};
use crate::class::Class;
use crate::error::{EmitError, Limit};
use tilelift_isel::lane::visit::blocks;
use tilelift_isel::lane::{Block, Inst, TurnEnd, Unit};

impl Emitter<'_> {
    /// Where the groups of a role take turns, a group's number and its barriers, in registers from the role's beginning on: of branches over constants the
    /// assembler makes instructions under predicates, which it moves up in front of what lanes compute, and numbers made at each turn take registers there
    /// (8-bit attention: 2,024 us by branches, 1,408 with numbers made at each turn, 1,365). `end` is where the role ends.
    pub(super) fn turns_of(&mut self, body: &Block, end: u32) -> Result<Option<Turns>, EmitError> {
        let Some((id, groups)) = turns_in(body) else { return Ok(None) };
        let (first, warp) = (self.named + id, self.role_warp());
        if first + groups > 16 {
            return Err(EmitError::TooLarge { what: Limit::Barriers, need: (first + groups).into(), have: 16, target: self.target.name });
        }
        let bits = self.target.units.as_ref().map_or(0, |u| u.group_warps.trailing_zeros());
        let [group, own, behind, next] = [(); 4].map(|()| self.fresh(Class::R));
        self.body.op("shr.u32 ").r(group).s(", ").o(warp).s(", ").n(bits).end();
        self.body.op("add.s32 ").r(own).then(group).s(", ").n(first).end();
        if groups == 2 {
            self.body.op("xor.b32 ").r(behind).then(group).s(", 1").end();
        } else {
            let (one, last) = (self.fresh(Class::R), self.fresh(Class::P));
            self.body.op("add.s32 ").r(one).then(group).s(", 1").end();
            self.body.op("setp.eq.u32 ").r(last).then(group).s(", ").n(groups - 1).end();
            self.body.op("selp.b32 ").r(behind).s(", 0, ").r(one).then(last).end();
        }
        self.body.op("add.s32 ").r(next).then(behind).s(", ").n(first).end();
        let (chips, never) = (self.fresh(Class::R), self.fresh(Class::P));
        self.body.op("mov.u32 ").r(chips).s(", %nsmid").end();
        self.body.op("setp.eq.u32 ").r(never).then(chips).s(", 0xFFFFFFFF").end();
        Ok(Some(Turns { group, own, next, never, end }))
    }

    /// A group comes to its own barrier, or to the next one's. Behind a turn whose products have ended a branch that is never taken ends the basic
    /// block: the assembler moves an arrival down behind what lanes compute after it, as nothing depends on it (8-bit attention: 2,072 us). Where products are
    /// waited for behind it, that wait keeps it where it is, and a branch costs 1.5%.
    pub(super) fn turn(&mut self, groups: u32, end: TurnEnd) {
        let Some(turns) = self.role.and_then(|r| r.turns) else { return };
        let comes = (0..groups).find(|&g| end.barrier(g, groups).is_none()).map(|g| {
            let p = self.fresh(Class::P);
            self.body.op("setp.ne.u32 ").r(p).then(turns.group).s(", ").n(g).end();
            p
        });
        let (op, number) = match end {
            TurnEnd::First | TurnEnd::Wait => ("bar.sync ", turns.own),
            TurnEnd::Pass | TurnEnd::Last => ("bar.arrive ", turns.next),
        };
        let warps = self.target.units.as_ref().map_or(1, |u| u.group_warps);
        self.body.guarded(comes, op).r(number).s(", ").n(2 * warps * 32).end();
        if end == TurnEnd::Pass && !self.multiplies {
            self.branch_if(turns.never, true, turns.end);
        }
    }
}

/// The first barrier of a block's turns, and its groups.
fn turns_in(block: &Block) -> Option<(u32, u32)> {
    block.iter().find_map(|i| match i {
        Inst::Unit(u) => match **u {
            Unit::Turn { id, groups, .. } => Some((id, groups)),
            _ => None,
        },
        other => blocks(other).find_map(turns_in),
    })
}
