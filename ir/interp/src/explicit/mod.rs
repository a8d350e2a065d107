//! Kernels with explicit control: the tasks of all blocks of a cluster run concurrently, on one thread and in one order.
//!
//! ```text
//! clusters one after another ── blocks and their tasks in turns, each as far as it gets
//!                            └─ when nobody gets further: the oldest copy in flight lands, and they go on
//!                                                         none is in flight: a deadlock, which names everybody
//! ```
//! Copies land as late as possible, so that who does not wait for them meets them in flight. Every access to local memory is checked
//! against those it meets ([`local`]): an order that only this schedule has is no order.

mod barrier;
mod channel;
mod error;
mod fiber;
mod lanes;
mod local;
mod ops;
mod product;
mod store;

pub use error::Protocol;

use super::data::Data;
use super::error::{Fault, InterpError};
use super::exec::Machine;
use barrier::{Meeting, Word};
use channel::Channel;
use cranelift_entity::SecondaryMap;
use fiber::{Fiber, Moved, State};
use local::{Buf, Clock, Local, Site};
use std::collections::VecDeque;
use store::Written;
use tilelift_ir::kernel::Kernel;
use tilelift_ir::ops::{Attr, Op};
use tilelift_ir::types::Type;
use tilelift_ir::{Inst, Value};

/// What a handle names.
#[derive(Clone, Debug)]
enum Handle {
    Buf(Buf),
    /// Barriers from a first one on, how many, and the position if it is outside of them.
    Words(usize, u32, Option<i64>),
    Channel(usize),
}

/// What the allocations of a kernel are.
struct Shape {
    /// What each allocation's result names.
    handles: SecondaryMap<Value, Option<Handle>>,
    /// Bytes of each piece of local memory.
    locals: Vec<usize>,
    /// Arrivals of each barrier.
    words: Vec<u32>,
    /// Slots and consumers of each channel.
    channels: Vec<(u32, u32)>,
    /// Tasks, replicas counted, or 1.
    tasks: u32,
}

impl Shape {
    fn new(kernel: &Kernel) -> Shape {
        let mut s = Shape { handles: SecondaryMap::new(), locals: Vec::new(), words: Vec::new(), channels: Vec::new(), tasks: 1 };
        for &inst in &kernel.regions[kernel.body].insts {
            let d = &kernel.insts[inst];
            let count = |at: usize| if let Some(Attr::Count(n)) = d.attrs.get(at) { *n } else { 1 };
            let result = d.results.first().map(|&v| (v, kernel.ty(v)));
            let handle = match (d.op, result) {
                (Op::LocalAlloc, Some((_, Type::Shared(ty)))) => match d.args.first().and_then(|&v| s.handles[v].clone()) {
                    Some(Handle::Buf(owner)) => Handle::Buf(Buf::new(owner.local, ty)),
                    _ => {
                        s.locals.push(ty.bytes() as usize);
                        Handle::Buf(Buf::new(s.locals.len() - 1, ty))
                    }
                },
                (Op::BarrierAlloc, Some((_, Type::Barrier(n)))) => {
                    let first = s.words.len();
                    s.words.extend(std::iter::repeat_n(count(0), *n as usize));
                    Handle::Words(first, *n, None)
                }
                (Op::ChannelAlloc, Some((_, Type::Channel(c)))) => {
                    s.channels.push((c.depth, count(0)));
                    Handle::Channel(s.channels.len() - 1)
                }
                _ => {
                    if let Some(Attr::Tasks(tasks)) = d.attrs.first() {
                        s.tasks = tasks.iter().map(|t| t.replicas).sum();
                    }
                    continue;
                }
            };
            if let Some((v, _)) = result {
                s.handles[v] = Some(handle);
            }
        }
        s
    }
}

/// A program instance.
struct Block {
    program: [u32; 3],
    me: u32,
    /// It did an acquiring update.
    acquired: bool,
    locals: Vec<Local>,
    words: Vec<Word>,
    channels: Vec<Channel>,
    named: Vec<Meeting>,
    written: Written,
}

/// A copy in flight.
struct Copy {
    number: u64,
    data: Data,
    to: Buf,
    /// Blocks that it goes to, and the barrier that counts its bytes there.
    blocks: Vec<usize>,
    word: usize,
    /// What began it.
    inst: Inst,
    /// What came before it, of which its bytes tell.
    before: Clock,
    /// A task's own store, whose bytes tell what it has read, too.
    own: bool,
}

