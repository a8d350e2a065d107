//! Who runs: what goes its own way in a block, one after the other followed by [`super::explore`].

use crate::find::any;
use tilelift_lane::{Block, GroupMatrix, Inst, Program, Role, Unit};

/// Warpgroups that multiply together, as far as the target has them.
#[derive(Clone, Copy)]
pub(crate) struct Groups<'a> {
    /// Warps of a group.
    pub(crate) group_warps: u32,
    /// Their matrix instructions.
    pub(crate) matrix: &'a [GroupMatrix],
}

/// What runs on its own: a role of a block, a group of its warps if groups meet one by one, or all warps of the block together.
pub(crate) struct Agent<'a> {
    pub block: usize,
    pub(super) name: &'a str,
    pub(super) body: &'a Block,
    /// The number of its body.
    pub(super) code: usize,
    /// Which of the roles it is.
    pub role: usize,
    /// The role's first warp, from which its warps count.
    pub base: u32,
    /// First warp, and warps.
    pub first: u32,
    pub warps: u32,
    /// One lane alone.
    pub single: bool,
    /// All warps of the block: it ends where roles begin.
    pub whole: bool,
    /// Lanes that run.
    pub lanes: usize,
}

impl Agent<'_> {
    /// The warps of its role.
    pub(super) fn role_warps(&self, program: &Program) -> u32 {
        program.roles().and_then(|r| r.roles.get(self.role)).map_or(self.warps, |r| r.warps)
    }

    /// True for a group of a role's warps.
    pub(super) fn is_part(&self, program: &Program) -> bool {
        !self.whole && self.warps < self.role_warps(program)
    }
}

/// A role of a block, or the program in front of roles.
pub(super) fn agent<'a>(program: &'a Program, block: usize, role: Option<(usize, &'a Role)>) -> Agent<'a> {
    match role {
        Some((role, r)) => Agent {
            block,
            name: &r.name,
            body: &r.body,
            code: 0,
            role,
            base: r.first,
            first: r.first,
            warps: r.warps,
            single: r.single,
            whole: false,
            lanes: if r.single { 1 } else { (r.warps * program.lanes) as usize },
        },
        None => Agent {
            block,
            name: "the program",
            body: &program.body,
            code: 0,
            role: 0,
            base: 0,
            first: 0,
            warps: program.warps,
            single: false,
            whole: true,
            lanes: program.threads() as usize,
        },
    }
}

/// The number of the barrier at which all groups of a role meet, by the role's.
pub(crate) const ROLE: u32 = 1 << 8;

/// The agents of a role: its warpgroups where these multiply, or meet one by one.
pub(super) fn agents<'a>(program: &'a Program, units: Groups<'_>, block: usize, role: (usize, &'a Role)) -> Vec<Agent<'a>> {
    let (whole, group) = (agent(program, block, Some(role)), units.group_warps);
    let alone = |i: &Inst| matches!(i, Inst::Unit(u) if matches!(**u, Unit::GroupBarrier { warps } if warps == group) || matches!(**u, Unit::Multiply(_) | Unit::Turn { .. }));
    let together = |i: &Inst| match i {
        Inst::Unit(u) => matches!(**u, Unit::NamedBarrier { .. } | Unit::ClusterArrive { .. } | Unit::ClusterWait),
        _ => false,
    };
    let body = whole.body;
    if whole.single || whole.warps <= group || !whole.warps.is_multiple_of(group) || !any(body, &alone) || any(body, &together) {
        return vec![whole];
    }
    let lanes = (group * program.lanes) as usize;
    (0..whole.warps / group)
        .map(|g| Agent { first: whole.first + g * group, warps: group, lanes, ..agent(program, block, Some(role)) })
        .collect()
}
