//! Runs the roles of all blocks on what is known, and follows every answer to what is open.

pub(super) mod agents;
mod cases;
pub(super) mod code;
mod ends;
mod turns;

use super::env::{Env, Homes};
use super::error::{ProtocolError, Spot};
use super::eval::{eval, remainder};
use super::find::{comparisons, fixed, indices, relevant};
use super::site::Site;
use super::state::count::{Effort, Explicit, look};
use super::state::facts::known_of;
use super::state::found::Found;
use super::state::knowledge::Places;
use super::state::rotation::{Rotation, Turned};
use super::state::shared::Shared;
use super::trip_classes::TripClasses;
use super::value::{Abs, Lists};
use crate::problem::{Many, Problem};
use agents::{Agent, Groups, ROLE, agent, agents};
use code::{Code, Needs, What};
use cranelift_entity::EntityRef;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use tilelift_lane::hash::{Map, Set};
use tilelift_lane::visit::computed;
use tilelift_lane::{Block, If, Inst, LVal, Place, Program, Role, Roles, Special, Unit};

/// States, of all blocks together, after which a program counts as too complex to prove.
const MAX_STATES: usize = 1 << 12;

/// Bytes of states, and of what was noted of them, after which it does, too.
const MAX_BYTES: usize = 1 << 27;

/// Steps that a proof may take in all, whatever it tries: an instruction of an agent counts each time that it is followed, and so do
/// `BYTES_PER_STEP` bytes of a state that is kept. Behind them a program counts as too complex to prove.
pub const MOST_STEPS: u64 = 3_000_000;
const BYTES_PER_STEP: usize = 64;

/// Steps that are left.
#[derive(Clone)]
pub(super) struct Fuel(Rc<Cell<u64>>);

impl Default for Fuel {
    fn default() -> Fuel {
        Fuel(Rc::new(Cell::new(MOST_STEPS)))
    }
}

impl Fuel {
    fn burn(&self, steps: usize) {
        self.0.set(self.0.get().saturating_sub(steps as u64));
    }

    /// True if none is left.
    pub fn spent(&self) -> bool {
        self.0.get() == 0
    }

    /// Those that were taken.
    pub fn burnt(&self) -> u64 {
        MOST_STEPS - self.0.get()
    }
}

#[derive(Clone, Copy)]
pub(super) enum End<'a> {
    Done,
    /// Of a loop's block, by the loop's number.
    Turn(usize),
    Choice(&'a If, bool),
    /// Of a choice of which nothing is known both blocks are followed: they do no more than read, or, where nobody meets anybody, multiply.
    Either(&'a If, bool),
    /// Of a block that lets results leave, if it is run.
    Leave,
}

#[derive(Clone)]
pub(super) struct Frame<'a> {
    /// The block's number, and the next instruction of it.
    pub block: usize,
    pub at: usize,
    end: End<'a>,
}

/// What an agent is up to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Life {
    /// Its warps still go with all others of the block.
    Asleep,
    Awake,
    Done,
}

pub(super) struct Task<'a> {
    pub frames: Vec<Frame<'a>>,
    pub env: Env,
    /// Position in each stream.
    read: Vec<usize>,
    /// Runs of loops, per stream, that are still to be passed over.
    debt: Vec<usize>,
    /// The round of the named barrier at which it waits.
    pub joined: Option<bool>,
    /// The round of the cluster's barrier to which it has come, if it has not waited since.
    pub met: Option<bool>,
    pub life: Life,
}

pub(super) struct State<'a> {
    pub tasks: Vec<Task<'a>>,
    /// What tasks with local memory, and blocks, share.
    pub shared: Shared,
    /// Answers per stream that some agent has yet to read; true goes round again.
    answers: Vec<VecDeque<bool>>,
}

impl Clone for State<'_> {
    fn clone(&self) -> Self {
        let State { tasks, shared, answers } = self;
        State { tasks: tasks.clone(), shared: shared.clone(), answers: answers.clone() }
    }

    // States are large, and come and go.
    fn clone_from(&mut self, other: &Self) {
        let State { tasks, shared, answers } = self;
        tasks.clone_from(&other.tasks);
        shared.clone_from(&other.shared);
        answers.clone_from(&other.answers);
    }
}

impl Clone for Task<'_> {
    fn clone(&self) -> Self {
        Task { frames: self.frames.clone(), env: self.env.clone(), read: self.read.clone(), debt: self.debt.clone(), ..*self }
    }

    fn clone_from(&mut self, other: &Self) {
        let Task { frames, env, read, debt, joined, met, life } = self;
        frames.clone_from(&other.frames);
        env.clone_from(&other.env);
        read.clone_from(&other.read);
        debt.clone_from(&other.debt);
        (*joined, *met, *life) = (other.joined, other.met, other.life);
    }
}

