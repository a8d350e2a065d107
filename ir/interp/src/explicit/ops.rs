//! What each op of explicit control does.

use super::bytes::as_bytes;
use super::channel::Attempt;
use super::cluster::{Cluster, Copy};
use super::fiber::{Fiber, Step};
use super::local::Buf;
use super::shape::Handle;
use crate::access::Access;
use crate::data::Data;
use crate::elementwise::select;
use crate::error::{Fault, InterpError};
use crate::exec::{Interpreter, indices, scalar, view_of};
use crate::explicit::operands::malformed;
use crate::protocol::Protocol;
use tilelift_ir::Inst;
use tilelift_ir::ops::{Attr, Op};

impl Cluster<'_, '_> {
    /// An instruction of explicit control; it is run again after a wait.
    pub(super) fn act(&mut self, f: &mut Fiber, inst: Inst) -> Result<Step, InterpError> {
        self.act_or_fault(f, inst).map_err(|fault| self.machine.fault(inst, fault))
    }

    pub(super) fn read(&mut self, f: &Fiber, inst: Inst, block: usize, buf: &Buf, by_unit: bool) -> Result<Data, Fault> {
        let fences = by_unit.then_some(&self.fences[..]);
        let local = &mut self.blocks[block].locals[buf.local];
        match local.read(buf, &f.clock, f.mark(inst), fences) {
            Ok(()) => Ok(local.get(buf)),
            Err(c) => Err(self.clash(f, c)),
        }
    }

    fn write(&mut self, f: &Fiber, inst: Inst, block: usize, buf: &Buf, data: &Data) -> Result<(), Fault> {
        let fences = self.fences[f.id];
        let done = self.blocks[block].locals[buf.local].write(buf, data, &f.clock, f.mark(inst), fences);
        done.map_err(|c| self.clash(f, c))
    }

    /// Begins a copy to some blocks.
    fn start(&mut self, f: &Fiber, inst: Inst, copy: Copy, by_unit: bool) -> Result<(), Fault> {
        for &b in &copy.blocks {
            let fences = by_unit.then_some(&self.fences[..]);
            let done = self.blocks[b].locals[copy.to.local].expect(&copy.to, &f.clock, copy.number, f.here(inst), fences);
            done.map_err(|c| self.clash(f, c))?;
        }
        self.copies.push_back(copy);
        self.started += 1;
        Ok(())
    }

    fn arrive(&mut self, f: &mut Fiber, block: usize, mbarrier: usize, bytes: u32) -> Result<(), Fault> {
        let w = &mut self.blocks[block].mbarriers[mbarrier];
        w.bytes += i64::from(bytes);
        if !w.arrive(&f.clock) {
            return Err(Fault::Protocol(Protocol::Arrivals));
        }
        f.tick();
        self.phase(block, mbarrier);
        match self.blocks[block].mbarriers[mbarrier].too_late() {
            Some((_, late)) => Err(Fault::Protocol(late)),
            None => Ok(()),
        }
    }

