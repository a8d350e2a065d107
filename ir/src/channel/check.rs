//! Whether channels can deadlock.
//!
//! ```text
//! order    in each task, the puts, the gets and the returns of a channel have steps 0, 1, 2, …: a site's step is how often the task did
//!          that before, as polynomials over the rounds of its loops
//! number   a channel's puts, and each consumer's gets and returns, are as many
//! credit   a round of every task is a row of nodes; edges say what waits for what, and how many rounds before. A circle of edges within
//!          one round would be a deadlock; without one, every round gets done after the round before: whatever their number is
//! ```
//! The number of rounds of a loop counts as its upper bound minus its lower one, which is not negative.

use super::error::{ChannelError, ChannelProblem};
use super::poly::{Atom, Poly, Values};
use crate::entities::{Inst, Region, Value};
use crate::kernel::Kernel;
use crate::ops::{Attr, Op, Task};
use std::collections::{BTreeMap, BTreeSet};

/// An op on a channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Put,
    Get,
    Return,
}

/// An op on a channel in a task.
#[derive(Clone, Copy, Debug)]
struct Site {
    inst: Inst,
    task: usize,
    channel: Value,
    kind: Kind,
}

struct ChannelChecker<'k> {
    kernel: &'k Kernel,
    values: Values<'k>,
    /// What a task has done how often.
    counts: BTreeMap<(Value, Kind), Poly>,
    fresh: usize,
    /// The sites of the task, with the region that they stand in; each once.
    sites: Vec<(Site, Region)>,
    task: usize,
}

/// Checks every channel of a verified kernel.
///
/// # Errors
/// The first that is not regular, or deadlocks, with the guilty instructions.
pub fn check(kernel: &Kernel) -> Result<(), ChannelError> {
    let mut c = ChannelChecker { kernel, values: Values::new(kernel), counts: BTreeMap::new(), fresh: 0, sites: Vec::new(), task: 0 };
    let last = kernel.regions[kernel.body].insts.last().map(|&i| &kernel.insts[i]);
    let (tasks, regions): (&[Task], &[Region]) = match last.map(|d| (d.attrs.first(), &d.regions)) {
        Some((Some(Attr::Tasks(t)), regions)) => (t, regions),
        _ => (&[], &[]),
    };
    for &inst in &kernel.regions[kernel.body].insts {
        if kind_of(kernel, inst).is_some() {
            return Err(c.wrong(ChannelProblem::OutsideTasks, &[inst]));
        }
        if !kernel.insts[inst].regions.is_empty() && kernel.insts[inst].op != Op::Tasks && c.touches(inst).is_some() {
            return Err(c.wrong(ChannelProblem::NestedOutsideTasks, &[c.touches(inst).unwrap_or(inst)]));
        }
    }
    let mut totals = Vec::new();
    for (n, &r) in regions.iter().enumerate() {
        c.task = n;
        c.counts.clear();
        c.region(r, true)?;
        totals.push(std::mem::take(&mut c.counts));
    }
    let mut by_channel: BTreeMap<Value, Vec<Site>> = BTreeMap::new();
    c.sites.iter().for_each(|(s, _)| by_channel.entry(s.channel).or_default().push(*s));
    let allocs = kernel.insts.iter().filter(|(_, d)| d.op == Op::ChannelAlloc);
    for (alloc, d) in allocs {
        let sites = by_channel.get(&d.results[0]).map_or(&[][..], Vec::as_slice);
        c.ends(alloc, (d.results[0], sites), tasks, &totals)?;
    }
    c.circles()
}

fn kind_of(kernel: &Kernel, inst: Inst) -> Option<Kind> {
    match kernel.insts[inst].op {
        Op::ChannelPut => Some(Kind::Put),
        Op::ChannelGet => Some(Kind::Get),
        Op::ChannelConsumed => Some(Kind::Return),
        _ => None,
    }
}

