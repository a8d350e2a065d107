//! Specialised kernels: a producer that copies, consumers that compute, a ring of slots between them.
//!
//! ```text
//! slot s of D:  full[s]   one arrival and the bytes of all boxes a phase     empty[s]   an arrival of every consumer group a phase
//!
//! producer, per iteration n (slot n mod D, lap n div D)        consumers, per iteration n
//!   wait empty[s], parity of the lap before                      wait full[s], parity of the lap
//!   arrive full[s], expecting the bytes                          multiply, commit
//!   bulk loads of all operands, arriving at full[s]              wait until one group of multiplications is in flight
//!                                                                arrive at empty of the slot before
//! ```
//!
//! Operands A that go through registers are fetched behind the wait for their slot: all lanes fence what they read against the units and meet, so that one of
//! them may give the slot back, and their multiplications end in the iteration that began them.
//!
//! Slot and parity are carried through every loop, so that they go on from one grid position to the next. Both roles compute bounds
//! and addresses for themselves, from the same tile instructions.

use super::sizes::RingBytes;
use super::warpgroup::{SourceA, Sum};
use super::{Lower, ValueLocation};
use crate::hash::Map;
use crate::lane::{AllocId, BinOp, LTy, LVal, LaneBuilder, Param, ParamSource, Place, RoleSpec, Special, Unit};
use std::rc::Rc;
use tilelift_ir::{CmpOp, Effects, GridAxis, Inst, Op, Region, Type, Value};
use tilelift_schedule::LowerError;
use tilelift_schedule::channel::Channel;
use tilelift_schedule::plan::{ALIGN, Specialised, is_view, is_zero};
use tilelift_schedule::reason::{Missing, Unsupported};

/// What lowering a role needs to know.
pub(super) struct RoleState {
    pub plan: Rc<Specialised>,
    /// A ring of slots per load.
    pub rings: Vec<AllocId>,
    /// Staging per set and store through shared memory.
    pub staging: Vec<Vec<AllocId>>,
    /// The set that is being lowered.
    pub set: usize,
    /// Whose turn it is: this set's word, the other's, and the parity to wait for.
    turns: Option<([Place; 2], LVal)>,
    /// Grid positions of the other set are passed over.
    passing: bool,
    /// Launch parameters that describe the views of loads, and of stores.
    pub load_maps: Vec<u32>,
    pub store_maps: Vec<u32>,
    barriers: AllocId,
    channel: Channel,
    /// The slot to use next, and its lap's parity.
    pub ring: [LVal; 2],
    /// True in one lane of each group; of the consumers only.
    pub elected: Option<LVal>,
    /// The position on the launch grid, and its extents, where they are not the machine's.
    position: Option<[LVal; 3]>,
    /// The slot that is being read, and whether this is no first step.
    pub reading: Option<[LVal; 2]>,
    /// Operands A that were fetched from it, by their dot.
    pub fetched: Map<Inst, Rc<SourceA>>,
}

const AXES: [GridAxis; 3] = [GridAxis::X, GridAxis::Y, GridAxis::Z];