    fn act_or_fault(&mut self, f: &mut Fiber, inst: Inst) -> Result<Step, Fault> {
        let kernel = self.machine.kernel;
        let d = &kernel.insts[inst];
        let arg = |n: usize| d.args.get(n).copied().ok_or(malformed("no operand"));
        let count = |n: usize| if let Some(Attr::Count(c)) = d.attrs.get(n) { Ok(*c) } else { Err(malformed("no number")) };
        let block = f.block;
        match d.op {
            Op::LocalAlloc | Op::BarrierAlloc | Op::ChannelAlloc => {}
            Op::LocalIndex => match (&f.handles[arg(0)?], self.int(arg(1)?)?) {
                (Some(Handle::Buf(b)), i) => f.handles[d.results[0]] = Some(Handle::Buf(b.index(i))),
                _ => return Err(malformed("no local memory")),
            },
            Op::LocalSlice | Op::LocalTranspose | Op::LocalReinterpret => {
                let Some(Handle::Buf(b)) = &f.handles[arg(0)?] else { return Err(malformed("no local memory")) };
                let result = kernel.ty(d.results[0]).as_shared().ok_or(malformed("no local memory"))?;
                let view = match d.attrs.first() {
                    Some(Attr::Offsets(o)) => b.slice(o, &result.shape),
                    Some(Attr::Perm(p)) => b.transpose(p),
                    _ => b.reinterpret(result),
                };
                f.handles[d.results[0]] = Some(Handle::Buf(view));
            }
            Op::BarrierIndex => match (&f.handles[arg(0)?], self.int(arg(1)?)?) {
                (&Some(Handle::Mbarriers(first, n, outside)), i) => {
                    let inside = (0..i64::from(n)).contains(&i);
                    let at = if inside { i as usize } else { 0 };
                    let outside = outside.or((!inside).then_some(i));
                    f.handles[d.results[0]] = Some(Handle::Mbarriers(first + at, if outside.is_some() { n } else { 1 }, outside));
                }
                _ => return Err(malformed("no barrier")),
            },
            Op::LocalLoad => {
                let buf = self.buf(f, arg(0)?)?;
                let data = self.read(f, inst, block, &buf, false)?;
                self.machine.env[d.results[0]] = Some(data);
            }
            Op::LocalStore => {
                let (buf, mut data) = (self.buf(f, arg(0)?)?, self.tile(f, arg(1)?)?);
                if let Some(&mask) = kernel.operand(inst, "mask").first() {
                    // What is left out is what somebody wrote.
                    let (mask, old) = (self.tile(f, mask)?, self.read(f, inst, block, &buf, false)?);
                    data = select(&mask, data, old, false)?;
                }
                self.write(f, inst, block, &buf, &data)?;
            }
            Op::BarrierExpect => {
                let mbarrier = self.mbarrier(f, arg(0)?)?;
                self.arrive(f, block, mbarrier, count(0)?)?;
            }
            Op::BarrierArrive => {
                let mbarrier = self.mbarrier(f, arg(0)?)?;
                self.arrive(f, block, mbarrier, 0)?;
            }
            Op::RemoteArrive => {
                let (mbarrier, to) = (self.mbarrier(f, arg(0)?)?, self.rank(arg(1)?)?);
                self.arrive(f, to, mbarrier, 0)?;
            }
            Op::BarrierWait => {
                let (mbarrier, parity) = (self.mbarrier(f, arg(0)?)?, self.int(arg(1)?)?);
                let mark = f.mark(inst);
                let w = &mut self.blocks[block].mbarriers[mbarrier];
                let known = f.clock.reached(w.agent);
                w.in_time(parity, known).map_err(Fault::Protocol)?;
                if w.passed(parity).is_some() {
                    w.waited(parity, known, mark);
                }
                match w.passed(parity) {
                    Some(before) => f.clock.join(before),
                    None => return Ok(Step::Wait(format!("phase {}, which {}", w.phase, w.lacks()))),
                }
            }
            // The lanes of a task go together here, and see what each has brought.
            Op::TaskBarrier => self.lanes_meet(f),
            // They act in the order of the text.
            Op::SchedBarrier => {}
            // The groups of a task go together.
            Op::TurnFirst | Op::TurnWait | Op::TurnPass | Op::TurnLast => {
                let next = match (d.op, f.turns) {
                    (Op::TurnFirst, (false, false)) | (Op::TurnWait, (false, true)) => (true, false),
                    (Op::TurnPass, (true, _)) => (false, true),
                    (Op::TurnLast, (true, _)) => (false, false),
                    (op, (begun, _)) => return Err(Fault::Protocol(Protocol::Turns { op, begun })),
                };
                f.turns = next;
            }
            Op::CopyAsync => self.copy_async(f, inst)?,
            Op::GatherAsync => self.gather_async(f, inst)?,
            Op::CopyAsyncCommit => f.groups += 1,
            Op::CopyAsyncWait => {
                let done = f.groups.saturating_sub(u64::from(count(0)?));
                f.copies.iter_mut().filter(|c| c.group < done).for_each(|c| c.waited = true);
            }
            Op::CopyAsyncArrive => {
                let mbarrier = self.mbarrier(f, arg(0)?)?;
                let bytes = self.copies_arrive(f, mbarrier);
                self.arrive(f, block, mbarrier, bytes)?;
            }
            Op::FenceAsync => self.fences[f.id] += 1,
            Op::NamedBarrierSync | Op::NamedBarrierArrive => return self.named(f, d.op, count(0)?, count(1)?),
            Op::ClusterArrive | Op::ClusterBarrier | Op::ClusterWait => return self.meet(f, d.op),
            Op::ClusterRank => self.machine.env[d.results[0]] = Some(Data::int(block as i64)),
            Op::ClusterSize => self.machine.env[d.results[0]] = Some(Data::int(self.blocks.len() as i64)),
            Op::WorkerId => self.machine.env[d.results[0]] = Some(Data::int(i64::from(self.blocks[block].program[0]))),
            Op::NumWorkers => self.machine.env[d.results[0]] = Some(Data::int(i64::from(self.machine.workers))),
            Op::AsyncLoad => self.async_load(f, inst)?,
            Op::AsyncStore | Op::AsyncReduce => self.async_store(f, inst)?,
            Op::AsyncStoreWait => {
                let done = f.stores.saturating_sub(u64::from(count(0)?));
                let mark = f.mark(inst);
                self.blocks[block].locals.iter_mut().for_each(|l| l.released(false, done, mark));
            }
            Op::AsyncDot => self.async_dot(f, inst)?,
            Op::AsyncDotWait => {
                let done = f.begun.saturating_sub(u64::from(count(0)?));
                let mark = f.mark(inst);
                f.products.retain(|p| p.number >= done);
                self.blocks[block].locals.iter_mut().for_each(|l| l.released(true, done, mark));
                self.machine.env[d.results[0]] = self.machine.env[arg(0)?].clone();
            }
            Op::RemoteLoad => {
                let (buf, from) = (self.buf(f, arg(0)?)?, self.rank(arg(1)?)?);
                let data = self.read(f, inst, from, &buf, false)?;
                self.machine.env[d.results[0]] = Some(data);
            }
            Op::RemoteStore => {
                let (buf, to, data) = (self.buf(f, arg(0)?)?, self.rank(arg(1)?)?, self.tile(f, arg(2)?)?);
                self.write(f, inst, to, &buf, &data)?;
            }
            Op::RemoteStoreAsync => {
                let (buf, to, data) = (self.buf(f, arg(0)?)?, self.rank(arg(1)?)?, self.tile(f, arg(2)?)?);
                let (mbarrier, before) = (self.mbarrier(f, arg(3)?)?, f.clock.clone());
                let copy = Copy { number: self.started, data, to: buf, blocks: vec![to], mbarrier, inst, before, own: true };
                self.start(f, inst, copy, false)?;
                f.tick();
            }
            Op::ChannelPut | Op::ChannelGet | Op::ChannelConsumed => return self.channel(f, inst),
            _ => return Err(malformed("no explicit control")),
        }
        Ok(Step::Done)
    }

