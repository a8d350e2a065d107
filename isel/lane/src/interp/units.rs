//! Asynchronous units, as late as they may be: a bulk copy lands when somebody waits for its mbarrier, and what a multiplication or
//! a bulk store reads stays locked until the wait that covers it. Results of multiplications are computed at once, but count as unready.

use super::super::unit::{GroupOperand, Multiply, OperandA, Unit};
use super::error::LaneFault;
use super::machine::{Interpreter, Trap};
use super::ops;
use super::shared::Lock;
use crate::abi::{ParamValue, TensorMap};
use crate::interp::unit_state::{Flight, MbarrierState, UNDEFINED};
use crate::machine::GroupMatrix;
use crate::op::Reduction;
use crate::value::{LTy, LVal, Place, Space, Vals};
use cranelift_entity::EntityRef;
use std::ops::Range;
use tilelift_ir::layout::FragmentMap;
use tilelift_ir::{AtomicOp, Precision, Scalar, num};

/// Where a byte of a swizzled tile lies: chunks of 16 bytes are swizzled by the bits of the address above.
fn swizzled(swizzle: u32, at: usize) -> usize {
    if swizzle == 0 {
        return at;
    }
    at ^ (at >> 3 & ((swizzle as usize / 16 - 1) << 4))
}

impl Interpreter<'_> {
    pub(super) fn place(&self, p: &Place, thread: usize) -> Result<usize, Trap> {
        let at = self.addr(p.addr, p.offset, thread);
        let len = self.code.shared_bytes as usize;
        match usize::try_from(at) {
            Ok(at) if at < len => Ok(at),
            Ok(_) | Err(_) => Err((LaneFault::Outside { space: Space::Shared, addr: at as u64, bytes: 1 }, thread)),
        }
    }

    /// The place of an mbarrier, the same in all threads.
    fn mbarrier_place(&self, p: &Place) -> Result<usize, Trap> {
        self.uniform(p.addr)?;
        let at = self.place(p, 0)?;
        if at.is_multiple_of(8) { Ok(at) } else { Err((LaneFault::Misaligned { space: Space::Shared, addr: at as u64, bytes: 8 }, 0)) }
    }

    /// True if a wait passes; copies that it waits for land now.
    pub(super) fn passes(&mut self, barrier: &Place, parity: LVal) -> Result<bool, Trap> {
        let at = self.mbarrier_place(barrier)?;
        let parity = self.uniform(parity)?;
        if self.units.mbarrier(at).map_err(|f| (f, 0))?.over(parity) {
            self.shared.barrier();
            return Ok(true);
        }
        let (landing, rest): (Vec<Flight>, Vec<Flight>) =
            std::mem::take(&mut self.units.flights).into_iter().partition(|f| f.mbarrier == at);
        self.units.flights = rest;
        for f in landing {
            // A store of few bytes from another block is ordinary data, but in order for those who wait.
            self.shared.bulk_land(f.to, &f.data);
            let mbarrier = self.units.mbarrier(at).map_err(|f| (f, 0))?;
            mbarrier.bytes -= i64::from(f.counts);
            mbarrier.end_phase();
        }
        let over = self.units.mbarrier(at).map_err(|f| (f, 0))?.over(parity);
        if over {
            // What came before the arrivals comes before this.
            self.shared.barrier();
        }
        Ok(over)
    }

    /// Why a wait does not pass.
    pub(super) fn stuck(&self, barrier: &Place, parity: LVal) -> LaneFault {
        let at = self.place(barrier, 0).unwrap_or_default();
        let parity = self.reg(parity).first().copied().unwrap_or(0);
        self.unready.set(false);
        let (phase, missing) = self.units.mbarriers.get(&at).map_or((0, (0, 0)), |w| (w.phase, (w.pending, w.bytes)));
        LaneFault::Deadlock { mbarrier: at as u64, parity, phase, missing }
    }

    /// Nothing may use the shared memory of a program that has ended.
    pub(super) fn nothing_under_way(&self) -> Result<(), LaneFault> {
        match self.shared.locked() {
            _ if !self.units.flights.is_empty() => Err(LaneFault::UnderWay("bulk loads are")),
            Some(Lock::Matrices(_)) => Err(LaneFault::UnderWay("multiplications are")),
            Some(Lock::Stores(..)) => Err(LaneFault::UnderWay("bulk stores are")),
            None => Ok(()),
        }
    }

    fn tensor(&self, map: u32) -> Result<TensorMap, Trap> {
        match self.params.get(map as usize) {
            Some(ParamValue::Tensor(t)) => Ok(t.clone()),
            Some(ParamValue::Number { .. }) | None => Err((LaneFault::Malformed("a launch parameter that describes no tensor"), 0)),
        }
    }

    /// The threads for which a guard holds.
    pub(super) fn guarded(&self, guard: Option<LVal>) -> Vec<usize> {
        (0..self.count()).filter(|&t| self.active(guard, t)).collect()
    }

    pub(super) fn unit(&mut self, u: &Unit) -> Result<(), Trap> {
        self.shared.next_step();
        match u {
            Unit::InitBarrier { barrier, count, guard } => {
                for t in self.guarded(*guard) {
                    let at = self.place(barrier, t)?;
                    if self.units.mbarriers.insert(at, MbarrierState { count: *count, pending: *count, bytes: 0, phase: 0 }).is_some() {
                        return Err((LaneFault::Mbarrier { addr: at as u64, problem: "is made twice" }, t));
                    }
                }
                Ok(())
            }
            Unit::PublishBarriers | Unit::AwaitPrevious | Unit::FenceMatrices | Unit::PrefetchMap { .. } => Ok(()),
            Unit::Arrive { barrier, guard } => {
                for t in self.guarded(*guard) {
                    let at = self.place(barrier, t)?;
                    self.units.arrive(at, 0).map_err(|f| (f, t))?;
                }
                Ok(())
            }
            Unit::ArriveExpect { barrier, bytes, guard } => {
                for t in self.guarded(*guard) {
                    let at = self.place(barrier, t)?;
                    self.units.arrive(at, *bytes).map_err(|f| (f, t))?;
                }
                Ok(())
            }
            Unit::ArriveCopies { barrier } => self.arrive_copies(barrier),
            // The task has seen to it.
            Unit::Wait { .. } => Ok(()),
            Unit::BulkLoad { map, to, at, barrier, ranks, guard } => {
                for t in self.guarded(*guard) {
                    self.bulk_load(*map, [to, barrier], at, *ranks, t)?;
                }
                Ok(())
            }
            Unit::BulkStore { map, from, at, reduce, guard } => {
                for t in self.guarded(*guard) {
                    self.bulk_store(*map, from, at, *reduce, t)?;
                }
                Ok(())
            }
            Unit::CommitStores { guard } => {
                for t in self.guarded(*guard) {
                    *self.units.stores.entry(self.number(t)).or_default() += 1;
                }
                Ok(())
            }
            Unit::WaitStoresRead { pending, guard } => {
                for t in self.guarded(*guard) {
                    let who = self.number(t);
                    let closed = self.units.stores.get(&who).copied().unwrap_or(0);
                    let over = closed.saturating_sub(u64::from(*pending));
                    self.shared.unlock(|l| matches!(l, Lock::Stores(w, n) if w == who && n < over));
                }
                Ok(())
            }
            Unit::Hold | Unit::FenceGlobal => Ok(()),
            Unit::FenceUnits => {
                for t in 0..self.count() {
                    self.shared.fence(self.number(t));
                }
                Ok(())
            }
            Unit::GroupBarrier { .. } => {
                self.shared.barrier();
                self.stats.barriers += 1;
                Ok(())
            }
            Unit::StoreMatrix { srcs, to } => self.store_matrix(srcs, to),
            Unit::Multiply(m) => self.multiply(m),
            // The task has seen to them, too.
            // Groups go together here.
            Unit::Turn { .. } => Ok(()),
            Unit::NamedBarrier { .. } | Unit::ClusterArrive { .. } | Unit::ClusterWait => Ok(()),
            Unit::Remote { .. }
            | Unit::RemoteLoad { .. }
            | Unit::RemoteStore { .. }
            | Unit::RemoteStoreAsync { .. }
            | Unit::RemoteArrive { .. } => self.remote(u),
            Unit::CommitMatrices => {
                self.units.closed += 1;
                let id = self.units.closed;
                self.units.open.entry(self.live.start).or_default().push(id);
                Ok(())
            }
            Unit::WaitMatrices { pending } => {
                let open = self.units.open.entry(self.live.start).or_default();
                let over = open.len().saturating_sub(*pending as usize);
                open.drain(..over);
                let units = &self.units;
                self.shared.unlock(|l| matches!(l, Lock::Matrices(n) if units.done(n)));
                Ok(())
            }
        }
    }

    /// What the running threads have begun to copy lands before the mbarrier's phase ends.
    fn arrive_copies(&mut self, barrier: &Place) -> Result<(), Trap> {
        let at = self.mbarrier_place(barrier)?;
        let threads: Vec<usize> = (0..self.count()).map(|t| self.number(t)).collect();
        for (to, data) in self.shared.hand_over(|thread| threads.contains(&thread)) {
            let counts = data.len() as u32;
            self.units.mbarrier(at).map_err(|f| (f, 0))?.bytes += i64::from(counts);
            self.units.flights.push(Flight { mbarrier: at, to, data, counts });
        }
        Ok(())
    }

    /// Calls `f` with the number of every element of a box, its byte in the swizzled tile, and its global address if it is inside the tensor.
    fn walk_box(
        &mut self,
        t: &TensorMap,
        at: &[i64],
        mut f: impl FnMut(&mut Self, usize, Option<u64>) -> Result<(), LaneFault>,
    ) -> Result<(), LaneFault> {
        let size = t.elem.bytes() as usize;
        let elements: u32 = t.box_extents.iter().product();
        for e in 0..elements {
            let mut rest = e;
            let (mut inside, mut offset) = (true, 0);
            for (d, &extent) in t.box_extents.iter().enumerate() {
                let here = at[d] + i64::from(rest % extent);
                rest /= extent;
                inside &= here >= 0 && (here as u64) < t.extents[d];
                offset += here as u64 as u128 * if d == 0 { size as u128 } else { u128::from(t.strides[d - 1]) };
            }
            f(self, e as usize * size, inside.then(|| t.base + offset as u64))?;
        }
        Ok(())
    }

    fn bulk_load(&mut self, map: u32, [to, barrier]: [&Place; 2], at: &Vals, ranks: Option<LVal>, thread: usize) -> Result<(), Trap> {
        let t = self.tensor(map)?;
        let (to, mbarrier) = (self.place(to, thread)?, self.place(barrier, thread)?);
        let ranks = match ranks {
            Some(r) => self.reg(r)[thread],
            None => 1 << self.rank,
        };
        if ranks == 0 || ranks >> self.blocks() != 0 {
            return Err((LaneFault::ClusterRank { rank: ranks.ilog2().into(), size: self.blocks() as u32 }, thread));
        }
        let at: Vec<i64> = at.iter().map(|&v| self.reg(v)[thread] as i64).collect();
        let size = t.elem.bytes() as usize;
        let bytes = t.box_extents.iter().product::<u32>() * t.elem.bytes();
        // Rows of eight repeat the swizzle: atoms start there. Without one, units want as much as the narrowest line.
        let align = (8 * t.swizzle as usize).max(128);
        if !to.is_multiple_of(align) {
            return Err((LaneFault::Misaligned { space: Space::Shared, addr: to as u64, bytes: align }, 0));
        }
        let mut data = vec![0; bytes as usize];
        let done = self.walk_box(&t, &at, |m, byte, from| {
            if let Some(from) = from {
                let to = swizzled(t.swizzle, byte);
                m.global.read(from, &mut data[to..to + size])?;
                m.stats.global_read += size as u64;
                if t.tf32 {
                    let bits = u32::from_le_bytes([data[to], data[to + 1], data[to + 2], data[to + 3]]);
                    // To nearest, ties to even, as the copy units do it; a NaN stays one.
                    let nearest =
                        if f32::from_bits(bits).is_nan() { f32::NAN.to_bits() } else { (bits + 0xfff + (bits >> 13 & 1)) & !0x1fff };
                    data[to..to + 4].copy_from_slice(&nearest.to_le_bytes());
                }
            }
            Ok(())
        });
        done.map_err(|f| (f, thread))?;
        for rank in (0..self.blocks()).filter(|r| ranks >> r & 1 == 1) {
            let data = data.clone();
            self.in_block(rank, |m| {
                m.shared.next_step();
                m.shared.bulk_start(to..to + bytes as usize)?;
                m.units.mbarrier(mbarrier)?;
                m.units.flights.push(Flight { mbarrier, to, data, counts: bytes });
                Ok(())
            })
            .map_err(|f| (f, thread))?;
            self.stats.shared_written += u64::from(bytes);
            self.stats.copied += u64::from(bytes);
        }
        Ok(())
    }

    fn bulk_store(&mut self, map: u32, from: &Place, at: &Vals, reduce: Option<Reduction>, thread: usize) -> Result<(), Trap> {
        let t = self.tensor(map)?;
        let start = self.place(from, thread)?;
        let at: Vec<i64> = at.iter().map(|&v| self.reg(v)[thread] as i64).collect();
        let size = t.elem.bytes() as usize;
        let who = self.who(thread);
        let mut data = [0; 8];
        self.walk_box(&t, &at, |m, byte, to| {
            m.shared.unit_read(who, start + swizzled(t.swizzle, byte), &mut data[..size])?;
            if let Some(to) = to {
                if let Some(r) = reduce {
                    let mut old = [0; 8];
                    m.global.read(to, &mut old[..size])?;
                    let new = combined(r, t.elem, u64::from_le_bytes(old), u64::from_le_bytes(data))?;
                    data = new.to_le_bytes();
                }
                m.global.write(to, &data[..size])?;
                m.stats.global_written += size as u64;
            }
            Ok(())
        })
        .map_err(|f| (f, thread))?;
        let bytes = t.box_extents.iter().product::<u32>() as usize * size;
        let group = self.units.stores.get(&who.thread).copied().unwrap_or(0);
        self.shared.lock(start..start + bytes, Lock::Stores(who.thread, group));
        Ok(())
    }

    fn store_matrix(&mut self, srcs: &Vals, to: &Place) -> Result<(), Trap> {
        for first in (0..self.count()).step_by(self.lanes) {
            for (q, &v) in srcs.iter().enumerate() {
                for row in 0..8 {
                    let at = self.place(to, first + 8 * q + row)?;
                    for column in 0..4 {
                        let thread = first + 4 * row + column;
                        let word = self.reg(v)[thread] as u32;
                        let who = self.who(thread);
                        self.shared.write(who, (at + 4 * column) as i64, &word.to_le_bytes()).map_err(|f| (f, thread))?;
                        self.stats.shared_written += 4;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads an operand of a group: `rows` along M or N, `depth` along K; row-major.
    fn operand(
        &mut self,
        row: &GroupMatrix,
        (o, elem): (&GroupOperand, Scalar),
        rows: u32,
        thread: usize,
        out: &mut Vec<f64>,
    ) -> Result<(), Trap> {
        let start = self.place(&o.at, thread)?;
        let size = elem.bytes();
        let swizzle = o.atoms.swizzle;
        let per = swizzle / size;
        let who = self.who(thread);
        out.clear();
        let group = Lock::Matrices(self.units.closed + 1);
        for m in 0..rows {
            for k in 0..row.k {
                let at = if o.atoms.along_k {
                    start as u32 + m * swizzle + k * size
                } else {
                    start as u32 + m / per * o.atoms.stride + k * swizzle + m % per * size
                };
                let mut raw = [0; 8];
                let at = swizzled(swizzle, at as usize);
                self.shared.unit_read(who, at, &mut raw[..size as usize]).map_err(|f| (f, thread))?;
                out.push(number(u64::from_le_bytes(raw), elem, row.precision));
            }
        }
        let lock = |at: u32, len: u32| at as usize..(at + len) as usize;
        if o.atoms.along_k {
            // Of each swizzled row a part is read; the row is locked as a whole.
            self.shared.lock(lock(start as u32 / (8 * swizzle) * (8 * swizzle), rows * swizzle), group);
        } else {
            for p in 0..rows.div_ceil(per) {
                self.shared.lock(lock(start as u32 + p * o.atoms.stride, row.k * swizzle), group);
            }
        }
        Ok(())
    }

    /// Collects an operand A that a group of threads holds in registers; row-major.
    fn fragment_a(&mut self, row: &GroupMatrix, words: &Vals, threads: Range<usize>, out: &mut Vec<f64>) -> Result<(), Trap> {
        let Some(map) = &row.a else { return Err((LaneFault::Malformed("an operand A in registers"), 0)) };
        let bits = row.operand.bits();
        let per_word = (32 / bits).max(1);
        out.clear();
        out.resize((row.m * row.k) as usize, 0.0);
        for t in threads.clone() {
            let (lane, warp) = (t % self.lanes, (t - threads.start) / self.lanes);
            for e in 0..1u32 << map.reg.len() {
                let word = self.reg(words[(e / per_word) as usize])[t];
                let at = fragment_place(map, e as usize, lane, warp);
                let code = word >> (e % per_word * bits);
                out[(at[0] * row.k + at[1]) as usize] = number(code, row.operand, row.precision);
            }
        }
        Ok(())
    }

    fn multiply(&mut self, m: &Multiply) -> Result<(), Trap> {
        let target = self.target;
        let Some((row, units)) = target.units.as_ref().and_then(|u| Some((u.matrix.get(m.instr.index())?, u))) else {
            return Err((LaneFault::Malformed("a multiplication that the target lacks"), 0));
        };
        let accumulate = match m.accumulate {
            Some(p) => self.uniform(p)? != 0,
            None => true,
        };
        if accumulate && m.c.iter().any(|&v| self.units.state(v) == UNDEFINED) {
            return Err((LaneFault::NotReady, 0));
        }
        let group = units.group_warps as usize * self.lanes;
        let per = 1usize << row.d.reg.len();
        let start = self.live.start;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let mut columns: Vec<Vec<u64>> = m.dsts.iter().map(|&v| self.take(v)).collect();
        for first in (0..self.count()).step_by(group) {
            let left = if let OperandA::Shared(o) = &m.a { Some(o) } else { None };
            for o in left.into_iter().chain([&m.b]) {
                let here = self.addr(o.at.addr, o.at.offset, first);
                if let Some(t) = (first..first + group).find(|&t| self.addr(o.at.addr, o.at.offset, t) != here) {
                    return Err((LaneFault::Divergent { first: here as u64, here: self.addr(o.at.addr, o.at.offset, t) as u64 }, t));
                }
            }
            match &m.a {
                OperandA::Shared(o) => self.operand(row, (o, row.operand), row.m, first, &mut a)?,
                OperandA::Regs(words) => self.fragment_a(row, words, first..first + group, &mut a)?,
            }
            self.operand(row, (&m.b, row.operand_b), m.n, first, &mut b)?;
            let k = row.k as usize;
            for t in first..first + group {
                let (lane, warp) = (t % self.lanes, (t - first) / self.lanes);
                for (i, column) in columns.iter_mut().enumerate() {
                    let [r, c] = fragment_place(&row.d, i % per, lane, warp);
                    let c = c as usize + i / per * row.d.shape[1] as usize;
                    let sum: f64 = a[r as usize * k..][..k].iter().zip(&b[c * k..][..k]).map(|(x, y)| x * y).sum();
                    let before = if accumulate { self.regs[m.c[i].index()][start + t] } else { 0 };
                    let sum = sum + number(before, row.acc, Precision::Exact);
                    column[start + t] = if row.acc.is_float() {
                        num::to_bits(num::round(sum, row.acc), row.acc)
                    } else {
                        num::wrap(sum as i64, row.acc) as u64
                    };
                }
            }
        }
        let state = self.units.closed + 1;
        for (&v, column) in m.dsts.iter().zip(columns) {
            self.regs[v.index()] = column;
            self.units.set_state(v, state);
        }
        self.stats.matrices += (self.count() / group) as u64;
        Ok(())
    }
}

/// What a reduction leaves of two elements, as bits.
fn combined(r: Reduction, elem: Scalar, old: u64, new: u64) -> Result<u64, LaneFault> {
    let ty = LTy::Num(elem);
    if elem.is_float() {
        let (x, y) = (num::from_bits(old, elem), num::from_bits(new, elem));
        let z = match r {
            Reduction::Add => x + y,
            Reduction::Minimum => x.min(y),
            Reduction::Maximum => x.max(y),
            Reduction::And | Reduction::Or | Reduction::Xor => return Err(LaneFault::Malformed("a reduction of floats by bits")),
        };
        return Ok(num::to_bits(num::round(z, elem), elem));
    }
    let op = match r {
        Reduction::Add => AtomicOp::Add,
        Reduction::Minimum => AtomicOp::Min,
        Reduction::Maximum => AtomicOp::Max,
        Reduction::And => AtomicOp::And,
        Reduction::Or => AtomicOp::Or,
        Reduction::Xor => AtomicOp::Xor,
    };
    ops::update(op, ty, ops::extend(old, ty), ops::extend(new, ty))
}

/// Row and column of a register of a lane.
fn fragment_place(map: &FragmentMap, reg: usize, lane: usize, warp: usize) -> [u32; 2] {
    let mut at = [0u32, 0];
    for (x, list) in [(reg, &map.reg), (lane, &map.lane), (warp, &map.warp)] {
        for (_, c) in list.iter().enumerate().filter(|(i, _)| x >> i & 1 == 1) {
            (at[0], at[1]) = (at[0] ^ c[0], at[1] ^ c[1]);
        }
    }
    at
}

/// The number behind bits.
fn number(bits: u64, elem: Scalar, precision: Precision) -> f64 {
    let bits = bits & u64::MAX >> (64 - elem.bits());
    match (elem, precision) {
        (Scalar::F32, Precision::Tf32) => num::round_tf32(f64::from(f32::from_bits(bits as u32))),
        _ if elem.is_float() => num::from_bits(bits, elem),
        _ => num::wrap(bits as i64, elem) as f64,
    }
}
