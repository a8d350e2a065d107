//! The state of a cluster: its blocks, what runs in them, copies in flight.

use crate::data::Data;
use crate::exec::Interpreter;
use crate::explicit::barrier::{Mbarrier, Meeting};
use crate::explicit::channel::Channel;
use crate::explicit::fiber::Fiber;
use crate::explicit::local::{Buf, Clock, Local, Site};
use crate::explicit::shape::Shape;
use crate::explicit::written::Written;
use std::collections::VecDeque;
use tilelift_ir::Inst;

/// A program instance.
pub(super) struct Block {
    pub(super) program: [u32; 3],
    pub(super) me: u32,
    /// It did an acquiring update.
    pub(super) acquired: bool,
    pub(super) locals: Vec<Local>,
    pub(super) mbarriers: Vec<Mbarrier>,
    pub(super) channels: Vec<Channel>,
    pub(super) named: Vec<Meeting>,
    pub(super) written: Written,
}

/// A copy in flight.
pub(super) struct Copy {
    pub(super) number: u64,
    pub(super) data: Data,
    pub(super) to: Buf,
    /// Blocks that it goes to, and the barrier that counts its bytes there.
    pub(super) blocks: Vec<usize>,
    pub(super) mbarrier: usize,
    /// What began it.
    pub(super) inst: Inst,
    /// What came before it, of which its bytes tell.
    pub(super) before: Clock,
    /// A task's own store, whose bytes tell what it has read, too.
    pub(super) own: bool,
}

/// The blocks of a cluster, and what runs in them.
pub(super) struct Cluster<'c, 'm> {
    pub(super) machine: &'c mut Interpreter<'m>,
    pub(super) shape: &'c Shape,
    pub(super) blocks: Vec<Block>,
    pub(super) fibers: Vec<Fiber>,
    /// Fences that each fiber has done.
    pub(super) fences: Vec<u32>,
    pub(super) copies: VecDeque<Copy>,
    pub(super) started: u64,
    pub(super) meeting: Meeting,
}

impl Cluster<'_, '_> {
    /// Adds a fiber, with an agent of its own.
    pub(super) fn spawn(&mut self, mut fiber: Fiber) {
        fiber.id = self.fibers.len();
        fiber.agent = self.blocks.len() * self.shape.mbarriers.len() + fiber.id;
        fiber.clock.set(fiber.agent, 1);
        self.fences.push(0);
        self.fibers.push(fiber);
    }

    /// Ends the running phase of a barrier if it has all it wants.
    pub(super) fn phase(&mut self, block: usize, mbarrier: usize) {
        let block = &mut self.blocks[block];
        let mbarrier = &mut block.mbarriers[mbarrier];
        for (local, number) in mbarrier.end_phase().unwrap_or_default() {
            block.locals[local].landed(number, mbarrier.agent, mbarrier.phase);
        }
    }

    /// `task consumer 1 of program [0, 0, 0]`.
    pub(super) fn name(&self, f: &Fiber) -> String {
        let program = self.blocks[f.block].program;
        if f.name.is_empty() { format!("program {program:?}") } else { format!("task {} of program {program:?}", f.name) }
    }

    /// `12:5`, or the instruction's number where there is no text.
    pub(super) fn place(&self, inst: Inst) -> String {
        let op = self.machine.kernel.insts[inst].op;
        match self.machine.kernel.locs[inst] {
            loc if loc.is_known() => format!("`{op}` ({loc})"),
            _ => format!("`{op}` ({inst})"),
        }
    }

    /// A site in words.
    pub(super) fn site(&self, me: &Fiber, site: Site) -> String {
        let who = if site.fiber == me.id { self.name(me) } else { self.name(&self.fibers[site.fiber]) };
        format!("{} in {who}", self.place(site.inst))
    }
}