    fn named(&mut self, f: &mut Fiber, op: Op, number: u32, warps: u32) -> Result<Step, Fault> {
        let meeting = &mut self.blocks[f.block].named[number as usize];
        let round = match f.came {
            Some(round) => round,
            None => {
                let round = meeting.round;
                if meeting.got == 0 {
                    meeting.wants = warps;
                }
                let want = meeting.wants;
                // Units count warps, and do not tell one that comes twice from two.
                if meeting.here.contains(&f.id) {
                    return Err(Fault::Protocol(Protocol::Twice { number }));
                }
                meeting.here.push(f.id);
                if want != warps || !meeting.come(f.warps, &f.clock) {
                    let got = if want == warps { meeting.got } else { warps };
                    return Err(Fault::Protocol(Protocol::Warps { number, got, want }));
                }
                f.tick();
                round
            }
        };
        if op == Op::NamedBarrierArrive {
            return Ok(Step::Done);
        }
        match meeting.passed(round) {
            Some(before) => {
                f.clock.join(before);
                f.came = None;
                Ok(Step::Done)
            }
            None => {
                f.came = Some(round);
                Ok(Step::Wait(format!("barrier {number}, to which {} of {} warps came", meeting.got, meeting.wants)))
            }
        }
    }

    fn meet(&mut self, f: &mut Fiber, op: Op) -> Result<Step, Fault> {
        // A whole barrier that waits has come already.
        let waiting = matches!(f.state, super::State::Waits(..));
        match (op, f.met) {
            (Op::ClusterArrive, Some(_)) | (Op::ClusterWait, None) => return Err(Fault::Protocol(Protocol::Halves)),
            (Op::ClusterBarrier, Some(_)) if !waiting => return Err(Fault::Protocol(Protocol::Halves)),
            (Op::ClusterArrive | Op::ClusterBarrier, None) => {
                f.met = Some(self.meeting.round);
                self.meeting.come(f.shares, &f.clock);
                f.tick();
            }
            _ => {}
        }
        if op == Op::ClusterArrive {
            return Ok(Step::Done);
        }
        match f.met.and_then(|round| self.meeting.passed(round)) {
            Some(before) => {
                f.clock.join(before);
                f.met = None;
                Ok(Step::Done)
            }
            None => Ok(Step::Wait(format!("the cluster, of which {} of {} tasks came", self.meeting.got, self.meeting.wants))),
        }
    }

