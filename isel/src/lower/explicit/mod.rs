//! Explicit control: the author's tasks become roles, each lowered with its own warps and layouts.
//!
//! ```text
//! outside of tasks ── buffers, mbarriers ── all warps meet ─► a role per task: its body, for all replicas if they lie side by side
//! one lane does what a task as a whole does (arrives, starts copies), once all lanes are there
//! ```

pub(super) mod beside;
mod bytes;
mod copies;
mod fences;
mod gathers;
mod groups;
pub(super) mod lanes;
mod local;
mod loops;
mod matrices;
mod product;
mod rows;
mod turns;

use super::Lower;
use super::facts::loads_what_it_leaves;
use super::location::ValueLocation;
use crate::lower::commits::Commits;
use crate::lower::facts::count;
use crate::lower::location::Mbarriers;
use crate::lower::task::{Reads, Summaries, TaskState, Traces};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tilelift_ir::{CmpOp, Inst, Op, Region, Type, Value};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, Param, ParamSource, Place, RoleSpec, Special, Unit};
use tilelift_schedule::LowerError;
use tilelift_schedule::plan::{TaskPlan, TaskRole, allocation, handle, tasks};
use tilelift_schedule::reason::{Location, Missing, Unsupported};

impl Lower<'_> {
    fn task(&self) -> Result<&TaskState, LowerError> {
        self.task.as_ref().ok_or_else(|| Missing::Tasks.into())
    }

    fn task_mut(&mut self) -> Result<&mut TaskState, LowerError> {
        self.task.as_mut().ok_or_else(|| Missing::Tasks.into())
    }

    /// True if the machine's grid is not the launch grid.
    pub(super) fn is_persistent(&self) -> bool {
        self.task.as_ref().is_some_and(|t| t.persistent)
    }

    /// Lowers the whole kernel.
    pub(super) fn explicit(&mut self, b: &mut LaneBuilder, plan: &Rc<TaskPlan>) -> Result<(), LowerError> {
        let kernel = self.kernel;
        b.set_cluster(kernel.cluster);
        let mut maps = BTreeMap::new();
        let groupwise = self.groupwise(plan);
        for (&i, tile) in &plan.boxes {
            let mut spec = tile.tensor_box(self.param_number(kernel.insts[i].args[0]));
            if let Some(&rows) = groupwise.rows.get(&i) {
                spec.extents[1] = rows;
            }
            maps.insert(i, b.tensor_param(Param { ty: LTy::I64, source: ParamSource::Tensor(spec) }));
        }
        let order = self.order.clone();
        let meetings = order.with(kernel.body, |op| matches!(op, Op::NamedBarrierSync | Op::NamedBarrierArrive));
        let mut named: Vec<u32> = meetings.map(|i| count(kernel, i, 0)).collect();
        named.sort_unstable();
        named.dedup();
        let first = Some(first_lane(b));
        let mut prefetched: Vec<u32> = maps.values().copied().collect();
        prefetched.sort_unstable();
        prefetched.dedup();
        for map in prefetched {
            b.unit(Unit::PrefetchMap { map, guard: first });
        }
        let group = self.target.units.as_ref().map_or(1, |u| u.group_warps);
        let (groups, turns) = (plan.warps / group, turns::barriers(&order, plan, group, named.len() as u32));
        let mut for_units = BTreeSet::new();
        for i in order.with(kernel.body, |op| matches!(op, Op::AsyncLoad | Op::AsyncStore | Op::AsyncReduce | Op::AsyncDot)) {
            let handles = kernel.insts[i].args.iter().filter_map(|&v| handle(kernel, v));
            for_units.extend(handles.map(|h| allocation(kernel, h.root)));
        }
        self.task = Some(TaskState {
            plan: plan.clone(),
            maps,
            allocs: BTreeMap::new(),
            for_units,
            fenced_fills: fenced_fills(kernel),
            fences_global: fences::of_global_memory(kernel),
            mbarriers: Vec::new(),
            unpublished: false,
            named,
            turns,
            turn: None,
            begins: None,
            due: None,
            first,
            groups,
            persistent: kernel.is_persistent(),
            groupwise,
            apart: false,
            arrives: None,
            fresh: BTreeMap::new(),
            regions: Summaries::default(),
            late: Vec::new(),
            beside: Vec::new(),
            less: Vec::new(),
            products: order.has(kernel.body, |op| op == Op::AsyncDot),
            met: true,
            traces: Traces::default(),
            commits: Rc::new(Commits::of(kernel, &order)),
        });
        let tasks = tasks(kernel);
        let warps = std::mem::replace(&mut self.plan.warps, plan.front);
        let last = lanes::last_uses(kernel, tasks, plan);
        for &i in kernel.regions[kernel.body].insts.iter().filter(|&&i| Some(i) != tasks) {
            // A loop that uses a buffer uses it to its end. Others have its bytes then: behind a wait, or from a barrier on.
            let meets = kernel.insts[i].op == Op::TaskBarrier;
            if meets {
                self.touch_ended(b, last.get(&i));
            }
            self.inst(b, i).map_err(|e| e.at(kernel.locs[i]))?;
            if !meets {
                self.touch_ended(b, last.get(&i));
            }
        }
        self.publish(b)?;
        self.plan.warps = warps;
        match tasks {
            Some(i) => self.tasks(b, plan).map_err(|e| e.at(kernel.locs[i]))?,
            None => self.leave_task(b, kernel.body)?,
        }
        let state = self.task()?;
        let ended: BTreeSet<Inst> = last.into_values().flatten().collect();
        let others = state.allocs.iter().filter(|x| !ended.contains(x.0)).map(|x| x.1);
        others.chain(&state.mbarriers).for_each(|&a| b.touch(a));
        self.task = None;
        Ok(())
    }

    /// Buffers are in use for the last time.
    fn touch_ended(&mut self, b: &mut LaneBuilder, roots: Option<&Vec<Inst>>) {
        if let (Some(task), Some(roots)) = (self.task.as_mut(), roots) {
            task.beside.clear();
            roots.iter().filter_map(|root| task.allocs.get(root)).for_each(|&a| b.touch(a));
        }
    }

    fn tasks(&mut self, b: &mut LaneBuilder, plan: &Rc<TaskPlan>) -> Result<(), LowerError> {
        let kernel = self.kernel;
        // What stands in front of the tasks is done by all warps before one of them does more.
        if self.accessed() {
            self.order_all(b);
        } else {
            self.meet(b, false)?;
        }
        self.leave_task(b, kernel.body)?;
        let (outer, warps) = (self.values.clone(), self.plan.warps);
        let group = self.target.units.as_ref().map_or(1, |u| u.group_warps);
        let mut roles = Vec::new();
        let (direct, sinks) = (self.direct, loads_what_it_leaves(kernel, &self.order));
        for r in plan.roles.iter().filter(|r| plan.written(r)) {
            self.beside_products(b, r, direct, sinks);
            self.values = outer.clone();
            self.variants.clear();
            self.forget_accesses();
            self.plan.warps = r.warps[1];
            let replicas = plan.replicas(r);
            let name = if replicas > 1 { &r.task } else { &r.name };
            let (warps, idle) = ((r.warps[0], r.warps[1]), r.idle);
            let spec = RoleSpec { name, warps, idle, replicas, single: r.single, registers: r.registers };
            let role = b.role(self, spec, |cx, b| {
                let apart = cx.task()?.groupwise.tasks.contains_key(&r.region);
                let first = match (r.single, apart) {
                    (true, _) => None,
                    (false, true) => Some(elected(b, group)),
                    (false, false) => Some(first_lane(b)),
                };
                let arrives = cx.task()?.groupwise.arriving.contains_key(&r.region).then(|| elected(b, group));
                let products = cx.order.has(r.region, |op| op == Op::AsyncDot);
                let task = cx.task_mut()?;
                (task.first, task.groups, task.arrives) = (first, r.warps[1] / group, arrives);
                task.turn = task.turns.get(&r.region).copied();
                task.products = products;
                (task.met, task.traces, task.apart) = (true, Traces::default(), apart);
                cx.task_body(b, r, replicas)
            })?;
            roles.push(role);
        }
        self.plan.warps = warps;
        (self.direct, b.sink_loads) = (direct, None);
        for i in &plan.idle {
            let [first, warps] = i.warps;
            let spec = RoleSpec { name: "idle", warps: (first, warps), idle: 0, replicas: 1, single: false, registers: Some(i.registers) };
            roles.push(b.role(self, spec, |_, _| Ok::<_, LowerError>(()))?);
        }
        roles.sort_by_key(|r| r.first);
        b.roles(roles);
        Ok(())
    }

    fn task_body(&mut self, b: &mut LaneBuilder, r: &TaskRole, replicas: u32) -> Result<(), LowerError> {
        let replica = self.kernel.regions[r.region].params[0];
        let number = if replicas > 1 { b.special(Special::Replica) } else { b.i32(i64::from(r.replica)) };
        self.values[replica] = Some(ValueLocation::Scalar(number));
        self.region(b, r.region)?;
        self.leave_task(b, r.region)
    }

    /// The end of a task: what its stores read stays until they have read it.
    fn leave_task(&mut self, b: &mut LaneBuilder, r: Region) -> Result<(), LowerError> {
        let stores = |op: Op| matches!(op, Op::AsyncStore | Op::AsyncReduce);
        let own = |&i: &Inst| {
            let d = &self.kernel.insts[i];
            stores(d.op) || d.op != Op::Tasks && d.regions.iter().any(|&x| self.order.has(x, stores))
        };
        if self.kernel.regions[r].insts.iter().any(own) {
            let guard = self.task()?.first;
            b.unit(Unit::WaitStoresRead { pending: 0, guard });
        }
        Ok(())
    }

    /// Shows mbarriers to all that use them.
    fn publish(&mut self, b: &mut LaneBuilder) -> Result<(), LowerError> {
        if std::mem::take(&mut self.task_mut()?.unpublished) {
            b.unit(Unit::PublishBarriers);
            if self.kernel.cluster > 1 {
                b.unit(Unit::ClusterArrive { relaxed: true });
                b.unit(Unit::ClusterWait);
            } else {
                b.barrier();
            }
        }
        Ok(())
    }

    /// Control flow meets: other ways may have come from elsewhere.
    pub(super) fn forget_task(&mut self) {
        if let Some(t) = &mut self.task {
            t.met = false;
        }
    }

    /// Waits until all lanes of the task are here, unless they are known to be.
    fn meet(&mut self, b: &mut LaneBuilder, always: bool) -> Result<(), LowerError> {
        let t = self.task_mut()?;
        let meets = t.first.is_some() && (always || !t.met || t.traces.stored);
        t.met = true;
        t.traces.met();
        let apart = t.apart;
        match &self.target.units {
            Some(units) if meets && apart => b.unit(Unit::GroupBarrier { warps: units.group_warps }),
            _ if meets => b.barrier(),
            _ => {}
        }
        Ok(())
    }

    /// An instruction of explicit control.
    pub(super) fn explicit_inst(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        match d.op {
            Op::LocalAlloc => self.local_alloc(b, i)?,
            Op::BarrierAlloc => self.barrier_alloc(b, i)?,
            Op::LocalIndex | Op::LocalSlice | Op::LocalTranspose | Op::LocalReinterpret => self.local_view(b, i)?,
            Op::BarrierIndex => {
                let (at, n) = (self.mbarriers_of(d.args[0])?.at, self.scalar(d.args[1])?);
                let eight = b.i32(8);
                let offset = b.mul(n, eight);
                self.values[d.results[0]] = Some(ValueLocation::Mbarriers(Mbarriers { at: b.add(at, offset) }));
            }
            Op::ClusterRank => {
                let v = if kernel.cluster > 1 { b.special(Special::ClusterRank) } else { b.i32(0) };
                self.values[d.results[0]] = Some(ValueLocation::Scalar(v));
            }
            Op::WorkerId | Op::NumWorkers => {
                let what = if d.op == Op::WorkerId { Special::Worker } else { Special::Workers };
                self.values[d.results[0]] = Some(ValueLocation::Scalar(b.special(what)));
            }
            Op::ClusterSize => {
                let v = b.i32(i64::from(kernel.cluster));
                self.values[d.results[0]] = Some(ValueLocation::Scalar(v));
            }
            _ => {
                self.publish(b)?;
                self.action(b, i)?;
            }
        }
        Ok(())
    }

    fn action(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        match d.op {
            Op::LocalLoad => self.local_load(b, i)?,
            Op::LocalStore => self.local_store(b, i)?,
            Op::RemoteLoad => self.remote_load(b, i)?,
            Op::RemoteStore | Op::RemoteStoreAsync => self.remote_store(b, i)?,
            Op::BarrierExpect => {
                self.meet(b, false)?;
                let (barrier, guard) = (self.mbarrier(d.args[0])?, self.task()?.first);
                b.unit(Unit::ArriveExpect { barrier, bytes: count(kernel, i, 0), guard });
            }
            Op::BarrierArrive => {
                let guard = self.before_group_arrival(b)?;
                let barrier = self.mbarrier(d.args[0])?;
                b.unit(Unit::Arrive { barrier, guard });
            }
            Op::RemoteArrive => {
                self.before_arrival(b)?;
                let (place, rank, guard) = (self.mbarrier(d.args[0])?, self.scalar(d.args[1])?, self.task()?.first);
                let addr = b.remote(place, rank);
                b.unit(Unit::RemoteArrive { barrier: Place { addr, offset: 0 }, guard });
            }
            Op::BarrierWait => {
                let (barrier, phase) = (self.mbarrier(d.args[0])?, self.scalar(d.args[1])?);
                // Of a number of phases the lowest bit is asked for.
                let parity = if loops::is_bit(kernel, d.args[1]) {
                    phase
                } else {
                    let one = b.i32(1);
                    b.bin(BinOp::And, phase, one)
                };
                b.unit(Unit::Wait { barrier, parity });
                self.task_mut()?.met = false;
            }
            Op::TaskBarrier => self.meet(b, true)?,
            Op::TurnFirst | Op::TurnWait | Op::TurnPass | Op::TurnLast => self.turn(b, i)?,
            Op::NamedBarrierSync | Op::NamedBarrierArrive => {
                let number = count(kernel, i, 0);
                let id = self.task()?.named.iter().position(|&n| n == number).unwrap_or(0) as u32;
                let wait = d.op == Op::NamedBarrierSync;
                b.unit(Unit::NamedBarrier { id, warps: count(kernel, i, 1), wait });
            }
            Op::FenceAsync => {
                if self.task()?.fences_global.contains(&i) {
                    b.unit(Unit::FenceGlobal);
                }
                b.unit(Unit::FenceUnits);
                self.task_mut()?.traces.fenced();
            }
            Op::CopyAsync => self.copy_async(b, i)?,
            Op::GatherAsync => self.gather_async(b, i)?,
            Op::CopyAsyncCommit => self.commit_copies(b, i)?,
            Op::CopyAsyncWait => {
                if !self.target.copy_async.is_empty() {
                    b.wait_copies(count(kernel, i, 0));
                }
                // What a lane has waited for the others see where they meet.
                let t = self.task_mut()?;
                (t.met, t.traces.stored) = (false, true);
            }
            Op::CopyAsyncArrive => {
                self.late_copies(b)?;
                let (barrier, guard) = (self.mbarrier(d.args[0])?, self.task()?.first);
                if !self.target.copy_async.is_empty() {
                    // One lane arrives for all once each has said what it copies.
                    b.unit(Unit::ArriveCopies { barrier });
                    self.task_mut()?.met = false;
                }
                self.before_arrival(b)?;
                b.unit(Unit::Arrive { barrier, guard });
            }
            Op::AsyncLoad => self.async_load(b, i)?,
            Op::AsyncStore | Op::AsyncReduce => self.async_store(b, i)?,
            Op::AsyncStoreWait => {
                let guard = self.task()?.first;
                b.unit(Unit::WaitStoresRead { pending: count(kernel, i, 0), guard });
                self.meet(b, true)?;
            }
            Op::AsyncDot => self.async_dot(b, i)?,
            Op::AsyncDotWait => {
                let pending = self.task()?.commits.left(kernel, i);
                b.wait_matrices(pending);
                self.values[d.results[0]] = self.values[d.args[0]].clone();
                let t = self.task_mut()?;
                // A group multiplies together: what one of its warps knows to be over is over for all of the group. It says nothing of other groups,
                // nor of what lanes have read.
                t.met = (t.groups == 1 || t.apart) && !t.traces.looked;
            }
            Op::SchedBarrier => b.unit(Unit::Hold),
            Op::ClusterBarrier => {
                self.meet(b, false)?;
                b.unit(Unit::ClusterArrive { relaxed: false });
                b.unit(Unit::ClusterWait);
            }
            Op::ClusterArrive => b.unit(Unit::ClusterArrive { relaxed: false }),
            Op::ClusterWait => b.unit(Unit::ClusterWait),
            op => return Err(Unsupported::Op(op).into()),
        }
        Ok(())
    }

    /// What a read of a part of a buffer leaves behind: where units use it, one may write next what lanes have read.
    fn reads_of(&self, v: Value) -> Reads {
        let Some((t, h)) = self.task.as_ref().zip(handle(self.kernel, v)) else { return Reads::None };
        let alloc = allocation(self.kernel, h.root);
        let by_units = t.plan.buffers.contains_key(&h.root) && t.for_units.contains(&alloc);
        match by_units {
            true if t.fenced_fills.contains(&alloc) => Reads::Fenced,
            true => Reads::Open,
            false => Reads::None,
        }
    }

    /// One lane is about to arrive for the task.
    fn before_arrival(&mut self, b: &mut LaneBuilder) -> Result<(), LowerError> {
        let reads = self.task()?.traces.reads;
        if reads == Reads::Open {
            b.unit(Unit::FenceUnits);
            self.task_mut()?.traces.fenced();
        }
        self.meet(b, reads != Reads::None)
    }

    /// Lanes are about to arrive, one for the task or one for each of its groups; gives which.
    fn before_group_arrival(&mut self, b: &mut LaneBuilder) -> Result<Option<LVal>, LowerError> {
        let (reads, group) = (self.task()?.traces.reads, self.target.units.as_ref().map(|u| u.group_warps));
        let (Some(each), Some(warps)) = (self.task()?.arrives, group) else {
            self.before_arrival(b)?;
            return Ok(self.task()?.first);
        };
        if reads == Reads::Open {
            b.unit(Unit::FenceUnits);
            self.task_mut()?.traces.fenced();
        }
        // All of the task have not met then.
        let t = self.task()?;
        if reads != Reads::None || !t.met || t.traces.stored {
            b.unit(Unit::GroupBarrier { warps });
        }
        Ok(Some(each))
    }

    fn mbarriers_of(&self, v: Value) -> Result<Mbarriers, LowerError> {
        match &self.values[v] {
            Some(ValueLocation::Mbarriers(w)) => Ok(*w),
            _ => Err(Unsupported::Location(v, Location::Barrier).into()),
        }
    }

    fn mbarrier(&self, v: Value) -> Result<Place, LowerError> {
        Ok(Place { addr: self.mbarriers_of(v)?.at, offset: 0 })
    }

    fn barrier_alloc(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let Type::Barrier(n) = *self.kernel.ty(d.results[0]) else { return Ok(()) };
        let alloc = b.alloc_aligned(8 * n, 8, "mbarriers");
        b.set_name(alloc, self.called(i));
        b.touch(alloc);
        let at = b.shared_addr(alloc);
        let guard = self.task()?.first;
        let count = self.task()?.groupwise.arrivals.get(&i).copied().unwrap_or_else(|| count(self.kernel, i, 0));
        for number in 0..n {
            let barrier = Place { addr: at, offset: 8 * number as i32 };
            b.unit(Unit::InitBarrier { barrier, count, guard });
        }
        self.values[d.results[0]] = Some(ValueLocation::Mbarriers(Mbarriers { at }));
        let t = self.task_mut()?;
        t.mbarriers.push(alloc);
        t.unpublished = true;
        Ok(())
    }
}

