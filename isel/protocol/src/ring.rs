//! What roles with rings of slots do to one another: the kernels that are specialised by the compiler.

use super::ProtocolError;
use super::env::Env;
use super::mbarrier::{Lesson, Mbarrier, Site, Slot, Staging};
use super::run::{Checker, State, place};
use super::value::Abs;
use cranelift_entity::EntityRef;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_lane::{Inst, OperandA, ParamSource, Place, Unit};

/// What a role is up to.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct RingTask {
    /// What its staged results are up to, and since which instruction.
    pub staging: (Staging, Option<Site>),
    knows: Lesson,
    /// The mbarrier that it waited for last.
    waited: Option<i64>,
}

impl Default for RingTask {
    fn default() -> RingTask {
        RingTask { staging: (Staging::Free, None), knows: Lesson::default(), waited: None }
    }
}

impl RingTask {
    /// The same without the instructions, which only messages name.
    pub fn without_sites(&self) -> RingTask {
        RingTask { staging: (self.staging.0, None), ..self.clone() }
    }
}

/// Mbarriers and slots.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct RingState {
    pub mbarriers: BTreeMap<i64, Mbarrier>,
    pub slots: BTreeMap<i64, Slot>,
    /// The mbarrier that was waited for in front of the last copy into each slot: whose arrivals have to say that it is free.
    guards: BTreeMap<i64, i64>,
    /// The mbarriers that count bytes.
    loaded: BTreeSet<i64>,
}

impl RingState {
    /// The same without the instructions, which only messages name.
    pub fn without_sites(&self) -> RingState {
        RingState {
            mbarriers: self.mbarriers.iter().map(|(&a, w)| (a, Mbarrier { last: None, ..w.clone() })).collect(),
            slots: self.slots.iter().map(|(&a, x)| (a, x.without_sites())).collect(),
            guards: self.guards.clone(),
            loaded: BTreeSet::new(),
        }
    }
}

impl<'a> Checker<'a> {
    /// The state behind what all warps do together.
    pub(super) fn front(&self) -> Result<(Env, RingState), ProtocolError> {
        let threads = self.program.threads() as usize;
        let mut env = self.knowing();
        let mut mbarriers = BTreeMap::new();
        let nowhere = Site(usize::MAX, std::ptr::null());
        // Made mbarriers that the units, and then the other warps, may not see yet.
        let (mut private, mut unseen) = (false, false);
        for inst in &self.program.body {
            self.compute_in(inst, &mut env, (0, threads, 0, 0));
            if matches!(inst, Inst::Unit(u) if **u == Unit::PublishBarriers) {
                private = false;
            }
            if *inst == Inst::Barrier || matches!(inst, Inst::Unit(u) if **u == Unit::ClusterWait) {
                unseen = private;
            }
            if matches!(inst, Inst::Roles(_)) && private {
                return self.error("mbarriers are not published to the units", nowhere, None);
            }
            if matches!(inst, Inst::Roles(_)) && unseen {
                return self.error("warps do not wait until mbarriers are made", nowhere, None);
            }
            if let Inst::Unit(u) = inst
                && let Unit::InitBarrier { barrier, count, guard } = &**u
            {
                let lanes = guard.map_or(Some(threads as u32), |g| env.get(&g).and_then(|a| self.lists.count(a, threads)));
                let Some(at) = place(&env, barrier) else { return self.error("an mbarrier of unknown address", nowhere, None) };
                if lanes != Some(1) {
                    return self.error(format!("the mbarrier at {at:#x} is not made by one lane"), nowhere, None);
                }
                let since = vec![0; self.agents.len()];
                let mbarrier = Mbarrier {
                    count: *count,
                    pending: *count,
                    bytes: 0,
                    parity: false,
                    since,
                    gathered: Lesson::default(),
                    taught: Lesson::default(),
                    last: None,
                };
                (private, unseen) = (true, true);
                if mbarriers.insert(at, mbarrier).is_some() {
                    return self.error(format!("the mbarrier at {at:#x} is made twice"), nowhere, None);
                }
            }
        }
        Ok((env, RingState { mbarriers, ..RingState::default() }))
    }

