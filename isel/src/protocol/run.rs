//! Runs the roles on what is known, and follows every answer to what is open.

use super::ProtocolError;
use super::explicit::{Effort, Explicit, Named, look};
use super::find::{comparisons, indices, passes, relevant};
use super::regions::Regions;
use super::streams::{Streams, matters};
use super::value::{Abs, Env, eval, remainder};
use super::word::{Lesson, Site, Slot, Staging, Word};
use crate::lane::print::inst_text;
use crate::lane::visit::computed;
use crate::lane::{Block, For, If, Inst, LVal, LeftOperand, ParamSource, Place, Program, Role, Roles, Special, Unit};
use crate::target::Units;
use cranelift_entity::EntityRef;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;

/// States after which a program counts as too complex to prove.
const MAX_STATES: usize = 1 << 14;

#[derive(Clone, Copy)]
enum End<'a> {
    Done,
    Turn(&'a For),
    Choice(&'a If, bool),
}

#[derive(Clone)]
struct Frame<'a> {
    block: &'a Block,
    at: usize,
    end: End<'a>,
}

#[derive(Clone)]
pub(super) struct Task<'a> {
    frames: Vec<Frame<'a>>,
    pub(super) env: Env,
    /// What was known in front of each open loop: nothing else that a step makes outlives it.
    outer: Vec<Rc<Env>>,
    /// Position in each stream.
    read: Vec<usize>,
    /// What its staged results are up to, and since which instruction.
    staging: (Staging, Option<Site>),
    knows: Lesson,
    /// The word that it waited for last.
    waited: Option<i64>,
    /// The round of the named barrier at which it waits.
    pub(super) joined: Option<bool>,
    done: bool,
}

#[derive(Clone)]
pub(super) struct State<'a> {
    pub(super) tasks: Vec<Task<'a>>,
    pub(super) words: BTreeMap<i64, Word>,
    /// Local memory that goes from role to role.
    pub(super) regions: Regions,
    pub(super) named: Named,
    slots: BTreeMap<i64, Slot>,
    /// The word that was waited for in front of the last copy into each slot: whose arrivals have to say that it is free.
    guards: BTreeMap<i64, i64>,
    /// The words that count bytes.
    loaded: BTreeSet<i64>,
    /// Answers per stream that some role has yet to read; true goes round again.
    answers: Vec<VecDeque<bool>>,
}

/// How far a role got.
enum Step {
    Ran,
    Waits,
    /// It needs an answer that is not there.
    Open(usize),
    /// The answers contradict what the program promises.
    Impossible,
    Ended,
}

pub(super) struct Checker<'a> {
    pub(super) program: &'a Program,
    pub(super) roles: &'a Roles,
    pub(super) units: &'a Units,
    pub(super) explicit: Explicit,
    streams: &'a Streams,
    /// The roles that read each stream.
    readers: Vec<Vec<usize>>,
    /// Values that addresses, parities, guards and choices depend on; the others need not be computed.
    relevant: HashSet<LVal>,
    /// Conditions of the form `lo < hi`.
    less: HashMap<LVal, (LVal, LVal)>,
    /// Roles that pass over phases.
    passes: Vec<bool>,
}

/// What makes two states equal.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    tasks: Vec<TaskKey>,
    words: Vec<(i64, Word)>,
    slots: Vec<(i64, Slot)>,
    guards: BTreeMap<i64, i64>,
    regions: Regions,
    named: Named,
    answers: Vec<VecDeque<bool>>,
}

#[derive(PartialEq, Eq, Hash)]
struct TaskKey {
    frames: Vec<(usize, usize)>,
    env: Env,
    read: Vec<usize>,
    staging: Staging,
    knows: Lesson,
    waited: Option<i64>,
    joined: Option<bool>,
    done: bool,
}

