//! Copies by the lanes of a task: each lane waits for its own share, and where lanes meet all see what each has brought.
//!
//! ```text
//! copy_async ── content undefined ─┬ copy_async_commit, copy_async_wait ── each lane has its share ── task_barrier ── the task may read
//!                                  └ copy_async_arrive ── the barrier counts the bytes ── barrier_wait ── who waited may read
//! ```
//!
//! Lanes begin copies when they come to them: what others of the task do there has to be behind a `task_barrier`.

use super::bytes::as_bytes;
use super::cluster::{Cluster, Copy};
use super::fiber::Fiber;
use super::operands::malformed;
use crate::access::Access;
use crate::data::Data;
use crate::error::{Fault, InterpError};
use crate::exec::{Interpreter, indices, scalar, view_of};
use crate::explicit::fiber::LaneCopy;
use crate::explicit::local::Buf;
use crate::indexed::Places;
use crate::protocol::Protocol;
use tilelift_ir::Inst;

impl Cluster<'_, '_> {
    pub(super) fn gather_async(&mut self, f: &mut Fiber, inst: Inst) -> Result<(), Fault> {
        let kernel = self.machine.kernel;
        let operand = |name: &str| kernel.operand(inst, name).first().copied();
        let to = self.buf(f, operand("buffer").ok_or(malformed("no buffer"))?)?;
        let index = kernel.operand(inst, "indices").iter().map(|&v| self.tile(f, v)).collect::<Result<Vec<Data>, Fault>>()?;
        let index = index.iter().map(|t| t.as_ints().map(|v| v.as_slice())).collect::<Result<Vec<&[i64]>, Fault>>()?;
        let mask = operand("mask").map(|v| self.tile(f, v)).transpose()?;
        let mask = mask.as_ref().map(Data::as_ints).transpose()?.map(|m| m.as_slice());
        let zero = scalar(to.elem, 0);
        let machine = &mut *self.machine;
        let (grid, subset) = (machine.grid, machine.subset);
        let places = Places { view: view_of(kernel, &machine.views, &kernel.insts[inst])?, index, mask };
        let mut access = Access { memory: machine.memory, shadows: machine.shadows, me: machine.me, released: &machine.released };
        let data = access.gather(&places, zero, |w| Interpreter::program_of(grid, subset, w))?;
        self.lanes_copy(f, inst, to, data)
    }

    pub(super) fn copy_async(&mut self, f: &mut Fiber, inst: Inst) -> Result<(), Fault> {
        let kernel = self.machine.kernel;
        let d = &kernel.insts[inst];
        let operand = |name: &str| kernel.operand(inst, name).first().copied();
        let to = self.buf(f, operand("buffer").ok_or(malformed("no buffer"))?)?;
        let mask = operand("mask").map(|v| self.tile(f, v)).transpose()?;
        let mask = mask.as_ref().map(Data::as_ints).transpose()?.map(|m| m.as_slice());
        let other = match operand("other") {
            Some(v) => self.machine.env[v].clone().ok_or(malformed("a number is used before it is defined"))?,
            None => scalar(view_of(kernel, &self.machine.views, d)?.arg.elem, 0),
        };
        let index = self.at(inst, to.shape.len())?;
        let machine = &mut *self.machine;
        let (grid, subset) = (machine.grid, machine.subset);
        let view = view_of(kernel, &machine.views, d)?;
        let index = indices(&index.into_iter().collect(), to.shape.len())?;
        let mut access = Access { memory: machine.memory, shadows: machine.shadows, me: machine.me, released: &machine.released };
        let data =
            as_bytes(view, &to, |shape| access.load(view, &index, shape, mask, other, |w| Interpreter::program_of(grid, subset, w)))?;
        self.lanes_copy(f, inst, to, data)
    }

    /// The lanes of a task begin to copy this.
    fn lanes_copy(&mut self, f: &mut Fiber, inst: Inst, to: Buf, data: Data) -> Result<(), Fault> {
        let local = &mut self.blocks[f.block].locals[to.local];
        let begun = local.met(&to, f.agent, f.met_at).and_then(|()| local.expect(&to, &f.clock, self.started, f.here(inst), None));
        begun.map_err(|c| self.clash(f, c))?;
        f.copies.push(LaneCopy { number: self.started, data, to, inst, group: f.groups, waited: false });
        self.started += 1;
        Ok(())
    }

    /// A barrier is to count the bytes of what the lanes of a task copy: so many.
    pub(super) fn copies_arrive(&mut self, f: &mut Fiber, mbarrier: usize) -> u32 {
        let mut bytes = 0;
        for LaneCopy { number, data, to, inst, .. } in std::mem::take(&mut f.copies) {
            bytes += to.bytes() as u32;
            let (blocks, before) = (vec![f.block], f.clock.clone());
            self.copies.push_back(Copy { number, data, to, blocks, mbarrier, inst, before, own: false });
        }
        bytes
    }

    /// The lanes of a task meet: what each has waited for is there for all.
    pub(super) fn lanes_meet(&mut self, f: &mut Fiber) {
        let (agent, now) = (f.agent, f.clock.get(f.agent));
        f.met_at = now;
        f.tick();
        let (there, coming) = std::mem::take(&mut f.copies).into_iter().partition(|c: &LaneCopy| c.waited);
        f.copies = coming;
        for c in there {
            let local = &mut self.blocks[f.block].locals[c.to.local];
            local.put(&c.to, &c.data);
            local.landed(c.number, agent, now);
        }
    }

    /// A task ends only behind what its lanes copy.
    pub(super) fn check_copies(&self, f: &Fiber) -> Result<(), InterpError> {
        match f.copies.iter().find(|c| !c.waited) {
            Some(c) => Err(self.machine.fault(c.inst, Fault::Protocol(Protocol::Unawaited))),
            None => Ok(()),
        }
    }
}