/// How far an agent got.
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
    pub program: &'a Program,
    pub agents: Vec<Agent<'a>>,
    pub units: Groups<'a>,
    pub explicit: Explicit,
    pub places: Places,
    pub lists: Lists,
    pub found: Found,
    /// Slots that change places, if states are followed once for all that differ by nothing else.
    pub rotation: Option<Rotation>,
    code: Code<'a>,
    /// The number of what all warps run.
    front: usize,
    streams: &'a TripClasses,
    /// The agents that read each stream.
    readers: Vec<Vec<usize>>,
    /// Values that addresses, parities, guards and choices depend on; the others need not be computed.
    relevant: Set<LVal>,
    /// The same by number, less those that are the same everywhere.
    computed: Vec<bool>,
    homes: Rc<Homes>,
    /// Conditions of the form `lo < hi`.
    less: Map<LVal, (LVal, LVal)>,
    /// A state of which more is known than of one that was followed is not followed.
    subsumes: bool,
    fuel: Fuel,
}

/// What makes two states equal: everything but the instructions, which only messages name, and what is known to be over. Where more of that is
/// known, nothing else can happen, so such a state need not be followed, too.
struct Key {
    /// As bytes: numbers are many, and small.
    numbers: Box<[u8]>,
    known: Box<[(u64, u64)]>,
}

/// The states that were seen, by a hash of their keys; and room to write down the next one's.
#[derive(Default)]
struct Seen {
    keys: Map<u64, SmallVec<[Key; 1]>>,
    count: usize,
    /// Bytes of the keys.
    held: usize,
    numbers: Vec<u64>,
    known: Vec<(u64, u64)>,
    bytes: Vec<u8>,
}

impl Seen {
    /// Writes the numbers down as bytes.
    fn pack(&mut self) {
        let Seen { numbers, bytes, .. } = self;
        bytes.clear();
        bytes.reserve(3 * numbers.len());
        for &n in &*numbers {
            match n {
                0..WIDE => bytes.push(n as u8),
                _ if n <= u64::from(u16::MAX) => {
                    let [low, high, ..] = n.to_le_bytes();
                    bytes.extend_from_slice(&[WIDE as u8, low, high]);
                }
                _ => {
                    bytes.push(WIDE as u8 + 1);
                    bytes.extend_from_slice(&n.to_le_bytes());
                }
            }
        }
    }
}

/// From here on a number takes more than one byte; which ones follow is said by the first.
const WIDE: u64 = 0xfe;

