//! Registers of tasks: what every warpgroup of a program holds, with and without a task.
//!
//! ```text
//! author says nothing     one lane's tasks give theirs up to those that multiply, and so do groups of no task
//! author says it of some  theirs stands; if that does not fit beside what the others start with, these give up in turn: groups of no
//!                         task, one lane's tasks, the others
//! ```
//! What does not fit then is refused: [`lane::Registers`](tilelift_lane::Registers) says why that would wait for ever.

use super::role::TaskRole;
use crate::error::LowerError;
use crate::reason::{Holder, Remedy, Resource};
use tilelift_ir::{Kernel, Op};
use tilelift_lane::Registers;
use tilelift_lane::{Target, Units};

/// Warpgroups of no task, which give registers up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdleWarps {
    /// First warp and number of warps.
    pub warps: [u32; 2],
    /// What they keep, per lane.
    pub registers: u32,
}

/// Who holds what of a program's registers.
struct RegisterShares<'a> {
    kernel: &'a Kernel,
    units: &'a Units,
    roles: &'a mut [TaskRole],
    /// Warps of the program: whole groups.
    warps: u32,
    lanes: u32,
    /// Registers per lane at the start.
    entry: u32,
    /// Warpgroups of no task, and what they keep.
    idle: Vec<IdleWarps>,
}

/// Gives every task, and all warpgroups without one, its registers, if any change theirs.
///
/// # Errors
/// The author asks for more than there is.
pub(super) fn share(
    kernel: &Kernel,
    target: &Target,
    units: &Units,
    roles: &mut [TaskRole],
    warps: &mut u32,
) -> Result<Vec<IdleWarps>, LowerError> {
    let group = units.group_warps;
    let all = warps.next_multiple_of(group);
    if all > target.max_warps {
        return Ok(Vec::new());
    }
    let entry = Registers::of(target, units, all).entry;
    let taken = |g: u32| roles.iter().any(|r| r.warps[0] < (g + 1) * group && g * group < r.warps[0] + r.warps[1] + r.idle);
    let idle = (0..all / group).filter(|&g| !taken(g)).map(|g| IdleWarps { warps: [g * group, group], registers: entry }).collect();
    let mut s = RegisterShares { kernel, units, roles, warps: all, lanes: target.lanes, entry, idle };
    if s.roles.iter().all(|r| r.registers.is_none()) && !s.derive() {
        return Ok(Vec::new());
    }
    *warps = all;
    s.give_up();
    s.fits()?;
    Ok(s.idle.into_iter().filter(|i| i.registers != entry).collect())
}

