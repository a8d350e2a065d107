//! Control flow: a stack of open blocks per task, so that a role can stop at a wait and go on later.
//!
//! ```text
//! a task per block of the cluster ── Roles ─► a task per role, in turn: each runs until it waits or ends; all waiting is a deadlock
//! ```

use super::super::unit::Unit;
use super::error::{LaneError, LaneFault};
use super::machine::Interpreter;
use crate::inst::{Block, For, If, Inst, Roles, While};
use crate::value::{Carried, LVal};
use cranelift_entity::EntityRef;
use smallvec::SmallVec;
use std::ops::Range;

/// What to do at the end of a block.
#[derive(Clone, Copy)]
enum End<'a> {
    Done,
    /// The next step of a counted loop: index, end, increment.
    Step(&'a Inst, &'a For, [i64; 3]),
    /// The loop's condition is known.
    /// … and how many rounds are left.
    Test(&'a Inst, &'a While, u64),
    Again(&'a Inst, &'a While, u64),
    Choice(&'a If, bool),
}

struct Frame<'a> {
    block: &'a Block,
    at: usize,
    end: End<'a>,
}

/// Threads that run together.
struct Task<'a> {
    /// Its block of the cluster.
    rank: usize,
    frames: Vec<Frame<'a>>,
    live: Range<usize>,
    first_warp: usize,
    /// How often it has arrived at the cluster's barrier.
    cluster: u64,
    /// The round of the named barrier at which it waits.
    joined: Option<u64>,
}