impl<'a> Checker<'a> {
    fn new(
        program: &'a Program,
        units: Groups<'a>,
        streams: &'a TripClasses,
        (effort, alone): (Effort, bool),
        turns: bool,
        fuel: &Fuel,
    ) -> Checker<'a> {
        let mut explicit = look(program, effort);
        explicit.alone = alone;
        let roles: &[Role] = program.roles().map_or(&[], |r: &Roles| &r.roles);
        let mut agents = Vec::new();
        for block in 0..explicit.blocks {
            agents.extend(roles.iter().enumerate().flat_map(|r| self::agents(program, units, block, r)));
            agents.push(agent(program, block, None));
        }
        let mut less = Map::default();
        comparisons(&program.body, &mut less);
        let relevant = relevant(program, &|v| explicit.tracked(program, v));
        let mut met: Vec<u32> = agents.iter().filter(|a| a.is_part(program)).map(|a| ROLE + a.role as u32).collect();
        met.dedup();
        let places = Places::new(program, &explicit, agents.len(), met);
        let mut checker = Checker {
            program,
            agents,
            units,
            explicit,
            places,
            lists: Lists::default(),
            found: Found::default(),
            rotation: None,
            code: Code::default(),
            front: 0,
            streams,
            subsumes: true,
            readers: Vec::new(),
            relevant,
            computed: Vec::new(),
            homes: Rc::default(),
            less,
            fuel: fuel.clone(),
        };
        checker.readers = vec![Vec::new(); checker.streams() + 1];
        let per_block = checker.agents.len() / checker.explicit.blocks;
        let counted: Vec<Vec<LVal>> = checker.agents[..per_block]
            .iter()
            .map(|a| {
                let mut own = Vec::new();
                indices(a.body, &mut |iv| own.extend(streams.of.contains_key(&iv).then_some(iv)));
                own
            })
            .collect();
        for n in 0..checker.agents.len() {
            for &iv in &counted[n % per_block] {
                let s = checker.stream(n, iv);
                checker.readers[s].push(n);
            }
        }
        let mut e = std::mem::take(&mut checker.explicit);
        e.count(program, &checker.relevant, streams);
        checker.explicit = e;
        let fixed = fixed(program);
        let wanted = |v: LVal| checker.relevant.contains(&v) || checker.explicit.splits(v);
        checker.computed = program.vals.keys().map(|v| wanted(v) && fixed[v.index()].is_none()).collect();
        checker.homes = Rc::new(Homes::new(program, &fixed, &|v| checker.computed[v.index()]));
        // Each body once: the agents of all blocks run the same.
        let mut code = Code::default();
        let Checker { explicit, computed, homes, .. } = &checker;
        let needs = Needs { program, explicit, computed, homes };
        let front = code.add(&needs, &program.body);
        let bodies: Vec<usize> = roles.iter().map(|r| code.add(&needs, &r.body)).collect();
        checker.agents.iter_mut().for_each(|a| a.code = if a.whole { front } else { bodies[a.role] });
        (checker.code, checker.front) = (code, front);
        checker.rotation = if turns { checker.find_rotation() } else { None };
        checker
    }

    /// True if a value is followed.
    pub(super) fn is_computed(&self, v: LVal) -> bool {
        self.computed[v.index()]
    }

    /// The number of an instruction among those of a role that matter.
    pub(super) fn op_of(&self, role: usize, inst: &Inst) -> Option<usize> {
        let agent = self.agents.iter().find(|a| !a.whole && a.role == role)?;
        self.code.ops(agent.code).iter().position(|op| std::ptr::eq(op.inst, inst))
    }

    /// What is known before anything runs.
    pub(super) fn knowing(&self) -> Env {
        Env::new(self.homes.clone())
    }

    /// How many streams there are: one of each that blocks share, and one per block of the others.
    fn streams(&self) -> usize {
        self.streams.count() * self.explicit.blocks
    }

    /// The stream of a loop.
    fn stream(&self, t: usize, iv: LVal) -> usize {
        let n = self.streams.of.get(&iv).copied().unwrap_or(0);
        if self.streams.shared.contains(&iv) { n } else { n + self.agents[t].block * self.streams.count() }
    }
}

/// Follows all answers; with `turns`, states that differ by turned rings as one, and none of which more is known than of another.
pub(super) fn explore(
    program: &Program,
    units: Groups<'_>,
    streams: &TripClasses,
    effort: (Effort, bool),
    turns: bool,
    fuel: &Fuel,
) -> Result<usize, ProtocolError> {
    let mut checker = Checker::new(program, units, streams, effort, turns, fuel);
    checker.subsumes = turns;
    let states = checker.follow()?;
    if checker.rotation.as_ref().is_some_and(Rotation::is_uneven) {
        return Checker::new(program, units, streams, effort, false, fuel).follow();
    }
    Ok(states)
}

fn too_complex<T>(what: Many) -> Result<T, ProtocolError> {
    Err(ProtocolError { problem: Problem::TooComplex(what), here: Spot::program("the program"), other: None })
}

impl<'a> Checker<'a> {
    fn follow(&self) -> Result<usize, ProtocolError> {
        let checker = self;
        let mut seen = Seen::default();
        let mut open = checker.begin();
        // States that are done with: their memory serves others.
        let mut spare: Vec<State<'a>> = Vec::new();
        let most = MAX_STATES / checker.explicit.blocks;
        while let Some(mut state) = open.pop() {
            let Some(stream) = checker.run(&mut state)?.filter(|_| checker.first_seen(&state, &mut seen)) else {
                spare.push(state);
                continue;
            };
            if seen.count > most {
                return too_complex(Many::States(most));
            }
            let bytes = checker.state_bytes(&state);
            checker.fuel.burn(bytes / BYTES_PER_STEP);
            if (open.len() + spare.len() + 2) * bytes + seen.held > MAX_BYTES {
                return too_complex(Many::MiB(MAX_BYTES >> 20));
            }
            let mut again = match spare.pop() {
                Some(mut old) => {
                    old.clone_from(&state);
                    old
                }
                None => state.clone(),
            };
            again.answers[stream].push_back(true);
            state.answers[stream].push_back(false);
            open.extend([again, state]);
        }
        Ok(seen.count)
    }

    /// Bytes of a state, but for what few regions and open loops hold beside themselves.
    fn state_bytes(&self, s: &State<'a>) -> usize {
        let streams = s.answers.len() * (size_of::<VecDeque<bool>>() + 2 * s.tasks.len() * size_of::<usize>());
        s.shared.bytes() + streams + s.tasks.iter().map(|t| t.env.bytes()).sum::<usize>()
    }

