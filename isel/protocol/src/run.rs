//! Runs the roles of all blocks on what is known, and follows every answer to what is open.

pub(super) mod agents;
mod cases;
mod checker;
pub(super) mod code;
mod dead;
mod ends;
mod fuel;
mod iterations;
mod lifetimes;
mod periods;
mod progress;
mod rounds;
mod seen;
mod trips;

pub(crate) use checker::Checker;
pub(crate) use fuel::Fuel;
pub use fuel::MOST_STEPS;
pub(crate) use progress::{Life, State, place};

use super::env::Env;
use super::error::{ProtocolError, Spot};
use super::eval::{eval, remainder};
use super::find::loops;
use super::site::Site;
use super::state::analysis::Effort;
use super::state::keys::ADDRESS;
use super::state::rotation::Rotation;
use super::state::shared::Shared;
use super::trip_classes::TripClasses;
use super::value::Abs;
use crate::problem::{Many, Problem};
use agents::{Agent, Groups, ROLE};
use code::{Repeats, What};
use cranelift_entity::EntityRef;
use fuel::{BYTES_PER_STEP, too_complex};
use periods::Periods;
use progress::{End, Frame, Step, Task, advance};
use rounds::{Ahead, Inside, Round, Rounds};
use seen::{Note, Seen};
use smallvec::SmallVec;
use std::collections::VecDeque;
use tilelift_lane::visit::computed;
use tilelift_lane::{Block, Inst, LVal, Program, Special, Unit};

/// States, of all blocks together, after which a program counts as too complex to prove.
const MAX_STATES: usize = 1 << 12;

/// Bytes of states, and of what was noted of them, after which it does, too.
const MAX_BYTES: usize = 1 << 27;

/// Where agents stop.
enum Stop {
    /// All have ended.
    Ended,
    /// An answer is needed that is not there, of this trip-count class.
    Asked(usize),
    /// The case of a loop's end is needed that is not assumed yet.
    Undecided,
}

/// A state that is to be followed.
struct Open {
    state: State,
    round: Option<Box<Round>>,
    /// What was noted of the state that it goes on from.
    note: Option<Note>,
}

impl Open {
    /// One that nothing was noted of.
    fn new(state: State) -> Open {
        Open { state, round: None, note: None }
    }
}

/// Follows all answers; with `rotates`, states that differ by rotated rings as one, and none of which more is known than of another.
pub(super) fn explore(
    program: &Program,
    units: Groups<'_>,
    trip_classes: &TripClasses,
    effort: (Effort, bool),
    rotates: bool,
    fuel: &Fuel,
) -> Result<usize, ProtocolError> {
    let mut checker = Checker::new(program, units, trip_classes, effort, rotates, fuel);
    (checker.subsumes, checker.joins) = (rotates, rotates);
    checker.rounds = rotates && checker.analysis.any_splits();
    let mut done = checker.follow();
    // Less may have been known than is needed.
    if done.is_err() && checker.joined.get() && !fuel.spent() {
        checker.joins = false;
        done = checker.follow();
    }
    if done.is_err() && (checker.shortened.get() || checker.late.is_some()) && !fuel.spent() {
        (checker.joins, checker.rounds, checker.late) = (false, false, None);
        done = checker.follow();
    }
    let states = done?;
    if checker.rotation.as_ref().is_some_and(Rotation::is_uneven) {
        return Checker::new(program, units, trip_classes, effort, false, fuel).follow();
    }
    Ok(states)
}