    fn async_load(&mut self, f: &mut Fiber, inst: Inst) -> Result<(), Fault> {
        let kernel = self.machine.kernel;
        let d = &kernel.insts[inst];
        let operand = |name: &str| kernel.operand(inst, name).first().copied();
        let buf = self.buf(f, operand("buffer").ok_or(malformed("no buffer"))?)?;
        let mbarrier = self.mbarrier(f, operand("barrier").ok_or(malformed("no barrier"))?)?;
        let size = self.blocks.len();
        let blocks: Vec<usize> = match operand("multicast") {
            None => vec![f.block],
            Some(v) => {
                let mask = self.int(v)? as u32;
                if mask == 0 || u64::from(mask) >> size != 0 {
                    let rank = if mask == 0 { -1 } else { i64::from(31 - mask.leading_zeros()) };
                    return Err(Fault::Protocol(Protocol::Rank { rank, size: size as u32 }));
                }
                (0..size).filter(|b| mask >> b & 1 == 1).collect()
            }
        };
        let index = self.at(inst, buf.shape.len())?;
        let machine = &mut *self.machine;
        let (grid, subset) = (machine.grid, machine.subset);
        let view = view_of(kernel, &machine.views, d)?;
        let index = indices(&index.into_iter().collect(), buf.shape.len())?;
        let mut access = Access { memory: machine.memory, shadows: machine.shadows, me: machine.me, released: &machine.released };
        let data = as_bytes(view, &buf, |shape| {
            access.load(view, &index, shape, None, scalar(view.arg.elem, 0), |w| Interpreter::program_of(grid, subset, w))
        })?;
        let copy = Copy { number: self.started, data, to: buf, blocks, mbarrier, inst, before: f.clock.clone(), own: false };
        self.start(f, inst, copy, true)?;
        f.tick();
        Ok(())
    }

    fn channel(&mut self, f: &mut Fiber, inst: Inst) -> Result<Step, Fault> {
        let d = &self.machine.kernel.insts[inst];
        let (Some(Some(Handle::Channel(at))), Some(&step)) = (d.args.first().map(|&v| f.handles[v].clone()), d.args.get(1)) else {
            return Err(malformed("no channel"));
        };
        let step = self.int(step)?;
        let tiles = d.args[2..].iter().map(|&v| self.tile(f, v)).collect::<Result<Vec<Data>, Fault>>()?;
        let channel = &mut self.blocks[f.block].channels[at];
        let attempt = match d.op {
            Op::ChannelPut => match channel.put(step, &tiles, &mut f.clock) {
                Attempt::Done(()) => {
                    f.tick();
                    Attempt::Done(Vec::new())
                }
                Attempt::Wait => Attempt::Wait,
                Attempt::Wrong(what) => Attempt::Wrong(what),
            },
            Op::ChannelGet => channel.get(step, &mut f.clock),
            _ => match channel.consume(step, f.id, &f.clock) {
                Ok(()) => {
                    f.tick();
                    Attempt::Done(Vec::new())
                }
                Err(what) => Attempt::Wrong(what),
            },
        };
        match attempt {
            Attempt::Done(values) => {
                self.machine.bind(&d.results, values.into_iter().collect());
                Ok(Step::Done)
            }
            Attempt::Wait => Ok(Step::Wait(format!("step {step} of a channel; {}", channel.lacks(step)))),
            Attempt::Wrong(what) => Err(Fault::Protocol(Protocol::Channel(what))),
        }
    }
}