/// Follows all answers.
pub(super) fn explore(program: &Program, roles: &Roles, units: &Units, streams: &Streams, effort: Effort) -> Result<usize, ProtocolError> {
    let mut readers = vec![Vec::new(); streams.of.values().max().map_or(0, |m| m + 1)];
    for (n, r) in roles.roles.iter().enumerate() {
        indices(&r.body, &mut |iv| {
            if let Some(&s) = streams.of.get(&iv) {
                readers[s].push(n);
            }
        });
    }
    let mut less = HashMap::new();
    comparisons(&program.body, &mut less);
    let passes = roles.roles.iter().map(|r| passes(&r.body)).collect();
    let mut explicit = look(program, effort);
    let relevant = relevant(program, explicit.on, &|v| explicit.tracked(program, v).is_some());
    if explicit.on {
        explicit.count(program, &relevant);
    }
    let checker = Checker { program, roles, units, explicit, streams, readers, relevant, less, passes };
    let mut seen: HashSet<Key> = HashSet::new();
    let mut open = vec![checker.start()?];
    while let Some(mut state) = open.pop() {
        let Some(stream) = checker.run(&mut state)? else { continue };
        if !seen.insert(key(&state)) {
            continue;
        }
        let most = if checker.explicit.on { MAX_STATES >> 2 } else { MAX_STATES };
        if seen.len() > most {
            return Err(ProtocolError { problem: format!("more than {most} states"), here: "the program".into(), other: None });
        }
        for answer in [true, false] {
            let mut next = state.clone();
            next.answers[stream].push_back(answer);
            open.push(next);
        }
    }
    Ok(seen.len())
}

fn key(s: &State<'_>) -> Key {
    let task = |t: &Task<'_>| TaskKey {
        frames: t.frames.iter().map(|f| (std::ptr::from_ref(f.block).addr(), f.at)).collect(),
        env: t.env.clone(),
        read: t.read.clone(),
        staging: t.staging.0,
        knows: t.knows.clone(),
        waited: t.waited,
        joined: t.joined,
        done: t.done,
    };
    Key {
        tasks: s.tasks.iter().map(task).collect(),
        words: s.words.iter().map(|(&a, w)| (a, Word { last: None, ..w.clone() })).collect(),
        slots: s.slots.iter().map(|(&a, x)| (a, x.without_sites())).collect(),
        guards: s.guards.clone(),
        regions: s.regions.without_sites(),
        named: s.named.clone(),
        answers: s.answers.clone(),
    }
}

impl<'a> Checker<'a> {
    fn text(&self, site: Site) -> String {
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
        match self.roles.roles.get(site.0).and_then(|r| find(&r.body, site.1).map(|i| (r, i))) {
            Some((r, i)) => format!("`{}` of {}", inst_text(self.program, i), r.name),
            None => "the program's start".into(),
        }
    }

    pub(super) fn error<T>(&self, problem: impl Into<String>, here: Site, other: Option<Site>) -> Result<T, ProtocolError> {
        Err(ProtocolError { problem: problem.into(), here: self.text(here), other: other.map(|s| self.text(s)) })
    }

    /// The state behind what all warps do together.
    fn start(&self) -> Result<State<'a>, ProtocolError> {
        let threads = self.program.threads() as usize;
        let mut env = Env::new();
        let mut words = BTreeMap::new();
        let nowhere = Site(usize::MAX, std::ptr::null());
        // Made words that the units, and then the other warps, may not see yet.
        let (mut private, mut unseen) = (false, false);
        for inst in &self.program.body {
            self.compute(inst, &mut env, 0, threads, 0);
            if matches!(inst, Inst::Unit(u) if **u == Unit::PublishBarriers) {
                private = false;
            }
            if *inst == Inst::Barrier || matches!(inst, Inst::Unit(u) if **u == Unit::ClusterWait) {
                unseen = private;
            }
            if matches!(inst, Inst::Roles(_)) && private {
                return self.error("barrier words are not published to the units", nowhere, None);
            }
            if matches!(inst, Inst::Roles(_)) && unseen {
                return self.error("warps do not wait until barrier words are made", nowhere, None);
            }
            if let Inst::Unit(u) = inst
                && let Unit::InitBarrier { barrier, count, guard } = &**u
            {
                let lanes = guard.map_or(Some(threads as u32), |g| env.get(&g).and_then(|a| a.count(threads)));
                let Some(at) = place(&env, barrier) else { return self.error("a barrier word of unknown address", nowhere, None) };
                if lanes != Some(1) {
                    return self.error(format!("the barrier word at {at:#x} is not made by one lane"), nowhere, None);
                }
                let since = vec![0; self.roles.roles.len()];
                let word = Word {
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
                if words.insert(at, word).is_some() {
                    return self.error(format!("the barrier word at {at:#x} is made twice"), nowhere, None);
                }
            }
        }
        let streams = self.streams.of.values().max().map_or(0, |m| m + 1);
        let tasks = self
            .roles
            .roles
            .iter()
            .map(|r| {
                let first = (r.first * self.program.lanes) as usize;
                let env = env.iter().map(|(&v, a)| (v, a.slice(first..first + lanes(self.program, r)))).collect();
                let frames = vec![Frame { block: &r.body, at: 0, end: End::Done }];
                Task {
                    frames,
                    env,
                    outer: Vec::new(),
                    read: vec![0; streams],
                    staging: (Staging::Free, None),
                    knows: Lesson::default(),
                    waited: None,
                    joined: None,
                    done: false,
                }
            })
            .collect();
        Ok(State {
            tasks,
            words,
            regions: Regions { known: vec![BTreeSet::new(); self.roles.roles.len()], ..Regions::default() },
            named: Named::new(),
            slots: BTreeMap::new(),
            guards: BTreeMap::new(),
            loaded: BTreeSet::new(),
            answers: vec![VecDeque::new(); streams],
        })
    }