/// Buffers that units fill, each time, behind a wait and a fence of who has them filled: what was read before the wait comes before the copy.
fn fenced_fills(kernel: &tilelift_ir::Kernel) -> BTreeSet<Inst> {
    let (mut fenced, mut open) = (BTreeSet::new(), BTreeSet::new());
    for (_, region) in kernel.regions.iter() {
        let mut behind_fence = false;
        for &i in &region.insts {
            let d = &kernel.insts[i];
            match d.op {
                Op::FenceAsync => behind_fence = true,
                // What others have read before a later wait no earlier fence orders.
                Op::BarrierWait => behind_fence = false,
                _ if !d.regions.is_empty() => behind_fence = false,
                Op::AsyncLoad | Op::AsyncReduce => {
                    let buffers = d.args.iter().filter_map(|&v| handle(kernel, v)).map(|h| allocation(kernel, h.root));
                    if behind_fence { fenced.extend(buffers) } else { open.extend(buffers) }
                }
                _ => {}
            }
        }
    }
    fenced.retain(|i| !open.contains(i));
    fenced
}

/// True in the first lane of each warpgroup.
fn elected(b: &mut LaneBuilder, group: u32) -> LVal {
    let (lane, warp) = (b.special(Special::Lane), b.special(Special::Warp));
    let mask = b.i32(i64::from(group - 1));
    let within = b.bin(BinOp::And, warp, mask);
    let both = b.bin(BinOp::Or, lane, within);
    let zero = b.i32(0);
    b.cmp(CmpOp::Eq, both, zero)
}

/// True in the first lane of the program or role.
fn first_lane(b: &mut LaneBuilder) -> LVal {
    let (lane, warp) = (b.special(Special::Lane), b.special(Special::Warp));
    let both = b.bin(BinOp::Or, lane, warp);
    let zero = b.i32(0);
    b.cmp(CmpOp::Eq, both, zero)
}