/// The blocks of a cluster, and what runs in them.
struct Cluster<'c, 'm> {
    machine: &'c mut Machine<'m>,
    shape: &'c Shape,
    blocks: Vec<Block>,
    fibers: Vec<Fiber>,
    /// Fences that each fiber has done.
    fences: Vec<u32>,
    copies: VecDeque<Copy>,
    started: u64,
    meeting: Meeting,
}

impl Machine<'_> {
    /// Runs the program instances, a cluster at a time; those of a cluster of which one is listed all run.
    pub(crate) fn run_clusters(
        &mut self,
        programs: impl Iterator<Item = ([u32; 3], u32)>,
        scalars: &[(Value, Data)],
    ) -> Result<u64, InterpError> {
        let size = self.kernel.cluster.max(1);
        let shape = Shape::new(self.kernel);
        let mut seen = std::collections::BTreeSet::new();
        let mut count = 0;
        for (program, me) in programs {
            let first = [program[0] - program[0] % size, program[1], program[2]];
            if size > 1 && !seen.insert(first) {
                continue;
            }
            count += u64::from(size);
            let blocks = (0..size).map(|r| {
                let program = [first[0] + r, first[1], first[2]];
                let me = if size == 1 { me } else { self.ordinal(program) };
                (program, me)
            });
            let blocks = blocks.collect::<Vec<_>>();
            self.run_cluster(&shape, &blocks, scalars)?;
        }
        Ok(count)
    }

    /// 1 + the place of a program in the grid, or in the list of those that run.
    fn ordinal(&self, program: [u32; 3]) -> u32 {
        let [x, y, z] = program.map(u64::from);
        let whole = x + u64::from(self.grid[0]) * (y + u64::from(self.grid[1]) * z);
        let n = self.subset.and_then(|list| list.iter().position(|p| *p == program)).map_or(whole, |n| n as u64);
        u32::try_from(n + 1).unwrap_or(u32::MAX)
    }

    fn run_cluster(&mut self, shape: &Shape, blocks: &[([u32; 3], u32)], scalars: &[(Value, Data)]) -> Result<(), InterpError> {
        let words = shape.words.len();
        let blocks: Vec<Block> = blocks
            .iter()
            .enumerate()
            .map(|(b, &(program, me))| Block {
                program,
                me,
                acquired: false,
                locals: shape.locals.iter().map(|&n| Local::new(n)).collect(),
                words: shape.words.iter().enumerate().map(|(w, &count)| Word::new(count, b * words + w)).collect(),
                channels: shape.channels.iter().map(|&(depth, consumers)| Channel::new(depth, consumers)).collect(),
                named: (0..=tilelift_ir::typing::NAMED_BARRIERS).map(|_| Meeting::default()).collect(),
                written: Written::default(),
            })
            .collect();
        let mut env: SecondaryMap<Value, Option<Data>> = SecondaryMap::new();
        scalars.iter().for_each(|(v, data)| env[*v] = Some(data.clone()));
        let mut meeting = Meeting::default();
        meeting.wants = shape.tasks * blocks.len() as u32;
        let mut cluster =
            Cluster { machine: self, shape, fibers: Vec::new(), fences: Vec::new(), copies: VecDeque::new(), started: 0, meeting, blocks };
        for b in 0..cluster.blocks.len() {
            let mut fiber = Fiber::new(b, cluster.machine.kernel.body, env.clone(), shape.handles.clone());
            fiber.shares = shape.tasks;
            cluster.spawn(fiber);
        }
        cluster.run()
    }
}

impl Cluster<'_, '_> {
    /// Adds a fiber, with an agent of its own.
    fn spawn(&mut self, mut fiber: Fiber) {
        fiber.id = self.fibers.len();
        fiber.agent = self.blocks.len() * self.shape.words.len() + fiber.id;
        fiber.clock.set(fiber.agent, 1);
        self.fences.push(0);
        self.fibers.push(fiber);
    }