    fn compute(&self, inst: &Inst, env: &mut Env, first: usize, count: usize, first_warp: usize) {
        let lanes = self.program.lanes as usize;
        let per = |f: &dyn Fn(usize) -> i64| Abs::Lanes(Rc::from((first..first + count).map(f).collect::<Vec<i64>>())).slice(0..count);
        if !computed(inst).is_some_and(|list| list.iter().any(|v| self.relevant.contains(v))) {
            return;
        }
        let made = match inst {
            Inst::Special { dst, what: Special::Lane } => Some((*dst, per(&|t| (t % lanes) as i64))),
            Inst::Special { dst, what: Special::Warp } => Some((*dst, per(&|t| (t / lanes - first_warp) as i64))),
            Inst::SharedAddr { dst, alloc } => Some((*dst, Abs::All(i64::from(self.program.allocs[*alloc].offset)))),
            Inst::Bin { dst, .. } if self.explicit.remainders.contains_key(dst) => {
                let (of, by) = self.explicit.remainders[dst];
                Some((*dst, remainder(env.get(&of), by)))
            }
            _ => eval(inst, |v| self.program.vals[v], env),
        };
        match made {
            Some((v, Abs::Any)) => {
                env.remove(&v);
            }
            Some((v, a)) => {
                env.insert(v, a);
            }
            None => {}
        }
    }

    /// Runs until all roles have ended (`None`), or an answer is needed that is not there (its stream).
    fn run(&self, s: &mut State<'a>) -> Result<Option<usize>, ProtocolError> {
        loop {
            let (mut ended, mut open, mut ran) = (0, None, false);
            for t in 0..s.tasks.len() {
                loop {
                    match self.step(s, t)? {
                        Step::Ran => {
                            ran = true;
                            continue;
                        }
                        Step::Waits => {}
                        Step::Open(stream) => open = open.or(Some(stream)),
                        Step::Impossible => return Ok(None),
                        Step::Ended => ended += 1,
                    }
                    break;
                }
            }
            self.trim(s);
            if ended == s.tasks.len() {
                return self.finish(s).map(|()| None);
            }
            if ran {
                continue;
            }
            if open.is_some() {
                return Ok(open);
            }
            return self.deadlock(s);
        }
    }

    /// A role that waits at a named barrier.
    fn waits_at(&self, s: &State<'a>) -> Option<Site> {
        s.tasks.iter().enumerate().filter(|(_, t)| t.joined.is_some()).find_map(|(n, t)| {
            let frame = t.frames.last()?;
            Some(Site(n, frame.block.get(frame.at)?))
        })
    }

    fn waits_for(&self, s: &State<'a>, t: usize) -> Option<(i64, Site)> {
        let frame = s.tasks[t].frames.last()?;
        let inst = frame.block.get(frame.at)?;
        match inst {
            Inst::Unit(u) => match &**u {
                Unit::Wait { barrier, .. } => Some((place(&s.tasks[t].env, barrier)?, Site(t, inst))),
                _ => None,
            },
            _ => None,
        }
    }

    fn deadlock<T>(&self, s: &State<'a>) -> Result<T, ProtocolError> {
        let waiting: Vec<(usize, (i64, Site))> = (0..s.tasks.len()).filter_map(|t| Some((t, self.waits_for(s, t)?))).collect();
        let Some(&(_, (at, here))) = waiting.first() else {
            if let Some(site) = self.waits_at(s) {
                return self.error("a wait for ever at a named barrier", site, None);
            }
            return Err(ProtocolError { problem: "no role can go on".into(), here: "the program".into(), other: None });
        };
        let w = &s.words[&at];
        let other = w.last.or(waiting.get(1).map(|x| x.1.1));
        let problem = format!("a wait for ever, for a phase that lacks {} arrivals and {} bytes,", w.pending, w.bytes);
        self.error(problem, here, other)
    }

