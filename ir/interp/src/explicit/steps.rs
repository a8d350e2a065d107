//! A task's way through its regions, until it waits or ends.

use crate::data::{Bundle, Data};
use crate::error::{Fault, InterpError};
use crate::explicit::cluster::Cluster;
use crate::explicit::fiber::{Fiber, Frame, Moved, State, Step, Then};
use tilelift_ir::ops::{Attr, Op};
use tilelift_ir::{Inst, Value};

impl Cluster<'_, '_> {
    /// Runs a fiber, whose environment the machine has, until it waits or ends, or a `while` begins a round.
    pub(super) fn go(&mut self, f: &mut Fiber) -> Result<Moved, InterpError> {
        let kernel = self.machine.kernel;
        let mut moved = Moved::No;
        loop {
            let Some(frame) = f.frames.last() else { return Ok(moved) };
            let Some(&inst) = kernel.regions[frame.region].insts.get(frame.at) else {
                // The kernel's body has no `yield`.
                self.end(f)?;
                return Ok(Moved::Far);
            };
            let d = &kernel.insts[inst];
            if d.op.is_explicit() && d.op != Op::Tasks {
                match self.act(f, inst)? {
                    Step::Done => {
                        self.machine.charge(inst, self.machine.plan.cost[inst])?;
                        self.drop_dead(inst);
                    }
                    Step::Wait(what) => {
                        f.state = State::Waits(inst, what);
                        return Ok(moved);
                    }
                }
            }
            f.state = State::Ready;
            moved = Moved::Far;
            if let Some(frame) = f.frames.last_mut() {
                frame.at += 1;
            }
            match d.op {
                Op::Tasks => {
                    self.begin_tasks(f, inst);
                    // They have its shares.
                    f.shares = 0;
                    self.end(f)?;
                    return Ok(Moved::Far);
                }
                op if op.is_explicit() => {}
                Op::For | Op::While | Op::If => {
                    self.machine.charge(inst, self.machine.plan.cost[inst])?;
                    let args = self.operands(inst)?;
                    self.enter(f, inst, args)?;
                }
                Op::Yield => {
                    self.machine.charge(inst, self.machine.plan.cost[inst])?;
                    let values = self.operands(inst)?;
                    let pause = matches!(f.frames.last(), Some(Frame { then: Then::Body(..), .. }));
                    self.leave(f, values)?;
                    if matches!(f.state, State::Ended) {
                        return Ok(Moved::Far);
                    } else if pause {
                        return Ok(Moved::Around);
                    }
                }
                _ => {
                    self.check_products(f, inst)?;
                    self.machine.step(inst, d)?;
                }
            }
        }
    }

    fn end(&mut self, f: &mut Fiber) -> Result<(), InterpError> {
        f.state = State::Ended;
        f.frames.clear();
        self.check_copies(f)?;
        self.meeting.leave(f.shares, f.met, &f.clock);
        self.check_end(f)
    }

    fn drop_dead(&mut self, inst: Inst) {
        let plan = self.machine.plan;
        for &v in plan.dies_before[inst].iter().chain(&plan.dies_after[inst]) {
            self.machine.env[v] = None;
        }
    }

    /// What travels through control: numbers and tiles, perhaps in flight.
    fn operands(&mut self, inst: Inst) -> Result<Bundle, InterpError> {
        let machine = &self.machine;
        let of = |&v: &Value| {
            machine.env[v].clone().ok_or_else(|| machine.fault(inst, Fault::Malformed("a value is used before it is defined")))
        };
        let out: Bundle = machine.kernel.insts[inst].args.iter().map(of).collect::<Result<_, _>>()?;
        for &v in &machine.plan.dies_before[inst] {
            self.machine.env[v] = None;
        }
        Ok(out)
    }

    fn begin_tasks(&mut self, f: &mut Fiber, inst: Inst) {
        let d = &self.machine.kernel.insts[inst];
        let Some(Attr::Tasks(tasks)) = d.attrs.first() else { return };
        for (task, &region) in tasks.iter().zip(&d.regions) {
            for replica in 0..task.replicas {
                let mut env = self.machine.env.clone();
                if let Some(&p) = self.machine.kernel.regions[region].params.first() {
                    env[p] = Some(Data::int(i64::from(replica)));
                }
                let mut fiber = Fiber::new(f.block, region, env, f.handles.clone());
                fiber.name = if task.replicas == 1 { task.name.clone() } else { format!("{} {replica}", task.name) };
                fiber.warps = task.warps;
                (fiber.clock, fiber.met) = (f.clock.clone(), f.met);
                self.spawn(fiber);
            }
        }
        f.tick();
    }