impl<'a> Checker<'a> {
    fn follow(&self) -> Result<usize, ProtocolError> {
        let checker = self;
        let (mut seen, mut rounds) = (Seen::default(), Rounds::default());
        let mut open: VecDeque<Open> = checker.begin().into_iter().map(Open::new).collect();
        // States that are done with: their memory serves others.
        let mut spare: Vec<State> = Vec::new();
        let most = MAX_STATES / checker.analysis.blocks;
        // Of states that are joined less and less is known: rounds first, which spare others, and then what came first, so that less is done again. States
        // that are not are covered by what is followed to its end.
        while let Some(Open { mut state, round, note }) = if checker.joins { open.pop_front() } else { open.pop_back() } {
            // Another one stands for it.
            if note.is_some_and(|note| !seen.is_current(note)) {
                spare.push(state);
                continue;
            }
            let (stop, apart) = checker.run(&mut state, round.as_ref().map(|r| &r.inside))?;
            let late = checker.late.filter(|_| state.undecided.is_some());
            let trip_class = match (stop, late) {
                (Stop::Ended, _) => {
                    spare.push(state);
                    continue;
                }
                (Stop::Asked(class), Some(late)) if class != late.class || checker.may_wait(&state, late) => class,
                (Stop::Asked(_) | Stop::Undecided, Some(late)) => {
                    open.extend(checker.cases_of(&state, late).into_iter().map(Open::new));
                    spare.push(state);
                    continue;
                }
                (Stop::Asked(class), None) => class,
                (Stop::Undecided, None) => return checker.deadlock(&state),
            };
            let late = late.filter(|late| late.class == trip_class);
            checker.forget_dead(&mut state);
            let first = checker.first_seen(&mut state, &mut seen);
            if let Some(round) = round.filter(|_| !apart) {
                rounds.close(*round, trip_class, &seen);
            }
            if !first {
                spare.push(state);
                continue;
            }
            if seen.count() > most {
                return too_complex(Many::States(most));
            }
            let bytes = checker.state_bytes(&state);
            checker.fuel.burn(bytes / BYTES_PER_STEP);
            if (open.len() + spare.len() + 2) * bytes + seen.held > MAX_BYTES {
                return too_complex(Many::MiB(MAX_BYTES >> 20));
            }
            let ahead = match checker.rounds {
                true => checker.ahead(&mut state, trip_class, &mut seen, &rounds),
                false => Ahead::Open(None),
            };
            if matches!(ahead, Ahead::Back(true)) && !checker.first_seen(&mut state, &mut seen) {
                spare.push(state);
                continue;
            }
            if let Ahead::Open(round) = ahead {
                let mut again = match spare.pop() {
                    Some(mut old) => {
                        old.clone_from(&state);
                        old
                    }
                    None => state.clone(),
                };
                match late {
                    Some(late) => checker.goes_round(&mut again, late),
                    None => again.answers[trip_class].push_back(true),
                }
                let again = Open { state: again, round, note: Some(seen.note()) };
                if checker.joins && again.round.is_some() { open.push_front(again) } else { open.push_back(again) }
            }
            match late {
                Some(late) => checker.ends_here(&mut state, late),
                None => state.answers[trip_class].push_back(false),
            }
            open.push_back(Open { state, round: None, note: Some(seen.note()) });
        }
        Ok(seen.count())
    }
}

impl<'a> Checker<'a> {
    fn spot(&self, site: Site) -> Box<Spot> {
        // The pointer is only compared with those of the program's instructions.
        fn find(block: &Block, at: *const Inst) -> Option<&Inst> {
            block.iter().find_map(|i| {
                if std::ptr::eq(i, at) {
                    return Some(i);
                }
                match i {
                    Inst::For(l) => find(&l.body, at),
                    Inst::If(c) => find(&c.then, at).or_else(|| find(&c.otherwise, at)),
                    _ => None,
                }
            })
        }
        match self.agents.get(site.0).and_then(|a| find(a.body, site.1).map(|i| (a, i))) {
            Some((a, i)) if self.analysis.blocks > 1 => Spot::inst(self.program, i, format!("{} of block {}", a.name, a.block)),
            Some((a, i)) => Spot::inst(self.program, i, a.name),
            None => Spot::program("the program's start"),
        }
    }

    pub(super) fn error<T>(&self, problem: Problem, here: Site, other: Option<Site>) -> Result<T, ProtocolError> {
        Err(ProtocolError { problem, here: self.spot(here), other: other.map(|s| self.spot(s)) })
    }

    /// The states to begin with.
    fn begin(&self) -> Vec<State> {
        let mut state = self.state();
        self.shared_begin(&mut state);
        for (t, _) in state.tasks.iter_mut().zip(&self.agents).filter(|(_, a)| a.whole) {
            t.life = Life::Awake;
        }
        if self.late.is_some() {
            return vec![State { undecided: Some(0), ..state }];
        }
        state.split(&self.analysis)
    }