    fn run(&mut self) -> Result<(), InterpError> {
        loop {
            let (mut moved, mut n) = (Moved::No, 0);
            while n < self.fibers.len() {
                if !matches!(self.fibers[n].state, State::Ended) {
                    moved = moved.max(self.turn(n)?);
                }
                n += 1;
            }
            if self.fibers.iter().all(|f| matches!(f.state, State::Ended)) {
                return self.copies.front().map_or(Ok(()), |copy| Err(self.unawaited(copy)));
            }
            if moved < Moved::Far {
                match self.copies.pop_front() {
                    Some(copy) => self.land(copy),
                    None if moved == Moved::No => return Err(self.deadlock()),
                    None => {}
                }
            }
        }
    }

    /// Lets a fiber run as far as it gets.
    fn turn(&mut self, n: usize) -> Result<Moved, InterpError> {
        let mut fiber = std::mem::take(&mut self.fibers[n]);
        let block = &self.blocks[fiber.block];
        (self.machine.program, self.machine.me, self.machine.released.acquired) = (block.program, block.me, block.acquired);
        std::mem::swap(&mut self.machine.env, &mut fiber.env);
        let done = self.go(&mut fiber);
        std::mem::swap(&mut self.machine.env, &mut fiber.env);
        self.blocks[fiber.block].acquired = self.machine.released.acquired;
        self.fibers[n] = fiber;
        done
    }

    fn land(&mut self, copy: Copy) {
        let copies = self.blocks.len() * self.shape.words.len();
        for &b in &copy.blocks {
            let block = &mut self.blocks[b];
            block.locals[copy.to.local].put(&copy.to, &copy.data);
            let word = &mut block.words[copy.word];
            word.bytes -= copy.to.bytes() as i64;
            word.landed.push((copy.to.local, copy.number));
            if copy.own {
                word.told(&copy.before, copies);
            } else {
                word.begun(&copy.before);
            }
            self.phase(b, copy.word);
        }
    }

    /// Ends the running phase of a barrier if it has all it wants.
    fn phase(&mut self, block: usize, word: usize) {
        let block = &mut self.blocks[block];
        let word = &mut block.words[word];
        for (local, number) in word.turn().unwrap_or_default() {
            block.locals[local].landed(number, word.agent, word.phase);
        }
    }

    fn unawaited(&self, copy: &Copy) -> InterpError {
        let (kernel, inst) = (self.machine.kernel, copy.inst);
        let program = copy.blocks.first().map_or([0; 3], |&b| self.blocks[b].program);
        InterpError::Fault { fault: Fault::Protocol(Protocol::Unawaited), inst, op: kernel.insts[inst].op, loc: kernel.locs[inst], program }
    }

    fn deadlock(&self) -> InterpError {
        let waiting = |f: &Fiber| match &f.state {
            State::Waits(inst, what) => Some((*inst, format!("{} at {} for {what}", self.name(f), self.place(*inst)))),
            State::Ready | State::Ended => None,
        };
        let all: Vec<(Inst, String)> = self.fibers.iter().filter_map(waiting).collect();
        let program = self.fibers.iter().find(|f| waiting(f).is_some()).map_or([0; 3], |f| self.blocks[f.block].program);
        let kernel = self.machine.kernel;
        let inst = all.first().map_or_else(|| kernel.regions[kernel.body].insts[0], |w| w.0);
        let fault = Fault::Protocol(Protocol::Deadlock(all.into_iter().map(|w| w.1).collect()));
        InterpError::Fault { fault, inst, op: kernel.insts[inst].op, loc: kernel.locs[inst], program }
    }

    /// `task consumer 1 of program [0, 0, 0]`.
    fn name(&self, f: &Fiber) -> String {
        let program = self.blocks[f.block].program;
        if f.name.is_empty() { format!("program {program:?}") } else { format!("task {} of program {program:?}", f.name) }
    }

    /// `12:5`, or the instruction's number where there is no text.
    fn place(&self, inst: Inst) -> String {
        let op = self.machine.kernel.insts[inst].op;
        match self.machine.kernel.locs[inst] {
            loc if loc.is_known() => format!("`{op}` ({loc})"),
            _ => format!("`{op}` ({inst})"),
        }
    }

    /// A site in words.
    fn site(&self, me: &Fiber, site: Site) -> String {
        let who = if site.fiber == me.id { self.name(me) } else { self.name(&self.fibers[site.fiber]) };
        format!("{} in {who}", self.place(site.inst))
    }
}
