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
mod bytes;
mod channel;
mod cluster;
mod fiber;
mod lanes;
mod local;
mod operands;
mod ops;
mod product;
mod shape;
mod steps;
mod store;
mod written;

use super::data::Data;
use super::error::{Fault, InterpError};
use super::exec::Interpreter;
use crate::explicit::cluster::{Block, Cluster, Copy};
use crate::explicit::shape::Shape;
use crate::explicit::written::Written;
use crate::protocol::Protocol;
use barrier::{Mbarrier, Meeting};
use channel::Channel;
use cranelift_entity::SecondaryMap;
use fiber::{Fiber, Moved, State};
use local::Local;
use std::collections::VecDeque;
use tilelift_ir::{Inst, Value};

impl Interpreter<'_> {
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
        let mbarriers = shape.mbarriers.len();
        let blocks: Vec<Block> = blocks
            .iter()
            .enumerate()
            .map(|(b, &(program, me))| Block {
                program,
                me,
                acquired: false,
                locals: shape.locals.iter().map(|&n| Local::new(n)).collect(),
                mbarriers: shape.mbarriers.iter().enumerate().map(|(w, &count)| Mbarrier::new(count, b * mbarriers + w)).collect(),
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
        let copies = self.blocks.len() * self.shape.mbarriers.len();
        for &b in &copy.blocks {
            let block = &mut self.blocks[b];
            block.locals[copy.to.local].put(&copy.to, &copy.data);
            let mbarrier = &mut block.mbarriers[copy.mbarrier];
            mbarrier.bytes -= copy.to.bytes() as i64;
            mbarrier.landed.push((copy.to.local, copy.number));
            if copy.own {
                mbarrier.told(&copy.before, copies);
            } else {
                mbarrier.begun(&copy.before);
            }
            self.phase(b, copy.mbarrier);
        }
    }

    fn unawaited(&self, copy: &Copy) -> InterpError {
        let (kernel, inst) = (self.machine.kernel, copy.inst);
        let program = copy.blocks.first().map_or([0; 3], |&b| self.blocks[b].program);
        InterpError::at(kernel, inst, program, Fault::Protocol(Protocol::Unawaited))
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
        InterpError::at(kernel, inst, program, fault)
    }
}