    fn state(&self) -> State {
        let trip_classes = self.trip_classes();
        // A loop that takes some iterations passes over the runs of the loops in those in front.
        let debt = |n: usize| {
            let mut debt = vec![0; trip_classes];
            if self.trip_classes.skips.is_empty() {
                return debt;
            }
            loops(self.agents[n].body, &mut |l| {
                if let Some(skip) = self.trip_classes.skips.get(&l.iv) {
                    debt[self.trip_class(n, l)] = skip.0;
                }
            });
            debt
        };
        let task = |(n, a): (usize, &Agent<'a>)| Task {
            frames: vec![Frame { block: a.code, at: 0, end: End::Done }],
            env: self.knowing(),
            read: vec![0; trip_classes],
            debt: debt(n),
            joined: None,
            met: None,
            life: Life::Asleep,
        };
        State {
            tasks: self.agents.iter().enumerate().map(task).collect(),
            shared: Shared::default(),
            answers: vec![VecDeque::new(); trip_classes],
            undecided: None,
        }
    }

    /// What an agent's lanes have of what all lanes of the block have.
    fn part(&self, env: &Env, a: &Agent<'_>) -> Env {
        let first = (a.first * self.program.lanes) as usize;
        env.part(a.role, &|v| self.lists.slice(v, first..first + a.lanes))
    }

    /// All warps of a block go their own ways.
    fn fork(&self, s: &mut State, t: usize, here: Site) -> Result<(), ProtocolError> {
        if s.tasks[t].met.is_some() {
            return self.error(Problem::ClusterApart, here, None);
        }
        self.mbarriers_are_seen(s, t, here)?;
        let mut env = s.tasks[t].env.clone();
        let own = |a: &Agent<'_>| !a.whole && a.block == self.agents[t].block;
        for (n, a) in self.agents.iter().enumerate().filter(|(_, a)| own(a)) {
            s.tasks[n].env = self.part(&env, a);
            s.tasks[n].life = Life::Awake;
            self.shared_fork(s, t, n);
        }
        s.tasks[t].frames.clear();
        env.end();
        s.tasks[t].env = env;
        Ok(())
    }

    pub(super) fn compute(&self, inst: &Inst, env: &mut Env, t: usize) {
        let a = &self.agents[t];
        self.compute_in(inst, env, ((a.first * self.program.lanes) as usize, a.lanes, a.base as usize, a.block));
    }

    /// A run of instructions, which makes the same of the same.
    fn compute_all(&self, n: usize, env: &mut Env, t: usize) {
        let group = self.code.group(n);
        self.fuel.burn(group.insts.len());
        if !group.again {
            return group.insts.iter().for_each(|inst| self.compute(inst, env, t));
        }
        if let Some(read) = group.recall(env) {
            group.insts.iter().for_each(|inst| self.compute(inst, env, t));
            group.note(read, env);
        }
    }

    /// True if an instruction makes what matters.
    fn computes(&self, inst: &Inst) -> bool {
        computed(inst).is_some_and(|list| list.iter().any(|v| self.computed[v.index()]))
    }

    /// The same for so many lanes from one on, whose warps count from one on, of a block.
    pub(super) fn compute_in(&self, inst: &Inst, env: &mut Env, of: (usize, usize, usize, usize)) {
        if let Some((v, a)) = self.made(inst, env, of) {
            env.insert(v, a);
        }
    }

    /// What an instruction makes there.
    fn made(&self, inst: &Inst, env: &Env, (first, count, first_warp, block): (usize, usize, usize, usize)) -> Option<(LVal, Abs)> {
        let lanes = self.program.lanes as usize;
        let per = |f: &dyn Fn(usize) -> i64| self.lists.of((first..first + count).map(f).collect());
        if !self.computes(inst) {
            return None;
        }
        match inst {
            // Its value is assumed.
            _ if self.analysis.any_splits() && computed(inst).is_some_and(|list| list.iter().any(|v| self.analysis.splits(*v))) => None,
            Inst::Special { dst, what: Special::Lane } => Some((*dst, per(&|t| (t % lanes) as i64))),
            Inst::Special { dst, what: Special::Warp } => Some((*dst, per(&|t| (t / lanes - first_warp) as i64))),
            Inst::Special { dst, what: Special::ClusterRank } if self.analysis.blocks > 1 => Some((*dst, Abs::All(block as i64))),
            Inst::Bin { dst, .. } if self.analysis.remainders.contains_key(dst) => {
                let (of, by) = self.analysis.remainders[dst];
                Some((*dst, remainder(env.get(&of), by)))
            }
            _ => eval(inst, |v| self.program.vals[v], env, &self.lists),
        }
    }