impl ChannelChecker<'_> {
    fn wrong(&self, problem: ChannelProblem, sites: &[Inst]) -> ChannelError {
        let site = |&i: &Inst| (i, self.kernel.insts[i].op, self.kernel.locs[i]);
        ChannelError { problem, sites: sites.iter().map(site).collect() }
    }

    /// An op on a channel inside an instruction.
    fn touches(&self, inst: Inst) -> Option<Inst> {
        let mut found = None;
        for &r in &self.kernel.insts[inst].regions {
            self.kernel.walk(r, &mut |i| found = found.or(kind_of(self.kernel, i).map(|_| i)));
        }
        found
    }

    /// Counts what a region does; checks the steps and notes the sites if `judged`.
    fn region(&mut self, r: Region, judged: bool) -> Result<(), ChannelError> {
        let kernel = self.kernel;
        for &inst in &kernel.regions[r].insts {
            let d = &kernel.insts[inst];
            if let Some(kind) = kind_of(kernel, inst) {
                let channel = d.args[0];
                let count = self.counts.entry((channel, kind)).or_default().clone();
                if judged {
                    let step = self.values.of(d.args[1]);
                    if step != count {
                        let other = self.sites.iter().find(|s| s.0.channel == channel && s.0.task == self.task).map(|s| s.0.inst);
                        let sites: Vec<Inst> = [inst].into_iter().chain(other).collect();
                        return Err(self.wrong(ChannelProblem::Step, &sites));
                    }
                    self.sites.push((Site { inst, task: self.task, channel, kind }, r));
                }
                self.counts.insert((channel, kind), count.add(&Poly::int(1)));
                continue;
            }
            let Some(inner) = self.touches(inst) else { continue };
            if d.op != Op::For {
                return Err(self.wrong(ChannelProblem::Conditional, &[inst, inner]));
            }
            self.rounds(inst, judged)?;
        }
        Ok(())
    }

    /// A loop: first what a round adds, then a round with the counts that it finds.
    fn rounds(&mut self, inst: Inst, judged: bool) -> Result<(), ChannelError> {
        let region = self.kernel.insts[inst].regions[0];
        let first = self.fresh;
        let mut ghosts = BTreeMap::new();
        let kernel = self.kernel;
        kernel.walk(region, &mut |i| {
            if let Some(kind) = kind_of(kernel, i) {
                let at = ghosts.len();
                ghosts.entry((kernel.insts[i].args[0], kind)).or_insert(first + at);
            }
        });
        self.fresh += ghosts.len();
        // Of other channels nothing changes.
        let mut before = BTreeMap::new();
        for (&key, &n) in &ghosts {
            let ghost = self.values.atom(Atom::Before(n));
            before.insert(key, self.counts.insert(key, ghost).unwrap_or_default());
        }
        self.region(region, false)?;
        let (rounds, round) = (self.values.rounds(inst), self.values.atom(Atom::Round(inst)));
        let mut after = BTreeMap::new();
        for (&key, &n) in &ghosts {
            let by = self.counts[&key].sub(&self.values.atom(Atom::Before(n)));
            if self.values.has(&by, |a| matches!(a, Atom::Before(_))) || self.values.varies(&by, inst) {
                return Err(self.wrong(ChannelProblem::UnevenRounds, &[inst, self.touches(inst).unwrap_or(inst)]));
            }
            let start = before.remove(&key).unwrap_or_default();
            let all = start.add(&by.mul(&rounds));
            // So many loops behind each other that each gives its number of rounds to the sum.
            if all.is_long() {
                return Err(self.wrong(ChannelProblem::Depths, &[inst, self.touches(inst).unwrap_or(inst)]));
            }
            self.counts.insert(key, start.add(&by.mul(&round)));
            after.insert(key, all);
        }
        if judged {
            self.region(region, true)?;
        }
        self.counts.extend(after);
        Ok(())
    }

    /// Who puts and takes, and how often.
    fn ends(
        &self,
        alloc: Inst,
        (channel, sites): (Value, &[Site]),
        tasks: &[Task],
        totals: &[BTreeMap<(Value, Kind), Poly>],
    ) -> Result<(), ChannelError> {
        let of = |kind: Kind| -> Vec<&Site> { sites.iter().filter(|s| s.kind == kind).collect() };
        let (puts, gets, returns) = (of(Kind::Put), of(Kind::Get), of(Kind::Return));
        let Some(put) = puts.first() else {
            return if gets.is_empty() && returns.is_empty() {
                Ok(())
            } else {
                let site = gets.iter().chain(&returns).map(|s| s.inst).next().unwrap_or(alloc);
                Err(self.wrong(ChannelProblem::NoPut, &[alloc, site]))
            };
        };
        if let Some(other) = puts.iter().find(|p| p.task != put.task || tasks[p.task].replicas != 1) {
            return Err(self.wrong(ChannelProblem::SeveralPut, &[put.inst, other.inst]));
        }
        let takers: BTreeSet<usize> = gets.iter().chain(&returns).map(|s| s.task).collect();
        let count: u32 = takers.iter().map(|&t| tasks[t].replicas).sum();
        let want = if let Some(Attr::Count(n)) = self.kernel.insts[alloc].attrs.first() { *n } else { 1 };
        if count != want {
            return Err(self.wrong(ChannelProblem::Consumers { takers: count, want }, &[alloc, put.inst]));
        }
        let total = |task: usize, kind: Kind| totals[task].get(&(channel, kind)).cloned().unwrap_or_default();
        let put_all = total(put.task, Kind::Put);
        for &t in &takers {
            for kind in [Kind::Get, Kind::Return] {
                if total(t, kind) != put_all {
                    let site = gets.iter().chain(&returns).find(|s| s.task == t && s.kind == kind);
                    let site = site.or(gets.iter().chain(&returns).find(|s| s.task == t)).map_or(alloc, |s| s.inst);
                    return Err(self.wrong(ChannelProblem::Totals, &[put.inst, site]));
                }
            }
        }
        Ok(())
    }

    /// Looks for sites that wait for one another within a round.
    fn circles(&self) -> Result<(), ChannelError> {
        // One row of sites per task, all in one loop.
        let mut rows: BTreeMap<usize, (Region, Vec<Site>)> = BTreeMap::new();
        for &(site, region) in &self.sites {
            let row = rows.entry(site.task).or_insert((region, Vec::new()));
            if row.0 != region {
                return Err(self.wrong(ChannelProblem::Depths, &[row.1[0].inst, site.inst]));
            }
            row.1.push(site);
        }
        let nodes: Vec<Site> = rows.values().flat_map(|r| r.1.iter().copied()).collect();
        // Number of a site among those of its kind in a round, and how many there are.
        let mut alike: BTreeMap<(usize, Value, Kind), Vec<usize>> = BTreeMap::new();
        let mut nth = Vec::new();
        for (at, s) in nodes.iter().enumerate() {
            let list = alike.entry((s.task, s.channel, s.kind)).or_default();
            nth.push(list.len());
            list.push(at);
        }
        let count = |s: &Site| alike.get(&(s.task, s.channel, s.kind)).map_or(0, Vec::len);
        let mut first: BTreeMap<Value, &Site> = BTreeMap::new();
        for s in &nodes {
            let other = first.entry(s.channel).or_insert(s);
            if count(other) != count(s) {
                return Err(self.wrong(ChannelProblem::UnevenTasks, &[other.inst, s.inst]));
            }
        }
        // By channel, kind and number, of every task.
        let mut numbered: BTreeMap<(Value, Kind, usize), Vec<usize>> = BTreeMap::new();
        for (at, s) in nodes.iter().enumerate() {
            numbered.entry((s.channel, s.kind, nth[at])).or_default().push(at);
        }
        // Who waits for a site, and for how many one waits.
        let (mut waiting, mut waits) = (vec![Vec::new(); nodes.len()], vec![0usize; nodes.len()]);
        for (at, s) in nodes.iter().enumerate() {
            let depth = if let crate::types::Type::Channel(c) = self.kernel.ty(s.channel) { c.depth as usize } else { 1 };
            let before = match s.kind {
                Kind::Get => numbered.get(&(s.channel, Kind::Put, nth[at])),
                // A put waits for the return of the step that had its slot: in this round if it is far enough ahead.
                Kind::Put => nth[at].checked_sub(depth).and_then(|m| numbered.get(&(s.channel, Kind::Return, m))),
                Kind::Return => None,
            };
            let own = (at > 0 && nodes[at - 1].task == s.task).then(|| at - 1);
            for &from in before.into_iter().flatten().chain(&own) {
                waiting[from].push(at);
                waits[at] += 1;
            }
        }
        for (at, s) in nodes.iter().enumerate().filter(|(_, s)| s.kind == Kind::Return) {
            let got = alike.get(&(s.task, s.channel, Kind::Get)).and_then(|l| l.get(nth[at]));
            if let Some(&get) = got.filter(|&&get| get > at) {
                return Err(self.wrong(ChannelProblem::ReturnBeforeGet, &[s.inst, nodes[get].inst]));
            }
        }
        // Takes away what waits for nothing until nothing is left, or only circles and what waits for them.
        let mut left: BTreeSet<usize> = (0..nodes.len()).collect();
        let mut free: Vec<usize> = (0..nodes.len()).filter(|&n| waits[n] == 0).collect();
        while let Some(n) = free.pop() {
            left.remove(&n);
            for &next in &waiting[n] {
                waits[next] -= 1;
                free.extend((waits[next] == 0).then_some(next));
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        let stuck: Vec<Inst> = left.iter().map(|&n| nodes[n].inst).collect();
        let sites = [stuck.first(), stuck.last()].into_iter().flatten().copied().collect::<Vec<_>>();
        Err(self.wrong(ChannelProblem::Circle, &sites))
    }
}