    fn finish(&self, s: &State<'a>) -> Result<(), ProtocolError> {
        if let Some(site) = s.regions.busy() {
            return self.error("local memory is in use at the end", site, None);
        }
        for x in s.slots.values() {
            if let Some(r) = x.readers.first() {
                return self.error("a multiplication is under way at the end", r.1, None);
            }
            if x.read.is_none() {
                return self.error("nobody reads what is copied", x.writer, None);
            }
        }
        for (t, task) in s.tasks.iter().enumerate() {
            if let (Staging::Free | Staging::Left, _) = task.staging {
                continue;
            }
            let here = task.staging.1.unwrap_or(Site(t, std::ptr::null()));
            return self.error("results are not known to have left at the end", here, None);
        }
        Ok(())
    }

    /// One step of a role.
    fn step(&self, s: &mut State<'a>, t: usize) -> Result<Step, ProtocolError> {
        let Some(frame) = s.tasks[t].frames.last() else {
            s.tasks[t].done = true;
            return Ok(Step::Ended);
        };
        let Some(inst) = frame.block.get(frame.at) else {
            return self.close(s, t);
        };
        let role = &self.roles.roles[t];
        let (first, count) = ((role.first * self.program.lanes) as usize, lanes(self.program, role));
        match inst {
            Inst::For(l) if matters(&l.body, self.explicit.on) => {
                return self.turn(s, t, l, true);
            }
            Inst::If(c) if matters(&c.then, self.explicit.on) || matters(&c.otherwise, self.explicit.on) => {
                let Some(holds) = self.condition(s, t, c)? else {
                    // The answer of the loop that the condition stands for.
                    return Ok(Step::Open(self.guards(c).map_or(0, |g| g.0)));
                };
                // A loop that is not begun has had its answer; so has one whose first step stands in front of it.
                let answered = self.guards(c).filter(|g| !holds || g.1).map(|g| g.0);
                let task = &mut s.tasks[t];
                if let Some(stream) = answered {
                    task.read[stream] += 1;
                }
                advance(task);
                task.frames.push(Frame { block: if holds { &c.then } else { &c.otherwise }, at: 0, end: End::Choice(c, holds) });
                return Ok(Step::Ran);
            }
            Inst::Unit(u) => {
                if !self.unit(s, t, Site(t, inst), u, count)? {
                    return Ok(Step::Waits);
                }
            }
            Inst::While(l) if matters(&l.test, self.explicit.on) || matters(&l.body, self.explicit.on) => {
                return self.error(
                    "barrier words are used in a loop without a count, which the proof does not follow",
                    Site(t, inst),
                    None,
                );
            }
            Inst::For(_) | Inst::While(_) | Inst::If(_) => {}
            Inst::LoadShared { dsts, addr, offset } => {
                let bytes = dsts.iter().map(|&v| self.program.vals[v].bytes()).sum();
                self.access(s, t, Site(t, inst), Place { addr: *addr, offset: *offset }, bytes, false)?;
            }
            Inst::StoreShared { srcs, addr, offset, .. } => {
                let bytes = srcs.iter().map(|&v| self.program.vals[v].bytes()).sum();
                self.access(s, t, Site(t, inst), Place { addr: *addr, offset: *offset }, bytes, true)?;
            }
            _ => {
                let mut env = std::mem::take(&mut s.tasks[t].env);
                self.compute(inst, &mut env, first, count, role.first as usize);
                s.tasks[t].env = env;
            }
        }
        advance(&mut s.tasks[t]);
        Ok(Step::Ran)
    }

    /// The end of a block.
    fn close(&self, s: &mut State<'a>, t: usize) -> Result<Step, ProtocolError> {
        let Some(frame) = s.tasks[t].frames.last() else { return Ok(Step::Ended) };
        match frame.end {
            End::Done => {
                s.tasks[t].frames.pop();
            }
            End::Choice(c, holds) => {
                let task = &mut s.tasks[t];
                task.frames.pop();
                enter(&mut task.env, c.results.iter().map(|&(r, a, b)| (r, if holds { a } else { b })));
            }
            End::Turn(l) => {
                // The answer first: without it, the role stops here.
                let stream = self.streams.of[&l.iv];
                if s.answers[stream].get(s.tasks[t].read[stream]).is_none() {
                    return Ok(Step::Open(stream));
                }
                let task = &mut s.tasks[t];
                task.frames.pop();
                return self.turn(s, t, l, false);
            }
        }
        Ok(Step::Ran)
    }