    /// Runs until nobody goes on; and whether an agent has moved that is not inside such a loop as [`rounds`] are made of, or left one.
    fn run(&self, s: &mut State, inside: Option<&Inside>) -> Result<(Stop, bool), ProtocolError> {
        self.left.set(inside.is_none());
        // Who lacks an answer goes on when it is there, which is not before the next run.
        let mut lacks: SmallVec<[Option<usize>; 32]> = SmallVec::from_elem(None, s.tasks.len());
        let mut periods = Periods::default();
        loop {
            if self.fuel.spent() {
                return too_complex(Many::Steps(MOST_STEPS));
            }
            let (mut ended, mut open, mut undecided, mut ran) = (0, None, false, false);
            for t in 0..s.tasks.len() {
                loop {
                    self.fuel.burn(1);
                    if lacks[t].is_some() {
                        open = open.or(lacks[t]);
                        break;
                    }
                    match self.step(s, t)? {
                        Step::Ran => {
                            ran = true;
                            if inside.is_some_and(|inside| !inside[t]) {
                                self.left.set(true);
                            }
                            if self.counted.take() {
                                self.skip_periods(s, t, &mut periods)?;
                            }
                            continue;
                        }
                        Step::Waits => {}
                        Step::Undecided => undecided = true,
                        Step::Open(trip_class) => {
                            lacks[t] = Some(trip_class);
                            periods.clear();
                            open = open.or(Some(trip_class));
                        }
                        Step::Impossible => return Ok((Stop::Ended, true)),
                        Step::Ended => ended += 1,
                    }
                    break;
                }
            }
            self.trim(s);
            if ran {
                continue;
            }
            // What all warps do first may be all there is.
            if ended == s.tasks.len() || s.tasks.iter().all(|t| t.life != Life::Awake) {
                return self.shared_finish(s).map(|()| (Stop::Ended, true));
            }
            if let Some(first) = open {
                let class = if self.trip_classes.choices.is_empty() { first } else { self.last_behind(s, &lacks).unwrap_or(first) };
                return Ok((Stop::Asked(class), self.left.get()));
            }
            if undecided {
                return Ok((Stop::Undecided, true));
            }
            return self.deadlock(s);
        }
    }

    /// What the agent asks that has most answers still to read: who is ahead may go on for ever while it waits for an answer of its own, in loops that go
    /// round not at all.
    fn last_behind(&self, s: &State, lacks: &[Option<usize>]) -> Option<usize> {
        let unread = |t: usize| {
            let mine = |x: &(usize, &VecDeque<bool>)| self.readers[x.0].contains(&t);
            s.answers.iter().enumerate().filter(mine).map(|(n, list)| list.len().saturating_sub(s.tasks[t].read[n])).sum::<usize>()
        };
        let asking = lacks.iter().enumerate().filter_map(|(t, class)| Some((unread(t), (*class)?)));
        // Of equals the first one.
        asking.reduce(|best, x| if x.0 > best.0 { x } else { best }).map(|x| x.1)
    }

