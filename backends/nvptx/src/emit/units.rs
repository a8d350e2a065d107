//! Roles, mbarriers, bulk copies, matrix instructions of warpgroups.
//!
//! ```text
//! roles    warp < end of the first?  ── setmaxnreg ─ (one lane: the first warp's elected one) body ─ to the end
//!          warp < end of the second? ── …
//! barrier  0 holds the whole program; roles and their groups count on from 1, as immediates: an id in a register takes all 16; turns do
//! matrix   the descriptor's low word is address / 16 with the distance of swizzle atoms above, the high word constant
//! ```
//! "Asynchronous warpgroup level matrix instructions", "mbarrier" and "Tensor copy" in the PTX ISA.

use super::state::{Emitter, Replicas, RoleText, Top};
use super::text::{Opnd, Reg};
use crate::analysis::{Address, Base, Renewal};
use crate::class::Class;
use crate::error::{EmitError, Limit, NoText};
use smallvec::SmallVec;
use tilelift_isel::GroupMatrix;
use tilelift_isel::lane::{Block, GroupOperand, Inst, LVal, Multiply, OperandA, Place, Role, Roles, SwizzleAtoms, Unit};

/// Derived registers: the low word of a descriptor; the distance of swizzle atoms is added.
const DESCRIPTOR: u32 = 1 << 16;

/// From so many mbarriers on, those who do not prepare them jump. ptxas computes a predicate and a number for each that is guarded by itself, in all warps:
/// 170 of 1,930 samples of a kernel of 23 us with 36 of them.
const JUMPED: usize = 3;