    /// Begins a control instruction.
    fn enter(&mut self, f: &mut Fiber, inst: Inst, args: Bundle) -> Result<(), InterpError> {
        let kernel = self.machine.kernel;
        let d = &kernel.insts[inst];
        let int = |n: usize| args.get(n).map_or(Err(Fault::Malformed("no operand")), Data::as_int);
        match d.op {
            Op::For => {
                let bounds = int(0).and_then(|lo| Ok((lo, int(1)?, int(2)?)));
                let (lo, hi, step) = bounds.map_err(|e| self.machine.fault(inst, e))?;
                if step <= 0 {
                    return Err(self.machine.fault(inst, Fault::Step { step }));
                }
                let carried = args.into_iter().skip(3).collect();
                self.round(f, inst, i128::from(lo), hi, step, carried)
            }
            Op::While => {
                self.machine.bind(&kernel.regions[d.regions[0]].params, args.clone());
                f.frames.push(Frame { region: d.regions[0], at: 0, then: Then::Test(inst, self.machine.steps, args, f.begun) });
                Ok(())
            }
            _ => {
                let condition = int(0).map_err(|e| self.machine.fault(inst, e))?;
                f.frames.push(Frame { region: d.regions[usize::from(condition == 0)], at: 0, then: Then::If(inst) });
                Ok(())
            }
        }
    }

    /// A round of a `for`, or its end.
    fn round(&mut self, f: &mut Fiber, inst: Inst, at: i128, hi: i64, step: i64, carried: Bundle) -> Result<(), InterpError> {
        if at >= i128::from(hi) {
            self.machine.rounds[inst] = 0;
            return self.results(inst, carried);
        }
        self.machine.round(inst)?;
        let kernel = self.machine.kernel;
        let region = kernel.insts[inst].regions[0];
        let params = &kernel.regions[region].params;
        self.machine.env[params[0]] = Some(Data::int(at as i64));
        self.machine.bind(&params[1..], carried);
        f.frames.push(Frame { region, at: 0, then: Then::For(inst, at, hi, step, f.begun) });
        Ok(())
    }

    fn results(&mut self, inst: Inst, values: Bundle) -> Result<(), InterpError> {
        let d = &self.machine.kernel.insts[inst];
        if d.results.len() != values.len() {
            return Err(self
                .machine
                .fault(inst, Fault::Malformed("a region yields another number of values than the instruction has results")));
        }
        self.machine.bind(&d.results, values);
        for &v in &self.machine.plan.dies_after[inst] {
            self.machine.env[v] = None;
        }
        Ok(())
    }

    /// The end of a region.
    fn leave(&mut self, f: &mut Fiber, values: Bundle) -> Result<(), InterpError> {
        let kernel = self.machine.kernel;
        let Some(frame) = f.frames.pop() else { return Ok(()) };
        match frame.then {
            Then::End => self.end(f),
            Then::For(inst, at, hi, step, since) => {
                self.check_round(f, frame.region, 1, since, &values)?;
                self.round(f, inst, at + i128::from(step), hi, step, values)
            }
            Then::If(inst) => {
                self.check_choice(f, &values)?;
                self.results(inst, values)
            }
            Then::Test(inst, left, carried, since) => {
                if !matches!(values.first(), Some(Data::Int(v)) if v[..] == [1]) {
                    self.machine.rounds[inst] = 0;
                    return self.results(inst, carried);
                }
                let limit = self.machine.steps;
                let left = left.checked_sub(1).ok_or_else(|| self.machine.fault(inst, Fault::Rounds { limit }))?;
                self.machine.round(inst)?;
                let region = kernel.insts[inst].regions[1];
                self.machine.bind(&kernel.regions[region].params, carried);
                f.frames.push(Frame { region, at: 0, then: Then::Body(inst, left, since) });
                Ok(())
            }
            Then::Body(inst, left, since) => {
                self.check_round(f, frame.region, 0, since, &values)?;
                let region = kernel.insts[inst].regions[0];
                self.machine.bind(&kernel.regions[region].params, values.clone());
                f.frames.push(Frame { region, at: 0, then: Then::Test(inst, left, values, f.begun) });
                Ok(())
            }
        }
    }
}