impl RegisterShares<'_> {
    fn group(&self) -> u32 {
        self.units.group_warps
    }

    /// Warps whose registers change with a task's.
    fn whole(&self, r: &TaskRole) -> u32 {
        r.warps[1].next_multiple_of(self.group())
    }

    /// True if a task shares no warpgroup with another one.
    fn apart(&self, n: usize) -> bool {
        let group = self.group();
        let of = |r: &TaskRole| [r.warps[0] / group, (r.warps[0] + r.warps[1]).div_ceil(group)];
        let [first, end] = of(&self.roles[n]);
        let meets = |r: &TaskRole| of(r)[0] < end && first < of(r)[1];
        self.roles[n].warps[0].is_multiple_of(group) && self.roles.iter().filter(|r| meets(r)).count() == 1
    }

    /// Registers per lane that all have in the end, summed over warps.
    fn need(&self) -> u32 {
        let roles = self.roles.iter().map(|r| (r.warps[1] + r.idle) * r.registers.unwrap_or(self.entry)).sum::<u32>();
        let idle = self.idle.iter().map(|i| i.warps[1] * i.registers).sum::<u32>();
        let others = self.warps - self.roles.iter().map(|r| r.warps[1] + r.idle).sum::<u32>() - self.idle.len() as u32 * self.group();
        roles + idle + others * self.entry
    }

    fn have(&self) -> u32 {
        self.entry * self.warps
    }

    /// Where the author says nothing of registers, and one lane's tasks stand beside tasks that multiply, the former give theirs away.
    /// False if that is not so, and all keep what they have.
    fn derive(&mut self) -> bool {
        let (group, pool) = (self.group(), self.units.registers);
        let multiplies = |r: &TaskRole| {
            let mut found = false;
            self.kernel.walk(r.region, &mut |i| found |= self.kernel.insts[i].op == Op::AsyncDot);
            found
        };
        let groups = self.roles.iter().all(|r| r.warps[1].is_multiple_of(group) || r.single);
        let small: Vec<usize> = (0..self.roles.len()).filter(|&n| !self.roles[n].warps[1].is_multiple_of(group)).collect();
        // The small ones must be alone in their group: then its idle warps change with them.
        let apart = small.iter().all(|&n| self.apart(n));
        if !groups || !apart || small.is_empty() || self.entry >= pool.most || !self.roles.iter().all(|r| r.single || multiplies(r)) {
            return false;
        }
        let (mut given, mut computing) = (self.idle.len() as u32 * group * pool.least, 0);
        for r in self.roles.iter() {
            let warps = self.whole(r);
            if r.single { given += warps * pool.producer } else { computing += warps }
        }
        if computing == 0 {
            return false;
        }
        let each = (self.have().saturating_sub(given) / computing / pool.unit * pool.unit).min(pool.most);
        for n in 0..self.roles.len() {
            let of = if self.roles[n].single { pool.producer } else { each };
            self.set(n, of);
        }
        self.idle.iter_mut().for_each(|i| i.registers = pool.least);
        true
    }

    fn set(&mut self, n: usize, registers: u32) {
        let all = self.whole(&self.roles[n]);
        let r = &mut self.roles[n];
        (r.idle, r.registers) = (all - r.warps[1], Some(registers));
    }

    /// Tasks that share warpgroups, those that share none alone.
    fn clusters(&self) -> Vec<Vec<usize>> {
        let group = self.group();
        let mut out: Vec<Vec<usize>> = Vec::new();
        for (n, r) in self.roles.iter().enumerate() {
            let shares = |m: usize| {
                let [first, warps] = self.roles[m].warps;
                (first + warps - 1) / group == r.warps[0] / group
            };
            match out.last_mut() {
                Some(c) if shares(c[c.len() - 1]) => c.push(n),
                _ => out.push(vec![n]),
            }
        }
        out
    }

    /// Whole warpgroups of tasks that share them: the first warp, and the one behind the last.
    fn span(&self, cluster: &[usize]) -> [u32; 2] {
        let [first, last] = [cluster[0], cluster[cluster.len() - 1]].map(|n| self.roles[n].warps);
        [first[0], (last[0] + last[1]).next_multiple_of(self.group())]
    }

    /// Has those who were not asked give up as much as it takes, if they can.
    fn give_up(&mut self) {
        let pool = self.units.registers;
        if self.need() > self.have() {
            self.idle.iter_mut().for_each(|i| i.registers = pool.least);
        }
        let mut free = self.clusters();
        free.retain(|c| c.iter().all(|&n| self.roles[n].registers.is_none()));
        let (copying, others): (Vec<_>, Vec<_>) = free.into_iter().partition(|c| c.iter().all(|&n| self.roles[n].single));
        for registers in [pool.producer, pool.least] {
            if self.need() > self.have() && registers < self.entry {
                copying.iter().for_each(|c| self.set_all(c, registers));
            }
        }
        let warps = others.iter().map(|c| self.span(c)).map(|[first, end]| end - first).sum::<u32>();
        if self.need() > self.have() && warps > 0 {
            let rest = self.need() - warps * self.entry;
            let each = self.have().saturating_sub(rest) / warps / pool.unit * pool.unit;
            if each >= pool.producer {
                others.iter().for_each(|c| self.set_all(c, each));
            }
        }
    }

    /// Gives tasks that share warpgroups the same number of registers, and warps beside them, too.
    fn set_all(&mut self, cluster: &[usize], registers: u32) {
        let [_, end] = self.span(cluster);
        for (at, &n) in cluster.iter().enumerate() {
            let next = cluster.get(at + 1).map_or(end, |&m| self.roles[m].warps[0]);
            let r = &mut self.roles[n];
            (r.idle, r.registers) = (next - r.warps[0] - r.warps[1], Some(registers));
        }
    }

    /// Refuses what does not fit, with who holds what.
    fn fits(&self) -> Result<(), LowerError> {
        let (need, have) = (self.need(), self.have());
        // Who asks for most beyond what it starts with.
        let more = |r: &TaskRole| r.registers.map_or(0, |n| n.saturating_sub(self.entry) * self.whole(r));
        let Some(most) = self.roles.iter().max_by_key(|r| more(r)).filter(|_| need > have) else { return Ok(()) };
        let replicas = || self.roles.iter().filter(|r| r.region == most.region);
        let warps: u32 = replicas().map(|r| self.whole(r)).sum();
        let others = need - warps * most.registers.unwrap_or(self.entry);
        let (name, pool) = (self.task(most), &self.units.registers);
        let each = have.saturating_sub(others) / warps / pool.unit * pool.unit;
        let remedy = Remedy::Registers { holders: self.holders(), task: name.to_owned(), most: (each >= pool.producer).then_some(each) };
        Err(LowerError::ResourceExceeded {
            resource: Resource::TaskRegisters,
            need: u64::from(need * self.lanes),
            have: u64::from(have * self.lanes),
            remedy: Box::new(remedy),
            loc: self.kernel.regions[most.region].loc,
        })
    }

    /// A task's name, without the replica's number.
    fn task<'r>(&self, r: &'r TaskRole) -> &'r str {
        let one = self.roles.iter().filter(|x| x.region == r.region).count() == 1;
        if one { &r.name } else { r.name.trim_end_matches(|c: char| c.is_ascii_digit()) }
    }

    /// Who holds what.
    fn holders(&self) -> Vec<Holder> {
        let mut rows: Vec<(String, u32, u32)> = Vec::new();
        let mut row = |who: String, warps: u32, registers: u32| match rows.iter_mut().find(|r| r.0 == who && r.2 == registers) {
            Some(r) => r.1 += warps,
            None if warps > 0 => rows.push((who, warps, registers)),
            None => {}
        };
        for r in self.roles.iter() {
            let line = self.kernel.regions[r.region].loc.line;
            let at = if line > 0 { format!(" (line {line})") } else { String::new() };
            row(format!("{}{at}", self.task(r)), r.warps[1] + r.idle, r.registers.unwrap_or(self.entry));
        }
        self.idle.iter().for_each(|i| row("warps of no task".into(), i.warps[1], i.registers));
        let known = rows.iter().map(|r| r.1).sum::<u32>();
        if self.warps > known {
            rows.push(("warps beside tasks".into(), self.warps - known, self.entry));
        }
        rows.into_iter().map(|(who, warps, registers)| Holder { who, lanes: warps * self.lanes, registers }).collect()
    }
}