    /// Takes note of a state; false if it was seen before.
    fn first_seen(&self, s: &State<'a>, seen: &mut Seen) -> bool {
        let (n, known) = (&mut seen.numbers, &mut seen.known);
        if !self.turned(s).is_some_and(|turned| self.key(s, Some(&turned), n, known)) {
            self.key(s, None, n, known);
        }
        seen.pack();
        let mut hasher = FxHasher::default();
        hasher.write(&seen.bytes);
        let same = seen.keys.entry(hasher.finish()).or_default();
        if same.iter().any(|k| *k.numbers == seen.bytes[..] && self.covers(&k.known, &seen.known)) {
            return false;
        }
        seen.held += seen.bytes.len() + size_of_val(&seen.known[..]);
        same.push(Key { numbers: seen.bytes.as_slice().into(), known: seen.known.as_slice().into() });
        seen.count += 1;
        true
    }

    /// True if a state of which so much is known need not be followed behind one of which less is.
    fn covers(&self, less: &[(u64, u64)], more: &[(u64, u64)]) -> bool {
        if self.subsumes { known_of(less, more) } else { less == more }
    }

    /// A state as numbers, turned if that is asked for and can be: else false.
    fn key(&self, s: &State<'a>, turned: Option<&Turned>, n: &mut Vec<u64>, known: &mut Vec<(u64, u64)>) -> bool {
        n.clear();
        known.clear();
        n.push(u64::from(turned.is_some()));
        for (number, t) in s.tasks.iter().enumerate() {
            let round = |r: Option<bool>| r.map_or(0, |r| 1 + u64::from(r));
            n.push(t.life as u64 | round(t.joined) << 8 | round(t.met) << 16 | (t.frames.len() as u64) << 24);
            n.extend(t.frames.iter().map(|f| (f.block as u64) << 32 | f.at as u64));
            n.extend(t.read.iter().zip(&t.debt).map(|(&read, &debt)| (read as u64) << 32 | debt as u64));
            match turned {
                Some(turned) if !self.turned_env(number, &t.env, turned, n) => return false,
                Some(_) => {}
                None => t.env.key(n),
            }
        }
        for list in &s.answers {
            n.push(list.len() as u64);
            list.iter().collect::<Vec<_>>().chunks(64).for_each(|c| n.push(c.iter().fold(0, |mbarrier, &&a| mbarrier << 1 | u64::from(a))));
        }
        match turned {
            Some(turned) => self.turned_key(&s.shared, turned, n, known),
            None => self.shared_key(&s.shared, n, known),
        }
        true
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
            Some((a, i)) if self.explicit.blocks > 1 => Spot::inst(self.program, i, format!("{} of block {}", a.name, a.block)),
            Some((a, i)) => Spot::inst(self.program, i, a.name),
            None => Spot::program("the program's start"),
        }
    }

    pub(super) fn error<T>(&self, problem: Problem, here: Site, other: Option<Site>) -> Result<T, ProtocolError> {
        Err(ProtocolError { problem, here: self.spot(here), other: other.map(|s| self.spot(s)) })
    }

    /// The states to begin with.
    fn begin(&self) -> Vec<State<'a>> {
        let mut state = self.state();
        self.shared_begin(&mut state);
        for (t, _) in state.tasks.iter_mut().zip(&self.agents).filter(|(_, a)| a.whole) {
            t.life = Life::Awake;
        }
        state.split(&self.explicit)
    }

    fn state(&self) -> State<'a> {
        let streams = self.streams();
        // A loop that takes some turns passes over the runs of the loops in those in front.
        let debt = |n: usize| {
            let mut debt = vec![0; streams];
            if self.streams.skips.is_empty() {
                return debt;
            }
            indices(self.agents[n].body, &mut |iv| {
                if let Some(skip) = self.streams.skips.get(&iv) {
                    debt[self.stream(n, iv)] = skip.0;
                }
            });
            debt
        };
        let task = |(n, a): (usize, &Agent<'a>)| Task {
            frames: vec![Frame { block: a.code, at: 0, end: End::Done }],
            env: self.knowing(),
            read: vec![0; streams],
            debt: debt(n),
            joined: None,
            met: None,
            life: Life::Asleep,
        };
        State {
            tasks: self.agents.iter().enumerate().map(task).collect(),
            shared: Shared::default(),
            answers: vec![VecDeque::new(); streams],
        }
    }

    /// What an agent's lanes have of what all lanes of the block have.
    fn part(&self, env: &Env, a: &Agent<'_>) -> Env {
        let first = (a.first * self.program.lanes) as usize;
        env.part(a.role, &|v| self.lists.slice(v, first..first + a.lanes))
    }

    /// All warps of a block go their own ways.
    fn fork(&self, s: &mut State<'a>, t: usize, here: Site) -> Result<(), ProtocolError> {
        if s.tasks[t].met.is_some() {
            return self.error(Problem::ClusterApart, here, None);
        }
        self.words_are_seen(s, t, here)?;
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
            _ if self.explicit.any_splits()
                && computed(inst).is_some_and(|list| list.iter().any(|v| self.explicit.splits(*v) && env.get(v).is_some())) =>
            {
                None
            }
            Inst::Special { dst, what: Special::Lane } => Some((*dst, per(&|t| (t % lanes) as i64))),
            Inst::Special { dst, what: Special::Warp } => Some((*dst, per(&|t| (t / lanes - first_warp) as i64))),
            Inst::Special { dst, what: Special::ClusterRank } if self.explicit.blocks > 1 => Some((*dst, Abs::All(block as i64))),
            Inst::Bin { dst, .. } if self.explicit.remainders.contains_key(dst) => {
                let (of, by) = self.explicit.remainders[dst];
                Some((*dst, remainder(env.get(&of), by)))
            }
            _ => eval(inst, |v| self.program.vals[v], env, &self.lists),
        }
    }

    /// Runs until all agents have ended (`None`), or an answer is needed that is not there (its stream).
    fn run(&self, s: &mut State<'a>) -> Result<Option<usize>, ProtocolError> {
        loop {
            if self.fuel.spent() {
                return too_complex(Many::Steps(MOST_STEPS));
            }
            let (mut ended, mut open, mut ran) = (0, None, false);
            for t in 0..s.tasks.len() {
                loop {
                    self.fuel.burn(1);
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
            if ran {
                continue;
            }
            // What all warps do first may be all there is.
            if ended == s.tasks.len() || s.tasks.iter().all(|t| t.life != Life::Awake) {
                return self.shared_finish(s).map(|()| None);
            }
            if open.is_some() {
                return Ok(open);
            }
            return self.deadlock(s);
        }
    }

    /// One step of an agent.
    fn step(&self, s: &mut State<'a>, t: usize) -> Result<Step, ProtocolError> {
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
            self.cluster_turn(s);
            return Ok(Step::Ran);
        };
        let Some(op) = self.code.ops(frame.block).get(frame.at) else {
            return self.close(s, t);
        };
        let here = Site(t, op.inst);
        match op.what {
            What::Compute(n) => self.compute_all(n, &mut s.tasks[t].env, t),
            What::Loop(n) => return self.turn(s, t, n, true),
            What::Choice(c, arms, reads) => return self.choose(s, t, c, (arms, reads)),
            What::Accesses(n) => self.access(s, t, n, self.code.accesses(n))?,
            // Where only one of two blocks has it, it may not have been done.
            What::Unit(Unit::FenceUnits) if s.tasks[t].frames.iter().any(|f| matches!(f.end, End::Either(..))) => {}
            What::Unit(u) => {
                if !self.explicit_unit(s, t, here, u)? {
                    return Ok(Step::Waits);
                }
            }
            // Nobody but its own lanes is there.
            What::Endless(blocks, false) if self.explicit.alone => {
                advance(&mut s.tasks[t]);
                s.tasks[t].frames.extend(blocks.map(|block| Frame { block, at: 0, end: End::Done }));
                return Ok(Step::Ran);
            }
            What::Endless(_, true) => {
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
    fn trim(&self, s: &mut State<'a>) {
        self.fuel.burn(s.answers.len());
        // What is passed over need not be kept until it is asked for.
        for task in &mut s.tasks {
            for (n, debt) in task.debt.iter_mut().enumerate().filter(|d| *d.1 > 0) {
                while let Some(&again) = s.answers[n].get(task.read[n]).filter(|_| *debt > 0) {
                    task.read[n] += 1;
                    *debt -= usize::from(!again);
                }
            }
        }
        for (n, list) in s.answers.iter_mut().enumerate() {
            let readers = self.readers[n].iter().map(|&t| &s.tasks[t]).filter(|t| t.life != Life::Done);
            let read = readers.map(|t| t.read[n]).min().unwrap_or(list.len());
            if read > 0 {
                list.drain(..read.min(list.len()));
                s.tasks.iter_mut().for_each(|t| t.read[n] = t.read[n].saturating_sub(read));
            }
        }
    }
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