    /// Goes round a loop again, or leaves it.
    fn turn(&self, s: &mut State<'a>, t: usize, l: &'a For, first: bool) -> Result<Step, ProtocolError> {
        let stream = self.streams.of[&l.iv];
        let task = &mut s.tasks[t];
        let Some(&again) = s.answers[stream].get(task.read[stream]) else { return Ok(Step::Open(stream)) };
        if first && l.runs && !again {
            return Ok(Step::Impossible);
        }
        task.read[stream] += 1;
        if first {
            advance(task);
            task.outer.push(Rc::new(task.env.clone()));
        }
        let made = std::mem::take(&mut task.env);
        task.env = task.outer.last().map_or_else(Env::new, |e| (**e).clone());
        for c in l.carried.iter().filter(|c| self.relevant.contains(&c.param) || self.relevant.contains(&c.result)) {
            let (from, to) = (if first { c.init } else { c.next }, if again { c.param } else { c.result });
            match made.get(&from) {
                Some(a) if self.explicit.counters.contains(&c.param) => task.env.insert(to, self.explicit.counted(a.clone())),
                Some(a) => task.env.insert(to, a.clone()),
                None => task.env.remove(&to),
            };
        }
        if again {
            let index = self.index(l, first, &made);
            task.env.insert(l.iv, index);
            task.frames.push(Frame { block: &l.body, at: 0, end: End::Turn(l) });
        } else {
            task.outer.pop();
            // The loop is over: its end is where the index stands.
            if let Some(end) = self.end(l, first, &made) {
                task.env.insert(l.hi, end);
                self.again(task);
            }
        }
        Ok(Step::Ran)
    }

    /// Computes again what stands in front of here, now that more is known.
    fn again(&self, task: &mut Task<'a>) {
        let mut env = std::mem::take(&mut task.env);
        let open = task.frames.iter().flat_map(|f| &f.block[..f.at.min(f.block.len())]);
        for inst in self.program.body.iter().chain(open) {
            if let Inst::Bin { dst, .. } | Inst::Cmp { dst, .. } | Inst::Select { dst, .. } = inst
                && !env.contains_key(dst)
            {
                self.compute(inst, &mut env, 0, 1, 0);
            }
        }
        task.env = env;
    }

    /// The end of a loop that has ended, if its steps are counted one by one and it is known not to lie in front of its beginning.
    fn end(&self, l: &For, first: bool, made: &Env) -> Option<Abs> {
        let (Some(Abs::All(lo)), Some(Abs::All(1))) = (made.get(&l.lo), made.get(&l.step)) else { return None };
        if self.explicit.modulus <= 1 || !self.relevant.contains(&l.hi) || *lo != 0 || matches!(made.get(&l.hi), Some(Abs::All(_))) {
            return None;
        }
        match made.get(&l.iv) {
            _ if first => self.explicit.natural.contains(&l.hi).then_some(Abs::All(0)),
            Some(Abs::All(v)) => Some(self.explicit.counted(Abs::All(v + 1))),
            Some(Abs::Count(v, m)) => Some(self.explicit.counted(Abs::Count(v + 1, *m))),
            _ => None,
        }
    }

    /// The index of a loop's step: a number that counts, where that is asked for and the first one is known.
    fn index(&self, l: &For, first: bool, made: &Env) -> Abs {
        let (Some(Abs::All(lo)), Some(Abs::All(step))) = (made.get(&l.lo), made.get(&l.step)) else { return Abs::Index(l.lo, first) };
        if self.explicit.modulus <= 1 || *lo < 0 || *step <= 0 {
            return Abs::Index(l.lo, first);
        }
        match made.get(&l.iv) {
            _ if first => Abs::All(*lo),
            Some(Abs::All(v)) => self.explicit.counted(Abs::All(v + step)),
            Some(Abs::Count(v, m)) => self.explicit.counted(Abs::Count(v + step, *m)),
            _ => Abs::Index(l.lo, first),
        }
    }

    /// The stream of the loop whose first step a condition stands for, and whether that step is in front of the loop.
    fn guards(&self, c: &'a If) -> Option<(usize, bool)> {
        // `lo < hi` around a loop from lo to hi that runs at least once is the loop's own first answer.
        let whole = |l: &For| l.runs && self.less.get(&c.condition) == Some(&(l.lo, l.hi));
        c.then.iter().find_map(|i| match i {
            Inst::For(l) if whole(l) || self.streams.behind.contains(&l.iv) => Some((*self.streams.of.get(&l.iv)?, !l.runs)),
            _ => None,
        })
    }