    /// What a unit does; false if it waits.
    pub(super) fn unit(&self, s: &mut State<'a>, t: usize, here: Site, u: &Unit) -> Result<bool, ProtocolError> {
        let count = self.agents[t].lanes;
        let known = |s: &State<'a>, p: &Place| match place(&s.tasks[t].env, p) {
            Some(at) if s.ring.mbarriers.contains_key(&at) => Ok(at),
            Some(at) => self.error(format!("no mbarrier is made at {at:#x}, used"), here, None),
            None => self.error("the address of an mbarrier is not understood", here, None),
        };
        match u {
            Unit::Wait { barrier, parity } => {
                let at = known(s, barrier)?;
                let Some(Abs::All(parity)) = s.tasks[t].env.get(parity) else {
                    return self.error("the parity is not understood", here, None);
                };
                let odd = parity & 1 == 1;
                let Some(w) = s.ring.mbarriers.get_mut(&at) else { return Ok(false) };
                // It must have learnt that the phase in front of the one it waits for has ended, in whatever order the roles run.
                let unknown = if self.passes[t] && s.ring.loaded.contains(&at) {
                    s.tasks[t].ring.knows.behind.get(&at).copied().unwrap_or(2)
                } else {
                    0
                };
                if w.since[t] < unknown {
                    return self.error(
                        "a wait may come before the phase in front of the one it is for, and can't tell them apart,",
                        here,
                        w.last,
                    );
                }
                if w.since[t] > 1 {
                    return self.error("a wait comes after the phase behind the one it is for, and can't tell them apart,", here, w.last);
                }
                if w.parity == odd {
                    return Ok(false);
                }
                if self.passes[t] && w.since[t] > 0 && s.ring.loaded.contains(&at) {
                    s.tasks[t].ring.knows.behind.insert(at, 0);
                }
                w.since[t] = 0;
                // Only a role of one lane copies.
                if self.agents[t].single {
                    s.tasks[t].ring.waited = Some(at);
                }
                let knows = &mut s.tasks[t].ring.knows;
                knows.full.extend(&w.taught.full);
                knows.free.extend(&w.taught.free);
                if self.passes[t] {
                    // Told once: what is left behind would only make states many.
                    knows.learn(&std::mem::take(&mut w.taught.behind));
                }
            }
            Unit::Arrive { barrier, guard } => {
                let at = known(s, barrier)?;
                let lanes = guard.map_or(Some(count as u32), |g| s.tasks[t].env.get(&g).and_then(|a| self.lists.count(a, count)));
                let Some(lanes) = lanes else { return self.error("how many lanes arrive is not understood", here, None) };
                self.arrive(s, at, lanes, 0, here)?;
            }
            Unit::ArriveExpect { barrier, bytes, guard } => {
                let at = known(s, barrier)?;
                if guard.is_some_and(|g| s.tasks[t].env.get(&g).and_then(|a| self.lists.count(a, count)) != Some(1)) {
                    return self.error("how many lanes expect bytes is not understood", here, None);
                }
                // None of its phases has ended yet, which all know.
                if s.ring.loaded.insert(at) {
                    s.tasks.iter_mut().zip(&self.passes).filter(|(_, p)| **p).for_each(|(t, _)| {
                        t.ring.knows.behind.insert(at, 0);
                    });
                }
                self.arrive(s, at, 1, *bytes, here)?;
            }
            Unit::Pass { barrier } => {
                let at = known(s, barrier)?;
                if let Some(w) = s.ring.mbarriers.get_mut(&at) {
                    w.since[t] -= 1;
                }
            }
            Unit::BulkLoad { map, to, barrier, .. } => {
                let mbarrier = known(s, barrier)?;
                let Some(at) = place(&s.tasks[t].env, to) else { return self.error("where a copy goes is not understood", here, None) };
                let Some(ParamSource::Tensor(b)) = self.program.params.get(*map as usize).map(|p| p.source) else { return Ok(true) };
                let bytes = b.bytes();
                let end = at + i64::from(bytes);
                let over =
                    s.ring.slots.range(..end).next_back().filter(|(a, x)| **a + i64::from(x.bytes) > at).map(|(&a, x)| (a, x.clone()));
                if let Some((a, x)) = over {
                    let Some(read) = x.read.filter(|_| a == at && x.bytes == bytes) else {
                        return self.error("a copy overwrites what nobody has read,", here, Some(x.writer));
                    };
                    if !s.tasks[t].ring.knows.free.contains(&at) {
                        return self.error("a copy overwrites what a multiplication may still read,", here, Some(read));
                    }
                }
                for task in &mut s.tasks {
                    task.ring.knows.full.remove(&at);
                    task.ring.knows.free.remove(&at);
                }
                s.ring.slots.insert(at, Slot { bytes, writer: here, read: None, readers: Vec::new(), lanes: Vec::new(), given: false });
                if let Some(waited) = s.tasks[t].ring.waited {
                    s.ring.guards.insert(at, waited);
                }
                // It may land at once; who reads it must have waited for the mbarrier in any case.
                if let Some(w) = s.ring.mbarriers.get_mut(&mbarrier) {
                    w.bytes -= i64::from(bytes);
                    w.gathered.full.insert(at);
                }
                turn(s, mbarrier);
            }
            Unit::Multiply(m) => {
                let left = match &m.a {
                    OperandA::Shared(o) => Some((o, self.units.matrix.get(m.instr.index()).map_or(0, |r| r.m))),
                    OperandA::Regs(_) => None,
                };
                for (o, rows) in left.into_iter().chain([(&m.b, m.n)]) {
                    let starts: Vec<i64> = match s.tasks[t].env.get(&o.at.addr) {
                        Some(Abs::All(x)) => vec![x],
                        Some(Abs::Lanes(l)) => {
                            let mut all = self.lists.get(l).to_vec();
                            all.sort_unstable();
                            all.dedup();
                            all
                        }
                        Some(Abs::Any | Abs::Index(..) | Abs::Count(..)) | None => {
                            return self.error("the address of an operand is not understood", here, None);
                        }
                    };
                    let size = self.units.matrix.get(m.instr.index()).map_or(1, |r| r.operand.bytes());
                    // Along M or N an operand reaches over several panels.
                    let panels = if o.panels.along_k { 1 } else { rows.div_ceil(o.panels.swizzle / size) };
                    for (start, p) in starts.iter().flat_map(|s| (0..panels).map(move |p| (s, p))) {
                        let at = start + i64::from(o.at.offset) + i64::from(p * o.panels.stride);
                        let x = self.read_slot(s, t, here, at, "a multiplication")?;
                        if !x.readers.contains(&(0, here)) {
                            x.readers.push((0, here));
                        }
                    }
                }
            }
            Unit::CommitMatrices => {
                s.ring.slots.values_mut().flat_map(|x| &mut x.readers).filter(|r| r.1.0 == t).for_each(|r| r.0 += 1);
            }
            Unit::WaitMatrices { pending } => s.ring.slots.values_mut().for_each(|x| x.readers.retain(|r| r.1.0 != t || r.0 <= *pending)),
            Unit::StoreMatrix { .. } => self.staging(s, t, here, &[Staging::Free, Staging::Written], Staging::Written)?,
            Unit::FenceUnits => {
                self.staged(s, t, here, Staging::Written, Staging::Fenced);
                s.ring.slots.values_mut().flat_map(|x| &mut x.lanes).filter(|r| r.0 == t).for_each(|r| r.1 = true);
            }
            Unit::GroupBarrier { .. } => {
                self.staged(s, t, here, Staging::Fenced, Staging::Shown);
                self.staged(s, t, here, Staging::Left, Staging::Free);
                self.lanes_met(s, t);
            }
            Unit::BulkStore { .. } => self.staging(s, t, here, &[Staging::Shown, Staging::Leaving], Staging::Leaving)?,
            Unit::CommitStores { .. } => self.staged(s, t, here, Staging::Leaving, Staging::Committed),
            Unit::WaitStoresRead { pending: 0, .. } => self.staged(s, t, here, Staging::Committed, Staging::Left),
            Unit::WaitStoresRead { .. }
            | Unit::FenceMatrices
            | Unit::Hold
            | Unit::PublishBarriers
            | Unit::AwaitPrevious
            | Unit::PrefetchMap { .. } => {}
            Unit::InitBarrier { .. } => return self.error("an mbarrier is made in a role", here, None),
            Unit::NamedBarrier { .. }
            | Unit::ClusterArrive { .. }
            | Unit::ClusterWait
            | Unit::Remote { .. }
            | Unit::RemoteLoad { .. }
            | Unit::RemoteStore { .. }
            | Unit::RemoteStoreAsync { .. }
            | Unit::RemoteArrive { .. } => return self.error("a unit that the proof does not follow", here, None),
        }
        Ok(true)
    }

    /// A slot is read at an address; it must be known to be full.
    fn read_slot<'s>(&self, s: &'s mut State<'a>, t: usize, here: Site, at: i64, who: &str) -> Result<&'s mut Slot, ProtocolError> {
        let found = s.ring.slots.range(..=at).next_back().filter(|(a, x)| **a + i64::from(x.bytes) > at).map(|(&a, x)| (a, x.writer));
        let Some((slot, writer)) = found else {
            return self.error(format!("{who} reads what nobody has copied,"), here, None);
        };
        if !s.tasks[t].ring.knows.full.contains(&slot) {
            return self.error(format!("{who} reads what may not have arrived,"), here, Some(writer));
        }
        s.tasks.iter_mut().for_each(|task| {
            task.ring.knows.free.remove(&slot);
        });
        let Some(x) = s.ring.slots.get_mut(&slot) else { return self.error("a slot is gone,", here, None) };
        x.read = Some(here);
        x.given = false;
        Ok(x)
    }

    /// Lanes read a slot.
    pub(super) fn lanes_read(&self, s: &mut State<'a>, t: usize, here: Site, from: Place) -> Result<(), ProtocolError> {
        let mut all: Vec<i64> = match s.tasks[t].env.get(&from.addr) {
            Some(Abs::All(x)) => vec![x],
            Some(Abs::Lanes(l)) => self.lists.get(l).to_vec(),
            Some(Abs::Any | Abs::Index(..) | Abs::Count(..)) | None => {
                return self.error("where lanes read a slot is not understood", here, None);
            }
        };
        all.sort_unstable();
        all.dedup();
        for at in all {
            let x = self.read_slot(s, t, here, at + i64::from(from.offset), "a lane")?;
            x.lanes.retain(|r| r.0 != t);
            x.lanes.push((t, false));
        }
        Ok(())
    }

    /// All lanes of each group of a role have come to one point.
    pub(super) fn lanes_met(&self, s: &mut State<'a>, t: usize) {
        s.ring.slots.values_mut().for_each(|x| x.lanes.retain(|&r| r != (t, true)));
    }

    /// Moves results on, if they are there.
    fn staged(&self, s: &mut State<'a>, t: usize, here: Site, from: Staging, to: Staging) {
        let staging = &mut s.tasks[t].ring.staging;
        if staging.0 == from {
            *staging = (to, Some(here));
        }
    }

    /// Moves results on; they must be there.
    fn staging(&self, s: &mut State<'a>, t: usize, here: Site, from: &[Staging], to: Staging) -> Result<(), ProtocolError> {
        let (now, last) = s.tasks[t].ring.staging;
        if !from.contains(&now) {
            let problem = match to {
                Staging::Written => "results are written where others may still be read from,",
                _ => "results leave before all of them are fenced and shown,",
            };
            return self.error(problem, here, last);
        }
        s.tasks[t].ring.staging = (to, Some(here));
        Ok(())
    }

    fn arrive(&self, s: &mut State<'a>, at: i64, lanes: u32, bytes: u32, here: Site) -> Result<(), ProtocolError> {
        if lanes == 0 {
            return Ok(());
        }
        let Some(w) = s.ring.mbarriers.get_mut(&at) else { return Ok(()) };
        w.bytes += i64::from(bytes);
        let Some(left) = w.pending.checked_sub(lanes) else {
            return self.error(format!("{lanes} arrivals where a phase expects {} more", w.pending), here, w.last);
        };
        w.pending = left;
        w.last = Some(here);
        // Whoever waits for this learns of the slots that are refilled behind such a wait and that the role has done with. It may know
        // more; to teach no more than that keeps states few, and refuses at most a program that releases a slot by way of another role.
        for (&a, x) in s.ring.slots.iter_mut() {
            let told = s.ring.guards.get(&a).is_none_or(|&mbarrier| mbarrier == at);
            if told && !x.given && x.readers.is_empty() && !x.lanes.iter().any(|r| r.0 == here.0) && x.read.is_some_and(|r| r.0 == here.0) {
                x.given = true;
                w.gathered.free.insert(a);
                s.tasks[here.0].ring.knows.full.remove(&a);
            }
        }
        // Who hands a turn over tells what it knows, and forgets it: it will be told.
        if self.passes[here.0] && !s.ring.loaded.contains(&at) && !s.ring.guards.values().any(|&mbarrier| mbarrier == at) {
            w.gathered.learn(&std::mem::take(&mut s.tasks[here.0].ring.knows.behind));
        }
        turn(s, at);
        Ok(())
    }
}

/// Ends a phase that has all it expects.
fn turn(s: &mut State<'_>, at: i64) {
    let Some(w) = s.ring.mbarriers.get_mut(&at) else { return };
    if w.pending == 0 && w.bytes == 0 {
        w.parity = !w.parity;
        w.pending = w.count;
        w.taught = std::mem::take(&mut w.gathered);
        w.since.iter_mut().for_each(|n| *n = (*n + 1).min(3));
        s.ring.mbarriers.values_mut().flat_map(|w| [&mut w.gathered, &mut w.taught]).for_each(|l| l.ended(at));
        s.tasks.iter_mut().for_each(|t| t.ring.knows.ended(at));
    }
}