impl Emitter<'_> {
    /// The warp's number in its role.
    pub(super) fn role_warp(&mut self) -> Opnd {
        let Some(role) = self.role else { return Opnd::Imm(Class::R, 0) };
        match role.warp {
            Some(r) => Opnd::Reg(r),
            None if role.warps == 1 => Opnd::Imm(Class::R, 0),
            None => Opnd::Reg(self.load(Top::UniformWarp)),
        }
    }

    pub(super) fn barrier(&mut self) {
        match self.role {
            None => self.body.op("bar.sync 0").end(),
            Some(role) => match role.replicas {
                None => self.body.op("bar.sync ").n(role.barrier).s(", ").n(role.warps * 32).end(),
                Some(r) => {
                    let each: Vec<[u32; 2]> = (0..r.count).map(|k| [(k + 1) * r.stride, role.barrier + k * r.barriers]).collect();
                    self.barrier_by_warp(Opnd::Reg(r.warp), role.warps, &each);
                }
            },
        }
    }

    /// Meets at one of several barriers of so many warps, by branches over a warp's number: each is for the numbers below an end, with its id.
    fn barrier_by_warp(&mut self, warp: Opnd, warps: u32, each: &[[u32; 2]]) {
        let end = self.label();
        for (n, &[below, id]) in each.iter().enumerate() {
            let (next, last) = (self.label(), n + 1 == each.len());
            if !last {
                let p = self.fresh(Class::P);
                self.body.op("setp.ge.u32 ").r(p).s(", ").o(warp).s(", ").n(below).end();
                self.branch_if(p, true, next);
            }
            self.body.op("bar.sync ").n(id).s(", ").n(warps * 32).end();
            if !last {
                self.branch(end);
                self.place(next);
            }
        }
        self.place(end);
    }

    /// A warp's number from the first one of a role on, unless that is 0.
    fn warp_from(&mut self, warp: Reg, first: u32) -> Option<Reg> {
        let number = (first > 0).then(|| self.fresh(Class::R))?;
        self.body.op("add.s32 ").r(number).then(warp).s(", ").n(-i64::from(first)).end();
        Some(number)
    }

    /// A warp's number in its replica, and which that is, of its number among the warps of all.
    fn replica(&mut self, warp: Reg, r: &Role) -> (Reg, Replicas) {
        let (own, inside) = (self.fresh(Class::R), self.fresh(Class::R));
        let stride = r.stride();
        self.body.op("div.u32 ").r(own).then(warp).s(", ").n(stride).end();
        self.body.op("rem.u32 ").r(inside).then(warp).s(", ").n(stride).end();
        (inside, Replicas { count: r.replicas, stride, barriers: barriers(r), own, warp })
    }

    /// Lanes of a cluster meet before they exit: until then others may reach into their shared memory.
    pub(super) fn meet_at_the_end(&mut self) {
        if self.program.cluster > 1 {
            // Lanes of a warp may come one after the other. A release would wait for all that was stored, to global memory, too: only
            // accesses of this program to others' memory need that, and not those that an mbarrier counts.
            let order = if self.reaches { "release" } else { "relaxed" };
            self.body.op("barrier.cluster.arrive.").s(order).end();
            self.body.op("barrier.cluster.wait.acquire").end();
        }
    }

    pub(super) fn roles(&mut self, roles: &Roles) -> Result<(), EmitError> {
        self.named = 1 + roles.roles.iter().map(|r| r.replicas * barriers(r)).sum::<u32>();
        let warp = self.load(Top::UniformWarp);
        let end = self.label();
        let (mut barrier, mut covered) = (1, 0);
        for r in &roles.roles {
            // Warps between two roles have nothing to do.
            if r.first > covered {
                let p = self.fresh(Class::P);
                self.body.op("setp.lt.u32 ").r(p).then(warp).s(", ").n(r.first).end();
                self.branch_if(p, true, end);
            }
            covered = r.end();
            let group = self.target.units.as_ref().map_or(1, |u| u.group_warps);
            let alone = r.first.is_multiple_of(group) && (covered - r.first).is_multiple_of(group);
            if let Some(n) = r.registers.filter(|_| !alone && r.first.is_multiple_of(group)) {
                // Roles that share a group change by one instruction, in front of the first of them.
                let (p, skip) = (self.fresh(Class::P), self.label());
                self.body.op("setp.ge.u32 ").r(p).then(warp).s(", ").n(covered.next_multiple_of(group)).end();
                self.branch_if(p, true, skip);
                self.change_registers(n);
                self.place(skip);
            }
            let next = self.label();
            let p = self.fresh(Class::P);
            self.body.op("setp.ge.u32 ").r(p).then(warp).s(", ").n(covered).end();
            self.branch_if(p, true, next);
            if let Some(n) = r.registers.filter(|_| alone) {
                self.change_registers(n);
            }
            let (mut number, mut replicas) = (None, None);
            if r.replicas > 1 {
                let among = self.warp_from(warp, r.first);
                let (inside, which) = self.replica(among.unwrap_or(warp), r);
                (number, replicas) = (Some(inside), Some(which));
            }
            // The first warp of the role, as the number that is looked at counts.
            let (look, first) = number.map_or((warp, r.first), |inside| (inside, 0));
            if r.idle > 0 && !r.single {
                let p = self.fresh(Class::P);
                self.body.op("setp.ge.u32 ").r(p).then(look).s(", ").n(first + r.warps).end();
                self.branch_if(p, true, end);
            }
            if replicas.is_none() {
                number = self.warp_from(warp, r.first);
            }
            if r.single {
                let p = self.fresh(Class::P);
                self.body.op("setp.ne.u32 ").r(p).then(look).s(", ").n(first).end();
                self.branch_if(p, true, end);
                // The elected lane is the one that the assembler knows to be alone.
                let elected = self.fresh(Class::P);
                self.body.op("elect.sync _|").r(elected).s(", 0xFFFFFFFF").end();
                self.body.s("\t@!").r(elected).s(" bra $L").n(end).end();
            }
            self.multiplies = false;
            self.role = Some(RoleText {
                warps: if r.single { 1 } else { r.warps },
                single: r.single,
                warp: number,
                barrier,
                replicas,
                turns: None,
            });
            let turns = self.turns_of(&r.body, end)?;
            self.role = self.role.map(|role| RoleText { turns, ..role });
            barrier += r.replicas * barriers(r);
            if barrier > 16 {
                return Err(EmitError::TooLarge { what: Limit::RoleBarriers, need: barrier.into(), have: 16, target: self.target.name });
            }
            self.block(&r.body)?;
            self.role = None;
            self.branch(end);
            self.place(next);
        }
        self.place(end);
        Ok(())
    }

    /// Changes the registers of a warpgroup.
    fn change_registers(&mut self, n: u32) {
        let way = if n >= self.entry { "inc" } else { "dec" };
        self.body.op("setmaxnreg.").s(way).s(".sync.aligned.u32 ").n(n).end();
    }

    /// Prints the mbarriers that one lane prepares from an instruction on as a block that all others jump over, if there are enough of them; where it ends.
    pub(super) fn prepare(&mut self, block: &Block, at: usize) -> Result<usize, EmitError> {
        let guard_of = |inst: &Inst| match inst {
            Inst::Unit(u) => match **u {
                Unit::InitBarrier { guard, .. } => guard,
                _ => None,
            },
            _ => None,
        };
        let Some(guard) = block.get(at).and_then(guard_of) else { return Ok(at) };
        let silent = |inst: &Inst| matches!(inst, Inst::Const { .. } | Inst::SharedAddr { .. });
        let run = block[at..].iter().take_while(|i| guard_of(i) == Some(guard) || silent(i)).count();
        let all = &block[at..at + run];
        if all.iter().filter(|i| guard_of(i).is_some()).count() < JUMPED {
            return Ok(at);
        }
        let super::memory::Guard::If(p) = self.guard(Some(guard)) else { return Ok(at) };
        let end = self.label();
        self.body.s("\t@!").r(p).s(" bra $L").n(end).end();
        for inst in all {
            if let Inst::Unit(u) = inst
                && let Unit::InitBarrier { barrier, count, .. } = **u
            {
                self.unit(&Unit::InitBarrier { barrier, count, guard: None })?;
            }
        }
        self.place(end);
        Ok(at + run)
    }

    /// Prints a place as `[base+offset]`.
    fn at(&mut self, p: &Place) {
        self.address(p.addr, p.offset);
    }

    /// The guard in front of an instruction; `None` if it never holds.
    pub(super) fn start(&mut self, guard: Option<LVal>, op: &str) -> bool {
        use super::memory::Guard;
        match self.guard(guard) {
            Guard::Never => false,
            Guard::Always => {
                self.body.op(op);
                true
            }
            Guard::If(p) => {
                self.body.guarded(Some(p), op);
                true
            }
        }
    }

    /// Prints `[tensor, {coordinates}]`.
    fn tensor(&mut self, map: u32, at: &[LVal]) {
        let tensor = self.load(Top::Tensor(map));
        let at: SmallVec<[Opnd; 5]> = at.iter().map(|&v| self.operand(v)).collect();
        self.body.s("[").r(tensor).s(", {");
        for (i, &o) in at.iter().enumerate() {
            self.body.s(if i > 0 { ", " } else { "" }).o(o);
        }
        self.body.s("}]");
    }

    pub(super) fn unit(&mut self, u: &Unit) -> Result<(), EmitError> {
        match u {
            Unit::InitBarrier { barrier, count, guard } => {
                if self.start(*guard, "mbarrier.init.shared::cta.b64 ") {
                    self.at(barrier);
                    self.body.s(", ").n(*count).end();
                }
            }
            Unit::PublishBarriers => self.body.op("fence.mbarrier_init.release.cluster").end(),
            Unit::AwaitPrevious => self.body.op("griddepcontrol.wait").end(),
            Unit::Arrive { barrier, guard } => {
                if self.start(*guard, "mbarrier.arrive.shared::cta.b64 _, ") {
                    self.at(barrier);
                    self.body.end();
                }
            }
            Unit::ArriveExpect { barrier, bytes, guard } => {
                if self.start(*guard, "mbarrier.arrive.expect_tx.shared::cta.b64 _, ") {
                    self.at(barrier);
                    self.body.s(", ").n(*bytes).end();
                }
            }
            Unit::ArriveCopies { barrier } => {
                self.body.op("cp.async.mbarrier.arrive.shared::cta.b64 ");
                self.at(barrier);
                self.body.end();
            }
            Unit::Wait { barrier, parity } => {
                let parity = self.operand(*parity);
                let (p, again) = (self.fresh(Class::P), self.label());
                self.place(again);
                // Where lanes of other blocks arrive, what they wrote before is to be seen.
                let scope = if self.handed_over { "acquire.cluster." } else { "" };
                self.body.op("mbarrier.try_wait.parity.").s(scope).s("shared::cta.b64 ").r(p).s(", ");
                self.at(barrier);
                self.body.s(", ").o(parity).end();
                self.body.s("\t@!").r(p).s(" bra $L").n(again).end();
            }
            Unit::PrefetchMap { map, guard } => {
                let tensor = self.load(Top::Tensor(*map));
                if self.start(*guard, "prefetch.tensormap [") {
                    self.body.r(tensor).s("]").end();
                }
            }
            Unit::BulkLoad { map, to, at, barrier, ranks, guard } => {
                let mask = ranks.map(|r| {
                    let (r, h) = (self.operand(r), self.fresh(Class::H));
                    self.body.op("cvt.u16.u32 ").r(h).s(", ").o(r).end();
                    h
                });
                if self.start(*guard, "cp.async.bulk.tensor.") {
                    self.body.n(at.len() as i64).s("d.shared::cluster.global.tile.mbarrier::complete_tx::bytes");
                    self.body.s(if mask.is_some() { ".multicast::cluster " } else { " " });
                    self.at(to);
                    self.body.s(", ");
                    self.tensor(*map, at);
                    self.body.s(", ");
                    self.at(barrier);
                    if let Some(mask) = mask {
                        self.body.then(mask);
                    }
                    self.body.end();
                }
            }
            Unit::BulkStore { map, from, at, reduce, guard } => {
                let op = if reduce.is_some() { "cp.reduce.async.bulk.tensor." } else { "cp.async.bulk.tensor." };
                if self.start(*guard, op) {
                    self.body.n(at.len() as i64).s("d.global.shared::cta");
                    if let Some(r) = reduce {
                        self.body.s(".").s(&r.to_string());
                    }
                    self.body.s(".tile.bulk_group ");
                    self.tensor(*map, at);
                    self.body.s(", ");
                    self.at(from);
                    self.body.end();
                }
            }
            Unit::CommitStores { guard } => {
                if self.start(*guard, "cp.async.bulk.commit_group") {
                    self.body.end();
                }
            }
            Unit::WaitStoresRead { pending, guard } => {
                if self.start(*guard, "cp.async.bulk.wait_group.read ") {
                    self.body.n(*pending).end();
                }
            }
            Unit::FenceUnits => self.body.op("fence.proxy.async.shared::cta").end(),
            Unit::FenceGlobal => self.body.op("fence.proxy.async.global").end(),
            Unit::GroupBarrier { warps } => self.group_barrier(*warps),
            Unit::StoreMatrix { srcs, to } => {
                let srcs: SmallVec<[Reg; 16]> = srcs.iter().map(|&v| self.reg(v)).collect();
                self.body.op("stmatrix.sync.aligned.m8n8.x").n(srcs.len() as i64).s(".shared.b16 ");
                self.at(to);
                self.body.s(", ").braced(&srcs).end();
            }
            // A sleep of no time: the cheapest instruction over which ptxas moves no wait.
            Unit::Hold => self.body.op("nanosleep.u32 0").end(),
            Unit::FenceMatrices => self.body.op("wgmma.fence.sync.aligned").end(),
            Unit::Multiply(m) => return self.multiply(m),
            Unit::CommitMatrices => {
                self.multiplies = true;
                self.body.op("wgmma.commit_group.sync.aligned").end();
            }
            Unit::WaitMatrices { pending } => {
                self.multiplies &= *pending > 0;
                self.body.op("wgmma.wait_group.sync.aligned ").n(*pending).end();
            }
            Unit::NamedBarrier { id, warps, wait } => {
                let id = self.named + id;
                if id > 15 {
                    return Err(EmitError::TooLarge { what: Limit::Barriers, need: (id + 1).into(), have: 16, target: self.target.name });
                }
                self.body.op(if *wait { "bar.sync " } else { "bar.arrive " }).n(id).s(", ").n(warps * 32).end();
            }
            Unit::Turn { groups, end, .. } => self.turn(*groups, *end),
            Unit::ClusterArrive { relaxed } => {
                let together = self.together();
                self.body.op("barrier.cluster.arrive.").s(if *relaxed { "relaxed" } else { "release" }).s(together).end();
            }
            Unit::ClusterWait => {
                let together = self.together();
                self.body.op("barrier.cluster.wait.acquire").s(together).end();
            }
            Unit::Remote { dst, place, rank } => self.remote(*dst, place, *rank),
            Unit::RemoteLoad { dsts, from } => {
                self.reaches = true;
                self.load_vector("ld.shared::cluster", dsts, from.addr, from.offset, None);
            }
            Unit::RemoteStore { srcs, to, guard } => {
                self.reaches = true;
                self.store("st.shared::cluster", srcs, to.addr, to.offset, *guard);
            }
            Unit::RemoteStoreAsync { srcs, to, barrier, guard } => {
                let srcs: SmallVec<[Reg; 4]> = srcs.iter().map(|&v| self.reg(v)).collect();
                if self.start(*guard, "st.async.shared::cluster.mbarrier::complete_tx::bytes") {
                    self.body.s(["", ".v2", ".v4"][srcs.len().ilog2() as usize]);
                    self.body.s(if srcs[0].0 == Class::F { ".f32 " } else { ".b32 " });
                    self.at(to);
                    self.body.s(", ");
                    match srcs[..] {
                        [r] => self.body.r(r),
                        _ => self.body.braced(&srcs),
                    };
                    self.body.s(", ");
                    self.at(barrier);
                    self.body.end();
                }
            }
            Unit::RemoteArrive { barrier, guard } => {
                let scope = if self.handed_over { "release.cluster." } else { "" };
                if self.start(*guard, &format!("mbarrier.arrive.{scope}shared::cluster.b64 _, ")) {
                    self.at(barrier);
                    self.body.end();
                }
            }
        }
        Ok(())
    }

    /// How warps come to a barrier of the cluster: together, but where one lane of them is left.
    fn together(&self) -> &'static str {
        if self.role.is_some_and(|r| r.single) { "" } else { ".aligned" }
    }

    /// The address of a place in another block.
    fn remote(&mut self, dst: LVal, place: &Place, rank: LVal) {
        let Address { base, offset } = self.defs.address(place.addr, place.offset);
        let mut at = match base {
            Base::Value(v) => self.reg(v),
            Base::Shared => self.load(Top::Shared(0)),
        };
        if offset != 0 {
            let sum = self.fresh(Class::R);
            self.body.op("add.s32 ").r(sum).then(at).s(", ").n(offset).end();
            at = sum;
        }
        let (rank, home) = (self.operand(rank), self.home(dst));
        self.body.op("mapa.shared::cluster.u32 ").r(home).then(at).s(", ").o(rank).end();
    }

    /// One barrier per group, by branches over the group's number.
    fn group_barrier(&mut self, warps: u32) {
        let (all, first) = self.role.map_or((self.program.warps, 0), |r| (r.warps, r.barrier));
        if warps == all {
            self.barrier();
            return;
        }
        let replicas = self.role.and_then(|r| r.replicas);
        let warp = match (self.role, replicas) {
            (_, Some(r)) => Opnd::Reg(r.warp),
            (Some(_), None) => self.role_warp(),
            (None, None) => Opnd::Reg(self.load(Top::UniformWarp)),
        };
        let (count, stride, barriers) = replicas.map_or((1, 0, 0), |r| (r.count, r.stride, r.barriers));
        let of = |k: u32, g: u32| [k * stride + (g + 1) * warps, first + k * barriers + 1 + g];
        let each: Vec<[u32; 2]> = (0..count).flat_map(|k| (0..all / warps).map(move |g| of(k, g))).collect();
        self.barrier_by_warp(warp, warps, &each);
    }

    fn multiply(&mut self, m: &Multiply) -> Result<(), EmitError> {
        let row: &GroupMatrix = match &self.target.units {
            Some(u) => &u.matrix[m.instr.as_u32() as usize],
            None => return Err(EmitError::Unsupported(NoText::GroupMatrix)),
        };
        let accumulate = m.accumulate.map(|p| self.operand(p)).unwrap_or(Opnd::Imm(Class::P, 1));
        let a: SmallVec<[Reg; 4]> = match &m.a {
            OperandA::Shared(o) => SmallVec::from_slice(&[self.descriptor(o)]),
            OperandA::Regs(words) => words.iter().map(|&v| self.reg(v)).collect(),
        };
        let b = self.descriptor(&m.b);
        let c: Vec<Reg> = m.c.iter().map(|&v| self.reg(v)).collect();
        let d: Vec<Reg> = m.dsts.iter().map(|&v| self.home(v)).collect();
        // The instruction has one list for C and D: where they could not share registers, C is copied first.
        let mut copied = false;
        for (&from, &to) in c.iter().zip(&d).filter(|(from, to)| from != to) {
            self.body.op(to.0.mov()).r(to).then(from).end();
            copied = true;
        }
        // The fence in front of the products does not cover what is written behind it.
        if copied {
            self.body.op("wgmma.fence.sync.aligned").end();
        }
        self.body.op("wgmma.mma_async.sync.aligned.m").n(row.m).s("n").n(m.n).s("k").n(row.k).s(".").s(row.name).s(" ");
        self.body.braced(&d).s(", ");
        match &m.a {
            OperandA::Shared(_) => self.body.r(a[0]),
            OperandA::Regs(_) => self.body.braced(&a),
        };
        self.body.then(b).s(", ").o(accumulate);
        if row.acc.is_float() {
            self.body.s(", 1, 1");
        }
        if row.any_order {
            let left = if let OperandA::Shared(o) = &m.a { Some(o) } else { None };
            for o in left.into_iter().chain([&m.b]) {
                self.body.s(if o.atoms.along_k { ", 0" } else { ", 1" });
            }
        }
        self.body.end();
        Ok(())
    }

    /// Writes what is there once more into registers of operand A, in a way that the assembler can't see through.
    pub(super) fn renew(&mut self, renewal: &Renewal) {
        let zero = self.load(Top::Zero);
        if renewal.wait {
            self.body.op("wgmma.wait_group.sync.aligned 0").end();
        }
        let mut done: SmallVec<[Reg; 16]> = SmallVec::new();
        for &w in &renewal.words {
            let r = self.reg(w);
            if !done.contains(&r) {
                done.push(r);
                self.body.op("xor.b32 ").r(r).then(r).then(zero).end();
            }
        }
        if renewal.fence {
            self.body.op("wgmma.fence.sync.aligned").end();
        }
    }

    /// The descriptor of an operand.
    fn descriptor(&mut self, o: &GroupOperand) -> Reg {
        let SwizzleAtoms { swizzle, along_k, stride } = o.atoms;
        // Along K the distance of atoms is not looked at: an instruction stays inside one.
        let lead = if along_k { 1 } else { stride / 16 };
        let Address { base, offset } = self.defs.address(o.at.addr, o.at.offset);
        let in_cluster = self.program.cluster > 1;
        let shift = |e: &mut Self, from: Reg, w: Reg| {
            // An address in a cluster has the block's rank in its upper bits, where the distance of atoms stands in the descriptor.
            if in_cluster {
                e.body.op("bfe.u32 ").r(w).then(from).s(", 4, 14").end();
            } else {
                e.body.op("shr.u32 ").r(w).then(from).s(", 4").end();
            }
            e.body.op("or.b32 ").r(w).then(w).s(", ").n(lead << 16).end();
        };
        let low = match base {
            Base::Value(v) => {
                let r = self.reg(v);
                self.derive(v, DESCRIPTOR + lead, Class::R, |e, w| shift(e, r, w))
            }
            Base::Shared => {
                let (start, w) = (self.load(Top::Shared(0)), self.fresh(Class::R));
                shift(self, start, w);
                w
            }
        };
        let mut word = low;
        if offset != 0 {
            word = self.fresh(Class::R);
            self.body.op("add.s32 ").r(word).then(low).s(", ").n(offset / 16).end();
        }
        let mode: u32 = match swizzle {
            128 => 1,
            64 => 2,
            _ => 3,
        };
        // Eight rows on.
        let high = mode << 30 | (8 * swizzle / 16);
        let d = self.fresh(Class::D);
        let high = self.load(Top::Const(Class::R, u64::from(high)));
        self.body.op("mov.b64 ").r(d).s(", ").braced(&[word, high]).end();
        d
    }
}

/// Barriers of a role and of its groups. Warps that only change their registers meet nobody.
fn barriers(role: &Role) -> u32 {
    let own = u32::from(!role.body.is_empty() || role.registers.is_none());
    own + groups(&role.body).map_or(0, |warps| role.warps / warps)
}

/// Warps of the groups whose barriers a block has.
fn groups(block: &Block) -> Option<u32> {
    block.iter().find_map(|i| match i {
        Inst::Unit(u) => match &**u {
            Unit::GroupBarrier { warps } => Some(*warps),
            _ => None,
        },
        Inst::For(l) => groups(&l.body),
        Inst::While(l) => groups(&l.test).or_else(|| groups(&l.body)),
        Inst::If(c) => groups(&c.then).or_else(|| groups(&c.otherwise)),
        _ => None,
    })
}