    /// One step of an agent.
    fn step(&self, s: &mut State, t: usize) -> Result<Step, ProtocolError> {
        match s.tasks[t].life {
            Life::Awake => {}
            Life::Asleep => return Ok(Step::Waits),
            Life::Done => return Ok(Step::Ended),
        }
        let Some(frame) = s.tasks[t].frames.last() else {
            s.tasks[t].life = Life::Done;
            if s.tasks[t].met.is_some() {
                return self.error(Problem::ClusterEnd, Site(t, std::ptr::null()), None);
            }
            self.end_cluster_phase(s);
            s.shared.facts.reset(self.places.known(t));
            return Ok(Step::Ran);
        };
        let Some(op) = self.code.ops(frame.block).get(frame.at) else {
            return self.close(s, t);
        };
        let here = Site(t, op.inst);
        match op.what {
            What::Compute(n) if s.undecided.is_some() && self.code.group(n).asks => return Ok(Step::Undecided),
            What::Compute(n) => self.compute_all(n, &mut s.tasks[t].env, t),
            What::Loop(n) if s.undecided.is_some() && self.code.counted_loop(n).asks => return Ok(Step::Undecided),
            What::Loop(n) => return self.iterate(s, t, n, true),
            What::Choice(n) => return self.choose(s, t, n),
            What::Accesses(n) => self.access(s, t, n, self.code.accesses(n))?,
            // Where only one of two blocks has it, it may not have been done.
            What::Unit(Unit::FenceUnits) if s.tasks[t].frames.iter().any(|f| matches!(f.end, End::Either(..))) => {}
            What::Unit(u) => {
                if !self.unit(s, t, here, u)? {
                    return Ok(Step::Waits);
                }
            }
            // Nobody but its own lanes is there.
            What::Endless(_, blocks, does) if self.analysis.alone && does != Repeats::Copies => {
                advance(&mut s.tasks[t]);
                s.tasks[t].frames.extend(blocks.map(|block| Frame { block, at: 0, end: End::Done }));
                return Ok(Step::Ran);
            }
            What::Endless(l, blocks, Repeats::Lanes) => {
                self.may_repeat(s, t, l, blocks)?;
                return Ok(Step::Ran);
            }
            What::Endless(_, _, Repeats::Copies) => {
                return self.error(Problem::EndlessCopies, here, None);
            }
            What::Endless(..) => {
                return self.error(Problem::EndlessBarriers, here, None);
            }
            What::Copies(pending) => self.copies(s, t, pending),
            What::Roles => {
                self.fork(s, t, here)?;
                return Ok(Step::Ran);
            }
            // Where only one of two blocks has it, it may not come.
            What::Barrier if s.tasks[t].frames.iter().any(|f| matches!(f.end, End::Either(..))) => {}
            What::Barrier if self.agents[t].is_part(self.program) && s.tasks[t].frames.iter().any(|f| matches!(f.end, End::Leave)) => {}
            What::Barrier if self.agents[t].is_part(self.program) => {
                let (role, warps) = (self.agents[t].role, self.agents[t].role_warps(self.program));
                if !self.named(s, t, here, (ROLE + role as u32, warps, true))? {
                    return Ok(Step::Waits);
                }
            }
            What::Barrier => self.all_lanes_met(s, t),
        }
        advance(&mut s.tasks[t]);
        Ok(Step::Ran)
    }

    /// Drops answers that all agents have read that ever will.
    fn trim(&self, s: &mut State) {
        self.fuel.burn(s.answers.len());
        // What is passed over need not be kept until it is asked for.
        if !self.trip_classes.skips.is_empty() {
            for task in &mut s.tasks {
                for (n, debt) in task.debt.iter_mut().enumerate().filter(|d| *d.1 > 0) {
                    while let Some(&again) = s.answers[n].get(task.read[n]).filter(|_| *debt > 0) {
                        task.read[n] += 1;
                        *debt -= usize::from(!again);
                    }
                }
            }
        }
        for (n, list) in s.answers.iter_mut().enumerate().filter(|x| !x.1.is_empty()) {
            let readers = self.readers[n].iter().map(|&t| &s.tasks[t]).filter(|t| t.life != Life::Done);
            let read = readers.map(|t| t.read[n]).min().unwrap_or(list.len());
            if read > 0 {
                list.drain(..read.min(list.len()));
                s.tasks.iter_mut().for_each(|t| t.read[n] = t.read[n].saturating_sub(read));
            }
        }
    }
}

impl<'a> Checker<'a> {
    /// Forgets what nobody asks for any more.
    pub(super) fn forget_dead(&self, s: &mut State) {
        for (n, x) in self.lifetimes.iter().enumerate() {
            let bit = 1u64.checked_shl(n as u32).unwrap_or(0);
            let over = || s.tasks.iter().zip(&self.agents).all(|(task, agent)| x.is_over(agent.code, task));
            if s.shared.forgotten & bit == 0 && over() && self.bury(&mut s.shared, &|at| x.place.contains(&(at & ADDRESS))) {
                s.shared.forgotten |= bit;
            }
        }
    }
}