/// How a task stopped.
enum Stop<'a> {
    Ended,
    Waits(&'a Inst),
    /// Roles go on in its place.
    Splits(&'a Roles),
}

impl<'a> Interpreter<'a> {
    /// Runs one program instance, or the cluster of those that begin there.
    pub(crate) fn program(&mut self, at: [u32; 3], worker: [u32; 2]) -> Result<(), LaneError> {
        self.worker = worker;
        (self.live, self.first_warp) = (0..self.threads, 0);
        for rank in 0..self.blocks() {
            self.switch(rank);
            self.at = [at[0] + rank as u32, at[1], at[2]];
            self.shared.reset();
            self.units.reset();
            self.stats.programs += 1;
        }
        self.switch(0);
        self.whole()
    }

    /// Runs the whole program, of all blocks of the cluster: its tasks take turns.
    pub(super) fn whole(&mut self) -> Result<(), LaneError> {
        let code = self.code;
        let all = self.live.clone();
        let mut tasks: Vec<Task<'a>> = (0..self.blocks()).map(|rank| Task::new(rank, &code.body, all.clone(), 0)).collect();
        while !tasks.is_empty() {
            let before = self.stats.instructions;
            let (mut waiting, mut moved) = (None, false);
            let mut n = 0;
            while n < tasks.len() {
                self.resume(&tasks[n]);
                // The least arrivals at the cluster's barrier of the tasks that have not ended.
                let met = tasks.iter().map(|t| t.cluster).min().unwrap_or(0);
                match self.run(&mut tasks[n], met)? {
                    Stop::Ended => {
                        tasks.remove(n);
                        moved = true;
                    }
                    Stop::Waits(inst) => {
                        waiting = waiting.or(Some((n, inst)));
                        n += 1;
                    }
                    Stop::Splits(roles) => {
                        let old = tasks.remove(n);
                        for r in roles.roles.iter().rev() {
                            let first = r.first as usize * self.lanes;
                            let count = if r.single { 1 } else { r.warps as usize * self.lanes };
                            let task = Task::new(old.rank, &r.body, first..first + count, r.first as usize);
                            tasks.insert(n, Task { cluster: old.cluster, ..task });
                        }
                        moved = true;
                    }
                }
            }
            // A wait that is tried again costs nothing, so no cost is no progress.
            if let (false, true, Some((n, inst))) = (moved, self.stats.instructions == before, waiting) {
                self.resume(&tasks[n]);
                return Err(self.deadlock(inst));
            }
        }
        for rank in 0..self.blocks() {
            self.switch(rank);
            (self.live, self.first_warp) = (all.clone(), 0);
            if let Some(inst) = code.body.last() {
                self.nothing_under_way().map_err(|fault| self.locate(inst, (fault, 0)))?;
            }
        }
        self.switch(0);
        Ok(())
    }

    fn resume(&mut self, task: &Task<'a>) {
        self.switch(task.rank);
        (self.live, self.first_warp) = (task.live.clone(), task.first_warp);
    }

    fn deadlock(&self, inst: &'a Inst) -> LaneError {
        let fault = match inst {
            Inst::Unit(u) => match &**u {
                Unit::Wait { barrier, parity } => self.stuck(barrier, *parity),
                Unit::NamedBarrier { .. } => LaneFault::Alone("a named barrier"),
                Unit::ClusterWait => LaneFault::Alone("the barrier of the cluster"),
                _ => LaneFault::Malformed("a wait for nothing"),
            },
            _ => LaneFault::Malformed("a wait for nothing"),
        };
        self.locate(inst, (fault, 0))
    }

    /// True if a task may go on behind a unit that waits; `met` is how often all tasks have arrived at the cluster's barrier.
    fn may_pass(&mut self, task: &mut Task<'a>, met: u64, inst: &Inst, u: &Unit) -> Result<bool, LaneError> {
        match u {
            Unit::Wait { barrier, parity } => self.passes(barrier, *parity).map_err(|t| self.locate(inst, t)),
            Unit::NamedBarrier { id, warps, wait } => {
                let own = (self.count() / self.lanes) as u32;
                let (arrived, rounds) = self.units.named.entry(*id).or_default();
                let round = match task.joined {
                    Some(round) => round,
                    None => {
                        let round = *rounds;
                        *arrived += own;
                        if *arrived > *warps {
                            return Err(self.locate(inst, (LaneFault::Malformed("more warps at a named barrier than it has"), 0)));
                        }
                        if *arrived == *warps {
                            (*arrived, *rounds) = (0, *rounds + 1);
                        }
                        round
                    }
                };
                let over = *rounds > round;
                task.joined = (*wait && !over).then_some(round);
                if over {
                    self.shared.barrier();
                }
                Ok(over || !*wait)
            }
            Unit::ClusterArrive { .. } => {
                task.cluster += 1;
                Ok(true)
            }
            Unit::ClusterWait if task.cluster <= met => {
                for rank in 0..self.blocks() {
                    self.in_block(rank, |m| m.shared.barrier());
                }
                self.stats.barriers += 1;
                Ok(true)
            }
            Unit::ClusterWait => Ok(false),
            _ => Ok(true),
        }
    }

    fn run(&mut self, task: &mut Task<'a>, met: u64) -> Result<Stop<'a>, LaneError> {
        while let Some(frame) = task.frames.last_mut() {
            let block = frame.block;
            let Some(inst) = block.get(frame.at) else {
                let end = frame.end;
                task.frames.pop();
                self.close(task, end)?;
                continue;
            };
            frame.at += 1;
            if let Inst::Unit(u) = inst
                && !self.may_pass(task, met, inst, u)?
            {
                if let Some(frame) = task.frames.last_mut() {
                    frame.at -= 1;
                }
                return Ok(Stop::Waits(inst));
            }
            self.spend().map_err(|t| self.locate(inst, t))?;
            match inst {
                Inst::For(l) => self.counted(task, inst, l)?,
                Inst::While(l) => {
                    self.enter(&l.carried);
                    task.open(&l.test, End::Test(inst, l, self.steps));
                }
                Inst::If(c) => {
                    let holds = self.uniform(c.condition).map_err(|t| self.locate(inst, t))? != 0;
                    task.open(if holds { &c.then } else { &c.otherwise }, End::Choice(c, holds));
                }
                Inst::Roles(r) => return Ok(Stop::Splits(r)),
                _ => self.plain(inst)?,
            }
            if self.unready.replace(false) {
                return Err(self.locate(inst, (LaneFault::NotReady, 0)));
            }
        }
        Ok(Stop::Ended)
    }

    fn counted(&mut self, task: &mut Task<'a>, inst: &'a Inst, l: &'a For) -> Result<(), LaneError> {
        let bound = |m: &Self, v| m.uniform(v).map(|x| x as i64).map_err(|t| m.locate(inst, t));
        let (lo, hi, step) = (bound(self, l.lo)?, bound(self, l.hi)?, bound(self, l.step)?);
        if step <= 0 {
            return Err(self.locate(inst, (LaneFault::Step { step }, 0)));
        }
        if l.runs && lo >= hi {
            return Err(self.locate(inst, (LaneFault::Malformed("a loop that runs at least once"), 0)));
        }
        self.enter(&l.carried);
        self.iterate(task, inst, l, [lo, hi, step])
    }

    /// Starts an iteration, or leaves.
    fn iterate(&mut self, task: &mut Task<'a>, inst: &'a Inst, l: &'a For, at: [i64; 3]) -> Result<(), LaneError> {
        if at[0] >= at[1] {
            self.leave(&l.carried);
            return Ok(());
        }
        self.spend().map_err(|t| self.locate(inst, t))?;
        let mut iv = self.take(l.iv);
        iv[self.live.clone()].fill(at[0] as u64);
        self.regs[l.iv.index()] = iv;
        task.open(&l.body, End::Step(inst, l, at));
        Ok(())
    }

    fn close(&mut self, task: &mut Task<'a>, end: End<'a>) -> Result<(), LaneError> {
        match end {
            End::Done => {}
            End::Step(inst, l, [i, hi, step]) => {
                self.assign(l.carried.iter().map(|c| (c.param, c.next)));
                // Past the largest index there is no other.
                let next = i.checked_add(step).unwrap_or(hi);
                self.iterate(task, inst, l, [next, hi, step])?;
            }
            End::Test(inst, l, left) => {
                if self.uniform(l.condition).map_err(|t| self.locate(inst, t))? == 0 {
                    self.leave(&l.carried);
                } else {
                    self.spend().map_err(|t| self.locate(inst, t))?;
                    let limit = self.steps;
                    let left = left.checked_sub(1).ok_or_else(|| self.locate(inst, (LaneFault::Rounds { limit }, 0)))?;
                    task.open(&l.body, End::Again(inst, l, left));
                }
            }
            End::Again(inst, l, left) => {
                self.assign(l.carried.iter().map(|c| (c.param, c.next)));
                task.open(&l.test, End::Test(inst, l, left));
            }
            End::Choice(c, true) => self.assign(c.results.iter().map(|&(result, value, _)| (result, value))),
            End::Choice(c, false) => self.assign(c.results.iter().map(|&(result, _, value)| (result, value))),
        }
        Ok(())
    }

    /// Copies columns side by side, as all are read before any is written.
    fn assign(&mut self, pairs: impl Iterator<Item = (LVal, LVal)>) {
        let live = self.live.clone();
        let columns: SmallVec<[(LVal, LVal, Vec<u64>); 16]> =
            pairs.map(|(to, from)| (to, from, self.regs[from.index()].get(live.clone()).unwrap_or(&[]).to_vec())).collect();
        let states: SmallVec<[u64; 16]> = columns.iter().map(|(_, from, _)| self.units.state(*from)).collect();
        for ((to, _, column), state) in columns.into_iter().zip(states) {
            let mut whole = self.take(to);
            if column.len() == live.len() {
                whole[live.clone()].copy_from_slice(&column);
            }
            self.regs[to.index()] = whole;
            self.units.set_state(to, state);
        }
    }

    fn enter(&mut self, carried: &[Carried]) {
        self.assign(carried.iter().map(|c| (c.param, c.init)));
    }

    fn leave(&mut self, carried: &[Carried]) {
        self.assign(carried.iter().map(|c| (c.result, c.param)));
    }
}

impl<'a> Task<'a> {
    fn new(rank: usize, block: &'a Block, live: Range<usize>, first_warp: usize) -> Task<'a> {
        Task { rank, frames: vec![Frame { block, at: 0, end: End::Done }], live, first_warp, cluster: 0, joined: None }
    }

    fn open(&mut self, block: &'a Block, end: End<'a>) {
        self.frames.push(Frame { block, at: 0, end });
    }
}