    /// Whether a choice is taken, if that is known.
    fn condition(&self, s: &State<'a>, t: usize, c: &'a If) -> Result<Option<bool>, ProtocolError> {
        if let Some(Abs::All(x)) = s.tasks[t].env.get(&c.condition) {
            return Ok(Some(*x != 0));
        }
        match self.guards(c) {
            Some((stream, _)) => Ok(s.answers[stream].get(s.tasks[t].read[stream]).copied()),
            None => {
                let here = s.tasks[t].frames.last().and_then(|f| f.block.get(f.at)).map_or(std::ptr::null(), std::ptr::from_ref);
                self.error("a choice that is not understood", Site(t, here), None)
            }
        }
    }

    /// What a unit does; false if it waits.
    fn unit(&self, s: &mut State<'a>, t: usize, here: Site, u: &Unit, count: usize) -> Result<bool, ProtocolError> {
        let known = |s: &State<'a>, p: &Place| match place(&s.tasks[t].env, p) {
            Some(at) if s.words.contains_key(&at) => Ok(at),
            Some(at) => self.error(format!("no barrier word is made at {at:#x}, used"), here, None),
            None => self.error("the address of a barrier word is not understood", here, None),
        };
        if self.explicit.on {
            self.unit_access(s, t, here, u)?;
        }
        match u {
            Unit::BulkLoad { .. }
            | Unit::BulkStore { .. }
            | Unit::CommitStores { .. }
            | Unit::WaitStoresRead { .. }
            | Unit::Multiply(_)
            | Unit::CommitMatrices
            | Unit::WaitMatrices { .. }
                if self.explicit.on => {}
            Unit::NamedBarrier { id, warps, wait } => return self.named(s, t, here, (*id, *warps, *wait)),
            Unit::Wait { barrier, parity } => {
                let at = known(s, barrier)?;
                let Some(Abs::All(parity)) = s.tasks[t].env.get(parity) else {
                    return self.error("the parity is not understood", here, None);
                };
                let odd = parity & 1 == 1;
                let Some(w) = s.words.get_mut(&at) else { return Ok(false) };
                // It must have learnt that the phase in front of the one it waits for has ended, in whatever order the roles run.
                let unknown =
                    if self.passes[t] && s.loaded.contains(&at) { s.tasks[t].knows.behind.get(&at).copied().unwrap_or(2) } else { 0 };
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
                if self.passes[t] && w.since[t] > 0 && s.loaded.contains(&at) {
                    s.tasks[t].knows.behind.insert(at, 0);
                }
                w.since[t] = 0;
                s.regions.learn(t, at);
                // Only a role of one lane copies.
                if self.roles.roles[t].single {
                    s.tasks[t].waited = Some(at);
                }
                let knows = &mut s.tasks[t].knows;
                knows.full.extend(&w.taught.full);
                knows.free.extend(&w.taught.free);
                if self.passes[t] {
                    // Told once: what is left behind would only make states many.
                    knows.learn(&std::mem::take(&mut w.taught.behind));
                }
            }
            Unit::Arrive { barrier, guard } => {
                let at = known(s, barrier)?;
                let lanes = guard.map_or(Some(count as u32), |g| s.tasks[t].env.get(&g).and_then(|a| a.count(count)));
                let Some(lanes) = lanes else { return self.error("how many lanes arrive is not understood", here, None) };
                self.arrive(s, at, lanes, 0, here)?;
            }
            Unit::ArriveExpect { barrier, bytes, guard } => {
                let at = known(s, barrier)?;
                if guard.is_some_and(|g| s.tasks[t].env.get(&g).and_then(|a| a.count(count)) != Some(1)) {
                    return self.error("how many lanes expect bytes is not understood", here, None);
                }
                // None of its phases has ended yet, which all know.
                if s.loaded.insert(at) {
                    s.tasks.iter_mut().zip(&self.passes).filter(|(_, p)| **p).for_each(|(t, _)| {
                        t.knows.behind.insert(at, 0);
                    });
                }
                self.arrive(s, at, 1, *bytes, here)?;
            }
            Unit::Pass { barrier } => {
                let at = known(s, barrier)?;
                if let Some(w) = s.words.get_mut(&at) {
                    w.since[t] -= 1;
                }
            }
            Unit::BulkLoad { map, to, barrier, .. } => {
                let word = known(s, barrier)?;
                let Some(at) = place(&s.tasks[t].env, to) else { return self.error("where a copy goes is not understood", here, None) };
                let Some(ParamSource::Tensor(b)) = self.program.params.get(*map as usize).map(|p| p.source) else { return Ok(true) };
                let bytes = b.bytes();
                let end = at + i64::from(bytes);
                let over = s.slots.range(..end).next_back().filter(|(a, x)| **a + i64::from(x.bytes) > at).map(|(&a, x)| (a, x.clone()));
                if let Some((a, x)) = over {
                    let Some(read) = x.read.filter(|_| a == at && x.bytes == bytes) else {
                        return self.error("a copy overwrites what nobody has read,", here, Some(x.writer));
                    };
                    if !s.tasks[t].knows.free.contains(&at) {
                        return self.error("a copy overwrites what a multiplication may still read,", here, Some(read));
                    }
                }
                for task in &mut s.tasks {
                    task.knows.full.remove(&at);
                    task.knows.free.remove(&at);
                }
                s.slots.insert(at, Slot { bytes, writer: here, read: None, readers: Vec::new(), given: false });
                if let Some(waited) = s.tasks[t].waited {
                    s.guards.insert(at, waited);
                }
                // It may land at once; who reads it must have waited for the word in any case.
                if let Some(w) = s.words.get_mut(&word) {
                    w.bytes -= i64::from(bytes);
                    w.gathered.full.insert(at);
                }
                turn(s, word);
            }
            Unit::Multiply(m) => {
                let left = match &m.a {
                    LeftOperand::Shared(o) => Some((o, self.units.matrix.get(m.instr.index()).map_or(0, |r| r.m))),
                    LeftOperand::Regs(_) => None,
                };
                for (o, rows) in left.into_iter().chain([(&m.b, m.n)]) {
                    let starts: Vec<i64> = match s.tasks[t].env.get(&o.at.addr) {
                        Some(Abs::All(x)) => vec![*x],
                        Some(Abs::Lanes(l)) => {
                            let mut all = l.to_vec();
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
                    let panels = if o.panels.along_k { 1 } else { rows.div_ceil(o.panels.span / size) };
                    for (start, p) in starts.iter().flat_map(|s| (0..panels).map(move |p| (s, p))) {
                        let at = start + i64::from(o.at.offset) + i64::from(p * o.panels.stride);
                        let Some((&slot, x)) = s.slots.range_mut(..=at).next_back().filter(|(a, x)| **a + i64::from(x.bytes) > at) else {
                            return self.error("a multiplication reads what nobody has copied,", here, None);
                        };
                        if !s.tasks[t].knows.full.contains(&slot) {
                            let writer = x.writer;
                            return self.error("a multiplication reads what may not have arrived,", here, Some(writer));
                        }
                        x.read = Some(here);
                        x.given = false;
                        if !x.readers.contains(&(0, here)) {
                            x.readers.push((0, here));
                        }
                        s.tasks.iter_mut().for_each(|task| {
                            task.knows.free.remove(&slot);
                        });
                    }
                }
            }
            Unit::CommitMatrices => {
                s.slots.values_mut().flat_map(|x| &mut x.readers).filter(|r| r.1.0 == t).for_each(|r| r.0 += 1);
            }
            Unit::WaitMatrices { pending } => s.slots.values_mut().for_each(|x| x.readers.retain(|r| r.1.0 != t || r.0 <= *pending)),
            Unit::StoreMatrix { .. } => self.staging(s, t, here, &[Staging::Free, Staging::Written], Staging::Written)?,
            Unit::FenceUnits => self.staged(s, t, here, Staging::Written, Staging::Fenced),
            Unit::GroupBarrier { .. } => {
                self.staged(s, t, here, Staging::Fenced, Staging::Shown);
                self.staged(s, t, here, Staging::Left, Staging::Free);
            }
            Unit::BulkStore { .. } => self.staging(s, t, here, &[Staging::Shown, Staging::Leaving], Staging::Leaving)?,
            Unit::CommitStores { .. } => self.staged(s, t, here, Staging::Leaving, Staging::Committed),
            Unit::WaitStoresRead { pending: 0, .. } => self.staged(s, t, here, Staging::Committed, Staging::Left),
            Unit::WaitStoresRead { .. } | Unit::FenceMatrices | Unit::Hold | Unit::PublishBarriers | Unit::PrefetchMap { .. } => {}
            Unit::InitBarrier { .. } => return self.error("a barrier word is made in a role", here, None),
            Unit::ClusterArrive { .. }
            | Unit::ClusterWait
            | Unit::Remote { .. }
            | Unit::RemoteLoad { .. }
            | Unit::RemoteStore { .. }
            | Unit::RemoteStoreAsync { .. }
            | Unit::RemoteArrive { .. } => return self.error("a unit that the proof does not follow", here, None),
        }
        Ok(true)
    }

    /// Moves results on, if they are there.
    fn staged(&self, s: &mut State<'a>, t: usize, here: Site, from: Staging, to: Staging) {
        let staging = &mut s.tasks[t].staging;
        if staging.0 == from {
            *staging = (to, Some(here));
        }
    }

    /// Moves results on; they must be there.
    fn staging(&self, s: &mut State<'a>, t: usize, here: Site, from: &[Staging], to: Staging) -> Result<(), ProtocolError> {
        let (now, last) = s.tasks[t].staging;
        if !from.contains(&now) {
            let problem = match to {
                Staging::Written => "results are written where others may still be read from,",
                _ => "results leave before all of them are fenced and shown,",
            };
            return self.error(problem, here, last);
        }
        s.tasks[t].staging = (to, Some(here));
        Ok(())
    }

    /// Drops answers that all roles have read that ever will.
    fn trim(&self, s: &mut State<'a>) {
        for (n, list) in s.answers.iter_mut().enumerate() {
            let read = self.readers[n].iter().map(|&t| &s.tasks[t]).filter(|t| !t.done).map(|t| t.read[n]).min().unwrap_or(list.len());
            list.drain(..read.min(list.len()));
            s.tasks.iter_mut().for_each(|t| t.read[n] = t.read[n].saturating_sub(read));
        }
    }

    fn arrive(&self, s: &mut State<'a>, at: i64, lanes: u32, bytes: u32, here: Site) -> Result<(), ProtocolError> {
        if lanes == 0 {
            return Ok(());
        }
        if self.explicit.on {
            s.regions.tell(here.0, at, self.explicit.effort.relay);
        }
        let Some(w) = s.words.get_mut(&at) else { return Ok(()) };
        w.bytes += i64::from(bytes);
        let Some(left) = w.pending.checked_sub(lanes) else {
            return self.error(format!("{lanes} arrivals where a phase expects {} more", w.pending), here, w.last);
        };
        w.pending = left;
        w.last = Some(here);
        // Whoever waits for this learns of the slots that are refilled behind such a wait and that the role has done with. It may know
        // more; to teach no more than that keeps states few, and refuses at most a program that releases a slot by way of another role.
        for (&a, x) in s.slots.iter_mut() {
            let told = s.guards.get(&a).is_none_or(|&word| word == at);
            if told && !x.given && x.readers.is_empty() && x.read.is_some_and(|r| r.0 == here.0) {
                x.given = true;
                w.gathered.free.insert(a);
                s.tasks[here.0].knows.full.remove(&a);
            }
        }
        // Who hands a turn over tells what it knows, and forgets it: it will be told.
        if self.passes[here.0] && !s.loaded.contains(&at) && !s.guards.values().any(|&word| word == at) {
            w.gathered.learn(&std::mem::take(&mut s.tasks[here.0].knows.behind));
        }
        turn(s, at);
        Ok(())
    }
}

/// Ends a phase that has all it expects.
pub(super) fn turn(s: &mut State<'_>, at: i64) {
    let Some(w) = s.words.get_mut(&at) else { return };
    if w.pending == 0 && w.bytes == 0 {
        w.parity = !w.parity;
        w.pending = w.count;
        s.regions.ended(at);
        w.taught = std::mem::take(&mut w.gathered);
        w.since.iter_mut().for_each(|n| *n = (*n + 1).min(3));
        s.words.values_mut().flat_map(|w| [&mut w.gathered, &mut w.taught]).for_each(|l| l.ended(at));
        s.tasks.iter_mut().for_each(|t| t.knows.ended(at));
    }
}

fn lanes(program: &Program, role: &Role) -> usize {
    if role.single { 1 } else { (role.warps * program.lanes) as usize }
}

/// The address of a place, if it is one and known.
pub(super) fn place(env: &Env, p: &Place) -> Option<i64> {
    match env.get(&p.addr) {
        Some(Abs::All(x)) => Some(x + i64::from(p.offset)),
        Some(Abs::Any | Abs::Lanes(_) | Abs::Index(..) | Abs::Count(..)) | None => None,
    }
}

fn advance(task: &mut Task<'_>) {
    if let Some(f) = task.frames.last_mut() {
        f.at += 1;
    }
}

/// Assigns values side by side.
fn enter(env: &mut Env, pairs: impl Iterator<Item = (LVal, LVal)>) {
    let values: Vec<(LVal, Option<Abs>)> = pairs.map(|(to, from)| (to, env.get(&from).cloned())).collect();
    for (to, a) in values {
        match a {
            Some(a) => {
                env.insert(to, a);
            }
            None => {
                env.remove(&to);
            }
        }
    }
}