impl Lower<'_> {
    pub(super) fn role_state(&self) -> Result<&RoleState, LowerError> {
        self.role.as_ref().ok_or_else(|| Missing::Role.into())
    }

    pub(super) fn role_mut(&mut self) -> Result<&mut RoleState, LowerError> {
        self.role.as_mut().ok_or_else(|| Missing::Role.into())
    }

    /// True for what the ring makes of no concern to the consumers: loads into it, and other views of what is there.
    pub(super) fn in_ring(&self, i: Inst) -> bool {
        let Some(role) = &self.role else { return false };
        let d = &self.kernel.insts[i];
        match d.op {
            Op::Load => role.plan.loads.iter().any(|l| l.0 == i),
            Op::Transpose | Op::Reshape => self.kernel.def_inst(d.args[0]).is_some_and(|j| self.in_ring(j)),
            _ => is_view(self.kernel, i) && self.kernel.def_inst(d.args[0]).is_some_and(|j| self.in_ring(j)),
        }
    }

    /// Lowers the whole kernel.
    pub(super) fn specialised(&mut self, b: &mut LaneBuilder, plan: &Rc<Specialised>) -> Result<(), LowerError> {
        let Some(units) = &self.target.units else {
            return Err(Missing::Units.into());
        };
        let group = units.group_warps;
        let boxes =
            |cx: &Self, list: &[(Inst, tilelift_schedule::plan::SwizzledTile)], rows: Option<u32>, b: &mut LaneBuilder| -> Vec<u32> {
                list.iter()
                    .map(|(i, t)| {
                        let mut spec = t.tensor_box(cx.param_number(cx.kernel.insts[*i].args[0]));
                        if let Some(rows) = rows {
                            spec.extents[1] = rows;
                        }
                        b.tensor_param(Param { ty: LTy::I64, source: ParamSource::Tensor(spec) })
                    })
                    .collect()
            };
        let rows = plan.dots.first().map_or(0, |&(_, q)| units.matrix[q.as_u32() as usize].m);
        let load_maps = boxes(self, &plan.loads, None, b);
        let store_maps = boxes(self, &plan.stores, Some(rows), b);
        let channel = Channel::new(plan.depth, plan.consumers, plan.stage_bytes, plan.in_flight);
        channel.check().map_err(Unsupported::Ring)?;
        let bytes = RingBytes::of(plan, &channel);
        let rings: Vec<AllocId> = bytes.loads.iter().map(|&n| b.alloc_aligned(n, ALIGN, "ring of operands")).collect();
        let own = |b: &mut LaneBuilder| bytes.stores.iter().map(|&n| b.alloc_aligned(n, ALIGN, "results")).collect();
        let staging: Vec<Vec<AllocId>> = (0..plan.consumer_sets).map(|_| own(b)).collect();
        // A word per set says that it may multiply, if there are two.
        let turns = bytes.turns;
        let barriers = b.alloc_aligned(bytes.barriers, 8, "mbarriers");

        let lane = b.special(Special::Lane);
        let warp = b.special(Special::Warp);
        let zero = b.i32(0);
        let both = b.bin(BinOp::Or, lane, warp);
        let first = Some(b.cmp(CmpOp::Eq, both, zero));
        let base = b.shared_addr(barriers);
        for &map in load_maps.iter().chain(&store_maps) {
            b.unit(Unit::PrefetchMap { map, guard: first });
        }
        for (offset, count) in channel.words().chain(turns.iter().map(|&t| (t, 1))) {
            b.unit(Unit::InitBarrier { barrier: Place { addr: base, offset }, count, guard: first });
        }
        b.unit(Unit::PublishBarriers);
        b.barrier();
        rings.iter().chain(staging.iter().flatten()).chain([&barriers]).for_each(|&a| b.touch(a));

        let state = RoleState {
            plan: plan.clone(),
            rings,
            staging,
            set: 0,
            turns: None,
            passing: false,
            load_maps,
            store_maps,
            barriers,
            channel,
            ring: [zero, zero],
            elected: None,
            position: None,
            reading: None,
            fetched: Map::default(),
        };
        self.role = Some(state);
        let registers = |k: usize| plan.registers.map(|r| r[k]);
        let producer = RoleSpec { name: "producer", warps: (0, group), idle: 0, single: true, registers: registers(0) };
        let kernel = self.kernel;
        let before = self.values.clone();
        let producer = b.role(self, producer, |cx, b| {
            cx.each_position(b, |cx, b| {
                cx.produce(b, kernel.body)?;
                Ok(())
            })
        })?;
        let mut roles = vec![producer];
        for set in 0..plan.consumer_sets {
            self.values = before.clone();
            self.variants.clear();
            let name = if plan.consumer_sets == 1 { "consumers" } else { ["first set", "second set"][set as usize & 1] };
            let first = group * (1 + set * plan.consumers);
            let spec = RoleSpec { name, warps: (first, group * plan.consumers), idle: 0, single: false, registers: registers(1) };
            roles.push(b.role(self, spec, |cx, b| {
                let role = cx.role_mut()?;
                (role.elected, role.set) = (Some(elected(b, group)), set as usize);
                if plan.consumer_sets == 1 {
                    cx.each_position(b, |cx, b| cx.region(b, kernel.body))?;
                } else {
                    cx.every_other_position(b, [turns[set as usize], turns[1 - set as usize]])?;
                }
                let guard = cx.role_state()?.elected;
                if !cx.role_state()?.plan.stores.is_empty() {
                    b.unit(Unit::WaitStoresRead { pending: 0, guard });
                }
                Ok::<_, LowerError>(())
            })?);
        }
        b.roles(roles);
        self.role = None;
        Ok(())
    }

    /// Runs a body for every grid position of the instance: one, or every so many-th.
    fn each_position(
        &mut self,
        b: &mut LaneBuilder,
        body: impl FnOnce(&mut Self, &mut LaneBuilder) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        let zero = b.i32(0);
        self.role_mut()?.ring = [zero, zero];
        if !self.role_state()?.plan.persistent {
            return body(self, b);
        }
        self.positions(b, &[], |cx, b, _| {
            body(cx, b)?;
            Ok(Vec::new())
        })
    }

    /// Goes through the grid positions of the instance. The ring is carried from one to the next, and `more` beside it.
    fn positions(
        &mut self,
        b: &mut LaneBuilder,
        more: &[LVal],
        body: impl FnOnce(&mut Self, &mut LaneBuilder, &[LVal]) -> Result<Vec<LVal>, LowerError>,
    ) -> Result<(), LowerError> {
        let zero = b.i32(0);
        let start: Vec<LVal> = [zero, zero].iter().chain(more).copied().collect();
        let grid = AXES.map(|a| b.param(Param { ty: LTy::I32, source: ParamSource::Grid(a) }));
        let plane = b.mul(grid[0], grid[1]);
        let all = b.mul(plane, grid[2]);
        let bounds = [b.special(Special::Worker), all, b.special(Special::Workers)];
        b.for_loop(self, bounds, &start, |cx, b, at, state| {
            let x = b.bin(BinOp::RemU, at, grid[0]);
            let row = b.bin(BinOp::DivU, at, grid[0]);
            let y = b.bin(BinOp::RemU, row, grid[1]);
            let z = b.bin(BinOp::DivU, row, grid[1]);
            let role = cx.role_mut()?;
            (role.position, role.ring) = (Some([x, y, z]), [state[0], state[1]]);
            let next = body(cx, b, &state[2..])?;
            Ok::<_, LowerError>(cx.role_state()?.ring.into_iter().chain(next).collect())
        })?;
        Ok(())
    }

    /// Runs the kernel for every other grid position of the instance, beginning with the first or the second one, and passes over the
    /// rest. `words` say that it is this set's turn to multiply, and the other's.
    fn every_other_position(&mut self, b: &mut LaneBuilder, words: [i32; 2]) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let (zero, one) = (b.i32(0), b.i32(1));
        let set = b.i32(self.role_state()?.set as i64);
        let base = b.shared_addr(self.role_state()?.barriers);
        let words = words.map(|offset| Place { addr: base, offset });
        // The first turn needs no word: a fresh one is past the phase of parity 1.
        let fresh = b.bin(BinOp::Xor, set, one);
        self.positions(b, &[zero, fresh], |cx, b, state| {
            let [whose, parity] = [state[0], state[1]];
            let ring = cx.role_state()?.ring;
            let mine = b.cmp(CmpOp::Eq, whose, set);
            let outer = cx.values.clone();
            let run = |cx: &mut Self, b: &mut LaneBuilder| {
                cx.role_mut()?.turns = Some((words, parity));
                cx.region(b, kernel.body)?;
                let next = b.bin(BinOp::Xor, parity, one);
                let [slot, lap] = cx.role_state()?.ring;
                Ok::<_, LowerError>(vec![slot, lap, next])
            };
            let pass = |cx: &mut Self, b: &mut LaneBuilder| {
                cx.values = outer.clone();
                cx.variants.clear();
                let role = cx.role_mut()?;
                (role.ring, role.passing) = (ring, true);
                cx.produce(b, kernel.body)?;
                let role = cx.role_mut()?;
                role.passing = false;
                Ok::<_, LowerError>(vec![role.ring[0], role.ring[1], parity])
            };
            let ends = b.if_else(cx, mine, run, pass)?;
            cx.values = outer.clone();
            cx.variants.clear();
            cx.role_mut()?.ring = [ends[0], ends[1]];
            Ok(vec![b.bin(BinOp::Xor, whose, one), ends[2]])
        })?;
        self.role_mut()?.turns = None;
        Ok(())
    }

    /// Tells the other set that it may multiply, if there is one.
    fn hand_over(&mut self, b: &mut LaneBuilder) -> Result<(), LowerError> {
        let role = self.role_state()?;
        if let Some(([_, other], _)) = role.turns {
            // Fewer than two steps have not kept the warps together: one that has not seen its turn yet could miss it.
            b.unit(Unit::GroupBarrier { warps: self.target.units.as_ref().map_or(1, |u| u.group_warps) });
            b.unit(Unit::Arrive { barrier: other, guard: role.elected });
        }
        Ok(())
    }

    /// Grid position and extents in a role, where they are not the machine's.
    pub(super) fn grid_leaf(&self, b: &mut LaneBuilder, what: Special) -> Option<LVal> {
        let position = self.role.as_ref()?.position?;
        let number = |a: GridAxis| AXES.iter().position(|&x| x == a).unwrap_or(0);
        match what {
            Special::ProgramId(a) => Some(position[number(a)]),
            Special::NumPrograms(a) => Some(b.param(Param { ty: LTy::I32, source: ParamSource::Grid(a) })),
            Special::Lane | Special::Warp | Special::Worker | Special::Workers | Special::ClusterRank => None,
        }
    }

    /// The next slot of the ring, and its lap's parity.
    pub(super) fn turn(&self, b: &mut LaneBuilder, [slot, parity]: [LVal; 2]) -> Result<[LVal; 2], LowerError> {
        let depth = self.role_state()?.channel.depth;
        let (zero, one, last) = (b.i32(0), b.i32(1), b.i32(i64::from(depth - 1)));
        let next = b.add(slot, one);
        let wraps = b.cmp(CmpOp::Eq, slot, last);
        let other = b.bin(BinOp::Xor, parity, one);
        Ok([b.select(wraps, zero, next), b.select(wraps, other, parity)])
    }

    /// The mbarriers of a slot: full and empty.
    pub(super) fn words(&self, b: &mut LaneBuilder, slot: LVal) -> Result<[Place; 2], LowerError> {
        let role = self.role_state()?;
        let base = b.shared_addr(role.barriers);
        let eight = b.i32(8);
        let at = b.mul(slot, eight);
        let addr = b.add(base, at);
        Ok([Place { addr, offset: role.channel.full(0) }, Place { addr, offset: role.channel.empty(0) }])
    }

    // The producer.

    /// The scalars of a region as far as they follow from what is known, and the copies of the main loop.
    fn produce(&mut self, b: &mut LaneBuilder, r: Region) -> Result<(), LowerError> {
        let main = self.role_state()?.plan.main;
        let kernel = self.kernel;
        for &i in &kernel.regions[r].insts {
            if i == main {
                self.produce_loop(b, i).map_err(|e| e.at(kernel.locs[i]))?;
                continue;
            }
            let d = &kernel.insts[i];
            let scalar = |v: &Value| matches!(kernel.ty(*v), Type::Scalar(_));
            let known = |v: &Value| matches!(kernel.ty(*v), Type::View(_)) || matches!(self.values[*v], Some(ValueLocation::Scalar(_)));
            let pure = d.op.info().effects == Effects::Pure && d.regions.is_empty() && !d.results.is_empty();
            if pure && d.results.iter().all(scalar) && d.args.iter().all(known) {
                self.inst(b, i).map_err(|e| e.at(kernel.locs[i]))?;
            }
        }
        Ok(())
    }

    fn produce_loop(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let bounds = [self.scalar(d.args[0])?, self.scalar(d.args[1])?, self.scalar(d.args[2])?];
        let region = d.regions[0];
        let index = self.kernel.regions[region].params[0];
        let start = self.role_state()?.ring;
        let end = b.for_loop(self, bounds, &start, |cx, b, iv, ring| {
            cx.values[index] = Some(ValueLocation::Scalar(iv));
            if !cx.role_state()?.passing {
                cx.produce(b, region)?;
            }
            let [slot, parity] = [ring[0], ring[1]];
            let [full, empty] = cx.words(b, slot)?;
            if cx.role_state()?.passing {
                b.unit(Unit::Pass { barrier: full });
                return cx.turn(b, [slot, parity]).map(|r| r.to_vec());
            }
            let one = b.i32(1);
            let before = b.bin(BinOp::Xor, parity, one);
            b.unit(Unit::Wait { barrier: empty, parity: before });
            b.unit(Unit::ArriveExpect { barrier: full, bytes: cx.slot_bytes()?, guard: None });
            let plan = cx.role_state()?.plan.clone();
            for (k, (load, tile)) in plan.loads.iter().enumerate() {
                let view = cx.kernel.insts[*load].args[0];
                let indices = cx.index_values(cx.kernel.operand(*load, "indices"))?;
                let indices = cx.bulk_indices(b, view, tile.slowest(), indices);
                let role = cx.role_state()?;
                let (map, ring) = (role.load_maps[k], role.rings[k]);
                let to = super::stage::slot_base(b, ring, slot, tile.bytes().next_multiple_of(ALIGN));
                for p in 0..tile.panels() {
                    let at = tile.panel_at(b, &indices, p);
                    let to = Place { addr: to, offset: (p * tile.panel_bytes()) as i32 };
                    b.unit(Unit::BulkLoad { map, to, at, barrier: full, ranks: None, guard: None });
                }
            }
            cx.turn(b, [slot, parity]).map(|r| r.to_vec())
        })?;
        self.role_mut()?.ring = [end[0], end[1]];
        Ok(())
    }

    /// Bytes that arrive in a slot.
    fn slot_bytes(&self) -> Result<u32, LowerError> {
        Ok(self.role_state()?.plan.loads.iter().map(|(_, t)| t.bytes()).sum())
    }

    // The consumers.

    /// The main loop: multiplications of what arrives.
    pub(super) fn consume_loop(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let plan = &self.role_state()?.plan;
        if plan.mixed {
            return match plan.overlap.clone() {
                Some(parts) => self.consume_overlapped(b, i, &parts),
                None => self.consume_mixed(b, i),
            };
        }
        let d = &self.kernel.insts[i];
        let bounds = [self.scalar(d.args[0])?, self.scalar(d.args[1])?, self.scalar(d.args[2])?];
        let mut sums = Vec::new();
        for &v in &d.args[3..] {
            let layout = self.layout_of(v)?;
            let count = layout.size(tilelift_ir::layout::Axis::Reg) as usize;
            // Sums that begin at zero are not looked at by the first multiplication.
            let zero = is_zero(self.kernel, v);
            let regs = self.tile(b, v, &layout)?.regs.clone();
            sums.push(Sum { layout, count, zero, regs });
        }
        let start = self.role_state()?.ring;
        if let Some(([own, _], parity)) = self.role_state()?.turns {
            b.unit(Unit::Wait { barrier: own, parity });
        }
        let some = b.cmp(CmpOp::Lt, bounds[0], bounds[1]);
        let run = |cx: &mut Self, b: &mut LaneBuilder| cx.multiply_all(b, i, bounds, &sums);
        let none = |cx: &mut Self, b: &mut LaneBuilder| {
            cx.hand_over(b)?;
            Ok(sums.iter().flat_map(|s| s.regs.iter().copied()).chain(start).collect())
        };
        let ends = match b.as_const(some) {
            Some(0) => none(self, b)?,
            Some(_) => run(self, b)?,
            None => b.if_else(self, some, run, none)?,
        };
        let (regs, ring) = ends.split_at(ends.len() - 2);
        self.role_mut()?.ring = [ring[0], ring[1]];
        self.bind_sums(&d.results, &sums, regs);
        Ok(())
    }

    /// A main loop that does more than multiply: any other loop, but that it waits for its slot and gives it back.
    fn consume_mixed(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let bounds = [self.scalar(d.args[0])?, self.scalar(d.args[1])?, self.scalar(d.args[2])?];
        let region = d.regions[0];
        let params = &kernel.regions[region].params;
        self.bring_operands_a(b)?;
        let slots = self.slots_of(&params[1..])?;
        let mut init = self.flatten(b, &d.args[3..], &slots)?;
        let held = init.len();
        init.extend_from_slice(&self.role_state()?.ring);
        let results = b.for_loop(self, bounds, &init, |cx, b, iv, lanes| {
            cx.forget_accesses();
            cx.values[params[0]] = Some(ValueLocation::Scalar(iv));
            cx.bind(&params[1..], &slots, &lanes[..held]);
            let [slot, parity] = [lanes[held], lanes[held + 1]];
            let [full, empty] = cx.words(b, slot)?;
            b.unit(Unit::Wait { barrier: full, parity });
            let always = b.constant(LTy::I1, 1);
            cx.role_mut()?.reading = Some([slot, always]);
            cx.region(b, region)?;
            cx.role_mut()?.reading = None;
            let guard = cx.role_state()?.elected;
            b.unit(Unit::Arrive { barrier: empty, guard });
            let mut next = cx.flatten(b, kernel.yields(region), &slots)?;
            next.extend(cx.turn(b, [slot, parity])?);
            Ok::<_, LowerError>(next)
        })?;
        self.forget_accesses();
        self.role_mut()?.ring = [results[held], results[held + 1]];
        self.bind(&d.results, &slots, &results[..held]);
        Ok(())
    }

    /// Brings operands A from in front of the loop into their layout, once.
    pub(super) fn bring_operands_a(&mut self, b: &mut LaneBuilder) -> Result<(), LowerError> {
        for (i, _) in self.role_state()?.plan.dots.clone() {
            let a = self.kernel.insts[i].args[0];
            if let (Some(ValueLocation::Tile(_)), Some(dot)) = (&self.values[a], self.assigned.dots[i].clone()) {
                self.tile(b, a, &dot.a)?;
            }
        }
        Ok(())
    }

    /// Fetches operands A that go through registers from the slot that is being read, in front of the fence of all products.
    fn fetch_operands_a(&mut self, b: &mut LaneBuilder) -> Result<(), LowerError> {
        let plan = self.role_state()?.plan.clone();
        let mut fetched = Map::default();
        for &(i, q) in plan.dots.iter().filter(|d| plan.register_a.contains(&d.0)) {
            if let Some(dot) = self.assigned.dots[i].clone() {
                fetched.insert(i, Rc::new(self.left(b, i, &dot, q)?));
            }
        }
        self.role_mut()?.fetched = fetched;
        Ok(())
    }

    /// The loop itself; returns the sums, slot and parity. There is at least one step.
    fn multiply_all(&mut self, b: &mut LaneBuilder, i: Inst, bounds: [LVal; 3], sums: &[Sum]) -> Result<Vec<LVal>, LowerError> {
        let kernel = self.kernel;
        let region = kernel.insts[i].regions[0];
        let params = &kernel.regions[region].params;
        let role = self.role_state()?;
        let (elected, pending, promoted) = (role.elected, role.plan.in_flight, role.plan.promoted);
        let start = role.ring;
        let mut init: Vec<LVal> = Vec::new();
        for s in sums {
            // What lanes add to must have a value.
            if s.zero && !promoted {
                for &r in &s.regs {
                    let ty = b.ty(r);
                    init.push(b.undefined(ty));
                }
            } else {
                init.extend_from_slice(&s.regs);
            }
        }
        let held = init.len();
        init.extend_from_slice(&[start[0], start[1], start[0]]);
        let results = b.for_loop_that_runs(self, bounds, &init, |cx, b, iv, lanes| {
            cx.values[params[0]] = Some(ValueLocation::Scalar(iv));
            cx.bind_sums(&params[1..], sums, &lanes[..held]);
            let [slot, parity, before] = [lanes[held], lanes[held + 1], lanes[held + 2]];
            let [full, _] = cx.words(b, slot)?;
            b.unit(Unit::Wait { barrier: full, parity });
            let later = b.cmp(CmpOp::Ne, iv, bounds[0]);
            cx.role_mut()?.reading = Some([slot, later]);
            cx.fetch_operands_a(b)?;
            b.unit(Unit::FenceMatrices);
            cx.region(b, region)?;
            b.unit(Unit::CommitMatrices);
            b.unit(Unit::WaitMatrices { pending });
            let mut next = cx.sums_of(kernel.yields(region))?;
            if pending > 0 {
                // All but the newest multiplications are done: the slot before is read.
                let [_, empty] = cx.words(b, before)?;
                let guard = b.and_guard(elected, Some(later));
                b.unit(Unit::Arrive { barrier: empty, guard });
            } else {
                let [_, empty] = cx.words(b, slot)?;
                b.unit(Unit::Arrive { barrier: empty, guard: elected });
                if promoted {
                    for (sum, &old) in next.iter_mut().zip(&lanes[..held]) {
                        *sum = b.add(old, *sum);
                    }
                }
            }
            cx.role_mut()?.reading = None;
            next.extend(cx.turn(b, [slot, parity])?);
            next.push(slot);
            Ok::<_, LowerError>(next)
        })?;
        // All multiplications are issued: the unit takes the other set's next.
        self.hand_over(b)?;
        // Here, not behind the choice around the loop: the assembler gives up on products in flight where branches meet.
        if pending > 0 {
            b.unit(Unit::WaitMatrices { pending: 0 });
            let [_, empty] = self.words(b, results[held + 2])?;
            b.unit(Unit::Arrive { barrier: empty, guard: elected });
        }
        Ok(results[..held + 2].to_vec())
    }
}

/// True in the first lane of every warpgroup.
fn elected(b: &mut LaneBuilder, group: u32) -> LVal {
    let lane = b.special(Special::Lane);
    let warp = b.special(Special::Warp);
    let mask = b.i32(i64::from(group - 1));
    let within = b.bin(BinOp::And, warp, mask);
    let both = b.bin(BinOp::Or, lane, within);
    let zero = b.i32(0);
    b.cmp(CmpOp::Eq, both, zero)
}
